"""scripts.trace: the three debugging steps tell the model's mistakes, the tool's and nobody's apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.build import rows
from data.oracle import call_text
from data.schema import Row
from evaluation.players import Oracle, play
from scripts import trace


def one(kind: int = 4) -> Row:
    return next(rows("train", 1, 0, {kind: 1.0}))


def stored(folder: Path, payloads: list[dict[str, Any]], name: str = "records.jsonl") -> Path:
    lines = [json.dumps({"row": f"row-{place}", "payload": payload}) for place, payload in enumerate(payloads)]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def with_turns(row: Row, *texts: str) -> dict[str, Any]:
    episode = row.open()
    for text in texts:
        episode.play(text)
    return episode.trajectory().to_payload()


def test_a_sound_episode_keeps_to_its_contracts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored(tmp_path, [play(one(1), Oracle()).to_payload()])
    assert trace.main([str(run), "row-0"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("keeps to the contract") == 6
    assert [line.split()[-1] for line in shown.splitlines() if "1 called" in line] == [
        "mcp_employee_search",
        "plugin_leave_query",
        "plugin_org_query",
    ]


def test_nothing_called_is_no_tool_s_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored(tmp_path, [with_turns(one(), "不知道。")])
    assert trace.main([str(run), "0"]) == 1
    assert "the model wrote no call" in capsys.readouterr().out


def test_a_bad_input_is_named_with_its_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored(tmp_path, [with_turns(one(), call_text("plugin_leave_query", {"emp_id": "1"}), "没有。")])
    assert trace.main([str(run), "row-0"]) == 1
    assert "invalid_arguments: start_date: is required" in capsys.readouterr().out


def test_an_output_that_its_contract_does_not_allow_any_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    payload = play(one(), Oracle()).to_payload()
    for step in payload["trajectory"]["steps"]:
        if step["type"] == "tool":
            step["output"]["count"] = step["output"].pop("total")
    assert trace.main([str(stored(tmp_path, [payload])), "0"]) == 1
    shown = capsys.readouterr().out
    assert "output_invalid" in shown
    assert "total: is required" in shown


def test_an_undeclared_tool_and_an_unreadable_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored(tmp_path, [with_turns(one(), call_text("find_person", {}) + "<tool_call>{", "好")])
    assert trace.main([str(run), "0"]) == 1
    shown = capsys.readouterr().out
    assert "find_person: no declared tool" in shown
    assert "something that could not be read" in shown


def test_traces_of_a_training_run_are_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payload = play(one(), Oracle()).to_payload()
    stored(tmp_path, [payload, payload], "traces/rank0.jsonl")
    assert trace.main([str(tmp_path), "1"]) == 0
    assert capsys.readouterr().out.count("question") == 1


def test_what_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored(tmp_path, [with_turns(one(), "好")])
    assert trace.main([str(run), "row-7"]) == 2
    assert trace.main([str(tmp_path / "none"), "0"]) == 2
    (run / "records.jsonl").write_text("{}\n", "utf-8")
    assert trace.main([str(run), "0"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3
