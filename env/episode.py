"""One episode: a query, a world, tools, and what happened so far. Text in, text out; knows no tokens and no model.

The driver (a rollout engine, a scripted player, a person) shows `messages` and `tools` to whoever plays, passes the
text of each turn to `play` and appends the returned tool texts, until `play` returns None. `trajectory` is the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from env.parsing import Attempt, parse
from env.planning import Planner
from env.registry import Outcome, Registry
from env.types import (
    JSON,
    AttemptStatus,
    ErrorCode,
    Step,
    StopReason,
    ToolCall,
    ToolResult,
    Trajectory,
    Turn,
)

# Far above any honest message, low enough that one message cannot run a tool thousands of times.
MAX_CALLS_PER_TURN = 16
ABANDONED = "abandoned"  # in `meta`: why the player was given up, where it was

INSTRUCTIONS = {
    "zh": "你是企业助手。事实只能来自工具，不得编造。",
    "en": "You are a company assistant. Facts come from tools only; never make them up.",
}
PERIODS = {
    "zh": {"today": "今天", "this_week": "本周", "last_week": "上周"},
    "en": {"today": "today", "this_week": "this week", "last_week": "last week"},
}
UNTIL = {"zh": "至", "en": "to"}
WEEKDAYS = {
    "zh": ("周一", "周二", "周三", "周四", "周五", "周六", "周日"),
    "en": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
}


def system_prompt(language: str, now: str) -> str:
    """Instructions and a small calendar. now: ISO date-time with offset; weeks start on Monday."""
    today = datetime.fromisoformat(now).date()
    monday = today - timedelta(days=today.weekday())
    lines = [
        f"{period_line(language, 'today', today, today)} {WEEKDAYS[language][today.weekday()]}",
        period_line(language, "this_week", monday, monday + timedelta(days=6)),
        period_line(language, "last_week", monday - timedelta(days=7), monday - timedelta(days=1)),
    ]
    return "\n".join([INSTRUCTIONS[language], *lines])


def period_line(language: str, period: str, first: date | str, last: date | str) -> str:
    """A period as the calendar writes it, every one in the same form: "last week 2026-05-25 to 2026-05-31"."""
    return f"{PERIODS[language][period]} {first} {UNTIL[language]} {last}"


_WATCHERS: list[Callable[[Episode], None]] = []


def watch(watcher: Callable[[Episode], None]) -> Callable[[], None]:
    """Let `watcher` see every episode of this process as it begins; returns what takes it away again."""
    _WATCHERS.append(watcher)
    return lambda: _WATCHERS.remove(watcher)


class Episode:
    """registry: already bound to the episode's world. max_turns: model calls until the episode counts as truncated.

    planner: where `run_plan` is among the tools, who runs it.
    """

    def __init__(
        self,
        query: str,
        reference_output: str,
        registry: Registry,
        *,
        language: str,
        now: str,
        max_turns: int = 6,
        meta: Mapping[str, Any] | None = None,
        planner: Planner | None = None,
    ):
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, got {max_turns}")
        self.query = query
        self.reference_output = reference_output
        self.max_turns = max_turns
        self.meta = dict(meta or {})
        self.messages = [
            {"role": "system", "content": system_prompt(language, now)},
            {"role": "user", "content": query},
        ]
        self._registry = registry
        self._planner = planner
        self._turns: list[Turn] = []
        self._steps: list[Step] = []
        self._answer: str | None = None
        self._stop: StopReason | None = None
        for watcher in _WATCHERS:
            watcher(self)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The declared tools as the model sees them, from the contracts."""
        return self._registry.catalogue()

    @property
    def plans(self) -> bool:
        """Whether `run_plan` is among the tools."""
        return self._planner is not None

    @property
    def stop(self) -> StopReason | None:
        """Why it ended; None while it goes on."""
        return self._stop

    @property
    def done(self) -> bool:
        return self._stop is not None

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    def play(self, text: str) -> list[str] | None:
        """Take the text of one turn; run its calls. Returns one tool text per attempt in order, None when finished."""
        if self.done:
            raise RuntimeError(f"the episode has ended ({self._stop})")
        index = len(self._turns)
        self._turns.append(Turn(index, text))
        parsed = parse(text)
        if not parsed.attempts:
            self._answer, self._stop = parsed.prose, StopReason.ANSWERED
            return None
        steps: list[Step] = []
        texts = []
        for call, attempt in enumerate(parsed.attempts):
            made, text = self._run(index, len(steps), attempt, call < MAX_CALLS_PER_TURN)
            steps += made
            texts.append(text)
        self._steps += steps
        if any(step.result.code is not None and step.result.code.infrastructure for step in steps):
            self._stop = StopReason.INFRASTRUCTURE
            return None
        if len(self._turns) >= self.max_turns:
            self._stop = StopReason.TURN_LIMIT
            return None
        return texts

    def truncate(self, text: str | None = None) -> None:
        """End for want of tokens. text: an unfinished turn, kept in the record; its calls are not run."""
        if self.done:
            raise RuntimeError(f"the episode has ended ({self._stop})")
        if text is not None:
            self._turns.append(Turn(len(self._turns), text))
        self._stop = StopReason.TOKEN_LIMIT

    def abandon(self, reason: str) -> None:
        """End because whoever plays cannot be reached any more: nobody's turn was bad, so there is no reward."""
        if self.done:
            raise RuntimeError(f"the episode has ended ({self._stop})")
        self.meta[ABANDONED] = reason
        self._stop = StopReason.INFRASTRUCTURE

    def trajectory(self) -> Trajectory:
        """The record. Raises RuntimeError before the episode has ended."""
        if self._stop is None:
            raise RuntimeError("the episode has not ended")
        return Trajectory(
            query=self.query,
            reference_output=self.reference_output,
            turns=tuple(self._turns),
            steps=tuple(self._steps),
            answer=self._answer,
            stop=self._stop,
            meta=self.meta,
        )

    def _run(self, turn: int, call: int, attempt: Attempt, allowed: bool) -> tuple[list[Step], str]:
        """The steps of one attempt (several where it was a plan that ran), and what the model is told of it."""
        given = attempt.arguments if attempt.arguments is not None else attempt.raw
        outcome = self._outcome(attempt, allowed)
        text = outcome.result.text()
        if self._planner and (planned := self._planner.taken()):
            made = enumerate(planned, call)
            return [
                _step(turn, at, attempt.status, each.call.name, each.call.arguments, each.outcome) for at, each in made
            ], text
        return [_step(turn, call, attempt.status, attempt.name, given, outcome)], text

    def _outcome(self, attempt: Attempt, allowed: bool) -> Outcome:
        if attempt.status is not AttemptStatus.OK:
            detail = f"the call was not run: {attempt.detail}"
            return Outcome(None, ToolResult.error(ErrorCode.INVALID_ARGUMENTS, detail))
        if not allowed:
            detail = f"at most {MAX_CALLS_PER_TURN} calls in one message; this one was not run"
            return Outcome(None, ToolResult.error(ErrorCode.BUSINESS_ERROR, detail))
        return self._registry.call(ToolCall(attempt.name, attempt.arguments or {}))


def _step(turn: int, call: int, status: AttemptStatus, name: str, given: JSON, outcome: Outcome) -> Step:
    return Step(turn, call, status, name, given, outcome.arguments, outcome.result)
