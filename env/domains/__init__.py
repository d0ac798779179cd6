"""A domain is a folder: a seeded world, tools as YAML + Python pairs, and the functions of the protocol below.

A package of your own becomes a domain by its name in the environment variable STEPCREDIT_DOMAINS, a list of importable
modules with commas between ("acme.desk,acme.stock"). Nothing that only a file of rows names is ever imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from env.registry import Registry

DOMAINS = ("hr", "weather", "finance")
VARIABLE = "STEPCREDIT_DOMAINS"
NEEDED = ("registry", "check_spec", "open_world", "reference", "EXAMPLE")


class World(Protocol):
    """What an episode needs of a world; the tools know more."""

    def close(self) -> None: ...


class Domain(Protocol):
    """The module `env.domains.<name>`."""

    EXAMPLE: Mapping[str, Any]  # a spec that `open_world` takes, for checks and benchmarks

    def registry(self) -> Registry: ...

    def check_spec(self, spec: Mapping[str, Any], subject: int | None) -> None:
        """Raises ValueError for a spec that `open_world` could not use, or a subject that is not in it."""
        ...

    def open_world(self, spec: Mapping[str, Any], now: str, seed: str) -> World: ...

    def reference(self, world: World, subject: int) -> str: ...


def known() -> tuple[str, ...]:
    """The names that `domain` takes: ours, then those of STEPCREDIT_DOMAINS."""
    return (*DOMAINS, *filter(None, (name.strip() for name in os.environ.get(VARIABLE, "").split(","))))


def domain(name: str) -> Domain:
    """The domain of that name. Raises ValueError naming the known ones, or saying why a module cannot be one."""
    if name in DOMAINS:
        return cast(Domain, import_module(f"env.domains.{name}"))
    if name not in known():
        raise ValueError(f"unknown domain {name!r}; known: {', '.join(known())} (more by {VARIABLE})")
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"{VARIABLE} names {name}: {error}") from error
    if missing := [each for each in NEEDED if not hasattr(module, each)]:
        raise ValueError(f"{VARIABLE} names {name}, which has no {missing[0]}")
    return cast(Domain, module)
