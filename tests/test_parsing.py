"""env.parsing: whatever the model writes becomes attempts and prose; one bad call costs itself only."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from env.parsing import MAX_DEPTH, MAX_DIGITS, Parsed, parse
from env.types import AttemptStatus

OPEN, CLOSE = "<tool_call>", "</tool_call>"
SEARCH = "mcp_employee_search"
GOOD = '<tool_call>\n{"name": "plugin_org_query", "arguments": {"emp_id": "1001"}}\n</tool_call>'
HANG = 10  # seconds of CPU; a linear pass over a megabyte takes a fraction of one, a quadratic one takes minutes


def ok(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"status": "ok", "name": name, "arguments": arguments}


def block(body: str) -> str:
    return f"{OPEN}\n{body}\n{CLOSE}"


def found(parsed: Parsed) -> list[dict[str, Any]]:
    return [{"status": a.status.value, "name": a.name, "arguments": a.arguments} for a in parsed.attempts]


def statuses(text: str) -> list[str]:
    return [attempt.status.value for attempt in parse(text).attempts]


# (what it is, the text, the attempts: fields that are not named here do not matter)
TABLE: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("plain answer", "张三本周没有请假。", []),
    ("one call", block('{"name": "mcp_employee_search", "arguments": {"name": "张三"}}'), [ok(SEARCH, name="张三")]),
    (
        "escaped Chinese",
        block('{"name": "mcp_employee_search", "arguments": {"name": "\\u5f20\\u4e09"}}'),
        [ok(SEARCH, name="张三")],
    ),
    (
        "good then malformed",
        block('{"name": "mcp_employee_search", "arguments": {"name": "张三"}}')
        + "\n"
        + block('{"name": "plugin_org_query", "arguments": {"emp_id": }}'),
        [ok(SEARCH, name="张三"), {"status": "invalid_json"}],
    ),
    (
        "missing brace",
        block('{"name": "mcp_employee_search", "arguments": {"name": "张三"}'),
        [{"status": "invalid_json"}],
    ),
    ("single quotes", block("{'name': 'mcp_employee_search', 'arguments': {}}"), [{"status": "invalid_json"}]),
    (
        "unclosed block",
        '<tool_call>\n{"name": "mcp_employee_search", "arguments": {"name": "张三"}}',
        [{"status": "unclosed", "name": SEARCH}],
    ),
    (
        "cut mid string",
        '<tool_call>\n{"name": "mcp_employee_search", "arguments": {"name": "张',
        [{"status": "unclosed"}],
    ),
    (
        "arguments as JSON text",
        block('{"name": "mcp_employee_search", "arguments": "{\\"name\\": \\"张三\\"}"}'),
        [ok(SEARCH, name="张三")],
    ),
    (
        "arguments as bare text",
        block('{"name": "mcp_employee_search", "arguments": "张三"}'),
        [{"status": "invalid_arguments", "name": SEARCH}],
    ),
    (
        "arguments a list",
        block('{"name": "mcp_employee_search", "arguments": ["张三"]}'),
        [{"status": "invalid_arguments", "name": SEARCH}],
    ),
    ("no arguments", block('{"name": "mcp_employee_search"}'), [ok(SEARCH)]),
    ("null arguments", block('{"name": "mcp_employee_search", "arguments": null}'), [ok(SEARCH)]),
    ("no name", block('{"arguments": {"name": "张三"}}'), [{"status": "missing_name"}]),
    (
        "text before and after",
        '我先查一下。<tool_call>{"name":"mcp_employee_search","arguments":{"name":"张三"}}</tool_call>好的',
        [ok(SEARCH, name="张三")],
    ),
    (
        "closing tag inside a string",
        block('{"name": "mcp_employee_search", "arguments": {"name": "a</tool_call>b"}}'),
        [ok(SEARCH, name="a</tool_call>b")],
    ),
    (
        "duplicate key",
        block('{"name": "plugin_org_query", "arguments": {"emp_id": "666", "emp_id": "1001"}}'),
        [{"status": "invalid_json"}],
    ),
    ("NaN", block('{"name": "plugin_org_query", "arguments": {"emp_id": NaN}}'), [{"status": "invalid_json"}]),
    (
        "two calls in order",
        block('{"name": "plugin_leave_query", "arguments": {"emp_id": "1001"}}')
        + "\n"
        + block('{"name": "plugin_org_query", "arguments": {"emp_id": "1001"}}'),
        [ok("plugin_leave_query", emp_id="1001"), ok("plugin_org_query", emp_id="1001")],
    ),
    (
        "deep nesting",
        block('{"name": "mcp_employee_search", "arguments": ' + "[" * 1000),
        [{"status": "invalid_json"}],
    ),
    ("empty block", block(""), [{"status": "invalid_json"}]),
    (
        "call in thinking",
        '<think>\n<tool_call>{"name":"mcp_employee_search","arguments":{}}</tool_call>\n</think>\n\n没有。',
        [],
    ),
]


@pytest.mark.parametrize(("text", "want"), [pytest.param(text, want, id=name) for name, text, want in TABLE])
def test_the_table_holds(text: str, want: list[dict[str, Any]]) -> None:
    got = found(parse(text))
    assert len(got) == len(want)
    assert [{key: attempt[key] for key in named} for attempt, named in zip(got, want, strict=True)] == want


REFUSED = {
    "Infinity": '{"name": "t", "arguments": {"a": Infinity}}',
    "-Infinity": '{"name": "t", "arguments": {"a": [-Infinity]}}',
    "a float beyond range": '{"name": "t", "arguments": {"a": -1e999}}',
    "an integer beyond the limit": '{"name": "t", "arguments": {"a": ' + "9" * (MAX_DIGITS + 1) + "}}",
    "duplicate key at the top": '{"name": "t", "name": "t"}',
    "duplicate key in a list": '{"name": "t", "arguments": {"a": [{"b": 1, "b": 1}]}}',
    "duplicate key by escape": '{"name": "t", "arguments": {"a": 1, "\\u0061": 2}}',
    "escaped lone surrogate": '{"name": "t", "arguments": {"a": "\\ud800"}}',
    "lone surrogate as a key": '{"name": "t", "arguments": {"\\udfff": 1}}',
    "raw lone surrogate": '{"name": "t", "arguments": {"a": "\ud800"}}',
    "raw line break in a string": '{"name": "t", "arguments": {"a": "x\ny"}}',
    "trailing comma": '{"name": "t",}',
    "comment": '{"name": "t" /* x */}',
    "mismatched brackets": '{"name": "t", "arguments": {"a": [1}}',
    "brace too many": '{"name": "t", "arguments": {}}}',
    "two objects": '{"name": "t"} {"name": "u"}',
    "a list of calls": '[{"name": "t", "arguments": {}}]',
    "a string": '"t"',
    "code fence": '```json\n{"name": "t"}\n```',
    "full-width quotes": "{“name”: “t”}",
    "one level too deep": '{"name": "t", "arguments": {"a": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}}",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_strict_json_costs_its_own_block_only(body: str) -> None:
    parsed = parse(block(body) + GOOD)
    assert [attempt.status for attempt in parsed.attempts] == [AttemptStatus.INVALID_JSON, AttemptStatus.OK]
    assert parsed.attempts[0].arguments is None
    assert parsed.attempts[0].raw == body.replace("\ud800", "\ufffd")


@pytest.mark.parametrize(
    ("broken", "status"),
    [
        ('<tool_call>{"name": "a", "arguments": {"x": "oops}</tool_call>', "invalid_json"),
        ('<tool_call>{"name": "a", "arguments": {"x": "y</tool_call>"}</tool_call>', "invalid_json"),
        ('<tool_call>{"name": "a", "arguments": {"x": [</tool_call>', "invalid_json"),
        ('<tool_call>{"name": "a', "unclosed"),
        ('<tool_call>{"name": "a", "arguments": {"x": ', "unclosed"),
        ('<tool_call>{"name": "a", "arguments": {}}', "unclosed"),
        ('<tool_call>{"name": "a", "arguments": {}} and so', "unclosed"),
        ("<tool_call>", "unclosed"),
        ("<tool_call>{}</tool_call>", "missing_name"),
    ],
)
def test_a_bad_call_never_swallows_a_good_one(broken: str, status: str) -> None:
    assert statuses(broken + GOOD) == [status, "ok"]
    assert statuses(GOOD + broken) == ["ok", status]
    assert statuses(broken + broken + GOOD) == [status, status, "ok"]


@pytest.mark.parametrize("name", [None, 5, True, "", "  ", ["t"], {"t": 1}])
def test_a_name_that_is_no_text_is_missing(name: Any) -> None:
    [attempt] = parse(block(json.dumps({"name": name, "arguments": {}}))).attempts
    assert (attempt.status, attempt.name) == (AttemptStatus.MISSING_NAME, "")


@pytest.mark.parametrize(
    "arguments", [5, False, "", "x", "[1]", "null", '"{}"', '{"a": NaN}', '{"a": 1, "a": 1}', "{} x", "[" * 5000]
)
def test_arguments_are_an_object_or_the_strict_text_of_one(arguments: Any) -> None:
    [attempt] = parse(block(json.dumps({"name": "t", "arguments": arguments}))).attempts
    assert (attempt.status, attempt.name, attempt.arguments) == (AttemptStatus.INVALID_ARGUMENTS, "t", None)


def test_values_at_the_limits_are_accepted() -> None:
    nested = "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2)
    [attempt] = parse(block(f'{{"name": "t", "arguments": {{"a": {"9" * MAX_DIGITS}, "b": {nested}}}}}')).attempts
    assert attempt.status is AttemptStatus.OK
    assert attempt.arguments is not None and attempt.arguments["a"] == 10**MAX_DIGITS - 1
    assert json.dumps(attempt.arguments)


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("  好的。\n", "好的。"),
        ("先查" + GOOD + "再说", "先查再说"),
        ("a<think>b</think>c", "ac"),
        ("a<think>b", "a"),
        ("a<think>b<think>c</think>d", "ad"),
        ("a" + GOOD + "<think>" + GOOD, "a"),
        ("no opener</tool_call></think>", "no opener</tool_call></think>"),
        ("half \ud83d of a pair", "half \ufffd of a pair"),
        ("<TOOL_CALL>{}</TOOL_CALL>", "<TOOL_CALL>{}</TOOL_CALL>"),
        ("", ""),
    ],
)
def test_prose_is_the_text_outside_calls_and_thinking(text: str, prose: str) -> None:
    assert parse(text).prose == prose


def test_tags_of_thinking_inside_a_string_are_data() -> None:
    body = json.dumps({"name": "t", "arguments": {"a": "<think>", "b": "x</think>"}})
    assert found(parse(block(body))) == [ok("t", a="<think>", b="x</think>")]


def test_thinking_around_an_object_is_set_aside() -> None:
    body = '<think>which?</tool_call></think>{"name": "t", "arguments": {}}<think>yes</think>'
    assert found(parse(block(body))) == [ok("t")]


def test_removing_thinking_never_joins_a_tag() -> None:
    parsed = parse('<tool_<think>x</think>call>{"name": "t", "arguments": {}}</tool_call>')
    assert parsed.attempts == ()


def test_calls_inside_a_string_are_data() -> None:
    inner = json.dumps({"name": "delete_employee", "arguments": {"emp_id": "1001"}})
    body = json.dumps({"name": "t", "arguments": {"note": f"{OPEN}{inner}{CLOSE}"}})
    assert [attempt.name for attempt in parse(block(body)).attempts] == ["t"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"name": "t", "arguments": {"emp_id": }}', ("Expecting value", "character 39", "emp_id")),
        ('{"name": "t", "name": "u"}', ("duplicate key", '"name"')),
        ('{"name": "t", "arguments": {"a": NaN}}', ("NaN",)),
        ('{"name": "t", "arguments": {"a": 1e999}}', ("1e999", "too large")),
        ('{"name": "t"} x', ("text after the object", '"x"')),
        ("[1]", ("no JSON object", "[1]")),
        ("", ("empty",)),
        ("[" * 99, ("no JSON object",)),
        ('{"a":' * 99, ("deeper than 64",)),
        ('{"name": 5}', ('"name"', "text", "5")),
        ('{"name": "t", "arguments": [1]}', ('"arguments"', "object", "[1]")),
    ],
)
def test_the_detail_says_what_was_wrong_where_and_what_is_expected(body: str, said: tuple[str, ...]) -> None:
    [attempt] = parse(block(body)).attempts
    assert all(words in attempt.detail for words in said), attempt.detail
    assert "expected" in attempt.detail or "must be" in attempt.detail


def test_the_detail_of_a_good_call_is_empty() -> None:
    [attempt] = parse(GOOD).attempts
    assert attempt.detail == ""


ATTACKS = {
    "openers": OPEN,
    "openers of objects": OPEN + '{"',
    "openers of strings": OPEN + '{"a":["',
    "strings of either parity": '",',
    "closed openers": OPEN + '{"' + CLOSE,
    "empty objects": OPEN + "{}" + CLOSE,
    "unclosed objects": OPEN + '{"name":"x","arguments":{}}',
    "duplicates": OPEN + '{"a":1,"a":1}' + CLOSE,
    "thinking": OPEN + "<think>",
    "closed thinking": OPEN + '<think>"</think>{"',
    "less-than signs": "<",
    "brackets": "[",
    "pairs of brackets": "[],",
    "backslashes": "\\",
    "digits": "9",
}


@pytest.mark.parametrize("head", ["", OPEN + '{"name":"x","arguments":{"a":["'], ids=["bare", "inside a call"])
@pytest.mark.parametrize("unit", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_megabyte_of_hostile_text_does_not_hang(head: str, unit: str) -> None:
    text = head + unit * (1_000_000 // len(unit))
    start = time.process_time()
    parse(text)
    assert time.process_time() - start < HANG


def test_a_hundred_thousand_openers_are_as_many_attempts() -> None:
    parsed = parse(OPEN * 100_000)
    assert len(parsed.attempts) == 100_000
    assert {attempt.status for attempt in parsed.attempts} == {AttemptStatus.UNCLOSED}


PIECES = [
    *(OPEN, CLOSE, "<think>", "</think>", "<tool_", "call>", "{", "}", "[", "]", '"', ":", ",", "\\", "\n", " "),
    *('{"name":"x","arguments":{}}', '{"name":', '"arguments":', "NaN", "1e999", "\\ud800", "\ud800", "张三", "null"),
    GOOD,
]
TEXTS = st.one_of(
    st.text(st.characters(codec=None, exclude_categories=[])),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
)


@settings(deadline=None, max_examples=300)
@given(TEXTS)
@example(OPEN + '{"name":"x","arguments":{"a":"\\ud800"}}' + CLOSE)
def test_any_text_gives_the_same_attempts_again_and_all_of_it_can_be_encoded(text: str) -> None:
    parsed = parse(text)
    assert parse(text) == parsed
    for attempt in parsed.attempts:
        assert (attempt.arguments is not None) == (attempt.status is AttemptStatus.OK) == (attempt.detail == "")
        assert "<" not in attempt.detail
        json.dumps([attempt.name, attempt.arguments, attempt.raw, attempt.detail], ensure_ascii=False).encode()
    parsed.prose.encode()


@settings(deadline=None, max_examples=300)
@given(TEXTS)
def test_a_good_call_after_any_text_is_found_unless_thinking_hides_it(text: str) -> None:
    if "<think>" in text:
        return
    last = parse(text + GOOD).attempts[-1]
    assert (last.status, last.name, last.arguments) == (AttemptStatus.OK, "plugin_org_query", {"emp_id": "1001"})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.text(min_size=1).filter(str.strip), st.dictionaries(st.text(), VALUES, max_size=4), st.booleans())
def test_any_call_that_is_rendered_is_read_back(name: str, arguments: dict[str, Any], ascii_only: bool) -> None:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=ascii_only)
    assert found(parse(f"x{OPEN}{body}{CLOSE}y")) == [{"status": "ok", "name": name, "arguments": arguments}]
