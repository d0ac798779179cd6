"""Why a run learned, or did not: the groups of rollouts that had no gradient, by reason, with one example each.

    python -m scripts.explain runs/tiny_grpo
    python -m scripts.explain runs/tiny_grpo --last 20    # the last 20 steps only

Reads the run's traces; exit status 1 where no group at all had a gradient, 2 where there is nothing to read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from env.types import Trajectory
from training.signal import Member, Silence, member, silence

HELP = {
    Silence.INFRASTRUCTURE: "tools failed: look at the messages, mend them",
    Silence.TRUNCATED: "out of turns or tokens: raise max_turns, turn_tokens or max_completion_length",
    Silence.UNREADABLE: "no call could be read: SFT on the format first",
    Silence.NO_CALL: "nobody called a tool: SFT first, or a higher temperature",
    Silence.ALL_RIGHT: "learned: nothing to do, or harder rows",
    Silence.ALL_WRONG: "nobody got it right, all alike: SFT first, easier rows, or a higher temperature",
}


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one row in one block."""

    step: int
    row: str
    members: tuple[Member, ...]
    example: str  # what the first member wrote first


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="output_dir of a GRPO run")
    parser.add_argument("--last", type=int, help="only the last N steps")
    options = parser.parse_args(argv)
    if options.last is not None and options.last < 1:
        parser.error(f"--last must be at least 1, got {options.last}")
    try:
        groups = list(read_groups(options.run))
    except (OSError, KeyError, TypeError, ValueError) as error:
        print(f"explain: {options.run}: {error}", file=sys.stderr)
        return 2
    if options.last:
        groups = [group for group in groups if group.step > max(each.step for each in groups) - options.last]
    show(groups)
    return 0 if any(silence(group.members) is None for group in groups) else 1


def read_groups(run: Path) -> Iterator[Group]:
    """The groups of a run's traces, by block and row. Raises ValueError naming file and line, OSError without any."""
    files = sorted((run / "traces").glob("*.jsonl"))
    if not files:
        raise FileNotFoundError("no traces/*.jsonl in it, so this is no GRPO run")
    rollouts: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for file in files:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                trace = json.loads(line)
                rollouts[trace["block"], trace["row"]].append(trace)
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(f"{file.name}:{number}: no trace of a rollout ({error})") from error
    for (_, row), traces in sorted(rollouts.items()):
        played = [Trajectory.from_payload(trace["payload"]) for trace in traces]
        members = [_member(row, trace, each) for trace, each in zip(traces, played, strict=True)]
        text = played[0].turns[0].text if played[0].turns else ""
        yield Group(traces[0]["step"], row, tuple(members), text)


def _member(row: str, trace: dict[str, Any], trajectory: Trajectory) -> Member:
    success = bool(trace["score"] and trace["score"]["success"])
    return replace(member(row, trajectory, None), total=trace["reward"], success=success)


def show(groups: Sequence[Group]) -> None:
    """The table of reasons, most frequent first."""
    reasons = [silence(group.members) for group in groups]
    counts = Counter(reasons)
    print(f"{len(groups)} groups in {len({group.step for group in groups})} steps; {counts[None]} had a gradient")
    table = Table("without a gradient because", "groups", "steps", "example", "what helps")
    for reason, count in counts.most_common():
        if reason is None:
            continue
        own = [group for group, why in zip(groups, reasons, strict=True) if why is reason]
        example = f"step {own[-1].step}, {own[-1].row}: {own[-1].example[:80]}"
        table.add_row(reason, str(count), f"{own[0].step}-{own[-1].step}", example, HELP[reason])
    if table.row_count:
        Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
