"""A reward as the audit sees it: a payload and the row's rubric in, a number out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from env.types import Trajectory
from rewards import grounded, seed_compat
from rewards.named import NAMES
from rewards.rubric import Rubric, RubricError
from rewards.sandbox import Sandbox, SandboxError

Payload = dict[str, Any]
Reward = Callable[[Payload, Mapping[str, Any]], float | None]


class RewardError(ValueError):
    """No reward of that name, or a file without one."""


def load(spec: str) -> Reward:
    """spec: one of NAMES, or a Python file with `cal_reward(payload: str) -> float`. Raises RewardError."""
    if spec == "grounded":
        return _grounded
    if spec == "seed_compat":
        return lambda payload, rubric: seed_compat.score_payload(json.dumps(payload, ensure_ascii=False))
    try:
        sandbox = Sandbox(spec)
    except SandboxError as error:
        raise RewardError(f"neither one of {', '.join(NAMES)} nor a reward: {error}") from error
    return lambda payload, rubric: sandbox.score(json.dumps(payload, ensure_ascii=False)).value


def _grounded(payload: Payload, rubric: Mapping[str, Any]) -> float | None:
    trajectory = Trajectory.from_payload(payload)
    try:
        score = grounded.score(trajectory, Rubric.from_dict(rubric, trajectory.reference_output))
    except RubricError:
        return None  # without a reference there is no reward, never a free one
    return score.total if score else None
