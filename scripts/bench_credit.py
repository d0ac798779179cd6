"""Credit by trajectory against credit by turn: held-out success after as many rollouts, everything else equal.

    python -m scripts.bench_credit                                  # into runs/credit
    python -m scripts.bench_credit --seeds 0 1 2 3 4 --out docs/results

Each run starts from the embedded policy with the demo's configuration; its checkpoints are scored greedily on held-out
rows. An interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from scripts.demo import CONFIG, MODEL, PACKAGES, evaluate, log, stage, summary
from training.arguments import CREDITS

GOAL = 0.95


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="default: 0 1 2 3 4")
    parser.add_argument("--runs", type=Path, default=Path("runs/credit"), help="folder for everything that is made")
    parser.add_argument("--out", type=Path, help="also write credit.json and its plot to this folder")
    parser.add_argument("--rows", type=int, default=4000, help="rows to train on")
    parser.add_argument("--eval_rows", type=int, default=300, help="held-out rows per checkpoint")
    parser.add_argument("--max_steps", type=int, default=30, help="GRPO steps per run")
    parser.add_argument("--every", type=int, default=5, help="steps between two scored checkpoints")
    options = parser.parse_args(argv)
    for name in ("rows", "eval_rows", "max_steps", "every"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    try:
        runs = [run_once(credit, seed, options) for seed in options.seeds for credit in CREDITS]
    except subprocess.CalledProcessError as error:
        print(f"bench_credit: {' '.join(map(str, error.cmd[1:4]))} ended with status {error.returncode}; see above")
        return 2
    table = {credit: of_credit([run for run in runs if run["credit"] == credit]) for credit in CREDITS}
    for credit, numbers in table.items():
        print(f"{credit}: {json.dumps(numbers)}")
    if options.out:
        publish(runs, table, options, argv)
    return 0


def run_once(credit: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one run and score its checkpoints; returns its curve by rollouts."""
    data, folder = options.runs / f"data{seed}", options.runs / f"{credit}{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    words = ["scripts.build_data", "--out", data, "--rows", options.rows, "--eval_rows", 1, "--seed", seed]
    stage(data / "data.done", words)
    words = ["train", "--config", CONFIG, "--data", data / "train", "--output_dir", folder / "grpo", "--seed", seed]
    words += ["--credit", credit, "--max_steps", options.max_steps, "--save_steps", options.every]
    stage(folder / "grpo.done", [*words, "--save_total_limit", 1000, "--resume", "true"])
    evaluate(options.runs / "start", MODEL, options.eval_rows)
    curve = [{"rollouts": 0, "success": summary(options.runs / "start")["success"]["rate"]}]
    rollouts = json.loads((folder / "grpo" / "run.json").read_text("utf-8"))["completions_per_generation"]
    for step in range(options.every, options.max_steps + 1, options.every):
        evaluate(folder / f"at{step}", folder / "grpo" / f"checkpoint-{step}", options.eval_rows)
        success = summary(folder / f"at{step}")["success"]["rate"]
        curve.append({"rollouts": step * rollouts, "success": success})
    return {
        "credit": credit,
        "seed": seed,
        "curve": curve,
        "rollouts_to_goal": rollouts_to(GOAL, curve),
        "area": round(fmean(point["success"] for point in curve), 4),
        "training_seconds": round(sum(line.get("step_time", 0.0) for line in log(folder / "grpo")), 1),
    }


def rollouts_to(goal: float, curve: Sequence[Mapping[str, float]]) -> float | None:
    """Rollouts until `goal` is first reached, interpolated between checkpoints; None where it never is."""
    for before, after in pairwise(curve):
        if before["success"] < goal <= after["success"]:
            share = (goal - before["success"]) / (after["success"] - before["success"])
            return round(before["rollouts"] + share * (after["rollouts"] - before["rollouts"]))
    return None


def of_credit(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the seeds of one kind of credit have in common."""
    reached = [run["rollouts_to_goal"] for run in runs if run["rollouts_to_goal"] is not None]
    return {
        "runs": len(runs),
        "reached_goal": len(reached),
        "mean_rollouts_to_goal": round(fmean(reached)) if reached else None,
        "mean_area": round(fmean(run["area"] for run in runs), 4),
        "mean_final": round(fmean(run["curve"][-1]["success"] for run in runs), 4),
    }


def publish(
    runs: Sequence[Mapping[str, Any]],
    table: Mapping[str, Any],
    options: argparse.Namespace,
    argv: Sequence[str] | None,
) -> None:
    """credit.json and credit.png."""
    record = {
        "command": "python -m scripts.bench_credit " + " ".join(map(str, sys.argv[1:] if argv is None else argv)),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "written": time.strftime("%Y-%m-%d"),
        "goal": GOAL,
        "eval_rows": options.eval_rows,
        "summary": table,
        "runs": runs,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "credit.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    draw(runs, options.out / "credit.png")


def draw(runs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """One thin line per run, one thick line per kind of credit for the mean of its seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), dpi=150)
    for number, credit in enumerate(CREDITS):
        own = [run["curve"] for run in runs if run["credit"] == credit]
        rollouts = [point["rollouts"] for point in own[0]]
        for curve in own:
            axes.plot(rollouts, [point["success"] for point in curve], color=f"C{number}", linewidth=0.7, alpha=0.5)
        mean = [fmean(curve[index]["success"] for curve in own) for index in range(len(rollouts))]
        axes.plot(rollouts, mean, color=f"C{number}", linewidth=2.2, label=f"credit by {credit}")
    axes.axhline(GOAL, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="rollouts", ylabel="held-out full-task success", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
