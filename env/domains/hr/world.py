"""A seeded company: who works there, who reports to whom, who is on leave, and a fresh set of ids per episode.

`Company.generate` makes the part that a row fixes (people, reporting lines, leave); `World.open` adds what an episode
fixes (the employee ids) and serves the tools from an in-memory SQLite. The database image is built once per company and
copied into each episode (sqlite3 serialize/deserialize). The tools are the only readers; no policy sees this module.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from env.domains.hr.names import GIVEN, SURNAMES, Name, compose, held_out, name_split

MAIL_DOMAIN = "corp.example"
DEPARTMENTS = {  # Chinese name -> what an English-speaking colleague may call it
    "研发部": "R&D",
    "销售部": "Sales",
    "财务部": "Finance",
    "人事部": "HR",
    "市场部": "Marketing",
    "法务部": "Legal",
}
LEAVE_TYPES = ("annual", "sick", "personal")
CEO_ALIASES = ("CEO", "首席执行官")


@dataclass(frozen=True, slots=True)
class Person:
    """One employee. Managers are indices into Company.people; None at the top."""

    name: Name
    email: str
    department: str
    title: str
    manager: int | None
    dotted_line_manager: int | None
    active: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """One leave record. Weekends do not count; a half-day takes 0.5 off its end of the record, if that is a weekday."""

    start: date
    end: date
    leave_type: str
    half_start: bool = False
    half_end: bool = False

    def days_within(self, first: date, last: date) -> float:
        """Leave days of this record inside [first, last], both included."""
        start, end = max(self.start, first), min(self.end, last)
        length = (end - start).days + 1
        days = float(sum((start + timedelta(offset)).weekday() < 5 for offset in range(max(length, 0))))
        if self.half_start and start == self.start and start.weekday() < 5 and days:
            days -= 0.5
        if self.half_end and end == self.end and end.weekday() < 5 and days:
            days -= 0.5
        return max(days, 0.0)


@dataclass(frozen=True)
class Company:
    """Everything about the company but the employee ids. Equal arguments give an equal company."""

    seed: int
    size: int
    split: str
    today: date
    people: tuple[Person, ...]
    heads: Mapping[str, int]
    leave: tuple[tuple[Leave, ...], ...]  # by person, oldest first

    @staticmethod
    @lru_cache(maxsize=4096)
    def generate(seed: int, size: int, split: str, today: date) -> Company:
        """size: at least 8 people, former employees included. split: "train" or "eval" decides names and ids."""
        if size < 8:
            raise ValueError(f"a company needs at least 8 people, got {size}")
        rng = random.Random(f"company/{seed}/{size}/{split}")
        names = _draw_names(rng, size, split)
        people, heads = _staff(rng, names)
        leave = _leave(rng, people, today)
        return Company(seed, size, split, today, people, heads, leave)

    @property
    def ceo(self) -> int:
        return 0

    def is_unique(self, index: int) -> bool:
        """Whether a search by any spelling of this person's name finds exactly this one active employee."""
        return index in self._unique()

    @lru_cache(maxsize=4096)  # noqa: B019 - companies are few, frozen and cached themselves
    def _unique(self) -> frozenset[int]:
        owners: dict[str, set[int]] = {}
        for index, person in enumerate(self.people):
            for spelling in person.name.spellings:
                if person.active:
                    owners.setdefault(alias_key(spelling), set()).add(index)
        shared = {index for group in owners.values() if len(group) > 1 for index in group}
        return frozenset(index for index, person in enumerate(self.people) if person.active and index not in shared)

    def draw_ids(self, seed: str, fixed: Mapping[int, str] | None = None) -> tuple[str, ...]:
        """One fresh id per person, from the ids of this company's split. `fixed` keeps ids that a query has named."""
        rng = random.Random(f"ids/{seed}")
        kept = dict(fixed or {})
        taken = set(kept.values())
        ids = []
        for index in range(len(self.people)):
            if index in kept:
                ids.append(kept[index])
                continue
            emp_id = draw_id(rng, self.split, taken)
            taken.add(emp_id)
            ids.append(emp_id)
        return tuple(ids)

    @lru_cache(maxsize=1024)  # noqa: B019 - companies are few, frozen and cached themselves
    def _image(self) -> bytes:
        """The database without ids, as bytes to copy into each episode."""
        connection = sqlite3.connect(":memory:")
        connection.executescript(
            """
            CREATE TABLE people(person INTEGER PRIMARY KEY, name TEXT, name_en TEXT, email TEXT, department TEXT,
                                title TEXT, manager INTEGER, dotted INTEGER, active INTEGER);
            CREATE TABLE aliases(alias TEXT, person INTEGER);
            CREATE INDEX by_alias ON aliases(alias);
            CREATE TABLE heads(department TEXT PRIMARY KEY, person INTEGER);
            CREATE TABLE ids(person INTEGER PRIMARY KEY, emp_id TEXT UNIQUE);
            """
        )
        connection.executemany(
            "INSERT INTO people VALUES(?,?,?,?,?,?,?,?,?)",
            [
                (i, p.name.simplified, p.name.pinyin, p.email, p.department, p.title, p.manager,
                 p.dotted_line_manager, p.active)
                for i, p in enumerate(self.people)
            ],
        )  # fmt: skip
        aliases = [(alias_key(text), i) for i, p in enumerate(self.people) for text in p.name.spellings]
        aliases += [(alias_key(text), self.ceo) for text in CEO_ALIASES]
        connection.executemany("INSERT INTO aliases VALUES(?,?)", sorted(set(aliases)))
        connection.executemany("INSERT INTO heads VALUES(?,?)", list(self.heads.items()))
        connection.commit()
        return bytes(connection.serialize())

    __hash__ = object.__hash__  # identity: generate() is cached, so equal arguments give the same object


class World:
    """One episode's company with its ids. Holds a SQLite connection; `close` it or let it go out of scope."""

    def __init__(self, company: Company, ids: tuple[str, ...]):
        if len(set(ids)) != len(company.people):
            raise ValueError(f"{len(company.people)} people need as many different ids, got {len(set(ids))}")
        self.company = company
        self.ids = ids
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.deserialize(company._image())
        self._db.executemany("INSERT INTO ids VALUES(?,?)", list(enumerate(ids)))

    def close(self) -> None:
        self._db.close()

    def fingerprint(self) -> str:
        """SHA-256 of all that the tools read: equal where no call has changed anything."""
        return hashlib.sha256(self._db.serialize()).hexdigest()

    def search(self, name: str, department: str | None, email: str | None) -> list[dict[str, str]]:
        """Active employees whose name has exactly this spelling (aliases resolved), filtered; in a stable order."""
        rows = self._db.execute(
            """
            SELECT i.emp_id, p.name, p.name_en, p.department, p.title, p.email
            FROM aliases a JOIN people p USING(person) JOIN ids i USING(person)
            WHERE a.alias = ? AND p.active AND (? IS NULL OR p.department = ?) AND (? IS NULL OR lower(p.email) = ?)
            GROUP BY p.person ORDER BY p.person
            """,
            (alias_key(name), department, department_name(department), email, email and email.strip().lower()),
        ).fetchall()
        fields = ("emp_id", "name", "name_en", "department", "title", "email")
        return [dict(zip(fields, row, strict=True)) for row in rows]

    def person_of(self, emp_id: str) -> int | None:
        """Index of the active employee with this id, or None."""
        row = self._db.execute(
            "SELECT person FROM ids JOIN people USING(person) WHERE emp_id = ? AND active", (emp_id,)
        ).fetchone()
        return row[0] if row else None

    def leave_of(self, person: int, first: date, last: date, leave_type: str | None) -> list[tuple[Leave, float]]:
        """Records that touch [first, last], each with its days inside the range, oldest first."""
        return [
            (record, record.days_within(first, last))
            for record in self.company.leave[person]
            if record.start <= last and record.end >= first and leave_type in (None, record.leave_type)
        ]

    def contact(self, person: int | None) -> dict[str, str] | None:
        """What the org chart shows of a manager, or None where there is none."""
        if person is None:
            return None
        row = self._db.execute(
            "SELECT email, name, name_en, emp_id FROM people JOIN ids USING(person) WHERE person = ?", (person,)
        ).fetchone()
        return dict(zip(("email", "name", "name_en", "emp_id"), row, strict=True))


def alias_key(text: str) -> str:
    """Case, spaces and middle dots do not distinguish people: " zhang  SAN" and "ZhangSan" are one key."""
    return "".join(text.casefold().replace("·", "").split())


def department_name(text: str | None) -> str | None:
    """The directory's own name of a department given in Chinese or English; unknown text is kept and finds nobody."""
    if text is None:
        return None
    wanted = alias_key(text)
    for chinese, english in DEPARTMENTS.items():
        if wanted in (alias_key(chinese), alias_key(english)):
            return chinese
    return text


def draw_id(rng: random.Random, split: str, taken: set[str]) -> str:
    """5 or 6 digits, or a zero-padded 4-digit one (never like a year), from the ids that belong to `split`."""
    while True:
        shape = rng.random()
        if shape < 0.15:
            emp_id = f"{rng.randrange(1, 1000):04d}"
        elif shape < 0.75:
            emp_id = f"{rng.randrange(10_000, 100_000)}"
        else:
            emp_id = f"{rng.randrange(100_000, 1_000_000)}"
        if emp_id not in taken and held_out(emp_id) == (split == "eval"):
            return emp_id


def _draw_names(rng: random.Random, size: int, split: str) -> list[Name]:
    """Names of one split, all different but for a few homonyms, as in a real directory."""
    names: list[Name] = []
    seen: set[str] = set()
    homonyms = max(1, size // 30)
    while len(names) < size - homonyms:
        given = tuple(rng.randrange(len(GIVEN)) for _ in range(1 if rng.random() < 0.35 else 2))
        name = compose(rng.randrange(len(SURNAMES)), given)
        key = name.surname + name.given
        if name_split(name) == split and key not in seen:
            seen.add(key)
            names.append(name)
    names += rng.sample(names[1:], homonyms)
    return names


def _staff(rng: random.Random, names: list[Name]) -> tuple[tuple[Person, ...], dict[str, int]]:
    """Index 0 is the CEO, then one head per department, then staff who report to the head or to a colleague."""
    departments = list(DEPARTMENTS)[: max(1, min(len(DEPARTMENTS), len(names) // 4))]
    heads = {department: index + 1 for index, department in enumerate(departments)}
    used: set[str] = set()
    members: dict[str, list[int]] = {department: [head] for department, head in heads.items()}
    people = []
    for index, name in enumerate(names):
        department = departments[0] if index == 0 else departments[(index - 1) % len(departments)]
        manager = _manager(rng, index, members[department])
        if index > len(departments):
            members[department].append(index)
        dotted = None
        if index > len(departments) and rng.random() < 0.4:
            dotted = rng.choice([head for head in heads.values() if head not in (manager, heads[department])] or [0])
        title = (
            "首席执行官"
            if index == 0
            else ("部门负责人" if index <= len(departments) else rng.choice(("工程师", "专员", "经理")))
        )
        # Former employees stay in the records, manage nobody and are not found by a search.
        former = index > len(departments) and rng.random() < 0.06
        if former:
            members[department].remove(index)
        people.append(Person(name, _email(name, used), department, title, manager, dotted, not former))
    return tuple(people), heads


def _manager(rng: random.Random, index: int, colleagues: list[int]) -> int | None:
    if index == 0:
        return None
    if colleagues[0] == index:
        return 0
    return rng.choice(colleagues[:4])


def _email(name: Name, used: set[str]) -> str:
    local, number = f"{name.surname}.{name.given}", 1
    candidate = local
    while candidate in used:
        number += 1
        candidate = f"{local}{number}"
    used.add(candidate)
    return f"{candidate}@{MAIL_DOMAIN}"


def _leave(rng: random.Random, people: tuple[Person, ...], today: date) -> tuple[tuple[Leave, ...], ...]:
    """About half of the people are on leave in any one week around `today`: both answers have to occur."""
    monday = today - timedelta(days=today.weekday())
    everyone = []
    for _ in people:
        records = []
        for week in range(-4, 4):
            if rng.random() < 0.5:
                continue
            first = rng.randrange(5)
            last = min(4, first + rng.choice((0, 0, 1, 1, 2, 4)))
            half_start, half_end = rng.random() < 0.25, rng.random() < 0.2 and last > first
            start = monday + timedelta(days=7 * week + first)
            end = monday + timedelta(days=7 * week + last)
            records.append(Leave(start, end, rng.choice(LEAVE_TYPES), half_start, half_end))
        everyone.append(tuple(records))
    return tuple(everyone)
