"""Credit per turn: the estimator is unbiased on a task small enough to enumerate, and it keeps its causal promises."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import exp, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.credit import Earnings, turn_advantages

# A task of at most three turns: what can be done after what has been done, with the reward and the step that it earns.
# "waste" leads back to where it was, so that an index of turns says nothing about progress.
Move = tuple[str, str | None, float, bool]  # name, step earned, reward, whether the episode ends
MOVES: Mapping[tuple[str, ...], tuple[Move, ...]] = {
    (): (("search", "S", 0.15, False), ("waste", None, -0.05, False), ("guess", None, 0.02, True)),
    ("search",): (("leave", "L", 0.2, False), ("waste", None, -0.05, False), ("answer", None, 0.1, True)),
    ("waste",): (("search", "S", 0.15, False), ("answer", None, 0.0, True)),
    ("search", "leave"): (("answer", None, 0.65, True), ("lie", None, -0.3, True)),
    ("search", "waste"): (("answer", None, 0.05, True), ("lie", None, -0.1, True)),
    ("waste", "search"): (("answer", None, 0.1, True), ("lie", None, -0.2, True)),
}
WEIGHTS = {history: [0.4 - 0.5 * index for index in range(len(moves))] for history, moves in MOVES.items()}


def chances(history: tuple[str, ...]) -> list[float]:
    powers = [exp(weight) for weight in WEIGHTS[history]]
    return [power / sum(powers) for power in powers]


@dataclass(frozen=True)
class Played:
    """One way through the task. choices: (history, index of the move) by turn."""

    chance: float
    choices: tuple[tuple[tuple[str, ...], int], ...]
    earnings: Earnings


NOTHING = Played(1.0, (), Earnings((), {}))


def ways(history: tuple[str, ...] = (), so_far: Played = NOTHING) -> Iterator[Played]:
    for index, (name, step, reward, ends) in enumerate(MOVES[history]):
        turn = len(so_far.choices)
        earned = {**so_far.earnings.earned, step: turn} if step else so_far.earnings.earned
        played = Played(
            so_far.chance * chances(history)[index],
            (*so_far.choices, (history, index)),
            Earnings((*so_far.earnings.increments, reward), earned),
        )
        yield from [played] if ends else ways((*history, name), played)


Gradient = dict[tuple[tuple[str, ...], int], float]


def add_log_gradient(gradient: Gradient, history: tuple[str, ...], taken: int, weight: float) -> None:
    """d log softmax / d weights of one choice, times `weight`."""
    for index, chance in enumerate(chances(history)):
        key = (history, index)
        gradient[key] = gradient.get(key, 0.0) + weight * ((index == taken) - chance)


def true_gradient() -> Gradient:
    """Of the expected reward, by enumeration of every way through the task."""
    gradient: Gradient = {}
    for played in ways():
        for history, taken in played.choices:
            add_log_gradient(gradient, history, taken, played.chance * sum(played.earnings.increments))
    return gradient


@pytest.mark.parametrize("size", [2, 3])
def test_the_expected_gradient_is_the_true_one(size: int) -> None:
    """Over every group that can be drawn, each with its probability."""
    expected: Gradient = {}
    for group in product(list(ways()), repeat=size):
        chance = prod(played.chance for played in group)
        advantages = turn_advantages([played.earnings for played in group])
        for played, values in zip(group, advantages, strict=True):
            for (history, taken), value in zip(played.choices, values, strict=True):
                add_log_gradient(expected, history, taken, chance * value / size)
    true = true_gradient()
    assert expected.keys() == true.keys()
    assert max(abs(value) for value in true.values()) > 0.01
    for key, value in true.items():
        assert expected[key] == pytest.approx(value, abs=1e-12), key


def test_with_itself_in_the_baseline_the_estimator_would_be_biased() -> None:
    """The property above can fail: a group mean that contains the episode shrinks the gradient."""
    size, expected = 2, dict[tuple[tuple[str, ...], int], float]()
    for group in product(list(ways()), repeat=size):
        chance = prod(played.chance for played in group)
        level = sum(sum(played.earnings.increments) for played in group) / size
        for played in group:
            for history, taken in played.choices:
                value = sum(played.earnings.increments) - level
                add_log_gradient(expected, history, taken, chance * value / size)
    key = max(true_gradient(), key=lambda each: abs(true_gradient()[each]))
    assert abs(expected[key] - true_gradient()[key]) > 0.01


def members() -> st.SearchStrategy[list[Earnings]]:
    number = st.floats(-1, 1).map(lambda value: round(value, 3))

    @st.composite
    def one(draw: st.DrawFn) -> Earnings:
        increments = tuple(draw(st.lists(number, min_size=1, max_size=4)))
        steps = draw(st.lists(st.sampled_from("SLO"), unique=True))
        return Earnings(increments, {step: draw(st.integers(0, len(increments) - 1)) for step in steps})

    return st.lists(one(), min_size=2, max_size=5)


@given(members(), st.randoms(use_true_random=False))
def test_what_a_turn_earns_changes_no_advantage_of_its_later_turns(group: list[Earnings], rng: random.Random) -> None:
    index = rng.randrange(len(group))
    turn = rng.randrange(len(group[index].increments))
    richer = list(group[index].increments)
    richer[turn] += 1.0
    changed = [*group[:index], replace(group[index], increments=tuple(richer)), *group[index + 1 :]]
    before, after = turn_advantages(group)[index], turn_advantages(changed)[index]
    assert after[turn + 1 :] == before[turn + 1 :]
    assert after[: turn + 1] == pytest.approx([value + 1.0 for value in before[: turn + 1]])


@given(members())
def test_an_episode_of_one_turn_gets_what_plain_leave_one_out_gives(group: list[Earnings]) -> None:
    single = [Earnings((sum(member.increments),), {}) for member in group]
    totals = [member.increments[0] for member in single]
    for place, (value,) in enumerate(turn_advantages(single)):
        others = totals[:place] + totals[place + 1 :]
        assert value == pytest.approx(totals[place] - sum(others) / len(others))


def test_a_member_without_a_reward_is_no_yardstick() -> None:
    one, two = Earnings((0.5,), {}), Earnings((0.1,), {})
    assert turn_advantages([one, None, two]) == [[0.4], [], [-0.4]]
    assert turn_advantages([None, one]) == [[], [0.0]]
    assert turn_advantages([]) == []


def test_progress_is_compared_with_progress() -> None:
    """Two searched, one of them went wrong after it: the search is good in both, and only the wrong turn is bad."""
    right = Earnings((0.2, 0.8), {"search": 0})
    wrong = Earnings((0.2, -0.1), {"search": 0})
    skipped = Earnings((0.0,), {})
    advantages = turn_advantages([right, wrong, skipped])
    assert advantages[0] == pytest.approx([1.0 - 0.05, 0.9])
    assert advantages[1] == pytest.approx([0.1 - 0.5, -0.9])
    assert advantages[2] == pytest.approx([-0.55])


def test_who_is_alone_with_its_progress_is_compared_with_the_way_to_it() -> None:
    ahead = Earnings((0.1, 0.2, 0.7), {"search": 0, "leave": 1})
    behind = Earnings((0.1, 0.0), {"search": 0})
    advantages = turn_advantages([ahead, behind])
    assert advantages[0] == pytest.approx([1.0 - 0.1, 0.9 - 0.0, 0.7 - 0.0])
