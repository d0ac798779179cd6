"""One training run from its arguments to its last checkpoint; what `train.py` calls."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import yaml
from datasets import Dataset
from transformers import ProgressCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, SFTConfig, SFTTrainer, TrlParser

from data.reader import read_rows
from data.schema import ALL_TOOLS, Row
from env.domains import domain
from env.faults import FaultPlan
from rewards.named import source_hash
from rewards.rubric import Rubric, RubricError
from rewards.sandbox import SandboxError
from training.arguments import RunArguments
from training.chat import ChatFormat, TemplateError
from training.models import ModelError, load_chat, load_model, quiet
from training.preflight import (
    Batches,
    PreflightError,
    check_batches,
    check_budgets,
    check_rows,
    check_save_steps,
    check_tools,
)
from training.rollout import Budget
from training.scorers import scorer
from training.sft import batched_by_length, transcripts
from training.signal import Silence
from training.trainer import (
    ReadableLog,
    Rollouts,
    StepCreditTrainer,
    TooManyFailures,
    forget_after,
    reward,
)

PACKAGES = ("torch", "transformers", "trl", "datasets", "accelerate", "peft")


class RunError(Exception):
    """A run that cannot go on; the message is one line for the user."""


def run(argv: Sequence[str]) -> int:
    """Returns the exit status. Raises RunError for anything that the user can mend."""
    quiet()
    try:
        ours, args = parse(argv)
        rows = read_rows(Path(ours.data), skip_bad=ours.skip_bad)
        chat = load_chat(ours.model)
        preflight(ours, args, rows, chat)
    except (ValueError, OSError, RubricError, TemplateError, ModelError, PreflightError, yaml.YAMLError) as error:
        raise RunError(_one_line(error)) from error
    if ours.dry_run:
        print(json.dumps(resolved(ours, args, rows), indent=1, ensure_ascii=False, default=str))
        return 0
    checkpoint = _checkpoint(ours, args)
    try:
        trainer = (sft_trainer if ours.stage == "sft" else grpo_trainer)(ours, args, rows, chat)
    except SandboxError as error:
        raise RunError(_one_line(error)) from error
    _write_run_file(ours, args, rows, checkpoint)
    started = time.monotonic()
    with ExitStack() as stack:
        if trainer.is_world_process_zero():
            _observe(ours, stack)
            if ours.tool_summary:
                print(_tool_summary(rows), file=sys.stderr)
        try:
            trainer.train(resume_from_checkpoint=checkpoint)
        except TooManyFailures as error:
            raise RunError(str(error)) from error
    trainer.save_model(args.output_dir)
    if trainer.is_world_process_zero():
        chat.tokenizer.save_pretrained(args.output_dir)
        seconds = time.monotonic() - started
        print(f"{ours.stage}: {trainer.state.global_step} steps in {seconds:.0f} s -> {args.output_dir}")
    return 0


def _observe(ours: RunArguments, stack: ExitStack) -> None:
    """Metrics and traces, where they are asked for; `stack` stops them."""
    for name, ask in (("metrics_port", ours.metrics_port), ("otlp", ours.otlp)):
        if ask:
            stack.callback(_watcher(name, ask))


def _watcher(name: str, ask: Any) -> Callable[[], None]:
    """Returns what stops it."""
    try:
        from env.telemetry import export_traces, serve_metrics

        return serve_metrics(ask) if name == "metrics_port" else export_traces(ask)
    except (ImportError, OSError, ValueError) as error:
        raise RunError(f"{name} {ask}: {_one_line(error)}") from error


def _tool_summary(rows: Sequence[Row]) -> str:
    """The tools of the rows' domains."""
    return "\n".join(domain(name).registry().summary() for name in sorted({row.task.domain for row in rows}))


def parse(argv: Sequence[str]) -> tuple[RunArguments, Any]:
    """Our arguments and TRL's for the stage. The stage has to be known before the rest can be parsed."""
    values = _peek(argv)
    stage = values.get("stage", "grpo")
    if stage == "grpo":
        check_batches(_batches(values))
    parser = _Parser((RunArguments, SFTConfig if stage == "sft" else GRPOConfig), allow_abbrev=False)
    ours, args = parser.parse_args_and_config(list(argv))
    return ours, args


class _Parser(TrlParser):
    """Says what is wrong in one line; the stock one prints the names of some hundred arguments first."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see --help")


def preflight(ours: RunArguments, args: Any, rows: Sequence[Row], chat: ChatFormat) -> None:
    """Everything that can be known to fail before the weights load."""
    check_tools(rows, ours.surface)
    if ours.stage == "sft":
        return
    if ours.credit == "turn" and args.importance_sampling_level != "token":
        raise PreflightError(
            "credit turn needs importance_sampling_level token: a ratio per sequence would average the turns out, "
            f"got {args.importance_sampling_level}"
        )
    if ours.faults:
        FaultPlan.load(ours.faults)
    for row in rows:
        Rubric.from_dict(row.task.rubric, row.reference_output)
    batches = Batches(
        args.per_device_train_batch_size,
        args.world_size,
        args.gradient_accumulation_steps,
        args.steps_per_generation,
        args.num_generations,
        args.num_iterations,
    )
    check_batches(batches)
    check_rows(rows, batches)
    if args.save_strategy == "steps":
        check_save_steps(args.save_steps, batches)
    check_budgets(rows, chat, ours.max_turns, ours.turn_tokens, args.max_completion_length, ours.surface)


def sft_trainer(ours: RunArguments, args: SFTConfig, rows: Sequence[Row], chat: ChatFormat) -> SFTTrainer:
    """Loss on the assistant's tokens of oracle transcripts."""
    made = transcripts(rows, chat, args.seed, ours.transcripts_per_row, ours.transcripts, ours.surface)
    if args.train_sampling_strategy == "sequential":
        order = batched_by_length([len(each.input_ids) for each in made], args.train_batch_size, args.seed)
        made = [made[index] for index in order]
    dataset = Dataset.from_list([{"input_ids": each.input_ids, "labels": each.labels} for each in made])
    trainer = SFTTrainer(
        model=load_model(ours.model), args=args, train_dataset=dataset, processing_class=chat.tokenizer
    )
    _readable(trainer, args)
    return trainer


def grpo_trainer(ours: RunArguments, args: GRPOConfig, rows: Sequence[Row], chat: ChatFormat) -> StepCreditTrainer:
    """GRPO on our rollouts. The prompt column holds row ids: see training.trainer."""
    traces = Path(args.output_dir) / "traces"
    traces.mkdir(parents=True, exist_ok=True)
    rollouts = Rollouts(
        rows,
        chat,
        scorer(ours.reward),
        max_turns=ours.max_turns,
        budget=Budget(ours.turn_tokens, args.max_completion_length),
        max_infrastructure_share=ours.max_infrastructure_share,
        traces=traces,
        faults=FaultPlan.load(ours.faults) if ours.faults else None,
        surface=ours.surface,
    )
    trainer = StepCreditTrainer(
        model=load_model(ours.model),
        reward_funcs=[reward],
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [row.task.id for row in rows]}),
        processing_class=chat.tokenizer,
        rollout_func=rollouts,
    )
    trainer.bucket_by_length = ours.bucket_by_length
    trainer.turn_weight = ours.turn_weight if ours.credit == "turn" else None
    _readable(trainer, args, lambda: trainer.silent)
    return trainer


def resolved(ours: RunArguments, args: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """What a run will do, as data: arguments, sizes, versions, machine."""
    facts: dict[str, Any] = {
        "stage": ours.stage,
        "model": ours.model,
        "data": ours.data,
        "rows": len(rows),
        "output_dir": args.output_dir,
        "seed": args.seed,
        "max_steps": args.max_steps,
        "learning_rate": args.learning_rate,
        "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "processes": args.world_size,
    }
    if ours.stage == "grpo":
        completions = args.per_device_train_batch_size * args.world_size * args.steps_per_generation
        facts |= {
            "reward": ours.reward,
            "reward_sha256": source_hash(ours.reward),
            "credit": ours.credit,
            "completions_per_generation": completions,
            "prompts_per_generation": completions // args.num_generations,
            "temperature": args.temperature,
            "max_completion_length": args.max_completion_length,
            "turn_tokens": ours.turn_tokens,
            "max_turns": ours.max_turns,
        }
    if ours.surface != ALL_TOOLS:
        facts |= {"tools": ours.tools, "tools_top_k": ours.tools_top_k, "plan_tool": ours.plan_tool}
    return facts


def _write_run_file(ours: RunArguments, args: Any, rows: Sequence[Row], checkpoint: str | None) -> None:
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    if args.process_index == 0:
        facts = resolved(ours, args, rows) | {"resumed_from": checkpoint}
        (folder / "run.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False, default=str) + "\n", "utf-8")


def _checkpoint(ours: RunArguments, args: Any) -> str | None:
    """The checkpoint to go on from; a fresh run does not overwrite one that has any."""
    folder = Path(args.output_dir)
    last = get_last_checkpoint(str(folder)) if folder.is_dir() else None
    if last and not ours.resume:
        raise RunError(f"{folder} already holds {Path(last).name}; add --resume true or choose another --output_dir")
    if last:
        forget_after(folder, int(Path(last).name.rpartition("-")[2]))
    elif ours.resume and args.process_index == 0:
        print(f"{folder} holds no checkpoint yet: starting from the beginning", file=sys.stderr)
    if not last and args.process_index == 0:
        shutil.rmtree(folder / "traces", ignore_errors=True)
        (folder / "log.jsonl").unlink(missing_ok=True)
    return last


def _readable(trainer: Any, args: Any, silent: Callable[[], Mapping[Silence, str]] = dict) -> None:
    """A progress bar and our line per step in place of the dict that the stock callback prints."""
    trainer.remove_callback(ProgressCallback)
    bar = _Bar()
    trainer.add_callback(bar)
    trainer.add_callback(ReadableLog(Path(args.output_dir) / "log.jsonl", bar.write, silent))


class _Bar(ProgressCallback):
    """The stock bar without its printing of logs."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        return

    def write(self, line: str) -> None:
        if self.training_bar is not None:
            self.training_bar.write(line)
        else:
            print(line)


def _peek(argv: Sequence[str]) -> dict[str, Any]:
    """The values of the configuration file and of `--name value` pairs, before anything is checked."""
    pairs = {name.removeprefix("--"): value for name, value in pairwise(argv) if name[:2] == "--"}
    pairs |= dict(part.removeprefix("--").split("=", 1) for part in argv if part[:2] == "--" and "=" in part)
    values: dict[str, Any] = {}
    if "config" in pairs:
        loaded = yaml.safe_load(Path(pairs["config"]).read_text("utf-8"))
        if not isinstance(loaded, dict):
            raise ValueError(f"{pairs['config']}: expected a flat mapping of argument names to values")
        values = loaded
    return values | pairs


def _batches(values: dict[str, Any]) -> Batches:
    accumulation = int(values.get("gradient_accumulation_steps", 1))
    return Batches(
        per_device=int(values.get("per_device_train_batch_size", 8)),
        processes=int(os.environ.get("WORLD_SIZE", "1")),
        accumulation=accumulation,
        steps_per_generation=int(values.get("steps_per_generation", accumulation)),
        generations=int(values.get("num_generations", 8)),
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
