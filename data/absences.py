"""The leave records of a table, put in order by the rules of data.directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date

from data.staff import Owners
from data.table import Problem, Record, Table
from env.domains.hr.world import Leave

DAY = re.compile(r"(\d{4})(?:[-/.年](\d{1,2})[-/.月](\d{1,2})日?|(\d{2})(\d{2}))(?:[ T].*)?")
YES = {"1", "true", "yes", "y", "是", "half", "半天"}


def absences(
    table: Table, used: Mapping[str, str], types: Mapping[str, str], owners: Owners, people: int
) -> tuple[tuple[tuple[Leave, ...], ...], list[Problem]]:
    """The leave of each person, oldest first, and what was odd."""
    kept: list[list[Leave]] = [[] for _ in range(people)]
    problems: list[Problem] = []

    def note(record: Record, field: str, reason: str, done: str = "the record is left out") -> None:
        problems.append(Problem(table.name, record.row, used[field], reason, done))

    for record in table.records:
        cells = {field: record.cells.get(column, "") for field, column in used.items()}
        owner, start, end = owners.of(cells["person"]), day(cells["start"]), day(cells["end"])
        if owner is None:
            note(record, "person", f"nobody is {cells['person']!r}, or more than one")
        elif start is None:
            note(record, "start", f"{cells['start']!r} is no date")
        elif end is None:
            note(record, "end", f"{cells['end']!r} is no date")
        elif end < start:
            note(record, "end", f"{end} is before the start, {start}")
        elif any(other.start <= end and start <= other.end for other in kept[owner]):
            note(record, "start", f"{start} to {end} has days of an earlier record")
        else:
            word = cells.get("leave_type", "annual").casefold()
            if word not in types:
                note(record, "leave_type", f"unknown type {word!r}", "personal")
            halves = (cells.get(half, "").casefold() in YES for half in ("half_start", "half_end"))
            kept[owner].append(Leave(start, end, types.get(word, "personal"), *halves))
    return tuple(tuple(sorted(records, key=lambda each: each.start)) for records in kept), problems


def day(text: str) -> date | None:
    """A date in one of the forms above, None for any other text and for days that there are not."""
    match = DAY.fullmatch(text)
    if match is None:
        return None
    year, month, of_month = filter(None, match.groups())
    try:
        return date(int(year), int(month), int(of_month))
    except ValueError:
        return None
