"""A company's own people and leave, from files with any column names, put in order; whatever is odd is reported.

The rules. Of people:

    no id, an id that an earlier row has, no name    the row is left out
    a name of more than 64 characters                the row is left out, as the search does not take it
    { or } in a name or department                   the row is left out, as they mark places in questions
    no address, an unreadable or an earlier one's    the person stays and has none: no question asks for it
    an unknown status                                the person works here
    a manager who is not there or has left           the person stays and has no manager: no question asks who it is
    managers in a circle                             everybody of the circle has no manager, likewise
    their own manager, or an empty cell              the top of the company; "CEO" where one such person has reports

Managers are named by id, e-mail or a name that one person has. A department's head is the member whose manager is not
in it and who is over most people, the earlier row where two are alike. Former employees stay in the records and are
found by no search. Without an English name, English questions say the name as it is.

Of leave:

    somebody who is not there, or of whom there are two    the record is left out
    an unreadable date, an end before its start            the record is left out
    a day that an earlier record of the person has         the record is left out, as the day would count twice
    an unknown type                                        personal (annual where there is no such column)

Dates: 2026-06-01, 2026/6/1, 2026.6.1, 2026年6月1日 or 20260601, a time behind them is dropped. 01/06/2026 is
unreadable, as it may mean either of two days.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from data import columns as names
from data import table as tables
from data.absences import absences
from data.staff import Staff
from data.table import Problem
from env.domains.hr.world import Company


@dataclass(frozen=True, slots=True)
class Imported:
    """company: as it is after the rules, for either split."""

    company: Company
    problems: tuple[Problem, ...]


def read(people: Path, leave: Path | None = None, mapping: Path | None = None) -> Imported:
    """Leave is looked for in the database of the people too. Raises ValueError or OSError for files of no use."""
    columns = names.read(mapping)
    staff = tables.read(people, columns.tables["people"])
    company, owners, problems = Staff(staff, names.found(staff, "people", columns.people)).company()
    if leave is None and tables.has_table(people, columns.tables["leave"]):
        leave = people
    if leave is None:
        return Imported(company, tuple(problems))
    records = tables.read(leave, columns.tables["leave"])
    used = names.found(records, "leave", columns.leave)
    taken, more = absences(records, used, columns.leave_types, owners, len(company.people))
    return Imported(replace(company, leave=taken), (*problems, *more))
