"""Plays rows with a local model, in batches: what evaluation and scripts use."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence

import torch

from data.schema import ALL_TOOLS, Row
from env.faults import FaultPlan
from env.surface import Surface
from env.types import Trajectory
from training.models import load_chat, load_model, quiet
from training.rollout import Budget, Sampling, roll_out


def play_rows(
    model_dir: str,
    rows: Sequence[Row],
    *,
    temperature: float,
    seed: int,
    max_turns: int,
    batch_size: int,
    progress: Callable[[int], None],
    samples: Sequence[int] | None = None,
    turn_tokens: int = 128,
    completion_tokens: int = 1024,
    faults: FaultPlan | None = None,
    surface: Surface = ALL_TOOLS,
) -> Iterator[tuple[Row, Trajectory, int]]:
    """Yields (row, trajectory, sampled tokens) batch by batch, in order. temperature 0 is greedy.

    The result of a row depends on its id, the seed and the weights, not on the rows that are played beside it (up to
    the rounding of a matrix product). samples: for each of the rows which of its episodes this is, where a row stands
    there several times; 0 is what it is without. progress: called with the number of rows that a batch has finished.
    """
    quiet()
    chat, model = load_chat(model_dir), load_model(model_dir)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    budget = Budget(turn_tokens, completion_tokens)
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        episodes = [row.open(max_turns=max_turns, faults=faults, surface=surface) for row in batch]
        drawn = samples[start : start + batch_size] if samples else [0] * len(batch)
        seeds = [_seed(seed, row, sample) for row, sample in zip(batch, drawn, strict=True)]
        rollouts = roll_out(model, chat, episodes, seeds, Sampling(temperature), budget)
        for row, rollout in zip(batch, rollouts, strict=True):
            yield row, rollout.trajectory, sum(rollout.mask)
        progress(len(batch))


def _seed(seed: int, row: Row, sample: int) -> tuple[int, ...]:
    own = (seed, zlib.crc32(row.task.id.encode()))
    return (*own, sample) if sample else own
