"""A domain from outside the project: meeting rooms. Copy this folder to start one of your own (docs/tools.md)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from env.registry import Registry
from env.transports.mcp_client import shared_caller

EXAMPLE: Mapping[str, Any] = {"seed": 1, "split": "train"}  # a spec that `open_world` takes
# Training and evaluation ask for different rooms.
NAMES = {
    "train": ("海棠厅", "青松厅", "玉兰厅", "银杏厅", "丁香厅", "芙蓉厅"),
    "eval": ("紫藤厅", "翠竹厅"),
}


@dataclass(frozen=True, slots=True)
class Room:
    """room_id differs from episode to episode: it can only come from a tool."""

    room_id: str
    name: str
    floor: int


class World:
    """The rooms of one building, and on which days they are booked."""

    def __init__(self, seed: int, split: str, ids: str):
        numbers = random.Random(f"rooms/{seed}/{split}/{ids}").sample(range(1000, 10_000), len(NAMES[split]))
        floors = random.Random(f"floors/{seed}/{split}")
        self.rooms = [
            Room(f"R{number}", name, floors.randrange(1, 30))
            for number, name in zip(numbers, NAMES[split], strict=True)
        ]
        self.seed = seed

    def booked(self, room: Room, day: date) -> bool:
        return random.Random(f"booked/{self.seed}/{room.name}/{day}").random() < 0.5

    def close(self) -> None:
        """Nothing to release."""


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The declared tools, not yet bound to a world. The one of the MCP server starts it when it is first called."""
    here = Path(__file__).parent
    declared = Registry.load_tools_from_directory(here / "tools", "rooms.tools")
    return declared.reached_by({"mcp": shared_caller(here / "servers.yaml")})


def check_spec(spec: Mapping[str, Any], subject: int | None) -> None:
    """Raises ValueError for a world that cannot be opened, or a subject that is not in it."""
    if spec.keys() != {"seed", "split"} or type(spec["seed"]) is not int or spec["split"] not in NAMES:
        raise ValueError(f"expected a whole number for seed, and train or eval for split, got {dict(spec)}")
    if subject is not None and not 0 <= subject < len(NAMES[spec["split"]]):
        raise ValueError(f"there is no room {subject}")


def open_world(spec: Mapping[str, Any], now: str, seed: str) -> World:
    """seed: of the ids, another one in every episode. now: ISO date-time with offset."""
    datetime.fromisoformat(now)
    return World(spec["seed"], spec["split"], seed)


def reference(world: World, subject: int) -> str:
    """The id that the episode has drawn for the room asked about."""
    return world.rooms[subject].room_id
