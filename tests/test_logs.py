"""The logs that the warm start imitates: right or bad in the shares that they state, and bad in the ways they name."""

from __future__ import annotations

from collections import Counter

import pytest

from data.build import rows
from data.logs import HABITS, NOBODY, Logged
from env.types import Trajectory
from rewards import grounded
from rewards.rubric import Rubric


def logged(count: int) -> list[tuple[str, str, Trajectory, bool]]:
    """(ask, row, trajectory, success) of `count` rows."""
    made = []
    for row in rows("train", count, 11):
        episode, assistant = row.open(ids="logs"), Logged(f"logs/{row.task.id}")
        while not episode.done:
            episode.play(assistant.turn(row.task, episode))
        score = grounded.score(episode.trajectory(), Rubric.from_dict(row.task.rubric, episode.reference_output))
        assert score is not None
        ask = NOBODY if row.task.subject is None and row.task.ask != "chat" else row.task.ask
        made.append((ask, row.task.id, episode.trajectory(), score.success))
    return made


@pytest.mark.slow
def test_each_ask_is_got_wrong_as_often_as_its_habits_say() -> None:
    right, all_of = Counter[str](), Counter[str]()
    for ask, _, _, success in logged(2500):
        all_of[ask] += 1
        right[ask] += success
    assert set(all_of) > set(HABITS)
    for ask, count in all_of.items():
        bad = sum(share for _, share in HABITS.get(ask, ()))
        # leave_today and leave_period: "no leave" without a look is false or invented, never right
        assert abs(right[ask] / count - (1 - bad)) < 0.12, (ask, right[ask] / count)


def test_an_episode_keeps_its_habit_and_equal_seeds_write_equal_logs() -> None:
    first, second = logged(150), logged(150)
    assert first == second
    assert len({success for *_, success in first}) == 2


def test_a_made_up_id_never_stood_in_a_result() -> None:
    seen = 0
    for _, _, trajectory, success in logged(600):
        for step in trajectory.steps:
            if not step.result.ok:
                assert not success and step.arguments is not None
                seen += 1
    assert seen > 20
