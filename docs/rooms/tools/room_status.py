"""Whether a room is booked."""

from __future__ import annotations

from datetime import date as Date
from typing import Any

from env.types import ErrorCode, ToolError


def room_status(world: Any, room_id: str, date: str) -> dict[str, Any]:
    """Raises ToolError(NOT_FOUND) for an id that no room has."""
    room = next((room for room in world.rooms if room.room_id == room_id), None)
    if room is None:
        raise ToolError(ErrorCode.NOT_FOUND, f"no room has room_id {room_id!r}; look it up with find_room first")
    return {
        "room_id": room_id,
        "date": date,
        "status": "已订" if world.booked(room, Date.fromisoformat(date)) else "空闲",
    }
