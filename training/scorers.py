"""Rewards by name, or from a user's file, for a training run."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from data.schema import Row
from env.types import Trajectory
from rewards import grounded, seed_compat
from rewards.rubric import Rubric
from rewards.sandbox import Sandbox
from rewards.score import Score

Scorer = Callable[[Row, Trajectory], Score | None]
NAMES = ("grounded", "seed_compat")


def scorer(name: str) -> Scorer:
    """name: one of NAMES, or a Python file with `cal_reward(payload)`, which runs in a sandbox.

    Whatever the reward of the update is, success and violations are judged by `grounded`, so that runs can be compared.
    Raises SandboxError.
    """
    if name == "grounded":
        return _grounded
    if name == "seed_compat":
        return lambda row, trajectory: _other(row, trajectory, seed_compat.score_payload)
    sandbox = Sandbox(name)
    return lambda row, trajectory: _other(row, trajectory, lambda payload: _of_file(sandbox, payload))


def source_hash(name: str) -> str:
    """SHA-256 of what computes the reward: the user's file, or everything in rewards/ and what it reads of env/."""
    if name not in NAMES:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()
    root = Path(__file__).parent.parent
    files = [*sorted((root / "rewards").glob("*.py")), root / "env" / "provenance.py", root / "env" / "types.py"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


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
