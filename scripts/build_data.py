"""Build rows: queries with a reference, split so that evaluation shares no person, no id and no phrasing with training.

    python -m scripts.build_data --out runs/data --rows 4000 --seed 0

Writes <out>/train/<domain>.jsonl and <out>/eval/<domain>.jsonl for each domain, and <out>/manifest.json. Equal
arguments give equal bytes. Training on <out>/train mixes the domains; every prompt shows its own domain's tools only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from data.build import ALL_SHARES, SCENARIOS, write


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
    options = parser.parse_args(argv)
    for name in ("rows", "eval_rows"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    counts = {"train": options.rows, "eval": options.eval_rows}
    total = iter((options.rows, options.eval_rows) * len(options.domain))
    try:
        manifest = write(
            options.out,
            counts,
            options.seed,
            lambda rows: track(rows, "building", next(total)),
            options.domain,
            options.kinds,
            options.hold_out,
            options.train_shares,
        )
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"cannot write to {options.out}: {error.strerror}")
    table = Table("file", "rows", "kinds", "languages", "tool calls needed", "sha256")
    for name, facts in manifest["files"].items():
        columns = (_pairs(facts[key]) for key in ("kinds", "languages", "tool_calls_needed"))
        table.add_row(name, str(facts["rows"]), *columns, facts["sha256"][:12])
    Console().print(table)
    return 0


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
