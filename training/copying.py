"""The copy task that a policy trained from nothing needs first: repeat what stood earlier in the context.

A model that starts on episodes alone learns their form and none of the copying: it searches for one and the same name.
On random tokens there is nothing else to learn, and copying appears within a few hundred steps.
"""

from __future__ import annotations

import torch

from training.sft import IGNORED


def copy_batch(
    size: int, length: int, tokens: torch.Tensor, spans: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """(size, length) input ids and labels. `spans` random spans with gaps, then the same spans in shuffled order.

    tokens: the ids to draw from. Labels are set on the repetitions only, from each span's second token on: the first
    says which span is meant.
    """
    ids = torch.empty(size, length, dtype=torch.long)
    labels = torch.full((size, length), IGNORED)
    for row in range(size):
        stream, wanted = _copy_row(length, tokens, spans, generator)
        ids[row], labels[row] = stream, wanted
    return ids, labels


def _copy_row(
    length: int, tokens: torch.Tensor, spans: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    def draw(count: int) -> torch.Tensor:
        return tokens[torch.randint(len(tokens), (count,), generator=generator)]

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    # As long as the row allows: every repeated token is a label, and short spans would teach next to nothing.
    longest = max(4, (length // 2 - 4 * spans) // spans)
    pieces = [draw(number(max(3, longest // 2), longest + 1)) for _ in range(spans)]
    order = torch.randperm(spans, generator=generator).tolist()
    stream: list[torch.Tensor] = []
    for piece in pieces:
        stream += [piece, draw(number(0, 4))]
    used = sum(map(len, stream)) + sum(map(len, pieces))
    stream.append(draw(number(0, max(1, length - used - spans + 1))))
    start = sum(map(len, stream))
    for index in order:
        stream.append(pieces[index])
    ids = torch.cat(stream)
    labels = torch.full_like(ids, IGNORED)
    for index in order:
        end = start + len(pieces[index])
        labels[start + 1 : end] = ids[start + 1 : end]
        start = end
    rest = length - len(ids)
    if rest > 0:
        ids, labels = torch.cat([ids, draw(rest)]), torch.cat([labels, torch.full((rest,), IGNORED)])
    return ids[:length], labels[:length]
