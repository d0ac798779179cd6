"""Streams rows of a scenario to disk, with a manifest that says how they came about."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from data import own as own_rows
from data.own import Own
from data.scenarios import finance, hr, hr_more, weather
from data.schema import LANGUAGES, SPLITS, Row

SCENARIOS: Mapping[str, Any] = {"hr": hr, "weather": weather, "finance": finance}
ROWS_PER_WORLD = 8
PART = 500  # rows that a process makes at a time
PARALLEL_FROM = 10_000  # rows; fewer are made before the processes have started
MOST_PROCESSES = 8
# Every kind of a domain with its share; a scenario's own SHARES are those of the default mix.
ALL_SHARES: Mapping[str, Mapping[int, float]] = {
    "hr": {**{kind: share / 2 for kind, share in hr.SHARES.items()}, **hr_more.SHARES},
    "weather": weather.SHARES,
    "finance": finance.SHARES,
}


def rows(
    split: str, count: int, seed: int, shares: Mapping[int, float] | None = None, domain: str = "hr"
) -> Iterator[Row]:
    """`count` rows of a split, both languages alike. Equal arguments give equal rows.

    shares: kind -> share of the rows; the scenario's own where it is None. Raises ValueError for an unknown domain.
    """
    for number, (kind, language) in enumerate(_mix(split, count, seed, shares, domain)):
        yield _make(domain, kind, language, split, number, seed, _worlds(count))


@dataclass(frozen=True, slots=True)
class Line:
    """A row as it is written, and what the manifest counts of it. number: from 0, its place in the file."""

    number: int
    text: bytes
    kind: int
    language: str
    depth: int

    @staticmethod
    def of(number: int, row: Row) -> Line:
        return Line(number, (row.to_json() + "\n").encode(), row.task.kind, row.task.language, row.task.depth)


def lines(split: str, count: int, seed: int, shares: Mapping[int, float] | None, domain: str) -> Iterator[Line]:
    """The same rows, those of one simulated company together; of many rows every processor makes a part.

    To simulate a company takes longer than to ask about it, and 100,000 rows have more of them than can be kept.
    """
    drawn = _mix(split, count, seed, shares, domain)
    mix = array("l", (len(LANGUAGES) * kind + LANGUAGES.index(language) for kind, language in drawn))
    numbers = array("l", range(count))
    if domain == "hr":
        company = array("l", hr.first_companies(split, count, seed, _worlds(count)))
        numbers = array("l", sorted(numbers, key=company.__getitem__))
    parts = [numbers[at : at + PART] for at in range(0, count, PART)]
    mixes = [array("l", map(mix.__getitem__, part)) for part in parts]
    work = partial(_lines_of, split, seed, domain, _worlds(count))
    if count < PARALLEL_FROM:
        yield from chain.from_iterable(map(work, parts, mixes))
        return
    # spawn, as a fork would copy the threads of a progress bar halfway. Rows make no reference cycles, and to look for
    # some takes a quarter of the time.
    with ProcessPoolExecutor(min(os.cpu_count() or 1, MOST_PROCESSES), get_context("spawn"), gc.disable) as pool:
        yield from chain.from_iterable(pool.map(work, parts, mixes))


def _lines_of(
    split: str, seed: int, domain: str, worlds: int, numbers: Sequence[int], mix: Sequence[int]
) -> list[Line]:
    """mix: kind and language of each row, as one number."""
    asked = (divmod(each, len(LANGUAGES)) for each in mix)
    return [
        Line.of(number, _make(domain, kind, LANGUAGES[language], split, number, seed, worlds))
        for number, (kind, language) in zip(numbers, asked, strict=True)
    ]


def _mix(
    split: str, count: int, seed: int, shares: Mapping[int, float] | None, domain: str
) -> Iterator[tuple[int, str]]:
    """Kind and language of each row."""
    if domain not in SCENARIOS:
        raise ValueError(f"no scenario {domain!r}; there are {', '.join(SCENARIOS)}")
    rng = random.Random(f"mix/{seed}/{split}/{count}")
    kinds, weights = zip(*(shares or SCENARIOS[domain].SHARES).items(), strict=True)
    cumulative = list(accumulate(weights))
    for _ in range(count):
        yield rng.choices(kinds, cum_weights=cumulative)[0], rng.choice(LANGUAGES)


def _make(domain: str, kind: int, language: str, split: str, number: int, seed: int, worlds: int) -> Row:
    make = hr_more.make if domain == "hr" and kind in hr_more.KINDS else SCENARIOS[domain].make_row
    row: Row = make(kind, language, split, number, seed, worlds)
    return row


def _worlds(count: int) -> int:
    return max(8, count // ROWS_PER_WORLD)


def write(
    out: Path,
    counts: Mapping[str, int],
    seed: int,
    progress: Any = iter,
    domains: Sequence[str] = ("hr",),
    kinds: Sequence[int] | None = None,
    held_out: Sequence[int] = (),
    train_shares: Mapping[int, float] | None = None,
    own: Own | None = None,
) -> dict[str, Any]:
    """Write <out>/<split>/<domain>.jsonl and <out>/manifest.json; returns the manifest.

    counts: rows by split, of each domain. progress: wraps the rows of a file. kinds: None for the default mix.
    held_out: kinds that no training row has. train_shares: of single kinds, in the training split only. own: the
    directory that all rows are about, instead of simulated companies; kinds that find nobody in it are left out and
    named in the manifest. Raises ValueError where a domain is left without a kind.
    """
    manifest: dict[str, Any] = {"format": "stepcredit rows, version 1", "seed": seed, "files": {}}
    if own is not None:
        manifest |= {"directory": {"path": own.path, "sha256": own.sha256, "people": own.people}, "left_out": {}}
    for domain in domains:
        for split in SPLITS:
            path = out / split / f"{domain}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            shares = shares_of(domain, kinds, held_out if split == "train" else ())
            if split == "train" and train_shares:
                shares |= {kind: share for kind, share in train_shares.items() if kind in shares}
            made = lines(split, counts[split], seed, shares, domain)
            if own is not None:
                shares, manifest["left_out"][split] = own_rows.possible(own, split, shares)
                if not shares:
                    raise ValueError(f"{split}: no kind finds anybody in this directory")
                own_made = own_rows.rows(own, split, counts[split], seed, shares)
                made = (Line.of(number, row) for number, row in enumerate(own_made))
            source = progress(made)
            manifest["files"][f"{split}/{domain}.jsonl"] = _write_split(path, source)
    text = json.dumps(manifest, ensure_ascii=False, indent=1) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")
    return manifest


def shares_of(domain: str, kinds: Sequence[int] | None, held_out: Sequence[int] = ()) -> dict[int, float]:
    """The shares of some kinds of a domain, the default mix for None, without those that are held out.

    Raises ValueError for a kind that the domain has not, and where none is left.
    """
    shares = SCENARIOS[domain].SHARES if kinds is None else ALL_SHARES[domain]
    unknown = sorted({*(kinds or ()), *held_out} - {kind for each in ALL_SHARES.values() for kind in each})
    if unknown:
        raise ValueError(f"no kind {unknown[0]}; there are {', '.join(map(str, ALL_SHARES[domain]))} of {domain}")
    left = {kind: share for kind, share in shares.items() if (kinds is None or kind in kinds) and kind not in held_out}
    if not left:
        raise ValueError(f"no kind of {domain} is left to make rows of")
    return left


def _write_split(path: Path, source: Iterable[Line]) -> dict[str, Any]:
    """Write lines, which come in any order, in that of their numbers."""
    digest, kinds, languages, depths = hashlib.sha256(), Counter[int](), Counter[str](), Counter[int]()
    partial = path.with_suffix(".partial")
    with TemporaryFile(dir=path.parent) as spool, partial.open("wb") as file:
        numbers, ends = array("l"), array("q", [0])
        for line in source:
            numbers.append(line.number)
            ends.append(ends[-1] + len(line.text))
            spool.write(line.text)
            kinds[line.kind] += 1
            languages[line.language] += 1
            depths[line.depth] += 1
        spool.flush()
        for at in sorted(range(len(numbers)), key=numbers.__getitem__):
            text = os.pread(spool.fileno(), ends[at + 1] - ends[at], ends[at])
            file.write(text)
            digest.update(text)
    partial.rename(path)
    return {
        "rows": sum(kinds.values()),
        "sha256": digest.hexdigest(),
        "kinds": {str(kind): kinds[kind] for kind in sorted(kinds)},
        "languages": dict(sorted(languages.items())),
        "tool_calls_needed": {str(depth): depths[depth] for depth in sorted(depths)},
    }
