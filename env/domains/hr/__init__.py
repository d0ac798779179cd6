"""Human resources: a company directory, leave records and reporting lines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from env.domains.hr.world import Company, World
from env.registry import Registry

SMALLEST, LARGEST = 8, 5_000  # people in a simulated company

EXAMPLE: Mapping[str, Any] = {"seed": 1, "size": 20, "split": "train"}  # a spec that `open_world` takes


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The declared tools, not yet bound to a world."""
    return Registry.load_tools_from_directory(Path(__file__).parent / "tools", "env.domains.hr.tools")


def company(spec: Mapping[str, Any], now: str) -> Company:
    """spec: {"seed": int, "size": int, "split": "train"|"eval"}; now: ISO date-time with offset."""
    return Company.generate(spec["seed"], spec["size"], spec["split"], datetime.fromisoformat(now).date())


def check_spec(spec: Mapping[str, Any], subject: int | None) -> None:
    """Raises ValueError for a spec that `company` and `open_world` do not take, or a subject that is not in it."""
    if not {"seed", "size", "split"} <= spec.keys() <= {"seed", "size", "split", "fixed_ids"}:
        raise ValueError(f"expected seed, size, split and perhaps fixed_ids, got {sorted(spec)}")
    if type(spec["seed"]) is not int or type(spec["size"]) is not int or spec["split"] not in ("train", "eval"):
        raise ValueError("expected whole numbers for seed and size, and train or eval for split")
    if not SMALLEST <= spec["size"] <= LARGEST:
        raise ValueError(f"expected a size from {SMALLEST} to {LARGEST}, got {spec['size']}")
    fixed = spec.get("fixed_ids", {})
    if not isinstance(fixed, dict) or not all(
        isinstance(emp_id, str) and emp_id and person.isascii() and person.isdigit() and int(person) < spec["size"]
        for person, emp_id in fixed.items()
    ):
        raise ValueError("fixed_ids: expected an object of person index to id")
    if subject is not None and not 0 <= subject < spec["size"]:
        raise ValueError(f"subject {subject} is not one of {spec['size']} people")


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
