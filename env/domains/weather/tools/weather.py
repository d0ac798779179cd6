"""The forecast of one city on one day."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date as Date
from typing import Any

from env.domains.weather.world import FORECAST_DAYS, World
from env.types import ErrorCode, ToolError


def get_weather(world: World, city: str, date: str | None = None) -> dict[str, Any]:
    """Raises ToolError(BUSINESS_ERROR) for a day that no forecast reaches."""
    day = Date.fromisoformat(date) if date is not None else world.today
    if abs((day - world.today).days) > FORECAST_DAYS:
        raise ToolError(
            ErrorCode.BUSINESS_ERROR, f"date {day} is more than {FORECAST_DAYS} days from today, {world.today}"
        )
    found = world.forecast(city, day)
    return {"forecasts": [asdict(found)] if found else []}
