"""What a reward says about one trajectory: a total, named parts, and what each turn earned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any


class Breach(StrEnum):
    """A dishonest act, as opposed to honest work left unfinished."""

    UNGROUNDED_VALUE = "ungrounded_value"  # an argument that the rubric marks as derived came from nowhere
    WRONG_PERSON = "wrong_person"  # a real id of somebody else
    WRONG_PERIOD = "wrong_period"  # dates other than those asked for
    UNGROUNDED_ANSWER = "ungrounded_answer"  # a checked fact of the answer that no result showed
    WRONG_ANSWER = "wrong_answer"  # a checked fact that contradicts the reference
    FORBIDDEN_CALL = "forbidden_call"  # a call that the task rules out


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach with its evidence. `call` is None where the answer is meant."""

    breach: Breach
    turn: int
    call: int | None
    value: str


@dataclass(frozen=True, slots=True)
class Score:
    """`sum(increments) == total` exactly; `increments[t]` is what turn t earned, the outcome included in the last.

    total: in [0, 1]. parts: name -> share of the total (they need not add up: see the reward's docstring).
    success: the task is done by the right path. clean: success without one wasted call (then total == 1.0).
    earned: id of each rubric step that was satisfied -> index of the turn that did it, in the order of the calls.
    """

    total: float
    parts: Mapping[str, float]
    increments: tuple[float, ...]
    success: bool
    clean: bool
    earned: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()

    @property
    def satisfied(self) -> tuple[str, ...]:
        """Ids of the rubric's steps that were earned, in the order in which that happened."""
        return tuple(self.earned)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def folded(score: Score, turns: Sequence[int]) -> Score:
    """A score of an unfolded trajectory in terms of the turns that it had. turns: see env.provenance.Unfolded."""
    own: dict[int, float] = {}
    for turn, increment in zip(turns, score.increments, strict=True):
        own[turn] = own.get(turn, 0.0) + increment
    return replace(
        score,
        increments=tuple(own.values()),
        earned={id: turns[turn] for id, turn in score.earned.items()},
        violations=tuple(replace(each, turn=turns[each.turn]) for each in score.violations),
    )
