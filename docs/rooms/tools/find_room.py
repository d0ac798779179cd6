"""Rooms by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any


def find_room(world: Any, name: str) -> dict[str, Any]:
    """Every room of exactly that name."""
    return {"rooms": [asdict(room) for room in world.rooms if room.name == name.strip()]}
