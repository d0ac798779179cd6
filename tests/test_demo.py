"""The demo's own bookkeeping: what is finished is not run again, and what it prints is what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import demo


def test_a_finished_stage_is_skipped_until_its_words_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda words, check: ran.append(words))
    done = tmp_path / "stage.done"
    assert demo.stage(done, ["train", "--seed", 1])
    assert not demo.stage(done, ["train", "--seed", 1])
    assert demo.stage(done, ["train", "--seed", 2])
    assert [words[1:] for words in ran] == [["-m", "train", "--seed", "1"], ["-m", "train", "--seed", "2"]]


def test_the_example_is_a_question_that_turned_right(tmp_path: Path) -> None:
    def record(row: str, success: bool, kind: int = 1) -> str:
        steps = [
            {"type": "llm", "turn": 0, "output": "call", "name": "assistant"},
            {"type": "tool", "turn": 0, "output": {"total": 1}, "name": "search"},
            {"type": "llm", "turn": 1, "output": "answer", "name": "assistant"},
        ]
        score = {"success": success, "total": float(success), "increments": [0.15, float(success) - 0.15]}
        payload = {"input": "q", "trajectory": {"steps": steps}}
        return json.dumps({"row": row, "kind": kind, "language": "zh", "score": score, "payload": payload})

    for side, outcomes in (("before", (True, False, False, False)), ("after", (True, False, True, True))):
        (tmp_path / side).mkdir()
        lines = [record(str(row), success, kind=2 if row == 2 else 1) for row, success in enumerate(outcomes)]
        (tmp_path / side / "records.jsonl").write_text("\n".join(lines), "utf-8")
    found = demo.example(tmp_path)
    assert found is not None
    assert (found["row"], found["before"]["score"], found["after"]["score"]) == ("3", 0.0, 1.0)
    assert [turn["results"] for turn in found["after"]["turns"]] == [[{"total": 1}], []]
    assert sum(turn["earned"] for turn in found["after"]["turns"]) == 1.0


def test_the_curve_holds_the_logged_steps_only() -> None:
    lines = [{"step": 1, "reward": 0.25, "success": 0.125}, {"step": 2, "train_loss": 1.0}]
    assert demo.curve_of(lines) == [{"step": 1, "reward": 0.25, "success": 0.125}]
