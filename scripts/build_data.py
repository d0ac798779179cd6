"""Build rows: queries with a reference, split so that evaluation shares no person, no id and no phrasing with training.

    python -m scripts.build_data --out runs/data --rows 4000 --seed 0

    python -m scripts.build_data --people people.csv --leave leave.csv --out runs/own --rows 2000

Writes <out>/train/<domain>.jsonl and <out>/eval/<domain>.jsonl for each domain, and <out>/manifest.json. Equal
arguments give equal bytes. Training on <out>/train mixes the domains; every prompt shows its own domain's tools only.

With --people the questions are about a real directory (docs/own_data.md). What is odd in its files is printed, written
to <out>/problems.csv and handled by the rules of data.directory. The rows refer to <out>/directory.json, as seen from
the working folder; it has to stay where and as it is.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from data import directory
from data.build import ALL_SHARES, SCENARIOS, write
from data.own import Own, save
from data.schema import Row
from data.table import Problem
from scripts.check_data import faults

SHOWN = 20  # problems on the screen


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--rows", type=int, default=4000, help="rows to train on (default: 4000)")
    parser.add_argument("--eval_rows", type=int, default=500, help="held-out rows (default: 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--domain", nargs="+", choices=SCENARIOS, default=["hr"], help="one or more (default: hr)")
    parser.add_argument("--kinds", type=_kinds, metavar="LIST", help="all, or numbers and ranges such as 1-6,10,21")
    parser.add_argument("--hold_out", type=_kinds, default=[], metavar="LIST", help="kinds for the eval split only")
    parser.add_argument(
        "--train_shares",
        type=_shares,
        metavar="LIST",
        help="shares of kinds in the training rows, such as 5=0.15,4=0.03; the others keep theirs",
    )
    parser.add_argument("--people", type=Path, metavar="FILE", help="own directory: CSV, JSON or SQLite")
    parser.add_argument("--leave", type=Path, metavar="FILE", help="its leave records (default: in the same database)")
    parser.add_argument("--columns", type=Path, metavar="YAML", help="which of their columns holds what")
    parser.add_argument("--strict", action="store_true", help="refuse a directory in which anything is odd")
    options = parser.parse_args(argv)
    if options.people is None and (options.leave or options.columns or options.strict):
        parser.error("--leave, --columns and --strict need --people")
    if options.people is not None and options.domain != ["hr"]:
        parser.error("--people goes with --domain hr only")
    for name in ("rows", "eval_rows"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    counts = {"train": options.rows, "eval": options.eval_rows}
    console = Console()
    total = iter((options.rows, options.eval_rows) * len(options.domain))
    try:
        own, refused = _own(options, console)
        manifest = write(
            options.out,
            counts,
            options.seed,
            lambda rows: track(rows, "building", next(total)),
            options.domain,
            options.kinds,
            options.hold_out,
            options.train_shares,
            own,
        )
    except FileNotFoundError as error:
        parser.error(str(error))
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"cannot write to {options.out}: {error.strerror}")
    table = Table("file", "rows", "kinds", "languages", "tool calls needed", "sha256")
    for name, facts in manifest["files"].items():
        columns = (_pairs(facts[key]) for key in ("kinds", "languages", "tool_calls_needed"))
        table.add_row(name, str(facts["rows"]), *columns, facts["sha256"][:12])
    console.print(table)
    _print_left_out(console, manifest, refused)
    return 0


def _own(options: argparse.Namespace, console: Console) -> tuple[Own | None, list[Row]]:
    """The directory that was asked for, None for simulated companies, and a list that rows of no use go to."""
    refused: list[Row] = []
    if options.people is None:
        return None, refused
    imported = directory.read(options.people, options.leave, options.columns)
    _print_problems(console, imported.problems)
    if options.strict and imported.problems:
        raise ValueError(f"--strict: {len(imported.problems)} problems in the directory, nothing was written")
    options.out.mkdir(parents=True, exist_ok=True)
    _write_problems(options.out / "problems.csv", imported.problems)

    def accept(row: Row) -> bool:
        sound = next(faults(row), None) is None
        if not sound:
            refused.append(row)
        return sound

    return save(imported.company, options.out, accept), refused


def _print_problems(console: Console, problems: Sequence[Problem]) -> None:
    if not problems:
        return
    table = Table("file", "row", "column", "problem", "what was done", title=f"{len(problems)} problems")
    for each in problems[:SHOWN]:
        table.add_row(Path(each.file).name, str(each.row), each.column, escape(each.reason), each.done)
    console.print(table)
    if len(problems) > SHOWN:
        console.print(f"and {len(problems) - SHOWN} more, in problems.csv")


def _write_problems(path: Path, problems: Sequence[Problem]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("file", "row", "column", "problem", "done"))
        writer.writerows(astuple(problem) for problem in problems)


def _print_left_out(console: Console, manifest: Mapping[str, Any], refused: Sequence[Row]) -> None:
    if left_out := {split: kinds for split, kinds in manifest.get("left_out", {}).items() if kinds}:
        table = Table("split", "kind", "why", title="kinds without rows")
        for split, kinds in left_out.items():
            for kind, reason in kinds.items():
                table.add_row(split, str(kind), reason)
        console.print(table)
    if refused:
        console.print(
            f"{len(refused)} drawn questions were not used, as the answer that the directory gives is not read as one, "
            f"for example: {escape(refused[0].input)}"
        )


def _kinds(text: str) -> list[int]:
    """The kinds of a list such as 1-6,10,21; those of all domains for "all"."""
    if text == "all":
        return [kind for shares in ALL_SHARES.values() for kind in shares]
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise argparse.ArgumentTypeError(f"expected numbers and ranges such as 1-6,10 or all, got {text!r}")
        asked = range(int(low), int(high if dash else low) + 1)
        found += [kind for shares in ALL_SHARES.values() for kind in shares if kind in asked] if dash else [int(low)]
    return found


def _shares(text: str) -> dict[int, float]:
    """Kind -> share, of a list such as 5=0.15,4=0.03."""
    found: dict[int, float] = {}
    for part in text.split(","):
        kind, _, share = part.partition("=")
        try:
            found[int(kind)] = float(share)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected kind=share, such as 5=0.15, got {part!r}") from None
        if not 0 < found[int(kind)] < 1000:
            raise argparse.ArgumentTypeError(f"expected a share above 0, got {part!r}")
    return found


def _pairs(counts: dict[str, int]) -> str:
    return " ".join(f"{key}:{count}" for key, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
