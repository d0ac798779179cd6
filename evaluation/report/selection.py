"""Which episodes a report embeds when there are more than it should carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from evaluation.record import Key, Record

EPISODE_LIMIT = 400  # rows; about 2 kB each, twice that in a comparison

_T = TypeVar("_T")


def choose(runs: Sequence[Sequence[Record]], limit: int) -> tuple[list[Key], int]:
    """Keys to embed, in the order of the records, and how many are left out.

    Rows that failed in any run come first, evenly over failure classes and kinds; then the others, evenly over kinds
    and languages. Equal records give an equal choice.
    """
    groups: dict[Key, list[Record]] = {}
    for records in runs:
        for record in records:
            groups.setdefault(record.key, []).append(record)
    if len(groups) <= limit:
        return list(groups), 0
    wrong = [key for key, records in groups.items() if not all(record.success for record in records)]
    right = [key for key in groups if key not in set(wrong)]
    ranked = _spread(wrong, lambda key: _failure_stratum(groups[key])) + _spread(
        right, lambda key: f"{groups[key][0].kind}/{groups[key][0].language}"
    )
    chosen = set(ranked[:limit])
    return [key for key in groups if key in chosen], len(groups) - limit


def _failure_stratum(records: Sequence[Record]) -> str:
    """By the latest failure: a comparison is read for what is still wrong."""
    failed = [record for record in records if not record.success][-1]
    return f"{failed.failure.kind if failed.failure else 'infrastructure'}/{failed.kind}"


def _spread(items: Sequence[_T], stratum: Callable[[_T], str]) -> list[_T]:
    """The items in rounds of one per stratum, so that any prefix is spread evenly."""
    seen: dict[str, int] = {}
    ranked = []
    for position, item in enumerate(items):
        name = stratum(item)
        seen[name] = seen.get(name, 0) + 1
        ranked.append((seen[name], position, item))
    return [item for _, _, item in sorted(ranked, key=lambda entry: entry[:2])]
