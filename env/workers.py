"""Runs a tool that may really block in a process of its own, and ends that process and its children at the deadline.

A thread cannot be stopped, so it is a fork: the child sees the world as it is at the call, and what it changes there is
lost. Contracts therefore allow `blocking` for idempotent tools only. POSIX.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from env.types import JSON, ErrorCode, ToolError

READ = 65_536
# One at a time: a child that inherits another call's end of the pipe would keep it open, and hide that call's end.
_FORKING = threading.Lock()


class WorkerBug(RuntimeError):
    """The function raised something that is no ToolError; the message is the exception's type."""


def run_with_deadline(
    function: Callable[..., JSON], world: object, arguments: Mapping[str, JSON], limit_s: float
) -> JSON:
    """The function's data. Raises what it raised, ToolError(TIMEOUT) after limit_s seconds, WorkerBug for a bug."""
    with _FORKING:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _work(function, world, arguments, reading, writing)
        os.close(writing)
    try:
        answer = _read(reading, time.monotonic() + limit_s)
    finally:
        os.close(reading)
        _end(child)
    if answer is None:
        raise ToolError(ErrorCode.TIMEOUT, f"no answer within {limit_s * 1000:g} ms; the call was ended")
    if not answer:
        raise ToolError(ErrorCode.UNAVAILABLE, "the tool's process ended without an answer")
    kind, *rest = json.loads(answer)
    if kind == "error":
        raise ToolError(ErrorCode(rest[0]), rest[1], **rest[2])
    if kind == "bug":
        raise WorkerBug(rest[0])
    data: JSON = rest[0]
    return data


def _work(
    function: Callable[..., JSON], world: object, arguments: Mapping[str, JSON], reading: int, writing: int
) -> None:
    """The child: one call, one answer, and out without any of the parent's cleanup."""
    try:
        os.setsid()  # a group of its own, so that what it starts ends with it
        os.close(reading)
        try:
            answer: list[JSON] = ["data", function(world, **arguments)]
            text = json.dumps(answer)
        except ToolError as error:
            text = json.dumps(["error", error.code.value, error.detail, error.told])
        except BaseException as error:
            text = json.dumps(["bug", type(error).__name__])
        left = text.encode()
        while left:
            left = left[os.write(writing, left) :]
    finally:
        os._exit(0)


def _read(reading: int, deadline: float) -> bytes | None:
    """Everything up to the end of the pipe; None where the deadline comes first."""
    answer = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reading], [], [], left)
        if not ready:
            return None
        part = os.read(reading, READ)
        if not part:
            return bytes(answer)
        answer += part
    return None


def _end(child: int) -> None:
    """No process of the call outlives it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # it may not have had the time to make its group
    with suppress(ChildProcessError):
        os.waitpid(child, 0)
