"""Faults on purpose: what a tool may do wrong, by tool and seed, so that training and evaluation can meet it.

A file lists rules; an episode draws from its own seed which of them it gets. Nothing else is random, so the same
episode always fails in the same way. What happened stands in the result's metadata, for traces and reports.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from env.types import JSON, ErrorCode, ToolError
from env.yaml_strict import YamlError, load

ANY_TOOL = "*"


class FaultKind(StrEnum):
    """What happens in place of the right answer."""

    UNAVAILABLE = "unavailable"  # the upstream answers 503
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    EMPTY = "empty"  # lists without their entries, totals of 0
    MALFORMED = "malformed"  # an output that breaks its contract
    STALE_ID = "stale_id"  # the id that was just found is not known any more
    DUPLICATE = "duplicate"  # the first entry of a list twice, the second time under another id


@dataclass(frozen=True, slots=True)
class Rule:
    """tool: its name, or "*". times: attempts that fail before the tool works, None for all. share: of the episodes."""

    tool: str
    kind: FaultKind
    times: int | None = None
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The rules of a run."""

    rules: tuple[Rule, ...]

    @classmethod
    def load(cls, path: Path | str) -> FaultPlan:
        """Of a YAML file: `faults:` with a list of {tool, fault, times?, share?}. Raises ValueError, OSError."""
        try:
            document = load(path)
        except YamlError as error:
            raise ValueError(str(error)) from error
        value = document.value
        if not isinstance(value, dict) or value.keys() != {"faults"} or not isinstance(value["faults"], list):
            raise ValueError(f"{path}:1: expected the key faults with a list of rules")
        rules = (_rule(each, f"{path}:{document.line('faults', at)}") for at, each in enumerate(value["faults"]))
        return cls(tuple(rules))

    def for_episode(self, seed: str) -> Faults | None:
        """What one episode gets; None where it is spared."""
        rng = random.Random(f"faults/{seed}")
        drawn = [rule for rule in self.rules if rng.random() < rule.share]
        return Faults(drawn, seed) if drawn else None


class Faults:
    """The faults of one episode."""

    def __init__(self, rules: Sequence[Rule], seed: str):
        self._left = [(rule, [rule.times]) for rule in rules]
        self._rng = random.Random(f"fault values/{seed}")
        self.happened: list[FaultKind] = []

    def answer(self, tool: str, call: Callable[[], JSON]) -> JSON:
        """The tool's answer, or what the first rule that applies makes of it."""
        for rule, left in self._left:
            if rule.tool in (tool, ANY_TOOL) and left[0] != 0:
                if left[0] is not None:
                    left[0] -= 1
                self.happened.append(rule.kind)
                return _EFFECTS[rule.kind](call, self._rng)
        return call()


Effect = Callable[[Callable[[], JSON], random.Random], JSON]


def _fails(code: ErrorCode, detail: str) -> Effect:
    def effect(call: Callable[[], JSON], rng: random.Random) -> JSON:
        raise ToolError(code, detail)

    return effect


def _empty(call: Callable[[], JSON], rng: random.Random) -> JSON:
    data = call()
    if not isinstance(data, Mapping):
        return data
    return {key: [] if isinstance(value, list) else _zeroed(key, value) for key, value in data.items()}


def _zeroed(key: str, value: JSON) -> JSON:
    return 0 if key.startswith("total") else value


def _malformed(call: Callable[[], JSON], rng: random.Random) -> JSON:
    return {"unexpected": call()}


def _duplicate(call: Callable[[], JSON], rng: random.Random) -> JSON:
    data: Any = call()
    for key, value in data.items() if isinstance(data, Mapping) else ():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            names = [name for name in value[0] if name.endswith("_id")]
            twin = {**value[0], **{name: str(rng.randrange(10_000, 100_000)) for name in names}}
            more = {"total": data["total"] + 1} if isinstance(data.get("total"), int) else {}
            return {**data, key: [*value, twin], **more}
    return data


_EFFECTS: Mapping[FaultKind, Effect] = {
    FaultKind.UNAVAILABLE: _fails(ErrorCode.UNAVAILABLE, "the upstream answers 503"),
    FaultKind.TIMEOUT: _fails(ErrorCode.TIMEOUT, "no answer in time"),
    FaultKind.RATE_LIMITED: _fails(ErrorCode.RATE_LIMITED, "the upstream allows no more calls; wait 60 s"),
    FaultKind.EMPTY: _empty,
    FaultKind.MALFORMED: _malformed,
    FaultKind.STALE_ID: _fails(ErrorCode.NOT_FOUND, "that id is not known any more; search again"),
    FaultKind.DUPLICATE: _duplicate,
}


def _rule(value: JSON, where: str) -> Rule:
    if not isinstance(value, dict) or not {"tool", "fault"} <= value.keys() <= {"tool", "fault", "times", "share"}:
        raise ValueError(f"{where}: expected tool, fault and perhaps times and share, got {value!r}")
    times, share = value.get("times"), value.get("share", 1.0)
    if not isinstance(value["tool"], str) or not value["tool"]:
        raise ValueError(f"{where}: tool: expected a name or '*', got {value['tool']!r}")
    if value["fault"] not in list(FaultKind):
        raise ValueError(f"{where}: fault: expected one of {', '.join(FaultKind)}, got {value['fault']!r}")
    if times is not None and (type(times) is not int or times < 1):
        raise ValueError(f"{where}: times: expected a whole number from 1, got {times!r}")
    if type(share) not in (int, float) or not 0 < share <= 1:
        raise ValueError(f"{where}: share: expected a number above 0 and at most 1, got {share!r}")
    return Rule(value["tool"], FaultKind(value["fault"]), times, float(share))
