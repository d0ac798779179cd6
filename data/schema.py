"""A row: the query, its reference, and the task that makes both checkable.

AgentArts reads two string fields, `input` and `reference_output`; everything of ours is in the object `task`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from operator import attrgetter
from typing import Any

from env.domains import domain, known
from env.episode import Episode
from env.faults import FaultPlan
from env.surface import Surface

OUTCOMES = ("none", "not_found", "ask", "refuse")  # references of tasks whose right end is not an id
LANGUAGES = ("zh", "en")
SPLITS = ("train", "eval")
ALL_TOOLS = Surface()
ROW_IDS = "row"  # the seed with which a row's own ids, and so its reference_output, were drawn


class RowError(ValueError):
    """A row that cannot be used. `field` is the path of the offending value, "" where the whole row is meant."""

    def __init__(self, field: str, reason: str):
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Task:
    """What a row is about.

    kind: number of the query kind. ask: what is asked, the name of the phrasings. template: the phrasing.
    world: the company's spec for `Domain.open_world`. now: ISO date-time with offset. subject: index of the person
    asked about, or index by role where several ids matter (the reference is then a JSON object by role), None where
    the reference is an outcome word. mention: how the query names that person. period: the dates asked about,
    ("this_week", first, last), or None. rubric: see rewards.rubric. reply: what the oracle says, with {step.member}
    for what the result of a step holds; None where data.oracle has a sentence for the ask.
    """

    id: str
    kind: int
    ask: str
    domain: str
    language: str
    split: str
    template: str
    world: Mapping[str, Any]
    now: str
    timezone: str
    subject: int | Mapping[str, int] | None
    mention: str | None
    period: tuple[str, str, str] | None
    rubric: Mapping[str, Any]
    reply: str | None

    @property
    def depth(self) -> int:
        """How many tool calls the task needs."""
        return len(self.rubric["steps"])


_TASK_FIELDS = tuple(field.name for field in fields(Task))
_task_values = attrgetter(*_TASK_FIELDS)


@dataclass(frozen=True, slots=True)
class Row:
    """One query. `reference_output`: an employee id, a JSON text of several values, or one of OUTCOMES."""

    input: str
    reference_output: str
    task: Task

    def to_json(self) -> str:
        """One line of JSON, the same bytes for equal rows."""
        task = dict(zip(_TASK_FIELDS, _task_values(self.task), strict=True))
        row = {"input": self.input, "reference_output": self.reference_output, "task": task}
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"))

    def open(
        self, ids: str = ROW_IDS, max_turns: int = 6, faults: FaultPlan | None = None, surface: Surface = ALL_TOOLS
    ) -> Episode:
        """A fresh episode. ids: seed of the employee ids; the default gives the ones of `reference_output`.

        Raises ValueError where the surface names a tool that the domain has not.
        """
        where = domain(self.task.domain)
        world = where.open_world(self.task.world, self.task.now, ids)
        subject = self.task.subject
        registry = where.registry().bind(
            world,
            faults=faults.for_episode(f"{self.task.id}/{ids}") if faults else None,
            now=self.task.now,
            language=self.task.language,
        )
        offered, planner = surface.offer(registry, self.input)
        return Episode(
            self.input,
            self.reference_output if subject is None else reference_of(subject, lambda i: where.reference(world, i)),
            offered,
            language=self.task.language,
            now=self.task.now,
            max_turns=max_turns,
            meta={"row": self.task.id, "kind": self.task.kind, "language": self.task.language, "ids": ids},
            planner=planner,
        )


def reference_of(subject: int | Mapping[str, int], id_of: Callable[[int], str]) -> str:
    """The reference of a task with a subject: its id, or a JSON object of ids by role."""
    if isinstance(subject, int):
        return id_of(subject)
    return json.dumps({role: id_of(index) for role, index in subject.items()}, separators=(",", ":"))


def row_from_json(value: Any) -> Row:
    """Strict: every field, no other field, right types. Raises RowError with the path of what is wrong."""
    _exactly(value, {"input", "reference_output", "task"}, "")
    for name in ("input", "reference_output"):
        if not isinstance(value[name], str) or not value[name].strip():
            raise RowError(name, f"expected text that is not empty, got {_shown(value[name])}")
    return Row(value["input"], value["reference_output"], _task(value["task"], value["reference_output"]))


def _task(value: Any, reference: str) -> Task:
    _exactly(value, {field.name for field in fields(Task)}, "task")
    for name in ("id", "ask", "domain", "template", "now", "timezone"):
        if not isinstance(value[name], str) or not value[name]:
            raise RowError(f"task.{name}", f"expected text that is not empty, got {_shown(value[name])}")
    for name, kind in (("kind", int), ("world", dict), ("rubric", dict)):
        if not isinstance(value[name], kind) or isinstance(value[name], bool):
            raise RowError(f"task.{name}", f"expected {kind.__name__}, got {_shown(value[name])}")
    for name, allowed in (("domain", known()), ("language", LANGUAGES), ("split", SPLITS)):
        if value[name] not in allowed:
            raise RowError(f"task.{name}", f"expected one of {', '.join(allowed)}, got {_shown(value[name])}")
    if not _is_moment(value["now"]):
        raise RowError("task.now", f"expected an ISO date-time with offset, got {_shown(value['now'])}")
    if not isinstance(value["rubric"].get("steps"), list):
        raise RowError("task.rubric.steps", "expected a list")
    if value["subject"] is None and reference not in OUTCOMES and value["domain"] == "hr":
        raise RowError("task.subject", f"null, but the reference {reference!r} is none of {', '.join(OUTCOMES)}")
    subject = value["subject"]
    indices = list(subject.values()) if isinstance(subject, dict) else [subject]
    if subject is not None and (not indices or not all(type(index) is int for index in indices)):
        raise RowError("task.subject", f"expected an integer, an object of integers or null, got {_shown(subject)}")
    try:
        for index in indices:
            domain(value["domain"]).check_spec(value["world"], index)
    except ValueError as error:
        raise RowError("task.world", str(error)) from None
    for name in ("mention", "reply"):
        if not isinstance(value[name], str | None):
            raise RowError(f"task.{name}", f"expected text or null, got {_shown(value[name])}")
    return Task(**{**value, "period": _period(value["period"])})


def _period(value: Any) -> tuple[str, str, str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(part, str) for part in value):
        raise RowError("task.period", f"expected [name, first day, last day] or null, got {_shown(value)}")
    try:
        first, last = date.fromisoformat(value[1]), date.fromisoformat(value[2])
    except ValueError:
        raise RowError("task.period", f"expected ISO dates, got {_shown(value)}") from None
    if last < first:
        raise RowError("task.period", f"the last day is before the first, got {_shown(value)}")
    return (value[0], value[1], value[2])


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _exactly(value: Any, names: set[str], path: str) -> None:
    """Raise unless `value` is an object with exactly these keys."""
    if not isinstance(value, dict):
        raise RowError(path, f"expected an object, got {type(value).__name__}")
    prefix = f"{path}." if path else ""
    for name in sorted(names - value.keys()):
        raise RowError(path, f"field {prefix + name!r} is missing")
    for name in sorted(value.keys() - names):
        raise RowError(prefix + name, "unknown field")


def _shown(value: Any) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
