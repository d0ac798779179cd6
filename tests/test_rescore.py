"""Stored trajectories score the same again, and another reward's differences are listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eval as evaluating
from data.build import rows
from data.logs import Logged
from rewards.named import NAMES, source_hash
from scripts import rescore
from training.scorers import scorer


def traces(folder: Path, name: str, count: int = 40) -> Path:
    """A run's folder as training leaves it, played by the assistant of the logs."""
    score, lines = scorer(name), []
    for row in rows("train", count, 3):
        episode, player = row.open(ids="r"), Logged(row.task.id)
        while not episode.done:
            episode.play(player.turn(row.task, episode))
        trajectory = episode.trajectory()
        given = score(row, trajectory)
        line = {"reward": given.total if given else None, "payload": trajectory.to_payload(), "rubric": row.task.rubric}
        lines.append(json.dumps(line, ensure_ascii=False))
    (folder / "traces").mkdir()
    (folder / "traces" / "rank0.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "run.json").write_text(json.dumps({"reward": name}), "utf-8")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_same_reward_gives_the_same_scores(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rescore.main([str(traces(tmp_path, name))]) == 0
    assert f"40 episodes by {name}: 40 score the same, 0 do not" in capsys.readouterr().out


def test_a_reward_that_has_changed_since_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = traces(tmp_path, "grounded", 3)
    for stored, said in ((source_hash("grounded"), False), ("0" * 64, True)):
        (run / "run.json").write_text(json.dumps({"reward": "grounded", "reward_sha256": stored}), "utf-8")
        assert rescore.main([str(run)]) == 0
        assert ("has another source now" in capsys.readouterr().err) == said


def test_another_reward_is_listed_with_its_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rescore.main([str(traces(tmp_path, "grounded")), "--reward", "seed_compat"]) == 1
    assert "40 episodes by seed_compat" in capsys.readouterr().out
    assert rescore.main([str(tmp_path), "--reward", "data/examples/holed_reward.py"]) == 1


def test_an_evaluation_scores_the_same_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluating.main(["--policy", "random", "--rows", "30", "--out", str(tmp_path)]) == 0
    assert rescore.main([str(tmp_path)]) == 0
    assert "30 score the same" in capsys.readouterr().out


def test_a_reward_is_known_by_the_hash_of_its_source(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("def cal_reward(payload): return 1", "utf-8")
    two.write_text("def cal_reward(payload): return 1.0", "utf-8")
    hashes = [source_hash(name) for name in ("grounded", str(one), str(two))]
    assert len(set(hashes)) == 3 and all(len(each) == 64 for each in hashes)
    assert source_hash("grounded") == source_hash("seed_compat")


def test_a_users_reward_trains_and_its_failures_are_no_reward(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reward.py"
    body = "return 0.25 if json.loads(payload)['trajectory']['steps'] else 1 / 0"
    path.write_text(f"import json\ndef cal_reward(payload):\n    {body}\n", "utf-8")
    score = scorer(str(path))
    chosen = [row for row in rows("train", 40, 3) if row.task.depth]
    totals = []
    for row in chosen[:6]:
        episode = row.open()
        while not episode.done:
            episode.play(Logged(row.task.id).turn(row.task, episode))
        given = score(row, episode.trajectory())
        assert given is not None and sum(given.increments) == given.total
        totals.append(given.total)
    assert totals == [0.25] * 6
    empty = chosen[0].open()
    empty.truncate()
    assert score(chosen[0], empty.trajectory()) is None
    assert score(chosen[0], empty.trajectory()) is None
    said = capsys.readouterr().err
    assert said.count("ZeroDivisionError") == 1 and "limits on memory" in said
