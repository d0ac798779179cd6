"""One evaluation and its folder: records.jsonl while it runs, then summary.json and report.html.

summary.json is written before the first episode, too, with what the run was asked for: a resumed run must ask the same.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from data.build import rows as build_rows
from data.reader import read_rows
from data.schema import Row
from env.types import Trajectory
from evaluation.players import MAX_TURNS, Player, play
from evaluation.record import Record, RecordError, Writer, read_records
from evaluation.report import write_report
from evaluation.scoring import record_of
from evaluation.stats import compare, summary

ROWS_SEED = 0  # of generated rows, whatever --seed says: runs with different seeds then answer the same questions
DEFAULT_ROWS = 500
RECORDS, SUMMARY, REPORT = "records.jsonl", "summary.json", "report.html"

Episodes = Iterable[tuple[Row, Trajectory, int]]  # row, its finished episode, tokens that the model sampled


class Refused(Exception):
    """What was asked for cannot be done; the message is one line for whoever asked."""


def select_rows(source: Path | None, count: int | None) -> list[Row]:
    """The rows to play: generated ones of the evaluation split without a source, otherwise the first `count` of it.

    A folder with an `eval` folder in it (what build_data writes) stands for that: its training rows are not held out.
    """
    if count is not None and count < 1:
        raise Refused(f"--rows must be at least 1, got {count}")
    if source is None:
        return list(build_rows("eval", count or DEFAULT_ROWS, ROWS_SEED))
    held_out = source / "eval"
    try:
        rows = read_rows(held_out if held_out.is_dir() else source)
    except (OSError, ValueError) as error:
        raise Refused(str(error)) from error
    if count is not None and count > len(rows):
        raise Refused(f"--rows {count}, but {source} has only {len(rows)}")
    return rows[:count]


def prepare(out: Path, rows: Sequence[Row], settings: Mapping[str, Any], resume: bool) -> list[Row]:
    """Make the folder ready and return the rows that are still to be played. Without `resume`, all: records in the
    folder are replaced. Raises Refused where the folder holds an evaluation of something else.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--out {out}: {error.strerror}") from error
    if not resume:
        (out / RECORDS).write_bytes(b"")
        _write_summary(out, {"finished": False, "settings": settings})
        return list(rows)
    if not (out / SUMMARY).is_file():
        raise Refused(f"nothing to resume in {out}: no {SUMMARY}")
    asked = load_summary(out).get("settings", {})
    for name in settings:
        if asked.get(name) != settings[name]:
            raise Refused(f"{out} was started with {name} {asked.get(name)!r}, not {settings[name]!r}; choose another --out")
    done = {record.row: record for record in load_records(out)}
    changed = [row.task.id for row in rows if row.task.id in done and done[row.task.id].query != row.input]
    if changed or done.keys() - {row.task.id for row in rows}:
        raise Refused(f"{out / RECORDS} holds other rows than these; choose another --out")
    return [row for row in rows if row.task.id not in done]


def scripted(rows: Sequence[Row], player: Player) -> Episodes:
    """The episodes of a player without a model."""
    return ((row, play(row, player), 0) for row in rows)


def record_all(out: Path, episodes: Episodes, on_record: Callable[[Record], None]) -> None:
    """Score and append every episode as it comes."""
    with Writer(out / RECORDS) as writer:
        for row, trajectory, sampled_tokens in episodes:
            record = record_of(row, trajectory, sampled_tokens)
            writer.append(record)
            on_record(record)


def finish(out: Path, label: str, settings: Mapping[str, Any], command: str, wall_seconds: float) -> dict[str, Any]:
    """Write summary.json and report.html from the records; returns the summary."""
    records = load_records(out)
    numbers = summary(records)
    _write_summary(
        out,
        {
            "finished": True,
            "settings": settings,
            "command": command,
            "wall_seconds": round(wall_seconds, 2),
            "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "machine": machine(),
            "summary": numbers,
        },
    )
    write_report(out / REPORT, f"{label}: evaluation", [(label, numbers, records)], None)
    return numbers


def compare_folders(before: Path, after: Path, out: Path) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]:
    """Compare two evaluations and write out/report.html and out/summary.json. Returns both summaries, labelled, and the
    comparison.
    """
    records = [load_records(before), load_records(after)]
    try:
        comparison = compare(*records)
    except ValueError as error:
        raise Refused(f"{before} and {after} cannot be compared: {error}") from error
    labels = _labels(before, after)
    runs = [(label, summary(part), part) for label, part in zip(labels, records, strict=True)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--out {out}: {error.strerror}") from error
    _write_summary(out, {"before": str(before), "after": str(after), "comparison": comparison})
    write_report(out / REPORT, f"{labels[0]} → {labels[1]}", runs, comparison)
    return [(label, numbers) for label, numbers, _ in runs], comparison


def load_records(path: Path) -> list[Record]:
    """Of an evaluation's folder or a records file. Raises Refused."""
    file = path / RECORDS if path.is_dir() else path
    try:
        return read_records(file)
    except (OSError, RecordError) as error:
        raise Refused(str(error)) from error


def load_summary(out: Path) -> dict[str, Any]:
    """The content of an evaluation's summary.json. Raises Refused."""
    try:
        value = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"{out / SUMMARY}: {error}") from error
    if not isinstance(value, dict):
        raise Refused(f"{out / SUMMARY}: expected an object, got {type(value).__name__}")
    return value


def machine() -> dict[str, Any]:
    """What the numbers were made with: versions of the libraries in use, platform, CPUs."""
    used = [name for name in ("torch", "transformers", "trl") if name in sys.modules]
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in used}},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def default_settings(player: str, rows: str, count: int, seed: int, temperature: float) -> dict[str, Any]:
    """What has to be equal for two invocations to be one evaluation."""
    return {
        "player": player,
        "rows": rows,
        "count": count,
        "seed": seed,
        "temperature": temperature,
        "max_turns": MAX_TURNS,
    }


def _labels(before: Path, after: Path) -> tuple[str, str]:
    """The folders' names, or as much of the paths as tells them apart."""
    names = [path.parent.name if path.name == RECORDS else path.stem if path.is_file() else path.name for path in (before, after)]
    return (names[0], names[1]) if names[0] != names[1] else (str(before), str(after))


def _write_summary(out: Path, content: Mapping[str, Any]) -> None:
    (out / SUMMARY).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
