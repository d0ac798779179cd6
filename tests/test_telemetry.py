"""Log, metrics and spans: what each says of a call, that it says nothing else, and that it is free uninstalled."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import logging
import random
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import get_current_span as current_span
from prometheus_client import CollectorRegistry, generate_latest

from data.build import rows
from data.oracle import oracle_turn
from data.schema import Row
from env.domains import domain
from env.registry import NOT_REGISTERED, CallEvent, Registry, Tool
from env.telemetry import MASK, JsonLog, Metrics, observe, redacted, serve_metrics, trace_calls, trace_episodes
from env.types import ErrorCode, ToolError
from eval import main as evaluate
from evaluation import run as evaluation_run
from evaluation.players import Oracle, play
from scripts.bench_reliability import canaries, leaked

Installed = Callable[[Any], None]


@pytest.fixture
def install() -> Iterator[Installed]:
    removes: list[Callable[[], None]] = []
    yield lambda observer: removes.append(observe(observer))
    for remove in removes:
        remove()


def hr() -> list[Any]:
    registry = domain("hr").registry()
    return [registry.contract(name) for name in registry.names]


def one(kind: int = 1) -> Row:
    return next(rows("train", 1, 0, {kind: 1.0}))


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_the_log_has_one_json_line_per_call(install: Installed) -> None:
    stream = io.StringIO()
    install(JsonLog(stream=stream))
    play(one(), Oracle())
    said = lines(stream)
    assert [line["tool"] for line in said] == ["mcp_employee_search", "plugin_leave_query", "plugin_org_query"]
    for line in said:
        assert line["event"] == "tool_call"
        assert line["level"] == "info"
        assert line["status"] == "success"
        assert line["output_schema_validated"] is True
        assert line["attempts"] == 1
        assert line["duration_ms"] >= 0
        assert not {"arguments", "output"} & line.keys()


def test_a_bug_of_ours_is_logged_with_its_place_and_without_its_text(install: Installed) -> None:
    stream = io.StringIO()
    install(JsonLog(stream=stream))

    def broken(world: object, **_: Any) -> None:
        raise RuntimeError("zhang.san@corp.example")

    contract = domain("weather").registry().contract("get_weather")
    Registry([Tool(contract, broken)]).bind(None).tool_call("get_weather", city="x")
    (line,) = lines(stream)
    assert line["level"] == "warning"
    assert line["code"] == "internal_error"
    assert line["traceback"][-1] == "RuntimeError"
    assert "test_telemetry.py" in line["traceback"][-2]
    assert "zhang" not in stream.getvalue()
    assert line["output_schema_validated"] is None


def test_metrics_count_calls_outputs_and_durations(install: Installed) -> None:
    home = CollectorRegistry()
    install(Metrics(hr(), home))
    world = domain("hr").open_world(domain("hr").EXAMPLE, "2026-06-03T09:00:00+08:00", "x")
    bound = domain("hr").registry().bind(world)
    bound.tool_call("mcp_employee_search", name="nobody")
    bound.tool_call("mcp_employee_search")
    for name in ("a", "b", "c"):
        bound.tool_call(f"made_up_{name}")

    def value(name: str, **labels: str) -> float | None:
        return home.get_sample_value(name, labels)

    assert value("tool_call_total", tool="mcp_employee_search", status="success") == 1
    assert value("tool_call_total", tool="mcp_employee_search", status="error") == 1
    assert value("tool_call_total", tool=NOT_REGISTERED, status="error") == 3  # one label, whatever the model makes up
    assert value("tool_output_schema_valid_total", tool="mcp_employee_search", valid="true") == 1
    assert value("tool_duration_seconds_count", tool="mcp_employee_search") == 2
    assert b"made_up" not in generate_latest(home)


def test_an_output_that_breaks_its_contract_is_counted(install: Installed) -> None:
    home = CollectorRegistry()
    contract = domain("weather").registry().contract("get_weather")
    install(Metrics([contract], home))
    bad = Registry([Tool(contract, lambda world, **_: {"forecast": []})]).bind(None)
    assert bad.tool_call("get_weather", city="x").code is ErrorCode.OUTPUT_INVALID
    assert home.get_sample_value("tool_output_schema_valid_total", {"tool": "get_weather", "valid": "false"}) == 1

    def down(world: object, **_: Any) -> None:
        raise ToolError(ErrorCode.UNAVAILABLE, "503")

    Registry([Tool(contract, down)]).bind(None).tool_call("get_weather", city="x")
    assert home.get_sample_value("tool_output_schema_valid_total", {"tool": "get_weather", "valid": "true"}) == 0


def test_each_tool_has_bucket_edges_at_its_own_timeout_and_at_the_alert(install: Installed) -> None:
    home = CollectorRegistry()
    contract = domain("weather").registry().contract("get_weather")
    slow, quick = (
        dataclasses.replace(contract, name="slow", timeout_ms=10_000),
        dataclasses.replace(contract, timeout_ms=400),
    )
    install(Metrics([slow, quick], home))
    found: dict[str, list[str]] = {}
    for sample in next(family for family in home.collect() if family.name == "tool_duration_seconds").samples:
        if sample.name.endswith("_bucket"):
            found.setdefault(sample.labels["tool"], []).append(sample.labels["le"])
    assert found == {
        "slow": ["3.0", "5.0", "10.0", "20.0", "+Inf"],
        "get_weather": ["0.2", "0.4", "0.8", "3.0", "+Inf"],
        NOT_REGISTERED: ["3.0", "+Inf"],
    }


def test_a_duration_is_counted_from_the_bucket_that_holds_it_upwards() -> None:
    home = CollectorRegistry()
    contract = domain("weather").registry().contract("get_weather")  # 2 s
    metrics = Metrics([contract], home)
    for seconds in (0.5, 1.0, 2.5, 60.0):
        metrics(CallEvent("get_weather", "success", None, seconds))
    labels = {"tool": "get_weather"}
    buckets = {
        edge: home.get_sample_value("tool_duration_seconds_bucket", {**labels, "le": edge})
        for edge in ("1.0", "2.0", "3.0", "4.0", "+Inf")
    }
    assert buckets == {"1.0": 2, "2.0": 2, "3.0": 3, "4.0": 3, "+Inf": 4}
    assert home.get_sample_value("tool_duration_seconds_count", labels) == 4
    assert home.get_sample_value("tool_duration_seconds_sum", labels) == 64.0


def test_declared_tools_are_there_at_zero_and_others_share_a_label() -> None:
    home = CollectorRegistry()
    metrics = Metrics(hr(), home)
    for status in ("success", "error"):
        assert home.get_sample_value("tool_call_total", {"tool": "plugin_org_query", "status": status}) == 0
    before = len(generate_latest(home).splitlines())
    for name in ("a", "b", NOT_REGISTERED):
        metrics(CallEvent(name, "error", ErrorCode.TOOL_NOT_FOUND, 0.1))
    assert home.get_sample_value("tool_call_total", {"tool": NOT_REGISTERED, "status": "error"}) == 3
    assert len(generate_latest(home).splitlines()) == before


@pytest.fixture
def spans() -> tuple[Any, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


def test_an_episode_is_one_trace_of_turns_with_their_calls(spans: tuple[Any, InMemorySpanExporter]) -> None:
    tracer, exporter = spans
    stop = trace_episodes(tracer)
    stream = io.StringIO()
    remove = observe(JsonLog(stream=stream))
    try:
        play(one(), Oracle())
        play(one(4), Oracle())
    finally:
        stop()
        remove()
    play(one(), Oracle())  # nobody watches any more
    found = exporter.get_finished_spans()
    roots = [span for span in found if span.name == "invoke_agent stepcredit"]
    turns = [span for span in found if span.name in ("chat", "chat answer")]
    calls = [span for span in found if span.name.startswith("execute_tool")]
    assert (len(roots), len(turns), len(calls)) == (2, 4 + 2, 3 + 1)
    assert len({span.context.trace_id for span in found}) == 2
    by_id = {span.context.span_id: span for span in found}
    for span in found:
        if span.parent:
            parent = by_id[span.parent.span_id]
            assert parent.name == ("chat" if span in calls else "invoke_agent stepcredit")
            assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time
    assert calls[0].attributes["gen_ai.tool.name"] == "mcp_employee_search"
    assert roots[0].attributes["stepcredit.stop"] == "answered"
    first = [span for span in turns if span.context.trace_id == roots[0].context.trace_id]
    reasons = [(span.name, *span.attributes["gen_ai.response.finish_reasons"]) for span in first]
    assert reasons == [("chat", "tool_calls")] * 3 + [("chat answer", "stop")]
    logged = [(line["trace_id"], line["span_id"], line["parent_span_id"]) for line in lines(stream)]
    hexadecimal = [(span.context.trace_id, span.context.span_id, span.parent.span_id) for span in calls]
    assert logged == [(f"{trace:032x}", f"{own:016x}", f"{above:016x}") for trace, own, above in hexadecimal]


def test_attribute_names_are_those_of_the_genai_conventions(spans: tuple[Any, InMemorySpanExporter]) -> None:
    tracer, exporter = spans
    stop = trace_episodes(tracer)
    try:
        play(one(), Oracle())
    finally:
        stop()
    declared = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {name for span in exporter.get_finished_spans() for name in span.attributes}
    assert {name for name in used if not name.startswith("stepcredit.")} <= declared
    operations = {span.attributes["gen_ai.operation.name"] for span in exporter.get_finished_spans()}
    assert operations == {"invoke_agent", "chat", "execute_tool"}


def test_an_episode_cut_off_still_ends_its_trace(spans: tuple[Any, InMemorySpanExporter]) -> None:
    """By an unfinished turn, and after a whole one whose results did not fit, which is no further turn."""
    tracer, exporter = spans
    stop = trace_episodes(tracer)
    try:
        for text in ("<tool_call>{", None):
            episode = one(4).open()
            episode.play(oracle_turn(one(4).task, episode))
            episode.truncate(text)
    finally:
        stop()
    found = exporter.get_finished_spans()
    assert [span.name for span in found if span.name == "chat"] == ["chat"] * 3
    assert [span.attributes["stepcredit.stop"] for span in found if not span.parent] == ["token_limit"] * 2
    assert [span.attributes["gen_ai.response.finish_reasons"] for span in found if span.name == "chat"][1] == (
        "length",
    )


def test_a_failed_call_is_an_error_without_its_text(spans: tuple[Any, InMemorySpanExporter]) -> None:
    tracer, exporter = spans
    stop = trace_calls(tracer)
    try:
        bound = domain("hr").registry().bind(None)
        bound.tool_call("mcp_employee_search", name="")
        bound.tool_call("Zhang San")
    finally:
        stop()
    invalid, unknown = exporter.get_finished_spans()
    assert invalid.attributes["error.type"] == "invalid_arguments"
    assert (invalid.status.is_ok, invalid.status.description, invalid.events) == (False, None, ())
    assert unknown.name == f"execute_tool {NOT_REGISTERED}"


def test_the_span_of_a_call_is_current_while_it_runs(spans: tuple[Any, InMemorySpanExporter]) -> None:
    """So that an MCP client, which sends the current context, puts the server's spans below the call."""
    tracer, exporter = spans
    seen: list[int] = []

    def tool(world: object, **_: Any) -> dict[str, Any]:
        seen.append(current_span().get_span_context().span_id)
        return {"forecasts": []}

    stop = trace_calls(tracer)
    try:
        Registry([Tool(domain("weather").registry().contract("get_weather"), tool)]).tool_call("get_weather", city="x")
    finally:
        stop()
    assert seen == [span.context.span_id for span in exporter.get_finished_spans()]
    assert not current_span().get_span_context().is_valid


def test_without_spans_the_calls_of_an_episode_still_share_a_trace(install: Installed) -> None:
    stream = io.StringIO()
    install(JsonLog(stream=stream))
    state = random.getstate()
    play(one(), Oracle())
    play(one(4), Oracle())
    said = lines(stream)
    assert [line["trace_id"] == said[0]["trace_id"] for line in said] == [True, True, True, False]
    assert len({line["span_id"] for line in said}) == 4
    assert {line["parent_span_id"] for line in said} == {None}
    assert random.getstate() == state  # an observed run draws the same numbers


def test_simulated_latency_counts_as_duration() -> None:
    events: list[Any] = []
    contract = domain("weather").registry().contract("get_weather")
    slow = dataclasses.replace(contract, policies=dataclasses.replace(contract.policies, latency_ms=1_800))
    tool = Tool(slow, lambda world, **_: {"forecasts": []})
    Registry([tool]).bind(None, on_call=events.append).tool_call("get_weather", city="x")
    assert events[0].duration_s == pytest.approx(1.8)


def test_what_is_masked_and_what_stays() -> None:
    given = {
        "emp_id": "1001", "name": "张三", "note": "ask zhang.san@corp.example about 56982", "api_key": "k",
        "start_date": "2026-06-01", "days": 2.5, "matches": [{"manager": {"email": "a@b.example"}, "title": "经理"}],
        "nothing": None, "Authorization": "Bearer x", "badge_id": 77, "half": False, "李四": 1,
    }  # fmt: skip
    masked = {
        "emp_id": MASK, "name": MASK, "note": MASK, "api_key": MASK,
        "start_date": "2026-06-01", "days": 2.5, "matches": [{"manager": {"email": MASK}, "title": MASK}],
        "nothing": None, "Authorization": MASK, "badge_id": MASK, "half": False, MASK: 1,
    }  # fmt: skip
    assert redacted(given) == masked
    wanted = redacted(given, {"note", "title", "name", "api_key"})
    assert wanted == {
        **masked,
        "note": f"ask {MASK} about {MASK}",
        "matches": [{"manager": {"email": MASK}, "title": "经理"}],
    }


def test_what_a_call_names_is_masked_wherever_it_turns_up(install: Installed) -> None:
    stream = io.StringIO()
    install(JsonLog(data=True, shown={"note", "message"}, stream=stream))
    contract = domain("hr").registry().contract("mcp_employee_search")
    free = dataclasses.replace(contract, output_schema={"type": "object"})

    def tool(world: object, name: str) -> dict[str, Any]:
        if name == "李四":
            raise ToolError(ErrorCode.BUSINESS_ERROR, f"several people: {name}, 'Li Si of R&D")
        return {"note": f"{name} is away until 2026-06-05", "days": 3, "by": {name: "yes"}}

    registry = Registry([Tool(free, tool)])
    registry.tool_call("mcp_employee_search", name="张三")
    registry.tool_call("mcp_employee_search", name="李四")
    found, failed = lines(stream)
    assert found["arguments"] == {"name": MASK}
    assert found["output"] == {"note": f"{MASK} is away until 2026-06-05", "days": 3, "by": {MASK: MASK}}
    assert failed["message"] == f"business_error: several people: {MASK}, {MASK}"


def test_the_search_for_leaks_finds_them() -> None:
    sought = {"1001", "张三", "Zhang San", "zhang.san@corp.example"}
    for text in ('"1001"', "no employee 1001;", "请问张三在吗", "'Zhang San'", "mail zhang.san@corp.example!"):
        assert len(leaked(sought, text)) == 1, text
    assert leaked(sought, "0.100123 a1001f 10010") == set()


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("words", [["--policy", "oracle"], ["--policy", "random", "--faults", "configs/faults.yaml"]])
def test_no_person_reaches_a_log_a_metric_or_a_span(
    data: bool,
    words: list[str],
    spans: tuple[Any, InMemorySpanExporter],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """R17, on an evaluation with every reader at every level. With data asked for, what remains is masked."""
    caplog.set_level(logging.DEBUG)
    tracer, exporter = spans
    home = CollectorRegistry()
    streams = {level: io.StringIO() for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)}
    stops = [trace_episodes(tracer), observe(Metrics(hr(), home))]
    stops += [observe(JsonLog(data=data, stream=stream, level=level)) for level, stream in streams.items()]
    try:
        assert evaluate([*words, "--rows", "40", "--out", str(tmp_path)]) == 0
    finally:
        for stop in stops:
            stop()
    sought = set.union(*(canaries(row) for row in rows("eval", 40, 0)))
    written = generate_latest(home).decode() + caplog.text + "".join(capfd.readouterr())
    written += "".join(span.to_json() for span in exporter.get_finished_spans())
    written += "".join(stream.getvalue() for stream in streams.values())
    assert len(lines(streams[logging.DEBUG])) > 30
    assert ('"arguments"' in written) is data
    assert len(leaked(sought, (tmp_path / "records.jsonl").read_text("utf-8"))) > 40  # they were there to be told
    assert leaked(sought, written) == set()


def test_importing_env_loads_none_of_the_three() -> None:
    unwanted = ("structlog", "prometheus_client", "opentelemetry")
    code = f"import env, env.registry, env.episode, sys; print([m for m in {unwanted!r} if m in sys.modules])"
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"


def test_metrics_are_served_on_loopback_until_stopped() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            taken.listen()
            serve_metrics(port)
    stop = serve_metrics(port)
    try:
        play(one(4), Oracle())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            shown = answer.read().decode()
        assert 'tool_call_total{status="success",tool="mcp_employee_search"} 1.0' in shown
    finally:
        stop()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2)
    with pytest.raises(ValueError, match="65535"):
        serve_metrics(70_000)


def test_an_evaluation_shows_its_metrics_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["--policy", "oracle", "--rows", "3", "--out", str(tmp_path / "run"), "--metrics_port", str(port)]
        assert evaluate(words) == 2  # before it touches the folder
        assert f"--metrics_port {port}: " in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
    shown: list[str] = []
    record_all = evaluation_run.record_all

    def recording(*arguments: Any) -> None:
        record_all(*arguments)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            shown.append(answer.read().decode())

    monkeypatch.setattr(evaluation_run, "record_all", recording)
    assert evaluate(words) == 0
    assert re.search(r'tool_call_total\{status="success",tool="mcp_employee_search"\} [1-9]', shown[0])
    assert evaluate(words) == 0  # the port is free again


# --- traces leave the process


class Collector(BaseHTTPRequestHandler):
    """Keeps what is sent to /v1/traces."""

    received: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["content-length"]))
        self.received.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_collector_gets_one_trace_per_episode_with_turns_and_calls_inside(tmp_path: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Collector.received.clear()
    url = f"http://127.0.0.1:{server.server_port}"
    status = evaluate(["--policy", "oracle", "--rows", "4", "--out", str(tmp_path / "run"), "--otlp", url])
    server.shutdown()
    assert status == 0
    spans = [
        span
        for body in Collector.received
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    parents = {span.span_id: span for span in spans}
    assert len({span.trace_id for span in spans if span.name.startswith("invoke_agent")}) == 4
    calls = [span for span in spans if span.name.startswith("execute_tool")]
    assert calls
    for call in calls:
        turn = parents[call.parent_span_id]
        assert turn.name.startswith("chat")
        assert parents[turn.parent_span_id].name.startswith("invoke_agent")
    text = b"".join(Collector.received).decode("utf-8", "ignore")
    assert "@corp" not in text, "no personal data leaves with a trace"


def test_an_address_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(["--policy", "oracle", "--rows", "1", "--out", str(tmp_path / "run"), "--otlp", "localhost"]) == 2
    assert "--otlp localhost: otlp: expected http://host:port" in capsys.readouterr().err
