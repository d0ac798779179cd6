"""Look into a set of rows: what is in it, how long its episodes are for a model, and some examples.

    python -m scripts.inspect_data runs/data
    python -m scripts.inspect_data runs/data/train --model models/tiny --json runs/data.json

Lengths are those of the oracle's episodes in tokens of the model, rendered as in training: the budgets of a run
(max_prompt_length, max_completion_length) have to hold them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Column, Table

from data import profile
from data.reader import read_rows
from data.schema import ROW_IDS, Row

MOST_TEMPLATES = 8  # shown; --json has all
MEASURED = ("prompt", "completion", "longest turn", "episode")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="JSONL file, or folder with *.jsonl below it")
    parser.add_argument("--model", metavar="DIR", help="whose tokens to count")
    parser.add_argument("--examples", type=int, default=10, help="rows to show (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="which rows to show")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts and examples there too")
    options = parser.parse_args(argv)
    if options.examples < 0:
        parser.error(f"--examples must not be negative, got {options.examples}")
    try:
        rows = read_rows(options.data)
        found = report(rows, options.model, options.examples, options.seed)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
    except (ValueError, OSError) as error:
        print(f"inspect_data: {error}", file=sys.stderr)
        return 2
    _show(Console(), found)
    return 0


def report(rows: Sequence[Row], model: str | None, examples: int, seed: int) -> dict[str, Any]:
    """Everything that is shown, as JSON. tokens: None without a model."""
    return {
        "rows": len(rows),
        "counts": profile.counts(rows),
        "tokens": None if model is None else {"model": model, **lengths(rows, model)},
        "examples": [
            {"id": row.task.id, "kind": row.task.kind, "input": row.input, "reference_output": row.reference_output}
            for row in profile.sample(rows, examples, seed)
        ],
    }


def lengths(rows: Sequence[Row], model: str) -> dict[str, dict[str, int]]:
    """p50, p95 and max of MEASURED, in tokens. Raises ValueError for a model that cannot be loaded."""
    from training.models import load_chat
    from training.sft import transcript

    chat = load_chat(model)
    made = [transcript(row, chat, ROW_IDS) for row in track(rows, "measuring")]
    measured = [(each.prompt_tokens, each.completion_tokens, each.longest_turn, len(each.input_ids)) for each in made]
    return {name: _spread(values) for name, values in zip(MEASURED, zip(*measured, strict=True), strict=True)}


def _spread(values: Sequence[int]) -> dict[str, int]:
    return {"p50": profile.percentile(values, 0.5), "p95": profile.percentile(values, 0.95), "max": max(values)}


def _show(console: Console, found: Mapping[str, Any]) -> None:
    counts = found["counts"]
    tables = [_counted(part, counts[part].items()) for part in profile.PARTS if part != "template"]
    console.print(f"{found['rows']} rows, {len(counts['template'])} templates")
    console.print(Columns([*tables, _counted("template", _ends(counts["template"]))]))
    if found["tokens"]:
        console.print(_tokens(found["tokens"]))
    table = Table("id", "kind", Column("question", overflow="fold"), Column("reference", overflow="fold"))
    for row in found["examples"]:
        table.add_row(row["id"], str(row["kind"]), escape(row["input"]), escape(row["reference_output"]))
    console.print(table)


def _counted(part: str, items: Any) -> Table:
    table = Table(part, "rows")
    for key, count in items:
        table.add_row(key, str(count))
    return table


def _ends(templates: Mapping[str, int]) -> Iterator[tuple[str, int | str]]:
    """The most frequent templates and the rarest ones."""
    ranked = sorted(templates.items(), key=lambda item: (-item[1], item[0]))
    half = MOST_TEMPLATES // 2
    yield from ranked[:half]
    if len(ranked) > 2 * half:
        yield "…", "…"
    yield from ranked[max(half, len(ranked) - half) :]


def _tokens(tokens: Mapping[str, Any]) -> Table:
    table = Table("tokens", "p50", "p95", "max", title=f"the oracle's episode for {tokens['model']}")
    for name in MEASURED:
        table.add_row(name, *(str(tokens[name][key]) for key in ("p50", "p95", "max")))
    return table


if __name__ == "__main__":
    sys.exit(main())
