"""Score stored trajectories again: with the same reward nothing may change, with another one see what would.

    python -m scripts.rescore runs/tiny_grpo                         # by the reward of the run
    python -m scripts.rescore runs/tiny_grpo --reward seed_compat    # or my_reward.py
    python -m scripts.rescore runs/eval/tiny --reward grounded

Takes the output_dir of a GRPO run or the folder of an evaluation. Exit status 0: all the same, 1: some differ, 2: there
is nothing to score.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from data.schema import Row
from env.types import Trajectory
from evaluation.audit.reward import RewardError, load
from evaluation.record import RecordError
from evaluation.run import RECORDS, SUMMARY, Refused, load_records, select_rows
from rewards.named import source_hash

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored episode: where it stands, what it scored then, its payload and its rubric."""

    where: str
    score: float | None
    payload: Mapping[str, Any]
    rubric: Mapping[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="output_dir of a GRPO run, or the folder of an evaluation")
    parser.add_argument("--reward", help="grounded, seed_compat or a Python file (default: the run's own)")
    options = parser.parse_args(argv)
    try:
        name = options.reward or reward_of(options.run)
        reward, stored = load(name), list(episodes(options.run))
        if older(options.run, name):
            print(f"{name} has another source now than when {options.run} was made", file=sys.stderr)
    except (OSError, KeyError, TypeError, ValueError, RewardError, RecordError, Refused) as error:
        print(f"rescore: {options.run}: {error}", file=sys.stderr)
        return 2
    scored = [
        (each, reward(Trajectory.from_payload(dict(each.payload)).to_payload(), each.rubric))
        for each in track(stored, f"by {name}", console=Console(stderr=True))
    ]
    changed = [(each, after) for each, after in scored if each.score != after]
    print(f"{len(scored)} episodes by {name}: {len(scored) - len(changed)} score the same, {len(changed)} do not")
    show(changed)
    return 1 if changed else 0


def reward_of(run: Path) -> str:
    """The reward that a training run names; evaluations are scored by `grounded`."""
    file = run / "run.json"
    return str(json.loads(file.read_text("utf-8"))["reward"]) if file.is_file() else "grounded"


def older(run: Path, name: str) -> bool:
    """Whether a training run was made by this reward, and by another source of it than today's."""
    file = run / "run.json"
    facts = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return facts.get("reward") == name and facts.get("reward_sha256") not in (None, source_hash(name))


def episodes(run: Path) -> Iterator[Stored]:
    """Of a run's traces, or of an evaluation's records. Raises FileNotFoundError where there are neither."""
    traces = sorted((run / "traces").glob("*.jsonl"))
    if traces:
        for file in traces:
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                trace = json.loads(line)
                yield Stored(f"{file.name}:{number}", trace["reward"], trace["payload"], trace["rubric"])
    elif (run / RECORDS).is_file():
        settings = json.loads((run / SUMMARY).read_text("utf-8"))["settings"]
        rubrics = {row.task.id: row.task.rubric for row in rows_of(settings)}
        for record in load_records(run):
            score = record.score["total"] if record.score else None
            yield Stored(record.row, score, record.payload, rubrics[record.row])
    else:
        raise FileNotFoundError(f"neither traces/*.jsonl nor {RECORDS} in it")


def rows_of(settings: Mapping[str, Any]) -> list[Row]:
    source = Path(settings["rows"])
    return select_rows(source if source.exists() else None, settings["count"])


def show(changed: Sequence[tuple[Stored, float | None]]) -> None:
    """The largest differences first."""
    if not changed:
        return
    ordered = sorted(changed, key=lambda each: -abs((each[0].score or 0.0) - (each[1] or 0.0)))
    table = Table("episode", "then", "now", "what was asked")
    for each, after in ordered[:SHOWN]:
        table.add_row(each.where, _number(each.score), _number(after), str(each.payload.get("input", ""))[:70])
    Console().print(table)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
