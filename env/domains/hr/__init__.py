"""Human resources: a company directory, leave records and reporting lines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from env.domains.hr.world import Company, World
from env.registry import Registry


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The declared tools, not yet bound to a world."""
    return Registry.load_tools_from_directory(Path(__file__).parent / "tools", "env.domains.hr.tools")


def company(spec: Mapping[str, Any], now: str) -> Company:
    """spec: {"seed": int, "size": int, "split": "train"|"eval"}; now: ISO date-time with offset."""
    return Company.generate(spec["seed"], spec["size"], spec["split"], datetime.fromisoformat(now).date())


def open_world(spec: Mapping[str, Any], now: str, seed: str) -> World:
    """A world with ids drawn from `seed`; spec["fixed_ids"] ({"<person>": id}) keeps those that the query names."""
    return World(company(spec, now), draw_ids(spec, now, seed))


def draw_ids(spec: Mapping[str, Any], now: str, seed: str) -> tuple[str, ...]:
    """The ids that `open_world` gives the people, by index."""
    fixed = {int(person): emp_id for person, emp_id in spec.get("fixed_ids", {}).items()}
    return company(spec, now).draw_ids(f"{spec['split']}/{spec['seed']}/{seed}", fixed)


def reference(world: World, subject: int) -> str:
    """The id of the person whom the query is about, as this episode has drawn it."""
    return world.ids[subject]
