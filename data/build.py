"""Streams rows of a scenario to disk, with a manifest that says how they came about."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from data import own as own_rows
from data.own import Own
from data.scenarios import finance, hr, hr_more, weather
from data.schema import LANGUAGES, SPLITS, Row

SCENARIOS: Mapping[str, Any] = {"hr": hr, "weather": weather, "finance": finance}
ROWS_PER_WORLD = 8
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
    if domain not in SCENARIOS:
        raise ValueError(f"no scenario {domain!r}; there are {', '.join(SCENARIOS)}")
    scenario = SCENARIOS[domain]
    rng = random.Random(f"mix/{seed}/{split}/{count}")
    worlds = max(8, count // ROWS_PER_WORLD)
    kinds, weights = zip(*(shares or scenario.SHARES).items(), strict=True)
    for number in range(count):
        kind = rng.choices(kinds, weights)[0]
        make = hr_more.make if domain == "hr" and kind in hr_more.KINDS else scenario.make_row
        yield make(kind, rng.choice(LANGUAGES), split, number, seed, worlds)


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
            made = rows(split, counts[split], seed, shares, domain)
            if own is not None:
                shares, manifest["left_out"][split] = own_rows.possible(own, split, shares)
                if not shares:
                    raise ValueError(f"{split}: no kind finds anybody in this directory")
                made = own_rows.rows(own, split, counts[split], seed, shares)
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


def _write_split(path: Path, source: Iterable[Row]) -> dict[str, Any]:
    digest, kinds, languages, depths = hashlib.sha256(), Counter[int](), Counter[str](), Counter[int]()
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        for row in source:
            line = (row.to_json() + "\n").encode()
            file.write(line)
            digest.update(line)
            kinds[row.task.kind] += 1
            languages[row.task.language] += 1
            depths[row.task.depth] += 1
    partial.rename(path)
    return {
        "rows": sum(kinds.values()),
        "sha256": digest.hexdigest(),
        "kinds": {str(kind): kinds[kind] for kind in sorted(kinds)},
        "languages": dict(sorted(languages.items())),
        "tool_calls_needed": {str(depth): depths[depth] for depth in sorted(depths)},
    }
