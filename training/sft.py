"""SFT on transcripts, the oracle's or logged ones: the warm start. Loss on what the assistant writes, nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from data.logs import Logged
from data.oracle import oracle_turn
from data.schema import ALL_TOOLS, Row, Task
from env.episode import Episode
from env.surface import Surface
from training.chat import ChatFormat

IGNORED = -100  # label of a token that the loss skips
POOL = 8


@dataclass(frozen=True, slots=True)
class Transcript:
    """One episode in tokens; `labels` are IGNORED where the assistant did not write."""

    input_ids: list[int]
    labels: list[int]
    prompt_tokens: int

    @property
    def completion_tokens(self) -> int:
        return len(self.input_ids) - self.prompt_tokens

    @property
    def longest_turn(self) -> int:
        """Tokens of the longest stretch that the assistant writes, end token included."""
        longest = run = 0
        for label in self.labels:
            run = run + 1 if label != IGNORED else 0
            longest = max(longest, run)
        return longest


def transcript(
    row: Row,
    chat: ChatFormat,
    ids: str,
    turn: Callable[[Task, Episode], str] = oracle_turn,
    surface: Surface = ALL_TOOLS,
) -> Transcript:
    """An episode of a row, through the same rendering as a rollout. ids: seed of the employee ids."""
    episode = row.open(ids=ids, surface=surface)
    tokens = chat.prompt_ids(episode.messages, episode.tools)
    prompt_tokens = len(tokens)
    labels = [IGNORED] * prompt_tokens
    while True:
        text = turn(row.task, episode)
        written = chat.text_ids(text)
        tokens, labels = tokens + written, labels + written
        results = episode.play(text)
        if results is None:
            return Transcript(tokens, labels, prompt_tokens)
        inserted = chat.results_ids(results)
        tokens, labels = tokens + inserted, labels + [IGNORED] * len(inserted)


def transcripts(
    rows: Iterable[Row],
    chat: ChatFormat,
    seed: int,
    per_row: int = 1,
    source: str = "oracle",
    surface: Surface = ALL_TOOLS,
) -> list[Transcript]:
    """`per_row` transcripts of each row, each with employee ids of its own, so that no id can be learned by heart.

    source: "oracle" or "logs", who writes the assistant's turns.
    """
    made = []
    for row in rows:
        for copy in range(per_row):
            ids = f"sft/{seed}/{row.task.id}/{copy}"
            turn = Logged(ids).turn if source == "logs" else oracle_turn
            made.append(transcript(row, chat, ids, turn, surface))
    return made


def batched_by_length(lengths: Sequence[int], batch: int, seed: int) -> list[int]:
    """An order of all examples in which a batch holds similar lengths and the batches come in random order.

    Sorted within pools of POOL batches only, and shuffled: the stock length grouping walks from the longest kind of
    query to the shortest again and again, and a small policy forgets one while it learns the other.
    """
    rng = random.Random(f"order/{seed}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    made: list[int] = []
    for start in range(0, len(order), batch * POOL):
        pool = sorted(order[start : start + batch * POOL], key=lambda index: lengths[index])
        batches = [pool[first : first + batch] for first in range(0, len(pool), batch)]
        rng.shuffle(batches)
        made += [index for each in batches for index in each]
    return made
