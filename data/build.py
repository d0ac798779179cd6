"""Streams rows of a scenario to disk, with a manifest that says how they came about."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from data.scenarios import finance, hr, weather
from data.schema import LANGUAGES, SPLITS, Row

SCENARIOS: Mapping[str, Any] = {"hr": hr, "weather": weather, "finance": finance}
ROWS_PER_WORLD = 8


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
        yield scenario.make_row(kind, rng.choice(LANGUAGES), split, number, seed, worlds)


def write(
    out: Path, counts: Mapping[str, int], seed: int, progress: Any = iter, domains: Sequence[str] = ("hr",)
) -> dict[str, Any]:
    """Write <out>/<split>/<domain>.jsonl and <out>/manifest.json; returns the manifest.

    counts: rows by split, of each domain. progress: wraps the rows of a file.
    """
    manifest: dict[str, Any] = {"format": "stepcredit rows, version 1", "seed": seed, "files": {}}
    for domain in domains:
        for split in SPLITS:
            path = out / split / f"{domain}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            source = progress(rows(split, counts[split], seed, domain=domain))
            manifest["files"][f"{split}/{domain}.jsonl"] = _write_split(path, source)
    text = json.dumps(manifest, ensure_ascii=False, indent=1) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")
    return manifest


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
