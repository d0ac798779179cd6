"""Every reason for which a group has no gradient is named, and no other group is called silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from data.build import rows
from data.oracle import oracle_turn
from env.types import Trajectory
from scripts import explain
from training.signal import Member, Silence, silence


def of(total: float | None, *, success: bool = False, truncated: bool = False, read: int = 1, bad: int = 0) -> Member:
    return Member("row", total, success, truncated, read, bad)


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ([of(0.1), of(0.2)], None),
        ([of(0.1), of(0.2), of(None)], None),
        ([of(None), of(None)], Silence.INFRASTRUCTURE),
        ([of(1.0, success=True), of(1.0, success=True)], Silence.ALL_RIGHT),
        ([of(1.0, success=True), of(None)], Silence.ALL_RIGHT),
        ([of(0.1), of(0.1)], Silence.ALL_WRONG),
        ([of(0.1, truncated=True), of(0.1)], Silence.ALL_WRONG),
        ([of(0.1, truncated=True), of(0.1, truncated=True)], Silence.TRUNCATED),
        ([of(0.0, read=0, bad=2), of(0.0, read=0, bad=1)], Silence.UNREADABLE),
        ([of(0.0, read=0, bad=2), of(0.0, read=0)], Silence.NO_CALL),
        ([of(0.0, read=0), of(0.0, read=0)], Silence.NO_CALL),
        ([of(0.0, read=1, bad=2), of(0.0, read=0, bad=1)], Silence.ALL_WRONG),
    ],
)
def test_the_reason(group: list[Member], why: Silence | None) -> None:
    assert silence(group) is why


def test_every_reason_has_advice() -> None:
    assert explain.HELP.keys() == set(Silence)


def traces(folder: Path, rewards: dict[str, list[float]]) -> None:
    """A run's traces: the oracle's or a silent episode per reward, by row."""
    known = {row.task.id: row for row in rows("train", 12, 3) if row.task.depth}
    lines = []
    for (identity, row), values in zip(known.items(), rewards.values(), strict=False):
        for place, value in enumerate(values):
            episode = row.open(ids=str(place))
            while not episode.done:
                episode.play(oracle_turn(row.task, episode) if value == 1 else "")
            payload = episode.trajectory().to_payload()
            assert Trajectory.from_payload(payload).turns
            score = {"success": value == 1}
            line = {"step": 0, "block": 0, "row": identity, "rollout": place, "reward": value, "score": score}
            lines.append(json.dumps(line | {"payload": payload}))
    (folder / "traces").mkdir()
    (folder / "traces" / "rank0.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def test_a_finished_run_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces(tmp_path, {"learned": [1.0, 1.0], "mixed": [1.0, 0.0], "idle": [0.0, 0.0]})
    assert explain.main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "3 groups in 1 steps; 1 had a gradient" in shown
    assert "all_right" in shown and "no_call" in shown and "all_wrong" not in shown


def test_a_run_without_any_gradient_is_a_failure(tmp_path: Path) -> None:
    traces(tmp_path, {"idle": [0.0, 0.0]})
    assert explain.main([str(tmp_path)]) == 1
