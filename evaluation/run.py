"""One evaluation and its folder: records.jsonl while it runs, then summary.json and report.html.

summary.json is written before the first episode, too, with what the run was asked for: a resumed run must ask the same.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from data.build import rows as build_rows
from data.reader import read_rows
from data.schema import Row
from env.episode import ABANDONED
from evaluation import samples, stats
from evaluation.calling import calling
from evaluation.players import Item, Played
from evaluation.record import Key, Record, RecordError, Writer, read_records, rewrite
from evaluation.report import write_report
from evaluation.scoring import record_of, rubric_of
from evaluation.stats import summary

ROWS_SEED = 0  # of generated rows, whatever --seed says: runs with different seeds then answer the same questions
DEFAULT_ROWS = 500
RECORDS, SUMMARY, REPORT = "records.jsonl", "summary.json", "report.html"

Episodes = Iterable[Played]


class Refused(Exception):
    """What was asked for cannot be done; the message is one line for whoever asked."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What has to be equal for two invocations to be one evaluation. player: a policy, a model's folder or its name.

    The fields that have defaults are younger than some runs: they are written down only where they say anything else.
    """

    player: str
    rows: str
    count: int
    seed: int
    temperature: float
    max_turns: int
    faults: str = ""  # file of the faults that the tools were given
    surface: str = ""  # which tools were offered, "" for all
    samples: int = 1  # episodes a row
    endpoint: str = ""  # address of the server that has the model
    max_tokens: int | None = None  # of one turn, where an endpoint was told

    def to_dict(self) -> dict[str, Any]:
        young = ("surface", "samples", "endpoint", "max_tokens")
        plain = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if name not in young or value != plain[name]}


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


def check_model_folder(path: Path) -> None:
    """Refuse what cannot be a model before anything slow is imported."""
    if not path.is_dir():
        raise Refused(f"--model {path}: no such folder")
    if not (path / "config.json").is_file():
        raise Refused(f"--model {path}: no config.json in it, so this is no model folder")


def once_loaded(model: Path, start: Callable[[], Episodes]) -> Iterator[Played]:
    """The episodes of `start()`. What goes wrong up to the first one, while the model loads, is the folder's fault."""
    try:
        source = iter(start())
        first = next(source, None)
    except (OSError, ValueError) as error:
        where = "" if str(model) in str(error) else f" {model}:"
        raise Refused(f"--model{where} {error}") from error
    return iter(()) if first is None else chain([first], source)


def name_of_model(model: str) -> str:
    """Of a folder its name, with its parent's where it is one checkpoint of many."""
    parts = Path(model).absolute().parts
    return "-".join(parts[-2:]) if parts[-1].startswith("checkpoint") else parts[-1]


def prepare(out: Path, rows: Sequence[Row], settings: Settings, resume: bool) -> list[Item]:
    """Make the folder ready and return what is still to be played. Without `resume`, everything: records in the
    folder are replaced. Raises Refused where the folder holds an evaluation of something else.
    """
    items = [(row, sample) for row in rows for sample in range(settings.samples)]
    if resume:
        done = _done(out, rows, settings)
        return [(row, sample) for row, sample in items if (row.task.id, sample) not in done]
    _make_folder(out)
    (out / RECORDS).write_bytes(b"")
    _write_summary(out, {"finished": False, "settings": settings.to_dict()})
    return items


def record_all(out: Path, episodes: Episodes, on_record: Callable[[Record], None]) -> None:
    """Score and append every episode as it comes."""
    with Writer(out / RECORDS) as writer:
        for played in episodes:
            record = record_of(played.row, played.trajectory, played.sampled_tokens, played.sample)
            writer.append(record)
            on_record(record)


def finish(out: Path, rows: Sequence[Row], settings: Settings, command: str, wall_seconds: float) -> dict[str, Any]:
    """Write summary.json and report.html from the records; returns the summary. wall_seconds: of this invocation."""
    place = {row.task.id: number for number, row in enumerate(rows)}
    # Episodes played side by side end in any order, which is no property of the run.
    records = sorted(load_records(out), key=lambda record: (place[record.row], record.sample))
    numbers = summary(records)
    numbers["calling"] = calling(records, {row.task.id: rubric_of(row, row.reference_output) for row in rows})
    if settings.samples > 1:
        numbers["passes"] = samples.passes(records, {row.task.id: samples.person_of(row) for row in rows})
    content = {"finished": True, "settings": settings.to_dict(), "command": command}
    content |= {"wall_seconds": round(wall_seconds, 2), "written": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    _write_summary(out, content | {"machine": machine(), "summary": numbers})
    write_report(out / REPORT, settings.player, [(settings.player, numbers, records)], None)
    return numbers


def compare_folders(before: Path, after: Path, out: Path) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]:
    """Compare two evaluations (folders or records files); writes report.html and summary.json to `out`.

    Returns both summaries with their labels, and the comparison. Raises Refused.
    """
    records = [load_records(before), load_records(after)]
    several = any(samples.samples_of(part) > 1 for part in records)
    try:
        comparison = (samples.compare if several else stats.compare)(*records)
    except ValueError as error:
        raise Refused(f"{before} and {after} cannot be compared: {error}") from error
    labels = _labels(before, after)
    runs = [(label, summary(part), part) for label, part in zip(labels, records, strict=True)]
    _make_folder(out)
    _write_summary(out, {"before": str(before), "after": str(after), "comparison": comparison})
    write_report(out / REPORT, f"{labels[0]} → {labels[1]}", runs, comparison)
    return [(label, numbers) for label, numbers, _ in runs], comparison


def load_records(path: Path) -> list[Record]:
    """Of an evaluation's folder or a records file. Raises Refused."""
    try:
        return read_records(path / RECORDS if path.is_dir() else path)
    except (OSError, RecordError) as error:
        raise Refused(str(error)) from error


def machine() -> dict[str, Any]:
    """What the numbers were made with: versions of the libraries in use, platform, CPUs."""
    used = [name for name in ("torch", "transformers", "trl") if name in sys.modules]
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in used}},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def _done(out: Path, rows: Sequence[Row], settings: Settings) -> set[Key]:
    """What the folder holds of this evaluation. Episodes whose player was lost are taken out, to be played again."""
    if not (out / SUMMARY).is_file():
        raise Refused(f"--resume: no evaluation in {out}, there is no {SUMMARY}")
    asked, asking = asdict(_settings_in(out)), asdict(settings)
    for name in asking:
        if asked[name] != asking[name]:
            raise Refused(f"--resume: {out} was started with {name} {asked[name]!r}, not {asking[name]!r}")
    queries = {row.task.id: row.input for row in rows}
    records = load_records(out)
    if any(queries.get(record.row) != record.query for record in records):
        raise Refused(f"--resume: {out / RECORDS} holds other rows than these")
    kept = [record for record in records if ABANDONED not in record.payload["trajectory"]["meta"]]
    if len(kept) < len(records):
        rewrite(out / RECORDS, kept)
    return {record.key for record in kept}


def _settings_in(out: Path) -> Settings:
    try:
        return Settings(**json.loads((out / SUMMARY).read_text(encoding="utf-8"))["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"--resume: {out / SUMMARY} cannot be used: {error!r}") from error


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--out {out}: {error.strerror}") from error
    if not os.access(out, os.W_OK):
        raise Refused(f"--out {out}: not writable")


def _labels(before: Path, after: Path) -> tuple[str, str]:
    """The last parts of the paths, or the whole ones where these are equal."""
    if before.name == after.name:
        return str(before), str(after)
    return before.name, after.name


def _write_summary(out: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (out / SUMMARY).write_text(text + "\n", encoding="utf-8")
