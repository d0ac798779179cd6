"""Between an episode's messages and those of the chat-completions protocol.

An episode is text: what a model calls stands in its turn as the parser reads it. The protocol has calls as values
beside the text. Written down here, they lose nothing: readable arguments come back equal, unreadable ones as the same
characters with the parser's verdict. Which tools exist is not this module's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from env.parsing import Attempt, parse
from env.types import JSON, AttemptStatus

Message = dict[str, Any]

LONGEST_NAME = 64  # what servers accept, in characters
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def text_of(message: Mapping[str, JSON]) -> str:
    """The turn that an assistant's message amounts to: its text, then its calls in order.

    A text that would swallow the calls (it opens a `<think>` that never closes) comes after them.
    """
    said = _content(message.get("content"))
    given = message.get("tool_calls")
    calls = [_call_text(call) for call in given] if isinstance(given, list) else []
    text = said + "".join(calls)
    whole = len(parse(text).attempts) == len(parse(said).attempts) + len(calls)
    return text if whole else "".join(calls) + said


def protocol_messages(messages: Sequence[Mapping[str, str]]) -> list[Message]:
    """An episode's messages as a request has them: calls as values, each result under the id of its call.

    What servers refuse to read again is sent in a form that they accept, so that a model's mistake costs its turn and
    not the episode: unreadable arguments as {"unreadable": text}, a name without what names may not hold.
    """
    sent: list[Message] = []
    ids: Iterator[str] = iter(())
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            turn = _assistant(message["content"], place)
            ids = iter([call["id"] for call in turn.get("tool_calls", ())])
            sent.append(turn)
        elif message["role"] == "tool":
            sent.append({"role": "tool", "tool_call_id": next(ids), "content": message["content"]})
        else:
            sent.append(dict(message))
    return sent


def _assistant(text: str, place: int) -> Message:
    parsed = parse(text)
    if not parsed.attempts:
        return {"role": "assistant", "content": text}
    calls = [
        {
            "id": f"call_{place}_{number}",
            "type": "function",
            "function": {"name": _name(attempt.name), "arguments": _arguments(attempt)},
        }
        for number, attempt in enumerate(parsed.attempts)
    ]
    return {"role": "assistant", "content": parsed.prose, "tool_calls": calls}


def _arguments(attempt: Attempt) -> str:
    given = {"unreadable": attempt.raw} if attempt.arguments is None else attempt.arguments
    return json.dumps(given, ensure_ascii=False)


def _name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME] or "unreadable"


def _content(content: JSON) -> str:
    """Text, or the text parts of a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _call_text(call: JSON) -> str:
    """One call as the parser reads it, in the models' own form where its arguments can be read."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return _block(call)
    name, given = function.get("name"), function.get("arguments")
    quoted = _block({"name": name, "arguments": given})
    attempt = parse(quoted).attempts[0]
    if attempt.status is not AttemptStatus.OK or not isinstance(given, str):
        return quoted
    plain = _block({"name": name, "arguments": attempt.arguments})
    same = parse(plain).attempts[0]
    return plain if (same.status, same.arguments) == (attempt.status, attempt.arguments) else quoted


def _block(value: JSON) -> str:
    # A tag inside a string of the call must not look like one in the turn.
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"<tool_call>{body}</tool_call>"
