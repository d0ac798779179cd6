"""A domain is a folder: a seeded world, tools as YAML + Python pairs, and the functions of the protocol below."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from env.registry import Registry

DOMAINS = ("hr",)


class World(Protocol):
    """What an episode needs of a world; the tools know more."""

    def close(self) -> None: ...


class Domain(Protocol):
    """The module `env.domains.<name>`."""

    def registry(self) -> Registry: ...

    def check_spec(self, spec: Mapping[str, Any], subject: int | None) -> None:
        """Raises ValueError for a spec that `open_world` could not use, or a subject that is not in it."""
        ...

    def open_world(self, spec: Mapping[str, Any], now: str, seed: str) -> World: ...

    def reference(self, world: World, subject: int) -> str: ...


def domain(name: str) -> Domain:
    """The domain of that name. Raises ValueError naming the known ones."""
    if name not in DOMAINS:
        raise ValueError(f"unknown domain {name!r}; known: {', '.join(DOMAINS)}")
    return cast(Domain, import_module(f"env.domains.{name}"))
