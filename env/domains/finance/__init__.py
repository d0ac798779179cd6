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
    """Raises ValueError for a spec that `open_world` does not take. Nobody is the subject of a question here."""
    if spec.keys() != {"seed"} or type(spec["seed"]) is not int:
        raise ValueError(f"expected a whole number for seed and nothing else, got {dict(spec)}")
    if subject is not None:
        raise ValueError(f"expected no subject, got {subject}")


def open_world(spec: Mapping[str, Any], now: str, seed: str) -> World:
    """now: ISO date-time with offset; seed (of ids) is not used, for accounts are named in the questions."""
    return World(spec["seed"], datetime.fromisoformat(now).date())


def reference(world: World, subject: int) -> str:
    raise ValueError("questions about finance have no subject")
