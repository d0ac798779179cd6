"""One episode, told differently: what may not change a score, and what may not earn one.

Platforms write the same episode in several ways (ids as numbers, inputs as JSON text, steps of kinds of their own), and
a reward that stumbles over one of them punishes honest work. And there are payloads in which nothing was found out.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evaluation.audit.reward import Payload, Reward, RewardError
from evaluation.audit.scene import End, Move, Plan, Scene, plan

SUCCESS = "S L O → right"


@dataclass(frozen=True, slots=True)
class Probe:
    """score: what the reward gives. wrong: what is wrong with that, "" where nothing is."""

    name: str
    score: float | None
    wrong: str


def probe(scene: Scene, reward: Reward) -> tuple[Probe, ...]:
    """All probes. A score that should equal the plain success's, or stay below honest partial work's (S alone)."""
    rubric = scene.row.task.rubric
    plain = reward(scene.trajectory(plan(SUCCESS)).to_payload(), rubric)
    if plain is None:
        raise RewardError("the reward gives no score for a plain success: it raises, or returns no number")
    little = reward(scene.trajectory(plan("S → cut")).to_payload(), rubric) or 0.0
    made = []
    for name, payload in same(scene):
        score = reward(payload, rubric)
        made.append(Probe(name, score, "" if score == plain else f"the same episode scores {plain}"))
    for name, payload in nothing(scene):
        score = reward(payload, rubric)
        paid = score is not None and score > 0 and score >= little
        made.append(Probe(name, score, f"nothing was found out, and S alone scores {little:.3g}" if paid else ""))
    return tuple(made)


def same(scene: Scene) -> Iterator[tuple[str, Payload]]:
    """The successful episode in other words."""
    yield "emp_id as a whole number", _with_ids(scene, int)
    yield "emp_id as 1001.0", _with_ids(scene, float)
    yield "emp_id with blanks around it", _with_ids(scene, lambda emp_id: f" {emp_id} ")
    yield "inputs as JSON text", _edited(scene, lambda step: step | {"input": json.dumps(step["input"])})
    odd = scene.trajectory(plan(SUCCESS)).to_payload()
    odd["trajectory"]["steps"].insert(0, "a step that is only text")
    yield "one step is only text", odd
    more = scene.trajectory(plan(SUCCESS)).to_payload()
    yield "unknown fields", more | {"trace_id": "t-1"}
    yield "manager before leave", scene.trajectory(plan("S O L → right")).to_payload()
    yield "leave and manager in one message", scene.trajectory(plan("S L+O → right")).to_payload()


def nothing(scene: Scene) -> Iterator[tuple[str, Payload]]:
    """Episodes that found nothing out."""
    silent = scene.trajectory(plan("→ empty")).to_payload()
    yield "silence", silent
    yield "no steps at all", silent | {"trajectory": {"steps": None}}
    blind = scene.trajectory(plan("L O → cut"))
    without = _edited(scene, lambda step: step | {"input": {}, "arguments": {}}, blind.to_payload())
    yield "no reference, calls without emp_id", without | {"reference_output": ""}
    null = _edited(scene, lambda step: step | {"input": {"emp_id": None}, "arguments": None}, blind.to_payload())
    yield "null for reference and emp_id", null | {"reference_output": None}
    everyone = [Move.LEAVE_OTHER] * 99 + [Move.LEAVE] + [Move.ORG_OTHER] * 99 + [Move.ORG]
    many = Plan(tuple(everyone), (False,) * len(everyone), End.CUT)
    yield "a hundred ids tried with each tool, no search", scene.trajectory(many).to_payload()
    failed = _edited(scene, lambda step: step | {"status": "error", "output": "unavailable"}, blind.to_payload())
    yield "every call failed", failed
    yield "the id remembered, the manager asked in one message", scene.trajectory(plan("O+L+S → cut")).to_payload()


def _with_ids(scene: Scene, written: Callable[[str], Any]) -> Payload:
    def rewrite(step: dict[str, Any]) -> dict[str, Any]:
        if "emp_id" not in step["input"]:
            return step
        given = step["input"] | {"emp_id": written(step["input"]["emp_id"])}
        return step | {"input": given, "arguments": given}

    return _edited(scene, rewrite)


def _edited(
    scene: Scene, edit: Callable[[dict[str, Any]], dict[str, Any]], payload: dict[str, Any] | None = None
) -> Payload:
    """The payload (default: of the successful episode) with each tool step edited."""
    made = copy.deepcopy(payload if payload is not None else scene.trajectory(plan(SUCCESS)).to_payload())
    steps = made["trajectory"]["steps"]
    made["trajectory"]["steps"] = [edit(step) if step["type"] == "tool" else step for step in steps]
    return made
