"""The forecast of one city on one day."""

from __future__ import annotations

from datetime import date as Date
from typing import Any

from env.domains.weather.world import FORECAST_DAYS, Forecast, World
from env.types import ErrorCode, ToolError


def get_weather(world: World, city: str, date: str | None = None) -> dict[str, Any]:
    """Raises ToolError(BUSINESS_ERROR) for a day that no forecast reaches."""
    day = Date.fromisoformat(date) if date is not None else world.today
    if abs((day - world.today).days) > FORECAST_DAYS:
        raise ToolError(
            ErrorCode.BUSINESS_ERROR,
            f"date {day} is more than {FORECAST_DAYS} days from today, {world.today}",
            zh=f"日期{day}离今天{world.today}超过{FORECAST_DAYS}天",
        )
    found = world.forecast(city, day)
    return {"forecasts": [_told(found)] if found else []}


def _told(found: Forecast) -> dict[str, Any]:
    return {
        "city": found.city,
        "date": found.date,
        "condition": found.condition,
        "condition_zh": found.condition_zh,
        "high": found.high,
        "low": found.low,
        "humidity": found.humidity,
    }
