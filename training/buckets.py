"""Sorts the micro-batches of one optimizer step by length, cuts their padding and leaves out rows that teach nothing.

TRL pads a generation batch to its longest episode and shuffles it, so that every micro-batch pays for the longest. The
rows of one optimizer step may be regrouped freely: their gradients are summed. Padding columns carry no loss. A row
whose advantage is zero has no gradient where the loss is nothing but advantage times ratio; once a policy is mostly
right, those are most of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

MicroBatch = Mapping[str, Any]
PROMPT_KEYS = ("prompt_ids", "prompt_mask")  # padded on the left; what has completion_ids' width is padded on the right


def bucketed(batches: Sequence[MicroBatch], window: int, *, drop_silent: bool = False) -> list[dict[str, Any]]:
    """batches: the micro-batches of a generation block, equally padded. window: how many make one optimizer step.

    Returns as many micro-batches with the same rows in each window, shorter ones first, each as wide as it needs.
    drop_silent: without the rows of zero advantage, except for what keeps every micro-batch from being empty.
    """
    made: list[dict[str, Any]] = []
    for start in range(0, len(batches), window):
        part = batches[start : start + window]
        whole = {key: _joined([batch[key] for batch in part]) for key in part[0]}
        order = whole["completion_mask"].sum(1).argsort(stable=True)
        if drop_silent:
            order = _teaching(order, whole["advantages"], len(part))
        for rows in order.tensor_split(len(part)):
            made.append(_trimmed({key: _rows(value, rows) for key, value in whole.items()}))
    return made


def _teaching(order: torch.Tensor, advantages: torch.Tensor, least: int) -> torch.Tensor:
    """The rows of `order` with an advantage, and as many of the others (the shortest) as make it `least`."""
    has = advantages.flatten(1).any(1) if advantages.ndim > 1 else advantages != 0
    kept = has[order]
    spare = (~kept).nonzero()[: max(0, least - int(kept.sum())), 0]
    kept[spare] = True
    return order[kept]


def _joined(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, torch.Tensor) and first.ndim:
        return torch.cat(list(values))
    if isinstance(first, list):
        return [item for value in values for item in value]
    return first  # one number for the whole block


def _rows(value: Any, rows: torch.Tensor) -> Any:
    if isinstance(value, torch.Tensor) and value.ndim:
        return value[rows]
    if isinstance(value, list):
        return [value[row] for row in rows.tolist()]
    return value


def _trimmed(batch: dict[str, Any]) -> dict[str, Any]:
    padded = batch["completion_ids"].size(1)
    first = batch["prompt_mask"].size(1) - int(batch["prompt_mask"].sum(1).max())
    last = int(batch["completion_mask"].sum(1).max())
    for key, value in list(batch.items()):
        if key in PROMPT_KEYS:
            batch[key] = value[:, first:]
        elif isinstance(value, torch.Tensor) and value.ndim == 2 and value.size(1) == padded:
            batch[key] = value[:, :last]
    return batch
