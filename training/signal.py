"""Why a group of rollouts teaches nothing: all its members were worth the same. The reason is what to mend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from env.types import AttemptStatus, Trajectory
from rewards.score import Score


class Silence(StrEnum):
    """Reasons, the first that holds is given. The text after the name says what helps."""

    INFRASTRUCTURE = "infrastructure"  # no member has a reward: mend the tools
    TRUNCATED = "truncated"  # all ran out of turns or tokens: raise the budget, or shorten what tools return
    UNREADABLE = "unreadable"  # all wrote calls that could not be read, and none that could: warm-start on the format
    NO_CALL = "no_call"  # a task that needs tools, and nobody called one: warm-start, or raise the temperature
    ALL_RIGHT = "all_right"  # learned: nothing to do, or harder rows
    ALL_WRONG = "all_wrong"  # too hard, or the policy is too sure of itself: easier rows, or raise the temperature


@dataclass(frozen=True, slots=True)
class Member:
    """What of one rollout decides on the reason. total: None without a reward."""

    row: str
    total: float | None
    success: bool
    truncated: bool
    readable: int  # calls that could be read
    unreadable: int


def member(row: str, trajectory: Trajectory, score: Score | None) -> Member:
    """row: id of the row."""
    readable = sum(step.attempt is AttemptStatus.OK for step in trajectory.steps)
    return Member(
        row,
        score.total if score else None,
        bool(score and score.success),
        trajectory.stop.truncated,
        readable,
        len(trajectory.steps) - readable,
    )


def silence(group: Sequence[Member]) -> Silence | None:
    """Why this group has no gradient; None where it has one. A group of one known reward has none either."""
    known = [each for each in group if each.total is not None]
    if len({each.total for each in known}) > 1:
        return None
    if not known:
        return Silence.INFRASTRUCTURE
    if all(each.success for each in known):
        return Silence.ALL_RIGHT
    if all(each.truncated for each in known):
        return Silence.TRUNCATED
    if any(each.readable for each in known):
        return Silence.ALL_WRONG
    return Silence.UNREADABLE if all(each.unreadable for each in known) else Silence.NO_CALL
