"""SFT chats: what was played and nothing else, from training rows only, rare tools more often."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from data import balance
from data.build import ALL_SHARES, rows
from data.conversations import NoConversation, of_oracle, of_rollout
from data.oracle import call_text
from data.schema import Row
from env.parsing import parse
from evaluation.players import Oracle, Silent, play
from evaluation.record import Writer
from evaluation.scoring import record_of
from scripts.export_sft import main

ROWS = list(rows("train", 40, 2, ALL_SHARES["hr"]))
DEEP = next(row for row in ROWS if row.task.depth == 3)


def saved(folder: Path, chosen: Sequence[Row] = ROWS) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(row.to_json() + "\n" for row in chosen), "utf-8")
    return path


def exported(folder: Path, *more: str, chosen: Sequence[Row] = ROWS) -> list[dict[str, Any]]:
    out = folder / "sft.jsonl"
    assert main(["--data", str(saved(folder, chosen)), "--out", str(out), *more]) == 0
    assert not out.with_name("sft.jsonl.partial").exists()
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def played(row: Row, texts: Sequence[str]) -> Any:
    episode = row.open()
    for text in texts:
        episode.play(text)
    return episode.trajectory()


# --- one chat


def test_a_chat_is_the_episode_call_by_call_and_result_by_result() -> None:
    for row in ROWS:
        episode, trajectory = row.open("x"), play(row, Oracle(), ids="x")
        chat = of_oracle(row, "x")
        assert chat == of_rollout(row, trajectory)
        assert chat["tools"] == episode.tools
        assert chat["messages"][:2] == episode.messages
        said = [message for message in chat["messages"] if message["role"] == "assistant"]
        for message, turn in zip(said, trajectory.turns, strict=True):
            parsed = parse(turn.text)
            calls = [call["function"] for call in message.get("tool_calls", [])]
            assert calls == [{"name": each.name, "arguments": each.arguments} for each in parsed.attempts]
            assert message["content"] == parsed.prose
            assert all(None not in call["arguments"].values() for call in calls)
        results = [message for message in chat["messages"] if message["role"] == "tool"]
        assert [message["content"] for message in results] == [step.result.text() for step in trajectory.steps]


def test_calls_of_one_message_stay_together_and_know_their_results() -> None:
    name = {"name": DEEP.task.mention}
    texts = [call_text("mcp_employee_search", name) + call_text("mcp_employee_search", {"name": "x"}), "done"]
    _, _, calls, first, second, last = of_rollout(DEEP, played(DEEP, texts))["messages"]
    assert [call["function"]["arguments"] for call in calls["tool_calls"]] == [name, {"name": "x"}]
    assert [first["tool_call_id"], second["tool_call_id"]] == [call["id"] for call in calls["tool_calls"]]
    assert json.loads(first["content"])["data"]["total"] == 1 and json.loads(second["content"])["data"]["total"] == 0
    assert last == {"role": "assistant", "content": "done"}


@pytest.mark.parametrize(
    "texts", [["<tool_call>{</tool_call>", "done"], [call_text("mcp_employee_search", {"name": "x"})] * 6]
)
def test_what_cannot_be_said_as_calls_or_has_no_answer_is_no_chat(texts: list[str]) -> None:
    with pytest.raises(NoConversation):
        of_rollout(DEEP, played(DEEP, texts))


# --- the set


def test_the_set_has_every_training_row_and_repeats_with_other_ids(tmp_path: Path) -> None:
    made = exported(tmp_path)
    assert {chat["row"] for chat in made} == {row.task.id for row in ROWS}
    assert {chat["source"] for chat in made} == {"oracle"}
    calling = [json.dumps(chat["messages"]) for chat in made if len(chat["messages"]) > 5]
    assert len(set(calling)) == len(calling)
    assert exported(tmp_path) == made
    assert exported(tmp_path, "--seed", "1") != made


def test_good_rollouts_join_once_and_bad_ones_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "eval"
    folder.mkdir()
    oracle = play(DEEP, Oracle())
    broken = played(DEEP, ["<tool_call>{</tool_call>", *[turn.text for turn in oracle.turns]])
    with Writer(folder / "records.jsonl") as writer:
        for sample, trajectory in enumerate([oracle, oracle, play(DEEP, Silent()), broken]):
            writer.append(record_of(DEEP, trajectory, sample=sample))
    made = exported(tmp_path, "--traces", str(folder))
    rollouts = [chat for chat in made if chat["source"] == "rollout"]
    assert rollouts and all(chat["messages"] == of_rollout(DEEP, oracle)["messages"] for chat in rollouts)
    said = " ".join(capsys.readouterr().out.split())
    assert "1 episodes kept" in said
    for part in ("1 repeated", "1 without success", "1 with a call that could not be read"):
        assert part in said


def test_held_out_rows_are_refused_in_the_data_and_in_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [held_out] = rows("eval", 1, 0)
    out = tmp_path / "sft.jsonl"
    assert main(["--data", str(saved(tmp_path, [*ROWS, held_out])), "--out", str(out)]) == 2
    assert "held out from training" in capsys.readouterr().err
    with Writer(tmp_path / "records.jsonl") as writer:
        writer.append(record_of(held_out, play(held_out, Oracle())))
    assert main(["--data", str(saved(tmp_path)), "--out", str(out), "--traces", str(tmp_path / "records.jsonl")]) == 2
    assert f"{held_out.task.id} (eval) is none of the training rows" in capsys.readouterr().err
    assert not out.exists()


def test_a_tool_that_no_example_calls_is_an_error_after_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = list(rows("train", 10, 0, {4: 1.0}))
    out = tmp_path / "sft.jsonl"
    assert main(["--data", str(saved(tmp_path, chosen)), "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert "no example calls plugin_leave_query, plugin_org_query" in said.err
    assert "plugin_leave_query" in said.out
    assert not out.exists()


def test_rare_tools_are_sampled_up_to_the_root_of_their_rarity() -> None:
    examples = [{"a"}] * 900 + [{"a", "b"}] * 80 + [{"c"}] * 10 + [set()] * 10
    copies = balance.copies(examples, 0)
    assert copies == balance.copies(examples, 0) != balance.copies(examples, 1)
    assert set(copies[:900]) == {1} == set(copies[990:])
    assert set(copies[900:980]) == {3, 4} and abs(sum(copies[900:980]) - 280) < 20
    assert set(copies[980:990]) <= {9, 10}
    assert balance.missing(examples, ["a", "c", "d"]) == ["d"]
    assert balance.copies([], 0) == [] and balance.copies([set()], 0) == [1]


@pytest.mark.slow
def test_the_datasets_library_reads_back_what_was_written(tmp_path: Path) -> None:
    """No argument is added to a call because another call has it."""
    from datasets import load_dataset

    made = exported(tmp_path)
    path = str(tmp_path / "sft.jsonl")
    assert list(load_dataset("json", data_files=path, split="train", cache_dir=str(tmp_path / "cache"))) == made
