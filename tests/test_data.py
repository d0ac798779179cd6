"""Rows: reproducible, split without a leak, answerable by their tools only, and read strictly."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from data import build, examples
from data.build import rows as build_rows
from data.build import write
from data.checks import contains, leaks
from data.oracle import oracle_turn
from data.reader import BadRow, parse_row, read_rows
from data.scenarios.hr import SHARES, period_dates
from data.schema import OUTCOMES, SPLITS, Row, RowError, row_from_json
from env.episode import system_prompt
from scripts.check_data import main as check_data
from scripts.check_data import unsound

ROOT = Path(__file__).resolve().parents[1]
KINDS = {1, 2, 3, 4, 5, 6, 10, 13, 19, 20, 26}
GIVEN = {5, 6}  # kinds whose query holds the id


@cache
def rows(split: str, count: int = 600, seed: int = 0) -> tuple[Row, ...]:
    return tuple(build_rows(split, count, seed))


def both() -> list[Row]:
    return [*rows("train"), *rows("eval")]


# ---- reproducible ----


def built(out: Path, seed: int, hashseed: str) -> dict[str, bytes]:
    """What the command writes, by file."""
    command = ["-m", "scripts.build_data", "--out", str(out), "--rows", "40", "--eval_rows", "20", "--seed", str(seed)]
    environment = os.environ | {"PYTHONHASHSEED": hashseed}
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, timeout=120, check=True)
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_equal_seeds_give_equal_bytes_in_any_process_and_other_seeds_other_rows(tmp_path: Path) -> None:
    first, again = built(tmp_path / "a", 3, "1"), built(tmp_path / "b", 3, "2")
    assert first == again
    assert first.keys() == {"train/hr.jsonl", "eval/hr.jsonl", "manifest.json"}
    write(tmp_path / "c", {"train": 40, "eval": 20}, 4)
    for name in first:
        other = (tmp_path / "c" / name).read_bytes()
        assert not set(first[name].splitlines()) & set(other.splitlines()) or name == "manifest.json"
        assert first[name] != other


def test_manifest_says_what_the_files_hold(tmp_path: Path) -> None:
    manifest = write(tmp_path, {"train": 60, "eval": 30}, 1)
    assert json.loads((tmp_path / "manifest.json").read_text("utf-8")) == manifest
    assert manifest["seed"] == 1 and manifest["files"].keys() == {"train/hr.jsonl", "eval/hr.jsonl"}
    for name, facts in manifest["files"].items():
        content = (tmp_path / name).read_bytes()
        lines = [json.loads(line) for line in content.splitlines()]
        assert facts["sha256"] == hashlib.sha256(content).hexdigest()
        assert facts["rows"] == len(lines) == {"train": 60, "eval": 30}[name.split("/")[0]]
        tasks = [line["task"] for line in lines]
        for key, counted in (
            ("kinds", Counter(str(task["kind"]) for task in tasks)),
            ("languages", Counter(task["language"] for task in tasks)),
            ("tool_calls_needed", Counter(str(len(task["rubric"]["steps"])) for task in tasks)),
        ):
            assert facts[key] == dict(counted)
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("domain", ["hr", "finance"])
def test_lines_of_several_processes_are_the_rows_in_another_order(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [(row.to_json() + "\n").encode() for row in build_rows("train", 150, 5, None, domain)]
    alone = list(build.lines("train", 150, 5, None, domain))
    monkeypatch.setattr(build, "PARALLEL_FROM", 0)
    monkeypatch.setattr(build, "PART", 60)
    monkeypatch.setattr(build, "MOST_PROCESSES", 2)
    assert list(build.lines("train", 150, 5, None, domain)) == alone
    assert [line.text for line in sorted(alone, key=lambda line: line.number)] == wanted


def test_a_company_is_simulated_once_for_all_of_its_rows() -> None:
    companies = [json.loads(line.text)["task"]["world"]["seed"] for line in build.lines("train", 400, 0, None, "hr")]
    stays = sum(one == other for one, other in pairwise(companies))
    assert stays > len(companies) - 1.3 * len(set(companies)), "but for a few that had to be drawn again"


def test_a_row_survives_being_written_and_read(tmp_path: Path) -> None:
    write(tmp_path, {"train": 40, "eval": 20}, 0)
    assert read_rows(tmp_path / "train") == list(build_rows("train", 40, 0))
    for row in rows("train")[:100]:
        assert parse_row(Path("x"), 1, row.to_json()) == row


# ---- what the rows are ----


@pytest.mark.parametrize("split", SPLITS)
def test_rows_are_varied(split: str) -> None:
    """All kinds near their shares, both languages in each, at least 60 % with two calls or more, few queries twice."""
    made = rows(split)
    kinds = Counter(row.task.kind for row in made)
    assert kinds.keys() == KINDS == SHARES.keys()
    assert all(abs(kinds[kind] - 600 * SHARES[kind]) < 50 for kind in KINDS)
    assert {(row.task.kind, row.task.language) for row in made} == {
        (kind, lang) for kind in KINDS for lang in ("zh", "en")
    }
    depths = {(row.task.kind, row.task.depth) for row in made}
    assert len(depths) == len(KINDS), "a kind has one depth"
    assert sum(SHARES[kind] for kind, depth in depths if depth >= 2) >= 0.6
    assert len({row.input for row in made if row.task.kind != 26}) > 0.97 * len([r for r in made if r.task.kind != 26])
    assert len({row.task.id for row in made}) == len(made)


@pytest.mark.parametrize("split", SPLITS)
def test_a_reference_is_an_id_or_an_outcome_and_never_empty(split: str) -> None:
    for row in rows(split):
        wanted = {10: "not_found", 26: "none"}.get(row.task.kind)
        if wanted:
            assert (row.reference_output, row.task.subject) == (wanted, None) and wanted in OUTCOMES
        else:
            assert re.fullmatch(r"0\d{3}|[1-9]\d{4,5}", row.reference_output)
            assert row.task.subject is not None
        assert contains(row.input, row.reference_output) == (row.task.kind in GIVEN)
        assert "{" not in row.input and row.input == row.input.strip()


def test_the_reference_appears_nowhere_before_the_tool_that_returns_it() -> None:
    """Neither in the prompt nor in the declared tools nor in an earlier result; afterwards it does."""
    for row in (*rows("train")[:150], *rows("eval")[:150]):
        for ids in ("row", "fresh"):
            episode = row.open(ids)
            reference = episode.reference_output
            assert (reference == row.reference_output) or ids == "fresh"
            prompt = "\n".join(message["content"] for message in episode.messages)
            assert contains(prompt, reference) == (row.task.kind in GIVEN)
            assert not contains(json.dumps(episode.tools, ensure_ascii=False), reference) or reference in OUTCOMES
            texts: list[str] = []
            while (shown := episode.play(oracle_turn(row.task, episode))) is not None:
                texts += shown
            if row.task.subject is not None:
                first = [contains(text, reference) for text in texts].index(True)
                tool = episode.steps[first].name
                assert (first == 0 and tool == "mcp_employee_search") or row.task.kind in GIVEN


def test_the_users_id_is_kept_and_every_other_id_is_fresh() -> None:
    seen = Counter[bool]()
    for row in rows("train")[:200]:
        if row.task.subject is not None:
            references = {row.open(ids).reference_output for ids in ("row", "a", "b")}
            assert len(references) == (1 if row.task.kind in GIVEN else 3), row.task.id
            seen[row.task.kind in GIVEN] += 1
    assert min(seen[True], seen[False]) > 10


def test_a_mention_is_how_the_query_names_the_person() -> None:
    for row in both():
        assert (row.task.mention is None) == (row.task.kind == 26)
        assert row.task.mention is None or row.task.mention in row.input


# ---- leaks ----


def test_train_and_eval_share_nothing() -> None:
    assert list(leaks(both())) == []


def test_people_whose_names_are_each_others_reversal_are_two_people() -> None:
    """陈洋 and 杨晨: the directory finds both by either order, yet neither is held out because of the other."""
    train = next(row for row in rows("train") if row.task.kind == 2 and row.task.language == "zh")
    held = next(row for row in rows("eval") if row.task.kind == 2 and row.task.language == "zh")

    def named(row: Row, mention: str, *spellings: str) -> Row:
        rubric = copy.deepcopy(dict(row.task.rubric))
        rubric["steps"][0]["arguments"]["name"]["one_of"] = list(spellings)
        return replace(row, task=replace(row.task, rubric=rubric, mention=mention))

    one = named(train, "陈洋", "陈洋", "陳洋", "Chen Yang", "Yang Chen")
    other = ("杨晨", "楊晨", "Yang Chen", "Chen Yang")
    assert list(leaks([one, named(held, "杨晨", *other)])) == []
    assert len(list(leaks([one, named(held, "Chen Yang", *other)]))) == 1
    assert len(list(leaks([one, named(held, "Yang Chen", "陈洋", "陳洋", "Chen Yang", "Yang Chen")]))) >= 1


def planted(kind: int, change: Callable[[Row, Row], Row]) -> list[str]:
    """Leaks of one training row and one held-out row that `change` made of another."""
    train = next(row for row in rows("train") if row.task.kind == kind)
    held = next(row for row in rows("eval") if row.task.kind == kind and row.task.language == train.task.language)
    assert list(leaks([train, held])) == []
    return list(leaks([train, change(train, held)]))


def with_task(row: Row, **changes: Any) -> Row:
    return replace(row, task=replace(row.task, **changes))


@pytest.mark.parametrize(
    ("what", "kind", "change"),
    [
        ("person", 1, lambda train, held: with_task(held, rubric=train.task.rubric)),
        ("person", 10, lambda train, held: with_task(held, rubric=train.task.rubric)),
        ("id", 2, lambda train, held: replace(held, reference_output=train.reference_output)),
        ("id", 5, lambda train, held: replace(held, reference_output=train.reference_output)),
        ("phrasing", 3, lambda train, held: with_task(held, template=train.task.template)),
        ("phrasing", 26, lambda train, held: with_task(held, template=train.task.template)),
        ("query", 4, lambda train, held: replace(held, input=train.input)),
        ("reference", 1, lambda _, held: replace(held, input=held.input + " " + held.reference_output)),
        ("reference", 4, lambda _, held: replace(held, input=f"工号{held.reference_output}")),
    ],
)
def test_a_planted_leak_is_found(what: str, kind: int, change: Callable[[Row, Row], Row]) -> None:
    found = planted(kind, change)
    assert found and all(what in line for line in found), found
    assert all("hr-eval-0-" in line for line in found)


def test_an_id_inside_a_longer_number_is_no_leak() -> None:
    row = next(row for row in rows("eval") if row.task.kind == 2)
    assert list(leaks([replace(row, input=f"{row.input} 7{row.reference_output} {row.reference_output}8")])) == []


def test_the_command_fails_where_rows_leak_or_cannot_be_solved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, path = list(rows("eval")[:12]), tmp_path / "rows.jsonl"

    def status(made: Sequence[Row]) -> tuple[int, str]:
        path.write_text("".join(row.to_json() + "\n" for row in made), "utf-8")
        return check_data([str(path)]), capsys.readouterr().err

    assert status(good)[0] == 0
    leaky = replace(next(row for row in good if row.task.kind in (1, 2, 3)), input="id 0042")
    leaky = with_task(replace(leaky, reference_output="0042"), id="leaky")
    code, said = status([*good, leaky])
    assert code == 1 and "leaky: the reference '0042' stands in the query" in said
    code, said = status([*good, with_task(good[0], id="x", split="train")])
    assert code == 1 and "of the other split" in said


# ---- oracle and silence ----


@pytest.mark.parametrize(("split", "seed"), [("train", 0), ("eval", 0), ("eval", 7)])
def test_the_oracle_scores_one_and_silence_zero(split: str, seed: int) -> None:
    """With the row's own ids and with fresh ones."""
    made = rows(split)[:150] if seed == 0 else rows(split, 150, seed)
    assert {row.task.kind for row in made} == KINDS
    assert list(unsound(made)) == []


def test_a_row_with_a_wrong_rubric_is_called_unsound() -> None:
    row = next(row for row in rows("train") if row.task.kind == 13)
    rubric = copy.deepcopy(dict(row.task.rubric))
    rubric["answer"] = [{"fact": "days", "value": 77}]
    assert [line.split(":")[0] for line in unsound([with_task(row, rubric=rubric)])] == [row.task.id] * 2


def test_hand_written_questions_are_what_the_builder_makes_and_can_be_solved() -> None:
    made = list(examples.rows())
    assert len(made) >= 40
    assert examples.QUESTIONS.read_text("utf-8") == "".join(row.to_json() + "\n" for row in made)
    assert read_rows(examples.QUESTIONS) == made
    assert {row.task.kind for row in made} == KINDS and {row.task.language for row in made} == {"zh", "en"}
    assert list(unsound(made)) == []


def test_hand_written_questions_share_nothing_with_training() -> None:
    assert list(leaks([*rows("train"), *examples.rows()])) == []


# ---- dates ----


def weeks_by_iso_calendar(day: date) -> dict[str, tuple[str, str]]:
    this, last = day.isocalendar(), (day - timedelta(days=7)).isocalendar()
    weeks = {
        name: (str(date.fromisocalendar(week.year, week.week, 1)), str(date.fromisocalendar(week.year, week.week, 7)))
        for name, week in (("this_week", this), ("last_week", last))
    }
    return weeks | {"today": (str(day), str(day))}


def test_weeks_start_on_monday_on_every_day_of_two_years() -> None:
    """In the reference and in the calendar that the prompt shows."""
    for offset in range(731):
        day = date(2024, 12, 20) + timedelta(days=offset)
        expected = weeks_by_iso_calendar(day)
        for period, (first, last) in expected.items():
            assert period_dates(day, period) == (period, first, last)
        for language, words in (("zh", ("今天", "本周", "上周")), ("en", ("today", "this week", "last week"))):
            shown = system_prompt(language, f"{day}T09:30:00+08:00").splitlines()[1:]
            assert [re.findall(r"\d{4}-\d\d-\d\d", line) for line in shown] == [
                [str(day), str(day)],
                list(expected["this_week"]),
                list(expected["last_week"]),
            ]
            assert all(line.startswith(word) for line, word in zip(shown, words, strict=True))
        names = {"zh": "一二三四五六日", "en": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")}
        for language, days in names.items():
            first_line = system_prompt(language, f"{day}T23:59:00-05:00").splitlines()[1]
            assert first_line.endswith(days[day.isoweekday() - 1])
    assert period_dates(date(2026, 1, 1), None) is None


def test_the_period_of_a_row_is_the_one_that_its_calendar_shows() -> None:
    for row in both():
        if row.task.period is None:
            continue
        name, first, last = row.task.period
        assert weeks_by_iso_calendar(date.fromisoformat(row.task.now[:10]))[name] == (first, last)
        assert f"{first}" in system_prompt(row.task.language, row.task.now)


# ---- the reader ----

GOOD = next(row for row in build_rows("train", 30, 5) if row.task.kind == 1)


def corrupt(change: Callable[[dict[str, Any]], None]) -> str:
    value = json.loads(GOOD.to_json())
    change(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def put(path: str, value: Any) -> str:
    """The good row with another value at a dotted path."""

    def change(row: dict[str, Any]) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            row = row[parent]
        row[name] = value

    return corrupt(change)


def take(path: str) -> str:
    def change(row: dict[str, Any]) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            row = row[parent]
        del row[name]

    return corrupt(change)


def column(line: str, name: str) -> int:
    return line.index(f'"{name}"') + 1


LINE = GOOD.to_json()
NAN = LINE.replace('"weight":0.3', '"weight":NaN', 1)
HUGE = LINE.replace('"weight":0.3', '"weight":1e999', 1)
TWICE = LINE.replace('"language":', '"kind":1,"language":', 1)
assert len({LINE, NAN, HUGE, TWICE}) == 4

# name -> (line, column or the name of the field at whose key it is, what the reason has to say)
CORRUPTIONS: dict[str, tuple[str | bytes, int | str, str]] = {
    "not UTF-8": (LINE.encode().replace(b"input", b"in\xffput", 1), 5, "not UTF-8"),
    "not UTF-8, after Chinese": ('{"input":"你好'.encode() + b"\xff" + b'"}', 13, "not UTF-8"),
    "UTF-16": (LINE.encode("utf-16-le").replace(b"\n", b""), 0, "not UTF-8"),
    "byte order mark": ("\ufeff" + LINE, 1, "BOM"),
    "cut off": (LINE[:200], 0, "not JSON"),
    "missing comma": (LINE.replace(',"task"', ' "task"', 1), column(LINE, "task"), "',' delimiter"),
    "two objects": (LINE + LINE, len(LINE) + 1, "Extra data"),
    "single quotes": (LINE.replace('"', "'"), 2, "double quotes"),
    "a list": ("[]", 1, "expected an object, got list"),
    "a string": ('"text"', 1, "expected an object, got str"),
    "null": ("null", 1, "expected an object, got NoneType"),
    "duplicate key": (TWICE, 1, "key 'kind' occurs twice"),
    "NaN": (NAN, 1, "NaN is not JSON"),
    "infinite number": (HUGE, 1, "1e999 is too large"),
    "half a surrogate pair": (LINE.replace('"input":"', '"input":"\\ud83d', 1), 11, "surrogate"),
    "unknown field": (put("answer", "42"), "answer", "answer: unknown field"),
    "unknown field of the task": (put("task.hint", "42"), "hint", "task.hint: unknown field"),
    "missing field": (take("reference_output"), 1, "field 'reference_output' is missing"),
    "missing field of the task": (take("task.now"), "task", "field 'task.now' is missing"),
    "empty input": (put("input", " "), "input", "input: expected text that is not empty, got ' '"),
    "null input": (put("input", None), "input", "got None"),
    "integer reference": (
        put("reference_output", 1001),
        "reference_output",
        "expected text that is not empty, got 1001",
    ),
    "empty reference": (put("reference_output", ""), "reference_output", "expected text that is not empty"),
    "task as text": (put("task", "{}"), "task", "expected an object, got str"),
    "kind as text": (put("task.kind", "1"), "kind", "task.kind: expected int, got '1'"),
    "kind as boolean": (put("task.kind", True), "kind", "task.kind: expected int, got True"),
    "world as list": (put("task.world", []), "world", "task.world: expected dict, got []"),
    "bad language": (put("task.language", "fr"), "language", "expected one of zh, en, got 'fr'"),
    "bad split": (put("task.split", "test"), "split", "expected one of train, eval, got 'test'"),
    "unknown domain": (put("task.domain", "hrr"), "domain", "expected one of hr"),
    "now without offset": (put("task.now", "2026-06-03T10:00:00"), "now", "ISO date-time with offset"),
    "now as a word": (put("task.now", "today"), "now", "ISO date-time with offset, got 'today'"),
    "subject as text": (put("task.subject", "3"), "subject", "an object of integers or null, got '3'"),
    "nobody asked about": (put("task.subject", None), "subject", "is none of none, not_found, ask, refuse"),
    "mention as number": (put("task.mention", 7), "mention", "expected text or null, got 7"),
    "two dates": (put("task.period", ["today", "2026-06-03"]), "period", "[name, first day, last day] or null"),
    "no dates": (put("task.period", ["today", "June", "July"]), "period", "expected ISO dates"),
    "period backwards": (put("task.period", ["x", "2026-06-03", "2026-06-02"]), "period", "before the first"),
    "rubric without steps": (put("task.rubric", {}), "steps", "task.rubric.steps: expected a list"),
    "huge nesting": ("[" * 100_000, 1, "nested too deeply"),
    "huge nesting inside": (LINE.replace('"steps":', '"steps":' + "[" * 5000 + "]" * 5000 + ',"x":'), 1, "deeply"),
    "a digit too many": (LINE.replace('"kind":1', '"kind":' + "1" * 5000), 1, "digits"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_bad_row_is_reported_with_file_line_column_and_reason(name: str, tmp_path: Path) -> None:
    bad, where, reason = CORRUPTIONS[name]
    line = bad if isinstance(bad, bytes) else bad.encode("utf-8", "surrogatepass")
    path = tmp_path / "rows.jsonl"
    path.write_bytes(LINE.encode() + b"\n\n" + line + b"\n")
    with pytest.raises(BadRow) as caught:
        read_rows(path)
    error, text = caught.value, line.decode("utf-8", "replace")
    assert reason in error.reason and len(str(error)) < 600
    assert str(error) == f"{path}:3:{error.column}: {error.reason}"
    if isinstance(where, str):
        where = column(text, where) if f'"{where}"' in text else 1
    assert error.column == where or where == 0 < error.column
    assert "\n" not in str(error)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_skipping_bad_rows_keeps_the_rest_and_writes_the_rejects(name: str, tmp_path: Path) -> None:
    bad = CORRUPTIONS[name][0]
    line = bad if isinstance(bad, bytes) else bad.encode()
    other = replace(GOOD, task=replace(GOOD.task, id="other"))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join([LINE.encode(), line, other.to_json().encode()]))
    assert read_rows(path, skip_bad=True) == [GOOD, other]
    [reject] = (tmp_path / "rows.jsonl.rejects").read_text("utf-8").splitlines()
    assert json.loads(reject)["error"].startswith(f"{path}:2:")
    assert read_rows(tmp_path, skip_bad=True) == [GOOD, other], "the rejects are not read as rows"


def test_an_id_that_occurs_twice_is_reported_with_both_places(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(LINE + "\n", "utf-8")
    with pytest.raises(BadRow, match=rf"b\.jsonl:1:1: id '{GOOD.task.id}' was used before, at .*a\.jsonl:1"):
        read_rows(tmp_path)
    assert read_rows(tmp_path, skip_bad=True) == [GOOD]
    assert (tmp_path / "b.jsonl.rejects").is_file() and not (tmp_path / "a.jsonl.rejects").exists()


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_file_without_rows_is_refused(content: str, skip_bad: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(content, "utf-8")
    for place in (path, tmp_path):
        with pytest.raises(ValueError, match=re.escape(f"{place}: no rows")):
            read_rows(place, skip_bad)


def test_a_file_of_bad_rows_only_is_refused_even_where_they_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("{}\n", "utf-8")
    with pytest.raises(ValueError, match="no rows"):
        read_rows(path, skip_bad=True)


def test_a_missing_file_is_named_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.jsonl.*scripts\.build_data"):
        read_rows(tmp_path / "nothing.jsonl")


def test_no_depth_of_nesting_raises_anything_else() -> None:
    """Around the interpreter's limit a decoder may succeed where the next recursive step fails."""
    for depth in (*range(1, 60), *range(60, 1100, 13)):
        for line in (put("task.world", []).replace("[]", "[" * depth + "]" * depth, 1), "[" * depth + "]" * depth):
            with pytest.raises(BadRow):
                parse_row(Path("x"), 1, line)
        deep = LINE.replace('"weight":0.3', '"weight":' + "[" * depth + "]" * depth, 1)
        try:
            row = parse_row(Path("x"), 1, deep)
        except BadRow:
            continue
        assert row.to_json() == deep


def test_strings_are_not_coerced() -> None:
    for text in ("0042", "1001.0", "1e5", "true", "null", " 7 "):
        row = row_from_json(json.loads(put("reference_output", text)))
        assert row.reference_output == text


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("world", {}, "task.world: expected seed, size, split"),
        ("world", {"seed": 1, "size": 60, "split": "train", "colour": 1}, "got ['colour', 'seed', 'size', 'split']"),
        ("world", {"seed": "1", "size": 60, "split": "train"}, "expected whole numbers for seed and size"),
        ("world", {"seed": 1, "size": 3, "split": "train"}, "expected a size from 8 to 5000, got 3"),
        ("world", {"seed": 1, "size": 60, "split": "train", "fixed_ids": {"99": "1001"}}, "fixed_ids"),
        ("subject", 60, "subject 60 is not one of 60 people"),
        ("subject", -1, "subject -1 is not one of 60 people"),
    ],
)
def test_a_world_that_cannot_be_opened_is_a_bad_row(field: str, value: object, said: str) -> None:
    row = json.loads(next(build_rows("train", 1, 0)).to_json())
    row["reference_output"] = row["reference_output"] if row["task"]["subject"] is not None else "1001"
    row["task"]["subject"] = row["task"]["subject"] or 5
    row["task"][field] = value
    with pytest.raises(RowError, match=re.escape(said)):
        row_from_json(row)
