"""Credit per turn: what each turn's tokens are worth, in place of one number for the whole episode.

A turn is worth what it and the later turns earned, less a baseline: what the other members of the group earned from
the same state of progress on. State of progress: the rubric steps satisfied before the turn. docs/credit.md has the
derivation; it rests on two things that the code must keep:

- nothing of an episode's own goes into its baseline (leave-one-out), so that the policy gradient stays unbiased;
- what a turn earned changes its own advantage and those of earlier turns, never of later ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

State = frozenset[str]


@dataclass(frozen=True, slots=True)
class Earnings:
    """One episode of a group. increments: what each turn earned. earned: rubric step -> turn that satisfied it."""

    increments: tuple[float, ...]
    earned: Mapping[str, int]

    def state(self, turn: int) -> State:
        """The steps satisfied before `turn`."""
        return frozenset(step for step, when in self.earned.items() if when < turn)

    @property
    def to_go(self) -> list[float]:
        """For each turn what it and the later ones earned."""
        return list(accumulate(reversed(self.increments)))[::-1]


def turn_advantages(group: Sequence[Earnings | None]) -> list[list[float]]:
    """For each member of a group the advantage of each of its turns, in units of reward; none for a member without one.

    A member that is alone with its reward has nothing to be compared with: all 0.
    """
    values = [_first_values(member) if member else None for member in group]
    made: list[list[float]] = []
    for index, member in enumerate(group):
        others = [value for place, value in enumerate(values) if value is not None and place != index]
        if member is None:
            made.append([])
        elif not others:
            made.append([0.0] * len(member.increments))
        else:
            baselines = [_baseline(member.state(turn), others) for turn in range(len(member.increments))]
            made.append([gain - level for gain, level in zip(member.to_go, baselines, strict=True)])
    return made


def _first_values(member: Earnings) -> dict[State, float]:
    """What the episode earned from the first time on that it was in each state."""
    values: dict[State, float] = {}
    for turn, gain in enumerate(member.to_go):
        values.setdefault(member.state(turn), gain)
    return values


def _baseline(state: State, others: Sequence[Mapping[State, float]]) -> float:
    """The mean over the others that were in this state; where none was, in the furthest one on the way to it.

    Everybody has been in the empty state, so there always is one.
    """
    reached = [each for value in others for each in value if each <= state]
    furthest = max(reached, key=lambda each: (len(each), sorted(each)))
    return fmean(value[furthest] for value in others if furthest in value)
