"""The whole loop on the embedded policy: rows, evaluation, GRPO, evaluation, comparison, report.

    python -m scripts.demo                                   # seed 0, into runs/demo/seed0
    python -m scripts.demo --seeds 0 1 2 --out docs/results  # several seeds, published

Made for two CPU cores; the table says how long each seed trained. Interrupted runs go on where they stopped: finished
stages are kept, GRPO resumes from its last checkpoint.
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

CONFIG = "configs/tiny_grpo.yaml"
MODEL = "models/tiny"
EXAMPLES = "data/examples/questions.jsonl"
# More training rows of the kinds that the policy's logs mostly get wrong, fewer of those that it can do already. The
# rows of the evaluation keep the scenario's shares.
TRAIN_SHARES = "2=0.12,3=0.12,4=0.03,5=0.15,13=0.08,20=0.03,26=0.04"
PACKAGES = ("torch", "transformers", "trl", "datasets", "accelerate", "peft")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="one run per seed (default: 0)")
    parser.add_argument("--runs", type=Path, default=Path("runs/demo"), help="folder for everything that is made")
    parser.add_argument("--out", type=Path, help="also write demo.json and the learning curve to this folder")
    parser.add_argument("--rows", type=int, default=4000, help="rows to train on")
    parser.add_argument("--eval_rows", type=int, default=500, help="held-out rows to score before and after")
    parser.add_argument("--max_steps", type=int, help="GRPO steps, instead of the configuration's")
    options = parser.parse_args(argv)
    for name in ("rows", "eval_rows", "max_steps"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    results = []
    for seed in options.seeds:
        try:
            results.append(run_seed(seed, options.runs / f"seed{seed}", options))
        except subprocess.CalledProcessError as error:
            print(f"demo: {' '.join(error.cmd[1:4])} ended with status {error.returncode}; see above", file=sys.stderr)
            return 2
    show(results)
    report = options.runs / f"seed{options.seeds[0]}" / "compare" / "report.html"
    print(f"Open {report} in a browser: transcripts before and after, with what each step earned.")
    curve = draw(results, options.runs / "learning_curve.png")
    print(f"Learning curve: {curve}")
    if options.out:
        publish(results, options, argv)
    return 0


def run_seed(seed: int, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All stages of one seed; returns its figures."""
    folder.mkdir(parents=True, exist_ok=True)
    # Training rows differ by seed; the questions of the evaluation are the same for all.
    data = folder / "data"
    stage(
        folder / "data.done",
        [
            *("scripts.build_data", "--out", data, "--rows", options.rows, "--eval_rows", options.eval_rows),
            *("--seed", seed, "--train_shares", TRAIN_SHARES),
        ],
    )
    trained = folder / "grpo"
    evaluate(folder / "before", MODEL, options.eval_rows)
    evaluate(folder / "before_examples", MODEL, None)
    extra = ["--max_steps", options.max_steps] if options.max_steps else []
    command = [
        "--config",
        CONFIG,
        "--data",
        data / "train",
        "--output_dir",
        trained,
        "--seed",
        seed,
        "--resume",
        "true",
    ]
    stage(folder / "grpo.done", ["train", *command, *extra])
    evaluate(folder / "after", trained, options.eval_rows)
    evaluate(folder / "after_examples", trained, None)
    stage(
        folder / "compare.done", ["eval", "--compare", folder / "before", folder / "after", "--out", folder / "compare"]
    )
    return {
        "seed": seed,
        "training_seconds": round(sum(line.get("step_time", 0.0) for line in log(trained)), 1),
        "before": summary(folder / "before"),
        "after": summary(folder / "after"),
        "examples_before": summary(folder / "before_examples"),
        "examples_after": summary(folder / "after_examples"),
        "comparison": json.loads((folder / "compare" / "summary.json").read_text("utf-8"))["comparison"],
        "curve": curve_of(log(trained)),
        "grpo": json.loads((trained / "run.json").read_text("utf-8")),
    }


def evaluate(out: Path, model: str | Path, rows: int | None) -> None:
    """Greedy, on generated held-out rows, or on the hand-written questions where rows is None."""
    what = ["--rows", rows] if rows else ["--queries", EXAMPLES]
    stage(out.with_suffix(".done"), ["eval", "--model", model, *what, "--out", out])


def stage(done: Path, command: Sequence[object]) -> bool:
    """Run `python -m <command>` unless it has finished before with the same words; True where it ran."""
    words = [str(word) for word in command]
    if done.is_file() and done.read_text("utf-8") == json.dumps(words):
        print(f"already done: {' '.join(words[:3])} ...", file=sys.stderr)
        return False
    print(f"\n$ python -m {' '.join(words)}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", *words], check=True)
    done.write_text(json.dumps(words), "utf-8")
    return True


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))["summary"]
    return content


def log(folder: Path) -> list[dict[str, Any]]:
    """The run's own log: one object per step, also of what an earlier start of a resumed run did."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]


def curve_of(lines: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Reward and success by step."""
    return [
        {"step": line["step"], "reward": round(line["reward"], 4), "success": round(line["success"], 4)}
        for line in lines
        if "reward" in line
    ]


def show(results: Sequence[dict[str, Any]]) -> None:
    """The table that the whole thing is for."""
    table = Table("seed", "held-out success before", "after", "hand-written before", "after", "training")
    for result in results:
        table.add_row(
            str(result["seed"]),
            *(rate(result[name]) for name in ("before", "after", "examples_before", "examples_after")),
            f"{result['training_seconds'] / 60:.1f} min",
        )
    Console().print(table)


def rate(numbers: dict[str, Any]) -> str:
    success = numbers["success"]
    return f"{success['rate']:.1%} [{success['low']:.1%}, {success['high']:.1%}]"


def draw(results: Sequence[dict[str, Any]], path: Path) -> Path:
    """Success of the training rollouts by step, one line per seed, with the held-out figures at both ends."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), dpi=150)
    for number, result in enumerate(results):
        steps = [point["step"] for point in result["curve"]]
        color = f"C{number}"
        axes.plot(
            steps,
            [point["success"] for point in result["curve"]],
            color=color,
            linewidth=1.2,
            label=f"seed {result['seed']}",
        )
        ends = [result["before"]["success"]["rate"], result["after"]["success"]["rate"]]
        axes.plot([0, steps[-1]], ends, "o", color=color, markersize=5)
    axes.set(xlabel="GRPO step", ylabel="full-task success", ylim=(0, 1.02))
    axes.set_title("lines: sampled training rollouts · dots: greedy on held-out rows", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def publish(results: Sequence[dict[str, Any]], options: argparse.Namespace, argv: Sequence[str] | None) -> None:
    """demo.json with what is needed to repeat it, and the curve."""
    words = sys.argv[1:] if argv is None else argv
    record = {
        "command": "python -m scripts.demo " + " ".join(map(str, words)),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "written": time.strftime("%Y-%m-%d"),
        "policy": json.loads((Path(MODEL) / "made.json").read_text("utf-8")),
        "seeds": results,
        "example": example(options.runs / f"seed{results[0]['seed']}"),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "demo.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    draw(results, options.out / "learning_curve.png")


def example(folder: Path) -> dict[str, Any] | None:
    """The first held-out question of the source scenario (kind 1, Chinese) that training turned from wrong to right."""
    before, after = records(folder / "before"), records(folder / "after")
    for row, record in before.items():
        if record["kind"] == 1 and record["language"] == "zh" and not right(record) and right(after[row]):
            sides = {"before": record, "after": after[row]}
            return {"row": row, "query": record["payload"]["input"]} | {
                side: {"score": each["score"]["total"], "turns": turns(each)} for side, each in sides.items()
            }
    return None


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The episodes of one evaluation by row id."""
    lines = (folder / "records.jsonl").read_text("utf-8").splitlines()
    return {record["row"]: record for record in map(json.loads, lines)}


def right(record: dict[str, Any]) -> bool:
    return record["score"] is not None and bool(record["score"]["success"])


def turns(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What was written and what came back, turn by turn, with what the turn earned."""
    steps = record["payload"]["trajectory"]["steps"]
    return [
        {
            "text": step["output"],
            "earned": round(record["score"]["increments"][step["turn"]], 3),
            "results": [each["output"] for each in steps if each["type"] == "tool" and each["turn"] == step["turn"]],
        }
        for step in steps
        if step["type"] == "llm"
    ]


if __name__ == "__main__":
    sys.exit(main())
