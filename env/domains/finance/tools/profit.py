"""Profit of a position."""

from __future__ import annotations

from typing import Any

from env.domains.finance.world import World


def calculate_profit(world: World, quantity: int, cost_price: float, price: float) -> dict[str, Any]:
    """In yuan, to the cent."""
    return {"profit": round(quantity * (price - cost_price), 2)}
