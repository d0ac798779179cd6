"""Refuses a run that cannot work before its model loads, with the values that would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from data.schema import ALL_TOOLS, Row
from env.surface import Surface
from training.chat import ChatFormat
from training.sft import transcripts

CHECKED_ROWS = 2000  # transcripts of this many rows are measured; the longest kinds occur among them


class PreflightError(ValueError):
    """The run would fail or train nothing; the message says which values are legal."""


@dataclass(frozen=True, slots=True)
class Batches:
    """How TRL cuts a generation batch: per_device * processes * steps_per_generation completions at once."""

    per_device: int
    processes: int
    accumulation: int
    steps_per_generation: int
    generations: int
    iterations: int = 1

    @property
    def completions(self) -> int:
        return self.per_device * self.processes * self.steps_per_generation

    @property
    def prompts(self) -> int:
        return self.completions // self.generations


def check_batches(batches: Batches) -> None:
    """TRL needs whole groups in a generation batch. Raises PreflightError with legal values for either side."""
    if batches.generations < 2:
        raise PreflightError(f"num_generations: GRPO compares at least 2 completions, got {batches.generations}")
    if batches.completions % batches.generations == 0:
        return
    unit = batches.processes * batches.steps_per_generation
    sizes = range(1, 2 * batches.per_device + batches.generations + 1)  # num_generations itself is always legal
    legal = [size for size in sizes if size * unit % batches.generations == 0]
    near = sorted(sorted(legal, key=lambda size: abs(size - batches.per_device))[:3])
    divisors = [count for count in range(2, batches.completions + 1) if batches.completions % count == 0][:8]
    options = [f"num_generations {', '.join(map(str, divisors))}"] if divisors else []
    options.append(f"per_device_train_batch_size {', '.join(map(str, near))}")
    raise PreflightError(
        f"{batches.per_device} per device x {batches.processes} processes x {batches.steps_per_generation} steps = "
        f"{batches.completions} completions, not a multiple of num_generations {batches.generations}; "
        f"legal: {' or '.join(options)}"
    )


def check_rows(rows: Sequence[Row], batches: Batches) -> None:
    """A data set smaller than one generation batch would train 0 steps and exit 0."""
    if len(rows) < batches.prompts:
        raise PreflightError(
            f"{len(rows)} rows are fewer than the {batches.prompts} prompts of one generation batch: "
            f"no step would be trained; build more rows or lower per_device_train_batch_size"
        )


def check_save_steps(save_steps: float, batches: Batches) -> None:
    """A checkpoint inside a generation block cannot be resumed bit for bit: its completions are not stored."""
    block = batches.steps_per_generation * batches.iterations
    if save_steps < 1 or save_steps != int(save_steps):
        raise PreflightError(f"save_steps: expected a whole number of steps, got {save_steps}; a share is not checked")
    save_steps = int(save_steps)
    if save_steps * batches.accumulation % block == 0:
        return
    legal = [steps for steps in range(1, 4 * save_steps + 2 * block) if steps * batches.accumulation % block == 0]
    near = sorted(sorted(legal, key=lambda steps: abs(steps - save_steps))[:2])
    raise PreflightError(
        f"save_steps {save_steps} falls inside a block of generations and could not be resumed exactly; "
        f"nearest legal: {', '.join(map(str, near))}"
    )


def check_tools(rows: Sequence[Row], surface: Surface) -> None:
    """What a row's task needs has to be among the tools that its prompt offers, or it could never be solved.

    Raises PreflightError with the first row that is short of a tool, ValueError for an allowed name that is no tool.
    """
    if surface == ALL_TOOLS:
        return
    for row in rows:
        offered = {tool["function"]["name"] for tool in row.open(surface=surface).tools}
        if lacking := sorted({step["tool"] for step in row.task.rubric["steps"]} - offered):
            raise PreflightError(
                f"row {row.task.id} needs {', '.join(lacking)}, which tools and tools_top_k leave out: {row.input}"
            )


def check_budgets(
    rows: Sequence[Row],
    chat: ChatFormat,
    max_turns: int,
    turn_tokens: int,
    completion: int,
    surface: Surface = ALL_TOOLS,
) -> None:
    """The oracle's episodes have to fit, or the right behaviour could never be rewarded."""
    deepest = max(row.task.depth for row in rows) + 1
    if max_turns < deepest:
        raise PreflightError(f"max_turns {max_turns} is less than the {deepest} turns that the oracle takes")
    measured = transcripts(rows[:CHECKED_ROWS], chat, seed=0, surface=surface)
    turn, episode = max(t.longest_turn for t in measured), max(t.completion_tokens for t in measured)
    if turn_tokens < turn:
        raise PreflightError(f"turn_tokens {turn_tokens} is less than the oracle's longest turn of {turn} tokens")
    if completion < episode:
        raise PreflightError(
            f"max_completion_length {completion} is less than the oracle's longest episode of {episode} tokens "
            f"(tool results included); set at least {episode + episode // 4}"
        )
