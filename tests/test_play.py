"""A person can play: calls in both forms, hints that lead to full marks, and a polite end whatever happens."""

import io

import pytest

from data.build import rows as build_rows
from data.oracle import call_text
from evaluation import players
from scripts import play

SEED = ["--kind", "1", "--language", "en", "--seed", "3"]
ROW = play.chosen("hr", 1, "en", 3)
TOOLS = ROW.open().tools
TURNS = [turn.text for turn in players.play(ROW, players.Oracle()).turns]


def game(monkeypatch, capsys, *lines, words=SEED):
    """Exit status and what was printed for these lines of input."""
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return play.main(words), capsys.readouterr().out


def test_the_question_is_the_one_asked_for():
    assert (ROW.task.kind, ROW.task.language) == (1, "en")
    assert play.chosen("hr", 1, "en", 3) == ROW != play.chosen("hr", 1, "en", 4)
    assert play.chosen("weather", None, "zh", 0).task.domain == "weather"
    with pytest.raises(ValueError, match="no kind 99"):
        play.chosen("hr", 99, None, 0)


def test_the_oracles_turns_win(monkeypatch, capsys):
    status, shown = game(monkeypatch, capsys, *TURNS)
    assert status == 0 and "SCORE  1.000  clean success" in shown and ROW.input in shown
    assert shown.count('"status":"success"') == len(TURNS) - 1
    assert all(f"turn {number}  +" in shown for number in range(1, len(TURNS) + 1))
    assert all(tool["function"]["name"] in shown for tool in TOOLS)


def test_following_hints_wins_even_after_a_detour():
    for row in build_rows("eval", 20, 1):
        episode = row.open()
        if row.task.rubric["calls"] != "none":
            players.take_turn(episode, call_text("mcp_employee_search", {"name": "Nobody Atall"}))
        while not episode.done:
            players.take_turn(episode, play.hint(row, episode))
        verdict = play.verdict(row, episode.trajectory())
        assert "success  (answered)" in verdict and "no success" not in verdict


def test_the_short_form_is_the_call_a_model_writes():
    assert play.turn_text("mcp_employee_search name='Li Wei'", TOOLS) == call_text(
        "mcp_employee_search", {"name": "Li Wei"}
    )
    assert play.turn_text("plugin_org_query emp_id=0042", TOOLS) == call_text("plugin_org_query", {"emp_id": "0042"})
    for line in (TURNS[0], "Nobody of that name.", "plugin_org_queries emp_id=1"):
        assert play.turn_text(line, TOOLS) == line


def test_what_cannot_be_played_costs_no_turn(monkeypatch, capsys):
    bad = ["", ":help", "mcp_employee_search Li", 'mcp_employee_search name="Li', ":hint"]
    status, shown = game(monkeypatch, capsys, *bad, *TURNS)
    assert status == 0 and "SCORE  1.000" in shown
    assert shown.count("not played: ") == 2 and "there are :hint, :quit" in shown and TURNS[0] in shown


def test_a_failure_says_why_and_what_would_have_been_right(monkeypatch, capsys):
    status, shown = game(monkeypatch, capsys, "3 days of leave; the manager's email is a.b@corp.example.")
    assert status == 0 and "SCORE  0.000  no success" in shown and "skipped_tool" in shown
    assert all(turn in shown for turn in TURNS)


@pytest.mark.parametrize("lines", [[], [TURNS[0]], [":quit"], [TURNS[0], ":quit"]])
def test_leaving_is_polite(monkeypatch, capsys, lines):
    status, shown = game(monkeypatch, capsys, *lines)
    assert status == 0 and shown.endswith("left before an answer\n") and "SCORE" not in shown


def test_an_interrupt_is_polite(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    assert play.main(SEED) == 130
    assert capsys.readouterr().out.endswith("left before an answer\n")


def test_nothing_to_play_is_one_line(capsys):
    assert play.main(["--kind", "99"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "line, expected",
    [
        ("mcp", ["mcp_employee_search "]),
        (":", [":hint", ":quit"]),
        ("plugin_org_query ", ["emp_id="]),
        ("plugin_leave_query emp_id=1 st", ["start_date="]),
        ("plugin_leave_query emp_id=1 emp", []),
        ("Nobody of", []),
    ],
)
def test_completion(line, expected):
    assert play.completions(line, TOOLS) == expected


def test_every_argument_of_every_tool_is_completed():
    for tool in TOOLS:
        function = tool["function"]
        found = play.completions(f"{function['name']} ", TOOLS)
        assert found == [f"{name}=" for name in function["parameters"]["properties"]]
