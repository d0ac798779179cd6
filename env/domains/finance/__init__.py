"""Finance: prices behind a rate-limited upstream, portfolios, and calculations that need what other tools return."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from env.domains.finance.world import World
from env.registry import Registry

EXAMPLE: Mapping[str, Any] = {"seed": 1}  # a spec that `open_world` takes


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The declared tools, not yet bound to a world."""
    return Registry.load_tools_from_directory(Path(__file__).parent / "tools", "env.domains.finance.tools")


def check_spec(spec: Mapping[str, Any], subject: int | None) -> None:
    """Raises ValueError for a spec that `open_world` does not take. subject: 0 for the first order, or None."""
    if spec.keys() != {"seed"} or type(spec["seed"]) is not int:
        raise ValueError(f"expected a whole number for seed and nothing else, got {dict(spec)}")
    if subject not in (None, 0):
        raise ValueError(f"expected no subject or 0, the first order, got {subject}")


def open_world(spec: Mapping[str, Any], now: str, seed: str) -> World:
    """now: ISO date-time with offset. seed: of the order numbers; accounts are named in the questions."""
    return World(spec["seed"], datetime.fromisoformat(now).date(), seed)


def reference(world: World, subject: int) -> str:
    """The number that the episode's first order gets."""
    return world.order_id(subject)
