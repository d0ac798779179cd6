"""Prove that a set of rows is sound: the oracle scores 1.0 and the silent policy 0.0 on every row, and nothing leaks.

    python -m scripts.check_data runs/data

Also checked: no person, id, phrasing or query is in both splits, and no reference stands in its own query (but for
ids that the user gives). Exit status 1 with the offending rows otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.progress import track

from data.checks import leaks
from data.reader import read_rows
from data.schema import Row
from evaluation.players import Oracle, Player, Silent, play
from evaluation.scoring import rubric_of
from rewards import grounded
from rewards.score import Score


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="JSONL file, or folder with *.jsonl below it")
    parser.add_argument("--show", type=int, default=10, help="problems to print at most (default: 10)")
    options = parser.parse_args(argv)
    try:
        rows = read_rows(options.data)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    problems = [*unsound(rows), *leaks(rows)]
    for problem in problems[: options.show]:
        print(problem, file=sys.stderr)
    print(
        f"{len(rows)} rows: oracle 1.0 and silent 0.0 on each, no leak" if not problems else f"{len(problems)} problems"
    )
    return 1 if problems else 0


def unsound(rows: Sequence[Row]) -> Iterator[str]:
    """Rows on which the oracle is not perfect or silence earns something, with fresh employee ids and the row's own."""
    for row in track(rows, "scoring"):
        yield from faults(row)


def faults(row: Row) -> Iterator[str]:
    """What keeps a single row from being sound."""
    for ids in ("row", "fresh"):
        perfect = _score(row, Oracle(), ids)
        if perfect is None or perfect.total != 1.0:
            yield f"{row.task.id}: the oracle scores {perfect.total if perfect else None} with ids {ids!r}"
    silent = _score(row, Silent(), "row")
    if silent is None or silent.total != 0.0:
        yield f"{row.task.id}: silence scores {silent.total if silent else None}"


def _score(row: Row, player: Player, ids: str) -> Score | None:
    trajectory = play(row, player, ids=ids)
    return grounded.score(trajectory, rubric_of(row, trajectory.reference_output))


if __name__ == "__main__":
    sys.exit(main())
