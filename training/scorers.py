"""Rewards by name, or from a user's file, for a training run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace

from data.schema import Row
from env.types import Trajectory
from rewards import grounded, seed_compat
from rewards.rubric import Rubric
from rewards.sandbox import Sandbox
from rewards.score import Score

Scorer = Callable[[Row, Trajectory], Score | None]


def scorer(name: str) -> Scorer:
    """name: one of rewards.named.NAMES, or a Python file with `cal_reward(payload)`, which runs in a sandbox.

    Whatever the reward of the update is, success and violations are judged by `grounded`, so that runs can be compared.
    Raises SandboxError.
    """
    if name == "grounded":
        return _grounded
    if name == "seed_compat":
        return lambda row, trajectory: _other(row, trajectory, seed_compat.score_payload)
    sandbox = Sandbox(name)
    print(f"{name} runs with: {', '.join(sandbox.layers)}", file=sys.stderr)
    return lambda row, trajectory: _other(row, trajectory, lambda payload: _of_file(sandbox, payload))


def _grounded(row: Row, trajectory: Trajectory) -> Score | None:
    return grounded.score(trajectory, Rubric.from_dict(row.task.rubric, trajectory.reference_output))


def _other(row: Row, trajectory: Trajectory, value: Callable[[str], float | None]) -> Score | None:
    """Another reward's total, all of it earned by the last turn."""
    honest = _grounded(row, trajectory)
    total = value(json.dumps(trajectory.to_payload(), ensure_ascii=False)) if honest else None
    if honest is None or total is None:
        return None
    turns = max(1, len(trajectory.turns))
    return replace(honest, total=total, parts={}, increments=(0.0,) * (turns - 1) + (total,))


def _of_file(sandbox: Sandbox, payload: str) -> float | None:
    answer = sandbox.score(payload)
    if answer.value is None and sandbox.refused[answer.reason] == 1:
        print(f"{sandbox.path}: no reward: {answer.reason} (said once, counted always)", file=sys.stderr)
    return answer.value
