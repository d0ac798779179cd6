"""Serves a domain's contracts over MCP: the low-level server of the official SDK, which leaves the checking to us.

A call may name the world that it is about in its metadata, which is how one server plays many episodes. Other clients
get the world that the server was started with.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from env.contract import ToolContract
from env.domains import domain
from env.registry import Registry
from env.types import ErrorCode, ToolCall, ToolResult

WORLD = "stepcredit/world"  # key of a call's metadata: {"spec": ..., "now": ..., "ids": ...}
PAGE = 50  # tools per page of tools/list
OPEN_WORLDS = 256
BODY_LIMIT = 4 * 1024 * 1024


class Worlds:
    """Bound registries by world, the least recently used ones closed. Safe to use from several threads."""

    def __init__(self, name: str, default: Mapping[str, Any]):
        self._domain = domain(name)
        self._default = default
        self._open: OrderedDict[str, tuple[Registry, Any, threading.Lock]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def contracts(self) -> list[ToolContract]:
        registry = self._domain.registry()
        return [registry.contract(name) for name in registry.names]

    def call(self, world: Any, call: ToolCall) -> ToolResult:
        """One call in a world (None: the default one)."""
        try:
            registry, lock = self._bound(self._default if world is None else world)
        except (ValueError, TypeError, KeyError) as error:
            return ToolResult.error(ErrorCode.INVALID_ARGUMENTS, f"{WORLD}: {error}")
        with lock:
            return registry.call(call).result

    def _bound(self, world: Mapping[str, Any]) -> tuple[Registry, threading.Lock]:
        key = json.dumps(world, sort_keys=True)
        with self._lock:
            if key not in self._open:
                self._domain.check_spec(world["spec"], None)
                opened = self._domain.open_world(world["spec"], world["now"], world["ids"])
                self._open[key] = (self._domain.registry().bind(opened, now=world["now"]), opened, threading.Lock())
            self._open.move_to_end(key)
            if len(self._open) > OPEN_WORLDS:
                _, (_, oldest, lock) = self._open.popitem(last=False)
                with lock:
                    oldest.close()
            registry, _, lock = self._open[key]
            return registry, lock


def make_server(name: str, default: Mapping[str, Any]) -> Server[Any]:
    """The MCP server of a domain. default: the world of callers who name none, {"spec", "now", "ids"}."""
    worlds = Worlds(name, default)
    contracts = worlds.contracts

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        cursor = params.cursor if params else None
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        page = contracts[start : start + PAGE]
        more = str(start + PAGE) if start + PAGE < len(contracts) else None
        return types.ListToolsResult(tools=[described(contract) for contract in page], next_cursor=more)

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        meta: Mapping[str, Any] = dict(context.meta or {})
        call = ToolCall(params.name, params.arguments or {})
        result = await anyio.to_thread.run_sync(worlds.call, meta.get(WORLD), call)
        text = json.dumps(result.data, ensure_ascii=False) if result.ok else result.message
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=result.data if result.ok else None,
            is_error=not result.ok,
        )

    return Server(f"stepcredit-{name}", on_list_tools=list_tools, on_call_tool=call_tool)


def described(contract: ToolContract) -> types.Tool:
    """A contract as tools/list shows it."""
    return types.Tool(
        name=contract.name,
        description=contract.description,
        input_schema=dict(contract.input_schema),
        output_schema=dict(contract.output_schema),
        annotations=types.ToolAnnotations(idempotent_hint=contract.idempotent),
    )


def security(hosts: list[str]) -> TransportSecuritySettings:
    """Host and Origin that requests may carry: loopback, and the given host names with any port."""
    names = ["127.0.0.1", "localhost", "[::1]", *hosts]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{name}:*" for name in names] + hosts,
        allowed_origins=[f"{scheme}://{name}:*" for name in names for scheme in ("http", "https")],
    )
