"""The values that cross rooms: calls, results, steps, turns and trajectories.

Frozen dataclasses and closed enums on the standard library only, so that rewards, data, training and evaluation
can share them without importing each other. Nothing here runs a tool, reads a model's text or has an opinion about a
score. The second half is the exchange format of trajectories, AgentArts' payload, in both directions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
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
    """Raised by a tool for what it expects to go wrong; the model is told. Any other exception is our bug.

    detail: in English. told: the same in other languages, by code ("zh"), for callers who speak them.
    """

    def __init__(self, code: ErrorCode, detail: str, **told: str):
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.told = told

    def detail_in(self, language: str) -> str:
        """In that language, else in English."""
        return self.told.get(language, self.detail)


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
        body = (
            {"status": self.status, "data": self.data} if self.ok else {"status": self.status, "message": self.message}
        )
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

    def to_payload(self) -> dict[str, JSON]:
        """The payload of a Huawei Cloud AgentArts reward function, with our own fields beside the platform's.

        {"input", "reference_output", "trajectory": {"meta", "root", "steps"}} and whatever `extra` holds. `steps` has,
        for each turn, {"type": "llm", "name": "assistant", "status", "input", "output": text, "turn"} and then the
        turn's calls, {"type": "tool", "name", "status", "input": given, "output": data or message, "turn", "call",
        "attempt", "arguments", "code", "metadata"}. `meta` also has "stop" and "answer". An extra whose name is taken
        by a field that places a step or ends the episode goes one level down, under "foreign".
        """
        trajectory: dict[str, JSON] = {
            "meta": _with_extra({"stop": self.stop.value, "answer": self.answer}, self.meta, _META_FRAME),
            "root": {},
            "steps": _write_steps(self),
        }
        more = self.extra.get("trajectory")
        if isinstance(more, Mapping):
            trajectory |= {key: value for key, value in more.items() if not _is_set_aside(key, value)}
        payload: dict[str, JSON] = {
            "input": self.query,
            "reference_output": self.reference_output,
            "trajectory": trajectory,
        }
        payload |= {key: value for key, value in self.extra.items() if key != "trajectory"}
        if "trajectory" in self.extra and not isinstance(more, Mapping):
            payload["trajectory"] = more
        return _own_object(payload)

    @classmethod
    def from_payload(cls, payload: JSON) -> Trajectory:
        """Read a payload, ours or AgentArts' own: an object or its JSON text. Total: any value gives a trajectory.

        Exact on what `to_payload` wrote, as long as results are such as ToolResult makes and `extra` uses no names of
        the format. A tool step without "turn" is a turn of its own, without text; without "arguments" it has those
        that it was given, provided that it succeeded. A payload that does not say how its episode ended counts as
        ANSWERED, with the answer unknown (None). What cannot be expressed in our fields is kept in `extra` and comes
        back from `to_payload`: unknown fields, values of the wrong type, and entries of `steps` that are neither a tool
        call nor a turn. Only input text that is a JSON object comes back decoded. Nothing is shared with `payload`.
        """
        raw = _decoded(payload) if isinstance(payload, str) else _own(payload)
        fields: dict[str, JSON] = raw if isinstance(raw, dict) else {"unreadable": raw}
        trajectory = _object(fields.get("trajectory"))
        entries = trajectory.get("steps")
        read = _read_entries(entries if isinstance(entries, list) else [])
        blank = cls(
            query=_text(fields.get("input")),
            reference_output=_text(fields.get("reference_output")),
            turns=read.turns,
            steps=read.steps,
            answer=None,
            stop=StopReason.ANSWERED,
        )
        return replace(_with_ending(blank, _object(trajectory.get("meta"))), extra=_unknown(fields, read.set_aside))


# AgentArts' payload. A field that we could not express is kept under its own name in `extra` and laid over what we
# write, except for the frames: without them a second reading would place the step elsewhere.
_TURN_FRAME = ("type", "output", "turn")
_STEP_FRAME = ("type", "input", "turn", "call", "attempt")
_META_FRAME = ("stop", "answer")
_FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class _Entries:
    """What `steps` of a payload holds. set_aside: {"at": index, "step": entry} of the entries not ours to read."""

    turns: tuple[Turn, ...]
    steps: tuple[Step, ...]
    set_aside: list[JSON]


def _write_steps(trajectory: Trajectory) -> list[JSON]:
    entries: list[JSON] = []
    position = {turn.index: place for place, turn in enumerate(trajectory.turns)}
    written = 0
    for step in trajectory.steps:
        due = position.get(step.turn, -1) + 1
        entries += [_write_turn(turn) for turn in trajectory.turns[written:due]]
        written = max(written, due)
        entries.append(_with_extra(_step_fields(step), step.extra, _STEP_FRAME))
    entries += [_write_turn(turn) for turn in trajectory.turns[written:]]
    more = trajectory.extra.get("trajectory")
    set_aside = more.get("steps") if isinstance(more, Mapping) else None
    return _put_back(entries, set_aside) if isinstance(set_aside, list) else entries


def _put_back(entries: list[JSON], set_aside: list[JSON]) -> list[JSON]:
    merged: list[JSON] = []
    rest = iter(entries)
    for item in set_aside:
        merged += islice(rest, max(0, item["at"] - len(merged)))
        merged.append(item["step"])
    return [*merged, *rest]


def _write_turn(turn: Turn) -> dict[str, JSON]:
    return _with_extra(_turn_fields(turn), turn.extra, _TURN_FRAME)


def _turn_fields(turn: Turn) -> dict[str, JSON]:
    return {
        "type": "llm",
        "name": "assistant",
        "status": "success",
        "input": "",
        "output": turn.text,
        "turn": turn.index,
    }


def _step_fields(step: Step) -> dict[str, JSON]:
    result = step.result
    fields: dict[str, JSON] = {
        "type": "tool",
        "name": step.name,
        "status": result.status,
        "input": step.given,
        "output": result.data if result.ok else result.message,
        "turn": step.turn,
        "call": step.call,
        "attempt": step.attempt.value,
        "arguments": step.arguments,
        "code": None if result.code is None else result.code.value,
        "metadata": result.metadata,
    }
    # Results that ToolResult's own constructors never make, but that its fields allow.
    if result.ok and result.message:
        fields["message"] = result.message
    if not result.ok and result.data is not None:
        fields["data"] = result.data
    return fields


def _read_entries(entries: list[JSON]) -> _Entries:
    turns: dict[int, Turn] = {}
    told: set[int] = set()  # turns whose text was read; the others are implied by their calls
    steps: list[Step] = []
    calls: Counter[int] = Counter()
    set_aside: list[JSON] = []
    unplaced = 1 + max((_place(entry) for entry in entries), default=-1)
    for entry in entries:
        index = _place(entry)
        if _is_turn(entry) and index not in told:
            told.add(index)
            turns[index] = _read_turn(entry, index)
        elif _is_call(entry):
            if index < 0:
                index, unplaced = unplaced, unplaced + 1
            turns.setdefault(index, Turn(index, ""))
            steps.append(_read_step(entry, index, calls[index]))
            calls[index] += 1
        else:
            set_aside.append({"at": len(turns) + len(steps) + len(set_aside), "step": entry})
    return _Entries(tuple(turns.values()), tuple(steps), set_aside)


def _is_call(entry: JSON) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "tool"


def _is_turn(entry: JSON) -> bool:
    if not isinstance(entry, dict) or entry.get("type") != "llm":
        return False
    return _is_index(entry.get("turn")) and isinstance(entry.get("output"), str)


def _place(entry: JSON) -> int:
    """The turn that an entry names, -1 where it names none or is not ours to read."""
    if not _is_turn(entry) and not _is_call(entry):
        return -1
    return entry["turn"] if _is_index(entry.get("turn")) else -1


def _read_turn(entry: dict[str, JSON], index: int) -> Turn:
    turn = Turn(index, entry["output"])
    return replace(turn, extra=_extra(_without_foreign(entry), _turn_fields(turn)))


def _read_step(entry: dict[str, JSON], turn: int, call: int) -> Step:
    name = _text(entry.get("name"))
    given, attempt = _read_input(name, entry)
    result = _read_result(entry)
    step = Step(
        turn=turn,
        call=entry["call"] if _is_index(entry.get("call")) else call,
        attempt=attempt,
        name=name,
        given=given,
        arguments=_read_arguments(entry, given, result),
        result=result,
    )
    shown = _without_foreign(entry) if _is_framed(entry) else entry
    return replace(step, extra=_extra({key: shown[key] for key in shown if key != "input"}, _step_fields(step)))


def _is_framed(entry: dict[str, JSON]) -> bool:
    """Whether a call says by itself where it belongs, as those do that we wrote."""
    return (
        _is_index(entry.get("turn")) and _is_index(entry.get("call")) and _member(entry.get("attempt"), AttemptStatus)
    )


def _read_input(name: str, entry: dict[str, JSON]) -> tuple[JSON, AttemptStatus]:
    """Arguments as given, and the attempt's status where the payload does not state it.

    With a status the input stands as it was written: the text of our malformed attempts may well be JSON.
    """
    given = entry.get("input")
    if _member(entry.get("attempt"), AttemptStatus):
        return given, AttemptStatus(entry["attempt"])
    if given is None:
        given = {}
    status = AttemptStatus.OK if isinstance(given, dict) else AttemptStatus.INVALID_ARGUMENTS
    if isinstance(given, str):
        decoded = _decoded_input(given)
        status = AttemptStatus.INVALID_JSON if decoded is None else status
        if isinstance(decoded, dict):
            given, status = decoded, AttemptStatus.OK
    return given, status if name else AttemptStatus.MISSING_NAME


def _read_arguments(entry: dict[str, JSON], given: JSON, result: ToolResult) -> dict[str, JSON] | None:
    if "arguments" in entry:
        return entry["arguments"] if isinstance(entry["arguments"], dict) else None
    return _own_object(given) if isinstance(given, dict) and result.ok else None


def _read_result(entry: dict[str, JSON]) -> ToolResult:
    status = entry["status"] if isinstance(entry.get("status"), str) else "error"
    ok = status == "success"
    return ToolResult(
        status=status,
        data=entry.get("output" if ok else "data"),
        code=ErrorCode(entry["code"]) if _member(entry.get("code"), ErrorCode) else None,
        message=_text(entry.get("message" if ok else "output")),
        metadata=_object(entry.get("metadata")),
    )


def _with_ending(trajectory: Trajectory, meta: dict[str, JSON]) -> Trajectory:
    ended = "answer" in meta and (meta["answer"] is None or isinstance(meta["answer"], str))
    if not ended or not _member(meta.get("stop"), StopReason):
        return replace(trajectory, meta=meta)
    rest = {key: value for key, value in meta.items() if key not in _META_FRAME}
    return replace(trajectory, meta=_without_foreign(rest), answer=meta["answer"], stop=StopReason(meta["stop"]))


def _unknown(fields: dict[str, JSON], set_aside: list[JSON]) -> dict[str, JSON]:
    """The payload's and the trajectory's own unknown fields, the latter one level down, as in the payload."""
    extra = {key: value for key, value in fields.items() if key not in ("input", "reference_output", "trajectory")}
    for key in ("input", "reference_output"):
        if key in fields and not isinstance(fields[key], str):
            extra[key] = fields[key]
    trajectory = fields.get("trajectory", {})
    if not isinstance(trajectory, dict):
        return extra | {"trajectory": trajectory}
    known = {"meta": dict, "steps": list}
    more = {key: value for key, value in trajectory.items() if not isinstance(value, known.get(key, ()))}
    if more.get("root") == {}:
        del more["root"]
    if set_aside:
        more["steps"] = set_aside
    return extra | {"trajectory": more} if more else extra


def _is_set_aside(key: str, value: JSON) -> bool:
    # A `steps` that was no list in the payload is kept as it was; a list can only be the entries set aside.
    return key == "steps" and isinstance(value, list)


def _extra(shown: dict[str, JSON], fields: dict[str, JSON]) -> dict[str, JSON]:
    """The entries of `shown` that writing `fields` would not bring back."""
    return {
        key: value
        for key, value in shown.items()
        if key not in fields or (fields[key] is not value and fields[key] != value)
    }


def _with_extra(fields: dict[str, JSON], extra: Mapping[str, JSON], frame: Iterable[str]) -> dict[str, JSON]:
    hidden = {key: value for key, value in extra.items() if key in frame or key == _FOREIGN}
    shown = {key: value for key, value in extra.items() if key not in hidden}
    return {**fields, **shown, _FOREIGN: hidden} if hidden else {**fields, **shown}


def _without_foreign(fields: dict[str, JSON]) -> dict[str, JSON]:
    hidden = fields.get(_FOREIGN)
    if not isinstance(hidden, dict):
        return fields
    return {key: value for key, value in fields.items() if key != _FOREIGN} | hidden


def _decoded(text: str) -> JSON:
    """The value of a JSON text, or the text itself where it is broken."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _decoded_input(text: str) -> JSON:
    """The value of a JSON text. None where it is broken, holds numbers that JSON lacks, or is null."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _object(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


def _is_index(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _member(value: JSON, of: type[StrEnum]) -> bool:
    return isinstance(value, str) and value in list(of)


def _own_object(value: Mapping[str, JSON]) -> dict[str, JSON]:
    copied: dict[str, JSON] = _own(value)
    return copied


def _own(value: JSON) -> JSON:
    """A copy that shares no container with `value`. A loop, so that no depth of nesting can exhaust the stack."""
    top: list[JSON] = [value]
    pending: list[Any] = [top]
    while pending:
        box = pending.pop()
        for key, item in list(box.items() if isinstance(box, dict) else enumerate(box)):
            if item is None or isinstance(item, (str, int, float)):  # by far the most, and the checks below are slow
                continue
            if isinstance(item, Mapping):
                box[key] = dict(item)
            elif isinstance(item, (list, tuple)):
                box[key] = list(item)
            else:
                continue
            pending.append(box[key])
    return top[0]
