"""Growth of net sales."""

from __future__ import annotations

from typing import Any

from env.domains.finance.world import World, quarter_before
from env.types import ErrorCode, ToolError


def sales_report_qoq(world: World, quarter: str, returned: int, returned_before: int) -> dict[str, Any]:
    """Growth to a tenth of a per cent. Raises ToolError(BUSINESS_ERROR) for returns that exceed the sales."""
    net = world.sales(quarter) - returned
    before = world.sales(quarter_before(quarter)) - returned_before
    if net < 0 or before <= 0:
        raise ToolError(ErrorCode.BUSINESS_ERROR, "the returned orders exceed the sales", zh="退货额超过销售额")
    return {"quarter": quarter, "net_sales": net, "growth_percent": round((net / before - 1) * 100, 1)}
