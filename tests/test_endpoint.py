"""A model behind an endpoint is scored as one in the process is; what its server does wrong is nobody's zero."""

import json
import re
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Event, Lock, Thread

import pytest
from httpx2 import Timeout
from hypothesis import given, settings
from hypothesis import strategies as st

from data.build import rows as build_rows
from data.oracle import oracle_turn
from env.parsing import parse
from env.types import AttemptStatus, StopReason
from eval import main
from evaluation import endpoint as module
from evaluation import players
from evaluation.endpoint import MOST_FAILURES, Endpoint, Unusable, play_row, play_rows
from evaluation.record import read_records
from evaluation.scoring import record_of
from evaluation.wire import protocol_messages, text_of

ROWS = list(build_rows("eval", 12, 0))
BY_QUERY = {row.input: row for row in ROWS}
KEY = "sk-canary-0123456789"


# The protocol


def call_of(name, arguments):
    return {"id": "x", "type": "function", "function": {"name": name, "arguments": arguments}}


NAMES = st.text(min_size=1).filter(str.strip)
WHOLE = '<tool_call>{"name":"a","arguments":{}}</tool_call>'
TRAPS = [WHOLE, "<tool_call>", "</tool_call>", "<think>", "</think>", '{"']
TEXTS = st.text() | st.sampled_from(TRAPS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(TEXTS, VALUES, max_size=4)
PROSE = st.lists(st.sampled_from(TRAPS) | st.text(max_size=5), max_size=4).map("".join)


@settings(max_examples=40)
@given(PROSE, st.lists(st.tuples(NAMES, ARGUMENTS), max_size=3))
def test_structured_calls_lose_nothing_on_their_way_through_the_text(prose, calls):
    message = {"content": prose, "tool_calls": [call_of(name, json.dumps(given)) for name, given in calls]}
    attempts = parse(text_of(message)).attempts
    written = parse(prose).attempts
    structured = [(AttemptStatus.OK, name, given) for name, given in calls]
    found = [(each.status, each.name, each.arguments) for each in attempts]
    assert len(found) == len(written) + len(calls)
    assert found[len(written) :] == structured or found[: len(calls)] == structured


@settings(max_examples=40)
@given(st.lists(VALUES | st.builds(call_of, VALUES, VALUES) | st.builds(lambda f: {"function": f}, VALUES), max_size=3))
def test_whatever_stands_in_for_a_call_is_one_attempt(calls):
    assert len(parse(text_of({"content": None, "tool_calls": calls})).attempts) == len(calls)


@pytest.mark.parametrize("given", ['{"name": ', "nonsense", "[1]", "", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 5000])
def test_unreadable_arguments_are_an_attempt_that_keeps_its_name(given):
    [attempt] = parse(text_of({"content": None, "tool_calls": [call_of("search", given)]})).attempts
    assert (attempt.status, attempt.name) == (AttemptStatus.INVALID_ARGUMENTS, "search")


@settings(max_examples=40)
@given(PROSE, st.lists(st.tuples(NAMES, ARGUMENTS | st.text()), min_size=1, max_size=3))
def test_what_is_sent_back_can_be_read_by_any_server(prose, calls):
    text = text_of({"content": prose, "tool_calls": [call_of(*call) for call in calls]})
    attempts = parse(text).attempts
    results = [{"role": "tool", "content": str(number)} for number in range(len(attempts))]
    turn, *answers = protocol_messages([{"role": "assistant", "content": text}, *results])
    sent = [call["function"] for call in turn["tool_calls"]]
    assert [call["id"] for call in turn["tool_calls"]] == [answer["tool_call_id"] for answer in answers]
    assert all(re.fullmatch(r"[\w-]{1,64}", call["name"], re.ASCII) for call in sent)
    for call, attempt in zip(sent, attempts, strict=True):
        back = json.loads(call["arguments"])
        assert back == (attempt.arguments if attempt.arguments is not None else {"unreadable": attempt.raw})


def test_text_comes_back_from_parts_too():
    assert text_of({"content": [{"type": "text", "text": "a"}, {"type": "image"}, 3, {"text": "b"}]}) == "ab"
    assert text_of({}) == text_of({"content": None, "tool_calls": None}) == text_of({"content": 3}) == ""


# A real server


def completion(message, finish="stop", tokens=5):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return (
        200,
        {},
        {"id": "1", "object": "chat.completion", "choices": [choice], "usage": {"completion_tokens": tokens}},
    )


def oracle(request):
    """The oracle as a model: plays what it is shown again, checks the results it is given, and goes on."""
    row = BY_QUERY[request["messages"][1]["content"]]
    episode, results = row.open(), []
    for message in request["messages"][2:]:
        if message["role"] == "assistant":
            assert not results
            texts = episode.play(text_of(message))
            results = list(zip((call["id"] for call in message["tool_calls"]), texts, strict=True))
        else:
            assert (message["tool_call_id"], message["content"]) == results.pop(0)
    assert request["tools"] == episode.tools
    parsed = parse(oracle_turn(row.task, episode))
    calls = [call_of(each.name, json.dumps(each.arguments)) for each in parsed.attempts]
    return completion({"content": parsed.prose or None, "tool_calls": calls}, "tool_calls" if calls else "stop")


@contextmanager
def serving(respond):
    """respond(request) -> (status, headers, body: JSON, bytes, or None for a connection that breaks)."""
    seen, lock = [], Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer: two would wait for each other's acknowledgement

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                seen.append((self.path, dict(self.headers), request))
            status, headers, body = respond(request)
            if body is None:
                self.close_connection = True
                return
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # clients that went away
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
    finally:
        server.shutdown()
        server.server_close()


def first_answers(*answers, then=oracle):
    """The given answers one after another, then those of `then`."""
    left = list(answers)
    return lambda request: left.pop(0) if left else then(request)


def played(url, row=ROWS[0], **options):
    """One episode and the waits before its retries."""
    waits = []
    with Endpoint(url, "oracle", sleep=waits.append, jitter=lambda: 0.5, **options) as endpoint:
        return play_row(endpoint, (row, 0), seed=0, max_turns=6), waits


def run(url, out, *words):
    return main(["--endpoint", url, "--model", "org/oracle", "--rows", "12", "--out", str(out), *words])


@pytest.fixture
def at_once(monkeypatch):
    """Retries without waiting."""
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.0)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def line_of(capsys):
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("eval.py: error: ")
    return lines[-1]


def test_the_oracle_behind_an_endpoint_is_the_oracle(tmp_path, at_once):
    with serving(oracle) as (url, seen):
        assert run(url, tmp_path / "run") == 0
    assert {path for path, _, _ in seen} == {"/v1/chat/completions"}
    assert {request["model"] for _, _, request in seen} == {"org/oracle"}
    found = {record.row: record for record in read_records(tmp_path / "run/records.jsonl")}
    for row in build_rows("eval", 12, 0):
        record = found.pop(row.task.id)
        expected = record_of(row, players.play(row, players.Oracle()), record.sampled_tokens)
        assert record.to_json() == expected.to_json() and record.score["total"] == 1.0
        assert record.sampled_tokens == 5 * len(record.payload["trajectory"]["steps"]) - 5 * row.task.depth
    assert not found


def test_calls_written_in_the_text_are_played_too():
    def writing(request):
        return completion({"content": text_of(oracle(request)[2]["choices"][0]["message"])})

    with serving(writing) as (url, _):
        done, _ = played(url)
    assert done.trajectory == players.play(ROWS[0], players.Oracle())


def test_a_busy_server_is_asked_again_when_it_says(tmp_path):
    busy = (429, {"Retry-After": "7"}, {"error": {"message": "slow down"}})
    dated = {"Retry-After": "Wed, 03 Jun 2026 10:00:09 GMT", "Date": "Wed, 03 Jun 2026 10:00:00 GMT"}
    with serving(first_answers(busy, (503, dated, b"<html>"), (408, {"Retry-After": "soon"}, b""))) as (url, _):
        done, waits = played(url)
    assert waits == [7.0, 9.0, 1.5]  # the third: 2 s, and half of the jitter
    assert done.trajectory == players.play(ROWS[0], players.Oracle())


def test_episodes_are_played_side_by_side_and_no_more_than_asked_for():
    together, asking, most, lock = Barrier(3, timeout=30), 0, 0, Lock()

    def crowded(request):
        nonlocal asking, most
        with lock:
            asking += 1
            most = max(most, asking)
        if len(request["messages"]) == 2:
            together.wait()  # nobody gets a first turn before three have asked for one
        answer = oracle(request)
        with lock:
            asking -= 1
        return answer

    with serving(crowded) as (url, _), Endpoint(url, "oracle") as endpoint:
        items = [(row, 0) for row in ROWS if row.task.depth == 2][:3]
        done = list(play_rows(endpoint, items, seed=0, max_turns=6, concurrency=3))
    assert most == len(items) == 3 and all(record_of(each.row, each.trajectory).success for each in done)


def test_a_silent_server_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", Timeout(0.02))
    ended = Event()
    with serving(lambda _: (ended.wait(60), {}, None)) as (url, _):
        with pytest.raises(Unusable, match="no answer in time"):
            played(url)
        ended.set()


def test_an_answer_without_end_is_not_kept(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_BODY", 50)
    with serving(oracle) as (url, _), pytest.raises(Unusable, match="more than 50 bytes"):
        played(url)


def test_waits_grow_and_stay_within_bounds():
    with Endpoint("http://127.0.0.1:9", "m") as endpoint:
        for attempt, (least, most) in enumerate([(0.25, 0.5), (0.5, 1.0), (1.0, 2.0)], start=1):
            assert all(least <= endpoint._wait_s(attempt, None) < most for _ in range(20))
        assert endpoint._wait_s(30, None) <= module.LONGEST_WAIT_S
        assert endpoint._wait_s(1, 1e9) == module.LONGEST_RETRY_AFTER_S


GARBAGE = {
    "a page": b"<html>welcome</html>",
    "no text": b"\xff\xfe\x00",
    "no JSON object": [1],
    "no choice": {"choices": []},
    "no message": {"choices": [{"message": None}]},
    "a message without anything": {"choices": [{"message": {}}]},
    "an error with status 200": {"error": {"message": "overloaded"}},
    "nested deeply": b"[" * 100_000,
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_nobodys_zero(name):
    second = oracle({"messages": [{}, {"content": ROWS[0].input}], "tools": ROWS[0].open().tools})
    with serving(first_answers(second, then=lambda _: (200, {}, GARBAGE[name]))) as (url, _):
        done, waits = played(url)
    assert done.trajectory.stop is StopReason.INFRASTRUCTURE and len(waits) == module.ATTEMPTS - 1
    assert "no chat completion" in done.trajectory.meta["abandoned"]
    assert record_of(ROWS[0], done.trajectory).score is None
    with serving(lambda _: (200, {}, GARBAGE[name])) as (url, _), pytest.raises(Unusable, match="no chat completion"):
        played(url)


def test_unreadable_arguments_are_answered_and_the_episode_goes_on():
    bad = completion({"content": None, "tool_calls": [call_of("mcp_employee_search", '{"name": ')]}, "tool_calls")
    with serving(first_answers(bad, then=lambda _: completion({"content": "?"}))) as (url, seen):
        done, _ = played(url)
    [step] = done.trajectory.steps
    assert (step.attempt, step.name) == (AttemptStatus.INVALID_ARGUMENTS, "mcp_employee_search")
    assert done.trajectory.stop is StopReason.ANSWERED
    call, result = seen[1][2]["messages"][-2:]
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]).keys() == {"unreadable"}
    assert "invalid_arguments" in result["content"]


def test_out_of_tokens_is_truncated_and_its_calls_are_not_run():
    cut = completion({"content": None, "tool_calls": [call_of("mcp_employee_search", '{"name": "x"}')]}, "length")
    full = (400, {}, {"error": {"message": "This model's maximum context length is 10", "code": 400}})
    for answer, turns in ((cut, 1), (full, 0)):
        with serving(lambda _, answer=answer: answer) as (url, _):
            done, waits = played(url)
        assert done.trajectory.stop is StopReason.TOKEN_LIMIT and not done.trajectory.steps and not waits
        assert len(done.trajectory.turns) == turns
        assert record_of(ROWS[0], done.trajectory).score["total"] == 0.0


def test_a_server_that_breaks_some_connections_costs_those_episodes_and_resume_plays_them(tmp_path, at_once):
    broken = {row.input for row in ROWS[3:6]}

    def sometimes(request):
        later = len(request["messages"]) > 2 or request["messages"][1]["content"] not in broken
        return oracle(request) if later and request["messages"][1]["content"] not in broken else (200, {}, None)

    whole, out = tmp_path / "whole", tmp_path / "out"
    with serving(oracle) as (url, _):
        assert run(url, whole) == 0
    with serving(sometimes) as (url, _):
        assert run(url, out, "--concurrency", "2") == 0
        summary = json.loads((out / "summary.json").read_text("utf-8"))["summary"]
        assert (summary["infrastructure"], summary["success"]["rate"]) == (3, 1.0)
    content = json.loads((out / "summary.json").read_text("utf-8"))
    with serving(oracle) as (url, seen):
        content["settings"]["endpoint"] = url
        (out / "summary.json").write_text(json.dumps(content), "utf-8")
        assert run(url, out, "--resume") == 0
        assert {request["messages"][1]["content"] for _, _, request in seen} == broken
    one, other = (json.loads((each / "summary.json").read_text("utf-8"))["summary"] for each in (whole, out))
    assert one == other


def test_a_server_that_dies_ends_the_run_in_one_line_and_keeps_what_was_played(tmp_path, at_once, capsys):
    def dying(request):
        return oracle(request) if request["messages"][1]["content"] == ROWS[0].input else (500, {}, b"oh no")

    with serving(dying) as (url, _):
        assert run(url, tmp_path / "run", "--concurrency", "1") == 2
    assert f"{MOST_FAILURES} requests in a row failed" in line_of(capsys)
    records = read_records(tmp_path / "run/records.jsonl")
    assert records[0].success and all(record.score is None for record in records[1:])


@pytest.mark.parametrize(
    "answer, said",
    [
        ((401, {}, {"error": {"message": f"bad key {KEY}"}}), "status 401: bad key ***"),
        ((404, {}, {"error": "no such model"}), "status 404: no such model"),
        ((400, {}, {"error": {"message": "tools\nare \x1b[1mnot"}}), "status 400: tools are ?[1mnot"),
        ((200, {}, ("x" * 190 + KEY).encode()), "no chat completion"),
    ],
)
def test_where_nothing_works_one_line_says_why_and_the_key_stays_secret(
    tmp_path, at_once, capsys, monkeypatch, answer, said
):
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(lambda _: answer) as (url, seen):
        assert run(url, tmp_path / "run", "--api_key_env", "MY_KEY") == 2
    assert {headers["Authorization"] for _, headers, _ in seen} == {f"Bearer {KEY}"}
    line = line_of(capsys)
    assert said in line and KEY[:12] not in line
    assert not [file for file in (tmp_path / "run").iterdir() if KEY[:12] in file.read_text("utf-8")]


def test_the_key_is_in_no_file_of_a_run_whose_server_repeats_it(tmp_path, at_once, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    bad = ROWS[2].input

    def leaking(request):
        return (500, {}, f"key {KEY}".encode()) if request["messages"][1]["content"] == bad else oracle(request)

    with serving(leaking) as (url, _):
        assert run(url, tmp_path / "run", "--concurrency", "1") == 0
    assert "key ***" in (tmp_path / "run/records.jsonl").read_text("utf-8")
    assert not [file for file in (tmp_path / "run").iterdir() if KEY in file.read_text("utf-8")]


def test_nobody_listening_is_said_at_once(tmp_path, at_once, capsys):
    with serving(oracle) as (url, _):
        pass  # and gone again
    waits = []
    with Endpoint(url, "m", sleep=waits.append) as endpoint, pytest.raises(Unusable, match="no connection"):
        list(play_rows(endpoint, [(row, 0) for row in ROWS], seed=0, max_turns=6, concurrency=4))
    assert waits == []
    assert run(url, tmp_path / "run") == 2
    assert "no connection" in line_of(capsys)


def test_options_that_do_not_fit_are_one_line(tmp_path, at_once, capsys):
    url, out = "http://127.0.0.1:9/v1", ["--out", str(tmp_path / "run"), "--rows", "2"]
    for words, said in {
        ("--endpoint", url, "--policy", "oracle"): "needs --model",
        ("--endpoint", "ftp://host", "--model", "m"): "expected http",
        ("--endpoint", "http://me:secret@host", "--model", "m"): "would be written",
        ("--endpoint", "http://host:99999", "--model", "m"): "no address",
        ("--endpoint", url, "--model", "m", "--api_key_env", "NOT_THERE"): "NOT_THERE",
        ("--endpoint", url, "--model", "m", "--samples", "2"): "--temperature above 0",
        ("--model", "m", "--max_tokens", "5"): "go with --endpoint",
    }.items():
        assert main([*words, *out]) == 2
        assert said in line_of(capsys)
    assert not (tmp_path / "run").exists()


def test_several_samples_have_seeds_of_their_own(tmp_path, at_once):
    with serving(oracle) as (url, seen):
        assert run(url, tmp_path / "greedy") == 0
        assert not any("seed" in request for _, _, request in seen)
        seen.clear()
        assert run(url, tmp_path / "three", "--samples", "3", "--temperature", "0.7", "--max_tokens", "9") == 0
    seeds = defaultdict(set)
    for _, _, request in seen:
        seeds[request["messages"][1]["content"], len(request["messages"])].add(request["seed"])
        assert (request["temperature"], request["max_tokens"]) == (0.7, 9)
    assert {len(each) for (query, _), each in seeds.items() if query == ROWS[0].input} == {3}
    assert len(read_records(tmp_path / "three/records.jsonl")) == 36
