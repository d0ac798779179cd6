"""A pending order."""

from __future__ import annotations

from typing import Any

from env.domains.finance.world import World
from env.types import ErrorCode, ToolError


def place_order(world: World, account: str, symbol: str, quantity: int, price: float) -> dict[str, Any]:
    """Raises ToolError for an account that does not exist, a symbol that is not traded, and another day's price."""
    if world.holdings(account) is None:
        raise ToolError(
            ErrorCode.NOT_FOUND,
            f"no account {account!r}; accounts look like A-1027",
            zh=f"没有账户{account!r}，账户形如A-1027",
        )
    today = world.price(symbol)
    if today is None:
        raise ToolError(ErrorCode.NOT_FOUND, f"{symbol!r} is not traded", zh=f"{symbol!r}没有上市")
    if price != today:
        raise ToolError(
            ErrorCode.BUSINESS_ERROR,
            f"price {price} is not today's; look it up with stock_price",
            zh=f"{price}不是今天的价格，请用stock_price查询",
        )
    order = world.place(account, round(quantity * price, 2))
    return {"order_id": order.order_id, "amount": order.amount, "status": "pending"}
