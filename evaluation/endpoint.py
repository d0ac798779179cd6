"""A model behind an OpenAI-compatible endpoint, as a player: chat completions with tools, many episodes at once.

What it calls goes through the same registry, parser, episode and score as a local model's calls. A request that fails
for good ends its episode without a reward; where nothing works at all the run ends, with the cause.
"""

from __future__ import annotations

import json
import random
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import httpx2

from data.schema import ALL_TOOLS
from env.faults import FaultPlan
from env.surface import Surface
from env.types import JSON
from evaluation.players import Item, Played, take_turn
from evaluation.wire import protocol_messages, text_of

TIMEOUT = httpx2.Timeout(300.0, connect=10.0)  # seconds of silence; a small machine writes slowly
ATTEMPTS = 6
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
LONGEST_RETRY_AFTER_S = 120.0
MOST_FAILURES = 10  # requests in a row that failed for good, before the run ends
LARGEST_BODY = 16 * 1024 * 1024
MAX_SHOWN = 200  # characters of a server's message
RETRIED = frozenset({408, 409, 429})  # and everything from 500 on
HOPELESS = frozenset({401, 403, 404, 405})  # key, address or model: the next request fails alike


class Unanswered(Exception):
    """One request got no answer, after all retries. The message says why, on one line."""


class Unusable(Unanswered):
    """Nothing will work: there is no use in going on."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one turn. text: None where the conversation no longer fits the model's context."""

    text: str | None
    cut: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why one attempt failed. after: seconds that the server asks to wait."""

    reason: str
    again: bool
    hopeless: bool = False
    after: float | None = None


class Endpoint:
    """One model of one server; safe in several threads, and a context manager.

    url: up to where "/chat/completions" begins. key: sent as a bearer token, told to nobody else. max_tokens: of one
    turn, the server's own limit where it is None. sleep: takes seconds; None for a sleep that `close` ends. jitter: a
    number in [0, 1) per wait. Raises ValueError for an address that cannot be used.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str = "",
        temperature: float = 0.0,
        max_tokens: int | None = None,
        sleep: Callable[[float], object] | None = None,
        jitter: Callable[[], float] = random.random,
    ):
        _check_address(url)
        self.url, self.model = url.rstrip("/"), model
        self._key = key
        self._options = {"temperature": temperature} | ({} if max_tokens is None else {"max_tokens": max_tokens})
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=TIMEOUT,
            verify=url.startswith("https"),  # certificates take a moment to load
            limits=httpx2.Limits(max_connections=None),
        )
        self._answered = False
        self._failures = 0  # since the last answer
        self._over = threading.Event()
        self._sleep, self._jitter = sleep or self._over.wait, jitter

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._over.is_set()

    def close(self) -> None:
        """End what is under way: nothing is retried from now on."""
        self._over.set()
        self._client.close()

    def ask(self, messages: Sequence[Mapping[str, str]], tools: Sequence[JSON], seed: int) -> Reply:
        """The model's next turn. seed: sent where the model is to sample. Raises Unanswered, Unusable."""
        body: dict[str, Any] = {"model": self.model, "messages": protocol_messages(messages), **self._options}
        body |= {"tools": list(tools)} if tools else {}
        body |= {"seed": seed} if self._options["temperature"] else {}
        content = json.dumps(body).encode()  # ASCII: a model can write half a surrogate pair
        attempt = 1
        while isinstance(answer := self._once(content), _Failure):
            if not answer.again or attempt == ATTEMPTS or self.closed:
                raise self._error(answer)
            self._sleep(self._wait_s(attempt, answer.after))
            attempt += 1
        self._answered, self._failures = True, 0
        return answer

    def _error(self, failure: _Failure) -> Unanswered:
        self._failures += 1
        # Before anything is cut off: half a key is too much as well.
        reason = _one_line(failure.reason.replace(self._key, "***") if self._key else failure.reason)
        if failure.hopeless or not self._answered:
            return Unusable(f"{self.url}: {reason}")
        if self._failures >= MOST_FAILURES:
            return Unusable(f"{self.url}: {MOST_FAILURES} requests in a row failed, the last one: {reason}")
        return Unanswered(reason)

    def _once(self, content: bytes) -> Reply | _Failure:
        try:
            return self._sent(content)
        except httpx2.ConnectError as error:
            # Nobody listens: where nobody ever did, waiting will not help.
            return _Failure(f"no connection ({error})", again=self._answered)
        except httpx2.TimeoutException as error:
            return _Failure(f"no answer in time ({type(error).__name__})", again=True)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, RuntimeError) as error:  # RuntimeError: it was closed
            return _Failure(f"the connection broke ({type(error).__name__})", again=True)

    def _sent(self, content: bytes) -> Reply | _Failure:
        headers, body = {"Content-Type": "application/json"}, bytearray()
        with self._client.stream("POST", f"{self.url}/chat/completions", content=content, headers=headers) as response:
            for part in response.iter_bytes():
                body += part
                if len(body) > LARGEST_BODY:
                    return _Failure(f"the answer has more than {LARGEST_BODY} bytes", again=False)
        text = body.decode("utf-8", "replace")
        return _reply(text) if response.status_code == 200 else _refusal(response.status_code, response.headers, text)

    def _wait_s(self, attempt: int, after: float | None) -> float:
        """Twice as long each time, within half of that at random, and never less than the server asks for."""
        backoff = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (attempt - 1)) * (0.5 + self._jitter() / 2)
        return backoff if after is None else max(min(after, LONGEST_RETRY_AFTER_S), backoff)


def play_rows(
    endpoint: Endpoint,
    items: Sequence[Item],
    *,
    seed: int,
    max_turns: int,
    concurrency: int,
    faults: FaultPlan | None = None,
    surface: Surface = ALL_TOOLS,
) -> Iterator[Played]:
    """The episodes as they end, so in any order; `concurrency` of them at a time. Raises Unusable."""
    ended: SimpleQueue[Played | BaseException] = SimpleQueue()
    left, lock = iter(items), threading.Lock()

    def work() -> None:
        while not endpoint.closed:
            with lock:
                item = next(left, None)
            if item is None:
                return
            try:
                played = play_row(endpoint, item, seed=seed, max_turns=max_turns, faults=faults, surface=surface)
                ended.put(played)
            except BaseException as error:  # raised again in the thread that iterates
                ended.put(error)

    # Daemons, as a pool would wait for requests that nobody wants any more: minutes, after an interrupt.
    for _ in range(min(concurrency, len(items))):
        threading.Thread(target=work, daemon=True).start()
    for _ in items:
        played = ended.get()
        if isinstance(played, BaseException):
            endpoint.close()
            raise played
        yield played


def play_row(
    endpoint: Endpoint,
    item: Item,
    *,
    seed: int,
    max_turns: int,
    faults: FaultPlan | None = None,
    surface: Surface = ALL_TOOLS,
) -> Played:
    """One whole episode. Raises Unusable."""
    row, sample = item
    episode = row.open(max_turns=max_turns, faults=faults, surface=surface)
    tokens = 0
    while not episode.done:
        drawn = zlib.crc32(f"{seed}/{row.task.id}/{sample}/{len(episode.messages)}".encode()) >> 1
        try:
            reply = endpoint.ask(episode.messages, episode.tools, drawn)
        except Unusable:
            raise
        except Unanswered as error:
            episode.abandon(str(error))
            break
        tokens += reply.tokens
        if reply.cut or reply.text is None:
            episode.truncate(reply.text)
        else:
            take_turn(episode, reply.text)
    return Played(row, episode.trajectory(), tokens, sample)


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"expected http://HOST or https://HOST with a path, got {url!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("an address with a name, password, query or fragment would be written into the run's files")


def _reply(text: str) -> Reply | _Failure:
    try:
        return _completion(json.loads(text))
    except (ValueError, RecursionError, LookupError, TypeError):
        return _Failure(f"the answer is no chat completion: {text}", again=True)


def _completion(body: JSON) -> Reply:
    """Raises LookupError, TypeError or ValueError where this is no chat completion."""
    choice = body["choices"][0]
    message = choice["message"]
    if not isinstance(message, dict) or not {"content", "tool_calls"} & message.keys():
        raise ValueError("no message")
    usage = body.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return Reply(text_of(message), choice.get("finish_reason") == "length", tokens if type(tokens) is int else 0)


def _refusal(status: int, headers: Mapping[str, str], text: str) -> Reply | _Failure:
    said = _said(text)
    if status == 400 and ("context_length" in said or "context length" in said.lower()):
        return Reply(None, True, 0)
    again = status in RETRIED or status >= 500
    return _Failure(f"status {status}: {said}", again, status in HOPELESS, _retry_after(headers))


def _said(text: str) -> str:
    """The server's own words: {"error": {"message": ..., "code": ...}}, or whatever it sent."""
    try:
        error = json.loads(text)["error"]
        return f"{error['message']} {error.get('code') or ''}" if isinstance(error, dict) else str(error)
    except (ValueError, RecursionError, LookupError, TypeError):
        return text


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from now: a number, or a date against the server's own clock. None where it cannot be read."""
    given = headers.get("retry-after", "")
    try:
        if given.isdecimal():
            return float(given)
        wait_until, now = (parsedate_to_datetime(text) for text in (given, headers.get("date", "")))
        return max(0.0, (wait_until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _one_line(text: str) -> str:
    """Short enough for a message, wherever it came from, and nothing in it that a terminal would obey."""
    line = "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
    return line if len(line) <= MAX_SHOWN else line[:MAX_SHOWN] + "…"
