"""Batched rollouts are exact: recorded logprobs, masks and budgets, and no row feels the rows beside it.

The model of these tests computes with a real transformer, but is nudged towards the oracle's turns, so that episodes
have several turns of different lengths; at a temperature it now and then writes something else.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.cache_utils import DynamicLayer

from data.build import rows as build_rows
from data.oracle import oracle_turn
from data.schema import Row
from env.episode import Episode
from env.types import AttemptStatus, ErrorCode, StopReason
from training.chat import ChatFormat
from training.rollout import Budget, GrowingLayer, Rollout, Sampling, roll_out, sample
from training.tiny import new_model, train_tokenizer

AMPLE = Budget(turn_tokens=200, completion_tokens=1200)
GREEDY = Sampling(temperature=0)
WARM = Sampling(temperature=0.7)
STRONG = 10.0  # a nudge that prevails most of the time


@cache
def all_rows() -> tuple[Row, ...]:
    return tuple(build_rows("train", 60, 0))


@cache
def chat() -> ChatFormat:
    texts = [line for row in all_rows() for line in (row.input, *oracle_texts(row))]
    return ChatFormat(train_tokenizer(texts))


def oracle_texts(row: Row, ids: str = "row") -> Iterator[str]:
    episode = row.open(ids)
    results: list[str] | None = []
    while results is not None:
        text = oracle_turn(row.task, episode)
        yield text
        results = episode.play(text)


@cache
def batch() -> tuple[Row, ...]:
    """Five rows of different depth, in both languages."""
    first = {(row.task.kind, row.task.language): row for row in reversed(all_rows())}
    return tuple(first[key] for key in ((1, "zh"), (26, "en"), (2, "en"), (10, "zh"), (1, "en")))


class Nudged(torch.nn.Module):
    """Adds `strength` to the logit of the token that a script wants next, after a row's whole history of tokens.

    The history is kept in the cache beside the keys and values, so that it lives through whatever the engine does to
    rows and columns. inner: the logits to start from; zero without one.
    """

    def __init__(self, scripts: dict[tuple[int, ...], list[list[int]]], inner: Any = None, strength: float = 100.0):
        super().__init__()
        self.scripts, self.inner, self.strength = scripts, inner, strength
        self.config = inner.config if inner is not None else SimpleNamespace(layer_types=None)
        self.device = torch.device("cpu")
        self.vocabulary = len(chat().tokenizer)
        self.opener = chat().results_ids([""])[-len(chat().text_ids("<|im_start|>assistant\n")) + 1 :]
        self.calls = 0

    def forward(
        self, *, input_ids: Any, attention_mask: Any, position_ids: Any, past_key_values: Any, **rest: Any
    ) -> Any:
        assert not self.training and torch.is_inference_mode_enabled()
        self.calls += 1
        if self.inner is None:
            logits = torch.zeros(len(input_ids), 1, self.vocabulary)
        else:
            passed = {
                "attention_mask": attention_mask,
                "position_ids": position_ids,
                "past_key_values": past_key_values,
            }
            logits = self.inner(input_ids=input_ids, **passed, **rest).logits
        states = torch.stack([input_ids, position_ids], -1)[:, None].float()
        history = past_key_values.update(states, states, self.config.num_hidden_layers if self.inner else 0)[0][:, 0]
        for row in range(len(input_ids)):
            tokens, positions = history[row][attention_mask[row] == 1].long().T.tolist()
            assert positions == list(range(len(tokens)))
            logits[row, 0, self.wanted(tokens)] += self.strength
        return SimpleNamespace(logits=logits)

    def wanted(self, tokens: Sequence[int]) -> int:
        """The next token of the turn that is being written."""
        [(prompt, turns)] = [(p, t) for p, t in self.scripts.items() if tuple(tokens[: len(p)]) == p]
        size, turn, start = len(self.opener), 0, len(prompt)
        for end in range(len(prompt) + size, len(tokens) + 1):
            if tokens[end - size : end] == self.opener:
                turn, start = turn + 1, end
        written = len(tokens) - start
        return turns[turn][written] if turn < len(turns) and written < len(turns[turn]) else chat().end_id


def prompt_of(row: Row) -> list[int]:
    episode = row.open()
    return chat().prompt_ids(episode.messages, episode.tools)


def scripts(rows: Sequence[Row], ids: str = "row") -> dict[tuple[int, ...], list[list[int]]]:
    return {tuple(prompt_of(row)): [chat().text_ids(text) for text in oracle_texts(row, ids)] for row in rows}


def scripted(row: Row, *texts: str) -> Nudged:
    """A model without weights that writes these turns."""
    return Nudged({tuple(prompt_of(row)): [chat().text_ids(text) for text in texts]})


@cache
def transformer() -> Qwen3ForCausalLM:
    """Random weights, but large enough for attention to matter."""
    model = new_model(chat().tokenizer, seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.mul_(8)
    return model.eval()


def seeds(rows: Sequence[Row]) -> list[tuple[int, ...]]:
    return [(7, int(row.task.id.rpartition("-")[2])) for row in rows]


def rolled(
    model: Any, rows: Sequence[Row], sampling: Sampling = GREEDY, budget: Budget = AMPLE, max_turns: int = 6
) -> list[Rollout]:
    episodes = [row.open(max_turns=max_turns) for row in rows]
    return roll_out(model, chat(), episodes, seeds(rows), sampling, budget)


@cache
def sampled() -> tuple[Rollout, ...]:
    """The batch, sampled at a temperature that makes mistakes."""
    return tuple(rolled(Nudged(scripts(batch()), transformer(), STRONG), batch(), WARM))


# ---- what is recorded ----


def check_record(rollout: Rollout) -> None:
    """Tokens, mask, turns and the trajectory tell the same story."""
    trajectory, length = rollout.trajectory, len(rollout.completion_ids)
    assert len(rollout.mask) == len(rollout.logprobs) == len(rollout.turns) == length > 0
    assert [turn >= 0 for turn in rollout.turns] == [bool(bit) for bit in rollout.mask]
    assert all(bit or logprob == 0.0 for bit, logprob in zip(rollout.mask, rollout.logprobs, strict=True))
    assert [turn for turn in rollout.turns if turn >= 0] == sorted(turn for turn in rollout.turns if turn >= 0)
    position = 0
    for turn in trajectory.turns:
        end = position + rollout.turns.count(turn.index)
        assert set(rollout.turns[position:end]) == {turn.index}
        assert chat().text_of(rollout.completion_ids[position:end]) == turn.text
        position = end
        if end < length:
            results = chat().results_ids([step.result.text() for step in trajectory.steps_of(turn.index)])
            position += len(results)
            assert rollout.completion_ids[end:position] == results
            assert set(rollout.mask[end:position]) == {0}
    assert position == length


def test_mask_is_one_exactly_on_what_the_model_wrote() -> None:
    for rollout in (*sampled(), *rolled(Nudged(scripts(batch())), batch())):
        check_record(rollout)


def test_sampled_episodes_are_of_all_sorts() -> None:
    """Or the other tests would say little: several turns, different lengths, right and wrong calls."""
    steps = [step for rollout in sampled() for step in rollout.trajectory.steps]
    assert len({len(rollout.trajectory.turns) for rollout in sampled()}) >= 3
    assert len({len(rollout.completion_ids) for rollout in sampled()}) == 5
    assert len({len(rollout.prompt_ids) for rollout in sampled()}) >= 4
    assert {step.result.ok for step in steps} == {True, False}
    assert any(step.attempt is not AttemptStatus.OK for step in steps)


def full_pass(rollout: Rollout, model: Nudged, temperature: float) -> list[float]:
    """Log-probability of each completion token from one plain forward pass over the episode, 0.0 where masked."""
    tokens = rollout.prompt_ids + rollout.completion_ids
    with torch.no_grad():
        logits = model.inner(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    expected = []
    for index, bit in enumerate(rollout.mask):
        place = len(rollout.prompt_ids) + index
        row = logits[place - 1].clone()
        row[model.wanted(tokens[:place])] += model.strength
        expected.append(float(torch.log_softmax(row / temperature, -1)[tokens[place]]) if bit else 0.0)
    return expected


def test_recorded_logprobs_are_those_of_one_full_forward_pass() -> None:
    """Over ragged rows and several turns, in fp32 within 1e-4."""
    model, surprises = Nudged(scripts(batch()), transformer(), STRONG), 0
    for rollout in sampled():
        expected = full_pass(rollout, model, WARM.temperature)
        assert rollout.logprobs == pytest.approx(expected, abs=1e-4)
        surprises += sum(logprob < -3 for logprob in rollout.logprobs)
    assert surprises > 5, "the logprobs vary, so that a wrong one would show"


def test_greedy_logprobs_are_recorded_at_temperature_one() -> None:
    model = Nudged(scripts(batch()), transformer(), 6.0)
    for rollout in rolled(model, batch(), GREEDY, Budget(20, 60)):
        assert rollout.logprobs == pytest.approx(full_pass(rollout, model, 1.0), abs=1e-4)


def test_a_row_does_not_feel_the_rows_beside_it() -> None:
    """The same tokens alone, in a batch and in a batch of another order."""
    model = Nudged(scripts(batch()), transformer(), STRONG)
    backwards = rolled(model, batch()[::-1], WARM)[::-1]
    for row, together, reversed_order in zip(batch(), sampled(), backwards, strict=True):
        [alone] = rolled(model, [row], WARM)
        for other in (alone, reversed_order):
            assert other.completion_ids == together.completion_ids
            assert other.logprobs == pytest.approx(together.logprobs, abs=1e-4)
            assert replace(other, logprobs=together.logprobs) == together


def test_other_seeds_give_other_samples_and_equal_ones_the_same() -> None:
    row, model = batch()[0], Nudged(scripts(batch()), transformer(), STRONG)
    made = roll_out(model, chat(), [row.open() for _ in range(4)], [(1, 1), (1, 2), (1, 1), (2, 1)], WARM, AMPLE)
    texts = [tuple(turn.text for turn in rollout.trajectory.turns) for rollout in made]
    assert texts[0] == texts[2]
    assert len(set(texts)) == 3


def test_greedy_scripts_are_played_to_their_answer() -> None:
    for row, rollout in zip(batch(), rolled(Nudged(scripts(batch()), transformer()), batch()), strict=True):
        assert rollout.trajectory.stop is StopReason.ANSWERED
        assert [turn.text for turn in rollout.trajectory.turns] == list(oracle_texts(row))
        assert rollout.trajectory.reference_output == row.reference_output
        assert rollout.prompt_ids == prompt_of(row)


def test_no_rows_give_no_rollouts() -> None:
    assert roll_out(Nudged({}), chat(), [], [], GREEDY, AMPLE) == []  # type: ignore[arg-type]


def test_every_episode_needs_a_seed() -> None:
    with pytest.raises(ValueError, match="2 episodes need as many seeds, got 1"):
        roll_out(scripted(batch()[0]), chat(), [row.open() for row in batch()[:2]], [(1,)], GREEDY, AMPLE)  # type: ignore[arg-type]


def test_several_calls_in_a_turn_are_answered_in_one_block() -> None:
    row = batch()[0]
    call = next(oracle_texts(row))
    [rollout] = rolled(scripted(row, f"a{call}b{call}<tool_call>{{</tool_call>", "done"), [row])
    check_record(rollout)
    assert [step.attempt for step in rollout.trajectory.steps] == ["ok", "ok", "invalid_json"]
    assert rollout.trajectory.answer == "done"


# ---- budgets ----


def oracle_tokens(row: Row) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens of the oracle's turns, and of the results after each."""
    episode, turns, results = row.open(), [], []
    while True:
        text = oracle_turn(row.task, episode)
        turns.append(chat().text_ids(text))
        shown = episode.play(text)
        if shown is None:
            return turns, results
        results.append(chat().results_ids(shown))


def test_a_turn_that_reaches_its_budget_ends_the_episode_and_its_call_is_not_run() -> None:
    row = batch()[0]
    turns, _ = oracle_tokens(row)
    for limit in (1, 2, len(turns[0]) - 1):
        [rollout] = rolled(Nudged(scripts([row])), [row], GREEDY, Budget(limit, 1000))
        check_record(rollout)
        assert rollout.trajectory.stop is StopReason.TOKEN_LIMIT and rollout.trajectory.stop.truncated
        assert rollout.trajectory.answer is None and rollout.trajectory.steps == ()
        assert rollout.completion_ids == turns[0][:limit]
    # The whole call without its end token: it can be read, and still it is not run.
    assert chat().text_of(turns[0][:-1]) == next(oracle_texts(row)) == rollout.trajectory.turns[0].text
    [rollout] = rolled(Nudged(scripts([row])), [row], GREEDY, Budget(max(map(len, turns)), 1000))
    assert rollout.trajectory.stop is StopReason.ANSWERED


def test_the_episode_budget_is_exact() -> None:
    """An episode that fills it is finished; one token less cuts it wherever it stands."""
    row = batch()[0]
    turns, results = oracle_tokens(row)
    whole = [token for pair in zip(turns, [*results, []], strict=True) for block in pair for token in block]
    sizes = [len(block) for pair in zip(turns, [*results, []], strict=True) for block in pair]
    edges = [sum(sizes[:index]) for index in range(len(sizes))]
    for limit in sorted({edge + offset for edge in (*edges, len(whole)) for offset in range(-2, 3)} - {-2, -1, 0}):
        [rollout] = rolled(Nudged(scripts([row])), [row], GREEDY, Budget(1000, limit))
        check_record(rollout)
        assert len(rollout.completion_ids) <= limit
        assert rollout.completion_ids == whole[: len(rollout.completion_ids)]
        assert rollout.mask[-1] == 1, "what the model cannot answer is not shown to it"
        assert (rollout.trajectory.stop is StopReason.ANSWERED) == (limit >= len(whole))
        assert rollout.trajectory.stop in (StopReason.ANSWERED, StopReason.TOKEN_LIMIT)


def test_a_result_that_does_not_fit_ends_the_episode() -> None:
    row = batch()[0]
    turns, results = oracle_tokens(row)
    fitting = len(turns[0]) + len(results[0]) + 1  # one token of the next turn at least
    [cut] = rolled(Nudged(scripts([row])), [row], GREEDY, Budget(1000, fitting - 1))
    assert cut.trajectory.stop is StopReason.TOKEN_LIMIT and cut.completion_ids == turns[0]
    assert [step.result.ok for step in cut.trajectory.steps] == [True], "it ran, and the record says so"
    [more] = rolled(Nudged(scripts([row])), [row], GREEDY, Budget(1000, fitting))
    assert more.completion_ids == turns[0] + results[0] + turns[1][:1]
    assert more.trajectory.stop is StopReason.TOKEN_LIMIT and len(more.trajectory.turns) == 2


@pytest.mark.parametrize("max_turns", [1, 2, 3])
def test_an_episode_still_calling_at_the_turn_limit_is_truncated(max_turns: int) -> None:
    row = batch()[0]
    [rollout] = rolled(Nudged(scripts([row])), [row], max_turns=max_turns)
    check_record(rollout)
    assert row.task.depth == 3
    assert rollout.trajectory.stop is StopReason.TURN_LIMIT and len(rollout.trajectory.turns) == max_turns
    assert rollout.trajectory.answer is None and rollout.mask[-1] == 1


def test_a_cut_row_leaves_the_others_as_they_are() -> None:
    rows, model = batch(), Nudged(scripts(batch()))
    longest = max(len(turn) for turn in oracle_tokens(rows[0])[0])
    for limit in range(1, longest + 1, 7):
        together = rolled(model, rows, GREEDY, Budget(limit, 1000))
        assert together == [rolled(model, [row], GREEDY, Budget(limit, 1000))[0] for row in rows]


def test_an_infrastructure_failure_ends_its_own_row_only() -> None:
    rows, model = batch(), Nudged(scripts(batch()))
    episodes = [row.open() for row in rows]
    episodes[2]._registry._world.close()  # type: ignore[attr-defined]
    made = roll_out(model, chat(), episodes, seeds(rows), GREEDY, AMPLE)  # type: ignore[arg-type]
    assert [rollout.trajectory.stop is StopReason.INFRASTRUCTURE for rollout in made] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert made[2].trajectory.steps[-1].result.code is ErrorCode.INTERNAL_ERROR
    check_record(made[2])
    assert made[:2] + made[3:] == [rolled(model, [row])[0] for row in rows[:2] + rows[3:]]


# ---- the model afterwards ----


class Breaks(Nudged):
    """Fails in the middle of a turn."""

    def forward(self, **arguments: Any) -> Any:
        if self.calls == 5:
            raise KeyboardInterrupt
        return super().forward(**arguments)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_put_back_into_its_mode(training: bool) -> None:
    row = batch()[0]
    model = Nudged(scripts([row])).train(training)
    rolled(model, [row])
    assert model.calls > 10 and model.training is training
    broken = Breaks(scripts([row])).train(training)
    with pytest.raises(KeyboardInterrupt):
        rolled(broken, [row])
    assert broken.training is training
    ended: Episode = row.open()
    ended.truncate()
    with pytest.raises(RuntimeError, match="the episode has ended"):
        roll_out(model, chat(), [ended], [(1,)], GREEDY, AMPLE)
    assert model.training is training


def test_dropout_is_off_during_a_rollout_and_the_model_still_trains_after_it() -> None:
    config = Qwen3Config(**{**transformer().config.to_dict(), "attention_dropout": 0.5})
    model = Qwen3ForCausalLM(config)
    model.load_state_dict(transformer().state_dict())
    short, rows = Budget(12, 40), batch()
    wanted = rolled(Nudged(scripts(rows), transformer(), STRONG), rows, WARM, short)
    model.train()
    nudged = Nudged(scripts(rows), model, STRONG).train()
    assert rolled(nudged, rows, WARM, short) == wanted
    assert model.training
    tokens = torch.tensor([wanted[0].prompt_ids])
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_model_with_sliding_windows_is_refused() -> None:
    config = Qwen3Config(
        **{**transformer().config.to_dict(), "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    )
    config.use_sliding_window, config.sliding_window = True, 8
    with pytest.raises(ValueError, match=r"full attention in every layer; this model has .*sliding_attention"):
        rolled(Qwen3ForCausalLM(config), batch()[:1])


# ---- the cache ----


def test_the_growing_layer_holds_what_the_stock_layer_holds() -> None:
    """Appended blocks of all sizes, rows leaving in between."""
    generator = torch.Generator().manual_seed(0)
    rng = random.Random(0)
    for _ in range(20):
        ours, stock = GrowingLayer(), DynamicLayer()
        rows = list(range(5))
        for _ in range(30):
            keys, values = (
                torch.randn(len(rows), 2, rng.choice((1, 1, 1, 7, 40)), 4, generator=generator) for _ in "kv"
            )
            values = torch.randn(keys.shape, generator=generator)
            for mine, theirs in zip(ours.update(keys, values), stock.update(keys, values), strict=True):
                assert torch.equal(mine, theirs)
            assert ours.get_seq_length() == stock.get_seq_length()
            assert ours.get_mask_sizes(3) == stock.get_mask_sizes(3)
            if len(rows) > 1 and rng.random() < 0.1:
                kept = sorted(rng.sample(range(len(rows)), len(rows) - 1))
                rows = [rows[index] for index in kept]
                for layer in (ours, stock):
                    layer.batch_select_indices(torch.tensor(kept))
                assert torch.equal(ours.keys, stock.keys) and torch.equal(ours.values, stock.values)


def test_the_growing_layer_does_not_copy_at_every_token() -> None:
    layer, places = GrowingLayer(), set[int]()
    for _ in range(400):
        layer.update(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4))
        places.add(layer.keys.data_ptr())
    assert layer.get_seq_length() == 400 and len(places) < 12


# ---- sampling ----


def distribution(logits: Sequence[float], sampling: Sampling) -> list[float]:
    """What is drawn from, written out: softmax, the k best, then the smallest set that holds top_p of what is left."""
    weights = [math.exp(logit / sampling.temperature) for logit in logits]
    order = sorted(range(len(logits)), key=lambda token: -logits[token])
    kept = order[: sampling.top_k or None]
    total, mass, chosen = sum(weights[token] for token in kept), 0.0, []
    for token in kept:
        if mass > sampling.top_p * total:
            break
        chosen.append(token)
        mass += weights[token]
    return [weights[token] / mass if token in chosen else 0.0 for token in range(len(logits))]


SAMPLINGS = [
    Sampling(temperature, top_p, top_k)
    for temperature in (0.3, 1.0, 2.0)
    for top_p in (1.0, 0.9, 0.5, 0.01)
    for top_k in (0, 1, 3, 100)
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_draws_have_the_frequencies_of_the_distribution(sampling: Sampling) -> None:
    """Exactly: over an even grid of draws each token comes as often as its probability says, give or take one."""
    generator = torch.Generator().manual_seed(1)
    grid = torch.arange(2000, dtype=torch.float64).add(0.5).div(2000)
    for scale in (0.5, 2.0):
        logits = torch.randn(11, generator=generator) * scale
        wanted = distribution(logits.tolist(), sampling)
        tokens, logprobs = sample(logits.expand(2000, -1), grid, sampling)
        counts = Counter(tokens.tolist())
        for token, probability in enumerate(wanted):
            assert abs(counts[token] - 2000 * probability) <= 1.01, (token, probability)
            assert counts[token] == 0 or probability > 0
        whole = torch.log_softmax(logits / sampling.temperature, -1)
        assert torch.allclose(logprobs, whole[tokens]), "recorded before the cut: it is what the trainer computes"


def test_temperature_zero_is_greedy_whatever_the_draw() -> None:
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(2))
    tokens, logprobs = sample(logits, torch.rand(50), Sampling(0, 0.5, 2))
    assert torch.equal(tokens, logits.argmax(-1))
    assert torch.allclose(logprobs, torch.log_softmax(logits, -1).max(-1).values)


def test_no_draw_gives_an_impossible_token() -> None:
    """At both ends of [0, 1), in float32 logits with zeros of probability at both ends of the vocabulary."""
    edges = torch.tensor([0.0, 5e-324, 1e-300, 0.5, 1 - 2**-24, 1 - 2**-53], dtype=torch.float64)
    generator = torch.Generator().manual_seed(3)
    for _ in range(200):
        logits = torch.randn(1536, generator=generator) * 5
        logits[:3] = logits[-3:] = -torch.inf
        for sampling in (Sampling(1.0), Sampling(0.5, 0.9), Sampling(1.0, 1.0, 5)):
            tokens, logprobs = sample(logits.expand(len(edges), -1), edges, sampling)
            assert ((tokens >= 3) & (tokens < 1533)).all() and logprobs.isfinite().all()


def test_draws_of_a_batch_are_the_draws_of_its_rows() -> None:
    generator = torch.Generator().manual_seed(4)
    logits, uniforms = torch.randn(64, 200, generator=generator), torch.rand(64, generator=generator).double()
    sampling = Sampling(0.7, 0.95, 50)
    tokens, logprobs = sample(logits, uniforms, sampling)
    for row in range(64):
        token, logprob = sample(logits[row : row + 1], uniforms[row : row + 1], sampling)
        assert (int(token), float(logprob)) == (int(tokens[row]), float(logprobs[row]))


def test_half_precision_logits_are_sampled_in_full_precision() -> None:
    """Cumulative sums of 100,000 tokens in bfloat16 would never reach the rare ones."""
    logits = torch.zeros(1, 100_000, dtype=torch.bfloat16)
    tokens, logprobs = sample(logits.expand(3, -1), torch.tensor([0.25, 0.5, 0.75]), Sampling())
    assert tokens.tolist() == [25_000, 50_000, 75_000]
    assert logprobs.tolist() == pytest.approx([-math.log(100_000)] * 3, abs=1e-4)


def test_uniforms_keep_their_precision_on_the_way_to_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 one draw in 30 million would round to 1.0 and point behind the last token."""
    row, seen = batch()[1], list[float]()

    def spy(logits: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
        seen.extend(uniforms.tolist())
        return sample(logits, uniforms, sampling)

    monkeypatch.setattr("training.rollout.sample", spy)
    [rollout] = rolled(Nudged(scripts([row])), [row], WARM)
    assert seen == np.random.default_rng(seeds([row])[0]).random(1200)[: len(rollout.completion_ids)].tolist()
