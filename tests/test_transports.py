"""The same contracts over MCP and HTTP: equal episodes, and servers that misbehave in every way we could think of."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from data.build import rows
from data.oracle import oracle_turn
from data.schema import Row
from env.contract import ToolContract, Transport
from env.domains import domain
from env.episode import Episode
from env.registry import Caller, Registry, Tool
from env.telemetry import trace_calls
from env.transports.http import HttpCaller, pruned, renamed
from env.transports.mcp_client import McpServers, ServerAddress, load_servers
from env.transports.mcp_server import BODY_LIMIT, WORLD
from env.types import ErrorCode, ToolCall, ToolError, Trajectory
from evaluation.scoring import rubric_of
from rewards import grounded
from scripts import import_mcp, import_openapi, serve_mcp

HR = ServerAddress((sys.executable, "-m", "scripts.serve_mcp", "--domain", "hr"))
WEATHER = ServerAddress((sys.executable, "-m", "scripts.serve_mcp", "--domain", "weather"))


def world_of(row: Row) -> dict[str, Any]:
    return {"spec": dict(row.task.world), "now": row.task.now, "ids": "row"}


def played(row: Row, registry: Registry, callers: Mapping[str, Caller]) -> Trajectory:
    """The oracle's episode over another transport. The world is on the far side."""
    local = row.open()
    episode = Episode(
        row.input,
        local.reference_output,
        registry.bind(None, callers=callers, now=row.task.now),
        language=row.task.language,
        now=row.task.now,
        meta=local.meta,
    )
    while not episode.done:
        episode.play(oracle_turn(row.task, episode))
    return episode.trajectory()


def directly(row: Row) -> Trajectory:
    episode = row.open()
    while not episode.done:
        episode.play(oracle_turn(row.task, episode))
    return episode.trajectory()


class Plugin(BaseHTTPRequestHandler):
    """An HTTP plugin over the same tools: the world comes as a header, the arguments as query or JSON body."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.answer(url.path.strip("/"), dict(parse_qsl(url.query)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.answer(self.path.strip("/"), json.loads(body))

    def answer(self, tool: str, arguments: dict[str, Any]) -> None:
        world = json.loads(bytes.fromhex(self.headers["x-world"]))
        where = domain("hr")
        bound = where.registry().bind(where.open_world(world["spec"], world["now"], world["ids"]))
        result = bound.call(ToolCall(tool, arguments)).result
        status = 200 if result.ok else {ErrorCode.NOT_FOUND: 404}.get(result.code, 409)  # type: ignore[arg-type]
        told = result.data if result.ok else {"detail": result.message.partition(": ")[2]}
        text = json.dumps({**told, "served_by": "plugin"}, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def plugin() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Plugin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def http_server() -> Iterator[str]:
    """Our MCP server over streamable HTTP."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = [*HR.command, "--http", "--port", str(port)]
    process = subprocess.Popen(words)
    deadline = time.monotonic() + 60
    while socket.socket().connect_ex(("127.0.0.1", port)):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait()


def same_everywhere(count: int, plugin: str, http_server: str) -> None:
    hr = domain("hr").registry()
    urls = {name: Transport("http", {"method": method, "url": f"{plugin}/{name}", "headers": {"x-world": "${WORLD}"}})
            for name, method in zip(hr.names, ("GET", "POST", "GET"), strict=True)}  # fmt: skip
    addresses = {"stdio": HR, "http": ServerAddress(url=http_server)}
    with McpServers(addresses) as servers, HttpCaller() as http:
        for row in rows("eval", count, 11):
            wanted = directly(row).to_payload()
            meta = {WORLD: world_of(row)}
            for server in addresses:
                moved = hr.rerouted({"*": Transport("mcp", {"server": server})})
                over_mcp = played(row, moved, {"mcp": servers.caller(meta)})
                assert over_mcp.to_payload() == wanted, server
            os.environ["WORLD"] = json.dumps(world_of(row)).encode().hex()
            over_http = played(row, hr.rerouted(urls), {"http": http})
            assert over_http.to_payload() == wanted
            score = grounded.score(over_http, rubric_of(row, over_http.reference_output))
            assert score is not None
            assert score.total == 1.0
    del os.environ["WORLD"]


def test_episodes_are_the_same_over_every_transport(plugin: str, http_server: str) -> None:
    same_everywhere(25, plugin, http_server)


@pytest.mark.slow
def test_two_hundred_episodes_are_the_same_over_every_transport(plugin: str, http_server: str) -> None:
    same_everywhere(200, plugin, http_server)


# --- misbehaving servers

NONSENSE = "import sys, time\nprint('this is no JSON-RPC', flush=True)\ntime.sleep(60)\n"
DEAD = "raise SystemExit(3)\n"
MUTE = "import time\ntime.sleep(60)\n"
SLOW = """\
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def tools(context, params):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="wait", input_schema=schema)])

async def call(context, params):
    if params.arguments.get("a") == "slow":
        await anyio.sleep(60)
    if params.arguments.get("a") == "die":
        import os
        os._exit(1)
    if params.arguments.get("a") == "bug":
        raise RuntimeError("a bug over there")
    if params.arguments.get("a") == "error":
        return types.CallToolResult(content=[types.TextContent(type="text", text="quota used up")], is_error=True)
    text = (context.meta or {}).get("traceparent", "none") if params.arguments.get("a") == "trace" else "plain words"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

async def main():
    server = Server("slow", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""
WAIT = """\
name: wait_for_it
description: Waits.
timeout: 800
input_schema:
  type: object
  additionalProperties: false
  properties:
    a: {type: string, description: What to do.}
output_schema: {type: object}
transport: {kind: mcp, server: slow, tool: wait}
"""


def script(folder: Path, text: str) -> ServerAddress:
    (folder / "server.py").write_text(text, "utf-8")
    return ServerAddress((sys.executable, str(folder / "server.py")))


def waiting(folder: Path, yaml: str = WAIT) -> ToolContract:
    (folder / "wait_for_it.yaml").write_text(yaml, "utf-8")
    return ToolContract.load(folder / "wait_for_it.yaml")


def code_of(caller: Caller, contract: ToolContract, a: str) -> ErrorCode:
    with pytest.raises(ToolError) as caught:
        caller(contract, {"a": a})
    return caught.value.code


def test_a_slow_a_failing_and_a_killed_server_become_error_codes(tmp_path: Path) -> None:
    contract = waiting(tmp_path)
    with McpServers({"slow": script(tmp_path, SLOW)}) as servers:
        caller = servers.caller()
        assert caller(contract, {"a": "hello"}) == {"text": "plain words"}
        assert code_of(caller, contract, "slow") is ErrorCode.TIMEOUT
        assert caller(contract, {"a": "hello"}) == {"text": "plain words"}  # the session survives it
        assert code_of(caller, contract, "error") is ErrorCode.BUSINESS_ERROR
        assert code_of(caller, contract, "bug") is ErrorCode.TRANSPORT_ERROR
        assert code_of(caller, contract, "die") in (ErrorCode.UNAVAILABLE, ErrorCode.TRANSPORT_ERROR)
        assert caller(contract, {"a": "hello"}) == {"text": "plain words"}  # started again


def test_a_traced_call_tells_the_server_where_in_the_trace_it_is(tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    registry = Registry([Tool(waiting(tmp_path), lambda world, **_: {})])
    with McpServers({"slow": script(tmp_path, SLOW)}) as servers:
        bound = registry.bind(None, callers={"mcp": servers.caller()})
        stop = trace_calls(provider.get_tracer("test"))
        try:
            told = bound.tool_call("wait_for_it", a="trace").data["text"]
        finally:
            stop()
    (span,) = exporter.get_finished_spans()
    assert told.split("-")[1:3] == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]


def test_a_server_shows_its_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    address = ServerAddress((*WEATHER.command, "--metrics_port", str(port)))
    with McpServers({"weather": address}) as servers:
        servers.call("weather", "get_weather", {"city": "Beijing"}, 10.0)
        shown = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
    assert 'tool_call_total{status="success",tool="get_weather"} 1.0' in shown
    with pytest.raises(SystemExit):
        serve_mcp.main(["--metrics_port", "70000"])
    assert "--metrics_port 70000: " in capsys.readouterr().err


@pytest.mark.parametrize("text", [DEAD, NONSENSE, MUTE])
def test_a_server_that_never_speaks_mcp_is_unavailable(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("env.transports.mcp_client.START_S", 1.5)
    with McpServers({"slow": script(tmp_path, text)}) as servers:
        assert code_of(servers.caller(), waiting(tmp_path), "hello") is ErrorCode.UNAVAILABLE


def test_a_server_killed_from_outside_is_started_again() -> None:
    with McpServers({"weather": WEATHER}) as servers:
        moved = domain("weather").registry().rerouted({"*": Transport("mcp", {"server": "weather"})})
        bound = moved.bind(None, callers={"mcp": servers.caller()})
        assert bound.tool_call("get_weather", city="Beijing").ok
        children = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "serve_mcp --domain weather"],
                                  capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        time.sleep(0.2)
        results = [bound.tool_call("get_weather", city="Beijing", date=f"2026-06-0{day}") for day in range(2, 7)]
        assert results[-1].ok
        assert {result.code for result in results} <= {None, ErrorCode.UNAVAILABLE, ErrorCode.TRANSPORT_ERROR}


def test_a_server_that_nobody_configured_is_unavailable(tmp_path: Path) -> None:
    with McpServers({}) as servers:
        assert code_of(servers.caller(), waiting(tmp_path), "hello") is ErrorCode.UNAVAILABLE
    assert code_of(servers.caller(), waiting(tmp_path), "hello") is ErrorCode.UNAVAILABLE  # closed


def test_the_shorter_of_both_timeouts_holds(tmp_path: Path) -> None:
    patient = waiting(tmp_path, WAIT.replace("timeout: 800", "timeout: 60000"))
    with McpServers({"slow": replace(script(tmp_path, SLOW), timeout_s=0.8)}) as servers:
        assert code_of(servers.caller(), patient, "slow") is ErrorCode.TIMEOUT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server: {}", "expected the key servers"),
        ("servers:\n  a: {command: [x], url: 'http://y'}", ":2: expected command or url"),
        ("servers:\n  a: {}", "expected command or url"),
        ("servers:\n  a: {command: x}", "command: expected a list"),
        ("servers:\n  a: {url: 'ftp://y'}", "url: expected"),
        ("servers:\n  a: {url: 'http://y', timeout: 0}", "timeout: expected"),
    ],
)
def test_a_bad_file_of_servers_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "servers.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=message):
        load_servers(path)


# --- MCP over HTTP keeps its doors shut (R21)


def ask(url: str, **headers: str) -> int:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    kept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25", **headers}
    return httpx2.post(url, json=body, headers=kept).status_code


def test_foreign_hosts_and_origins_and_huge_bodies_are_refused(http_server: str) -> None:
    assert ask(http_server, host="evil.example") == 421
    assert ask(http_server, origin="https://evil.example") == 403
    huge = httpx2.post(http_server, content=b"x" * (BODY_LIMIT + 1), headers={"content-type": "application/json"})
    assert huge.status_code == 413
    assert ask(http_server) not in (421, 403, 413)


def test_an_open_address_needs_a_token_and_host_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(serve_mcp.TOKEN, raising=False)
    for words in (["--allow_host", "tools.example"], []):
        with pytest.raises(SystemExit) as caught:
            serve_mcp.main(["--http", "--host", "0.0.0.0", *words])
        assert caught.value.code == 2
    monkeypatch.setenv(serve_mcp.TOKEN, "secret")
    with pytest.raises(SystemExit):
        serve_mcp.main(["--http", "--host", "0.0.0.0"])
    assert serve_mcp.TOKEN in capsys.readouterr().err


def test_the_token_is_asked_for() -> None:
    import anyio

    reached, sent = [], []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    for value in (b"", b"Bearer wrong", b"Bearer secret"):
        scope = {"type": "http", "headers": [(b"authorization", value)]}
        anyio.run(serve_mcp.guarded(application, "secret"), scope, None, send)
    assert len(reached) == 1
    assert [message["status"] for message in sent if "status" in message] == [401, 401]


# --- HTTP plugins

ORDER = """\
name: get_order
description: Orders.
timeout: 700
input_schema:
  type: object
  additionalProperties: false
  required: [order_id]
  properties:
    order_id: {type: string, x-kind: id, description: Id.}
    day: {type: string, description: Day.}
output_schema:
  type: object
  additionalProperties: false
  required: [product_id]
  properties: {product_id: {type: string}, note: {type: string}}
transport:
  kind: http
  method: GET
  url: "URL/orders/{id}"
  headers: {authorization: "Bearer ${ORDER_TOKEN}"}
  arguments: {order_id: id}
  result: {sku_id: product_id}
"""


class Orders(BaseHTTPRequestHandler):
    """What it answers depends on the id that is asked for."""

    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["authorization"]))
        which = urlsplit(self.path).path.rpartition("/")[2]
        kind, body, status = "application/json", b'{"sku_id": "7", "extra": 1}', 200
        if which.isdecimal() and len(which) == 3:
            status, body = int(which), b'{"detail": "so it is"}'
        elif which == "gbk":
            kind, body = "application/json; charset=gbk", '{"sku_id": "北京"}'.encode("gbk")
        elif which == "garbled":
            body = '{"sku_id": "北京"}'.encode("gbk")
        elif which == "page":
            kind, body = "text/html", b"<html>"
        elif which == "drifted":
            body = b'{"stock_id": "7"}'
        elif which == "slow":
            time.sleep(2)
        elif which == "huge":
            body = b'"' + b"x" * (5 * 1024 * 1024) + b'"'
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Orders)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ORDER_TOKEN", "s3cret")
    monkeypatch.setattr(Orders, "seen", [])
    (tmp_path / "get_order.yaml").write_text(ORDER.replace("URL", f"http://127.0.0.1:{server.server_port}"), "utf-8")
    with HttpCaller() as http:
        yield Registry.load_tools_from_directory(tmp_path, "nowhere").bind(None, callers={"http": http})
    server.shutdown()


def test_names_are_mapped_extras_dropped_and_secrets_sent(orders: Registry) -> None:
    assert orders.tool_call("get_order", order_id="a/b c", day="1").data == {"product_id": "7"}
    assert Orders.seen == [("/orders/a%2Fb%20c?day=1", "Bearer s3cret")]


@pytest.mark.parametrize(
    ("which", "code"),
    [
        ("400", ErrorCode.INVALID_ARGUMENTS),
        ("401", ErrorCode.TRANSPORT_ERROR),
        ("404", ErrorCode.NOT_FOUND),
        ("409", ErrorCode.BUSINESS_ERROR),
        ("429", ErrorCode.RATE_LIMITED),
        ("500", ErrorCode.UNAVAILABLE),
        ("503", ErrorCode.UNAVAILABLE),
        ("504", ErrorCode.TIMEOUT),
        ("302", ErrorCode.TRANSPORT_ERROR),
        ("page", ErrorCode.OUTPUT_INVALID),
        ("garbled", ErrorCode.OUTPUT_INVALID),
        ("drifted", ErrorCode.OUTPUT_INVALID),
        ("huge", ErrorCode.OUTPUT_INVALID),
        ("slow", ErrorCode.TIMEOUT),
    ],
)
def test_every_bad_answer_has_a_code(orders: Registry, which: str, code: ErrorCode) -> None:
    result = orders.tool_call("get_order", order_id=which)
    assert result.code is code
    if which in ("400", "404", "429"):
        assert result.message == f"{code}: so it is"


def test_the_charset_that_a_plugin_names_holds(orders: Registry) -> None:
    assert orders.tool_call("get_order", order_id="gbk").data == {"product_id": "北京"}


def test_a_plugin_that_is_down_or_a_secret_that_is_missing(orders: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORDER_TOKEN")
    missing = orders.tool_call("get_order", order_id="1")
    assert missing.code is ErrorCode.UNAVAILABLE
    assert "ORDER_TOKEN" in missing.message
    monkeypatch.setenv("ORDER_TOKEN", "x")
    away = Transport("http", {"method": "GET", "url": "http://127.0.0.1:1/"})
    with HttpCaller() as http:
        down = orders.rerouted({"*": away}).bind(None, callers={"http": http})
        assert down.tool_call("get_order", order_id="1").code is ErrorCode.UNAVAILABLE


def test_renaming_and_pruning_reach_inside() -> None:
    assert renamed({"a": [{"b": 1}]}, {"a": "x", "b": "y"}) == {"x": [{"y": 1}]}
    closed = {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "array", "items": {
        "type": "object", "additionalProperties": False, "properties": {"b": {}}}}}}  # fmt: skip
    assert pruned({"a": [{"b": 1, "c": 2}], "d": 3}, closed) == {"a": [{"b": 1}]}
    assert pruned({"d": 3}, {"type": "object", "properties": {}}) == {"d": 3}


# --- imports


def servers_file(folder: Path, address: ServerAddress) -> Path:
    path = folder / "servers.yaml"
    path.write_text(json.dumps({"servers": {"their": {"command": list(address.command)}}}), "utf-8")
    return path


def test_a_server_s_tools_become_contracts_and_drift_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers, out = servers_file(tmp_path, WEATHER), tmp_path / "tools"
    assert import_mcp.main(["their", "--servers", str(servers), "--out", str(out)]) == 0
    registry = Registry.load_tools_from_directory(out, "nowhere")
    assert registry.names == ("their__get_weather",)
    with McpServers({"their": WEATHER}) as running:
        bound = registry.bind(None, callers={"mcp": running.caller()})
        assert bound.tool_call("their__get_weather", city="Beijing").ok
        assert bound.tool_call("their__get_weather").code is ErrorCode.INVALID_ARGUMENTS
    assert import_mcp.main(["their", "--servers", str(servers), "--check", str(out)]) == 0
    assert import_mcp.main(["their", "--servers", str(servers_file(tmp_path, HR)), "--check", str(out)]) == 1
    said = capsys.readouterr().out
    assert "get_weather: gone from the server" in said
    assert "plugin_org_query: new on the server" in said
    file = out / "their__get_weather.yaml"
    file.write_text(file.read_text("utf-8").replace("schema_hash: ", "schema_hash: x"), "utf-8")
    assert import_mcp.main(["their", "--servers", str(servers_file(tmp_path, WEATHER)), "--check", str(out)]) == 1
    assert "get_weather: changed on the server" in capsys.readouterr().out
    assert import_mcp.main(["their", "--servers", str(servers), "--check", str(tmp_path / "none")]) == 2
    assert import_mcp.main(["other", "--servers", str(servers), "--out", str(out)]) == 2


def test_names_of_servers_are_kept_apart() -> None:
    assert import_mcp.local_name("a", "find") != import_mcp.local_name("b", "find")
    assert import_mcp.local_name("a b", "find.all/x") == "a_b__find_all_x"


OPENAPI = {
    "openapi": "3.0.3",
    "info": {"title": "Order Desk", "version": "1"},
    "servers": [{"url": "https://orders.example/v1"}],
    "paths": {
        "/orders/{orderId}": {
            "parameters": [{"name": "orderId", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "getOrder",
                "summary": "One order.",
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}
                },
            },
        },
        "/orders": {
            "post": {
                "operationId": "createOrder",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                "responses": {"201": {"description": "made"}},
            }
        },
    },
    "components": {
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["sku"],
                "properties": {
                    "sku": {"type": "string", "example": "A1"},
                    "note": {"type": "string", "nullable": True},
                    "example": {"type": "string"},
                },
            }
        }
    },
}


def test_a_plugin_described_by_openapi_becomes_contracts(tmp_path: Path) -> None:
    file, out = tmp_path / "plugin.json", tmp_path / "tools"
    file.write_text(json.dumps(OPENAPI), "utf-8")
    header = "Authorization: Bearer ${DESK_TOKEN}"
    assert import_openapi.main([str(file), "--out", str(out), "--header", header]) == 0
    get, create = (ToolContract.load(out / f"{name}.yaml") for name in ("get_order", "create_order"))
    assert get.transport.options["url"] == "https://orders.example/v1/orders/{orderId}"
    assert get.transport.options["headers"] == {"Authorization": "Bearer ${DESK_TOKEN}"}
    assert get.check_arguments({"orderId": "7"}) == {"orderId": "7"}
    assert get.check_output({"sku": "x", "note": None}) == {"sku": "x", "note": None}
    assert (get.idempotent, create.idempotent) == (True, False)
    assert create.input_schema["required"] == ["sku"]
    assert set(create.input_schema["properties"]) == {"sku", "note", "example"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"openapi": "2.0"}, "expected an OpenAPI 3 description"),
        ({"servers": [{"url": "/v1"}]}, "expected a base address"),
        ({"components": {}}, "refers to nothing"),
        ({"components": {"schemas": {"Order": {"$ref": "#/components/schemas/Order"}}}}, "in a circle"),
    ],
)
def test_a_description_that_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Mapping[str, Any], message: str
) -> None:
    file = tmp_path / "plugin.json"
    file.write_text(json.dumps({**OPENAPI, **change}), "utf-8")
    assert import_openapi.main([str(file), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
