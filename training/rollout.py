"""Batched multi-turn rollouts on a transformers model: many episodes, one forward pass per token.

Token-in, token-out. The cache is continued over turns, so that every token is fed once: first the prompts, then one
column per sampled token, then the tool results as one ragged block. Rows of different lengths share the columns; what
a row does not need is padding, masked out and not counted in its positions. Finished episodes leave the batch.

Needs full attention and a cache that can hold padding in the middle: decoder-only models with RoPE or ALiBi-free
absolute positions given by `position_ids`. Sliding-window and recurrent models are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from env.episode import Episode
from env.types import Trajectory
from training.chat import ChatFormat

Seed = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 is greedy. top_p and top_k cut the distribution that is drawn from, not the logprobs recorded."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """turn_tokens: sampled per turn at most. completion_tokens: the episode after the prompt, results included."""

    turn_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode in tokens. All sequences but prompt_ids have the length of completion_ids.

    mask: 1 where the model sampled the token. logprobs: log-probability at the sampling temperature, 0.0 where masked.
    turns: index of the turn that sampled the token, -1 where masked.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    turns: list[int]
    trajectory: Trajectory


@dataclass(slots=True)
class _Lane:
    """One episode while it runs."""

    episode: Episode
    prompt_ids: list[int]
    uniforms: np.ndarray  # one number in [0, 1) per token: sampling depends on the row's seed, not on the batch
    completion: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    turn: int = 0
    turn_start: int = 0

    def take(self, token: int, logprob: float) -> None:
        self.completion.append(token)
        self.mask.append(1)
        self.logprobs.append(logprob)
        self.turns.append(self.turn)

    def insert(self, tokens: list[int]) -> None:
        self.completion += tokens
        self.mask += [0] * len(tokens)
        self.logprobs += [0.0] * len(tokens)
        self.turns += [-1] * len(tokens)

    def written(self) -> list[int]:
        return self.completion[self.turn_start :]

    def finished(self) -> Rollout:
        return Rollout(
            self.prompt_ids, self.completion, self.mask, self.logprobs, self.turns, self.episode.trajectory()
        )


def roll_out(
    model: PreTrainedModel,
    chat: ChatFormat,
    episodes: Sequence[Episode],
    seeds: Sequence[Seed],
    sampling: Sampling,
    budget: Budget,
) -> list[Rollout]:
    """Play all episodes to their end, in order. Row i's samples depend on its prompt, seeds[i] and the weights only.

    A turn that reaches its budget without an end token ends the episode as truncated; so does a result that would not
    fit. The model is put into eval mode for the duration (dropout would falsify the logprobs).
    """
    if len(episodes) != len(seeds):
        raise ValueError(f"{len(episodes)} episodes need as many seeds, got {len(seeds)}")
    lanes = [
        _Lane(
            episode,
            chat.prompt_ids(episode.messages, episode.tools),
            np.random.default_rng(seed).random(budget.completion_tokens),
        )
        for episode, seed in zip(episodes, seeds, strict=True)
    ]
    with _evaluating(model), torch.inference_mode():
        _play(model, chat, lanes, sampling, budget)
    return [lane.finished() for lane in lanes]


def _play(model: PreTrainedModel, chat: ChatFormat, lanes: list[_Lane], sampling: Sampling, budget: Budget) -> None:
    stream = _Stream(model, chat.pad_id)
    if not lanes:
        return
    active, logits = lanes, stream.feed_shared([lane.prompt_ids for lane in lanes])
    while active:
        _write_turn(stream, active, logits, chat.end_id, sampling, budget)
        blocks = [_answer(lane, chat, budget) for lane in active]
        kept = [index for index, block in enumerate(blocks) if block]
        if len(kept) < len(active):
            stream.keep(kept)
        active, blocks = [active[index] for index in kept], [blocks[index] for index in kept]
        if active:
            logits = stream.feed(blocks)


def _write_turn(
    stream: _Stream,
    lanes: Sequence[_Lane],
    logits: torch.Tensor,
    end_id: int,
    sampling: Sampling,
    budget: Budget,
) -> None:
    """Sample until every lane has ended its turn. logits: (lanes, V) of the first token."""
    for lane in lanes:
        lane.turn_start = len(lane.completion)
    writing = list(range(len(lanes)))
    while True:
        uniforms = torch.tensor(
            [lanes[row].uniforms[len(lanes[row].completion)] for row in writing], device=logits.device
        )
        tokens, logprobs = sample(logits[writing], uniforms, sampling)
        going = []
        for row, token, logprob in zip(writing, tokens.tolist(), logprobs.tolist(), strict=True):
            lane = lanes[row]
            lane.take(token, logprob)
            if token != end_id and not _spent(lane, budget):
                going.append(row)
        writing = going
        if not writing:
            return
        columns: list[list[int]] = [[] for _ in lanes]
        for row in writing:
            columns[row] = [lanes[row].completion[-1]]
        logits = stream.feed(columns)


def _spent(lane: _Lane, budget: Budget) -> bool:
    return (
        len(lane.completion) - lane.turn_start >= budget.turn_tokens or len(lane.completion) >= budget.completion_tokens
    )


def _answer(lane: _Lane, chat: ChatFormat, budget: Budget) -> list[int]:
    """Give the turn to the episode; the tokens to feed next (the unfed end token, then the results), or none."""
    written = lane.written()
    text = chat.text_of(written)
    if written[-1] != chat.end_id:
        lane.episode.truncate(text)
        return []
    results = lane.episode.play(text)
    if results is None:
        return []
    inserted = chat.results_ids(results)
    if len(lane.completion) + len(inserted) >= budget.completion_tokens:
        lane.episode.truncate()
        return []
    lane.insert(inserted)
    lane.turn += 1
    return [written[-1], *inserted]


def sample(logits: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
    """logits (B, V), uniforms (B,) in [0, 1) -> tokens (B,) and their logprobs (B,) under softmax(logits / T).

    Inverse of the cumulative distribution, so that a row's draw does not depend on the rows beside it.
    """
    logits = logits.float()
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
        return tokens, torch.log_softmax(logits, -1).gather(1, tokens[:, None])[:, 0]
    logprobs = torch.log_softmax(logits / sampling.temperature, -1)
    probabilities = _cut(logprobs, sampling).exp().double()
    cumulative = probabilities.cumsum(-1)
    wanted = uniforms.double()[:, None] * cumulative[:, -1:]
    # The first token whose cumulative mass exceeds the draw; never one of probability zero.
    tokens = (cumulative <= wanted).sum(-1)
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def _cut(logprobs: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    if sampling.top_k:
        least = logprobs.topk(min(sampling.top_k, logprobs.size(-1)), -1).values[:, -1:]
        logprobs = logprobs.masked_fill(logprobs < least, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = logprobs.sort(-1, descending=True)
        mass = ordered.exp().cumsum(-1) - ordered.exp()
        total = ordered.exp().sum(-1, keepdim=True)
        ordered = ordered.masked_fill(mass > sampling.top_p * total, -torch.inf)
        logprobs = torch.full_like(logprobs, -torch.inf).scatter(1, order, ordered)
    return logprobs


class _Stream:
    """The model's cache for a set of rows, fed in ragged blocks that are padded on the left."""

    def __init__(self, model: PreTrainedModel, pad_id: int):
        kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise ValueError(f"rollouts need full attention in every layer; this model has {', '.join(sorted(kinds))}")
        self._model = model
        self._pad_id = pad_id
        self._cache = Cache(layer_class_to_replicate=GrowingLayer)
        self._mask: torch.Tensor | None = None  # (rows, columns so far), 1 where a row has a token
        self._lengths: torch.Tensor | None = None  # (rows,) tokens so far

    def feed_shared(self, prompts: Sequence[list[int]]) -> torch.Tensor:
        """`feed` for the first block, where many rows are alike (a group's): each prompt is fed once."""
        places = {prompt: place for place, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        logits = self.feed([list(prompt) for prompt in places])
        rows = [places[tuple(prompt)] for prompt in prompts]
        if len(places) < len(rows):
            self.keep(rows)
        return logits[rows]

    def feed(self, blocks: Sequence[list[int]]) -> torch.Tensor:
        """Append one block per row; an empty block leaves the row as it is. Returns logits (rows, V) after the last
        column; a row with an empty block gets numbers without meaning."""
        device = self._model.device
        width = max(len(block) for block in blocks)
        padded = [[self._pad_id] * (width - len(block)) + block for block in blocks]
        sizes = torch.tensor([len(block) for block in blocks], device=device)
        real = (torch.arange(width, device=device)[None] >= width - sizes[:, None]).long()
        if self._mask is None or self._lengths is None:
            self._mask, self._lengths = real.new_zeros(len(blocks), 0), real.new_zeros(len(blocks))
        self._mask = torch.cat([self._mask, real], 1)
        positions = (self._lengths[:, None] + real.cumsum(1) - 1).clamp(min=0)
        self._lengths = self._lengths + sizes
        output: Any = self._model(
            input_ids=torch.tensor(padded, device=device),
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return torch.as_tensor(output.logits[:, -1])

    def keep(self, rows: Sequence[int]) -> None:
        """Forget all rows but these, in this order; a row may be named more than once."""
        assert self._mask is not None and self._lengths is not None
        index = torch.tensor(list(rows), dtype=torch.long, device=self._mask.device)
        self._mask, self._lengths = self._mask[index], self._lengths[index]
        for layer in self._cache.layers:
            layer.batch_select_indices(index)


class GrowingLayer(DynamicLayer):
    """A cache layer that appends in place: the stock one copies everything at every token. Grows by half again."""

    keys: Any
    values: Any
    _buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        used, added = self.get_seq_length(), key_states.shape[-2]
        if self._buffers is None or used + added > self._buffers[0].shape[-2]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            self._buffers = (
                _enlarged(self.keys, key_states, used),
                _enlarged(self.values, value_states, used),
            )
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, used : used + added] = states
        self.keys, self.values = (buffer[:, :, : used + added] for buffer in self._buffers)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self._buffers = None


def _enlarged(old: torch.Tensor, states: torch.Tensor, used: int) -> torch.Tensor:
    batch, heads, added, width = states.shape
    room = states.new_zeros(batch, heads, (used + added) * 3 // 2 + 16, width)
    if used:
        room[:, :, :used] = old
    return room


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
