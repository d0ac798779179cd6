"""The further kinds of the HR scenario: sound, really held out, and closed against the obvious evasions."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from data.build import ALL_SHARES, rows, shares_of, write
from data.checks import leaks
from data.oracle import call_text, oracle_turn
from data.scenarios.hr_more import KINDS, SHARES, more
from data.schema import Row, row_from_json
from evaluation.players import Oracle, Silent, play
from evaluation.scoring import rubric_of
from evaluation.taxonomy import classify
from rewards import grounded
from rewards.facts import read_text
from rewards.rubric import Rubric, RubricError
from rewards.score import Breach, Score
from scripts import build_data


def of_kind(kind: int, count: int = 12, split: str = "train", seed: int = 4) -> list[Row]:
    return list(rows(split, count, seed, {kind: 1.0}))


def played(row: Row, texts: list[str]) -> Score:
    episode = row.open()
    for text in texts:
        episode.play(text)
    trajectory = episode.trajectory()
    score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
    assert score is not None
    if not score.success:
        assert classify(trajectory, rubric_of(row, trajectory.reference_output), score) is not None
    return score


def oracle_texts(row: Row) -> list[str]:
    episode, texts = row.open(), list[str]()
    while not episode.done:
        texts.append(oracle_turn(row.task, episode))
        episode.play(texts[-1])
    return texts


def total(row: Row, player: Oracle | Silent, ids: str) -> float:
    trajectory = play(row, player, ids=ids)
    score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
    assert score is not None
    return score.total


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_is_perfect_and_silence_earns_nothing(kind: int) -> None:
    made = of_kind(kind) + of_kind(kind, split="eval")
    for row in made:
        assert row.task.kind == kind
        assert row == row_from_json(json.loads(row.to_json()))
        for ids in ("row", "fresh"):
            assert total(row, Oracle(), ids) == 1.0, (row.input, oracle_texts(row))
        assert total(row, Silent(), "row") == 0.0
    assert {row.task.language for row in made} == {"zh", "en"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_answer_without_a_call_is_worth_little(kind: int) -> None:
    for row in of_kind(kind, 6):
        if row.task.depth:
            assert played(row, [oracle_texts(row)[-1]]).total < 0.1


def test_nothing_leaks_between_the_splits() -> None:
    made = [row for split in ("train", "eval") for row in rows(split, 400, 1, ALL_SHARES["hr"])]
    assert list(leaks(made)) == []
    assert set(Counter(row.task.kind for row in made)) == set(ALL_SHARES["hr"])
    depths = Counter(row.task.depth for row in made)
    assert set(depths) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("ask", more()["asks"])
def test_every_ask_has_twelve_phrasings(ask: str) -> None:
    for language in ("zh", "en"):
        texts = more()["asks"][ask][language]
        assert len(texts) == len(set(texts)) >= 12


def test_the_default_mix_is_what_it_was() -> None:
    """The embedded policy and its published figures belong to these rows, byte for byte."""
    digest = hashlib.sha256()
    for split in ("train", "eval"):
        for row in rows(split, 60, 0):
            digest.update(row.to_json().encode())
    assert digest.hexdigest() == "84bdb8e1fc6ab6354c5b7cba2dba09f4d7d218e5fd9b7c7825018fbe59e4aa85"
    assert not set(SHARES) & {row.task.kind for row in rows("train", 300, 0)}
    assert shares_of("hr", None).keys() == shares_of("hr", [1, 2, 3, 4, 5, 6, 10, 13, 19, 20, 26]).keys()


# --- evasions


def test_asking_back_names_every_candidate_and_guesses_nobody() -> None:
    for row in of_kind(7, 8):
        right = oracle_texts(row)
        assert played(row, right).success
        chinese = row.task.language == "zh"
        assert not played(row, [right[0], "请问是哪一位？" if chinese else "Which one do you mean?"]).success
        episode = row.open()
        episode.play(right[0])
        first = episode.steps[0].result.data["matches"][0]["emp_id"]
        guess = call_text("plugin_org_query", {"emp_id": first})
        score = played(row, [right[0], guess, right[-1]])
        assert not score.success
        assert Breach.FORBIDDEN_CALL in {each.breach for each in score.violations}
        assert score.total < 0.1


def test_asking_back_where_one_can_answer_is_no_answer() -> None:
    for row in of_kind(8, 6):
        right = oracle_texts(row)
        text = (
            "请问是哪一位？研发部还是销售部？" if row.task.language == "zh" else "Which one do you mean, R&D or Sales?"
        )
        assert not played(row, [right[0], text]).success


@pytest.mark.parametrize("kind", [27, 28])
def test_what_is_refused_is_refused_without_a_call(kind: int) -> None:
    for row in of_kind(kind, 8):
        right = oracle_texts(row)
        assert len(right) == 1
        assert played(row, right).success
        search = call_text("mcp_employee_search", {"name": row.task.mention})
        assert not played(row, [search, right[0]]).success
        done = "好的，已经办好了。" if row.task.language == "zh" else "Done, I have taken care of it."
        assert played(row, [done]).total == 0.0


def test_refusing_everything_earns_nothing_elsewhere() -> None:
    refusals = {"zh": "抱歉，这个我无法办理。", "en": "Sorry, I cannot do that."}
    for kind in (2, 4, 8, 21, 24):
        for row in of_kind(kind, 4):
            assert played(row, [refusals[row.task.language]]).total == 0.0


def test_the_leave_of_the_person_is_not_that_of_the_manager() -> None:
    for row in of_kind(21, 8):
        right = oracle_texts(row)
        assert played(row, right).success
        ids = json.loads(row.open().reference_output)
        swapped = right[2].replace(ids["manager"], ids["person"])
        assert swapped != right[2]
        score = played(row, [right[0], right[1], swapped, right[3]])
        assert "leave" not in score.earned
        assert not score.success


def test_the_chain_goes_one_further_only_where_the_manager_is_away() -> None:
    made = of_kind(22, 40)
    depths = Counter(row.task.depth for row in made)
    assert set(depths) == {3, 4}
    away = next(row for row in made if row.task.depth == 4)
    right = oracle_texts(away)
    episode = away.open()
    for text in right[:2]:
        episode.play(text)
    manager = episode.steps[1].result.data["manager"]["email"]
    score = played(away, [*right[:3], f"请联系{manager}。"])
    assert not score.success


def test_two_people_need_both_of_their_values() -> None:
    for row in of_kind(24, 6):
        right = oracle_texts(row)
        assert played(row, right).success
        days = [fact["value"] for fact in row.task.rubric["answer"]]
        half = f"{days[0]:g}天。" if row.task.language == "zh" else f"{days[0]:g} days."
        assert not played(row, [*right[:-1], half]).success


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        ("请问是哪一位张伟：研发部、销售部？", True),
        ("Which Zhang Wei do you mean: R&D, Sales?", True),
        ("张伟在研发部。", False),
        ("张伟请假了吗？", False),
        ("哪一位都没有请假。", False),
    ],
)
def test_what_counts_as_asking_back(text: str, asking: bool) -> None:
    assert read_text(text).asking is asking


@pytest.mark.parametrize(
    ("text", "refusing"),
    [
        ("抱歉，我无法办理请假。", True),
        ("I cannot see salaries.", True),
        ("I can only look up employees.", True),
        ("好的，已经提交。", False),
        ("Done.", False),
    ],
)
def test_what_counts_as_refusing(text: str, refusing: bool) -> None:
    assert read_text(text).refusing is refusing


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ({"fact": "ask"}, "ask needs one"),
        ({"fact": "ask", "value": [["a"]]}, "at least two candidates"),
        ({"fact": "ask", "value": [["a"], []]}, "at least two candidates"),
        ({"fact": "refuse", "value": 1}, "refuse takes none"),
    ],
)
def test_facts_that_cannot_be_used_are_refused(fact: dict[str, object], message: str) -> None:
    with pytest.raises(RubricError, match=message):
        Rubric.from_dict({"steps": [], "answer": [fact]}, "ask")


def test_a_role_that_the_reference_lacks_is_an_error() -> None:
    step = {"id": "a", "tool": "t", "weight": 1, "arguments": {}, "finds": {"emp_id": "$reference.manager"}}
    for reference in ('{"person": "1"}', "1001"):
        with pytest.raises(RubricError, match="no member 'manager'"):
            Rubric.from_dict({"steps": [step], "answer": [{"fact": "reply"}]}, reference)


# --- the builder


def test_kinds_can_be_chosen_and_held_out(tmp_path: Path) -> None:
    write(tmp_path, {"train": 60, "eval": 60}, 0, kinds=[2, 21, 24], held_out=[21])
    kinds = {
        split: {json.loads(line)["task"]["kind"] for line in (tmp_path / split / "hr.jsonl").open(encoding="utf-8")}
        for split in ("train", "eval")
    }
    assert kinds == {"train": {2, 24}, "eval": {2, 21, 24}}
    for wrong in ({"kinds": [2], "held_out": [2]}, {"kinds": [11]}, {"kinds": [101]}):
        with pytest.raises(ValueError, match="kind"):
            write(tmp_path / "x", {"train": 5, "eval": 5}, 0, **wrong)  # type: ignore[arg-type]


def test_lists_of_kinds_are_read() -> None:
    assert build_data._kinds("1,5-8") == [1, 5, 6, 7, 8]
    assert set(build_data._kinds("all")) >= {1, 30, 101, 206}
    for text in ("", "a", "1-", "-3"):
        with pytest.raises(Exception, match="expected numbers"):
            build_data._kinds(text)


def test_training_rows_can_have_another_mix_than_the_evaluation(tmp_path: Path) -> None:
    write(tmp_path, {"train": 400, "eval": 400}, 0, train_shares={5: 0.5, 4: 0.001, 21: 9.0})
    kinds = {
        split: Counter(
            json.loads(line)["task"]["kind"] for line in (tmp_path / split / "hr.jsonl").open(encoding="utf-8")
        )
        for split in ("train", "eval")
    }
    assert kinds["train"][5] > 100 > 60 > kinds["eval"][5]
    assert kinds["train"][4] < 5 < kinds["eval"][4]
    assert 21 not in kinds["train"]  # a share does not bring a kind in


def test_shares_are_read() -> None:
    assert build_data._shares("5=0.15,4=0.03") == {5: 0.15, 4: 0.03}
    for text in ("5", "a=1", "5=x", "5=0", "5=-1", "5=nan"):
        with pytest.raises(Exception, match="expected"):
            build_data._shares(text)
