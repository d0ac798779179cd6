"""The graph of tools: plans, orders and what is missing, on the real contracts and on toys."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.contract import ToolContract
from env.domains import hr
from env.graph import GraphError, ToolGraph
from env.types import JSON, ErrorCode, ToolResult

OPEN = {"type": "object", "additionalProperties": False}


def tool(name: str, requires: str = "", produces: str = "", compensate: str | None = None) -> ToolContract:
    return ToolContract(
        name, "A toy.", OPEN, {"type": "object"}, Path("toy.yaml"), requires=tuple(requires.split()),
        produces=tuple(produces.split()), compensate=compensate,
    )  # fmt: skip


DIAMOND = [
    tool("portfolio", "user", "holdings"),
    tool("price", "symbol", "quote"),
    tool("profit", "holdings quote", "gain"),
    tool("report", "gain", "text"),
]


def test_the_source_scenario_is_search_and_then_both_at_once() -> None:
    registry = hr.registry()
    graph = ToolGraph(registry.contract(name) for name in registry.names)
    plan = graph.plan(["leave_records", "manager"])
    assert plan.stages == (("mcp_employee_search",), ("plugin_leave_query", "plugin_org_query"))
    assert len(list(graph.orders(plan))) == 2
    assert graph.missing("plugin_org_query", []) == {"emp_id"}
    assert graph.plan(["manager"], known=["emp_id"]).stages == (("plugin_org_query",),)


def test_independent_branches_share_a_stage() -> None:
    plan = ToolGraph(DIAMOND).plan(["text"], known=["user", "symbol"])
    assert plan.stages == (("portfolio", "price"), ("profit",), ("report",))
    assert plan.needs == {"user", "symbol"}


def test_a_circle_is_refused_with_its_path() -> None:
    with pytest.raises(GraphError, match=r"circle: (a -> b -> a|b -> a -> b)"):
        ToolGraph([tool("a", "y", "x"), tool("b", "x", "y")])


def test_what_cannot_be_reached_is_refused_with_the_chain() -> None:
    chain = "text <- report <- gain <- profit <- quote <- price <- symbol"
    with pytest.raises(GraphError, match=f"nothing gives 'symbol': {chain}"):
        ToolGraph(DIAMOND).plan(["text"], known=["user"])
    with pytest.raises(GraphError, match="nothing gives 'moon'"):
        ToolGraph(DIAMOND).plan(["moon"])
    with pytest.raises(GraphError, match="no tool 'x'"):
        ToolGraph(DIAMOND).missing("x", [])


def test_of_two_producers_one_that_can_be_reached_is_taken() -> None:
    graph = ToolGraph([tool("a_needs_more", "secret", "x"), tool("b_needs_nothing", "", "x"), tool("goal", "x", "y")])
    assert graph.plan(["y"]).order == ("b_needs_nothing", "goal")


@st.composite
def layered(draw: st.DrawFn) -> list[ToolContract]:
    """Tools that need only what earlier ones give: no circles."""
    tools = []
    for index in range(draw(st.integers(1, 6))):
        needs = draw(st.sets(st.integers(0, index - 1))) if index else set()
        tools.append(tool(f"t{index}", " ".join(f"v{each}" for each in needs), f"v{index}"))
    return tools


@given(layered(), st.data())
def test_every_plan_respects_what_its_tools_need(tools: list[ToolContract], data: st.DataObject) -> None:
    graph = ToolGraph(tools)
    goal = data.draw(st.sampled_from([each.name for each in tools]))
    plan = graph.plan([goal])
    known: set[str] = set()
    for stage in plan.stages:
        assert all(not graph.missing(each, known) for each in stage)
        known |= {value for each in stage for value in graph.contracts[each].produces}
    assert goal in plan.order
    legal = {
        order
        for order in permutations(plan.order)
        if all(
            f"t{value[1:]}" in order[: order.index(each)] for each in order for value in graph.contracts[each].requires
        )
    }
    assert set(graph.orders(plan)) == legal


def arguments(contract: ToolContract, known: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: known[name] for name in contract.requires}


def test_a_plan_runs_and_gathers_what_it_finds() -> None:
    seen: list[tuple[str, Any]] = []

    def call(name: str, given: dict[str, JSON]) -> ToolResult:
        seen.append((name, given))
        return ToolResult.success({value: f"{name}'s {value}" for value in graph.contracts[name].produces})

    graph = ToolGraph(DIAMOND)
    run = graph.run(["text"], {"user": "u", "symbol": "s"}, call, arguments)
    assert run.failed is None and run.known["text"] == "report's text"
    assert seen[-1] == ("report", {"gain": "profit's gain"})
    assert sorted(seen[:2]) == [("portfolio", {"user": "u"}), ("price", {"symbol": "s"})]


def test_after_a_failure_what_was_done_is_undone_in_reverse() -> None:
    graph = ToolGraph(
        [
            tool("book", "", "booking", compensate="cancel"),
            tool("pay", "booking", "receipt", compensate="refund"),
            tool("print", "receipt", "ticket"),
            tool("cancel", "booking"),
            tool("refund", "receipt"),
        ]
    )
    called: list[str] = []

    def call(name: str, given: dict[str, JSON]) -> ToolResult:
        called.append(name)
        if name == "print":
            return ToolResult.error(ErrorCode.UNAVAILABLE, "no paper")
        return ToolResult.success({value: 1 for value in graph.contracts[name].produces})

    run = graph.run(["ticket"], {}, call, arguments)
    assert called == ["book", "pay", "print", "refund", "cancel"]
    assert (run.failed, run.undone) == ("print", ("pay", "book"))
