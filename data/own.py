"""Rows about a company's own directory: whose people may be asked about in a split, and which kinds find somebody.

Questions are put at moments when somebody was on leave, as far as the directory has leave. A kind for which nobody is
suitable is left out with its reason; nothing is made up for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from zoneinfo import ZoneInfo

from data.scenarios import hr, hr_more
from data.scenarios.hr import Case
from data.schema import LANGUAGES, SPLITS, Row
from env.domains.hr import directory
from env.domains.hr.world import Company, Leave

FILE = "directory.json"
TRIES = 300  # situations of a kind that are drawn before it counts as impossible
REASONS = {
    1: "nobody to ask about has a manager with an e-mail address",
    2: "nobody to ask about has a manager",
    3: "nobody to ask about",
    6: "nobody to ask about has a manager",
    7: "no two people of one name in different departments",
    8: "no two people of one name in different departments, with a manager",
    9: "no two people of one name in different departments, with addresses and a manager",
    12: "nobody with a second spelling of the name and a manager",
    13: "nobody was on leave",
    15: "nobody was on sick leave",
    20: "no one person at the top whom this split may ask about by a name of their own",
    21: "nobody whose manager has a manager",
    22: "nobody whose manager and the next one up have e-mail addresses",
    23: "nobody whose manager is not the head of the department",
    24: "no two people with different days of leave in one week",
    25: "no two people with different managers",
    30: "nobody who has left",
}


@dataclass(frozen=True)
class Own:
    """A directory that rows refer to. path: where its snapshot lies, as rows say it. companies: by split.

    accept: whether a row that was made can be used; names and words of a real directory may hit a reward's patterns.
    """

    path: str
    sha256: str
    companies: Mapping[str, Company]
    accept: Callable[[Row], bool]

    @cached_property
    def leave(self) -> tuple[Leave, ...]:
        return tuple(record for records in self.companies["train"].leave for record in records)

    @property
    def people(self) -> int:
        return len(self.companies["train"].people)


def save(company: Company, out: Path, accept: Callable[[Row], bool]) -> Own:
    """Write the snapshot to <out>/directory.json."""
    content = directory.dump(company)
    out.mkdir(parents=True, exist_ok=True)
    (out / FILE).write_bytes(content)
    path, digest = (out / FILE).as_posix(), sha256(content).hexdigest()
    return Own(path, digest, {split: directory.load(path, digest, split) for split in SPLITS}, accept)


def draw_case(own: Own, rng: random.Random, language: str, split: str) -> Case:
    """A moment at or soon after somebody's leave, or any where the directory has none."""
    zone = rng.choice(hr.TIMEZONES)
    day = _day(own.leave, rng)
    now = datetime(day.year, day.month, day.day, rng.randrange(8, 19), tzinfo=ZoneInfo(zone)).isoformat()
    spec = {"directory": own.path, "sha256": own.sha256, "seed": rng.randrange(2**31), "split": split}
    return Case(own.companies[split], spec, now, zone, language, rng)


def _day(leave: tuple[Leave, ...], rng: random.Random) -> date:
    if not leave:
        return date(2025, 1, 6) + timedelta(days=rng.randrange(900))
    record = rng.choice(leave)
    length = (record.end - record.start).days + 1
    return record.start + timedelta(days=rng.randrange(length + rng.choice((0, 7, 30))))


def possible(own: Own, split: str, kinds: Mapping[int, float]) -> tuple[dict[int, float], dict[int, str]]:
    """The shares of the kinds that find somebody, and why each of the others does not."""
    missing = {}
    for kind in kinds:
        drawn = partial(_attempt, own, kind, split, 0, 0, random.Random(f"possible/{split}/{kind}"))
        if not any(drawn(LANGUAGES[number % 2]) for number in range(TRIES)):
            missing[kind] = REASONS.get(kind, "nobody to ask about")
    return {kind: share for kind, share in kinds.items() if kind not in missing}, missing


def rows(own: Own, split: str, count: int, seed: int, shares: Mapping[int, float]) -> Iterator[Row]:
    """`count` rows of a split, of kinds that `possible` has found. Equal arguments give equal rows.

    Raises ValueError where a kind found somebody once and then nobody any more.
    """
    mix = random.Random(f"mix/{seed}/{split}/{count}")
    kinds, weights = zip(*shares.items(), strict=True)
    for number in range(count):
        kind, language = mix.choices(kinds, weights)[0], mix.choice(LANGUAGES)
        rng = random.Random(f"row/{seed}/{split}/{number}")
        made = (_attempt(own, kind, split, number, seed, rng, language) for _ in range(10 * TRIES))
        row = next(filter(None, made), None)
        if row is None:
            raise ValueError(f"kind {kind} finds somebody too seldom in this directory; leave it out with --kinds")
        yield row


def _attempt(own: Own, kind: int, split: str, number: int, seed: int, rng: random.Random, language: str) -> Row | None:
    case = draw_case(own, rng, language, split)
    make = hr_more.make_row if kind in hr_more.KINDS else hr.make_of
    row = make(kind, case, number, seed)
    return row if row is not None and own.accept(row) else None
