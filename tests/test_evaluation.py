"""Players bracket the scale, every failure has its class, numbers match published ones, a report is safe to open."""

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from data.build import rows as build_rows
from data.oracle import answer_text, call_text, oracle_turn
from env.types import StopReason
from eval import main
from evaluation import players, run
from evaluation.intervals import rate, wilson
from evaluation.record import Record, RecordError, Writer, read_records
from evaluation.report import write_report
from evaluation.report.selection import choose
from evaluation.scoring import record_of, rubric_of
from evaluation.stats import compare, mcnemar, paired_interval, summary
from evaluation.taxonomy import FailureClass, classify
from rewards import grounded

ROOT = Path(__file__).resolve().parents[1]
ROWS = list(build_rows("eval", 120, 0))
SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"


def row_of(kind, language="zh", ask=None):
    return next(
        row for row in ROWS if row.task.kind == kind and row.task.language == language and ask in (None, row.task.ask)
    )


def record(row, player):
    return record_of(row, players.play(row, player), sampled_tokens=10)


# Players


def test_the_oracle_succeeds_cleanly_on_every_row():
    records = [record(row, players.Oracle()) for row in ROWS]
    assert all(item.score["total"] == 1.0 and item.score["clean"] and item.failure is None for item in records)


def test_the_silent_policy_gets_nothing():
    records = [record(row, players.Silent()) for row in ROWS]
    assert all(item.score["total"] == 0.0 and item.failure.kind is FailureClass.GAVE_UP for item in records)


def test_the_random_policy_never_crashes_and_fails_in_classes():
    records = [record(row, players.Random(seed)) for seed in range(2) for row in ROWS[:60]]
    assert all((item.failure is None) == item.success for item in records)
    assert sum(item.success for item in records) < 0.02 * len(records)
    assert all(item.failure is None or 0 <= item.failure.turn < players.MAX_TURNS for item in records)


def test_a_random_turn_depends_on_seed_and_row_alone():
    forward = {row.task.id: players.play(row, players.Random(1)) for row in ROWS[:20]}
    backward = {row.task.id: players.play(row, players.Random(1)) for row in reversed(ROWS[:20])}
    assert forward == backward
    assert any(players.play(row, players.Random(2)) != forward[row.task.id] for row in ROWS[:20])


# Taxonomy: each case plays texts (or functions of row and episode) on a row and names the class and its evidence


def oracle(row, episode):
    return oracle_turn(row.task, episode)


def search(row, episode):
    return call_text(SEARCH, {"name": row.task.mention})


def found_id(episode):
    return episode.steps[0].result.data["matches"][0]["emp_id"]


def leave(emp_id=None, first=None, last=None):
    def text(row, episode):
        start, end = row.task.period[1:] if row.task.period else ("2025-03-03", "2025-03-09")
        given = {"emp_id": emp_id or found_id(episode), "start_date": first or start, "end_date": last or end}
        return call_text(LEAVE, given)

    return text


def search_and_leave_blindly(row, episode):
    return search(row, episode) + leave(row.reference_output)(row, episode)


def right_answer(row, episode):
    needed = [step["tool"] for step in row.task.rubric["steps"]]
    return answer_text(row.task, [next(s.result.data for s in reversed(episode.steps) if s.name == t) for t in needed])


INVENTED = "请假3天，直属主管邮箱是li.wei@corp.example。"
BROKEN = '<tool_call>{"name":"mcp_employee_search","arguments":{'
FAR = ("2031-01-06", "2031-01-12")
CASES = {
    "invents": (1, [INVENTED], "skipped_tool", 0, None, SEARCH),
    "is right by luck": (19, ["没有请假。"], "skipped_tool", 0, None, SEARCH),
    "goes on with an invented id": (3, [leave("77777"), "请假了。"], "skipped_tool", 0, 0, "77777"),
    "finds the id, skips the rest": (1, [search, INVENTED], "skipped_tool", 1, None, LEAVE),
    "claims not found unchecked": (10, ["查无此人。"], "skipped_tool", 0, None, SEARCH),
    "undeclared tool": (4, [call_text("get_id", {}), "不知道"], "wrong_tool", 0, 0, "get_id"),
    "another tool instead": (2, [search, leave(), "李伟是主管。"], "wrong_tool", 1, 0, LEAVE),
    "goes on where nobody was found": (10, [oracle, leave("77777"), "查无此人。"], "wrong_tool", 1, 0, LEAVE),
    "calls for small talk": (26, [call_text(SEARCH, {"name": "你"}), "好"], "wrong_tool", 0, 0, SEARCH),
    "another id": (1, [search, leave("77777"), INVENTED], "id_not_passed", 1, 0, "77777"),
    "no id": (3, [search, call_text(LEAVE, {}), "请假了。"], "id_not_passed", 1, 0, "null"),
    "wrong id given": (5, [leave("77777"), "没有请假。"], "id_not_passed", 0, 0, "77777"),
    "blind": (3, [search_and_leave_blindly, right_answer], "wrong_path", 0, 1, None),
    "right by luck over wrong dates": (19, [search, leave(None, *FAR), right_answer], "wrong_path", 1, 0, None),
    "wrong dates": (13, [search, leave(None, *FAR), right_answer], "wrong_arguments", 1, 0, f"start_date = {FAR[0]}"),
    "wrong name": (4, [call_text(SEARCH, {"name": "无此人"}), "查无此人"], "wrong_arguments", 0, 0, "name = 无此人"),
    "wrong answer": (2, [oracle, oracle, "主管的邮箱是x@y.example"], "wrong_answer", 2, None, "email"),
    "chats and invents": (26, [INVENTED], "wrong_answer", 0, None, "li.wei@corp.example"),
    "says nothing": (1, [search, "抱歉，我不清楚。"], "gave_up", 1, None, "抱歉，我不清楚。"),
    "says nothing at the end": (1, [oracle, oracle, oracle, ""], "gave_up", 3, None, ""),
    "unreadable": (1, [BROKEN, ""], "malformed_call", 0, 0, None),
    "never stops": (1, [search] * players.MAX_TURNS, "truncated", 5, None, "turn_limit"),
    "never answers": (4, [search] * players.MAX_TURNS, "truncated", 5, None, "turn_limit"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_failure_classes(name):
    kind, texts, expected, turn, call, value = CASES[name]
    ask = {2: "manager_email"}.get(kind)
    found = failure_of(row_of(kind, ask=ask), texts)
    assert (found.kind, found.turn, found.call) == (expected, turn, call)
    assert value is None or found.value == value


def failure_of(row, texts):
    episode = row.open()
    for text in texts:
        episode.play(text if isinstance(text, str) else text(row, episode))
    trajectory = episode.trajectory()
    rubric = rubric_of(row, trajectory.reference_output)
    return classify(trajectory, rubric, grounded.score(trajectory, rubric))


def test_a_repaired_detour_does_not_name_the_class():
    found = failure_of(row_of(1), [call_text("lookup", {}), BROKEN, search, "抱歉"])
    assert found.kind is FailureClass.GAVE_UP


# Records


def some_records(count=6):
    return [record(row, players.Random(0)) for row in ROWS[:count]]


def test_records_come_back_equal_and_readable():
    for item in some_records(30):
        back = Record.from_json(item.to_json())
        assert back.to_json() == item.to_json()
        assert (back.key, back.failure, back.success) == (item.key, item.failure, item.success)
    assert any("\u4e00" <= character <= "\u9fff" for character in item.to_json())


def test_a_lone_surrogate_survives():
    item = replace(some_records(1)[0], template="a\ud800b")
    assert Record.from_json(item.to_json().encode().decode()).template == "a\ud800b"


def test_a_torn_last_line_is_ignored_and_cut_off(tmp_path):
    path, items = tmp_path / "records.jsonl", some_records()
    with Writer(path) as writer:
        for item in items[:3]:
            writer.append(item)
    path.write_bytes(path.read_bytes()[:-40])
    assert [item.row for item in read_records(path)] == [item.row for item in items[:2]]
    with Writer(path) as writer:
        writer.append(items[2])
    assert [item.row for item in read_records(path)] == [item.row for item in items[:3]]


@pytest.mark.parametrize("damage", ["{}", "[1]", "nonsense", '{"row": 1}', '{"score": NaN}'])
def test_any_other_bad_line_is_an_error_with_its_place(tmp_path, damage):
    path = tmp_path / "records.jsonl"
    path.write_text(f"{some_records(1)[0].to_json()}\n{damage}\n", encoding="utf-8")
    with pytest.raises(RecordError, match=re.escape(f"{path}:2: ")):
        read_records(path)


# Numbers


@pytest.mark.parametrize(
    "count, n, low, high",  # Newcombe 1998, Statist. Med. 17:857, table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson(count, n, low, high):
    assert wilson(count, n) == pytest.approx((low, high), abs=5e-5)
    assert wilson(n - count, n) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_no_episodes_give_no_rate():
    assert rate(0, 0).rate is None
    for wrong in ((1, 0), (-1, 3), (4, 3)):
        with pytest.raises(ValueError, match="count"):
            wilson(*wrong)
    assert summary([])["success"]["rate"] is None


@pytest.mark.parametrize("gained, lost, p", [(12, 2, 0.012939453125), (0, 0, 1.0), (5, 5, 1.0), (6, 0, 0.03125)])
def test_mcnemar(gained, lost, p):
    assert mcnemar(gained, lost) == mcnemar(lost, gained) == p


@pytest.mark.parametrize(
    "cells, low, high",  # Armitage & Berry's sputum cultures; Newcombe 1998, Statist. Med. 17:2635
    [((20, 12, 2, 16), 0.0562, 0.3292), ((36, 12, 2, 0), 0.0569, 0.3404)],
)
def test_paired_interval(cells, low, high):
    assert paired_interval(*cells) == pytest.approx((low, high), abs=5e-5)
    both, gained, lost, neither = cells
    assert paired_interval(both, lost, gained, neither) == pytest.approx((-high, -low), abs=5e-5)


def test_paired_interval_has_a_width_without_any_change():
    low, high = paired_interval(10, 0, 0, 0)
    assert -1 < low < 0 < high < 1


def outcomes(*successes):
    """Records of the first rows: "r" by the oracle, "w" by the silent policy, "-" without a score."""
    made = []
    for row, outcome in zip(ROWS, successes, strict=False):
        item = record(row, players.Oracle() if outcome == "r" else players.Silent())
        made.append(replace(item, score=None, failure=None) if outcome == "-" else item)
    return made


def test_compare_counts_flips():
    found = compare(outcomes(*"wwwrrrw-"), outcomes(*"rrrwrrwr"))
    assert (found["to_right"], found["to_wrong"], found["both_right"], found["both_wrong"]) == (3, 1, 2, 1)
    assert (found["n"], found["unscored"], found["unpaired"]) == (7, 1, 0)
    assert found["difference"]["value"] == pytest.approx(2 / 7)
    assert found["mcnemar_p"] == pytest.approx(0.625)
    assert found["rows_to_wrong"] == [ROWS[3].task.id]


def test_compare_refuses_different_rows():
    changed = outcomes("r")[0]
    with pytest.raises(ValueError, match="same rows"):
        compare(outcomes("r"), [replace(changed, payload={**changed.payload, "input": "else"})])
    with pytest.raises(ValueError, match="no scored row"):
        compare(outcomes("r"), [replace(changed, row="another")])


def test_summary_counts_and_leaves_infrastructure_out():
    numbers = summary(outcomes(*"rrrw-"))
    assert (numbers["n"], numbers["infrastructure"]) == (4, 1)
    assert numbers["success"]["rate"] == 0.75
    assert numbers["failures"] == {"gave_up": {"count": 1, "share": 0.25}}
    assert sum(group["n"] for group in numbers["by_kind"].values()) == 4
    needed = sum(row.task.depth for row in ROWS[:3])
    assert sum(counts["success"] for counts in numbers["tools"].values()) == needed
    json.dumps(numbers, allow_nan=False)


def test_an_infrastructure_failure_has_no_score_and_no_class():
    broken = replace(players.play(ROWS[0], players.Oracle()), stop=StopReason.INFRASTRUCTURE, answer=None)
    item = record_of(ROWS[0], broken)
    assert (item.score, item.failure, item.success) == (None, None, False)


# Report

ATTACK = "</script><script>alert(1)</script><!-- <b>张三</b> &amp; 查"


def page_of(tmp_path, *runs, comparison=None):
    labelled = [(f"run {index}", summary(records), records) for index, records in enumerate(runs)]
    write_report(tmp_path / "report.html", "title <i>", labelled, comparison)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_report_loads_nothing_and_holds_the_transcripts(tmp_path):
    page = page_of(tmp_path, outcomes(*"rrrw-"))
    assert not re.search(r"https?:|\bsrc=|<link|@import|url\(", page)
    shown = data_of(page)["episodes"]
    assert [item["query"] for item in shown] == [row.input for row in ROWS[:5]]
    assert all(row.input in page for row in ROWS[:5])  # Chinese stays Chinese
    for item, row in zip(shown[:3], ROWS, strict=False):
        turns = item["runs"][0]["turns"]
        assert [step["name"] for turn in turns for step in turn["steps"]] == [
            s["tool"] for s in row.task.rubric["steps"]
        ]
        assert sum(turn["increment"] for turn in turns) == 1.0


def test_text_from_outside_is_inert(tmp_path):
    item = outcomes("w")[0]
    page = page_of(tmp_path, [replace(item, payload={**item.payload, "input": ATTACK})])
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!--" not in page and "title &lt;i&gt;" in page
    assert data_of(page)["episodes"][0]["query"] == ATTACK


def test_an_argument_shows_the_result_that_it_came_from(tmp_path):
    row = row_of(3)
    shown = data_of(page_of(tmp_path, [record(row, players.Oracle())]))["episodes"][0]["runs"][0]
    (name,), (emp_id, start, _) = (turn["steps"][0]["arguments"] for turn in shown["turns"][:2])
    assert name["source"] == {"origin": "query"}
    assert emp_id["source"] == {"origin": "result", "turn": 0, "call": 0, "path": "matches[0].emp_id"}
    assert start["source"] is None


def test_two_runs_show_both_sides(tmp_path):
    before, after = outcomes(*"wwr"), outcomes(*"rwr")
    page = page_of(tmp_path, before, after, comparison=compare(before, after))
    assert "66.7 %" in page and "33.3 %" in page and "McNemar" in page
    assert [[run["success"] for run in item["runs"]] for item in data_of(page)["episodes"]] == [
        [False, True], [False, False], [True, True]]  # fmt: skip


def test_failures_are_embedded_first_and_the_rest_evenly(tmp_path):
    right, wrong = outcomes("r")[0], outcomes("w")[0]
    records = [replace(right, row=f"r{i}", kind=1 + (i >= 50)) for i in range(60)]
    records += [replace(wrong, row=f"w{i}") for i in range(7)]
    keys, left_out = choose([records], 17)
    chosen = [key[0] for key in keys]
    assert left_out == 50 and [name for name in chosen if name[0] == "w"] == [f"w{i}" for i in range(7)]
    assert sum(int(name[1:]) >= 50 for name in chosen if name[0] == "r") == 5
    assert choose([records], 100) == ([item.key for item in records], 0)


# Command line


def refused(capsys, *arguments):
    """The one line on stderr of a refused command."""
    try:
        assert main([str(argument) for argument in arguments]) == 2
    except SystemExit as stopped:
        assert stopped.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("eval.py: error: ")
    return lines[0]


def test_a_run_leaves_three_files(tmp_path, capsys):
    assert main(["--policy", "oracle", "--rows", "12", "--out", str(tmp_path / "new/oracle")]) == 0
    written = json.loads((tmp_path / "new/oracle/summary.json").read_text(encoding="utf-8"))
    assert written["finished"] and written["summary"]["success"]["rate"] == 1.0
    assert written["settings"]["count"] == 12 and written["command"].startswith("python eval.py --policy oracle")
    assert len(read_records(tmp_path / "new/oracle/records.jsonl")) == 12
    assert "100.0 %" in capsys.readouterr().out


def test_a_killed_run_goes_on(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for out in (whole, killed):
        assert main(["--policy", "random", "--rows", "12", "--out", str(out)]) == 0
    expected = (whole / "records.jsonl").read_bytes()
    (killed / "records.jsonl").write_bytes(expected[: len(expected) // 2])
    assert main(["--policy", "random", "--rows", "12", "--out", str(killed), "--resume"]) == 0
    assert (killed / "records.jsonl").read_bytes() == expected


def test_resume_refuses_another_evaluation(tmp_path, capsys):
    asked = ["--policy", "random", "--rows", "8", "--out", tmp_path / "a"]
    assert "no evaluation" in refused(capsys, *asked, "--resume")
    main([str(item) for item in asked])
    capsys.readouterr()
    assert "seed 0, not 1" in refused(capsys, *asked, "--seed", 1, "--resume")
    assert "count 8, not 9" in refused(capsys, *asked, "--rows", 9, "--resume")


def test_compare_prints_and_writes(tmp_path, capsys):
    for policy in ("silent", "oracle"):
        main(["--policy", policy, "--rows", "8", "--out", str(tmp_path / policy)])
    capsys.readouterr()
    out = ["--out", str(tmp_path / "both")]
    assert main(["--compare", str(tmp_path / "silent"), str(tmp_path / "oracle/records.jsonl"), *out]) == 0
    assert "wrong → right" in capsys.readouterr().out
    assert json.loads((tmp_path / "both/summary.json").read_text(encoding="utf-8"))["comparison"]["to_right"] == 8
    assert (tmp_path / "both/report.html").is_file()


def test_a_folder_with_an_eval_split_stands_for_that(tmp_path):
    for split in ("train", "eval"):
        (tmp_path / split).mkdir()
        lines = [row.to_json() for row in build_rows(split, 4, 0)]
        (tmp_path / split / "hr.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert {row.task.split for row in run.select_rows(tmp_path, None)} == {"eval"}
    assert len(run.select_rows(tmp_path, 3)) == 3


def test_bad_input_is_one_line(tmp_path, capsys):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(ROWS[0].to_json() + "\n{broken\n", encoding="utf-8")
    file = tmp_path / "rows.jsonl"
    file.write_text(ROWS[0].to_json() + "\n", encoding="utf-8")
    out = ("--out", tmp_path / "out")
    assert "at least 1, got -3" in refused(capsys, "--policy", "oracle", "--rows", "-3", *out)
    assert "no such file" in refused(capsys, "--policy", "oracle", "--queries", tmp_path / "none.jsonl", *out)
    assert "bad.jsonl:2:2" in refused(capsys, "--policy", "oracle", "--data", bad, *out)
    assert "has only 1" in refused(capsys, "--policy", "oracle", "--queries", file, "--rows", 2, *out)
    assert "no such folder" in refused(capsys, "--model", tmp_path / "none", "--rows", 2, *out)
    assert "no config.json" in refused(capsys, "--model", tmp_path, "--rows", 2, *out)
    assert "required" in refused(capsys)
    assert "invalid choice" in refused(capsys, "--policy", "lucky")
    assert "at least 0" in refused(capsys, "--policy", "oracle", "--temperature", "-1")
    assert "no such file" in refused(capsys, "--compare", tmp_path / "a", tmp_path / "b", *out)
    assert "--out" in refused(capsys, "--policy", "oracle", "--rows", 2, "--out", file)
    assert not (tmp_path / "out").exists()


def test_a_model_is_played_through_the_rollout_engine(tmp_path, monkeypatch):
    asked = {}

    def play_rows(model_dir, rows, **options):
        asked.update(options, model=model_dir)
        for row in rows:
            yield row, players.play(row, players.Oracle()), 7

    engine = ModuleType("training.local")
    engine.play_rows = play_rows
    monkeypatch.setitem(sys.modules, "training.local", engine)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    out = tmp_path / "out"
    assert main(["--model", str(tmp_path / "model"), "--rows", "5", "--out", str(out), "--temperature", "0.5"]) == 0
    assert asked.keys() == {
        "model",
        "temperature",
        "seed",
        "max_turns",
        "batch_size",
        "progress",
        "faults",
        "samples",
        "surface",
    }
    assert asked["temperature"] == 0.5
    assert {item.sampled_tokens for item in read_records(out / "records.jsonl")} == {7}


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path, monkeypatch, capsys):
    def play_rows(model_dir, rows, **options):
        raise OSError("no weights\nin this folder")

    engine = ModuleType("training.local")
    engine.play_rows = play_rows
    monkeypatch.setitem(sys.modules, "training.local", engine)
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr("eval._bar", lambda *_: nullcontext(lambda record: None))
    line = refused(capsys, "--model", tmp_path, "--rows", 2, "--out", tmp_path / "out")
    assert line.endswith(f"--model {tmp_path}: no weights in this folder")


@pytest.mark.slow
def test_scripted_players_need_no_torch():
    code = "import sys, eval; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
