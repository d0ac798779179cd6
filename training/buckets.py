"""Sorts the micro-batches of one optimizer step by length and cuts their padding.

TRL pads a generation batch to its longest episode and shuffles it, so that every micro-batch pays for the longest. The
rows of one optimizer step may be regrouped freely: their gradients are summed. Padding columns carry no loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

MicroBatch = Mapping[str, Any]
PROMPT_KEYS = ("prompt_ids", "prompt_mask")  # padded on the left; what has completion_ids' width is padded on the right


def bucketed(batches: Sequence[MicroBatch], window: int) -> list[dict[str, Any]]:
    """batches: the micro-batches of a generation block, equally padded. window: how many make one optimizer step.

    Returns as many micro-batches with the same rows in each window, shorter ones first, each as wide as it needs.
    """
    made: list[dict[str, Any]] = []
    for start in range(0, len(batches), window):
        part = batches[start : start + window]
        whole = {key: _joined([batch[key] for batch in part]) for key in part[0]}
        order = whole["completion_mask"].sum(1).argsort(stable=True)
        for rows in order.chunk(len(part)):
            made.append(_trimmed({key: _rows(value, rows) for key, value in whole.items()}))
    return made


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
