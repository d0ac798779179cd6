"""Players without a model: the perfect one, the silent one and one that guesses. They bracket what an evaluation shows.

A player sees what a model sees (`episode.messages`, `episode.tools`) and writes the text of the next turn. Only the
oracle also reads the row.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Protocol

from data.oracle import call_text, oracle_turn
from data.schema import ALL_TOOLS, ROW_IDS, Row
from env.episode import Episode
from env.faults import FaultPlan
from env.surface import Surface
from env.types import Trajectory

MAX_TURNS = 6

Item = tuple[Row, int]  # what is to be played: a row, and which of its episodes, from 0


@dataclass(frozen=True, slots=True)
class Played:
    """One finished episode. sampled_tokens: what the model wrote, 0 without one. sample: which one of the row."""

    row: Row
    trajectory: Trajectory
    sampled_tokens: int = 0
    sample: int = 0


class Player(Protocol):
    """Whoever writes the turns of an episode."""

    @property
    def name(self) -> str: ...

    def reply(self, row: Row, episode: Episode) -> str:
        """The text of the next turn."""
        ...


class Oracle:
    """Follows the row's rubric; every row must give it full marks."""

    name = "oracle"

    def reply(self, row: Row, episode: Episode) -> str:
        return oracle_turn(row.task, episode)


class Silent:
    """Ends every episode with an empty answer; no row may give it anything."""

    name = "silent"

    def reply(self, row: Row, episode: Episode) -> str:
        return ""


class Random:
    """Calls any tool with guessed arguments, now and then a broken or an undeclared one, or invents an answer.

    Its turns follow from (seed, row, number of messages so far), so that they don't depend on the order of the rows.
    sample: which of several episodes of a row; each is another draw.
    """

    name = "random"

    def __init__(self, seed: int = 0, sample: int = 0):
        self._seed = f"{seed}.{sample}" if sample else str(seed)

    def reply(self, row: Row, episode: Episode) -> str:
        rng = random.Random(f"{self._seed}/{row.task.id}/{len(episode.messages)}")
        choice = rng.random()
        if choice < 0.25 or not episode.tools:
            return _invented_answer(rng, row.task.language)
        if choice < 0.3:
            return call_text("guess_" + rng.choice(_words(episode)), {})
        function = rng.choice(episode.tools)["function"]
        text = call_text(function["name"], _arguments(rng, function["parameters"], episode))
        return text[:-20] if choice < 0.35 else text


def play(
    row: Row,
    player: Player,
    ids: str = ROW_IDS,
    max_turns: int = MAX_TURNS,
    faults: FaultPlan | None = None,
    surface: Surface = ALL_TOOLS,
) -> Trajectory:
    """One whole episode. ids: seed of the employee ids, see `Row.open`."""
    episode = row.open(ids, max_turns, faults, surface)
    while not episode.done:
        take_turn(episode, player.reply(row, episode))
    return episode.trajectory()


def take_turn(episode: Episode, text: str) -> None:
    """Play one turn and append it, with what the tools returned, to what the player sees next."""
    results = episode.play(text) or []
    episode.messages.append({"role": "assistant", "content": text})
    episode.messages += [{"role": "tool", "content": result} for result in results]


def _arguments(rng: random.Random, parameters: Mapping[str, Any], episode: Episode) -> dict[str, Any]:
    """Every required argument, sometimes an optional one, sometimes one too few."""
    required = set(parameters.get("required", ()))
    return {
        name: _value(rng, schema, episode)
        for name, schema in parameters.get("properties", {}).items()
        if rng.random() < (0.95 if name in required else 0.2)
    }


def _value(rng: random.Random, schema: Mapping[str, Any], episode: Episode) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema.get("format") == "date":
        return (date(2025, 1, 1) + timedelta(days=rng.randrange(900))).isoformat()
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return rng.randrange(1000)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "string":
        return rng.choice((str(rng.randrange(100_000)), rng.choice(_words(episode))))
    return None


def _words(episode: Episode) -> list[str]:
    """The query's words and pairs of Han characters: now and then one of them is a name or an id."""
    words = episode.query.split()
    pairs = [episode.query[i : i + size] for size in (2, 3) for i in range(0, max(1, len(episode.query) - size))]
    return words + pairs


def _invented_answer(rng: random.Random, language: str) -> str:
    days, number = rng.randrange(1, 6), rng.randrange(100, 1000)
    if language == "zh":
        return f"请假{days}天，直属主管邮箱是manager{number}@corp.example。"
    return f"{days} days of leave; the manager's email is manager{number}@corp.example."


def by_name(name: str, seed: int, sample: int = 0) -> Player:
    """name: one of NAMES. Raises KeyError."""
    made: dict[str, Player] = {"oracle": Oracle(), "silent": Silent(), "random": Random(seed, sample)}
    return made[name]


NAMES = ("oracle", "silent", "random")
