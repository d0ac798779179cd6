"""What scenarios share whose world follows from a seed and whose questions name everything: phrasings, splits, rows.

A scenario is a YAML file of phrasings and replies, and a function that draws one situation of a kind. A situation says
which calls the task needs and which facts its answer has, as a rubric; the rest is here. docs/rooms is one from
outside.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from data.schema import Row, Task
from env.yaml_strict import load

ZONE = "Asia/Shanghai"


@dataclass(frozen=True, slots=True)
class Case:
    """Where a question is asked. seed: of the world."""

    seed: int
    today: date
    now: str
    split: str
    language: str
    rng: random.Random


@dataclass(frozen=True, slots=True)
class Situation:
    """One drawn task. slots: values of the phrasing. mention: what the query calls its subject. reply: name of one."""

    ask: str
    slots: Mapping[str, str]
    mention: str | None
    reply: str
    steps: tuple[Mapping[str, Any], ...]
    answer: tuple[Mapping[str, Any], ...]
    reference: str
    subject: int | None = None  # where ids are drawn per episode: whose id is the reference


def case(split: str, language: str, number: int, seed: int) -> Case:
    """Equal arguments give an equal case; training and evaluation never share a world."""
    rng = random.Random(f"plain/{seed}/{split}/{number}")
    day = date(2025, 1, 6) + timedelta(days=rng.randrange(900))
    now = datetime(day.year, day.month, day.day, rng.randrange(8, 19), tzinfo=ZoneInfo(ZONE)).isoformat()
    return Case(2 * rng.randrange(10**6) + (split == "eval"), day, now, split, language, rng)


def row(
    domain: str,
    kind: int,
    number: int,
    seed: int,
    case: Case,
    drawn: Situation,
    words: Mapping[str, Any] | None = None,
    world: Mapping[str, Any] | None = None,
) -> Row:
    """The situation in words. words: asks and replies, as in <domain>.yaml, which is read where it is None. world: its
    spec, {"seed": case.seed} where it is None."""
    content = phrasings(domain) if words is None else words
    options = content["asks"][drawn.ask][case.language]
    index = case.rng.choice([i for i in range(len(options)) if held_out(i) == (case.split == "eval")])
    none = not drawn.steps
    task = Task(
        id=f"{domain}-{case.split}-{seed}-{number:06d}",
        kind=kind,
        ask=drawn.ask,
        domain=domain,
        language=case.language,
        split=case.split,
        template=f"{domain}/{drawn.ask}/{case.language}/{index}",
        world=world or {"seed": case.seed},
        now=case.now,
        timezone=ZONE,
        subject=drawn.subject,
        mention=drawn.mention,
        period=None,
        rubric={
            "steps": [{"empty": False, "after": [], **step} for step in drawn.steps],
            "answer": list(drawn.answer),
            "calls": "none" if none else "any",
            "forbidden": [],
            "order": "dependencies",
        },
        reply=filled(content["replies"][drawn.reply][case.language], drawn.slots),
    )
    return Row(filled(options[index], drawn.slots), drawn.reference, task)


def step(id: str, tool: str, weight: float, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """One required call of a rubric."""
    return {"id": id, "tool": tool, "weight": weight, "arguments": dict(arguments), **more}


def reference(**values: Any) -> str:
    """A reference of several values, as compact JSON."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def filled(text: str, slots: Mapping[str, str]) -> str:
    """The slots put in; {step.member} stays for the results."""
    for name, value in slots.items():
        text = text.replace("{" + name + "}", value)
    return text


def held_out(position: int) -> bool:
    """Every fourth of a list is for evaluation only. position: from 0."""
    return position % 4 == 3


@lru_cache
def phrasings(domain: str) -> Mapping[str, Any]:
    """The content of <domain>.yaml: asks and replies."""
    loaded: Mapping[str, Any] = load(Path(__file__).with_name(f"{domain}.yaml")).value
    if loaded["held_out_every"] != 4:
        raise ValueError(f"{domain}.yaml: expected held_out_every 4, got {loaded['held_out_every']}")
    return loaded
