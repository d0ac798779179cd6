"""A seeded company: who works there, who reports to whom, who is on leave, and a fresh set of ids per episode.

`Company.generate` makes the part that a row fixes (people, reporting lines, leave); `World.open` adds what an episode
fixes (the employee ids) and serves the tools from an in-memory SQLite. The database image is built once per company and
copied into each episode (sqlite3 serialize/deserialize); ids are looked up outside it, so that opening a world costs
little for any size. The tools are the only readers; no policy sees this module.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple, Protocol

from env.domains.hr.names import GIVEN, SURNAMES, Name, PersonName, compose, held_out, pinyin_of

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
LENGTHS = (0, 0, 1, 1, 2, 4)  # of a record, in days after the first
CEO_ALIASES = ("CEO", "首席执行官")


@dataclass(frozen=True, slots=True)
class Person:
    """One employee. Managers are indices into Company.people; None at the top."""

    name: PersonName
    email: str  # "" where an imported directory has none
    department: str
    title: str
    manager: int | None
    dotted_line_manager: int | None
    active: bool


class Leave(NamedTuple):  # a company has hundreds: a frozen dataclass takes three times as long to make
    """One leave record. Weekends do not count; a half-day takes 0.5 off its end of the record, if that is a weekday."""

    start: date
    end: date
    leave_type: str
    half_start: bool = False
    half_end: bool = False

    def days_within(self, first: date, last: date) -> float:
        """Leave days of this record inside [first, last], both included."""
        if self.start > last or self.end < first:
            return 0.0
        start, end = max(self.start, first), min(self.end, last)
        from_monday = start.weekday()
        days = float(sum((from_monday + offset) % 7 < 5 for offset in range((end - start).days + 1)))
        if self.half_start and start == self.start and start.weekday() < 5 and days:
            days -= 0.5
        if self.half_end and end == self.end and end.weekday() < 5 and days:
            days -= 0.5
        return max(days, 0.0)


@dataclass(frozen=True, eq=False)  # identity: generate() is cached, so equal arguments give the same object
class Company:
    """Everything about the company but the employee ids, the same for equal arguments.

    heads: by department; none where a department has no head. leave: by person, oldest first. departments: what
    English questions call them. ceo: None where nobody, or more than one, is at the top. asked: whom the questions of
    this split may be about, None for everybody.
    """

    split: str
    people: tuple[Person, ...]
    heads: Mapping[str, int]
    leave: tuple[tuple[Leave, ...], ...]
    departments: Mapping[str, str] = field(default_factory=lambda: DEPARTMENTS)
    ceo: int | None = 0
    asked: frozenset[int] | None = None

    @staticmethod
    @lru_cache(maxsize=256)
    def generate(seed: int, size: int, split: str, today: date) -> Company:
        """size: at least 8 people, former employees included. split: "train" or "eval" decides names and ids."""
        if size < 8:
            raise ValueError(f"a company needs at least 8 people, got {size}")
        rng = random.Random(f"company/{seed}/{size}/{split}")
        names = _draw_names(rng, size, split)
        people, heads = _staff(rng, names)
        leave = _leave(rng, people, today)
        return Company(split, people, heads, leave)

    def may_ask(self, index: int) -> bool:
        """Whether a question of this split may be about this person."""
        return self.asked is None or index in self.asked

    def is_unique(self, index: int) -> bool:
        """Whether a search by any spelling of this person's name finds exactly this one active employee."""
        return index in self._unique

    @cached_property
    def _unique(self) -> frozenset[int]:
        owner: dict[str, int] = {}
        shared: set[int] = set()
        active = [index for index, person in enumerate(self.people) if person.active]
        for index in active:
            for spelling in self.people[index].name.spellings:
                other = owner.setdefault(alias_key(spelling), index)
                if other != index:
                    shared |= {index, other}
        return frozenset(index for index in active if index not in shared)

    @cached_property
    def subjects(self) -> tuple[int, ...]:
        """Whom a question may name: active, below the top, of this split, with a name that nobody shares; by index."""
        return tuple(index for index in sorted(self._unique) if index != self.ceo and self.may_ask(index))

    @cached_property
    def homonyms(self) -> tuple[tuple[int, ...], ...]:
        """Active people of one and the same name, nobody else's, who can be told apart by a department."""
        groups: dict[str, list[int]] = {}
        called: dict[str, set[int]] = {}
        for index, person in enumerate(self.people):
            if not person.active:
                continue
            for text in person.name.said:
                called.setdefault(alias_key(text), set()).add(index)
            if index != self.ceo and self.may_ask(index):
                groups.setdefault(alias_key(person.name.simplified), []).append(index)
        return tuple(
            tuple(group)
            for group in groups.values()
            if len(group) > 1 and self._in_departments(group) and self._by_name(group, called) == set(group)
        )

    def _in_departments(self, group: list[int]) -> bool:
        departments = {self.people[index].department for index in group}
        return len(departments) == len(group) and "" not in departments

    def _by_name(self, group: list[int], called: Mapping[str, set[int]]) -> set[int]:
        """Everybody whom a name of one of the group means."""
        return {who for index in group for text in self.people[index].name.said for who in called[alias_key(text)]}

    @cached_property
    def former(self) -> tuple[int, ...]:
        """Who has left, of this split, and has no spelling in common with somebody who works here."""
        people = self.people
        keys = [{alias_key(text) for text in person.name.spellings} for person in people]
        active = {key for person, own in zip(people, keys, strict=True) if person.active for key in own}
        left = (index for index, person in enumerate(people) if not person.active and self.may_ask(index))
        return tuple(index for index in left if not active & keys[index])

    @cached_property
    def departments_by_key(self) -> Mapping[str, str]:
        """The directory's own name of a department by the key of any; the own one wins over a translation."""
        translated = {alias_key(english): own for own, english in self.departments.items()}
        return translated | {alias_key(own): own for own in self.departments}

    @cached_property
    def aliases(self) -> frozenset[str]:
        """The keys of every spelling of everybody, former employees too."""
        return frozenset(alias_key(text) for person in self.people for text in person.name.spellings)

    def draw_ids(self, seed: str, fixed: Mapping[int, str] | None = None) -> tuple[str, ...]:
        """One fresh id per person, from the ids of this company's split. `fixed` keeps ids that a query has named."""
        return tuple(self._each_id(seed, fixed or {}))

    def draw_id_of(self, index: int, seed: str, fixed: Mapping[int, str]) -> str:
        """The id that `draw_ids` gives one person, without those that come after."""
        return next(islice(self._each_id(seed, fixed), index, None))

    def _each_id(self, seed: str, fixed: Mapping[int, str]) -> Iterator[str]:
        rng = random.Random(f"ids/{seed}")
        taken = set(fixed.values())
        drawn = _ids(rng, self.split, taken)
        for index in range(len(self.people)):
            emp_id = fixed.get(index) or next(drawn)
            taken.add(emp_id)
            yield emp_id

    @cached_property
    def image(self) -> bytes:
        """The directory that is searched, as bytes to copy into each episode."""
        connection = sqlite3.connect(":memory:")
        connection.executescript(
            """
            CREATE TABLE people(person INTEGER PRIMARY KEY, name TEXT, name_en TEXT, email TEXT, department TEXT,
                                title TEXT, active INTEGER);
            CREATE TABLE aliases(alias TEXT, person INTEGER);
            CREATE INDEX by_alias ON aliases(alias);
            """
        )
        connection.executemany(
            "INSERT INTO people VALUES(?,?,?,?,?,?,?)",
            [
                (i, p.name.simplified, p.name.pinyin, p.email, p.department, p.title, p.active)
                for i, p in enumerate(self.people)
            ],
        )
        aliases = [(alias_key(text), i) for i, p in enumerate(self.people) for text in p.name.spellings]
        aliases += [(alias_key(text), self.ceo) for text in CEO_ALIASES if self.ceo is not None]
        connection.executemany("INSERT INTO aliases VALUES(?,?)", sorted(set(aliases)))
        connection.commit()
        return bytes(connection.serialize())


class Ids(Protocol):
    """The employee ids of an episode, by index of the person, all different."""

    def __getitem__(self, index: int, /) -> str: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def index(self, emp_id: str, /) -> int:
        """Whose id it is. Raises ValueError for nobody's."""
        ...


class World:
    """One episode's company with its ids. Holds a SQLite connection; `close` it or let it go out of scope."""

    def __init__(self, company: Company, ids: Ids):
        different = len(set(ids)) if isinstance(ids, tuple) else len(ids)  # others are different by construction
        if different != len(company.people):
            raise ValueError(f"{len(company.people)} people need as many different ids, got {different}")
        self.company = company
        self.ids = ids
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.deserialize(company.image)

    def close(self) -> None:
        self._db.close()

    def fingerprint(self) -> str:
        """SHA-256 of all that the tools read: equal where no call has changed anything."""
        return hashlib.sha256(self._db.serialize() + "\n".join(self.ids).encode()).hexdigest()

    def search(self, name: str, department: str | None, email: str | None) -> list[dict[str, str]]:
        """Active employees whose name has exactly this spelling (aliases resolved), filtered; in a stable order."""
        rows = self._db.execute(
            """
            SELECT p.person, p.name, p.name_en, p.department, p.title, p.email
            FROM aliases a JOIN people p USING(person)
            WHERE a.alias = ? AND p.active AND (? IS NULL OR p.department = ?) AND (? IS NULL OR lower(p.email) = ?)
            GROUP BY p.person ORDER BY p.person
            """,
            (alias_key(name), department, self._department(department), email, email and email.strip().lower()),
        ).fetchall()
        fields = ("emp_id", "name", "name_en", "department", "title", "email")
        return [dict(zip(fields, (self.ids[row[0]], *row[1:]), strict=True)) for row in rows]

    def person_of(self, emp_id: str) -> int | None:
        """Index of the active employee with this id, or None."""
        try:
            person = self.ids.index(emp_id)
        except ValueError:
            return None
        return person if self.company.people[person].active else None

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
        who = self.company.people[person]
        return {
            "email": who.email,
            "name": who.name.simplified,
            "name_en": who.name.pinyin,
            "emp_id": self.ids[person],
        }

    def _department(self, text: str | None) -> str | None:
        """The directory's own name of a department given in any language; unknown text is kept and finds nobody."""
        if text is None:
            return None
        return self.company.departments_by_key.get(alias_key(text), text)


def alias_key(text: str) -> str:
    """Case, spaces and middle dots do not distinguish people: " zhang  SAN" and "ZhangSan" are one key."""
    return "".join(text.casefold().replace("·", "").split())


def _below(rng: random.Random) -> Callable[[int], int]:
    """The numbers of `rng.randrange(n)`, and so the places of `rng.choice`, at a third of the cost.

    A company draws thousands of them. The algorithm is the one that CPython has had since 3.2.
    """
    bits = rng.getrandbits

    def below(most: int) -> int:
        size = most.bit_length()
        number = bits(size)
        while number >= most:
            number = bits(size)
        return number

    return below


def draw_id(rng: random.Random, split: str, taken: set[str]) -> str:
    """5 or 6 digits, or a zero-padded 4-digit one (never like a year), from the ids that belong to `split`."""
    return next(_ids(rng, split, taken))


def _ids(rng: random.Random, split: str, taken: set[str]) -> Iterator[str]:
    """What `draw_id` draws again and again, each time without those that are taken by then."""
    chance, below, wanted = rng.random, _below(rng), split == "eval"
    while True:
        shape = chance()
        if shape < 0.15:
            emp_id = f"{1 + below(999):04d}"
        elif shape < 0.75:
            emp_id = str(10_000 + below(90_000))
        else:
            emp_id = str(100_000 + below(900_000))
        if emp_id not in taken and held_out(emp_id) == wanted:
            yield emp_id


def _draw_names(rng: random.Random, size: int, split: str) -> list[Name]:
    """Names of one split, all different but for a few homonyms, as in a real directory."""
    names: list[Name] = []
    seen: set[str] = set()
    homonyms = max(1, size // 30)
    chance = rng.random
    below = _below(rng)
    while len(names) < size - homonyms:
        given = tuple(below(len(GIVEN)) for _ in range(1 if chance() < 0.35 else 2))
        surname = below(len(SURNAMES))
        key = pinyin_of(surname, given)
        if key not in seen and held_out(key) == (split == "eval"):
            seen.add(key)
            names.append(compose(surname, given))
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
    days = [[monday + timedelta(days=7 * week + day) for day in range(5)] for week in range(-4, 4)]
    chance, below = rng.random, _below(rng)
    everyone = []
    for _ in people:
        records = []
        for week in days:
            if chance() < 0.5:
                continue
            first = below(5)
            last = min(4, first + LENGTHS[below(6)])
            half_start, half_end = chance() < 0.25, chance() < 0.2 and last > first
            records.append(Leave(week[first], week[last], LEAVE_TYPES[below(3)], half_start, half_end))
        everyone.append(tuple(records))
    return tuple(everyone)
