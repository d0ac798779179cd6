"""Human resources: a company directory, leave records and reporting lines.

The company is simulated from a seed, or somebody's own directory (env.domains.hr.directory).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from env.domains.hr import directory
from env.domains.hr.ids import DrawnIds
from env.domains.hr.world import Company, Ids, World
from env.registry import Registry

SMALLEST, LARGEST = 8, 5_000  # people in a simulated company

EXAMPLE: Mapping[str, Any] = {"seed": 1, "size": 20, "split": "train"}  # a spec that `open_world` takes


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The declared tools, not yet bound to a world."""
    return Registry.load_tools_from_directory(Path(__file__).parent / "tools", "env.domains.hr.tools")


def company(spec: Mapping[str, Any], now: str) -> Company:
    """The company of a spec, at a moment in ISO form with offset.

    spec: {"seed": int, "size": int, "split": "train"|"eval"}, or {"directory": path, "sha256": text} in place of the
    size. Raises ValueError for a directory that is not as the spec has it.
    """
    if "directory" in spec:
        return directory.load(spec["directory"], spec["sha256"], spec["split"])
    return Company.generate(spec["seed"], spec["size"], spec["split"], datetime.fromisoformat(now).date())


def check_spec(spec: Mapping[str, Any], subject: int | None) -> None:
    """Raises ValueError for a spec that `company` and `open_world` do not take, or a subject that is not in it."""
    size = _imported_size(spec) if "directory" in spec else _simulated_size(spec)
    fixed = spec.get("fixed_ids", {})
    if not isinstance(fixed, dict) or not all(
        isinstance(emp_id, str) and emp_id and person.isascii() and person.isdigit() and int(person) < size
        for person, emp_id in fixed.items()
    ):
        raise ValueError("fixed_ids: expected an object of person index to id")
    if subject is not None and not 0 <= subject < size:
        raise ValueError(f"subject {subject} is not one of {size} people")


def _simulated_size(spec: Mapping[str, Any]) -> int:
    if not {"seed", "size", "split"} <= spec.keys() <= {"seed", "size", "split", "fixed_ids"}:
        raise ValueError(f"expected seed, size, split and perhaps fixed_ids, got {sorted(spec)}")
    size = spec["size"]
    if type(spec["seed"]) is not int or type(size) is not int or spec["split"] not in ("train", "eval"):
        raise ValueError("expected whole numbers for seed and size, and train or eval for split")
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"expected a size from {SMALLEST} to {LARGEST}, got {size}")
    return int(size)


def _imported_size(spec: Mapping[str, Any]) -> int:
    """Looks into the directory: a row whose directory is missing or another one is a bad row."""
    needed = {"directory", "sha256", "seed", "split"}
    if not needed <= spec.keys() <= needed | {"fixed_ids"}:
        raise ValueError(f"expected {', '.join(sorted(needed))} and perhaps fixed_ids, got {sorted(spec)}")
    if type(spec["seed"]) is not int or spec["split"] not in ("train", "eval"):
        raise ValueError("expected a whole number for seed, and train or eval for split")
    if not isinstance(spec["directory"], str) or not isinstance(spec["sha256"], str):
        raise ValueError("expected text for directory and sha256")
    return len(directory.load(spec["directory"], spec["sha256"], spec["split"]).people)


def open_world(spec: Mapping[str, Any], now: str, seed: str) -> World:
    """A world with ids drawn from `seed`; spec["fixed_ids"] ({"<person>": id}) keeps those that the query names."""
    return World(company(spec, now), draw_ids(spec, now, seed))


def draw_ids(spec: Mapping[str, Any], now: str, seed: str) -> Ids:
    """The ids that `open_world` gives the people, by index."""
    where, drawn, fixed = company(spec, now), _seed(spec, seed), _fixed(spec)
    if "directory" in spec:
        return DrawnIds(spec["split"], drawn, len(where.people), fixed)
    return where.draw_ids(drawn, fixed)


def draw_id_of(person: int, spec: Mapping[str, Any], now: str, seed: str) -> str:
    """The id that `open_world` gives one person."""
    if "directory" in spec:
        return draw_ids(spec, now, seed)[person]
    return company(spec, now).draw_id_of(person, _seed(spec, seed), _fixed(spec))


def _seed(spec: Mapping[str, Any], seed: str) -> str:
    return f"{spec['split']}/{spec['seed']}/{seed}"


def _fixed(spec: Mapping[str, Any]) -> dict[int, str]:
    return {int(person): emp_id for person, emp_id in spec.get("fixed_ids", {}).items()}


def reference(world: World, subject: int) -> str:
    """The id of the person whom the query is about, as this episode has drawn it."""
    return world.ids[subject]
