"""Which of a domain's tools a run offers: an allow-list, the ones nearest to the question, `run_plan` on top."""

from __future__ import annotations

from dataclasses import dataclass

from env.domains import domain, known
from env.planning import Planner
from env.registry import Registry
from env.retrieval import nearest


@dataclass(frozen=True, slots=True)
class Surface:
    """allowed: names, none for all. top_k: so many for each question, 0 for all. plan: whether to offer `run_plan`."""

    allowed: tuple[str, ...] = ()
    top_k: int = 0
    plan: bool = False

    def __post_init__(self) -> None:
        if self.top_k < 0:
            raise ValueError(f"top_k: expected 0 or more, got {self.top_k}")

    def __str__(self) -> str:
        """For records of a run; "" where everything is offered."""
        said = [f"tools {','.join(self.allowed)}"] if self.allowed else []
        said += [f"the {self.top_k} nearest"] if self.top_k else []
        return "; ".join([*said, *(["run_plan"] if self.plan else [])])

    def offer(self, registry: Registry, question: str) -> tuple[Registry, Planner | None]:
        """The tools of one episode, and who runs its plans. registry: bound to its world.

        Of the allowed names those of its domain count: rows of several may be mixed. Raises ValueError for a name that
        no domain has.
        """
        offered = registry.only(self._of(registry)) if self.allowed else registry
        if self.top_k:
            contracts = [offered.contract(name) for name in offered.names]
            offered = offered.only(nearest(contracts, question, self.top_k))
        if not self.plan:
            return offered, None
        planner = Planner(offered)
        return offered.joined(planner.tool()), planner

    def _of(self, registry: Registry) -> list[str]:
        others = [name for name in self.allowed if name not in registry.names]
        everywhere = {tool for each in known() for tool in domain(each).registry().names} if others else set()
        for name in others:
            if name not in everywhere:
                raise ValueError(f"no tool {name!r}; there are {', '.join(registry.names)}")
        return [name for name in self.allowed if name in registry.names]
