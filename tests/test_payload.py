"""Trajectory.to_payload and from_payload: exact on our own, total on anything else, and nothing unknown is lost."""

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from env.types import AttemptStatus, ErrorCode, Step, StopReason, ToolResult, Trajectory, Turn

TEXT = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | st.just('{"a": 1}'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=3)
# Names that the format uses elsewhere, but not where the extra is put, are unknown there like any other.
FRAMES = ["turn", "call", "attempt", "stop", "answer", "foreign", "output_schema"]
NAMES = st.sampled_from(["id", "latency_ms", "工具", "", "foreign", "extra", "output_schema"])
EXTRAS = st.dictionaries(NAMES, VALUES, max_size=3)
RESULTS = st.builds(ToolResult.success, VALUES) | st.builds(ToolResult.error, st.sampled_from(ErrorCode), TEXT)
RESULTS |= st.builds(ToolResult, st.just("success"), VALUES, st.none(), TEXT, OBJECTS)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    turns: list[Turn] = []
    steps: list[Step] = []
    for index in range(draw(st.integers(0, 3))):
        turns.append(Turn(index, draw(TEXT), draw(EXTRAS)))
        for call in range(draw(st.integers(0, 2))):
            steps.append(
                Step(
                    turn=index,
                    call=call,
                    attempt=draw(st.sampled_from(AttemptStatus)),
                    name=draw(TEXT),
                    given=draw(VALUES),
                    arguments=draw(st.none() | OBJECTS),
                    result=draw(RESULTS),
                    extra=draw(EXTRAS | st.dictionaries(st.sampled_from(FRAMES), VALUES, max_size=2)),
                )
            )
    return Trajectory(
        query=draw(TEXT),
        reference_output=draw(TEXT),
        turns=tuple(turns),
        steps=tuple(steps),
        answer=draw(st.none() | TEXT),
        stop=draw(st.sampled_from(StopReason)),
        meta=draw(OBJECTS | st.dictionaries(st.sampled_from(FRAMES), VALUES, max_size=2)),
        extra=draw(EXTRAS),
    )


def call(**fields: Any) -> dict[str, Any]:
    return {"type": "tool", "name": "t", "status": "success", "input": {"a": 1}, "output": "x"} | fields


def foreign(*steps: Any, **fields: Any) -> dict[str, Any]:
    return {
        "input": "q",
        "reference_output": "1001",
        "trajectory": {"meta": {}, "root": {}, "steps": [*steps]},
    } | fields


def covers(whole: Any, part: Any) -> bool:
    """True where every field and entry of `part` is in `whole`, in place; lists of steps may have more in between."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and covers(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        rest = iter(whole)
        return isinstance(whole, list) and all(any(covers(item, wanted) for item in rest) for wanted in part)
    return type(whole) is type(part) and bool(whole == part)


def containers(value: Any) -> set[int]:
    if isinstance(value, dict):
        return {id(value)}.union(*map(containers, value.values()))
    return {id(value)}.union(*map(containers, value)) if isinstance(value, list) else set()


HONEST = Trajectory(
    query="张三本周请假情况？",
    reference_output="1001",
    turns=(Turn(0, "查一下"), Turn(1, "<think>…</think>两个"), Turn(2, "没有请假。")),
    steps=(
        Step(
            0, 0, AttemptStatus.OK, "search", {"name": "张三"}, {"name": "张三"}, ToolResult.success([{"id": "1001"}])
        ),
        Step(
            *(1, 0, AttemptStatus.OK, "leave", {"emp_id": 1001}, {"emp_id": "1001"}),
            ToolResult.error(ErrorCode.TIMEOUT, "after 5 s", attempts=3),
        ),
        Step(
            *(1, 1, AttemptStatus.INVALID_JSON, "", '{"name": }', None),
            ToolResult.error(ErrorCode.INVALID_ARGUMENTS, "not JSON"),
        ),
    ),
    answer="没有请假。",
    stop=StopReason.ANSWERED,
    meta={"row": 7, "now": "2026-06-01T09:00:00+08:00"},
)


def test_the_payload_has_agentarts_shape_with_turns_before_their_calls() -> None:
    payload = HONEST.to_payload()
    assert set(payload) == {"input", "reference_output", "trajectory"}
    assert set(payload["trajectory"]) == {"meta", "root", "steps"}
    assert payload["trajectory"]["meta"] == {**HONEST.meta, "stop": "answered", "answer": "没有请假。"}
    steps = payload["trajectory"]["steps"]
    assert [(step["type"], step["turn"]) for step in steps] == [
        *(("llm", 0), ("tool", 0), ("llm", 1), ("tool", 1), ("tool", 1), ("llm", 2)),
    ]
    assert steps[0] == {
        **{"type": "llm", "name": "assistant", "status": "success", "input": "", "output": "查一下", "turn": 0},
    }
    assert steps[3] == {
        **{"type": "tool", "name": "leave", "status": "error", "input": {"emp_id": 1001}},
        **{"output": "timeout: after 5 s", "turn": 1, "call": 0, "attempt": "ok", "arguments": {"emp_id": "1001"}},
        **{"code": "timeout", "metadata": {"attempts": 3}},
    }


@given(trajectories())
@example(HONEST)
def test_our_own_payloads_come_back_exactly(trajectory: Trajectory) -> None:
    payload = trajectory.to_payload()
    assert Trajectory.from_payload(payload) == trajectory
    assert Trajectory.from_payload(json.dumps(payload)) == trajectory


@given(trajectories())
def test_nothing_mutable_is_shared_in_either_direction(trajectory: Trajectory) -> None:
    before = copy.deepcopy(trajectory)
    payload = trajectory.to_payload()
    read = Trajectory.from_payload(payload)
    assert not containers(payload) & containers(read.to_payload())
    for step in payload["trajectory"]["steps"]:
        step.clear()
    payload.clear()
    assert trajectory == before == read


def test_arguments_of_a_foreign_call_are_no_alias_of_what_was_given() -> None:
    payload = foreign(call(input={"a": [1]}))
    [step] = Trajectory.from_payload(payload).steps
    payload["trajectory"]["steps"][0]["input"]["a"].append(2)
    assert step.given == step.arguments == {"a": [1]}
    assert step.given is not step.arguments and step.arguments is not None
    assert step.given["a"] is not step.arguments["a"]


def test_each_call_of_a_foreign_payload_is_a_turn_of_its_own_without_text() -> None:
    read = Trajectory.from_payload(foreign(call(name="a"), call(name="b", status="error", output="boom", input=None)))
    assert read.turns == (Turn(0, ""), Turn(1, ""))
    assert [(step.turn, step.call, step.attempt, step.name) for step in read.steps] == [
        (0, 0, AttemptStatus.OK, "a"),
        (1, 0, AttemptStatus.OK, "b"),
    ]
    assert (read.steps[0].result.data, read.steps[1].result.message) == ("x", "boom")
    assert (read.steps[0].arguments, read.steps[1].given, read.steps[1].arguments) == ({"a": 1}, {}, None)
    assert (read.stop, read.answer) == (StopReason.ANSWERED, None)


@pytest.mark.parametrize(
    ("given_", "read", "status"),
    [
        ('{"emp_id": "1001"}', {"emp_id": "1001"}, AttemptStatus.OK),
        ({"emp_id": 1}, {"emp_id": 1}, AttemptStatus.OK),
        (None, {}, AttemptStatus.OK),
        ('{"emp_id":', '{"emp_id":', AttemptStatus.INVALID_JSON),
        ('{"emp_id": NaN}', '{"emp_id": NaN}', AttemptStatus.INVALID_JSON),
        ("[" * 100_000, "[" * 100_000, AttemptStatus.INVALID_JSON),
        ("[1]", "[1]", AttemptStatus.INVALID_ARGUMENTS),
        ([1], [1], AttemptStatus.INVALID_ARGUMENTS),
        (5, 5, AttemptStatus.INVALID_ARGUMENTS),
    ],
)
def test_input_that_is_the_text_of_an_object_is_decoded(given_: Any, read: Any, status: AttemptStatus) -> None:
    [step] = Trajectory.from_payload(foreign(call(input=given_))).steps
    assert (step.given, step.attempt) == (read, status)


def test_input_of_our_own_malformed_attempts_stays_text_even_where_it_is_json() -> None:
    raw = '{"name": "t", "arguments": {}}'
    result = ToolResult.error(ErrorCode.INVALID_ARGUMENTS, "unclosed")
    step = Step(0, 0, AttemptStatus.UNCLOSED, "t", raw, None, result)
    trajectory = Trajectory("q", "r", (Turn(0, ""),), (step,), None, StopReason.TURN_LIMIT)
    assert Trajectory.from_payload(trajectory.to_payload()).steps == (step,)


@pytest.mark.parametrize(
    "odd", ["x", None, 5, [], {}, {"type": "llm", "output": "no turn"}, {"type": "retrieval", "k": 1}]
)
def test_an_odd_step_is_set_aside_comes_back_in_its_place_and_voids_no_other(odd: Any) -> None:
    read = Trajectory.from_payload(foreign(odd, call(name="a"), odd, odd, call(name="b"), odd))
    assert [step.name for step in read.steps] == ["a", "b"]
    steps = read.to_payload()["trajectory"]["steps"]
    kept = [step for step in steps if step == odd or step["type"] == "tool"]
    assert [step == odd for step in kept] == [True, False, True, True, False, True]


RICH = foreign(
    call(id="c1", latency_ms=12, metadata={"source": "mcp"}, code=200, turn="first", attempt=1, message="fine"),
    call(name=5, status=None, output={"rows": []}, arguments="none", metadata="text", foreign={"a": 1}),
    "odd",
    call(status="error", output={"reason": 1}, data=[1]),
    tenant="t1",
    stop="x",
)
RICH["trajectory"] |= {"root": {"span": "s"}, "version": 2, "meta": {"model": "m", "stop": "end_turn", "foreign": 0}}


def test_unknown_fields_and_values_at_every_level_come_back() -> None:
    read = Trajectory.from_payload(RICH)
    back = read.to_payload()
    # The only fields that move, one level down: ours of the same name say where the step belongs, how it ended.
    moved = copy.deepcopy(RICH)
    first = moved["trajectory"]["steps"][0]
    first["foreign"] = {"turn": first.pop("turn"), "attempt": first.pop("attempt")}
    second = moved["trajectory"]["steps"][1]
    second["foreign"] = {"foreign": second.pop("foreign")}
    meta = moved["trajectory"]["meta"]
    meta["foreign"] = {"stop": meta.pop("stop"), "foreign": meta.pop("foreign")}
    assert covers(back, moved)
    assert read.extra["tenant"] == "t1"
    assert read.steps[0].extra["latency_ms"] == 12
    assert read.meta == RICH["trajectory"]["meta"]
    assert Trajectory.from_payload(back) == read


@pytest.mark.parametrize("reference", [None, 1001, ["1001"], {"id": 1}])
def test_a_reference_that_is_no_text_reads_as_empty_and_comes_back(reference: Any) -> None:
    read = Trajectory.from_payload(foreign(reference_output=reference))
    assert read.reference_output == ""
    assert read.to_payload()["reference_output"] == reference


def test_a_missing_reference_reads_as_empty() -> None:
    assert Trajectory.from_payload({"trajectory": {"steps": []}}).reference_output == ""


BROKEN: list[Any] = ["", "{", "[" * 100_000, None, 5, True, [], [1], "null", '"text"', {}, '{"trajectory": 5}']


@pytest.mark.parametrize("payload", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_payload_gives_an_empty_trajectory_that_keeps_it(payload: Any) -> None:
    read = Trajectory.from_payload(payload)
    assert (read.query, read.reference_output, read.turns, read.steps) == ("", "", (), ())
    assert Trajectory.from_payload(read.to_payload()) == read


def test_no_depth_of_nesting_is_too_deep_to_read() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    payload = foreign(call(output=deep), more=deep)
    back = Trajectory.from_payload(payload).to_payload()
    while deep:  # level by level: comparing, printing or freeing it at once would recurse
        deep = deep.pop()
    assert len(back["trajectory"]["steps"]) == 2


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["tool", "llm", "success", "ok", "{}", "[1]", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ODD_STEPS = st.dictionaries(
    st.sampled_from(
        ["name", "status", "input", "output", "turn", "call", "attempt", "arguments", "code", "metadata"]
        + ["message", "data", "foreign", "other"]
    ),
    ODD,
    max_size=9,
).flatmap(lambda step: st.sampled_from(["tool", "tool", "llm", "other"]).map(lambda kind: {"type": kind, **step}))
ODD_PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        "input": ODD,
        "reference_output": ODD,
        "other": ODD,
        "trajectory": ODD
        | st.fixed_dictionaries(
            {"steps": ODD | st.lists(ODD_STEPS | ODD, max_size=5)},
            optional={
                "meta": ODD | st.dictionaries(st.sampled_from(["stop", "answer", "foreign", "x"]), ODD),
                "root": ODD,
                "x": ODD,
            },
        ),
    },
)


@given(ODD | ODD_PAYLOADS)
def test_any_value_is_read_and_a_second_reading_adds_nothing(payload: Any) -> None:
    read = Trajectory.from_payload(payload)
    again = read.to_payload()
    assert Trajectory.from_payload(again) == read
    assert Trajectory.from_payload(json.dumps(again)) == read


@given(st.lists(ODD_STEPS | ODD, max_size=6))
def test_every_entry_of_the_steps_comes_back(steps: list[Any]) -> None:
    calls = sum(isinstance(step, dict) and step.get("type") == "tool" for step in steps)
    read = Trajectory.from_payload(foreign(*steps))
    assert len(read.steps) == calls
    back = read.to_payload()["trajectory"]["steps"]
    odd = [item["step"] for item in read.extra.get("trajectory", {}).get("steps", [])]
    assert len(back) == len(read.turns) + calls + len(odd)
    assert [step["name"] for step in back if isinstance(step, dict) and step.get("type") == "tool"] == [
        step.get("name", "") for step in steps if isinstance(step, dict) and step.get("type") == "tool"
    ]
