"""scripts.trace: the three debugging steps tell the model's mistakes, the tool's and nobody's apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.build import rows
from data.oracle import call_text
from data.schema import Row
from eval import main as evaluate
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
    assert "nothing that has a name: could not be read (unclosed)" in shown


def verdict(run: Path, episode: str, capsys: pytest.CaptureFixture[str]) -> str:
    trace.main([str(run), episode])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("verdict")]
    return line.removeprefix("verdict").strip()


def test_the_verdict_names_the_first_step_that_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = one(1)
    sound = play(row, Oracle())
    search, _, org = (turn.text for turn in sound.turns[:3])
    down = sound.to_payload()
    down["trajectory"]["steps"][3] |= {"status": "error", "code": "unavailable", "output": "unavailable: 503"}
    broken = sound.to_payload()
    broken["trajectory"]["steps"][1]["output"].pop("total")
    asks, wrong = {"rubric": row.task.rubric}, call_text("plugin_leave_query", {"emp_id": "1"})
    cases = [
        ({**asks, "payload": sound.to_payload()}, "called, input and output hold"),
        ({**asks, "payload": with_turns(row, search, org, "好")}, "1 called: the model never called plugin_leave"),
        ({**asks, "payload": with_turns(row, search, wrong, org, "好")}, "2 input: the model's arguments"),
        ({**asks, "payload": with_turns(row, wrong, *(turn.text for turn in sound.turns))}, "called, input"),
        ({**asks, "payload": down}, "3 output: what is behind the tool failed (plugin_leave"),
        ({**asks, "payload": broken}, "3 output: the tool broke its contract (mcp_employee_search"),
        ({"rubric": {"steps": []}, "payload": with_turns(row, "你好\u2028")}, "called, input and output hold"),
        ({"payload": with_turns(row, search, "好")}, "called, input and output hold"),
        ({"payload": with_turns(row, "好")}, "1 called: the model never called any declared tool;"),
    ]  # fmt: skip
    text = "".join(
        json.dumps({"row": f"row-{place}", **record}, ensure_ascii=False) + "\n"
        for place, (record, _) in enumerate(cases)
    )
    (tmp_path / "records.jsonl").write_text(text + '{"row": "torn', "utf-8")
    for place, (_, said) in enumerate(cases):
        assert verdict(tmp_path, f"row-{place}", capsys).startswith(said), place


def test_an_evaluation_knows_what_its_rows_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(["--policy", "silent", "--rows", "12", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    places = [
        place for place in range(12) if "never called mcp_employee_search" in verdict(tmp_path, str(place), capsys)
    ]
    assert places
    (tmp_path / "summary.json").unlink()
    trace.rubrics.cache_clear()
    assert "never called any declared tool" in verdict(tmp_path, str(places[0]), capsys)


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
