"""Tools that really block: ended at their timeout with everything that they started, and nobody else is disturbed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from env.contract import ContractError, ToolContract
from env.registry import Registry, Tool
from env.types import ErrorCode, ToolError

YAML = """\
name: wait_for
description: Waits.
timeout: 400
idempotent: true
blocking: true
input_schema:
  type: object
  additionalProperties: false
  properties: {a: {type: string, description: What to do.}}
output_schema: {type: object}
"""


# Of this process: other workers run the same tests at the same time.
SLEEP = f"import time; time.sleep(600)  # for {os.getpid()}"


def wait_for(world: list[int], a: str = "") -> dict[str, Any]:
    if a == "hang":
        while True:
            time.sleep(1)
    if a == "spin":
        while True:
            pass
    if a == "child":
        subprocess.run([sys.executable, "-c", SLEEP], check=False)
    if a == "error":
        raise ToolError(ErrorCode.NOT_FOUND, "no such thing")
    if a == "bug":
        raise ValueError("secret")
    if a == "gone":
        os._exit(3)
    if a == "big":
        return {"text": "x" * 3_000_000}
    if a == "change":
        world.append(1)
    return {"pid": os.getpid(), "world": len(world)}


@pytest.fixture
def contract(tmp_path: Path) -> ToolContract:
    (tmp_path / "wait_for.yaml").write_text(YAML, "utf-8")
    return ToolContract.load(tmp_path / "wait_for.yaml")


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def sleepers() -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if SLEEP in (each.info["cmdline"] or [])]


def test_a_call_runs_elsewhere_and_its_answer_comes_back(contract: ToolContract) -> None:
    bound = Registry([Tool(contract, wait_for)]).bind([0, 0])
    data = bound.tool_call("wait_for").data
    assert data["world"] == 2
    assert data["pid"] != os.getpid()
    assert len(bound.tool_call("wait_for", a="big").data["text"]) == 3_000_000


def test_what_it_changes_is_lost_as_the_contract_says(contract: ToolContract) -> None:
    world = [0]
    assert Registry([Tool(contract, wait_for)]).bind(world).tool_call("wait_for", a="change").data["world"] == 2
    assert world == [0]


@pytest.mark.parametrize(
    ("a", "code"),
    [
        ("hang", ErrorCode.TIMEOUT),
        ("spin", ErrorCode.TIMEOUT),
        ("child", ErrorCode.TIMEOUT),
        ("error", ErrorCode.NOT_FOUND),
        ("bug", ErrorCode.INTERNAL_ERROR),
        ("gone", ErrorCode.UNAVAILABLE),
    ],
)
def test_every_end_has_its_code(contract: ToolContract, a: str, code: ErrorCode) -> None:
    before = children()
    result = Registry([Tool(contract, wait_for)]).bind([]).tool_call("wait_for", a=a)
    assert result.code is code
    assert "secret" not in result.message
    assert children() <= before
    assert sleepers() == []


@pytest.mark.slow  # its healthy calls have a deadline: it needs the cores for itself, which the slow part has
def test_hung_calls_end_in_time_leave_nothing_and_disturb_nobody(contract: ToolContract) -> None:
    """A small R7: 24 calls, a third of them hung, from 8 threads."""
    bound = Registry([Tool(contract, wait_for)]).bind([])
    before, threads = children(), threading.active_count()

    def call(number: int) -> tuple[ErrorCode | None, float]:
        started = time.monotonic()
        result = bound.tool_call("wait_for", a="hang" if number % 3 == 0 else "")
        return result.code, time.monotonic() - started

    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(call, range(24)))
    assert [code for code, _ in ended] == [ErrorCode.TIMEOUT if n % 3 == 0 else None for n in range(24)]
    assert max(seconds for _, seconds in ended) < 30  # against hanging; R7 measures
    assert children() <= before
    assert threading.active_count() == threads


def test_a_tool_that_changes_things_may_not_be_blocking(tmp_path: Path) -> None:
    path = tmp_path / "wait_for.yaml"
    path.write_text(YAML.replace("idempotent: true", "idempotent: false"), "utf-8")
    with pytest.raises(ContractError, match="blocking: expected idempotent: true"):
        ToolContract.load(path)
