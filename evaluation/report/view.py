"""One episode as the report's viewer wants it: plain JSON values, every turn with what it earned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from env.parsing import parse
from env.provenance import ID_KEY, Origin, call_arguments, canonical_id, in_text, provenance, sightings
from env.types import JSON, Step, Trajectory
from evaluation.record import Record
from evaluation.taxonomy import FailureClass

KINDS = {
    1: "leave and manager's email",
    2: "manager",
    3: "on leave today?",
    4: "employee id",
    5: "leave, id given",
    6: "manager, id given",
    10: "nobody of that name",
    13: "days of leave last week",
    19: "no leave in the period",
    20: "top of the company, no manager",
    26: "needs no tool",
}
MEANINGS = {
    FailureClass.SKIPPED_TOOL: "Answered, or went on, without a tool that the task needs: the facts are invented.",
    FailureClass.WRONG_TOOL: "Called a tool that the task does not need or rules out, or one that does not exist.",
    FailureClass.ID_NOT_PASSED: "A later call used another id than the one that had been found.",
    FailureClass.WRONG_PATH: "Looks right, all tools called or the answer true, but by a path that breaks the rules.",
    FailureClass.WRONG_ARGUMENTS: "The right tool with a wrong name, wrong dates or invalid arguments.",
    FailureClass.WRONG_ANSWER: "The path is right; the answer states something else or leaves facts out.",
    FailureClass.GAVE_UP: "Stopped without stating anything, although the task can be done.",
    FailureClass.MALFORMED_CALL: "The call could not be read.",
    FailureClass.TRUNCATED: "Ran out of turns or tokens.",
}


def kind_title(kind: int) -> str:
    return f"{kind} · {KINDS[kind]}" if kind in KINDS else f"kind {kind}"


def entry(records: Sequence[Record | None]) -> dict[str, Any]:
    """One row of the list: the row's own facts, and one episode per run (None where a run lacks the row)."""
    row = next(record for record in records if record is not None)
    return {
        "row": row.row,
        "sample": row.sample,
        "kind": row.kind,
        "language": row.language,
        "query": row.query,
        "runs": [None if record is None else episode(record) for record in records],
    }


def episode(record: Record) -> dict[str, Any]:
    """One transcript with its score."""
    trajectory = Trajectory.from_payload(record.payload)
    score = record.score or {}
    increments = score.get("increments", ())
    return {
        "reference": trajectory.reference_output,
        "success": record.success,
        "scored": record.score is not None,
        "clean": bool(score.get("clean")),
        "total": score.get("total"),
        "parts": dict(score.get("parts", {})),
        "violations": [dict(violation) for violation in score.get("violations", ())],
        "failure": None if record.failure is None else _failure(record),
        "stop": trajectory.stop.value,
        "answer": trajectory.answer,
        "tokens": record.sampled_tokens,
        "turns": [
            _turn(trajectory, turn.index, turn.text, increments[index] if index < len(increments) else None)
            for index, turn in enumerate(trajectory.turns)
        ],
    }


def _failure(record: Record) -> dict[str, Any]:
    assert record.failure is not None
    found = record.failure
    return {"kind": found.kind.value, "turn": found.turn, "call": found.call, "value": found.value}


def _turn(trajectory: Trajectory, index: int, text: str, increment: float | None) -> dict[str, Any]:
    steps = trajectory.steps_of(index)
    return {
        "index": index,
        "text": text,
        "prose": parse(text).prose if steps else "",
        "increment": increment,
        "steps": [_step(trajectory, step) for step in steps],
    }


def _step(trajectory: Trajectory, step: Step) -> dict[str, Any]:
    readable = isinstance(step.given, Mapping)
    return {
        "call": step.call,
        "name": step.name,
        "attempt": step.attempt.value,
        "arguments": _arguments(trajectory, step) if readable else None,
        "raw": None if readable else str(step.given),
        "ok": step.result.ok,
        "code": None if step.result.code is None else step.result.code.value,
        "result": step.result.data if step.result.ok else step.result.message,
    }


def _arguments(trajectory: Trajectory, step: Step) -> list[dict[str, Any]]:
    return [
        {"name": name, "value": value, "source": _source(trajectory, step, name, value)}
        for name, value in call_arguments(step).items()
    ]


def _source(trajectory: Trajectory, step: Step, name: str, value: JSON) -> dict[str, Any] | None:
    """Where the value of an argument came from, as far as that can be told; the reward's own view for ids."""
    if name == ID_KEY:
        return _id_source(trajectory, step, value)
    for earlier in trajectory.steps:
        if earlier.turn >= step.turn or not earlier.result.ok:
            continue
        if path := _path_of(earlier.result.data, value):
            return {"origin": Origin.RESULT, "turn": earlier.turn, "call": earlier.call, "path": path}
    if isinstance(value, str) and value.strip() and in_text(value.strip(), trajectory.query):
        return {"origin": Origin.QUERY}
    return None


def _id_source(trajectory: Trajectory, step: Step, value: JSON) -> dict[str, Any]:
    found = provenance(trajectory, value, step.turn, sightings(trajectory))
    if found.step is None:
        return {"origin": found.origin}
    first = trajectory.steps[found.step]
    path = _path_of(first.result.data, value) or ""
    return {"origin": found.origin, "turn": first.turn, "call": first.call, "path": path}


def _path_of(data: JSON, value: JSON) -> str | None:
    """The path of the first equal text or number in a result, "matches[0].emp_id"; None where there is none."""
    wanted = canonical_id(value)
    if wanted is None:
        return None
    return next((path for path, found in _leaves(data, "") if canonical_id(found) == wanted), None)


def _leaves(data: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    if isinstance(data, Mapping):
        for name, item in data.items():
            yield from _leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(data, list | tuple):
        for index, item in enumerate(data):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, data
