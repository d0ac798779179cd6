"""Serve a domain's tools as an MCP server: over stdio, or with --http over streamable HTTP at /mcp.

    python -m scripts.serve_mcp --domain weather
    python -m scripts.serve_mcp --domain hr --http --port 8765

HTTP listens on loopback, and requests must carry a loopback Host and Origin. Another address needs a token in the
environment variable STEPCREDIT_MCP_TOKEN (requests send it as `Authorization: Bearer ...`) and the host names that may
be used, by --allow_host.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from env.domains import domain, known
from env.telemetry import serve_metrics

TOKEN = "STEPCREDIT_MCP_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", default="hr", help=f"one of {', '.join(known())} (default: hr)")
    parser.add_argument("--spec", help="the world of callers who name none, as JSON (default: the domain's example)")
    parser.add_argument("--now", default="2026-06-03T09:00:00+08:00", help="its time: ISO date-time with offset")
    parser.add_argument("--http", action="store_true", help="streamable HTTP in place of stdio")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback)")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--allow_host", nargs="+", default=[], metavar="NAME", help="host names besides loopback")
    parser.add_argument("--metrics_port", type=int, metavar="N", help="show Prometheus metrics on this loopback port")
    options = parser.parse_args(argv)
    token = os.environ.get(TOKEN, "")
    if options.http and options.host not in LOOPBACK and not (token and options.allow_host):
        parser.error(f"--host {options.host} is open to others: set {TOKEN} and name the hosts with --allow_host")
    try:
        where = domain(options.domain)
        spec = json.loads(options.spec) if options.spec else dict(where.EXAMPLE)
        where.check_spec(spec, None)
    except (ValueError, AttributeError) as error:
        parser.error(str(error))
    from env.transports.mcp_server import make_server

    server = make_server(options.domain, {"spec": spec, "now": options.now, "ids": "served"})
    with ExitStack() as stack:
        if options.metrics_port is not None:
            try:
                stack.callback(serve_metrics(options.metrics_port))
            except (ImportError, OSError, ValueError) as error:
                parser.error(f"--metrics_port {options.metrics_port}: {error}")
        if options.http:
            serve_http(server, options.host, options.port, options.allow_host, token)
        else:
            serve_stdio(server)
    return 0


def serve_stdio(server: Any) -> None:
    """Until standard input ends."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


def serve_http(server: Any, host: str, port: int, hosts: list[str], token: str) -> None:
    """Until interrupted."""
    import uvicorn

    from env.transports.mcp_server import BODY_LIMIT, security

    application = server.streamable_http_app(
        transport_security=security(hosts), max_request_body_size=BODY_LIMIT, host=host
    )
    uvicorn.run(guarded(application, token), host=host, port=port, log_level="warning")


@contextmanager
def started(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """A server in a process of its own, over HTTP on a free loopback port, for benchmarks; gives the port.

    words: the command up to `--http`. Raises RuntimeError where it does not come up.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    process = subprocess.Popen(
        [*words, "--http", "--port", str(port)], env={**os.environ, **(environment or {})}, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(process, port)
        yield port
    finally:
        process.terminate()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server does not come up on port {port}")


def guarded(application: Any, token: str) -> Any:
    """The application behind a bearer token, where there is one."""
    if not token:
        return application

    async def check(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        given = headers.get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, b"Bearer " + token.encode()):
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await application(scope, receive, send)

    return check


if __name__ == "__main__":
    sys.exit(main())
