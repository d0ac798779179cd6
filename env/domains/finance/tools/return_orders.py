"""Value of returned orders."""

from __future__ import annotations

from typing import Any

from env.domains.finance.world import World, quarter_before


def get_return_orders(world: World, quarter: str) -> dict[str, Any]:
    """Both quarters that a comparison needs."""
    before = quarter_before(quarter)
    return {"quarter": quarter, "returned": world.returned(quarter), "returned_before": world.returned(before)}
