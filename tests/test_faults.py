"""Faults on purpose: the same episode fails in the same way, visibly, and the reward keeps blame where it belongs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import eval as evaluation_command
from data.build import rows
from data.oracle import GIVE_UP, oracle_turn
from data.schema import Row
from env.faults import FaultKind, FaultPlan, Rule
from env.types import ErrorCode, StopReason
from evaluation.players import Oracle, play
from evaluation.scoring import rubric_of
from rewards import grounded
from training.run import RunError, run

SEARCH, LEAVE = "mcp_employee_search", "plugin_leave_query"


def one(kind: int = 1) -> Row:
    return next(rows("train", 1, 0, {kind: 1.0}))


def plan(*rules: Rule) -> FaultPlan:
    return FaultPlan(rules)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FaultKind.UNAVAILABLE, ErrorCode.UNAVAILABLE),
        (FaultKind.TIMEOUT, ErrorCode.TIMEOUT),
        (FaultKind.RATE_LIMITED, ErrorCode.RATE_LIMITED),
        (FaultKind.MALFORMED, ErrorCode.OUTPUT_INVALID),
    ],
)
def test_a_failure_that_is_not_the_model_s_voids_the_episode(kind: FaultKind, code: ErrorCode) -> None:
    row = one()
    trajectory = play(row, Oracle(), faults=plan(Rule(LEAVE, kind)))
    assert trajectory.stop is StopReason.INFRASTRUCTURE
    assert trajectory.steps[-1].result.code is code
    assert trajectory.steps[-1].result.metadata["faults"] == [kind.value]
    assert grounded.score(trajectory, rubric_of(row, trajectory.reference_output)) is None


def test_a_stale_id_is_an_error_that_the_model_can_mend() -> None:
    """The second attempt works: a policy that tries again gets there, at the price of a wasted call."""
    row = one()
    episode = row.open(faults=plan(Rule(LEAVE, FaultKind.STALE_ID, times=1)))
    search = oracle_turn(row.task, episode)
    episode.play(search)
    leave = oracle_turn(row.task, episode)
    episode.play(leave)
    assert episode.steps[-1].result.code is ErrorCode.NOT_FOUND
    episode.play(leave)
    assert episode.steps[-1].result.ok
    assert [step.result.metadata.get("faults") for step in episode.steps] == [None, ["stale_id"], None]


def test_an_empty_and_a_doubled_result_keep_to_the_contract() -> None:
    row = one(4)
    text = oracle_turn(row.task, row.open())
    for kind, count in ((FaultKind.EMPTY, 0), (FaultKind.DUPLICATE, 2)):
        episode = row.open(faults=plan(Rule(SEARCH, kind)))
        episode.play(text)
        data = episode.steps[0].result.data
        assert (len(data["matches"]), data["total"]) == (count, count)
        assert len({match["emp_id"] for match in data["matches"]}) == count


@pytest.mark.parametrize("kind", FaultKind)
@pytest.mark.parametrize("times", [1, None])
def test_the_oracle_tries_once_more_and_then_says_so(kind: FaultKind, times: int | None) -> None:
    for number in (1, 4, 10, 13):
        row = one(number)
        trajectory = play(row, Oracle(), faults=plan(Rule("*", kind, times)))
        score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
        if trajectory.stop is StopReason.INFRASTRUCTURE:
            assert score is None
            continue
        assert score is not None
        assert not [each for each in score.violations if each.turn < len(trajectory.turns) - 1]  # no call is dishonest
        assert score.success or times is None or kind in (FaultKind.EMPTY, FaultKind.DUPLICATE)


def test_rules_hit_their_share_of_the_episodes_and_the_same_ones_every_time() -> None:
    half = plan(Rule("*", FaultKind.UNAVAILABLE, share=0.5))
    drawn = [[half.for_episode(f"row-{n}") is not None for n in range(400)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert 160 < sum(drawn[0]) < 240
    first, again = (play(one(), Oracle(), ids="x", faults=half).to_payload() for _ in range(2))
    assert first == again


def test_other_tools_are_left_alone() -> None:
    row = one()
    trajectory = play(row, Oracle(), faults=plan(Rule("plugin_org_query", FaultKind.STALE_ID)))
    assert [step.result.ok for step in trajectory.steps] == [True, True, False, False]
    assert trajectory.answer in GIVE_UP.values()


def test_the_shipped_file_loads() -> None:
    kinds = Counter(rule.kind for rule in FaultPlan.load("configs/faults.yaml").rules)
    assert kinds == {FaultKind.STALE_ID: 1, FaultKind.EMPTY: 1, FaultKind.UNAVAILABLE: 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fault: []", "expected the key faults"),
        ("faults: 3", "expected the key faults"),
        ("faults:\n  - {tool: a}", ":2: expected tool, fault"),
        ("faults:\n  - {tool: a, fault: empty}\n  - {tool: a, fault: broken}", ":3: fault: expected one of"),
        ("faults:\n  - {tool: a, fault: empty, times: 0}", "times: expected"),
        ("faults:\n  - {tool: a, fault: empty, share: 1.5}", "share: expected"),
        ("faults:\n  - {tool: '', fault: empty}", "tool: expected"),
        ("faults:\n  - {tool: a, fault: empty, fault: empty}", ":2: "),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        FaultPlan.load(path)
    assert str(caught.value).startswith(f"{path}:")


def test_eval_counts_by_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("faults:\n  - {tool: plugin_org_query, fault: stale_id, share: 0.5}\n", "utf-8")
    words = ["--policy", "oracle", "--rows", "40", "--faults", str(file), "--out", str(tmp_path / "out")]
    assert evaluation_command.main(words) == 0
    by_fault = json.loads((tmp_path / "out/summary.json").read_text("utf-8"))["summary"]["by_fault"]
    assert by_fault["none"]["rate"] == 1.0
    assert by_fault["stale_id"]["rate"] == 0.0  # it never goes away, and an honest "could not look it up" is no success
    assert by_fault["stale_id"]["n"] > 3
    silent = ["--policy", "silent", *words[2:4], "--faults", str(file), "--out", str(tmp_path / "silent")]
    assert evaluation_command.main(silent) == 0
    summary = json.loads((tmp_path / "silent/summary.json").read_text("utf-8"))
    assert summary["settings"]["faults"] == str(file)
    assert summary["summary"]["by_fault"].keys() == {"none"}  # silence meets none
    random = ["--policy", "random", *silent[2:-1], str(tmp_path / "random")]
    assert evaluation_command.main(random) == 0
    assert evaluation_command.main([*silent[:5], str(tmp_path / "nothing.yaml"), "--out", str(tmp_path / "x")]) == 2
    assert "--faults" in capsys.readouterr().err


def test_training_refuses_a_bad_file_before_anything_loads(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("faults: [1]", "utf-8")
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(row.to_json() + "\n" for row in rows("train", 20, 0)), "utf-8")
    for value, message in ((str(file), "expected tool, fault"), (str(tmp_path / "none"), "no such file")):
        words = ["--config", "configs/tiny_grpo.yaml", "--data", str(data), "--output_dir", str(tmp_path / "out")]
        with pytest.raises(RunError, match=message):
            run([*words, "--faults", value, "--dry_run", "true"])
