"""Can this reward be gamed? Every plan up to a length, and a set of probes, against an oracle of their own.

    python -m scripts.audit_reward --reward grounded
    python -m scripts.audit_reward --reward seed_compat --max-length 4
    python -m scripts.audit_reward --reward my_reward.py --json audit.json
    python -m scripts.audit_reward --reward grounded seed_compat data/examples/holed_reward.py --out docs/results

Exit status 0: nothing found, 1: the reward can be gamed or punishes honest work, 2: it could not be audited.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from evaluation.audit.cheats import CHEATS, means
from evaluation.audit.probes import probe
from evaluation.audit.reward import RewardError, load
from evaluation.audit.scene import SEED, scene
from evaluation.audit.search import as_json, findings, parts, search
from rewards.named import NAMES

PLAYED = 60  # rows that each cheating player plays
BAR = 0.5  # no cheat may earn this, whatever honest work earns
SHOWN = 12  # classes of a kind on the screen; a file has them all


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--reward", nargs="+", required=True, help=f"{', '.join(NAMES)}, or a Python file with cal_reward(payload)"
    )
    parser.add_argument("--max-length", type=int, default=6, help="calls per plan at most (default: 6)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one per core")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--out", type=Path, help="also write audit.json, with versions and machine, to this folder")
    options = parser.parse_args(argv)
    for name in ("max_length", "processes"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(options, name)}")
    try:
        audits = [audit(spec, options) for spec in options.reward]
        for each in audits:
            show(each)
        if options.json:
            options.json.write_text(json.dumps(audits, indent=1, ensure_ascii=False) + "\n", "utf-8")
        if options.out:
            publish(audits, options.out, argv)
    except (RewardError, OSError, BrokenProcessPool) as error:
        print(f"audit_reward: {error or type(error).__name__}", file=sys.stderr)
        return 2
    return 1 if any(each["open"] for each in audits) else 0


def audit(spec: str, options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is found about one reward, as plain values."""
    probes = probe(scene(SEED), load(spec))  # first: a reward that cannot run at all fails here, in this process
    players = means(load(spec), PLAYED, SEED)
    paid = sorted(name for name in CHEATS if players[name] >= players["honest_start"] > 0 or players[name] >= BAR)
    started = time.monotonic()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(f"plans for {spec}", total=len(parts(options.max_length)))
        tally = search(spec, options.max_length, options.processes, lambda: bar.advance(task))
    found = findings(tally)
    return {
        "reward": spec,
        "seed": SEED,
        "max_length": options.max_length,
        "seconds": round(time.monotonic() - started, 1),
        "open": found.open or any(each.wrong for each in probes) or bool(paid),
        **as_json(found),
        "players": players,
        "players_paid": paid,
        "probes": [{"name": each.name, "score": each.score, "wrong": each.wrong} for each in probes],
    }


def show(found: Mapping[str, Any]) -> None:
    console = Console()
    bars = ", ".join(f"{name} {bar:.3f}" for name, bar in found["bars"].items() if bar is not None)
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in found["outcomes"].items())
    console.print(f"\n[bold]{found['reward']}[/]: {found['plans']:,} plans ({outcomes}); least scores: {bars}")
    for kind in dict.fromkeys(each["kind"] for each in (*found["loopholes"], *found["punished"])):
        classes = [each for each in (*found["loopholes"], *found["punished"]) if each["kind"] == kind]
        table = Table("what is wrong", "plans", "shortest", "scores", title=f"{kind}: {len(classes)} classes")
        for each in classes[:SHOWN]:
            wrong = ", ".join(each["reasons"]) or "nothing"
            table.add_row(wrong, f"{each['plans']:,}", each["example"], f"{each['score']:.3f}")
        console.print(table)
    for name, each in found["broken"].items():
        console.print(f"[red]{name}[/]: {each['plans']:,} plans, for example {each['example']}")
    for each in found["probes"]:
        if each["wrong"]:
            console.print(f"[red]probe[/] {each['name']}: {each['score']}, but {each['wrong']}")
    for name in found["players_paid"]:
        score, honest = found["players"][name], found["players"]["honest_start"]
        console.print(f"[red]player[/] {name} earns {score:.3f}; the right search and nothing else earns {honest:.3f}")
    if found["unscored"]:
        console.print(f"[red]no score[/] for {found['unscored']} plans")
    console.print("[red]can be gamed, or punishes honest work[/]" if found["open"] else "[green]nothing found[/]")


def publish(audits: Sequence[Mapping[str, Any]], folder: Path, argv: Sequence[str] | None) -> None:
    words = sys.argv[1:] if argv is None else argv
    record = {
        "command": "python -m scripts.audit_reward " + " ".join(words),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "versions": {"python": platform.python_version()},
        "written": time.strftime("%Y-%m-%d"),
        "audits": list(audits),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
