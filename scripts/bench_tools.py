"""What a tool call costs, and what each layer adds, in one run and interleaved.

    python -m scripts.bench_tools --out docs/results      # writes tools.json

CPU time of this process per call, in microseconds: the median over rounds in which every variant takes its turn, so
that a slow minute of the machine is shared by all. Calls over MCP wait for another process or thread: wall time.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from env.contract import Transport
from env.domains import domain
from env.registry import Registry, Tool
from env.telemetry import JsonLog, Metrics, Spans
from env.types import ToolCall
from scripts.serve_mcp import started

NOW = "2026-06-03T09:00:00+08:00"
CALL = ToolCall("get_weather", {"city": "Beijing", "date": "2026-06-05"})
CATALOGUES = (3, 100, 1_000)
LOADED = 17  # tools, as in the source document, which says 83 ms for them
DOCUMENT_MS = 83.0

Call = Callable[[], object]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write tools.json to this folder")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of all variants (default: 30)")
    parser.add_argument("--calls", type=int, default=500, help="calls per variant and round (default: 500)")
    options = parser.parse_args(argv)
    for name in ("rounds", "calls"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    with ExitStack() as stack:
        near = local_variants(stack)
        far = far_variants(stack)
        cpu = measured(near, options.rounds, options.calls, time.process_time)
        wall = measured(far, max(3, options.rounds // 5), max(5, options.calls // 10), time.perf_counter)
    loading = loading_ms(options.rounds)
    table = Table("variant", "µs per call", "clock")
    for name, value in {**cpu, **wall}.items():
        table.add_row(name, f"{value:.1f}", "CPU" if name in cpu else "wall")
    table.add_row(f"loading {LOADED} tools", f"{loading * 1000:.0f} in all", "CPU")
    Console().print(table)
    if options.out:
        publish(cpu, wall, loading, options, sys.argv[1:] if argv is None else argv)
    return 0


def bound(registry: Registry, **options: Any) -> Registry:
    where = domain("weather")
    return registry.bind(where.open_world(where.EXAMPLE, NOW, "bench"), now=NOW, **options)


def uncached() -> Registry:
    """The weather tool without its cache and retries, or nothing but the first call would reach it."""
    registry = domain("weather").registry()
    contract = registry.contract(CALL.name)
    plain = replace(contract.policies, cache_ttl_s=0.0, retry=None)
    return Registry([Tool(replace(contract, policies=plain), registry.function(CALL.name))])


def local_variants(stack: ExitStack) -> dict[str, Call]:
    """Variants without another process."""
    from opentelemetry.sdk.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    registry = uncached()
    function, contract = registry.function(CALL.name), registry.contract(CALL.name)
    where = domain("weather")
    world = where.open_world(where.EXAMPLE, NOW, "bench")
    metrics = Metrics([contract], CollectorRegistry())
    log = JsonLog(stream=io.StringIO())
    spans = Spans(TracerProvider().get_tracer("bench"))
    plain, counted = bound(registry), bound(registry, on_call=metrics)
    logged, traced = bound(registry, on_call=log), bound(registry, on_call=spans)
    policed = bound(domain("weather").registry())
    variants: dict[str, Call] = {
        "bare function": lambda: function(world, **CALL.arguments),
        "validated both ways": lambda: plain.call(CALL),
        "with metrics": lambda: counted.call(CALL),
        "with log": lambda: logged.call(CALL),
        "with spans": lambda: _inside(spans, traced),
        "policies, from the cache": lambda: policed.call(CALL),
    }
    for size in CATALOGUES:
        crowd = Registry(
            [Tool(contract, function)]
            + [Tool(replace(contract, name=f"other_{number:04d}"), function) for number in range(size - 1)]
        )
        variants[f"metrics, {size} tools"] = _caller(bound(crowd, on_call=metrics))
    return variants


def _inside(spans: Spans, registry: Registry) -> Any:
    with spans.around(CALL.name):
        return registry.call(CALL)


def _caller(registry: Registry) -> Call:
    return lambda: registry.call(CALL)


def far_variants(stack: ExitStack) -> dict[str, Call]:
    """The same call over MCP: in memory, stdio, streamable HTTP."""
    from env.transports.mcp_client import McpServers, ServerAddress

    command = (sys.executable, "-m", "scripts.serve_mcp", "--domain", "weather")
    url = f"http://127.0.0.1:{stack.enter_context(started(command))}/mcp"
    servers = stack.enter_context(McpServers({"stdio": ServerAddress(command), "http": ServerAddress(url=url)}))
    variants: dict[str, Call] = {"MCP in memory": stack.enter_context(_in_memory())}
    for name in ("stdio", "http"):
        moved = uncached().rerouted({"*": Transport("mcp", {"server": name})})
        variants[f"MCP {name}"] = _caller(moved.bind(None, callers={"mcp": servers.caller()}))
    return variants


@contextmanager
def _in_memory() -> Iterator[Call]:
    from anyio.from_thread import start_blocking_portal
    from mcp import Client

    from env.transports.mcp_server import make_server

    server = make_server("weather", {"spec": dict(domain("weather").EXAMPLE), "now": NOW, "ids": "bench"})
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        yield lambda: portal.call(client.call_tool, CALL.name, dict(CALL.arguments))


def measured(variants: Mapping[str, Call], rounds: int, calls: int, clock: Callable[[], float]) -> dict[str, float]:
    """Median over the rounds of the microseconds per call; the order turns by one every round."""
    for call in variants.values():
        call()  # warm: sessions, caches, compiled patterns
    names = list(variants)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in track(range(rounds), "measuring"):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            call, started = variants[name], clock()
            for _ in range(calls):
                call()
            taken[name].append((clock() - started) / calls * 1e6)
    return {name: round(statistics.median(values), 2) for name, values in taken.items()}


def loading_ms(rounds: int) -> float:
    """Median milliseconds to load 17 tools from their files, modules imported before."""
    source = Path(domain("weather").registry().contract(CALL.name).path)
    yaml, python = source.read_text("utf-8"), source.with_suffix(".py").read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "bench_tools_loaded"
        package.mkdir()
        (package / "__init__.py").write_text("", "utf-8")
        for number in range(LOADED):
            name = f"get_weather_{number:02d}"
            (package / f"{name}.yaml").write_text(yaml.replace("name: get_weather", f"name: {name}"), "utf-8")
            (package / f"{name}.py").write_text(python.replace("def get_weather", f"def {name}"), "utf-8")
        sys.path.insert(0, folder)
        try:
            taken = []
            for _ in range(max(3, rounds // 3)):
                started = time.process_time()
                Registry.load_tools_from_directory(package, package.name)
                taken.append((time.process_time() - started) * 1000)
        finally:
            sys.path.remove(folder)
    return statistics.median(taken)


def publish(
    cpu: Mapping[str, float],
    wall: Mapping[str, float],
    loading: float,
    options: argparse.Namespace,
    words: Sequence[str],
) -> None:
    """tools.json with what is needed to repeat it."""
    packages = ("jsonschema-rs", "mcp", "prometheus_client", "structlog", "opentelemetry-sdk")
    record = {
        "command": "python -m scripts.bench_tools " + " ".join(map(str, words)),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "versions": {package: version(package) for package in packages} | {"python": platform.python_version()},
        "written": time.strftime("%Y-%m-%d"),
        "seed": 1,  # of the world
        "cpu_us_per_call": dict(cpu),
        "wall_us_per_call": dict(wall),
        "loading": {"tools": LOADED, "ms": round(loading, 2), "source_document_ms": DOCUMENT_MS},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "tools.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
