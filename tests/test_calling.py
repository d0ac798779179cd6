"""Measures of calls, each on trajectories made by hand."""

from dataclasses import replace

import pytest

from data.build import rows as build_rows
from data.oracle import call_text, oracle_turn
from env.registry import NOT_REGISTERED
from env.types import ErrorCode, ToolResult
from evaluation import players
from evaluation.calling import called, calling
from evaluation.scoring import record_of, rubric_of
from rewards import grounded

ROWS = list(build_rows("eval", 40, 0))
ROW = next(row for row in ROWS if row.task.kind == 1)  # search, then leave and org
CHAT = next(row for row in ROWS if row.task.kind == 26)  # needs no call
SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"
RUBRICS = {row.task.id: rubric_of(row, row.reference_output) for row in ROWS}
BROKEN = '<tool_call>{"name":"mcp_employee_search","arguments":{'
WRONG_NAME = call_text(SEARCH, {"name": "Nobody Atall"})
UNKNOWN = call_text("get_id", {"name": "x"})
GUESS = call_text(ORG, {"emp_id": "77777"})


def oracle(row, episode):
    return oracle_turn(row.task, episode)


def searched(row, episode):
    return call_text(SEARCH, {"name": row.task.mention})


def a_leave(row, episode, **more):
    given = {"emp_id": episode.steps[0].result.data["matches"][0]["emp_id"], "start_date": row.task.period[1]}
    return call_text(LEAVE, {**given, "end_date": row.task.period[2], **more})


def half_a_leave(row, episode):
    return a_leave(row, episode, end_date=None)


def found_in(row, texts):
    """The measures of an episode that these texts (or functions of row and episode) make, ended by an answer."""
    episode = row.open(max_turns=20)
    for text in [*texts, "?"]:
        players.take_turn(episode, text if isinstance(text, str) else text(row, episode))
    trajectory = episode.trajectory()
    rubric = RUBRICS[row.task.id]
    return called(trajectory, rubric, grounded.score(trajectory, rubric).earned), trajectory


CASES = {  # texts -> right calls, calls; right arguments, arguments; early, dependent; wasted
    "the oracle": ([oracle, oracle, oracle], (3, 3), (5, 5), (0, 2), 0),
    "nothing": ([], (0, 0), (0, 0), (0, 0), 0),
    "a wrong name first": ([WRONG_NAME, searched], (1, 2), (1, 2), (0, 0), 1),
    "the same success again": ([searched, searched], (1, 2), (2, 2), (0, 0), 1),
    "a guess before the search": ([GUESS, searched], (1, 2), (1, 2), (1, 1), 1),
    "search and guess in one message": ([lambda *each: searched(*each) + GUESS], (1, 2), (1, 2), (1, 1), 1),
    "an argument left out": ([searched, half_a_leave], (1, 2), (3, 4), (0, 1), 1),
    "an argument too many": ([searched, lambda *each: a_leave(*each, leave_type="sick")], (1, 2), (4, 5), (0, 1), 1),
    "a tool that does not exist": ([UNKNOWN, searched], (1, 2), (1, 1), (0, 0), 1),
    "a call that cannot be read": ([BROKEN, searched], (1, 2), (1, 1), (0, 0), 1),
    "an empty call": ([call_text(SEARCH, {})], (0, 1), (0, 1), (0, 0), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_measures(name):
    texts, calls, arguments, early, wasted = CASES[name]
    found, _ = found_in(ROW, texts)
    assert (sum(ok for _, ok in found.calls), len(found.calls)) == calls
    assert (sum(given.right for given in found.given), len(found.given)) == arguments
    assert (found.early, found.dependent) == early
    assert found.wasted == wasted


def test_a_call_of_a_tool_that_the_task_does_not_need_is_made_but_has_no_arguments_to_judge():
    found, _ = found_in(CHAT, [WRONG_NAME])
    assert found.calls == ((SEARCH, False),) and not found.given and found.wasted == 1


def test_a_right_call_that_failed_may_be_made_again():
    _, trajectory = found_in(ROW, [searched, searched])
    first, second = trajectory.steps
    failed = replace(first, result=ToolResult.error(ErrorCode.BUSINESS_ERROR, "try again"))
    repaired = replace(trajectory, steps=(failed, second))
    assert called(repaired, RUBRICS[ROW.task.id], {"search": 1}).calls == ((SEARCH, True), (SEARCH, True))


def test_a_made_up_tool_has_one_name_whatever_it_was_called():
    found, _ = found_in(ROW, [UNKNOWN, BROKEN])
    assert [tool for tool, _ in found.calls] == [NOT_REGISTERED, NOT_REGISTERED]


def test_the_oracle_calls_rightly_and_the_silent_policy_not_at_all():
    numbers = calling([record_of(row, players.play(row, players.Oracle())) for row in ROWS], RUBRICS)
    assert numbers["call_accuracy"]["rate"] == numbers["argument_accuracy"]["rate"] == 1.0
    assert numbers["order_violations"]["rate"] == numbers["wasted_calls"] == 0.0
    assert numbers["order_violations"]["n"] > 20
    silent = calling([record_of(row, players.play(row, players.Silent())) for row in ROWS], RUBRICS)
    assert silent["call_accuracy"]["rate"] is None and silent["wasted_calls"] == 0.0


def test_groups_tools_and_arguments_add_up():
    records = [record_of(row, players.play(row, players.Random(3))) for row in ROWS]
    numbers = calling([*records, replace(records[0], score=None, failure=None)], RUBRICS)
    assert numbers["call_accuracy"]["n"] == sum(len(item.payload["trajectory"]["steps"]) for item in records) - sum(
        step["type"] == "llm" for item in records for step in item.payload["trajectory"]["steps"]
    )
    for groups in ("by_kind", "by_language", "by_depth", "by_split", "by_fault"):
        for measure in ("call_accuracy", "argument_accuracy", "order_violations"):
            for part in ("count", "n"):
                parts = sum(group[measure][part] for group in numbers[groups].values())
                assert parts == numbers[measure][part]
    for table, measure in (("tools", "call_accuracy"), ("arguments", "argument_accuracy")):
        assert sum(each["n"] for each in numbers[table].values()) == numbers[measure]["n"]
    steps = [step for rubric in RUBRICS.values() for step in rubric.steps]
    assert set(numbers["arguments"]) <= {f"{step.tool}.{each.name}" for step in steps for each in step.arguments}
