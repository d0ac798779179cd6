"""The process in which a user's `cal_reward` runs: closes every door it can, then answers one payload per line.

Started by rewards.sandbox as a script of its own (`python -I -S`), standard library only. Its arguments: the reward's
file, an empty folder, and the number of the descriptor for answers. It first writes the layers that it could put in
place, as one line. What the file prints goes nowhere: standard output is the null device from the start.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import importlib
import json
import math
import os
import resource
import signal
import sys
import time
from types import CodeType
from typing import Any

CPU_SECONDS = 2
MEMORY_BYTES = 512 * 2**20
NOBODY = 65534
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38


def main() -> None:
    path, empty, answers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(path, encoding="utf-8") as file:
        code, modules = prepare(file.read(), path)
    for name in modules:
        # What the file imports is imported before the door closes. What is not there is the file's own ImportError.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    layers = close_doors(empty)
    asked = os.fdopen(os.dup(0), encoding="utf-8")  # apart from sys.stdin, which the file may close
    out = os.fdopen(answers, "w", encoding="utf-8")
    write(out, {"layers": layers})
    space: dict[str, Any] = {"__name__": "reward"}
    try:
        exec(code, space)
        function = space["cal_reward"]
    except BaseException as error:
        write(out, {"broken": said(error)})
        return
    write(out, {"ready": True})
    for line in asked:
        number, payload = json.loads(line)
        limit_cpu()
        write(out, {"number": number, **answer(function, payload)})


def prepare(source: str, path: str) -> tuple[CodeType, list[str]]:
    """The file without the line that a platform appends (`print(cal_reward({{payload}}))`), and what it imports."""
    try:
        tree = ast.parse(source, path)
    except (SyntaxError, ValueError) as error:
        tree = ast.parse(f"raise SyntaxError({str(error)!r})")
    tree.body = [node for node in tree.body if not _prints(node)]
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return compile(tree, path, "exec"), sorted(set(names))


def _prints(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"


def answer(function: Any, payload: str) -> dict[str, Any]:
    """{"value": a finite number} or {"broken": why}."""
    try:
        value = function(payload)
    except BaseException as error:
        return {"broken": said(error)}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {"broken": f"it returned {type(value).__name__}, expected a number"}
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return {"broken": "it returned a number that is too large"}
    return {"value": number} if math.isfinite(number) else {"broken": f"it returned {number}"}


def said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except BaseException:
        return type(error).__name__


def write(out: Any, line: dict[str, Any]) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


def close_doors(empty: str) -> list[str]:
    """Put every layer in place that this machine allows; returns their names. empty: a folder to be locked into."""
    libc = ctypes.CDLL(None, use_errno=True)
    layers = []
    root = os.geteuid() == 0
    extra = 0 if root else CLONE_NEWUSER
    if libc.unshare(extra | CLONE_NEWNET | CLONE_NEWIPC) == 0:
        layers.append("no network")
    if libc.unshare(CLONE_NEWPID) == 0 and (root or "no network" in layers):
        child = os.fork()
        if child:  # the parent only waits: the child is alone in a process namespace of its own
            os.close(0)
            _, status = os.waitpid(child, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        layers.append("own processes only")
    try:
        os.chroot(empty)
        os.chdir("/")
        layers.append("no files")
    except OSError:
        os.chdir(empty)
    if root:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        layers.append("user nobody")
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.environ.clear()
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 8),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return [*layers, "limits on memory, files, processes, processor time"]


def limit_cpu() -> None:
    used = math.ceil(time.process_time())
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_SECONDS, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
