"""The people of a table, put in order by the rules of data.directory, and who reports to whom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from data.table import Problem, Record, Table
from env.domains.hr.ids import MOST_PEOPLE
from env.domains.hr.names import ListedName
from env.domains.hr.world import DEPARTMENTS, Company, Person, alias_key

EMAIL = re.compile(r"[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+")
NOBODY = {"manager": "has no manager", "dotted_line_manager": "has no dotted-line manager"}
WORDED = ("name", "name_en", "alias", "department")  # what stands in questions and answers
LONGEST_NAME = 64  # of the search's contract
WORKING = {"", "1", "true", "yes", "y", "是", "active", "在职", "正式", "试用", "试用期", "休假"}
WORKING |= {"current", "employed", "probation", "on leave"}
LEFT = {"0", "false", "no", "n", "否", "离职", "已离职", "退休", "former", "left", "inactive", "terminated", "resigned"}
LEFT |= {"retired"}


class Owners:
    """Whom a cell means: an id, an e-mail, or a name that one person has."""

    def __init__(self, ids: Sequence[str], people: Sequence[Person]):
        keys = Counter(key for person in people for key in _keys(person))
        self._by_name = {key: i for i, person in enumerate(people) for key in _keys(person) if keys[key] == 1}
        self._by_email = {person.email.casefold(): i for i, person in enumerate(people) if person.email}
        self._by_id = {emp_id: i for i, emp_id in enumerate(ids)}

    def of(self, cell: str) -> int | None:
        if cell in self._by_id:
            return self._by_id[cell]
        return self._by_email.get(cell.casefold(), self._by_name.get(alias_key(cell)))


class Staff:
    """The people of a table, while they are put in order."""

    def __init__(self, table: Table, columns: Mapping[str, str]):
        self._table = table
        self._columns = columns
        self._problems: list[Problem] = []

    def company(self) -> tuple[Company, Owners, list[Problem]]:
        records = list(self._kept())
        if not 2 <= len(records) <= MOST_PEOPLE:
            raise ValueError(f"{self._table.name}: expected 2 to {MOST_PEOPLE} usable people, got {len(records)}")
        people = self._people(records)
        owners = Owners([self._cell(record, "id") for record in records], people)
        people = self._with_managers(people, records, owners)
        counts = _below(people)
        tops = [
            index
            for index, record in enumerate(records)
            if self._is_top(record, index, owners) and counts[index] and people[index].active
        ]
        company = Company(
            "train", tuple(people), _heads(people, counts), tuple(() for _ in people), self._departments(records),
            tops[0] if len(tops) == 1 else None,
        )  # fmt: skip
        return company, owners, self._problems

    def _cell(self, record: Record, field: str) -> str:
        column = self._columns.get(field)
        return " ".join(record.cells.get(column, "").split()) if column else ""

    def _note(self, record: Record, field: str, reason: str, done: str) -> None:
        self._problems.append(Problem(self._table.name, record.row, self._columns[field], reason, done))

    def _kept(self) -> Iterator[Record]:
        rows: dict[str, int] = {}
        for record in self._table.records:
            emp_id, name = self._cell(record, "id"), self._cell(record, "name")
            if not emp_id:
                self._note(record, "id", "no id", "the row is left out")
            elif emp_id in rows:
                self._note(record, "id", f"{emp_id!r} is the id of row {rows[emp_id]} too", "the row is left out")
            elif not any(character.isalpha() for character in name):
                self._note(record, "name", f"no name: {name!r}" if name else "no name", "the row is left out")
            elif len(name) > LONGEST_NAME:
                self._note(record, "name", f"more than {LONGEST_NAME} characters", "the row is left out")
            elif field := next((each for each in WORDED if set("{}") & set(self._cell(record, each))), None):
                self._note(record, field, "curly brackets", "the row is left out")
            else:
                rows[emp_id] = record.row
                yield record

    def _people(self, records: Sequence[Record]) -> list[Person]:
        used: dict[str, int] = {}
        return [self._person(record, used) for record in records]

    def _person(self, record: Record, used: dict[str, int]) -> Person:
        name = self._cell(record, "name")
        others = [part.strip() for part in re.split(r"[;；,，、/|]", self._cell(record, "alias"))]
        listed = ListedName(name, self._cell(record, "name_en") or name, tuple(filter(None, others)))
        email, department = self._email(record, used), self._cell(record, "department")
        return Person(listed, email, department, self._cell(record, "title"), None, None, self._active(record))

    def _email(self, record: Record, used: dict[str, int]) -> str:
        if "email" not in self._columns:
            return ""
        email = self._cell(record, "email")
        reason = "no address"
        if email and not EMAIL.fullmatch(email):
            reason = f"{email!r} is no address"
        elif email.casefold() in used:
            reason = f"{email!r} is the address of row {used[email.casefold()]} too"
        elif email:
            used[email.casefold()] = record.row
            return email
        self._note(record, "email", reason, "no question asks for it")
        return ""

    def _active(self, record: Record) -> bool:
        status = self._cell(record, "active").casefold()
        if status not in WORKING | LEFT:
            self._note(record, "active", f"unknown status {status!r}", "the person works here")
        return status not in LEFT

    def _with_managers(self, people: list[Person], records: Sequence[Record], owners: Owners) -> list[Person]:
        bosses = [self._boss(record, "manager", index, people, owners) for index, record in enumerate(records)]
        for index in sorted(_circular(bosses)):
            cell = self._cell(records[index], "manager")
            self._note(records[index], "manager", f"{cell!r} reports back to this row", NOBODY["manager"])
            bosses[index] = None
        dotted = [
            self._boss(record, "dotted_line_manager", index, people, owners) for index, record in enumerate(records)
        ]
        return [
            replace(person, manager=boss, dotted_line_manager=other)
            for person, boss, other in zip(people, bosses, dotted, strict=True)
        ]

    def _boss(self, record: Record, field: str, index: int, people: Sequence[Person], owners: Owners) -> int | None:
        cell = self._cell(record, field)
        boss = owners.of(cell) if cell else index
        if boss == index:
            return None
        if boss is None:
            self._note(record, field, f"nobody is {cell!r}, or more than one", NOBODY[field])
            return None
        if not people[boss].active:
            self._note(record, field, f"{cell!r} has left", NOBODY[field])
            return None
        return boss

    def _is_top(self, record: Record, index: int, owners: Owners) -> bool:
        cell = self._cell(record, "manager")
        return not cell or owners.of(cell) == index

    def _departments(self, records: Sequence[Record]) -> dict[str, str]:
        """What English questions call each department: the first translation that the file has, else a usual one."""
        pairs = [(self._cell(record, "department"), self._cell(record, "department_en")) for record in records]
        translated = {own: english for own, english in reversed(pairs) if english}
        return {own: translated.get(own, DEPARTMENTS.get(own, own)) for own, _ in pairs if own}


def _keys(person: Person) -> set[str]:
    return {alias_key(text) for text in person.name.spellings}


def _circular(bosses: Sequence[int | None]) -> set[int]:
    """Everybody who is, over any number of managers, their own."""
    state = [0] * len(bosses)  # 0: not seen, else the number of the walk that came by
    circular: set[int] = set()
    for start in range(len(bosses)):
        path: list[int] = []
        at: int | None = start
        while at is not None and not state[at]:
            state[at] = start + 1
            path.append(at)
            at = bosses[at]
        if at is not None and state[at] == start + 1 and at in path:
            circular |= set(path[path.index(at) :])
    return circular


def _below(people: Sequence[Person]) -> list[int]:
    """How many people report to each, over any number of managers."""
    counts = [0] * len(people)
    for person in people:
        boss = person.manager
        while boss is not None:
            counts[boss] += 1
            boss = people[boss].manager
    return counts


def _heads(people: Sequence[Person], counts: Sequence[int]) -> dict[str, int]:
    heads: dict[str, int] = {}
    for index, person in enumerate(people):
        boss = people[person.manager].department if person.manager is not None else None
        if not person.active or not person.department or boss == person.department:
            continue
        best = heads.get(person.department)
        if best is None or counts[index] > counts[best]:
            heads[person.department] = index
    return heads
