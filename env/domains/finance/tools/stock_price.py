"""Today's price of a share."""

from __future__ import annotations

from typing import Any

from env.domains.finance.world import World


def stock_price(world: World, symbol: str) -> dict[str, Any]:
    """Raises ToolError(UNAVAILABLE) while the source of the prices is down."""
    price = world.price(symbol)
    found = [] if price is None else [{"symbol": symbol.upper(), "price": price, "currency": "CNY"}]
    return {"prices": found}
