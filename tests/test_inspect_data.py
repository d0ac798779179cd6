"""What inspect_data counts is what the rows hold, and what it cannot read it names with file and line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from data import profile
from data.build import ALL_SHARES, rows
from data.schema import Row
from scripts.inspect_data import main, report

ROWS = [row for split in ("train", "eval") for row in rows(split, 40, 1, ALL_SHARES["hr"])]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(row.to_json() + "\n" for row in ROWS), "utf-8")
    return path


def test_every_part_is_counted_over_all_rows() -> None:
    counts = profile.counts(ROWS)
    assert counts.keys() == set(profile.PARTS)
    for part in ("domain", "kind", "depth", "language", "split", "template"):
        assert counts[part] == Counter(str(getattr(row.task, part)) for row in ROWS)
    assert list(counts["kind"]) == sorted(counts["kind"], key=int)
    for tool, count in counts["tool"].items():
        assert count == sum(any(step["tool"] == tool for step in row.task.rubric["steps"]) for row in ROWS)


def test_examples_follow_from_the_seed_and_stand_in_order() -> None:
    first, again, other = (profile.sample(ROWS, 10, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert [ROWS.index(row) for row in first] == sorted({ROWS.index(row) for row in first})
    assert profile.sample(ROWS, 1000, 0) == ROWS


@pytest.mark.parametrize("values", [[7], [1, 2], [5, 1, 3, 3], list(range(1, 101)), list(range(40))])
def test_a_percentile_is_the_smallest_value_that_covers_the_share(values: list[int]) -> None:
    for share in (0.5, 0.95):
        found = profile.percentile(values, share)
        assert found in values
        assert sum(value <= found for value in values) >= share * len(values)
        assert all(sum(value <= other for value in values) < share * len(values) for other in values if other < found)


def test_the_file_that_is_asked_for_holds_what_is_shown(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new/folder/counts.json"
    assert main([str(file), "--json", str(out), "--seed", "3"]) == 0
    assert json.loads(out.read_text("utf-8")) == report(ROWS, None, 10, 3)
    said = capsys.readouterr().out
    assert f"{len(ROWS)} rows" in said
    assert all(row.task.id in said for row in profile.sample(ROWS, 10, 3))


def changed(row: Row, **task: object) -> str:
    value = json.loads(row.to_json())
    value["task"] |= task
    return json.dumps(value)


@pytest.mark.parametrize(
    ("line", "said"), [("{", ":2:2: not JSON"), (changed(ROWS[1], language="fr"), "task.language: expected one of")]
)
def test_a_bad_row_is_named_with_file_and_line(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{ROWS[0].to_json()}\n{line}\n", "utf-8")
    assert main([str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}:2:" in error and said in error


@pytest.mark.slow
def test_lengths_are_those_of_the_transcripts(file: Path) -> None:
    from training.models import load_chat
    from training.sft import transcript

    made = [transcript(row, load_chat("models/tiny"), "row") for row in ROWS[:20]]
    tokens = report(ROWS[:20], "models/tiny", 0, 0)["tokens"]
    assert tokens["episode"]["max"] == max(len(each.input_ids) for each in made)
    assert tokens["prompt"]["p50"] == sorted(each.prompt_tokens for each in made)[9]
