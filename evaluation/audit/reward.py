"""A reward as the audit sees it: a payload and the row's rubric in, a number out."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from env.types import Trajectory
from rewards import grounded, seed_compat
from rewards.rubric import Rubric, RubricError

Payload = dict[str, Any]
Reward = Callable[[Payload, Mapping[str, Any]], float | None]
NAMES = ("grounded", "seed_compat")


class RewardError(ValueError):
    """No reward of that name, or a file without one."""


def load(spec: str) -> Reward:
    """spec: one of NAMES, or a Python file with `cal_reward(payload: str) -> float`. Raises RewardError."""
    if spec == "grounded":
        return _grounded
    if spec == "seed_compat":
        return lambda payload, rubric: seed_compat.score_payload(json.dumps(payload, ensure_ascii=False))
    path = Path(spec)
    if not path.is_file():
        raise RewardError(f"{spec}: neither one of {', '.join(NAMES)} nor a file")
    found = importlib.util.spec_from_file_location("audited_reward", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as error:  # a file of the user's: whatever it raises is the answer to what was asked
        raise RewardError(f"{spec}: cannot be loaded: {type(error).__name__}: {error}") from error
    function = vars(module).get("cal_reward")
    if not callable(function):
        raise RewardError(f"{spec}: no function cal_reward(payload) in it")
    return lambda payload, rubric: _of_file(function, payload)


def _grounded(payload: Payload, rubric: Mapping[str, Any]) -> float | None:
    trajectory = Trajectory.from_payload(payload)
    try:
        score = grounded.score(trajectory, Rubric.from_dict(rubric, trajectory.reference_output))
    except RubricError:
        return None  # without a reference there is no reward, never a free one
    return score.total if score else None


def _of_file(function: Callable[[str], Any], payload: Payload) -> float | None:
    """None where the function raises or returns no finite number: that is a finding, not the end of the audit."""
    try:
        value = function(json.dumps(payload, ensure_ascii=False))
    except Exception:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None
