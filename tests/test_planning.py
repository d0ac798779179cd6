"""`run_plan`: one message, several calls, recorded and scored as if the model had called stage by stage."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from data.build import rows
from data.oracle import call_text
from data.schema import Row
from env.domains import domain
from env.episode import Episode
from env.planning import NAME, Planner
from env.provenance import PLAN, unfolded
from env.surface import Surface
from env.types import ErrorCode, Trajectory
from evaluation.players import Oracle, Silent, play
from evaluation.scoring import rubric_of
from rewards import grounded
from rewards.score import Breach, Score

PLANS = Surface(plan=True)


def of_kind(kind: int) -> Row:
    return next(row for row in rows("train", 200, 5) if row.task.kind == kind and row.task.language == "en")


def scored(row: Row, trajectory: Trajectory) -> Score:
    score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
    assert score is not None
    return score


def plan(goals: list[str], **inputs: str) -> str:
    return call_text(NAME, {"goals": goals, "inputs": inputs})


def opened(row: Row) -> Episode:
    return row.open("fresh", surface=PLANS)


def dates(row: Row) -> dict[str, str]:
    assert row.task.period is not None
    return {"start_date": row.task.period[1], "end_date": row.task.period[2]}


def test_run_plan_is_offered_only_where_a_run_switches_it_on() -> None:
    row = of_kind(1)
    names = [tool["function"]["name"] for tool in opened(row).tools]
    assert NAME in names
    assert NAME not in [tool["function"]["name"] for tool in row.open().tools]
    assert row.open().play(call_text(NAME, {"goals": ["x"], "inputs": {}})) == [
        '{"status":"error","message":"tool_not_found: no tool \'run_plan\'; available: '
        'mcp_employee_search, plugin_leave_query, plugin_org_query"}'
    ]


def test_one_message_runs_the_source_scenario_and_earns_all_of_it() -> None:
    row = of_kind(1)
    played = play(row, Oracle(), "fresh", surface=PLANS)
    assert len(played.turns) == 2
    assert [(step.name, step.result.metadata[PLAN]) for step in played.steps] == [
        ("mcp_employee_search", 0),
        ("plugin_leave_query", 1),
        ("plugin_org_query", 1),
    ]
    assert [step.call for step in played.steps] == [0, 1, 2]
    score = scored(row, played)
    assert score.success and score.clean and score.total == 1.0
    assert len(score.increments) == 2 and sum(score.increments) == 1.0
    assert set(score.earned.values()) == {0}


@pytest.mark.parametrize("surface", [Surface(), PLANS])
def test_with_and_without_plans_the_perfect_player_scores_one_and_silence_nothing(surface: Surface) -> None:
    for row in rows("eval", 60, 3):
        assert scored(row, play(row, Oracle(), "fresh", surface=surface)).total == 1.0
        assert scored(row, play(row, Silent(), "fresh", surface=surface)).total == 0.0


def test_the_record_survives_the_exchange_format() -> None:
    row = of_kind(1)
    played = play(row, Oracle(), "fresh", surface=PLANS)
    read = Trajectory.from_payload(json.dumps(played.to_payload()))
    assert read == played
    assert scored(row, read) == scored(row, played)


def test_a_record_without_turns_is_scored_as_well() -> None:
    """As another platform may hand it over: tool steps with their metadata, no texts, the answer known."""
    row = of_kind(1)
    played = play(row, Oracle(), "fresh", surface=PLANS)
    score = scored(row, replace(played, turns=()))
    assert score.success and sum(score.increments) == score.total


def test_the_model_reads_all_results_at_once() -> None:
    row, episode = of_kind(1), opened(of_kind(1))
    [text] = episode.play(plan(["plugin_org_query"], name=str(row.task.mention))) or []
    told = json.loads(text)
    assert told["status"] == "success"
    assert set(told["data"]["results"]) == {"mcp_employee_search", "plugin_org_query"}


def test_a_guessed_id_given_to_a_plan_stays_a_guess() -> None:
    """Even where another call of the same plan happens to show that id: the model could not know it."""
    row, episode = of_kind(1), opened(of_kind(1))
    right = episode.reference_output
    goals = ["mcp_employee_search", "plugin_org_query", "plugin_leave_query"]
    episode.play(plan(goals, name=str(row.task.mention), emp_id=right, **dates(row)))
    episode.play("")
    score = scored(row, episode.trajectory())
    assert Breach.UNGROUNDED_VALUE in {violation.breach for violation in score.violations}
    assert not score.success and set(score.earned) == {"search"}


def test_a_call_beside_a_plan_does_not_profit_from_what_the_plan_finds() -> None:
    row, episode = of_kind(1), opened(of_kind(1))
    beside = call_text("plugin_org_query", {"emp_id": episode.reference_output})
    episode.play(plan(["mcp_employee_search"], name=str(row.task.mention)) + beside)
    episode.play("")
    assert set(scored(row, episode.trajectory()).earned) == {"search"}


# What the model asked for, and what it is told.
REFUSED = {
    "an unknown goal": (["plugin_salary"], {"name": "x"}, "invalid_arguments: goals: nothing gives 'plugin_salary'"),
    "an argument that nobody gives": (["plugin_leave_query"], {"name": "x"}, "needs start_date, end_date"),
    "a person who is not there": (
        ["plugin_org_query"],
        {"name": "Nobody Atall"},
        "not_found: mcp_employee_search: its ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_stops_a_plan_is_told(case: str) -> None:
    goals, inputs, message = REFUSED[case]
    [text] = opened(of_kind(1)).play(plan(goals, **inputs)) or []
    told = json.loads(text)
    assert told["status"] == "error" and message in told["message"]


def test_a_refused_plan_is_recorded_as_one_failed_call() -> None:
    episode = opened(of_kind(1))
    episode.play(plan(["plugin_salary"], name="x"))
    [step] = episode.steps
    assert (step.name, step.result.code) == (NAME, ErrorCode.INVALID_ARGUMENTS)


def test_of_several_values_the_one_that_fits_the_inputs_is_passed_on() -> None:
    """An account holds three shares; the symbol says whose quantity and cost price the calculation takes."""
    finance = domain("finance")
    registry = finance.registry().bind(finance.open_world({"seed": 4}, "2026-06-03T09:00:00+08:00", ""))
    [_, wanted, _] = registry.tool_call("get_portfolio", account="A-1027").data["holdings"]
    planner = Planner(registry)
    planner.run(None, ["calculate_profit"], {"account": "A-1027", "symbol": wanted["symbol"]})
    last = planner.taken()[-1]
    assert last.call.name == "calculate_profit"
    assert last.call.arguments["quantity"] == wanted["quantity"]
    assert planner.taken() == ()


def test_without_plans_nothing_is_unfolded() -> None:
    assert unfolded(play(of_kind(1), Oracle())) is None
