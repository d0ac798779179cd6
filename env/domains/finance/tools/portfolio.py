"""What an account holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from env.domains.finance.world import World
from env.types import ErrorCode, ToolError


def get_portfolio(world: World, account: str) -> dict[str, Any]:
    """Raises ToolError(NOT_FOUND) for an account that does not exist."""
    holdings = world.holdings(account)
    if holdings is None:
        raise ToolError(
            ErrorCode.NOT_FOUND,
            f"no account {account!r}; accounts look like A-1027",
            zh=f"没有账户{account!r}，账户形如A-1027",
        )
    return {"account": account, "holdings": [asdict(holding) for holding in holdings]}
