"""What a set of rows is made of, counted: before it is trained on, and when two sets are compared."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from data.schema import Row

PARTS = ("domain", "kind", "depth", "tool", "language", "split", "template")


def counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Rows by each of PARTS, in the order of numbers and names. tool: rows whose task needs it."""
    found: dict[str, Counter[Any]] = {part: Counter() for part in PARTS}
    for row in rows:
        task = row.task
        for part, value in (
            ("domain", task.domain),
            ("kind", task.kind),
            ("depth", task.depth),
            ("language", task.language),
            ("split", task.split),
            ("template", task.template),
        ):
            found[part][value] += 1
        found["tool"].update({step["tool"] for step in task.rubric["steps"]})
    return {part: {str(key): count for key, count in sorted(found[part].items())} for part in PARTS}


def sample(rows: Sequence[Row], count: int, seed: int) -> list[Row]:
    """Some rows, in their own order; equal arguments give equal ones."""
    chosen = random.Random(f"sample/{seed}").sample(range(len(rows)), min(count, len(rows)))
    return [rows[index] for index in sorted(chosen)]


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, -(-int(share * 1000) * len(ranked) // 1000) - 1)]
