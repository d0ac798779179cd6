"""Write a set for supervised fine-tuning, as chats of `messages` and `tools` for TRL or any OpenAI-compatible trainer.

    python -m scripts.export_sft --data runs/data --out runs/sft.jsonl
    python -m scripts.export_sft --data runs/data --out runs/sft.jsonl --traces runs/eval/policy

From the oracle, one chat for each training row with employee ids of its own; and with --traces from what a policy did
(rejection sampling): the episodes of eval.py's folders that succeeded, on rows of --data, each different one once.
Examples with rare tools are repeated (data.balance), the oracle's with other ids. A tool of the catalogue that no
example calls is an error. The table of tools is printed before anything is written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from data import balance
from data.conversations import NoConversation, of_oracle, of_rollout
from data.reader import read_rows
from data.schema import Row
from env.domains import domain
from env.types import Trajectory
from evaluation.record import Record, read_records
from evaluation.run import RECORDS


class Refused(ValueError):
    """Nothing is written; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Example:
    """One episode to learn from. trajectory: None where the oracle plays it."""

    row: Row
    tools: Set[str]
    trajectory: Trajectory | None = None

    @property
    def source(self) -> str:
        return "oracle" if self.trajectory is None else "rollout"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="training rows, or a folder with `train` in it")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSONL file to write")
    parser.add_argument("--traces", type=Path, nargs="+", default=[], metavar="DIR", help="folders of eval.py")
    parser.add_argument("--seed", type=int, default=0, help="of employee ids and of what is repeated")
    options = parser.parse_args(argv)
    console = Console()
    try:
        rows = training_rows(options.data)
        examples = [Example(row, {step["tool"] for step in row.task.rubric["steps"]}) for row in rows]
        for folder in options.traces:
            kept, dropped = good_rollouts(folder, rows)
            examples += kept
            console.print(f"{folder}: {len(kept)} episodes kept{''.join(f', {n} {why}' for why, n in dropped.items())}")
        copies = balance.copies([example.tools for example in examples], options.seed)
        _print_tools(console, examples, copies)
        if missing := balance.missing((example.tools for example in examples), catalogue(rows)):
            raise Refused(f"no example calls {', '.join(missing)}; add rows whose task needs it")
        _write(options.out, examples, copies, options.seed)
    except (ValueError, OSError) as error:
        print(f"export_sft: {error}", file=sys.stderr)
        return 2
    console.print(f"{sum(copies)} chats -> {options.out}")
    return 0


def training_rows(path: Path) -> list[Row]:
    """Raises Refused for rows that are held out: what a model has seen in training measures nothing."""
    rows = read_rows(path / "train" if (path / "train").is_dir() else path)
    held_out = next((row for row in rows if row.task.split != "train"), None)
    if held_out is not None:
        raise Refused(f"{path}: {held_out.task.id} is of the split {held_out.task.split!r}, and held out from training")
    return rows


def catalogue(rows: Sequence[Row]) -> set[str]:
    """Every tool that the rows' prompts declare, but for those that only undo another one: plans call them."""
    registries = [domain(name).registry() for name in {row.task.domain for row in rows}]
    contracts = [registry.contract(name) for registry in registries for name in registry.names]
    return {contract.name for contract in contracts} - {contract.compensate for contract in contracts}


def good_rollouts(folder: Path, rows: Sequence[Row]) -> tuple[list[Example], Counter[str]]:
    """The episodes of a record folder that succeeded, each different one once; how many were dropped, by reason.

    Raises Refused for a record that belongs to none of the rows.
    """
    by_id = {row.task.id: row for row in rows}
    path = folder / RECORDS if folder.is_dir() else folder
    kept: dict[str, Example] = {}
    dropped = Counter[str]()
    for record in read_records(path):
        row = by_id.get(record.row)
        if row is None or row.input != record.query:
            raise Refused(f"{path}: {record.row} ({record.split}) is none of the training rows in --data")
        made, why = _rollout(row, record)
        if made is None:
            dropped[why] += 1
        elif (said := json.dumps([record.row, *(turn.text for turn in made.turns)])) in kept:
            dropped["repeated"] += 1
        else:
            kept[said] = Example(row, {step.name for step in made.steps if step.result.ok}, made)
    return list(kept.values()), dropped


def _rollout(row: Row, record: Record) -> tuple[Trajectory | None, str]:
    """The trajectory, None and why where it is not one to learn from."""
    if not record.success:
        return None, "without success"
    trajectory = Trajectory.from_payload(record.payload)
    try:
        of_rollout(row, trajectory)
    except NoConversation:
        return None, "with a call that could not be read"
    return trajectory, ""


def chats(examples: Sequence[Example], copies: Sequence[int], seed: int) -> Iterator[dict[str, Any]]:
    for example, count in zip(examples, copies, strict=True):
        for copy in range(count):
            yield {
                **_chat(example, f"sft/{seed}/{example.row.task.id}/{copy}"),
                "row": example.row.task.id,
                "source": example.source,
            }


def _chat(example: Example, ids: str) -> dict[str, Any]:
    if example.trajectory is None:
        return of_oracle(example.row, ids)
    return of_rollout(example.row, example.trajectory)


def _write(out: Path, examples: Sequence[Example], copies: Sequence[int], seed: int) -> None:
    """Whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(out.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        for chat in track(chats(examples, copies, seed), "writing", sum(copies)):
            file.write(json.dumps(chat, ensure_ascii=False, separators=(",", ":")) + "\n")
    partial.rename(out)


def _print_tools(console: Console, examples: Sequence[Example], copies: Sequence[int]) -> None:
    """Examples by tool and source, and chats after the repetitions."""
    by_source: Mapping[str, Counter[str]] = {
        source: balance.counts(example.tools for example in examples if example.source == source)
        for source in ("oracle", "rollout")
    }
    chats = Counter[str]()
    for example, count in zip(examples, copies, strict=True):
        chats.update(dict.fromkeys(example.tools or {"(none)"}, count))
    table = Table(
        "tool", "of the oracle", "of rollouts", "chats", title=f"{len(examples)} examples, {sum(copies)} chats"
    )
    for tool in sorted({*catalogue([example.row for example in examples]), *chats}):
        table.add_row(tool, str(by_source["oracle"][tool]), str(by_source["rollout"][tool]), str(chats[tool]))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
