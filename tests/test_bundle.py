"""The reward as one file: the same scores through every entry point, without the project and without packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from data.build import rows
from data.oracle import GIVE_UP, oracle_turn
from data.schema import Row
from env.episode import Episode
from env.types import Trajectory
from evaluation.players import Oracle, Random, Silent, play
from evaluation.scoring import rubric_of
from rewards import grounded
from rewards.bundle import LARGEST, bundled
from rewards.rubric import RubricError
from scripts import export_reward

DRIVER = """\
import json, sys
sys.path.insert(0, sys.argv[1])
import reward
for line in sys.stdin:
    payload = json.loads(line)
    text = json.dumps(payload)
    print(json.dumps([
        reward.cal_reward(text),
        reward.grade({"output_text": ""}, {"payload": payload}),
        reward.lambda_handler([{"id": "7", "messages": [], "reference_answer": text}], None),
        reward.compute_score("hr", "", text),
        reward.compute_score("hr", "", "", {"payload": payload}),
    ]))
"""


class Short:
    """Makes some of the calls, the first of them more than once, and gives up."""

    name = "short"

    def __init__(self, calls: int, repeats: int):
        self._calls, self._repeats = calls, repeats

    def reply(self, row: Row, episode: Episode) -> str:
        if len(episode.steps) >= self._calls + self._repeats:
            return GIVE_UP[row.task.language]
        if episode.steps and len(episode.steps) <= self._repeats:
            return str(episode.messages[2]["content"])  # the first call again
        return oracle_turn(row.task, episode)


def episodes(count: int) -> list[tuple[Row, Trajectory]]:
    """Right, silent and random ones, in turn, of three domains."""
    players = [Oracle(), Silent(), Random(1), Short(1, 0), Short(2, 0), Short(1, 1), Short(1, 2), Short(1, 3)]
    made = [row for name in ("hr", "weather", "finance") for row in rows("train", count // 3 + 1, 6, domain=name)]
    return [(row, play(row, players[place % len(players)])) for place, row in enumerate(made[:count])]


def through_the_file(folder: Path, payloads: list[dict[str, Any]]) -> list[list[Any]]:
    """In a process without site packages (-S) and without the project (-I)."""
    (folder / "driver.py").write_text(DRIVER, "utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "driver.py"), str(folder)],
        input="".join(json.dumps(payload) + "\n" for payload in payloads),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_five_hundred_trajectories_score_the_same_everywhere(tmp_path: Path) -> None:
    assert export_reward.main(["--out", str(tmp_path / "reward.py")]) == 0
    played = episodes(500)
    wanted = []
    for row, trajectory in played:
        score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
        wanted.append(None if score is None else score.total)
    assert len(set(wanted)) > 10
    payloads = [{**trajectory.to_payload(), "rubric": dict(row.task.rubric)} for row, trajectory in played]
    for total, found in zip(wanted, through_the_file(tmp_path, payloads), strict=True):
        number = total or 0.0
        assert found == [total, number, [{"id": "7", "aggregate_reward_score": number}], number, number]


def test_a_rubric_can_be_built_in(tmp_path: Path) -> None:
    (row, trajectory), *_ = episodes(1)
    rubric = tmp_path / "rubric.json"
    rubric.write_text(json.dumps(dict(row.task.rubric)), "utf-8")
    assert export_reward.main(["--out", str(tmp_path / "reward.py"), "--rubric", str(rubric)]) == 0
    assert through_the_file(tmp_path, [trajectory.to_payload()])[0][0] == 1.0


def test_the_file_is_small_enough_and_imports_the_standard_library_only() -> None:
    text = bundled()
    assert len(text.encode()) < LARGEST
    assert "/home" not in text


def test_a_bad_rubric_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "rubric.json"
    for content in ('{"steps": []}', "{", "[]"):
        bad.write_text(content, "utf-8")
        assert export_reward.main(["--out", str(tmp_path / "r.py"), "--rubric", str(bad)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3
    with pytest.raises(RubricError):
        bundled({"steps": []})
