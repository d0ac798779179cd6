"""A cancelled order."""

from __future__ import annotations

from typing import Any

from env.domains.finance.world import World
from env.types import ErrorCode, ToolError


def cancel_order(world: World, order_id: str) -> dict[str, Any]:
    """Raises ToolError for an order that does not exist or is confirmed."""
    order = world.orders.get(order_id)
    if order is None or order.status == "confirmed":
        raise ToolError(
            ErrorCode.NOT_FOUND, f"no order {order_id!r} that could be cancelled", zh=f"没有可撤销的订单{order_id!r}"
        )
    world.settle(order_id, "cancelled")
    return {"order_id": order_id, "cancelled": True}
