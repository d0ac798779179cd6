"""A company's own directory, as a snapshot that rows refer to by path and SHA-256.

The snapshot is a JSON file in which everything is in order already (data.directory makes it); here it is only checked
to be the one that the rows were made from. Employee ids are not in it: they are drawn anew for each episode.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from env.domains.hr.names import ListedName
from env.domains.hr.world import Company, Leave, Person, alias_key

FORMAT = "stepcredit directory, version 1"
HELD_OUT_SHARE = 0.2


@lru_cache(maxsize=8)
def load(path: str, sha256: str, split: str) -> Company:
    """The company of a snapshot, for questions of one split. Raises ValueError where the file is not that snapshot."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"the directory {path!r} cannot be read ({error.strerror}); rows of an own directory need it where "
            "scripts.build_data wrote it, as seen from the working folder"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(f"the directory {path!r} has changed since the rows were made: SHA-256 {found}, not {sha256}")
    return company(json.loads(content), split)


def company(snapshot: Mapping[str, Any], split: str) -> Company:
    """The company that a snapshot describes. Raises ValueError for another format."""
    if snapshot.get("format") != FORMAT:
        raise ValueError(f"expected a directory of format {FORMAT!r}, got {snapshot.get('format')!r}")
    people = tuple(_person(*fields) for fields in snapshot["people"])
    leave: list[list[Leave]] = [[] for _ in people]
    for index, start, end, *rest in snapshot["leave"]:
        leave[index].append(Leave(date.fromisoformat(start), date.fromisoformat(end), *rest))
    return Company(
        split,
        people,
        snapshot["heads"],
        tuple(tuple(sorted(records, key=lambda record: record.start)) for records in leave),
        snapshot["departments"],
        snapshot["ceo"],
        asked(people, split),
    )


def dump(company: Company) -> bytes:
    """The snapshot of a company; equal companies give equal bytes."""
    snapshot = {
        "format": FORMAT,
        "people": [
            [p.name.simplified, p.name.pinyin, list(p.name.spellings[1:]), p.email, p.department, p.title, p.manager,
             p.dotted_line_manager, p.active]
            for p in company.people
        ],
        "departments": dict(company.departments),
        "heads": dict(company.heads),
        "ceo": company.ceo,
        "leave": [
            [index, r.start.isoformat(), r.end.isoformat(), r.leave_type, r.half_start, r.half_end]
            for index, records in enumerate(company.leave)
            for r in records
        ],
    }  # fmt: skip
    return (json.dumps(snapshot, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def asked(people: Sequence[Person], split: str) -> frozenset[int]:
    """Whom the questions of a split may name: a fifth is held out, by hash, and who shares a spelling goes together."""
    groups = sorted(_namesakes(people), key=lambda group: hashlib.sha256(min(group[1]).encode()).digest())
    left = math.ceil(HELD_OUT_SHARE * len(people))
    held_out: set[int] = set()
    for members, _ in groups:
        if len(held_out) < left:
            held_out |= members
    return frozenset(held_out if split == "eval" else set(range(len(people))) - held_out)


def _namesakes(people: Sequence[Person]) -> list[tuple[set[int], set[str]]]:
    """The people in groups that share no spelling with another group, each with its spellings' keys."""
    owner: dict[str, int] = {}
    groups: dict[int, tuple[set[int], set[str]]] = {}
    for index, person in enumerate(people):
        keys = {alias_key(text) for text in person.name.spellings}
        members = {index}
        for number in {owner[key] for key in keys if key in owner}:
            joined = groups.pop(number)
            members |= joined[0]
            keys |= joined[1]
        groups[index] = (members, keys)
        owner |= dict.fromkeys(keys, index)
    return list(groups.values())


def _person(
    simplified: str, pinyin: str, others: Sequence[str], email: str, department: str, title: str,
    manager: int | None, dotted: int | None, active: bool,
) -> Person:  # fmt: skip
    name = ListedName(simplified, pinyin, tuple(text for text in others if text not in (simplified, pinyin)))
    return Person(name, email, department, title, manager, dotted, active)
