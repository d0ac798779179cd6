"""One training result per second domain: the embedded policy, warm-started and trained on its rows, on held-out ones.

    python -m scripts.bench_domains --out docs/results     # writes domains.json

The policy has never seen these tools, so SFT on oracle transcripts comes first; GRPO follows. Finished stages are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.demo import MODEL, PACKAGES, log, rate, stage, summary

DOMAINS = ("weather", "finance")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/domains"), help="folder for everything that is made")
    parser.add_argument("--out", type=Path, help="also write domains.json to this folder")
    parser.add_argument("--rows", type=int, default=2000, help="rows to train on, per domain")
    parser.add_argument("--eval_rows", type=int, default=500, help="held-out rows, per domain")
    parser.add_argument("--sft_steps", type=int, default=300)
    parser.add_argument("--grpo_steps", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    for name in ("rows", "eval_rows", "sft_steps", "grpo_steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    try:
        results = {name: run_domain(name, options.runs / name, options) for name in DOMAINS}
    except subprocess.CalledProcessError as error:
        print(f"bench_domains: {' '.join(error.cmd[1:4])} ended with status {error.returncode}", file=sys.stderr)
        return 2
    table = Table("domain", "held-out success before", "after SFT", "after GRPO")
    for name, result in results.items():
        table.add_row(name, *(rate(result[side]) for side in ("before", "sft", "grpo")))
    Console().print(table)
    if options.out:
        publish(results, options, sys.argv[1:] if argv is None else argv)
    return 0


def run_domain(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Rows, evaluation, SFT, evaluation, GRPO, evaluation."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    counts = ["--rows", options.rows, "--eval_rows", options.eval_rows, "--seed", options.seed]
    stage(folder / "data.done", ["scripts.build_data", "--out", data, "--domain", name, *counts])
    evaluate(folder / "before", MODEL, data)
    shared = ["--data", data / "train", "--seed", options.seed, "--resume", "true"]
    sft = ["--config", "configs/tiny_sft.yaml", "--transcripts", "oracle", "--max_steps", options.sft_steps]
    sft += [
        "--learning_rate",
        "1e-3",
        "--save_strategy",
        "steps",
        "--save_steps",
        "100",
        "--output_dir",
        folder / "sft",
    ]
    stage(folder / "sft.done", ["train", *sft, *shared])
    evaluate(folder / "after_sft", folder / "sft", data)
    grpo = ["--config", "configs/tiny_grpo.yaml", "--model", folder / "sft", "--output_dir", folder / "grpo"]
    stage(folder / "grpo.done", ["train", *grpo, "--max_steps", options.grpo_steps, "--save_steps", "5", *shared])
    evaluate(folder / "after_grpo", folder / "grpo", data)
    sides = {"before": "before", "sft": "after_sft", "grpo": "after_grpo"}
    seconds = sum(line.get("step_time", 0.0) for line in log(folder / "grpo"))
    return {
        **{side: summary(folder / made) for side, made in sides.items()},
        "grpo_seconds": round(seconds, 1),
    }


def evaluate(out: Path, model: str | Path, data: Path) -> None:
    """Greedy, on the domain's held-out rows."""
    stage(out.with_suffix(".done"), ["eval", "--model", model, "--data", data, "--out", out])


def publish(results: dict[str, Any], options: argparse.Namespace, words: Sequence[str]) -> None:
    """domains.json with what is needed to repeat it."""
    record = {
        "command": "python -m scripts.bench_domains " + " ".join(map(str, words)),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "written": time.strftime("%Y-%m-%d"),
        "seed": options.seed,
        "sft_steps": options.sft_steps,
        "grpo_steps": options.grpo_steps,
        "domains": results,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "domains.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
