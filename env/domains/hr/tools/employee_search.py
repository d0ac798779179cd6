"""Employee search: resolves what colleagues call a person to directory entries."""

from __future__ import annotations

from typing import Any

from env.domains.hr.world import World


def mcp_employee_search(
    world: World, name: str, department: str | None = None, email: str | None = None
) -> dict[str, Any]:
    """Exact match after resolving aliases (traditional characters, pinyin in both orders, case and spaces)."""
    matches = world.search(name, department, email)
    return {"matches": matches, "total": len(matches)}
