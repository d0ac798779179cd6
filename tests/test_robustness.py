"""Whatever a model writes is parsed, run, scored, stored and shown again: nothing raises, nothing is lost.

Each malformed output goes the whole way of a real episode, between a good search and a good answer.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from data.build import rows as build_rows
from data.oracle import call_text, oracle_turn
from data.schema import Row
from env.episode import MAX_CALLS_PER_TURN, Episode
from env.parsing import parse
from env.types import AttemptStatus, ErrorCode, Fault, StopReason, Trajectory
from evaluation.scoring import rubric_of
from rewards import grounded
from rewards.payload import cal_reward
from training.chat import ChatFormat
from training.tiny import CALL_TAGS, END, PAD, START, train_tokenizer

MUTANTS = 2000
MESSAGE = re.compile(r"[a-z_]+: \S")
SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"


@cache
def rows() -> tuple[Row, ...]:
    """Rows whose oracle makes a call, a few of each kind."""
    made: dict[tuple[int, str], Row] = {}
    for row in build_rows("train", 200, 0):
        if row.task.depth:
            made.setdefault((row.task.kind, row.task.language), row)
    return tuple(made.values())


@cache
def chat() -> ChatFormat:
    return ChatFormat(train_tokenizer(row.input for row in build_rows("train", 60, 0)))


def controls(ids: Sequence[int]) -> list[int]:
    return [token for token in ids if token in control_ids()]


@cache
def control_ids() -> frozenset[int]:
    return frozenset(chat().tokenizer.added_tokens_decoder)


@cache
def harmless(count: int) -> int:
    """Control tokens of the template alone around so many results."""
    return len(controls(chat().results_ids(["x"] * count)))


# ---- outputs ----


def good_calls(row: Row, rng: random.Random) -> list[str]:
    name = row.task.mention or "张三"
    emp_id = rng.choice((row.reference_output, "0042", 12345, 1001.0))
    week = {"start_date": "2026-06-01", "end_date": "2026-06-07"}
    return [
        call_text(SEARCH, {"name": name}),
        call_text(ORG, {"emp_id": emp_id}),
        call_text(LEAVE, {"emp_id": emp_id, **week, "leave_type": "sick"}),
    ]


JUNK = (
    *("{", "}", "[", "]", '"', ":", ",", "\\", "\\u", "\\ud800", "\\u0000", "\x00", "\n", "\t", "\ufeff", "\u2028"),
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 400, "1" * 5000, "0x10", "01", ".5", "null", "true"),
    *('"name":', '"arguments":', '"name":"x",', '"emp_id":"1",', '"arguments":{},', "{}", "[]", '""', '{"":""}'),
    *(*CALL_TAGS, "<tool_call", "tool_call>", "<think>", "</think>", "<tool_response>", START, END, PAD),
    *("张三", "🙂", "\ud800", "\udfff", "\ud83d", "\U0010ffff", "\u202e", "é", "`", "```json", "//", "#", "'", "-"),
)  # fmt: skip


def flip(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text))
    return text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x3000), 0xD800))) + text[at + 1 :]


def cut(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text))
    return text[:start] + text[start + rng.randrange(1, 12) :]


def insert(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(JUNK) + text[at:]


def replace_value(text: str, rng: random.Random) -> str:
    values = re.findall(r'"[^"]*"|\{[^{}]*\}', text)
    return text.replace(rng.choice(values), rng.choice(JUNK), 1) if values else text


def double(text: str, rng: random.Random) -> str:
    start, end = sorted(rng.randrange(len(text) + 1) for _ in "ab")
    return text[:end] + text[start:end] + text[end:]


def swap(text: str, rng: random.Random) -> str:
    parts = re.split(r"([{}\[\]:,])", text)
    one, two = (rng.randrange(len(parts)) for _ in "ab")
    parts[one], parts[two] = parts[two], parts[one]
    return "".join(parts)


def truncated(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text))]


def nested(text: str, rng: random.Random) -> str:
    depth = rng.choice((10, 33, 65, 200, 1000))
    opened, closed = rng.choice((("[", "]"), ('{"a":', "}"), ('{"arguments":', "}"), ("[{}, [", "]]")))
    deep = opened * depth + "1" + (closed * depth if rng.random() < 0.6 else "")
    values = re.findall(r'"[^"]*"|\{[^{}]*\}', text)
    return text.replace(rng.choice(values), deep, 1) if values else text + deep


MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    flip, cut, insert, insert, replace_value, double, swap, truncated, nested,
)  # fmt: skip


@cache
def mutants() -> tuple[str, ...]:
    rng, made = random.Random(0), list[str]()
    while len(made) < MUTANTS:
        text = rng.choice(good_calls(rng.choice(rows()), rng))
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            text = rng.choice(MUTATIONS)(text, rng) or "<tool_call>"
        made.append(text)
    return tuple(made)


def in_tags(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


def with_arguments(arguments: str, name: str = ORG) -> str:
    return in_tags(f'{{"name":"{name}","arguments":{arguments}}}')


# name -> an output that cannot be run as a call
BROKEN: dict[str, str] = {
    "nothing": in_tags(""),
    "blank": in_tags(" \n\t"),
    "words": in_tags("call the search for me"),
    "null": in_tags("null"),
    "number": in_tags("42"),
    "string": in_tags('"plugin_org_query"'),
    "list": in_tags('[{"name":"plugin_org_query","arguments":{}}]'),
    "single quotes": in_tags("{'name': 'plugin_org_query', 'arguments': {'emp_id': '1'}}"),
    "no name": in_tags('{"arguments":{"emp_id":"1"}}'),
    "empty name": in_tags('{"name":"","arguments":{}}'),
    "null name": in_tags('{"name":null,"arguments":{}}'),
    "name is a number": in_tags('{"name":7,"arguments":{}}'),
    "name is a list": in_tags('{"name":["plugin_org_query"],"arguments":{}}'),
    "unclosed tag": '<tool_call>{"name":"plugin_org_query","arguments":{"emp_id":"1"}}',
    "unclosed object": in_tags('{"name":"plugin_org_query","arguments":{"emp_id":"1"}'),
    "only the tag": "<tool_call>",
    "thousand tags": "<tool_call>" * 1000,
    "tag in tag": "<tool_call><tool_call>" + '{"name":"plugin_org_query"}' + "</tool_call></tool_call>",
    "two objects": in_tags('{"name":"plugin_org_query","arguments":{}}{"name":"plugin_org_query"}'),
    "trailing comma": with_arguments('{"emp_id":"1",}'),
    "comment": with_arguments('{"emp_id":"1" /* the id */}'),
    "duplicate argument": with_arguments('{"emp_id":"1","emp_id":"2"}'),
    "duplicate name": in_tags('{"name":"plugin_org_query","name":"mcp_employee_search","arguments":{"emp_id":"1"}}'),
    "arguments are a list": with_arguments('["1001"]'),
    "arguments are a number": with_arguments("1001"),
    "arguments are words": with_arguments('"emp_id=1001"'),
    "arguments are a list as text": with_arguments('"[1001]"'),
    "arguments encoded three times": with_arguments(json.dumps(json.dumps(json.dumps({"emp_id": "1"})))),
    "NaN": with_arguments('{"emp_id":NaN}'),
    "Infinity": with_arguments('{"emp_id":-Infinity}'),
    "1e999": with_arguments('{"emp_id":1e999}'),
    "4301 digits": with_arguments('{"emp_id":' + "9" * 4301 + "}"),
    "lone surrogate": with_arguments('{"emp_id":"\\ud800"}'),
    "lone surrogate as key": with_arguments('{"\\udfff":"1"}'),
    "lone surrogate in the name": in_tags('{"name":"plugin\\ud83d","arguments":{}}'),
    "deep list": with_arguments('{"emp_id":' + "[" * 1000 + "]" * 1000 + "}"),
    "deep object": with_arguments('{"a":' * 1000 + "1" + "}" * 1000),
    "deep and never closed": with_arguments("[" * 100_000),
    "deeper than any stack": "<tool_call>" + '{"a":[' * 50_000,
    "control character": with_arguments('{"emp_id":"1\x00"}'),
    "raw newline in a string": with_arguments('{"emp_id":"1\n2"}'),
    "bad escape": with_arguments('{"emp_id":"\\x41"}'),
    "control token": in_tags(f"{END}{START}system"),
    "closed by the wrong tag": '<tool_call>{"name":"plugin_org_query","arguments":{}}</tool_response>',
}

# name -> (a call that can be read but not run, what it is told)
REFUSED: dict[str, tuple[str, ErrorCode]] = {
    "unknown tool": (in_tags('{"name":"plugin_salary_query","arguments":{}}'), ErrorCode.TOOL_NOT_FOUND),
    "nearly a tool": (in_tags('{"name":"plugin_org_qurey","arguments":{}}'), ErrorCode.TOOL_NOT_FOUND),
    "control token as a name": (in_tags('{"name":"<|im_end|>","arguments":{}}'), ErrorCode.TOOL_NOT_FOUND),
    "name of 100,000 characters": (in_tags('{"name":"' + "x" * 100_000 + '"}'), ErrorCode.TOOL_NOT_FOUND),
    "private name": (in_tags('{"name":"__class__","arguments":{}}'), ErrorCode.TOOL_NOT_FOUND),
    "no arguments": (in_tags('{"name":"plugin_org_query"}'), ErrorCode.INVALID_ARGUMENTS),
    "null arguments": (with_arguments("null"), ErrorCode.INVALID_ARGUMENTS),
    "unknown argument": (with_arguments('{"emp_id":"1","depth":2}'), ErrorCode.INVALID_ARGUMENTS),
    "argument of the world": (with_arguments('{"emp_id":"1","world":{}}'), ErrorCode.INVALID_ARGUMENTS),
    "argument self": (with_arguments('{"emp_id":"1","self":1}'), ErrorCode.INVALID_ARGUMENTS),
    "id is null": (with_arguments('{"emp_id":null}'), ErrorCode.INVALID_ARGUMENTS),
    "id is true": (with_arguments('{"emp_id":true}'), ErrorCode.INVALID_ARGUMENTS),
    "id is an object": (with_arguments('{"emp_id":{"emp_id":"1"}}'), ErrorCode.INVALID_ARGUMENTS),
    "id is empty": (with_arguments('{"emp_id":""}'), ErrorCode.INVALID_ARGUMENTS),
    "id is half": (with_arguments('{"emp_id":1001.5}'), ErrorCode.INVALID_ARGUMENTS),
    "id is huge": (with_arguments('{"emp_id":' + "9" * 300 + "}"), ErrorCode.INVALID_ARGUMENTS),
    "id is 1e300": (with_arguments('{"emp_id":1e300}'), ErrorCode.INVALID_ARGUMENTS),
    "deep but legal JSON": (with_arguments('{"emp_id":' + "[" * 60 + "]" * 60 + "}"), ErrorCode.INVALID_ARGUMENTS),
    "name too long": (with_arguments('{"name":"' + "张" * 65 + '"}', SEARCH), ErrorCode.INVALID_ARGUMENTS),
    "id of nobody": (with_arguments('{"emp_id":"-1"}'), ErrorCode.NOT_FOUND),
    "injection": (with_arguments('{"emp_id":"\' OR 1=1 --"}'), ErrorCode.NOT_FOUND),
    "encoded twice": (with_arguments(json.dumps(json.dumps({"emp_id": "-1"}))), ErrorCode.NOT_FOUND),
    "negative zero": (with_arguments('{"emp_id":-0.0}'), ErrorCode.NOT_FOUND),
    "date backwards": (
        with_arguments('{"emp_id":"1","start_date":"2026-06-07","end_date":"2026-06-01"}', LEAVE),
        ErrorCode.BUSINESS_ERROR,
    ),
    "no such day": (
        with_arguments('{"emp_id":"1","start_date":"2026-02-30","end_date":"2026-03-01"}', LEAVE),
        ErrorCode.INVALID_ARGUMENTS,
    ),
}


# ---- the way of an output ----


def check_turn(text: str, episode: Episode) -> list[str] | None:
    """Play one output; every attempt in it has a step and an answer that the model can read."""
    attempts, before = parse(text).attempts, len(episode.steps)
    results = episode.play(text)
    steps = episode.steps[before:]
    assert [(step.attempt, step.name) for step in steps] == [(attempt.status, attempt.name) for attempt in attempts]
    assert [step.call for step in steps] == list(range(len(attempts)))
    for step in steps:
        if step.attempt is not AttemptStatus.OK:
            assert step.result.code is ErrorCode.INVALID_ARGUMENTS and step.arguments is None
        if not step.result.ok:
            assert step.result.code is not None and step.result.code.fault is Fault.POLICY
            assert step.result.message.startswith(f"{step.result.code}: ") and MESSAGE.match(step.result.message)
            assert len(step.result.message) < 1500
    if results is not None:
        assert [json.loads(result) for result in results] == [json.loads(step.result.text()) for step in steps]
        for result, step in zip(results, steps, strict=True):
            assert json.loads(result)["status"] == ("success" if step.result.ok else "error")
        ids = chat().results_ids(results)
        assert len(controls(ids)) == harmless(len(results))
    return results


def check_end(row: Row, trajectory: Trajectory) -> float:
    """Score it, store it, read it back; returns the score."""
    score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
    assert score is not None and math.isfinite(score.total) and 0.0 <= score.total <= 1.0
    assert math.fsum(score.increments) == pytest.approx(score.total, abs=1e-12)
    assert len(score.increments) == len(trajectory.turns)
    assert all(map(math.isfinite, (*score.increments, *score.parts.values())))
    payload = trajectory.to_payload()
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
    for stored in (payload, text):
        assert Trajectory.from_payload(stored) == trajectory
    assert 0.0 <= cal_reward(text) <= 1.0
    return score.total


def played(row: Row, *texts: str) -> Trajectory:
    """An episode of these turns, each checked, ended by an answer where it still runs."""
    episode = row.open(max_turns=len(texts) + 1)
    for text in (*texts, "x"):
        if not episode.done:
            check_turn(text, episode)
    return episode.trajectory()


def first_call(row: Row) -> str:
    return first_calls()[row.task.id]


@cache
def first_calls() -> dict[str, str]:
    return {row.task.id: oracle_turn(row.task, row.open()) for row in rows()}


@pytest.mark.slow
def test_two_thousand_mutated_calls_raise_nothing_and_are_all_answered() -> None:
    rng, statuses, codes = random.Random(1), Counter[str](), Counter[str]()
    for number, text in enumerate(mutants()):
        row = rows()[number % len(rows())]
        other = rng.choice(mutants())
        trajectory = played(row, first_call(row), text, other + text if number % 10 == 0 else "done")
        total = check_end(row, trajectory)
        assert trajectory.steps[0].result.ok
        statuses.update(step.attempt.value for step in trajectory.steps[1:])
        codes.update(str(step.result.code) for step in trajectory.steps[1:])
        if any(step.attempt is not AttemptStatus.OK for step in trajectory.steps):
            assert total < 1.0
    assert statuses.keys() == {status.value for status in AttemptStatus}, "every status occurs"
    assert statuses.total() - statuses["ok"] > MUTANTS / 2
    assert {"tool_not_found", "invalid_arguments", "not_found", "None"} <= codes.keys()


@pytest.mark.parametrize("name", BROKEN)
def test_a_call_that_cannot_be_read_is_answered_and_recorded(name: str) -> None:
    row = rows()[0]
    trajectory = played(row, first_call(row), BROKEN[name])
    check_end(row, trajectory)
    broken = trajectory.steps[1:]
    assert broken and trajectory.stop is StopReason.ANSWERED
    for step in broken:
        if step.attempt is not AttemptStatus.OK:
            assert step.result.message.startswith("invalid_arguments: the call was not run: ")
    assert any(step.attempt is not AttemptStatus.OK for step in broken)


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_cannot_be_run_is_answered_with_its_code(name: str) -> None:
    row = rows()[0]
    text, code = REFUSED[name]
    trajectory = played(row, first_call(row), text)
    check_end(row, trajectory)
    [step] = trajectory.steps[1:]
    assert (step.attempt, step.result.code) == (AttemptStatus.OK, code), step.result.message


@pytest.mark.parametrize("name", [*BROKEN, *REFUSED])
def test_a_bad_call_costs_the_oracle_its_full_mark_and_nothing_else(name: str) -> None:
    """The model may still finish the task: a repaired mistake is waste, not failure."""
    text = BROKEN[name] if name in BROKEN else REFUSED[name][0]
    row = next(row for row in rows() if row.task.kind == 2)
    episode = row.open(max_turns=8)
    oracle = [oracle_turn(row.task, episode)]
    while episode.play(oracle[-1]) is not None:
        oracle.append(oracle_turn(row.task, episode))
    total = check_end(row, played(row, oracle[0], text, *oracle[1:]))
    assert 0.0 < total < 1.0


@pytest.mark.parametrize("bad", ["unclosed tag", "list", "NaN", "deep list", "no name"])
def test_a_bad_call_does_not_take_a_good_one_with_it(bad: str) -> None:
    row = rows()[0]
    good = first_call(row)
    for text in (BROKEN[bad] + good, good + BROKEN[bad], good + BROKEN[bad] + good):
        trajectory = played(row, text)
        assert sum(step.result.ok for step in trajectory.steps) == text.count(good)
        check_end(row, trajectory)


def test_calls_above_the_limit_of_a_message_are_answered_and_not_run() -> None:
    row = rows()[0]
    trajectory = played(row, first_call(row) * (MAX_CALLS_PER_TURN + 5))
    codes = [step.result.code for step in trajectory.steps]
    assert codes == [None] * MAX_CALLS_PER_TURN + [ErrorCode.BUSINESS_ERROR] * 5
    check_end(row, trajectory)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\ud800",
        "\x00",
        "<think>",
        "</think>",
        "</tool_call>",
        f"{END}{START}",
        "张三" * 50_000,
        "🙂",
        "NaN",
        "0" * 10_000,
    ],
)
def test_any_text_without_a_call_is_an_answer(text: str) -> None:
    """It ends the episode and is worth no more than honest work without an answer."""
    row = rows()[0]
    trajectory = played(row, text)
    assert trajectory.stop is StopReason.ANSWERED and trajectory.steps == ()
    assert check_end(row, trajectory) == 0.0


def test_a_long_episode_of_nonsense_ends_at_the_turn_limit() -> None:
    rng, row = random.Random(2), rows()[0]
    episode = row.open(max_turns=40)
    while not episode.done:
        check_turn(BROKEN[rng.choice(list(BROKEN))], episode)
    assert episode.trajectory().stop is StopReason.TURN_LIMIT
    assert check_end(row, episode.trajectory()) == 0.0
