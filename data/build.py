"""Streams rows of a scenario to disk, with a manifest that says how they came about."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from data.scenarios import hr
from data.schema import LANGUAGES, SPLITS, Row


def rows(split: str, count: int, seed: int, shares: Mapping[int, float] = hr.SHARES) -> Iterator[Row]:
    """`count` rows of a split, kinds in the given shares, both languages alike. Equal arguments give equal rows."""
    rng = random.Random(f"mix/{seed}/{split}/{count}")
    companies = max(8, count // hr.ROWS_PER_COMPANY)
    kinds, weights = list(shares), list(shares.values())
    for number in range(count):
        kind = rng.choices(kinds, weights)[0]
        yield hr.make_row(kind, rng.choice(LANGUAGES), split, number, seed, companies)


def write(out: Path, counts: Mapping[str, int], seed: int, progress: Any = iter) -> dict[str, Any]:
    """Write <out>/<split>/hr.jsonl and <out>/manifest.json; returns the manifest. progress: wraps the rows."""
    manifest: dict[str, Any] = {"format": "stepcredit rows, version 1", "seed": seed, "files": {}}
    for split in SPLITS:
        path = out / split / "hr.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        manifest["files"][f"{split}/hr.jsonl"] = _write_split(path, progress(rows(split, counts[split], seed)))
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
