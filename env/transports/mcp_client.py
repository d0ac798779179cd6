"""Calls tools of MCP servers from synchronous code: one session per server, over stdio or streamable HTTP.

Sessions start at the first call and are replaced after a failure, so a server that was killed is started again. They
live on one event loop in a thread of their own; calls from several threads share them.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client import Transport
from mcp.shared.exceptions import MCPError

from env.contract import ToolContract
from env.registry import Caller
from env.types import JSON, ErrorCode, ToolError
from env.yaml_strict import YamlError, load

START_S = 30.0  # for a server to come up
GRACE_S = 2.0  # for a session to close
_NOWHERE = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
MAX_DETAIL = 500  # characters of a foreign error
INVALID_PARAMS = -32602


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """How to reach a server: `command` to start it (stdio), or the `url` of a running one.

    timeout_s: at most per call, whatever the contract says. environment: added to a few inherited variables.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 60.0

    def target(self) -> Transport | str:
        """What a client connects to. What a started server writes to its standard error is not shown."""
        if self.url:
            return self.url
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
        program = sys.executable if self.command[0] == "python" else self.command[0]
        parameters = StdioServerParameters(
            command=program, args=list(self.command[1:]), env={**inherited, **self.environment}
        )
        return stdio_client(parameters, errlog=_NOWHERE)

    def __str__(self) -> str:
        return self.url or " ".join(self.command)


def load_servers(path: Path | str) -> dict[str, ServerAddress]:
    """Of a YAML file: `servers:` with name -> {command: [...]} or {url: ...}, and perhaps timeout (seconds).

    A command that starts with `python` is run by this interpreter.

    Raises ValueError with the line, OSError.
    """
    try:
        document = load(path)
    except YamlError as error:
        raise ValueError(str(error)) from error
    value = document.value
    if not isinstance(value, dict) or value.keys() != {"servers"} or not isinstance(value["servers"], dict):
        raise ValueError(f"{path}:1: expected the key servers with an object of name and address")
    return {name: _address(each, f"{path}:{document.line('servers', name)}") for name, each in value["servers"].items()}


def _address(value: JSON, where: str) -> ServerAddress:
    allowed = {"command", "url", "timeout"}
    if not isinstance(value, dict) or not value.keys() <= allowed or ("command" in value) == ("url" in value):
        raise ValueError(f"{where}: expected command or url, and perhaps timeout, got {value!r}")
    command, timeout = value.get("command", []), value.get("timeout", 60.0)
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ValueError(f"{where}: command: expected a list of texts, got {command!r}")
    if "url" in value and not re.match(r"https?://", str(value["url"])):
        raise ValueError(f"{where}: url: expected http:// or https://, got {value['url']!r}")
    if type(timeout) not in (int, float) or timeout <= 0:
        raise ValueError(f"{where}: timeout: expected seconds above 0, got {timeout!r}")
    return ServerAddress(tuple(command), str(value.get("url", "")), timeout_s=float(timeout))


class McpServers:
    """Sessions by server name. A context manager: leaving it ends every session and the servers that it started."""

    def __init__(self, addresses: Mapping[str, ServerAddress]):
        self._addresses = dict(addresses)
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self._portal_context: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> McpServers:
        self._portal_context = start_blocking_portal()
        self._portal = self._portal_context.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._portal_context is not None
        for session in list(self._sessions.values()):
            session.close()
        self._sessions.clear()
        self._portal_context.__exit__(None, None, None)
        self._portal = None

    def caller(self, meta: Mapping[str, Any] | None = None) -> Caller:
        """For `Registry.bind(callers={"mcp": ...})`. meta: goes with every call; see mcp_server.WORLD."""

        def call(contract: ToolContract, arguments: dict[str, JSON]) -> JSON:
            options = contract.transport.options
            server = options["server"]
            name = options.get("tool", contract.name)
            return _data(self.call(server, name, arguments, contract.timeout_ms / 1000, meta))

        return call

    def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, JSON],
        timeout_s: float,
        meta: Mapping[str, Any] | None = None,
    ) -> types.CallToolResult:
        """Raises ToolError for whatever goes wrong between here and the tool."""
        session = self._session(server)
        limit = min(timeout_s, self._addresses[server].timeout_s)

        async def ask(client: Client) -> types.CallToolResult:
            with anyio.fail_after(limit):
                return await client.call_tool(tool, dict(arguments), meta=dict(meta) if meta else None)  # type: ignore[arg-type]

        result: types.CallToolResult = self._guarded(server, session, ask, limit)
        return result

    def list_tools(self, server: str) -> list[types.Tool]:
        """All pages. Raises ToolError."""
        session = self._session(server)

        async def ask(client: Client) -> list[types.Tool]:
            tools: list[types.Tool] = []
            cursor: str | None = None
            with anyio.fail_after(START_S):
                while True:
                    page = await client.list_tools(cursor=cursor, cache_mode="bypass")
                    tools += page.tools
                    if not page.next_cursor or page.next_cursor == cursor:
                        return tools
                    cursor = page.next_cursor

        found: list[types.Tool] = self._guarded(server, session, ask, START_S)
        return found

    def _guarded(self, server: str, session: _Session, ask: Any, limit: float) -> Any:
        assert self._portal is not None
        try:
            return self._portal.call(ask, session.client)
        except TimeoutError:
            # The late answer would find nobody; the session itself is sound unless the server is stuck.
            raise ToolError(ErrorCode.TIMEOUT, f"no answer from {server} within {limit:g} s") from None
        except MCPError as error:
            if error.code == INVALID_PARAMS:
                raise ToolError(ErrorCode.INVALID_ARGUMENTS, _cut(error.message)) from None
            self._discard(server, session)
            raise ToolError(ErrorCode.TRANSPORT_ERROR, f"{server}: {_cut(error.message)}") from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # A killed server surfaces as a cancellation, a closed stream, a group of exceptions, or bad JSON: all of
            # them end this session and none may end the trainer.
            self._discard(server, session)
            raise ToolError(ErrorCode.UNAVAILABLE, f"{server}: {type(error).__name__}") from None

    def _session(self, server: str) -> _Session:
        if self._portal is None:
            raise ToolError(ErrorCode.UNAVAILABLE, "the MCP sessions are closed")
        if server not in self._addresses:
            known = ", ".join(self._addresses) or "none"
            raise ToolError(ErrorCode.UNAVAILABLE, f"no MCP server {server!r} is configured; there are {known}")
        with self._lock:
            session = self._sessions.get(server)
            if session is None or session.ended:
                session = self._sessions[server] = _Session(self._portal, self._addresses[server])
        session.wait(f"{server} ({self._addresses[server]})")
        return session

    def _discard(self, server: str, session: _Session) -> None:
        with self._lock:
            if self._sessions.get(server) is session:
                del self._sessions[server]
        session.close()


def shared_caller(path: Path) -> Caller:
    """For a domain whose tools live on the servers of a file: they start at the first call and end with the process.

    Raises ValueError and OSError as `load_servers` does.
    """
    servers, lock = McpServers(load_servers(path)), threading.Lock()
    reached = servers.caller()
    opened: list[McpServers] = []

    def call(contract: ToolContract, arguments: dict[str, JSON]) -> JSON:
        with lock:
            if not opened:
                opened.append(servers.__enter__())
                atexit.register(servers.__exit__)
        return reached(contract, arguments)

    return call


class _Session:
    """A client whose context is held open by a task of its own, since it must be left by whoever entered it."""

    def __init__(self, portal: BlockingPortal, address: ServerAddress):
        self._ready: Future[tuple[Client, anyio.Event]] = Future()
        self._portal = portal
        self._task = portal.start_task_soon(self._hold, address)

    @property
    def ended(self) -> bool:
        return self._task.done()

    @property
    def client(self) -> Client:
        return self._ready.result()[0]

    def wait(self, server: str) -> None:
        """Until the server has answered the handshake. Raises ToolError."""
        try:
            self._ready.result(START_S)
        except (TimeoutError, CancelledError, Exception) as error:
            self._task.cancel()
            raise ToolError(ErrorCode.UNAVAILABLE, f"{server} does not start: {type(error).__name__}") from None

    def close(self) -> None:
        if self._ready.done() and self._ready.exception() is None and not self.ended:
            try:
                self._portal.call(self._ready.result()[1].set)
                self._task.result(GRACE_S)
            except (TimeoutError, CancelledError, RuntimeError):
                pass
        self._task.cancel()

    async def _hold(self, address: ServerAddress) -> None:
        stop = anyio.Event()
        try:
            async with Client(address.target()) as client:
                self._ready.set_result((client, stop))
                await stop.wait()
        except (Exception, BaseExceptionGroup) as error:
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(ConnectionError("the session was cancelled"))


def _data(result: types.CallToolResult) -> JSON:
    """The structured content, else what the text holds. Raises ToolError for an error result."""
    text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
    if result.is_error:
        code, _, detail = text.partition(": ")
        known = code in list(ErrorCode) and bool(detail)
        raise ToolError(ErrorCode(code) if known else ErrorCode.BUSINESS_ERROR, _cut(detail if known else text))
    if result.structured_content is not None:
        content: JSON = result.structured_content
        return content
    try:
        found = json.loads(text)
    except ValueError:
        return {"text": text}
    return found if isinstance(found, dict) else {"text": text}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 3]}..."
