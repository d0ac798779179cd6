"""A run that cannot work is refused with values that would, and those values are accepted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from data.build import rows as build_rows
from data.schema import Row
from training.chat import ChatFormat
from training.preflight import (
    Batches,
    PreflightError,
    check_batches,
    check_budgets,
    check_rows,
    check_save_steps,
)
from training.sft import transcripts
from training.tiny import train_tokenizer


def batches(per_device: int = 8, processes: int = 1, steps: int = 2, generations: int = 8, **more: int) -> Batches:
    return Batches(per_device, processes, more.pop("accumulation", steps), steps, generations, **more)


def refusal(check: Callable[[], None]) -> str | None:
    try:
        check()
    except PreflightError as error:
        return str(error)
    return None


def numbers(message: str, after: str) -> list[int]:
    """The list of numbers that follows the word."""
    found = re.search(rf"{after} (\d+(?:, \d+)*)", message)
    return [int(number) for number in found[1].split(", ")] if found else []


# ---- batches ----

GRID = list(product((1, 2, 3, 5, 8, 12), (1, 2, 3), (1, 2, 4, 7), (2, 3, 4, 6, 8, 16)))


def test_batches_are_refused_exactly_where_groups_would_be_split() -> None:
    verdicts = set()
    for per_device, processes, steps, generations in GRID:
        made = batches(per_device, processes, steps, generations)
        whole = per_device * processes * steps % generations == 0
        assert (refusal(lambda made=made: check_batches(made)) is None) is whole  # type: ignore[misc]
        verdicts.add(whole)
    assert verdicts == {True, False}


def test_every_value_that_a_refused_batch_is_offered_is_legal() -> None:
    """And there is always one for the batch size; for the group there is where the batch has two completions."""
    for per_device, processes, steps, generations in GRID:
        made = batches(per_device, processes, steps, generations)
        said = refusal(lambda made=made: check_batches(made))  # type: ignore[misc]
        if said is None:
            continue
        assert f"{made.completions} completions, not a multiple of num_generations {generations}" in said
        sizes = numbers(said, "per_device_train_batch_size")
        groups = numbers(said, "legal: num_generations")
        assert sizes and (groups or made.completions == 1), said
        for size in sizes:
            check_batches(replace(made, per_device=size))
        for group in groups:
            check_batches(replace(made, generations=group))
        legal = [size for size in range(1, 500) if size * processes * steps % generations == 0]
        assert min(legal, key=lambda size: abs(size - per_device)) in sizes, "the nearest one is offered"


@pytest.mark.parametrize("generations", [1, 0, -8])
def test_a_group_of_one_is_refused(generations: int) -> None:
    with pytest.raises(PreflightError, match=f"at least 2 completions, got {generations}"):
        check_batches(batches(generations=generations))


# ---- rows ----


@cache
def rows() -> tuple[Row, ...]:
    return tuple(build_rows("train", 40, 0))


def test_fewer_rows_than_prompts_of_one_batch_are_refused() -> None:
    made = batches(per_device=8, steps=2, generations=4)
    assert made.prompts == 4
    check_rows(rows()[:4], made)
    said = refusal(lambda: check_rows(rows()[:3], made))
    assert said and "3 rows are fewer than the 4 prompts" in said and "no step would be trained" in said
    check_rows(rows()[:3], replace(made, per_device=6))  # what the message advises


# ---- checkpoints ----


def test_checkpoints_inside_a_block_are_refused_and_the_offered_ones_are_not() -> None:
    verdicts = set()
    for save, accumulation, steps, iterations in product((1, 2, 3, 5, 10, 25), (1, 2, 4), (1, 2, 4, 6, 8), (1, 2, 3)):
        made = batches(steps=steps, accumulation=accumulation, iterations=iterations)
        said = refusal(lambda save=save, made=made: check_save_steps(save, made))  # type: ignore[misc]
        at_edge = save * accumulation % (steps * iterations) == 0
        verdicts.add(at_edge)
        assert (said is None) is at_edge
        if said:
            assert f"save_steps {save} falls inside a block" in said
            offered = numbers(said, "legal:")
            assert offered
            for steps_between in offered:
                check_save_steps(steps_between, made)
            legal = [n for n in range(1, 500) if n * accumulation % (steps * iterations) == 0]
            assert min(legal, key=lambda n: abs(n - save)) in offered
    assert verdicts == {True, False}


# ---- budgets ----


@cache
def chat() -> ChatFormat:
    return ChatFormat(train_tokenizer(row.input for row in rows()))


@cache
def needed() -> tuple[int, int, int]:
    """Turns, tokens of a turn and tokens of an episode that the oracle needs."""
    made = transcripts(rows(), chat(), seed=0)
    return (
        max(row.task.depth for row in rows()) + 1,
        max(each.longest_turn for each in made),
        max(each.completion_tokens for each in made),
    )


def test_budgets_that_just_hold_the_oracle_are_accepted() -> None:
    check_budgets(rows(), chat(), *needed())


@pytest.mark.parametrize(
    ("short", "named"),
    [((1, 0, 0), "max_turns"), ((0, 1, 0), "turn_tokens"), ((0, 0, 1), "max_completion_length")],
)
def test_a_budget_one_too_small_is_refused_with_what_is_needed(short: tuple[int, int, int], named: str) -> None:
    budgets = [need - less for need, less in zip(needed(), short, strict=True)]
    said = refusal(lambda: check_budgets(rows(), chat(), *budgets))
    wanted, given = needed()[short.index(1)], budgets[short.index(1)]
    assert said is not None and said.startswith(f"{named} {given} is less than") and str(wanted) in said
    if named == "max_completion_length":
        [advised] = numbers(said, "set at least")
        assert advised >= wanted
        check_budgets(rows(), chat(), budgets[0], budgets[1], advised)


def test_easy_rows_need_smaller_budgets() -> None:
    """The check measures the rows of the run, not a worst case."""
    easy = [row for row in rows() if row.task.kind == 26]
    assert easy
    check_budgets(easy, chat(), 1, 60, 60)
    assert refusal(lambda: check_budgets(rows(), chat(), 1, 60, 60)) is not None
