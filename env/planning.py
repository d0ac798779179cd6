"""`run_plan`, one tool that runs a plan over the others: the model names goals, the graph finds the calls.

The plan passes values on from result to argument. Its calls are ordinary calls of the same registry, and an episode
records each of them as a step, marked with its stage: readers see what ran, as if the model had called stage by stage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from env.contract import ToolContract
from env.graph import GraphError, Run, ToolGraph
from env.provenance import PLAN
from env.registry import Outcome, Registry, Tool
from env.types import JSON, ErrorCode, ToolCall, ToolError, ToolResult

NAME = "run_plan"


@dataclass(frozen=True, slots=True)
class Planned:
    """One call of a plan, with its stage in the result's metadata."""

    call: ToolCall
    outcome: Outcome


class Planner:
    """Plans over one episode's tools. registry: bound to its world. Raises GraphError where its tools form a circle."""

    def __init__(self, registry: Registry):
        self._registry = registry
        self._graph = ToolGraph(registry.contract(name) for name in registry.names)
        self._calls: list[Planned] = []
        self._guessed: frozenset[str] = frozenset()
        self._stages: Mapping[str, int] = {}

    def tool(self) -> Tool:
        """What the model is offered."""
        return Tool(contract(), self.run)

    def taken(self) -> tuple[Planned, ...]:
        """The calls of the last plan, in the order in which they ran; asked a second time, none."""
        calls, self._calls = tuple(self._calls), []
        return calls

    def run(self, world: object, goals: list[str], inputs: dict[str, JSON]) -> JSON:
        """Execute the plan. Raises ToolError: what stopped it, and the results so far."""
        try:
            plan = self._graph.plan(goals, inputs)
        except GraphError as error:
            raise ToolError(
                ErrorCode.INVALID_ARGUMENTS, f"goals: {error}; tools: {', '.join(self._graph.contracts)}"
            ) from error
        self._check(plan.order, inputs)
        self._stages = {tool: stage for stage, tools in enumerate(plan.stages) for tool in tools}
        derived = {value for each in self._graph.contracts.values() for value in each.produces}
        self._guessed = frozenset(derived & inputs.keys())
        run = self._graph.run(goals, inputs, self._call, arguments, threads=1)
        results = {tool: result.data for tool, result in run.results.items() if result.ok}
        if run.failed is None:
            return {"results": results}
        raise _stopped(run, results)

    def _check(self, tools: tuple[str, ...], inputs: Mapping[str, JSON]) -> None:
        """Before anything runs: whether every required argument is given, or produced on the way."""
        produced = {value for tool in tools for value in self._graph.contracts[tool].produces}
        for tool in tools:
            required = self._graph.contracts[tool].input_schema.get("required", ())
            if lacking := [name for name in required if name not in inputs and name not in produced]:
                raise ToolError(ErrorCode.INVALID_ARGUMENTS, f"inputs: {tool} needs {', '.join(lacking)}")

    def _call(self, tool: str, given: dict[str, JSON]) -> ToolResult:
        outcome = self._registry.call(ToolCall(tool, given))
        # Values that a tool would give, but the model gave, count as known from the start: they may be guesses.
        stage = 0 if self._guessed & given.keys() else self._stages.get(tool, max(self._stages.values()) + 1)
        marked = replace(outcome.result, metadata={**outcome.result.metadata, PLAN: stage})
        self._calls.append(Planned(ToolCall(tool, given), replace(outcome, result=marked)))
        return outcome.result


@lru_cache(maxsize=1)
def contract() -> ToolContract:
    return ToolContract.load(Path(__file__).with_name("run_plan.yaml"))


def arguments(contract: ToolContract, known: Mapping[str, JSON]) -> dict[str, JSON]:
    """The declared arguments that are known."""
    return {name: known[name] for name in contract.input_schema.get("properties", {}) if name in known}


def _stopped(run: Run, results: Mapping[str, JSON]) -> ToolError:
    failed = run.results[run.failed or ""]
    code = failed.code or ErrorCode.NOT_FOUND
    detail = f"{run.failed}: {run.reason or failed.message.removeprefix(f'{code}: ')}"
    detail += f"; undone: {', '.join(run.undone)}" if run.undone else ""
    return ToolError(
        code, f"{detail}; results so far: {json.dumps(results, ensure_ascii=False, separators=(',', ':'))}"
    )
