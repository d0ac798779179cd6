"""Which tools a run offers: allow-lists, the nearest of a large catalogue, and a preflight that refuses too few."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from data.build import rows
from data.schema import Row
from env.contract import ToolContract
from env.domains import domain
from env.registry import Registry, Tool
from env.retrieval import nearest
from env.surface import Surface
from eval import main as evaluate
from evaluation.players import Oracle, play
from evaluation.scoring import rubric_of
from rewards import grounded


def catalogue(*names: str) -> list[ToolContract]:
    registry = domain("hr").registry()
    return [replace(registry.contract("plugin_org_query"), name=name, requires=(), produces=()) for name in names]


def offered(row: Row, surface: Surface) -> list[str]:
    return [tool["function"]["name"] for tool in row.open(surface=surface).tools]


ROW = next(row for row in rows("train", 100, 5) if row.task.kind == 2)


def test_an_allow_list_hides_the_other_tools_from_prompt_and_registry() -> None:
    surface = Surface(allowed=("mcp_employee_search", "plugin_org_query"))
    assert offered(ROW, surface) == ["mcp_employee_search", "plugin_org_query"]
    [text] = ROW.open(surface=surface).play('<tool_call>{"name":"plugin_leave_query","arguments":{}}</tool_call>') or []
    assert "tool_not_found" in text
    with pytest.raises(ValueError, match="no tool 'salary'"):
        ROW.open(surface=Surface(allowed=("salary",)))


def test_an_allow_list_may_name_tools_of_several_domains() -> None:
    surface = Surface(allowed=("plugin_org_query", "get_weather"))
    weather = next(iter(rows("train", 1, 5, domain="weather")))
    assert offered(ROW, surface) == ["plugin_org_query"]
    assert offered(weather, surface) == ["get_weather"]


def test_a_tool_that_nobody_has_is_one_line_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--policy", "oracle", "--rows", "2", "--tools", "salary", "--out", str(tmp_path / "run")]
    assert evaluate(words) == 2
    assert "error: --tools: no tool 'salary'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_nearest_tools_are_found_by_name_and_by_description_in_both_languages() -> None:
    hr = [domain("hr").registry().contract(name) for name in domain("hr").registry().names]
    many = [*catalogue(*(f"other_tool_{number}" for number in range(300))), *hr]
    assert nearest(many, "Which leave records does this employee have between two dates?", 1)[0] == "plugin_leave_query"
    chinese = [replace(each, description=text) for each, text in zip(catalogue("a", "b", "c"), TOLD, strict=True)]
    assert nearest(chinese, "帮我查一下他的请假天数", 1) == ("b",)
    assert nearest(chinese, "工资什么时候发", 1) == ("c",)


TOLD = ("查询员工的汇报关系。", "查询员工在某段时间的请假记录。", "查询工资的发放日期。")


def test_what_a_found_tool_requires_comes_with_it() -> None:
    hr = [domain("hr").registry().contract(name) for name in domain("hr").registry().names]
    assert nearest(hr, "leave records", 1) == ("plugin_leave_query", "mcp_employee_search")


def test_a_question_that_matches_nothing_gets_the_first_by_the_alphabet() -> None:
    assert nearest(catalogue("b", "c", "a"), "???", 2) == ("a", "b")


def test_rows_are_solved_on_the_tools_that_their_questions_find() -> None:
    """English rows: the contracts are described in English."""
    found = [row for row in rows("eval", 200, 3) if row.task.language == "en" and row.task.rubric["steps"]]
    surface = Surface(top_k=2)
    needed = [{step["tool"] for step in row.task.rubric["steps"]} for row in found]
    enough = [row for row, tools in zip(found, needed, strict=True) if tools <= set(offered(row, surface))]
    assert len(enough) > 0.5 * len(found)
    for row in enough:
        played = play(row, Oracle(), surface=surface)
        score = grounded.score(played, rubric_of(row, played.reference_output))
        assert score is not None and score.success


def test_joining_leaves_the_registry_alone_and_refuses_a_taken_name() -> None:
    registry = Registry([Tool(catalogue("one")[0], lambda world, emp_id: {})])
    more = registry.joined(Tool(catalogue("two")[0], lambda world, emp_id: {}))
    assert (registry.names, more.names) == (("one",), ("one", "two"))
    with pytest.raises(Exception, match="taken"):
        more.joined(Tool(replace(catalogue("two")[0], path=Path("x.yaml")), lambda world, emp_id: {}))


def test_a_run_says_which_tools_it_offered() -> None:
    assert str(Surface()) == ""
    assert str(Surface(("a", "b"), 3, True)) == "tools a,b; the 3 nearest; run_plan"
    with pytest.raises(ValueError, match="top_k"):
        Surface(top_k=-1)
