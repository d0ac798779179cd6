"""GRPO through TRL with our rollouts: a thin subclass, a rollout function and a reward that reads finished scores.

TRL sees a row id as the prompt (a string, so that it parses nothing), tokens with a mask, and one number per episode.
Where its hooks have edges, the reason stands beside the line that deals with it.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from torch.utils.data import Sampler
from transformers import TrainerCallback
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation
from trl.trainer.utils import RepeatSampler, nanstd

from data.schema import ALL_TOOLS, Row
from env.faults import FaultPlan
from env.surface import Surface
from env.types import StopReason
from rewards.score import Score
from training.buckets import bucketed
from training.chat import ChatFormat
from training.credit import Earnings, turn_advantages
from training.rollout import Budget, Rollout, Sampling, roll_out
from training.scorers import Scorer
from training.shared_prompts import with_shared_prompts
from training.signal import Member, Silence, member, silence


class TooManyFailures(RuntimeError):
    """More episodes than allowed ended for reasons that are not the model's."""


class Rollouts:
    """The `rollout_func` of GRPOTrainer: row ids in, tokens, masks and scores out; one JSON line per episode."""

    def __init__(
        self,
        rows: Sequence[Row],
        chat: ChatFormat,
        scorer: Scorer,
        *,
        max_turns: int,
        budget: Budget,
        max_infrastructure_share: float,
        traces: Path,
        faults: FaultPlan | None = None,
        surface: Surface = ALL_TOOLS,
    ):
        self._rows = {row.task.id: row for row in rows}
        self._chat = chat
        self._scorer = scorer
        self._max_turns = max_turns
        self._budget = budget
        self._max_infrastructure_share = max_infrastructure_share
        self._traces = traces
        self._faults = faults
        self._surface = surface

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """prompts: this process's row ids, repeated per generation. Rows with a failure of ours get an empty mask."""
        training = trainer.model.training
        rows = [self._rows[prompt] for prompt in prompts]
        group = trainer.num_generations if training else trainer.num_generations_eval
        first = trainer.accelerator.process_index * len(prompts)
        # Groups may straddle processes: the place in the group follows from the place in the whole batch.
        places = [(first + index) % group for index in range(len(prompts))]
        block = _block(trainer) if training else -1
        seed = trainer.args.seed
        episodes = [
            row.open(f"{seed}/{block}/{row.task.id}/{place}", self._max_turns, self._faults, self._surface)
            for row, place in zip(rows, places, strict=True)
        ]
        seeds = [
            (seed, block + 1, zlib.crc32(row.task.id.encode()), place) for row, place in zip(rows, places, strict=True)
        ]
        sampling = Sampling(trainer.temperature, trainer.top_p, trainer.top_k)
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model:
            rollouts = roll_out(model, self._chat, episodes, seeds, sampling, self._budget)
        scores = [self._scorer(row, rollout.trajectory) for row, rollout in zip(rows, rollouts, strict=True)]
        self._trace(trainer, rows, places, rollouts, scores, block)
        self._check_failures(rollouts, scores)
        return {
            "prompt_ids": [rollout.prompt_ids for rollout in rollouts],
            "completion_ids": [rollout.completion_ids for rollout in rollouts],
            "logprobs": [rollout.logprobs for rollout in rollouts],
            # A row without a reward still counts in denominators and entropy unless nothing of it is trained on.
            "env_mask": [
                rollout.mask if score is not None else [0] * len(rollout.mask)
                for rollout, score in zip(rollouts, scores, strict=True)
            ],
            "score": scores,
            "rollout": rollouts,
        }

    def _check_failures(self, rollouts: Sequence[Rollout], scores: Sequence[Score | None]) -> None:
        failed = [rollout.trajectory for rollout, score in zip(rollouts, scores, strict=True) if score is None]
        if len(failed) <= self._max_infrastructure_share * len(rollouts):
            return
        causes = Counter(
            step.result.message for trajectory in failed for step in trajectory.steps if not step.result.ok
        )
        most = causes.most_common(1)[0][0] if causes else "the reward gave no score"
        raise TooManyFailures(
            f"{len(failed)} of {len(rollouts)} episodes have no reward, more than max_infrastructure_share "
            f"{self._max_infrastructure_share}; most often: {most}"
        )

    def _trace(
        self,
        trainer: GRPOTrainer,
        rows: Sequence[Row],
        places: Sequence[int],
        rollouts: Sequence[Rollout],
        scores: Sequence[Score | None],
        block: int,
    ) -> None:
        """Append one line per episode; JSONL of our own, since TRL's table of completions cannot hold mixed types."""
        lines = [
            json.dumps(
                {
                    "step": trainer.state.global_step,
                    "block": block,
                    "row": row.task.id,
                    "rollout": place,
                    "reward": score.total if score is not None else None,
                    "score": asdict(score) if score is not None else None,
                    "sampled_tokens": sum(rollout.mask),
                    "rubric": row.task.rubric,
                    "payload": rollout.trajectory.to_payload(),
                },
                ensure_ascii=False,
            )
            for row, place, rollout, score in zip(rows, places, rollouts, scores, strict=True)
        ]
        path = self._traces / f"rank{trainer.accelerator.process_index}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def reward(
    prompts: list[str],
    completions: list[str],
    score: list[Score | None],
    rollout: list[Rollout],
    log_metric: Callable[..., None],
    **_: Any,
) -> list[float | None]:
    """The totals that the rollouts were given; None where there is no reward. Logs shares and parts by name."""
    trajectories = [each.trajectory for each in rollout]
    known = [each for each in score if each is not None]
    log_metric("no_reward", 1 - len(known) / len(score))
    log_metric("truncated", fmean(trajectory.stop.truncated for trajectory in trajectories))
    log_metric("turns", fmean(len(trajectory.turns) for trajectory in trajectories))
    calls = [step for trajectory in trajectories for step in trajectory.steps]
    log_metric("tool_errors", fmean(not step.result.ok for step in calls) if calls else 0.0)
    log_metric("answered", fmean(trajectory.stop is StopReason.ANSWERED for trajectory in trajectories))
    if known:
        log_metric("success", fmean(each.success for each in known))
        log_metric("violations", fmean(bool(each.violations) for each in known))
        for part in ("steps", "answer", "waste"):
            log_metric(f"part/{part}", fmean(each.parts.get(part, 0.0) for each in known))
    return [each.total if each is not None else None for each in score]


class StepCreditTrainer(GRPOTrainer):
    """GRPOTrainer with a sampler that survives a resume in any epoch, and micro-batches without needless padding."""

    bucket_by_length = True
    turn_weight: float | None = None  # None leaves TRL's advantages untouched
    silent: Mapping[Silence, str] = {}  # of the last block: reason -> a row whose group taught nothing
    _buffered_inputs: Any
    _bucketed: Any = None

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        if not self.bucket_by_length or not self.model.training:
            return inputs
        if self._buffered_inputs is not self._bucketed:  # super() has made a new block
            self._buffered_inputs = bucketed(
                self._buffered_inputs, self.args.gradient_accumulation_steps, drop_silent=self._silent_rows_are_free
            )
            self._bucketed = self._buffered_inputs
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    @property
    def _silent_rows_are_free(self) -> bool:
        """Whether a row of zero advantage changes neither gradient nor scale: no KL, no share of rows or of entropy."""
        return self.beta == 0 and self.loss_type in ("dapo", "cispo") and self.top_entropy_quantile == 1

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any, Any]:
        """TRL's, with each prompt fed once where several rows have it. Equal up to rounding, gradients included."""
        asked = {key for key, value in kwargs.items() if value is not None and value is not False}
        if self._prompts_can_be_shared and not args and asked <= {"compute_entropy"}:
            with self.accelerator.autocast():
                outputs = with_shared_prompts(model, input_ids, attention_mask, logits_to_keep)
            return outputs.log_probs, outputs.entropy if asked else None, None
        result: tuple[Any, Any, Any] = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )
        return result

    @property
    def _prompts_can_be_shared(self) -> bool:
        """One process, for DDP expects one forward pass per backward; a cache, which checkpointing rules out."""
        return self.accelerator.num_processes == 1 and not self.args.gradient_checkpointing

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's, with (rows, tokens) advantages in place of (rows,) where credit goes to turns."""
        output = super()._generate_and_score_completions(inputs)
        group = self.num_generations if self.model.training else self.num_generations_eval
        self._note_silence(inputs, group)
        if self.turn_weight is None:
            return output
        scores: list[Score | None] = gather_object([row["score"] for row in inputs])
        earnings = [Earnings(score.increments, score.earned) if score else None for score in scores]
        groups = [earnings[start : start + group] for start in range(0, len(earnings), group)]
        by_turn = [each for members in groups for each in turn_advantages(members)]
        scale = self._reward_scale([score.total if score else float("nan") for score in scores], group)
        first = self.accelerator.process_index * len(inputs)
        whole = output["advantages"]
        advantages = whole.new_zeros(output["completion_ids"].shape)
        for row, turns in enumerate(each["rollout"].turns for each in inputs):
            values = [by_turn[first + row][turn] if turn >= 0 and by_turn[first + row] else 0.0 for turn in turns]
            advantages[row, : len(values)] = whole.new_tensor(values) / scale[first + row]
        output["advantages"] = self.turn_weight * advantages + (1 - self.turn_weight) * whole[:, None]
        return output

    def _note_silence(self, inputs: list[dict[str, Any]], group: int) -> None:
        """Log the share of groups without a gradient by reason, and keep the row of one example each."""
        own = [member(each["prompt"], each["rollout"].trajectory, each["score"]) for each in inputs]
        members: list[Member] = gather_object(own)
        groups = [members[start : start + group] for start in range(0, len(members), group)]
        reasons = [silence(each) for each in groups]
        mode = "train" if self.model.training else "eval"
        for reason in Silence:
            self._metrics[mode][f"silent/{reason}"].append(reasons.count(reason) / len(groups))
        self.silent = {why: each[0].row for each, why in zip(groups, reasons, strict=True) if why}

    def _reward_scale(self, totals: list[float], group: int) -> list[float]:
        """What TRL divides each row's advantage by, for the same `scale_rewards`."""
        rewards = torch.tensor(totals)
        if self.scale_rewards == "none":
            return [1.0] * len(totals)
        if self.scale_rewards == "batch":
            return (nanstd(rewards).expand_as(rewards) + 1e-4).nan_to_num(1.0).tolist()
        return (nanstd(rewards.view(-1, group), dim=1).repeat_interleave(group) + 1e-4).nan_to_num(1.0).tolist()

    def _get_train_sampler(self, dataset: Any = None) -> Sampler:
        return EpochSampler(
            self,
            data_source=dataset if dataset is not None else self.train_dataset,
            mini_repeat_count=self.num_generations,
            batch_size=self.args.generation_batch_size // self.num_generations,
            repeat_count=self.num_iterations * self.args.steps_per_generation,
            shuffle=self.shuffle_dataset,
            seed=self.args.seed,
        )


class EpochSampler(RepeatSampler):
    """Seeds its order from (seed, epoch): TRL's own replays epoch 0 after a resume in a later one."""

    def __init__(self, trainer: GRPOTrainer, **settings: Any):
        super().__init__(**settings)
        self._trainer = trainer

    def __iter__(self) -> Any:
        epoch = int((self._trainer.state.epoch or 0) + 1e-6)
        if self.shuffle:
            self.generator.manual_seed(zlib.crc32(f"{self.seed}/{epoch}".encode()))
        return super().__iter__()


class ReadableLog(TrainerCallback):
    """One line a person can read per logged step, and the same as JSON in <output_dir>/log.jsonl."""

    FIELDS: Mapping[str, str] = {
        "reward": "reward",
        "success": "success",
        "part/steps": "steps",
        "part/answer": "answer",
        "part/waste": "waste",
        "frac_reward_zero_std": "no_signal",
        "tool_errors": "tool_errors",
        "truncated": "truncated",
        "no_reward": "no_reward",
        "loss": "loss",
        "mean_token_accuracy": "accuracy",
    }

    def __init__(
        self, path: Path, write: Callable[[str], None], silent: Callable[[], Mapping[Silence, str]] = lambda: {}
    ):
        """silent: the rows of the last step whose groups had no gradient, by reason."""
        self._path = path
        self._write = write
        self._silent = silent

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": state.global_step, **logs}, ensure_ascii=False) + "\n")
        shown = [f"{label} {logs[name]:.3f}" for name, label in self.FIELDS.items() if name in logs]
        why = [f"{reason} {logs[f'silent/{reason}']:.2f} ({row})" for reason, row in self._silent().items()]
        shown += ["[" + ", ".join(why) + "]"] if why else []
        self._write(f"step {state.global_step}/{state.max_steps}  " + "  ".join(shown))


def _block(trainer: GRPOTrainer) -> int:
    """Number of the generation block: TRL's own counter restarts on resume, and steps may share generations."""
    accumulation = trainer.args.gradient_accumulation_steps
    micro_steps = trainer.state.global_step * accumulation + trainer._step % accumulation
    return int(micro_steps // (trainer.args.steps_per_generation * trainer.num_iterations))


def forget_after(folder: Path, step: int) -> None:
    """Drop trace and log lines of steps that a resumed run will play again."""
    for path in [*folder.glob("traces/*.jsonl"), folder / "log.jsonl"]:
        if not path.is_file():
            continue
        last = step if path.name == "log.jsonl" else step - 1
        kept = [line for line in path.read_text("utf-8").splitlines() if _step_of(line) <= last]
        path.write_text("".join(line + "\n" for line in kept), "utf-8")


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return float("inf")  # a line torn by a kill
