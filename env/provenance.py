"""Canonical ids, and where in an episode a value came from.

Provenance is over typed values: an id counts as shown when a successful result held it under the key `emp_id`, never
because its digits occur in some text. Other derived values (a price, an order number) work alike under their own key.
This module reads trajectories; it has no opinion about what an origin is worth.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite

from env.types import JSON, Step, StopReason, Trajectory, Turn

ID_KEY = "emp_id"
PLAN = "plan"  # in a result's metadata: the stage of the plan that made the call, from 0
MAX_STAGE = 63
_MAX_BITS = 64  # a longer integer is no id, and Python may refuse to write it as text


class Origin(StrEnum):
    """Where a value that a call uses came from, seen from the turn that uses it."""

    QUERY = "query"  # the user wrote it
    RESULT = "result"  # a successful result of an earlier turn held it
    NOT_YET_SEEN = "not_yet_seen"  # a result of the same or a later turn holds it: the model could not know it
    NOWHERE = "nowhere"  # invented, or remembered from another episode


@dataclass(frozen=True, slots=True)
class Provenance:
    """An origin, with the index in `trajectory.steps` of the first result that held the value, if one did."""

    origin: Origin
    step: int | None = None


def canonical_id(value: JSON) -> str | None:
    """The one text of an id: 1001, 1001.0, "1001" and " 1001" are "1001", "007" is not "7"; None for what is no id."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and value.bit_length() <= _MAX_BITS:
        return str(value)
    return None


def canonical_value(value: JSON) -> str | None:
    """`canonical_id`, and numbers with decimals: 12.50 is "12.5". None for what is no text and no number."""
    if isinstance(value, float) and isfinite(value) and not value.is_integer():
        return f"{value:.12g}"
    return canonical_id(value)


def nodes(data: JSON) -> Iterator[tuple[str, JSON]]:
    """Every value inside `data` (itself included) with its key; "" for what is no member of an object.

    Iterative, because a payload may be nested more deeply than the interpreter recurses.
    """
    stack: list[tuple[str, JSON]] = [("", data)]
    while stack:
        key, value = stack.pop()
        yield key, value
        if isinstance(value, dict):
            stack.extend((str(name), item) for name, item in value.items())
        elif isinstance(value, list | tuple):
            stack.extend(("", item) for item in value)


def ids_in(data: JSON, key: str = ID_KEY) -> frozenset[str]:
    """Values that stand as scalars under `key` anywhere inside `data`."""
    found = (_text_of(value, key) for name, value in nodes(data) if name == key)
    return frozenset(value for value in found if value is not None)


def call_arguments(step: Step) -> Mapping[str, JSON]:
    """The arguments that a step ran with, else those it was given; empty where neither is an object."""
    for arguments in (step.arguments, step.given):
        if isinstance(arguments, Mapping):
            return arguments
    return {}


def argument_ids(step: Step, name: str = ID_KEY) -> frozenset[str]:
    """Every value that a call passes as argument `name`, those inside a list or an object included."""
    found = (_text_of(value, name) for _, value in nodes(call_arguments(step).get(name)))
    return frozenset(value for value in found if value is not None)


def sightings(trajectory: Trajectory, key: str = ID_KEY, name: str = ID_KEY) -> dict[str, int]:
    """Value -> index in `trajectory.steps` of the first successful result that showed it.

    key: of the results' members. name: of the argument that takes such values.

    Two ways of laundering a guess are closed. A result does not vouch for its own call's ids, which it may only echo.
    And a call on an id without origin vouches for nothing: whatever it returned was reached by guessing.
    """
    seen: dict[str, int] = {}
    for index in sorted(range(len(trajectory.steps)), key=lambda i: trajectory.steps[i].turn):
        step = trajectory.steps[index]
        used = argument_ids(step, name)
        if not step.result.ok or not all(_known(trajectory, seen, value, step.turn) for value in used):
            continue
        for value in ids_in(step.result.data, key) - used:
            seen.setdefault(value, index)
    return seen


def seen_ids(trajectory: Trajectory, before_turn: int) -> frozenset[str]:
    """Ids that results of turns before `before_turn` had shown to the model."""
    seen = sightings(trajectory)
    return frozenset(value for value, index in seen.items() if trajectory.steps[index].turn < before_turn)


def provenance(trajectory: Trajectory, value: JSON, turn: int, seen: Mapping[str, int] | None = None) -> Provenance:
    """Where `value` came from for a call or an answer of `turn`; `seen` saves walking the results again."""
    seen = sightings(trajectory) if seen is None else seen
    text = canonical_value(value)
    if text is None:
        return Provenance(Origin.NOWHERE)
    index = seen.get(text)
    if index is not None and trajectory.steps[index].turn < turn:
        return Provenance(Origin.RESULT, index)
    if in_text(text, trajectory.query):
        return Provenance(Origin.QUERY)
    return Provenance(Origin.NOWHERE) if index is None else Provenance(Origin.NOT_YET_SEEN, index)


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A trajectory in which each stage of a plan is a turn. turns: for each turn index, the one that it was before."""

    trajectory: Trajectory
    turns: tuple[int, ...]


def unfolded(trajectory: Trajectory) -> Unfolded | None:
    """Stages of plans as turns of their own, for a plan passes on what its earlier stages found; None without plans.

    The first stage keeps the turn's text; the answer's turn comes last as before.
    """
    if not any(PLAN in step.result.metadata for step in trajectory.steps):
        return None
    called = {step.turn for step in trajectory.steps} | {turn.index for turn in trajectory.turns}
    first: dict[int, int] = {}
    was: list[int] = []
    for turn in sorted(called):
        first[turn] = len(was)
        was += [turn] * (1 + max((_stage(step) for step in trajectory.steps_of(turn)), default=0))
    if not trajectory.turns and trajectory.stop is StopReason.ANSWERED:
        was.append(max(called) + 1)  # the answer's turn, of which an imported record says nothing
    texts = {first[turn.index]: turn for turn in trajectory.turns}
    turns = tuple(replace(texts[at], index=at) if at in texts else Turn(at, "") for at in range(len(was)))
    steps = [replace(step, turn=first[step.turn] + _stage(step)) for step in trajectory.steps]
    steps.sort(key=lambda step: step.turn)
    flat = replace(trajectory, turns=turns if trajectory.turns else (), steps=tuple(steps))
    return Unfolded(flat, tuple(was))


def _stage(step: Step) -> int:
    stage = step.result.metadata.get(PLAN)
    return stage if type(stage) is int and 0 <= stage <= MAX_STAGE else 0


def in_text(value: str, text: str) -> bool:
    """Whether `value` stands in `text` as a token of its own: "1001" is not in "21001"."""
    if not isinstance(text, str) or value not in (plain := unicodedata.normalize("NFKC", text)):
        return False
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(value)}(?![0-9A-Za-z])", plain) is not None


def _text_of(value: JSON, key: str) -> str | None:
    return canonical_id(value) if key == ID_KEY else canonical_value(value)


def _known(trajectory: Trajectory, seen: Mapping[str, int], value: str, turn: int) -> bool:
    return provenance(trajectory, value, turn, seen).origin in (Origin.QUERY, Origin.RESULT)
