"""What tools need and give, across their contracts: plans, legal orders, what a call is missing, and running a plan.

Nodes are tools; a tool that requires a value comes after one that produces it. A value that nobody produces has to be
known from the start (the user gave it). Cycles are refused when the graph is made, with the path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from env.contract import ToolContract
from env.provenance import nodes
from env.types import JSON, ToolResult

Call = Callable[[str, dict[str, JSON]], ToolResult]  # tool, arguments -> envelope
Arguments = Callable[[ToolContract, Mapping[str, JSON]], dict[str, JSON]]  # what a tool is called with, from the known


class GraphError(ValueError):
    """The tools cannot be put in order, or a goal cannot be reached; the message has the path."""


@dataclass(frozen=True, slots=True)
class Plan:
    """stages: tools that may run at the same time, stage after stage. needs: values that have to be known before."""

    stages: tuple[tuple[str, ...], ...]
    needs: frozenset[str]

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(tool for stage in self.stages for tool in stage)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a plan. results: by tool, in the order in which they came. undone: tools that were compensated.

    failed: the tool that stopped it. reason: what its result lacks, "" where the call itself failed.
    """

    results: Mapping[str, ToolResult]
    known: Mapping[str, JSON]
    failed: str | None
    undone: tuple[str, ...]
    reason: str = ""


class ToolGraph:
    """contracts: of one registry. Raises GraphError for a cycle, naming it."""

    def __init__(self, contracts: Iterable[ToolContract]):
        self.contracts = {contract.name: contract for contract in contracts}
        self._producers: dict[str, list[str]] = {}
        for name, contract in self.contracts.items():
            for value in contract.produces:
                self._producers.setdefault(value, []).append(name)
        try:
            TopologicalSorter({name: self._before(name) for name in self.contracts}).prepare()
        except CycleError as error:
            raise GraphError(f"the tools need each other in a circle: {' -> '.join(error.args[1])}") from error

    def producers(self, value: str) -> tuple[str, ...]:
        """The tools that give a value, in alphabetical order."""
        return tuple(sorted(self._producers.get(value, ())))

    def missing(self, tool: str, known: Collection[str]) -> frozenset[str]:
        """The values that a call of `tool` still lacks. Raises GraphError for an unknown tool."""
        return frozenset(self._contract(tool).requires) - set(known)

    def plan(self, goals: Collection[str], known: Collection[str] = ()) -> Plan:
        """The tools that lead from what is known to the goals (values, or names of tools), in parallel stages.

        Of several producers of a value the first in alphabetical order that can be reached is taken. Raises GraphError
        where a goal cannot be reached, with the chain of what is missing.
        """
        chosen: dict[str, set[str]] = {}
        for goal in sorted(goals):
            if goal in self.contracts:
                self._choose(goal, set(known), chosen, (goal,))
            elif goal not in known:
                self._reach(goal, set(known), chosen, (goal,))
        sorter = TopologicalSorter(chosen)
        sorter.prepare()
        stages = []
        while sorter.is_active():
            ready = tuple(sorted(sorter.get_ready()))
            stages.append(ready)
            sorter.done(*ready)
        needed = {value for tool in chosen for value in self.contracts[tool].requires}
        return Plan(tuple(stages), frozenset(needed & set(known)))

    def orders(self, plan: Plan) -> Iterator[tuple[str, ...]]:
        """Every order in which the tools of a plan may run one by one."""
        chosen = set(plan.order)
        before = {tool: {each for each in self._before(tool) if each in chosen} for tool in chosen}
        yield from _orders(before, ())

    def run(
        self, goals: Collection[str], inputs: Mapping[str, JSON], call: Call, arguments: Arguments, threads: int = 8
    ) -> Run:
        """Execute the plan for `goals`. inputs: the known values by name. arguments: builds a tool's arguments.

        Independent tools of a stage run at the same time, with one thread one after the other in the caller's. After a
        failure nothing new starts, and the finished tools that name a `compensate` tool are undone in reverse order. A
        value that a later tool requires is read from the result that gives it, see `value_in`; a result that lacks it,
        or has several, is a failure too.
        """
        plan, known = self.plan(goals, inputs), dict(inputs)
        needed = {value for tool in plan.order for value in self.contracts[tool].requires}
        results: dict[str, ToolResult] = {}
        failed, reason = None, ""
        with ExitStack() as stack:
            at_once = stack.enter_context(ThreadPoolExecutor(threads)).map if threads > 1 else map
            for stage in plan.stages:
                given = [arguments(self.contracts[tool], known) for tool in stage]
                for tool, result in zip(stage, at_once(call, stage, given), strict=True):
                    results[tool] = result
                    lacks = self._learn(tool, result, inputs, known, needed) if result.ok else ""
                    if failed is None and (lacks or not result.ok):
                        failed, reason = tool, lacks
                if failed:
                    break
        undone = self._undo(results, known, call, arguments) if failed else ()
        return Run(results, known, failed, undone, reason)

    def _learn(
        self, tool: str, result: ToolResult, inputs: Mapping[str, JSON], known: dict[str, JSON], needed: Collection[str]
    ) -> str:
        """Put what a result makes known into `known`; returns what it lacks."""
        for name in self.contracts[tool].produces:
            try:
                known[name] = value_in(result.data, name, inputs)
            except LookupError as error:
                if name in needed and name not in inputs:
                    return str(error.args[0])
        return ""

    def _undo(
        self, results: Mapping[str, ToolResult], known: Mapping[str, JSON], call: Call, arguments: Arguments
    ) -> tuple[str, ...]:
        undone = []
        for tool in reversed(list(results)):
            undo = self.contracts[tool].compensate
            if undo and results[tool].ok:
                call(undo, arguments(self._contract(undo), known))
                undone.append(tool)
        return tuple(undone)

    def _contract(self, tool: str) -> ToolContract:
        if tool not in self.contracts:
            raise GraphError(f"no tool {tool!r}; there are {', '.join(sorted(self.contracts))}")
        return self.contracts[tool]

    def _before(self, tool: str) -> set[str]:
        """The tools that produce what `tool` requires."""
        return {name for value in self.contracts[tool].requires for name in self._producers.get(value, ())}

    def _choose(self, tool: str, known: set[str], chosen: dict[str, set[str]], path: Sequence[str]) -> None:
        if tool in chosen:
            return
        before = set()
        for value in self._contract(tool).requires:
            if value not in known:
                before.add(self._reach(value, known, chosen, (*path, value)))
        chosen[tool] = before

    def _reach(self, value: str, known: set[str], chosen: dict[str, set[str]], path: Sequence[str]) -> str:
        """The producer of a value that was chosen."""
        reason = GraphError(f"nothing gives {value!r}: {' <- '.join(path)}")
        for tool in self.producers(value):
            trial = dict(chosen)
            try:
                self._choose(tool, known, trial, (*path, tool))
            except GraphError as error:
                reason = error
                continue
            chosen.update(trial)
            return tool
        raise reason


def _orders(before: Mapping[str, set[str]], done: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if len(done) == len(before):
        yield done
        return
    for tool in sorted(before):
        if tool not in done and before[tool] <= set(done):
            yield from _orders(before, (*done, tool))


def value_in(data: JSON, name: str, inputs: Mapping[str, JSON]) -> JSON:
    """The value that a result gives under `name`: a member of its own, else the one that stands anywhere inside.

    Of several objects with such a member those count whose other members agree with the inputs, if there are any: of
    three holdings, the one with the symbol asked for. Raises LookupError for none, and for several different values.
    """
    if isinstance(data, dict) and name in data:
        return data[name]
    objects = [value for _, value in nodes(data) if isinstance(value, dict) and name in value]
    agreeing = [each for each in objects if any(each.get(key) == given for key, given in inputs.items())]
    values = list({repr(each[name]): each[name] for each in agreeing or objects}.values())
    if len(values) == 1:
        return values[0]
    if not values:
        raise LookupError(f"its result has no {name}")
    raise LookupError(f"its result has several {name}; give the right one, or ask which is meant")
