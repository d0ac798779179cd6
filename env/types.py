"""The values that cross rooms: calls, results, steps, turns and trajectories.

Frozen dataclasses and closed enums on the standard library only, so that rewards, data, training and evaluation
can share them without importing each other. Nothing here runs a tool, parses text or has an opinion about a score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

JSON = Any  # a value that json.dumps accepts


class Fault(StrEnum):
    """Who has to act on an error."""

    POLICY = "policy"  # the model called wrongly: it sees the message and can repair the call
    TOOL = "tool"  # our implementation broke its own contract
    UPSTREAM = "upstream"  # the service behind the tool


class ErrorCode(StrEnum):
    """The closed set of reasons for which a call fails; `message` starts with it."""

    TOOL_NOT_FOUND = "tool_not_found"
    INVALID_ARGUMENTS = "invalid_arguments"
    BUSINESS_ERROR = "business_error"
    NOT_FOUND = "not_found"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    CIRCUIT_OPEN = "circuit_open"
    OUTPUT_INVALID = "output_invalid"
    TRANSPORT_ERROR = "transport_error"
    INTERNAL_ERROR = "internal_error"

    @property
    def fault(self) -> Fault:
        return _FAULTS[self]

    @property
    def retryable(self) -> bool:
        return self in _RETRYABLE

    @property
    def infrastructure(self) -> bool:
        """True where the model cannot be blamed, so that the episode has no reward at all (None, never 0)."""
        return self.fault is not Fault.POLICY


_FAULTS = {
    ErrorCode.TOOL_NOT_FOUND: Fault.POLICY,
    ErrorCode.INVALID_ARGUMENTS: Fault.POLICY,
    ErrorCode.BUSINESS_ERROR: Fault.POLICY,
    ErrorCode.NOT_FOUND: Fault.POLICY,
    ErrorCode.TIMEOUT: Fault.UPSTREAM,
    ErrorCode.RATE_LIMITED: Fault.UPSTREAM,
    ErrorCode.UNAVAILABLE: Fault.UPSTREAM,
    ErrorCode.CIRCUIT_OPEN: Fault.UPSTREAM,
    ErrorCode.OUTPUT_INVALID: Fault.TOOL,
    ErrorCode.TRANSPORT_ERROR: Fault.UPSTREAM,
    ErrorCode.INTERNAL_ERROR: Fault.TOOL,
}
_RETRYABLE = {ErrorCode.TIMEOUT, ErrorCode.RATE_LIMITED, ErrorCode.UNAVAILABLE, ErrorCode.TRANSPORT_ERROR}


class ToolError(Exception):
    """Raised by a tool for what it expects to go wrong; the model is told. Any other exception is our bug."""

    def __init__(self, code: ErrorCode, detail: str):
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class AttemptStatus(StrEnum):
    """What the parser made of one attempt to call a tool."""

    OK = "ok"
    INVALID_JSON = "invalid_json"  # the block closes, but its content is not one strict JSON object
    UNCLOSED = "unclosed"  # the block never closes
    MISSING_NAME = "missing_name"  # no tool name, or one that is not text
    INVALID_ARGUMENTS = "invalid_arguments"  # arguments are neither an object nor the JSON text of one


class StopReason(StrEnum):
    """Why an episode ended."""

    ANSWERED = "answered"  # a turn without any attempt to call: its text is the answer
    TURN_LIMIT = "turn_limit"  # still calling when the turns ran out
    TOKEN_LIMIT = "token_limit"  # the budget of tokens ran out, mid-turn or because a result would not fit
    INFRASTRUCTURE = "infrastructure"  # a failure that is not the model's: the episode has no reward

    @property
    def truncated(self) -> bool:
        return self in (StopReason.TURN_LIMIT, StopReason.TOKEN_LIMIT)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to run one tool, as the model gave it."""

    name: str
    arguments: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The envelope of one call. `data` on success, `code` and `message` ("<code>: <detail>") on error."""

    status: str  # "success" | "error"
    data: JSON = None
    code: ErrorCode | None = None
    message: str = ""
    metadata: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def success(cls, data: JSON, **metadata: JSON) -> ToolResult:
        return cls("success", data=data, metadata=metadata)

    @classmethod
    def error(cls, code: ErrorCode, detail: str, **metadata: JSON) -> ToolResult:
        return cls("error", code=code, message=f"{code}: {detail}", metadata=metadata)

    @property
    def ok(self) -> bool:
        return self.status == "success"

    def text(self) -> str:
        """What the model reads: compact JSON without the metadata."""
        body = {"status": self.status, "data": self.data} if self.ok else {"status": self.status, "message": self.message}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt to call a tool and what came of it."""

    turn: int  # index of the turn that made it, from 0
    call: int  # position among the attempts of that turn, from 0
    attempt: AttemptStatus
    name: str  # "" where the parser found none
    given: JSON  # arguments as the model wrote them: an object, or the raw text of a malformed attempt
    arguments: Mapping[str, JSON] | None  # after validation and normalisation; None where they never got there
    result: ToolResult
    extra: Mapping[str, JSON] = field(default_factory=dict)  # unknown fields of an imported payload


@dataclass(frozen=True, slots=True)
class Turn:
    """One model call: the text that it wrote, without the end token."""

    index: int
    text: str
    extra: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One finished episode. `answer` is None unless the episode ended in StopReason.ANSWERED."""

    query: str
    reference_output: str
    turns: tuple[Turn, ...]
    steps: tuple[Step, ...]  # in the order in which they ran: by turn, then call
    answer: str | None
    stop: StopReason
    meta: Mapping[str, JSON] = field(default_factory=dict)  # row id, kind, seeds, `now`: whatever explains the episode
    extra: Mapping[str, JSON] = field(default_factory=dict)  # unknown fields of an imported payload

    def steps_of(self, turn: int) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.turn == turn)
