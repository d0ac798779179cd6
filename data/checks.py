"""Leakage: what would make an evaluation row less than held out, or an answer readable from its query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from data.schema import OUTCOMES, Row


def leaks(rows: Sequence[Row]) -> Iterator[str]:
    """One line per leak: shared person, id, phrasing or query between splits; a reference in its own query."""
    for name, values in (
        ("person", _person),
        ("id", lambda row: [row.reference_output] if row.reference_output not in OUTCOMES else []),
        ("phrasing", lambda row: [row.task.template]),
        ("query", lambda row: [row.input]),
    ):
        where: dict[str, Row] = {}
        for row in rows:
            for value in values(row):
                if name == "person" and value.casefold() == "ceo":
                    continue  # a role, not a person
                first = where.setdefault(value, row)
                if first.task.split != row.task.split:
                    yield f"{row.task.id}: {name} {value!r} is also in {first.task.id} of the other split"
    for row in rows:
        given = str(row.task.subject) in row.task.world.get("fixed_ids", {})
        if not given and row.reference_output not in OUTCOMES and contains(row.input, row.reference_output):
            yield f"{row.task.id}: the reference {row.reference_output!r} stands in the query"


def contains(text: str, value: str) -> bool:
    """Whether `value` stands in the text as a token of its own: 1001 is not in 21001."""
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(value)}(?![0-9A-Za-z])", text) is not None


def _person(row: Row) -> list[str]:
    """Spellings of the person asked about. Not the reversed one, unless the query uses it: the directory finds 陈洋,
    Chen Yang, as Yang Chen too, but 杨晨 is somebody else."""
    kept: list[str] = []
    for name in (
        text for step in row.task.rubric["steps"] for text in step["arguments"].get("name", {}).get("one_of", [])
    ):
        if name == row.task.mention or " ".join(reversed(name.split(" "))) not in kept:
            kept.append(name)
    return kept
