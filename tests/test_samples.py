"""Several episodes a row: estimators against enumeration, intervals that know their clusters, runs that can be cut."""

import json
import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

from data.build import ALL_SHARES
from data.build import rows as build_rows
from eval import main
from evaluation import players, run
from evaluation.intervals import bootstrap, clustered_rate, interval, rate, wilson
from evaluation.record import read_records
from evaluation.samples import compare, pass_all, pass_at, passes, person_of
from evaluation.scoring import record_of
from evaluation.stats import summary

ROWS = list(build_rows("eval", 60, 0))
PEOPLE = {row.task.id: person_of(row) for row in ROWS}
RIGHT = {row.task.id: record_of(row, players.play(row, players.Oracle())) for row in ROWS[:12]}
WRONG = {row.task.id: record_of(row, players.play(row, players.Silent())) for row in ROWS[:12]}


def records(*rows):
    """One word per row: "r" right, "w" wrong, "-" without a score, one letter per sample."""
    made = []
    for row, outcomes in zip(ROWS, rows, strict=False):
        for sample, outcome in enumerate(outcomes):
            item = replace((RIGHT if outcome == "r" else WRONG)[row.task.id], sample=sample)
            made.append(replace(item, score=None, failure=None) if outcome == "-" else item)
    return made


# Estimators and intervals


@pytest.mark.parametrize("n", range(1, 7))
def test_the_estimators_are_the_mean_over_all_subsets(n):
    for right in range(n + 1):
        outcomes = [True] * right + [False] * (n - right)
        for k in range(1, n + 1):
            drawn = list(combinations(outcomes, k))
            assert pass_at(n, right, k) == pytest.approx(fmean(any(each) for each in drawn))
            assert pass_all(n, right, k) == pytest.approx(fmean(all(each) for each in drawn))
    for wrong in ((n, n + 1, 1), (n, 0, n + 1), (n, 0, 0), (n, -1, 1)):
        for measure in (pass_at, pass_all):
            with pytest.raises(ValueError, match="expected"):
                measure(*wrong)


def test_the_bootstrap_of_independent_values_is_near_the_score_interval():
    for right in (40, 100, 170):
        values = [1.0] * right + [0.0] * (200 - right)
        assert interval(values, range(200)) == pytest.approx(wilson(right, 200), abs=0.015)


def test_copies_of_a_value_in_its_cluster_add_no_certainty():
    values = [1.0] * 30 + [0.0] * 20
    once, thrice = bootstrap(values, range(50)), bootstrap(values * 3, [*range(50)] * 3)
    assert thrice == pytest.approx(once)
    low, high = bootstrap(values * 3, range(150))
    assert once[0] < low < high < once[1]


def test_where_all_clusters_are_alike_the_interval_still_has_a_width():
    assert interval([1.0] * 40, [*range(10)] * 4) == wilson(10, 10)
    assert interval([0.0] * 10, range(10)) == wilson(0, 10)
    low, high = interval([1.0, 0.0] * 10, [number // 2 for number in range(20)])
    assert 0 < low < 0.5 < high < 1
    with pytest.raises(ValueError, match="cluster each"):
        interval([], [])


def test_a_rate_without_clusters_is_the_plain_one():
    outcomes = [True, False, True]
    assert clustered_rate(outcomes, "abc") == rate(2, 3)
    assert clustered_rate(outcomes, "aab").high != rate(2, 3).high


# Numbers of a run


def test_passes_of_hand_made_rows():
    found = passes(records("rrrr", "rrww", "wwww"), PEOPLE)
    assert list(found["pass_at"]) == ["1", "2", "4"] and found["samples"] == 4
    assert [each["value"] for each in found["pass_at"].values()] == pytest.approx([1 / 2, (1 + 5 / 6) / 3, 2 / 3])
    assert [each["value"] for each in found["pass_all"].values()] == pytest.approx([1 / 2, (1 + 1 / 6) / 3, 1 / 3])
    assert list(passes(records("rrrrrr"), PEOPLE)["pass_at"]) == ["1", "2", "4", "6"]
    for each in (*found["pass_at"].values(), *found["pass_all"].values()):
        assert each["low"] <= each["value"] <= each["high"] and each["person_low"] <= each["person_high"]


def test_episodes_without_a_score_are_left_out_of_their_row():
    found = passes(records("rr-", "rww", "---"), PEOPLE)
    assert [found["pass_at"][k]["rows"] for k in "123"] == [2, 2, 1]
    assert found["pass_at"]["1"]["value"] == pytest.approx((1 + 1 / 3) / 2)
    nothing = passes(records("---"), PEOPLE)["pass_all"]["1"]
    assert nothing["value"] is None and nothing["rows"] == 0


def test_the_order_of_the_records_does_not_matter():
    made = records("rrw", "wrw", "www", "rrr", "r-w")
    shuffled = random.Random(0).sample(made, len(made))
    by_row = {record.row: number for number, record in enumerate(made)}
    assert passes(sorted(shuffled, key=lambda item: (by_row[item.row], item.sample)), PEOPLE) == passes(made, PEOPLE)


def test_the_intervals_of_a_run_with_samples_draw_whole_rows():
    numbers = summary(records(*["rrrr", "wwww"] * 6))
    narrow = wilson(24, 48)
    assert numbers["success"]["rate"] == 0.5 and numbers["success"]["n"] == 48
    assert numbers["success"]["low"] < narrow[0] - 0.05 and numbers["success"]["high"] > narrow[1] + 0.05


def test_a_person_is_the_same_however_a_row_asks():
    rows = [next(build_rows("eval", 1, seed, {kind: 1.0})) for kind in ALL_SHARES["hr"] for seed in (0, 1)]
    people = {}
    for row in rows:
        people.setdefault(person_of(row), []).append(row.task)
    about = next(tasks for tasks in people.values() if len({task.mention for task in tasks}) > 1)
    assert len({task.kind for task in about}) > 1
    nobody = [row for row in rows if row.task.kind == 26]
    assert [person_of(row) for row in nobody] == [row.task.id for row in nobody]


# Comparison


def test_two_runs_are_paired_by_the_mean_of_the_row():
    found = compare(records("rw", "ww", "rr", "rw", "rr"), records("rr", "rw", "ww", "wr", "rr"))
    assert (found["to_right"], found["to_wrong"], found["both_right"], found["mixed"]) == (2, 1, 1, 1)
    assert found["difference"]["value"] == pytest.approx((0.5 + 0.5 - 1) / 5)
    assert found["mcnemar_p"] == 1.0 and found["rows_to_wrong"] == [ROWS[2].task.id]
    assert found["before"]["rate"] == 0.6 and found["samples"] == 2


def test_a_run_compared_with_itself_is_uncertain_but_equal():
    made = records("rr", "rw", "ww", "rr")
    found = compare(made, made)
    assert found["difference"]["value"] == 0 and found["difference"]["low"] < 0 < found["difference"]["high"]
    assert (found["to_right"], found["to_wrong"], found["unscored"], found["unpaired"]) == (0, 0, 0, 0)


def test_what_cannot_be_paired_is_counted_or_refused():
    found = compare(records("rr", "--", "rw"), records("rr", "rr"))
    assert (found["n"], found["unscored"], found["unpaired"]) == (1, 1, 1)
    with pytest.raises(ValueError, match="one has 2 samples a row, the other 3"):
        compare(records("rr"), records("rrr"))
    with pytest.raises(ValueError, match="no scored row"):
        compare(records("--"), records("rr"))
    other = [replace(each, payload={**each.payload, "input": "else"}) for each in records("rr")]
    with pytest.raises(ValueError, match="same rows"):
        compare(records("rr"), other)


# Runs


def evaluate(out, *words):
    return main(["--policy", "random", "--rows", "10", "--out", str(out), *words])


def content(out):
    return json.loads((out / run.SUMMARY).read_text("utf-8"))


def test_samples_are_independent_and_the_first_is_what_one_alone_is(tmp_path, capsys):
    assert evaluate(tmp_path / "one") == evaluate(tmp_path / "three", "--samples", "3") == 0
    assert "pass^k" in capsys.readouterr().out
    one, three = (read_records(tmp_path / name / run.RECORDS) for name in ("one", "three"))
    assert [record.sample for record in three] == [0, 1, 2] * 10
    assert [record.to_json() for record in three if record.sample == 0] == [record.to_json() for record in one]
    differing = sum(three[3 * i].payload != three[3 * i + 1].payload for i in range(10))
    assert differing > 5


def test_one_sample_leaves_the_files_as_they_were(tmp_path):
    assert evaluate(tmp_path) == 0
    written = content(tmp_path)
    assert "passes" not in written["summary"]
    known = ["player", "rows", "count", "seed", "temperature", "max_turns", "faults"]
    assert list(written["settings"]) == known
    assert "pass@k" not in (tmp_path / run.REPORT).read_text("utf-8")


def test_a_cut_run_goes_on_and_comes_to_the_same_summary(tmp_path, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for out in (whole, cut):
        assert evaluate(out, "--samples", "2") == 0
    lines = (whole / run.RECORDS).read_text("utf-8").splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    (cut / run.RECORDS).write_text("".join(lines[:9]) + lines[9][:50], "utf-8")
    assert evaluate(cut, "--samples", "2", "--resume") == 0
    assert sorted((cut / run.RECORDS).read_text("utf-8").splitlines(keepends=True)) == sorted(lines)
    assert json.dumps(content(cut)["summary"]) == json.dumps(content(whole)["summary"])  # in the same order, too
    assert (cut / run.REPORT).read_text("utf-8") == (whole / run.REPORT).read_text("utf-8")
    capsys.readouterr()
    assert evaluate(cut, "--resume") == 2 and "samples 2, not 1" in capsys.readouterr().err
    assert "pass^k" in (cut / run.REPORT).read_text("utf-8")


def test_compare_takes_equal_numbers_of_samples_only(tmp_path, capsys):
    for name, words in {"a": ["--samples", "2"], "b": ["--samples", "2", "--seed", "1"], "c": []}.items():
        evaluate(tmp_path / name, *words)
    out = ["--out", str(tmp_path / "both")]
    assert main(["--compare", str(tmp_path / "a"), str(tmp_path / "b"), *out]) == 0
    assert "sign test" in capsys.readouterr().out
    assert content(tmp_path / "both")["comparison"]["samples"] == 2
    assert "sign test" in (tmp_path / "both" / run.REPORT).read_text("utf-8")
    assert main(["--compare", str(tmp_path / "a"), str(tmp_path / "c"), *out]) == 2
    assert "samples a row" in capsys.readouterr().err


@pytest.mark.slow
def test_a_local_models_samples_follow_from_seed_row_and_number():
    from training.local import play_rows

    model = str(Path(__file__).resolve().parents[1] / "models/tiny")

    def play(rows, samples=None):
        options = {"temperature": 1.5, "seed": 0, "max_turns": 2, "batch_size": 4, "progress": lambda done: None}
        return [trajectory for _, trajectory, _ in play_rows(model, rows, samples=samples, **options)]

    rows = ROWS[:4]
    alone, twice = play(rows), play([row for row in rows for _ in range(2)], [0, 1] * 4)
    assert twice[::2] == alone
    assert sum(first != second for first, second in zip(twice[::2], twice[1::2], strict=True)) > 1
