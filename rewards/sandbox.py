"""Runs a user's reward file in a process that can do nothing else: no network, no files, no processes, little memory.

The payload is an argument, never pasted into source. What a layer needs of the system (namespaces, a change of user)
may be missing on a machine; `layers` says which stand. Without any of them the process still has limits on memory,
processor time, written files and new processes, and can still read what the user can read. None of this is a jail for
a determined attacker with a kernel exploit: it keeps a careless or hostile file from reaching data, network or trainer.
Nor can a file be kept from forging its own score: what it says is the score. It cannot forge another payload's.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

WALL_SECONDS = 5.0
START_SECONDS = 10.0
LONGEST_REASON = 250
ENDED = "its process ended"
LONGEST_ANSWER = 65_536  # bytes: an answer is a number or one short sentence
WORKER = Path(__file__).with_name("sandbox_worker.py")


class SandboxError(ValueError):
    """The file has no `cal_reward` that could be called; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """value: a finite number, or None with the reason."""

    value: float | None
    reason: str = ""


class Sandbox:
    """One reward file and its warm process. Use as a context manager, or `close` it. Raises SandboxError."""

    def __init__(self, path: Path | str, wall_seconds: float = WALL_SECONDS):
        self.path = Path(path)
        self.refused = Counter[str]()  # reasons for which there was no number
        self.layers: tuple[str, ...] = ()
        self._wall = wall_seconds
        self._empty = tempfile.TemporaryDirectory(prefix="reward-")
        os.chmod(self._empty.name, 0o555)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._number = 0  # of the last request: an answer has to name it
        self._rest = b""
        if not self.path.is_file():
            raise SandboxError(f"{self.path}: no such file")
        self._start()

    def score(self, payload: str) -> Answer:
        """The file's number for one payload (JSON text). A process that dies or hangs is replaced."""
        answer = self._ask(payload)
        if answer.value is None:
            self.refused[answer.reason] += 1
        return answer

    def close(self) -> None:
        """Kill the process and whatever it started. `score` would start it again."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # what was not yet written goes nowhere
                process.stdin.close()
        os.close(self._answers)
        process.wait()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WORKER), str(self.path.absolute()), self._empty.name, str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        self._answers, self._rest = reading, b""
        first = self._read(START_SECONDS)
        self.layers = tuple(first.get("layers", ())) if first else ()
        ready = self._read(START_SECONDS) if first else None
        if not ready or "broken" in ready:
            self.close()
            reason = ready["broken"] if ready else "it did not come up: it ends or hangs while it is loaded"
            raise SandboxError(f"{self.path}: {reason}")

    def _ask(self, payload: str) -> Answer:
        warm = self._process is not None
        answer = self._ask_once(payload)
        # A process that ended may have done so after its last answer, which is not this payload's doing: once more.
        return self._ask_once(payload) if warm and answer.reason == ENDED else answer

    def _ask_once(self, payload: str) -> Answer:
        if self._process is not None and self._has_more():
            self.close()  # it has ended, or written what nobody asked for
        try:
            if self._process is None:
                self._start()
        except SandboxError as error:
            return Answer(None, f"it could not be started again: {error}"[:LONGEST_REASON])
        self._number += 1
        if not self._send(json.dumps([self._number, payload]).encode() + b"\n"):
            self.close()
            return Answer(None, ENDED)
        line = self._read(self._wall)
        if line is None:
            hung = self._process is not None and not self._has_ended()
            self.close()
            return Answer(None, f"no answer within {self._wall:g} s" if hung else ENDED)
        if line.get("number") != self._number or self._rest:
            self.close()
            return Answer(None, "it wrote answers of its own")
        if isinstance(line.get("value"), float | int) and not isinstance(line["value"], bool):
            return Answer(float(line["value"]))
        reason = line.get("broken")
        return Answer(None, reason if isinstance(reason, str) else "its answer could not be read")

    def _has_more(self) -> bool:
        """Whether something waits to be read although nothing was asked: bytes, or the end of the pipe."""
        return bool(self._rest or select.select([self._answers], [], [], 0)[0])

    def _has_ended(self) -> bool:
        """Whether the worker's end of the pipe is closed, or its process gone."""
        assert self._process is not None
        readable = select.select([self._answers], [], [], 0)[0]
        return self._process.poll() is not None or bool(readable and not os.read(self._answers, 1))

    def _send(self, line: bytes) -> bool:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def _read(self, seconds: float) -> dict[str, Any] | None:
        """The next line of the worker as an object; {} for one that is none, None where there is none in time."""
        deadline = _now() + seconds
        while b"\n" not in self._rest:
            left = deadline - _now()
            if left <= 0 or len(self._rest) > LONGEST_ANSWER:
                return None
            if not select.select([self._answers], [], [], left)[0]:
                return None
            more = os.read(self._answers, LONGEST_ANSWER)
            if not more:
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            value = json.loads(line)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def _now() -> float:
    return os.times().elapsed
