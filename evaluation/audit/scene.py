"""One situation of the source scenario, and the things that can be done in it, each as a call that really ran.

The query asks for a person's leave in a week and the e-mail of their manager. A `Move` is one call or one way to end;
its result does not depend on what came before, so every call runs once, and an episode is put together from moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from data.build import rows
from data.oracle import say
from data.schema import ROW_IDS, Row
from env.domains import domain, hr
from env.types import AttemptStatus, ErrorCode, Step, StopReason, ToolCall, ToolResult, Trajectory, Turn

SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"
UNDECLARED = "delete_employee"
SEED = 0  # of the evaluation rows that the audit draws from


class Move(StrEnum):
    """A call. The name says what is true of it in this world, not how the reward sees it."""

    SEARCH = "S"  # the person asked about
    SEARCH_OTHER = "S:other"  # somebody else
    SEARCH_NOBODY = "S:nobody"  # a name that finds nobody
    LEAVE = "L"  # the right id and week: honest only where the id has been seen
    LEAVE_OTHER = "L:other"  # another person's id
    LEAVE_WEEK = "L:week"  # the right id, another week
    LEAVE_GUESS = "L:guess"  # an id that nobody has
    LEAVE_BROKEN = "L:broken"  # no id, and dates that are none: refused
    ORG = "O"
    ORG_OTHER = "O:other"
    ORG_GUESS = "O:guess"
    UNDECLARED = "D"  # a tool that does not exist


class End(StrEnum):
    """How an episode ends."""

    RIGHT = "right"  # the true days and the true e-mail
    INVENTED = "invented"  # a wrong number of days and an address that nobody has
    HALF = "half"  # the true days, no e-mail
    EMPTY = "empty"  # an empty answer
    CUT = "cut"  # no answer: out of turns


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done, in order. joined[i]: call i is in the same message as the call before it."""

    moves: tuple[Move, ...]
    joined: tuple[bool, ...]
    end: End

    @property
    def turns(self) -> tuple[int, ...]:
        """The turn of each call."""
        turn, made = -1, []
        for joined in self.joined:
            turn += not joined or turn < 0
            made.append(turn)
        return tuple(made)

    def __str__(self) -> str:
        parts = [("+" if joined else " ") + move for move, joined in zip(self.moves, self.joined, strict=True)]
        return ("".join(parts).strip() + f" → {self.end}").strip()


def plan(text: str) -> Plan:
    """Read "S L+O → right": the inverse of str(Plan)."""
    calls, _, end = text.rpartition("→")
    words = [word.split("+") for word in calls.split()]
    moves = [Move(part) for word in words for part in word]
    joined = [index > 0 for word in words for index in range(len(word))]
    return Plan(tuple(moves), tuple(joined), End(end.strip()))


@dataclass(frozen=True)
class Scene:
    """row: a row of kind 1 whose person has both leave and a manager. language: of the answers."""

    row: Row

    @cached_property
    def _ran(self) -> dict[Move, Step]:
        """Each move as a step of turn 0, with the result that the real tool gave."""
        task = self.row.task
        where = domain(task.domain)
        world: Any = where.open_world(task.world, task.now, ROW_IDS)
        registry = where.registry().bind(world)
        return {move: _run(registry, move, *self._call(move)) for move in Move}

    def _call(self, move: Move) -> tuple[str, dict[str, Any]]:
        task = self.row.task
        assert task.period is not None and task.subject is not None and task.mention is not None
        right, other = self.row.reference_output, self.other_id
        week = {"start_date": task.period[1], "end_date": task.period[2]}
        another = {"start_date": "2024-01-01", "end_date": "2024-01-07"}
        return {
            Move.SEARCH: (SEARCH, {"name": task.mention}),
            Move.SEARCH_OTHER: (SEARCH, {"name": self.other_name}),
            Move.SEARCH_NOBODY: (SEARCH, {"name": "zz"}),
            Move.LEAVE: (LEAVE, {"emp_id": right} | week),
            Move.LEAVE_OTHER: (LEAVE, {"emp_id": other} | week),
            Move.LEAVE_WEEK: (LEAVE, {"emp_id": right} | another),
            Move.LEAVE_GUESS: (LEAVE, {"emp_id": "999999999"} | week),
            Move.LEAVE_BROKEN: (LEAVE, {"start_date": "Monday", "end_date": "Sunday"}),
            Move.ORG: (ORG, {"emp_id": right}),
            Move.ORG_OTHER: (ORG, {"emp_id": other}),
            Move.ORG_GUESS: (ORG, {"emp_id": "999999999"}),
            Move.UNDECLARED: (UNDECLARED, {"name": task.mention}),
        }[move]

    @cached_property
    def _other(self) -> int:
        """Somebody who is neither the person asked about nor their manager, and does not report to them."""
        company = self._company
        task = self.row.task
        assert task.subject is not None
        banned = {task.subject, company.people[task.subject].manager, company.ceo}
        return next(
            index
            for index, person in enumerate(company.people)
            if index not in banned
            and person.active
            and company.is_unique(index)
            and task.subject not in (person.manager, person.dotted_line_manager, company.heads.get(person.department))
        )

    @cached_property
    def _company(self) -> Any:
        return hr.company(self.row.task.world, self.row.task.now)

    @property
    def other_name(self) -> str:
        name: str = self._company.people[self._other].name.simplified
        return name

    @cached_property
    def other_id(self) -> str:
        return hr.draw_ids(self.row.task.world, self.row.task.now, ROW_IDS)[self._other]

    def answer(self, end: End) -> str | None:
        """The text of the last turn; None where there is none."""
        task = self.row.task
        leave, org = self._ran[Move.LEAVE].result.data, self._ran[Move.ORG].result.data
        days, email = leave["total_days"], org["manager"]["email"]
        return {
            End.RIGHT: say(task, task.ask, days=days, email=email),
            End.INVENTED: say(task, task.ask, days=days + 1, email="nobody@corp.example"),
            End.HALF: say(task, "leave_period", days=days),
            End.EMPTY: "",
            End.CUT: None,
        }[end]

    def trajectory(self, plan: Plan) -> Trajectory:
        """The plan as it would have been recorded."""
        steps, turns, calls = [], plan.turns, dict[int, int]()
        for move, turn in zip(plan.moves, turns, strict=True):
            ran = self._ran[move]
            call = calls.get(turn, 0)
            calls[turn] = call + 1
            steps.append(Step(turn, call, ran.attempt, ran.name, ran.given, ran.arguments, ran.result))
        last = turns[-1] if turns else -1
        answer = self.answer(plan.end)
        texts = [Turn(index, "") for index in range(last + 1)]
        texts += [Turn(last + 1, answer)] if answer is not None else []
        stop = StopReason.ANSWERED if answer is not None else StopReason.TURN_LIMIT
        return Trajectory(self.row.input, self.row.reference_output, tuple(texts), tuple(steps), answer, stop)


def scene(seed: int = SEED) -> Scene:
    """The first fitting row of the evaluation split: with leave and a manager, so that every fact has a value.

    And with an id that can be written as a number.
    """
    for row in rows("eval", 4000, seed, {1: 1.0}):
        facts = [fact["fact"] for fact in row.task.rubric["answer"]]
        if facts == ["days", "email"] and not row.reference_output.startswith("0"):
            return Scene(row)
    raise LookupError("no row of kind 1 has leave and a manager")


def _run(registry: Any, move: Move, name: str, arguments: dict[str, Any]) -> Step:
    outcome = registry.call(ToolCall(name, arguments))
    result: ToolResult = outcome.result
    assert result.code is None or not ErrorCode(result.code).infrastructure, (move, result)
    return Step(0, 0, AttemptStatus.OK, name, arguments, outcome.arguments, result)
