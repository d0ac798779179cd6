"""The warm start trains on what a rollout of the oracle would record; the copy task asks for nothing but copies."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from data.build import rows as build_rows
from data.oracle import oracle_turn
from data.schema import Row
from env.types import StopReason, Trajectory
from training.chat import ChatFormat
from training.copying import copy_batch
from training.rollout import Budget, Sampling, roll_out
from training.sft import IGNORED, Transcript, batched_by_length, transcript, transcripts
from training.tiny import train_tokenizer

AMPLE = Budget(turn_tokens=500, completion_tokens=2000)


@cache
def some_rows() -> tuple[Row, ...]:
    """One row of each kind and language."""
    first = {(row.task.kind, row.task.language): row for row in reversed(list(build_rows("train", 200, 0)))}
    assert len(first) == 22
    return tuple(first.values())


@cache
def chat() -> ChatFormat:
    return ChatFormat(train_tokenizer(line for row in some_rows() for line in (row.input, *played(row)[0])))


def played(row: Row, ids: str = "row") -> tuple[list[str], Trajectory]:
    """The oracle's turns and its trajectory, by a loop of its own."""
    episode, texts = row.open(ids), list[str]()
    results: list[str] | None = []
    while results is not None:
        texts.append(oracle_turn(row.task, episode))
        results = episode.play(texts[-1])
    return texts, episode.trajectory()


def stretches(made: Transcript) -> Iterator[list[int]]:
    """The labelled stretches, each with its tokens in order."""
    run: list[int] = []
    for label in (*made.labels, IGNORED):
        if label != IGNORED:
            run.append(label)
        elif run:
            yield run
            run = []


# ---- labels ----


@pytest.mark.parametrize("ids", ["row", "fresh"])
def test_labels_are_exactly_what_the_assistant_wrote_with_its_end_tokens(ids: str) -> None:
    for row in some_rows():
        made, (texts, _) = transcript(row, chat(), ids), played(row, ids)
        assert len(made.labels) == len(made.input_ids)
        assert list(stretches(made)) == [chat().text_ids(text) for text in texts]
        assert all(run[-1] == chat().end_id and run.count(chat().end_id) == 1 for run in stretches(made))
        for token, label in zip(made.input_ids, made.labels, strict=True):
            assert label in (token, IGNORED)
        assert set(made.labels[: made.prompt_tokens]) == {IGNORED}
        assert made.labels[made.prompt_tokens] != IGNORED != made.labels[-1]


def test_lengths_say_what_the_budgets_have_to_hold() -> None:
    for row in some_rows():
        made, (texts, _) = transcript(row, chat(), "row"), played(row)
        episode = row.open()
        assert made.prompt_tokens == len(chat().prompt_ids(episode.messages, episode.tools))
        assert made.completion_tokens == len(made.input_ids) - made.prompt_tokens
        assert made.longest_turn == max(len(chat().text_ids(text)) for text in texts)


def test_every_transcript_of_a_row_has_ids_of_its_own() -> None:
    rows = [row for row in some_rows() if row.task.kind in (1, 2, 4)]
    made = transcripts(rows, chat(), seed=0, per_row=3)
    assert len(made) == 3 * len(rows)
    assert len({tuple(each.input_ids) for each in made}) == len(made)
    assert made == transcripts(rows, chat(), seed=0, per_row=3)
    assert made[0] != transcripts(rows, chat(), seed=1)[0]
    assert [each.prompt_tokens for each in made[:3]] == [made[0].prompt_tokens] * 3, "one prompt, three episodes"


# ---- one path for SFT and GRPO ----


class TeacherForced(torch.nn.Module):
    """Gives all its probability to the next token of the transcript that a row's history begins."""

    def __init__(self, made: Sequence[Transcript]):
        super().__init__()
        self.made, self.config, self.device = made, SimpleNamespace(layer_types=None), torch.device("cpu")

    def forward(self, *, input_ids: Any, attention_mask: Any, past_key_values: Any, **_: Any) -> Any:
        states = input_ids[:, None, :, None].float()
        history = past_key_values.update(states, states, 0)[0][:, 0, :, 0]
        logits = torch.zeros(len(input_ids), 1, len(chat().tokenizer))
        for row in range(len(input_ids)):
            tokens = history[row][attention_mask[row] == 1].long().tolist()
            following = {
                each.input_ids[len(tokens)]
                for each in self.made
                if each.input_ids[: len(tokens)] == tokens and len(each.input_ids) > len(tokens)
            }
            if following:  # a row that has ended its turn is fed nothing, and nothing is asked of it
                [token] = following
                logits[row, 0, token] = 100.0
        return SimpleNamespace(logits=logits)


@pytest.mark.parametrize("ids", ["row", "fresh"])
def test_a_rollout_of_the_oracle_has_the_tokens_mask_and_trajectory_of_its_transcript(ids: str) -> None:
    rows = some_rows()
    made = [transcript(row, chat(), ids) for row in rows]
    rollouts = roll_out(
        TeacherForced(made),  # type: ignore[arg-type]
        chat(),
        [row.open(ids) for row in rows],
        [(0, index) for index in range(len(rows))],
        Sampling(temperature=1.0),
        AMPLE,
    )
    for row, wanted, rollout in zip(rows, made, rollouts, strict=True):
        assert rollout.trajectory.stop is StopReason.ANSWERED
        assert rollout.prompt_ids + rollout.completion_ids == wanted.input_ids
        assert len(rollout.prompt_ids) == wanted.prompt_tokens
        assert [0] * wanted.prompt_tokens + rollout.mask == [int(label != IGNORED) for label in wanted.labels]
        assert rollout.trajectory == played(row, ids)[1]


# ---- copying ----

POOL = torch.arange(100, 900)


@pytest.mark.parametrize("spans", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [48, 64, 128])
def test_copy_labels_stand_on_repetitions_only(spans: int, length: int) -> None:
    """Each labelled token, and the one before it, stand next to each other earlier in the row."""
    ids, labels = copy_batch(16, length, POOL, spans, torch.Generator().manual_seed(0))
    assert ids.shape == labels.shape == (16, length)
    assert ids.min() >= 100 and ids.max() < 900
    for stream, wanted in zip(ids.tolist(), labels.tolist(), strict=True):
        places = [index for index, label in enumerate(wanted) if label != IGNORED]
        assert places
        first = places[0]
        earlier = set(pairwise(stream[: first - 1]))
        for place in places:
            assert wanted[place] == stream[place]
            assert (stream[place - 1], stream[place]) in earlier


def test_every_span_is_asked_for_and_long_enough_to_learn_from() -> None:
    for spans in (1, 2, 3, 5):
        _, labels = copy_batch(32, 128, POOL, spans, torch.Generator().manual_seed(1))
        for wanted in (labels != IGNORED).tolist():
            starts = sum(now and not before for before, now in pairwise(wanted))
            assert starts == spans
        assert (labels != IGNORED).float().mean() > 0.15


def test_spans_come_back_in_another_order() -> None:
    """Or the model would learn to read on instead of looking up."""
    ids, labels = copy_batch(64, 128, POOL, 3, torch.Generator().manual_seed(2))
    orders = set()
    for stream, wanted in zip(ids.tolist(), labels.tolist(), strict=True):
        starts = [i - 1 for i in range(1, 128) if wanted[i] != IGNORED and wanted[i - 1] == IGNORED]
        pairs = list(pairwise(stream))
        found = [pairs.index((stream[start], stream[start + 1])) for start in starts]
        orders.add(tuple(sorted(range(3), key=found.__getitem__)))
    assert len(orders) == 6


def test_equal_generators_give_equal_copy_tasks() -> None:
    one, same, other = (copy_batch(4, 64, POOL, 2, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(one[0], same[0]) and torch.equal(one[1], same[1])
    assert not torch.equal(one[0], other[0])


def test_batches_hold_similar_lengths_in_random_order_and_every_example_once() -> None:
    rng = random.Random(0)
    lengths = [rng.randrange(100, 600) for _ in range(1000)]
    order = batched_by_length(lengths, 10, seed=1)
    assert sorted(order) == list(range(1000))
    assert order == batched_by_length(lengths, 10, seed=1) != batched_by_length(lengths, 10, seed=2)
    batches = [[lengths[index] for index in order[start : start + 10]] for start in range(0, 1000, 10)]
    padded = sum(max(batch) * len(batch) for batch in batches)
    shuffled = sum(max(lengths[start : start + 10]) * 10 for start in range(0, 1000, 10))
    assert padded < 0.8 * shuffled
    means = [sum(batch) for batch in batches]
    longer_next = sum(after > before for before, after in pairwise(means))
    assert 35 < longer_next < 65, "the batches walk up or down in length"
