"""A confirmed order."""

from __future__ import annotations

from typing import Any

from env.domains.finance.world import World
from env.types import ErrorCode, ToolError


def confirm_order(world: World, order_id: str) -> dict[str, Any]:
    """Raises ToolError for an order that does not exist or is cancelled, and for one that the account cannot pay."""
    order = world.orders.get(order_id)
    if order is None or order.status == "cancelled":
        raise ToolError(
            ErrorCode.NOT_FOUND,
            f"no order {order_id!r} that could be confirmed; place one first",
            zh=f"没有可确认的订单{order_id!r}，请先下单",
        )
    cash = world.cash(order.account)
    if order.amount > cash:
        raise ToolError(
            ErrorCode.BUSINESS_ERROR,
            f"{order.amount} yuan is more than the cash of the account, {cash}",
            zh=f"{order.amount}元超过账户现金{cash}元",
        )
    world.settle(order_id, "confirmed")
    return {"order_id": order_id, "amount": order.amount, "confirmed": True}
