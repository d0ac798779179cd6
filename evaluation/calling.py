"""How well tools are called: by the task's rubric, whatever came of the episode.

A call is *right* where the oracle's path has it: one of the rubric's steps asks for its tool, and every argument that
the step names has an accepted value. A step asks once, so a second successful call of it is not right; one that failed
may be made again. Arguments that the step does not name are not looked at. Where the value of an argument came from is
the reward's business, not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from env.provenance import PLAN, call_arguments
from env.registry import NOT_REGISTERED
from env.types import AttemptStatus, ErrorCode, Step, Trajectory
from evaluation.intervals import clustered_rate
from evaluation.record import Record
from evaluation.stats import fault_of
from rewards.rubric import Comparison, Rubric, RubricStep


@dataclass(frozen=True, slots=True)
class Given:
    """One argument that a call should have: whether it was given an accepted value."""

    tool: str
    argument: str
    right: bool


@dataclass(frozen=True, slots=True)
class Called:
    """What the calls of one episode amount to.

    calls: (tool, whether it was right) of each, in order; a tool that does not exist is NOT_REGISTERED. given: the
    arguments of the readable calls of tools that the task needs. dependent: calls of tools that need an earlier step.
    early: how many of these were made before it. wasted: calls that earned no step.
    """

    row: str
    calls: tuple[tuple[str, bool], ...]
    given: tuple[Given, ...]
    dependent: int
    early: int
    wasted: int


def called(trajectory: Trajectory, rubric: Rubric, earned: Mapping[str, int], row: str = "") -> Called:
    """earned: id of a rubric step -> the turn that earned it, as in `Score.earned`."""
    right = _right(trajectory, rubric)
    needed = [(step, _steps_of(step.name, rubric)) for step in trajectory.steps]
    dependent = [step for step, wanted in needed if wanted and all(item.after for item in wanted)]
    return Called(
        row,
        tuple((_tool(step), ok) for step, ok in zip(trajectory.steps, right, strict=True)),
        tuple(given for step, wanted in needed if wanted and _is_readable(step) for given in _given(step, wanted)),
        len(dependent),
        sum(_is_early(step, rubric, earned) for step in dependent),
        len(trajectory.steps) - len(earned),
    )


def calling(records: Iterable[Record], rubrics: Mapping[str, Rubric]) -> dict[str, Any]:
    """The measures over all scored episodes, by tool and argument, and by the groups of the summary.

    rubrics: by row id, for the reference of the records.
    """
    pairs = [(record, _called_in(record, rubrics[record.row])) for record in records if record.score is not None]
    everything = [found for _, found in pairs]
    tools = sorted({tool for found in everything for tool, _ in found.calls})
    arguments = sorted({(given.tool, given.argument) for found in everything for given in found.given})
    return {
        **_measures(everything),
        "tools": {name: call_accuracy(everything, name) for name in tools},
        "arguments": {".".join(both): argument_accuracy(everything, *both) for both in arguments},
        **{name: _grouped(pairs, by) for name, by in GROUPS.items()},
    }


def call_accuracy(episodes: Sequence[Called], tool: str | None = None) -> dict[str, Any]:
    """Right calls of all calls that were made (of one tool); unreadable and undeclared ones count as made."""
    return _rate((found.row, ok) for found in episodes for name, ok in found.calls if tool in (None, name))


def argument_accuracy(
    episodes: Sequence[Called], tool: str | None = None, argument: str | None = None
) -> dict[str, Any]:
    """Accepted values of all arguments that readable calls of needed tools should have; one left out is wrong.

    One that the step rules out counts only where it was given, as wrong. A call is measured against the step of its
    tool that it comes closest to.
    """
    return _rate(
        (found.row, given.right)
        for found in episodes
        for given in found.given
        if tool in (None, given.tool) and argument in (None, given.argument)
    )


def order_violations(episodes: Sequence[Called]) -> dict[str, Any]:
    """Calls made before what they depend on was done in an earlier turn, of all calls that depend on something."""
    return _rate((found.row, number < found.early) for found in episodes for number in range(found.dependent))


def wasted_calls(episodes: Sequence[Called]) -> float | None:
    """Calls per episode that earned no step: mistakes, repetitions, detours."""
    return fmean(found.wasted for found in episodes) if episodes else None


GROUPS: Mapping[str, Callable[[Record], Any]] = {
    "by_kind": lambda record: record.kind,
    "by_language": lambda record: record.language,
    "by_depth": lambda record: record.depth,
    "by_split": lambda record: record.split,
    "by_fault": fault_of,
}


def _measures(episodes: Sequence[Called]) -> dict[str, Any]:
    return {
        "call_accuracy": call_accuracy(episodes),
        "argument_accuracy": argument_accuracy(episodes),
        "order_violations": order_violations(episodes),
        "wasted_calls": wasted_calls(episodes),
    }


def _grouped(pairs: Sequence[tuple[Record, Called]], by: Callable[[Record], Any]) -> dict[str, Any]:
    groups: dict[Any, list[Called]] = {}
    for record, found in pairs:
        groups.setdefault(by(record), []).append(found)
    return {str(value): _measures(groups[value]) for value in sorted(groups)}


def _called_in(record: Record, rubric: Rubric) -> Called:
    assert record.score is not None
    return called(Trajectory.from_payload(record.payload), rubric, record.score["earned"], record.row)


def _right(trajectory: Trajectory, rubric: Rubric) -> list[bool]:
    """Whether each call is right; a step is used up by the first successful call that it asks for."""
    open_steps, right = list(rubric.steps), []
    for step in trajectory.steps:
        match = next((item for item in open_steps if item.tool == step.name and _accepted(item, step)), None)
        right.append(match is not None)
        if match is not None and step.result.ok:
            open_steps.remove(match)
    return right


def _accepted(item: RubricStep, step: Step) -> bool:
    arguments = call_arguments(step)
    return _is_readable(step) and all(argument.accepts(arguments) for argument in item.arguments)


def _is_readable(step: Step) -> bool:
    return step.attempt is AttemptStatus.OK


def _given(step: Step, wanted: Sequence[RubricStep]) -> list[Given]:
    arguments = call_arguments(step)
    checked = [
        [
            Given(step.name, argument.name, right)
            for argument in item.arguments
            if not (right := argument.accepts(arguments)) or argument.test is not Comparison.ABSENT
        ]
        for item in wanted
    ]
    return max(checked, key=lambda found: (all(each.right for each in found), sum(each.right for each in found)))


def _is_early(step: Step, rubric: Rubric, earned: Mapping[str, int]) -> bool:
    # A later stage of a plan passes on what the earlier ones of its turn found.
    bound = step.turn + 1 if step.result.metadata.get(PLAN) else step.turn
    return not any(
        all(earned.get(before, bound) < bound for before in item.after) for item in _steps_of(step.name, rubric)
    )


def _steps_of(tool: str, rubric: Rubric) -> list[RubricStep]:
    return [item for item in rubric.steps if item.tool == tool]


def _tool(step: Step) -> str:
    unknown = step.result.code is ErrorCode.TOOL_NOT_FOUND or not step.name
    return NOT_REGISTERED if unknown else step.name


def _rate(outcomes: Iterable[tuple[Hashable, bool]]) -> dict[str, Any]:
    found = list(outcomes)
    return asdict(clustered_rate([good for _, good in found], [row for row, _ in found]))
