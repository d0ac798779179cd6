"""From a model's text of one turn to its attempts to call a tool.

The format is ChatML's: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several per message, text around
them allowed, `<think>...</think>` set aside. A failed parse is a value that tells the model what to repair, never an
exception. Nothing here knows which tools exist or what their arguments should be.

The text is read in one pass rather than by first deleting the thinking: a tag inside a JSON string is data, and no
removal can join two halves of a tag into a new one. Time is linear in the text: a scan for the end of an object gives
up at the first `<` or backslash outside a string, and every `<tool_call>{"` that it crosses inside a string ends that
string, so that no scan gets past the second opener after its own.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from env.types import JSON, AttemptStatus

# Far above any contract's schema, far below the interpreter's recursion limit.
MAX_DEPTH = 64
# Python's own default for converting text to int, which is quadratic in the number of digits.
MAX_DIGITS = 4300

EXPECTED = 'one JSON object {"name": "...", "arguments": {...}}'
_UNCLOSED = f"the tool_call block was opened and not closed; expected {EXPECTED} and then the closing tag"

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_THINKING = r"<think>.*?(?:</think>|\Z)"
_TAG = re.compile(rf"{_THINKING}|</?tool_call>", re.DOTALL)
_BLANK = re.compile(rf"(?:\s++|{_THINKING})*+", re.DOTALL)
# What may stand between two brackets: strings, and anything else that a JSON text might hold outside them.
_FLAT = re.compile(r'(?:[^"{}\[\]\\<]++|"(?:[^"\\\x00-\x1f]++|\\.)*+")*+')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to call a tool.

    name: "" where none could be read. arguments: an object where status is OK, None otherwise.
    raw: the text between the tags. detail: what was wrong, where, and what was expected; "" where status is OK. It
    holds no "<", so that quoting the model back to itself cannot form a tag or a control token.
    """

    status: AttemptStatus
    name: str
    arguments: dict[str, JSON] | None
    raw: str
    detail: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """attempts: in the order of the text. prose: the text outside calls and thinking, stripped."""

    attempts: tuple[Attempt, ...]
    prose: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """An object read from text and where it ends. fault: what strict JSON refuses in it, "" where it can be used."""

    value: dict[str, JSON]
    end: int
    fault: str


class _Refusal(Exception):
    """Stands in a decoded value for what strict JSON refuses; the encoder stumbles over it and raises it.

    The decoder reads on past it, since only an error of syntax leaves it open where the object ends.
    """


class _Boundary(NamedTuple):
    """Where the content of a block stops and where reading goes on."""

    stop: int
    resume: int
    closed: bool


def parse(text: str) -> Parsed:
    """Read one turn. Never raises on a str, in time linear in its length.

    An unclosed `<think>` hides everything after it; `</think>` or `</tool_call>` without an opener is plain text.
    A block that never closes ends at the next `<tool_call>`, so that one bad call does not swallow a good one.
    """
    attempts: list[Attempt] = []
    prose: list[str] = []
    position = 0
    while (tag := _TAG.search(text, position)) is not None:
        start, end = tag.span()
        prose.append(text[position:start])
        position = end
        if text.startswith(_OPEN, start):
            attempt, position = _read_block(text, end)
            attempts.append(attempt)
        elif text.startswith(_CLOSE, start):
            prose.append(_CLOSE)
    prose.append(text[position:])
    return Parsed(tuple(attempts), _printable("".join(prose)).strip())


def _read_block(text: str, start: int) -> tuple[Attempt, int]:
    """The attempt whose opener ends at `start`, and where reading goes on."""
    begin = _end_of_blank(text, start)
    reading = _read_object(text, begin)
    boundary = _find_boundary(text, begin if reading is None else reading.end)
    raw = _printable(text[start : boundary.stop]).strip()
    if not boundary.closed:
        return _unclosed(reading, raw), boundary.resume
    fault = _fault(text, begin, reading, boundary.stop)
    if fault or reading is None:
        detail = f"{fault}; expected {EXPECTED} and nothing else in the block"
        return _failed(AttemptStatus.INVALID_JSON, "", raw, detail), boundary.resume
    return _judge(reading.value, raw), boundary.resume


def _fault(text: str, begin: int, reading: _Reading | None, stop: int) -> str:
    """What keeps the content of a closed block from being one strict JSON object; "" where nothing does."""
    if begin == stop:
        return "it is empty"
    if reading is None:
        return _explain(text, begin)
    if _end_of_blank(text, reading.end) != stop:
        return f"text after the object: {_quote(text[reading.end : stop].strip())}"
    return reading.fault


def _find_boundary(text: str, position: int) -> _Boundary:
    while (tag := _TAG.search(text, position)) is not None:
        start, position = tag.span()
        if text.startswith(_OPEN, start):
            return _Boundary(start, start, False)
        if text.startswith(_CLOSE, start):
            return _Boundary(start, position, True)
    return _Boundary(len(text), len(text), False)


def _unclosed(reading: _Reading | None, raw: str) -> Attempt:
    name = "" if reading is None or reading.fault else _name_of(reading.value)
    return Attempt(AttemptStatus.UNCLOSED, name, None, raw, _UNCLOSED)


def _judge(call: dict[str, JSON], raw: str) -> Attempt:
    """From an object that was read to a call that can be run."""
    name = _name_of(call)
    if not name:
        detail = f'"name" must be the name of a tool as text, got {_quote_value(call, "name")}; expected {EXPECTED}'
        return _failed(AttemptStatus.MISSING_NAME, "", raw, detail)
    given = call.get("arguments")
    if given is None:
        return Attempt(AttemptStatus.OK, name, {}, raw, "")
    if isinstance(given, dict):
        return Attempt(AttemptStatus.OK, name, given, raw, "")
    if not isinstance(given, str):
        detail = f'"arguments" must be a JSON object, got {_quote_value(call, "arguments")}'
        return _failed(AttemptStatus.INVALID_ARGUMENTS, name, raw, detail)
    return _judge_text(name, given.strip(), raw)


def _judge_text(name: str, given: str, raw: str) -> Attempt:
    """Arguments that were encoded twice: some templates teach models to do so."""
    reading = _read_object(given, 0)
    fault = _fault(given, 0, reading, len(given))
    if fault or reading is None:
        detail = f'"arguments" must be a JSON object or the JSON text of one: {fault}'
        return _failed(AttemptStatus.INVALID_ARGUMENTS, name, raw, detail)
    return Attempt(AttemptStatus.OK, name, reading.value, raw, "")


def _failed(status: AttemptStatus, name: str, raw: str, detail: str) -> Attempt:
    return Attempt(status, name, None, raw, _printable(detail))


def _name_of(call: dict[str, JSON]) -> str:
    name = call.get("name")
    return name if isinstance(name, str) and name.strip() else ""


def _read_object(text: str, start: int) -> _Reading | None:
    """Read one JSON object that begins at `start`; what follows it is not looked at. None: `_explain` says why."""
    if not text.startswith("{", start):
        return None
    stop, depth = _scan(text, start)
    if depth != 0:
        return None
    try:
        value = _DECODER.decode(text[start:stop])
    except json.JSONDecodeError:
        return None
    fault = _refused_in(value)
    return _Reading({} if fault else value, stop, fault)


def _explain(text: str, start: int) -> str:
    """Why `_read_object` found no object. Apart from it, since nobody asks about a block that never closes."""
    if not text.startswith("{", start):
        return f"no JSON object: it begins with {_quote(text[start : start + 40])}"
    stop, depth = _scan(text, start)
    if depth > MAX_DEPTH:
        return f"brackets are nested deeper than {MAX_DEPTH} levels"
    # Up to and with the character that broke it, so that the decoder sees no more brackets than were counted.
    body = text[start : stop if depth == 0 else stop + 1]
    try:
        _DECODER.decode(body)
    except json.JSONDecodeError as error:
        return f"{error.msg} at character {error.pos + 1} of the object, after {_quote_end(body[: error.pos])}"
    return "no JSON object"


def _scan(text: str, start: int) -> tuple[int, int]:
    """Follow brackets from the one at `start`, before any decoder could recurse into them.

    Returns a position and the depth there: 0 just after the bracket that closes the first one, above MAX_DEPTH where
    it gave up, anything between at the character that cannot stand there.
    """
    depth, position = 0, start
    while text[position : position + 1] in ("{", "[", "}", "]"):
        depth += 1 if text[position] in "{[" else -1
        position += 1
        if depth == 0 or depth > MAX_DEPTH:
            break
        position = _end_of_flat(text, position)
    return position, depth


def _end_of_flat(text: str, position: int) -> int:
    match = _FLAT.match(text, position)
    return position if match is None else match.end()


def _end_of_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


def _refused_in(value: JSON) -> str:
    """What strict JSON refuses in a decoded value, "" where nothing. One encoding finds all of it."""
    try:
        _ENCODER.encode(value).encode()
    except _Refusal as refusal:
        return str(refusal)
    except UnicodeEncodeError:  # no log line and no prompt could be encoded with it
        return "a lone surrogate (half of a \\uXXXX pair) in a string"
    return ""


def _raise(refusal: _Refusal) -> None:
    raise refusal


def _object(pairs: list[tuple[str, JSON]]) -> JSON:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
    return _Refusal(f"duplicate key {_quote(twice)}")


def _integer(digits: str) -> JSON:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        return _Refusal(f"an integer of more than {MAX_DIGITS} digits")
    try:
        return int(digits)
    except ValueError:  # an interpreter that was started with a lower limit
        return _Refusal("an integer of too many digits")


def _real(digits: str) -> JSON:
    value = float(digits)
    return _Refusal(f"the number {_quote(digits)} is too large") if math.isinf(value) else value


def _constant(word: str) -> JSON:
    return _Refusal(f"{word} is not JSON")


def _printable(text: str) -> str:
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def _quote(text: str) -> str:
    """A short quotation for a message, from the beginning of the text."""
    return _as_quotation(text if len(text) <= 24 else text[:24] + "…")


def _quote_end(text: str) -> str:
    return _as_quotation(text if len(text) <= 24 else "…" + text[-24:])


def _as_quotation(text: str) -> str:
    return _ENCODER.encode(text).replace("<", "\\u003c")


def _quote_value(call: dict[str, JSON], key: str) -> str:
    return _quote(_ENCODER.encode(call[key])) if key in call else "nothing"


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_raise)
