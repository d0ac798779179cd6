"""Measure the reliability figures that stand today, at their bars, and write them down with what was tried.

    python -m scripts.bench_reliability --out docs/results         # all of them, in full
    python -m scripts.bench_reliability R7 R26 --quick             # some of them, a tenth of the size

Each figure has a bar; the exit status is 1 where one is missed. --quick is recorded as such.
"""

from __future__ import annotations

import argparse
import builtins
import io
import json
import logging
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from data.build import ALL_SHARES, rows
from data.checks import contains
from data.oracle import oracle_turn
from data.schema import OUTCOMES, ROW_IDS, Row
from env import yaml_strict
from env.clock import VirtualClock
from env.contract import ToolContract
from env.domains import DOMAINS, domain
from env.domains.hr.world import alias_key
from env.faults import FaultPlan
from env.negatives import INJECTIONS, example, injected, refused
from env.policies import Breaker, BreakerState, CircuitBreaker
from env.registry import Registry, Tool
from env.telemetry import JsonLog, Metrics, observe, trace_episodes
from env.types import ErrorCode, ToolCall, ToolError, ToolResult
from evaluation.players import Oracle, play
from evaluation.players import Random as RandomPlayer
from evaluation.scoring import rubric_of
from rewards import grounded
from scripts.check import NOW, fingerprint
from scripts.serve_mcp import started


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured. tried: how many. broken: how many did not stand. worst: the slowest, in seconds."""

    id: str
    what: str
    tried: int
    broken: int
    worst_s: float = 0.0
    example: str = ""


Measure = Callable[[int], Figure]  # divisor of the size


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"of {', '.join(MEASURES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--out", type=Path, help="also write reliability.json to this folder")
    options = parser.parse_args(argv)
    if unknown := sorted(set(options.ids) - set(MEASURES)):
        parser.error(f"no figure {unknown[0]}; there are {', '.join(MEASURES)}")
    figures = []
    for id in options.ids or MEASURES:
        print(f"{id} ...", file=sys.stderr)
        figures.append(MEASURES[id](10 if options.quick else 1))
    table = Table("figure", "what", "tried", "broken", "slowest")
    for figure in figures:
        table.add_row(figure.id, figure.what, f"{figure.tried:,}", str(figure.broken), f"{figure.worst_s:.2f} s")
    Console().print(table)
    for figure in figures:
        if figure.broken:
            print(f"{figure.id}: {figure.example}", file=sys.stderr)
    if options.out:
        publish(figures, options, sys.argv[1:] if argv is None else argv)
    return 1 if any(figure.broken for figure in figures) else 0


class Tally:
    """Counts attempts and failures, keeping the first failure and the slowest attempt."""

    def __init__(self) -> None:
        self.tried = self.broken = 0
        self.worst = 0.0
        self.example = ""

    def note(self, fine: bool, example: object, seconds: float = 0.0) -> None:
        self.tried += 1
        self.worst = max(self.worst, seconds)
        if not fine:
            self.broken += 1
            self.example = self.example or str(example)[:200]

    def figure(self, id: str, what: str) -> Figure:
        return Figure(id, what, self.tried, self.broken, round(self.worst, 3), self.example)


# --- R1: malformed outputs

PIECES = (
    "<tool_call>", "</tool_call>", "{", "}", "[" * 1_000, '{"name":', '"arguments":', "NaN", "1e999", "\ud800", "\x00",
    '{"a":1,"a":2}', "null", "true", "<|im_end|>", "```json", "\\u0000", "9" * 5_000, "张三", '"', ",", ":", "\n",
)  # fmt: skip


def malformed(divisor: int) -> Figure:
    """Mutated oracle turns through parser, registry and reward: nothing is raised and nothing takes a second."""
    rng, tally = random.Random(1), Tally()
    base = [(row, row.open()) for row in rows("train", 60, 9)]
    for number in range(20_000 // divisor):
        row, fresh = base[number % len(base)]
        text = oracle_turn(row.task, fresh)
        for _ in range(rng.randrange(1, 5)):
            text = _mutated(rng, text)
        episode, started = row.open(), time.perf_counter()
        try:
            results = episode.play(text)
            if not episode.done:
                episode.play("")
            trajectory = episode.trajectory()
            score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
            fine = score is None or 0.0 <= score.total <= 1.0
            fine = fine and (results is None or all(isinstance(result, str) for result in results))
        except Exception as error:
            fine, text = False, f"{type(error).__name__}: {text}"
        seconds = time.perf_counter() - started
        tally.note(fine and seconds < 1.0, ascii(text), seconds)
    return tally.figure("R1", "malformed model outputs: none raises, none takes a second")


def _mutated(rng: random.Random, text: str) -> str:
    at, to = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + rng.choice(PIECES) + text[at:]
    if kind == 1:
        return text[:at] + text[to:]
    if kind == 2:
        return text[:to] + text[at:]
    return text[:at] + "".join(rng.sample(text[at:to], to - at)) + text[to:]


# --- R7: hung tools

HANGING = """\
name: hang_or_not
description: Hangs where it is told to.
timeout: 500
idempotent: true
blocking: true
input_schema:
  type: object
  additionalProperties: false
  properties: {hang: {type: boolean, default: false, description: Whether to.}}
output_schema: {type: object}
"""


def hang_or_not(world: object, hang: bool) -> dict[str, Any]:
    while hang:
        time.sleep(60)
    return {}


def hung(divisor: int) -> Figure:
    """Hung calls among healthy ones, from eight threads: all end in time, and no process or thread is left."""
    import psutil  # type: ignore[import-untyped]

    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hang_or_not.yaml"
        path.write_text(HANGING, "utf-8")
        bound = Registry([Tool(ToolContract.load(path), hang_or_not)]).bind(None)
    before, threads = len(psutil.Process().children(recursive=True)), threading.active_count()

    def call(number: int) -> tuple[bool, float]:
        hang, started = number % 2 == 0, time.perf_counter()
        result = bound.tool_call("hang_or_not", hang=hang)
        seconds = time.perf_counter() - started
        right = result.code is (ErrorCode.TIMEOUT if hang else None)
        return right and seconds < 0.5 + 0.5, seconds

    with ThreadPoolExecutor(8) as pool:
        for right, seconds in pool.map(call, range(400 // divisor)):
            tally.note(right, f"a call took {seconds:.2f} s", seconds)
    left = len(psutil.Process().children(recursive=True)) - before
    tally.note(left == 0, f"{left} processes left")
    tally.note(threading.active_count() == threads, f"{threading.active_count() - threads} threads left")
    return tally.figure("R7", "hung calls (half of them) end within timeout + 0.5 s, nothing is left running")


# --- R8: the circuit breaker


def breaker(divisor: int) -> Figure:
    """Random steps against a model of the breaker, and 64 threads at its half-open door."""
    rng, tally = random.Random(2), Tally()
    rule = Breaker(3, 10.0)
    clock = VirtualClock()
    tested, failures, opened = CircuitBreaker(rule, clock), 0, None
    for step in range(50_000 // divisor):
        if rng.random() < 0.3:
            clock.sleep(rng.choice((0.5, 4.0, 11.0)))
        expected = opened is None or clock.now() >= opened + rule.reset_s
        probing = opened is not None and expected
        allowed = tested.allows()
        tally.note(allowed is expected, f"step {step}: allowed {allowed}, expected {expected}")
        if not allowed:
            continue
        if probing:
            tally.note(tested.state is BreakerState.HALF_OPEN and not tested.allows(), f"step {step}: two probes")
        success = rng.random() < 0.5
        tested.record(success)
        failures = 0 if success else failures + 1
        if success:
            opened = None
        elif probing or failures >= rule.failures:
            opened, failures = clock.now(), 0
    for _ in range(200 // divisor):
        door = CircuitBreaker(rule, clock)
        for _ in range(rule.failures):
            door.allows()
            door.record(False)
        clock.sleep(rule.reset_s + 1)
        with ThreadPoolExecutor(64) as pool:
            probes = sum(pool.map(lambda _: door.allows(), range(64)))  # noqa: B023 - used within the iteration
        tally.note(probes == 1, f"{probes} probes at once")
    return tally.figure("R8", "breaker: never lets a call through while open, one probe under 64 threads")


# --- R13: injection


def injection(divisor: int) -> Figure:
    """Hostile texts in every free text of every tool: the world stays, and nothing but exact matches is found."""
    rng, tally = random.Random(3), Tally()
    for name in DOMAINS:
        where = domain(name)
        world: Any = where.open_world(where.EXAMPLE, NOW, "bench")
        before = fingerprint(world)
        bound = where.registry().bind(world)
        for tool in bound.names:
            cases = list(injected(bound.contract(tool)))
            for number in range(1_000 // divisor if cases else 0):
                arguments = dict(cases[number % len(cases)].arguments)
                for key, value in arguments.items():
                    if isinstance(value, str) and value in INJECTIONS:
                        arguments[key] = (value + rng.choice(("", " ", "%", "'", "张")) * rng.randrange(3))[:64]
                result = bound.call(ToolCall(tool, arguments)).result
                fine = result.code not in (ErrorCode.INTERNAL_ERROR, ErrorCode.OUTPUT_INVALID)
                if result.ok and tool == "mcp_employee_search":
                    wanted = alias_key(str(arguments["name"]))
                    found = [
                        alias_key(match[field]) for match in result.data["matches"] for field in ("name", "name_en")
                    ]
                    fine = fine and (not found or wanted in found)
                tally.note(fine, f"{tool} {arguments}: {result.message}")
        tally.note(fingerprint(world) == before, f"the world of {name} changed")
    return tally.figure("R13", "hostile arguments: world unchanged, no row beyond the exact match")


# --- R15: YAML

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)
HOSTILE_YAML = (
    "!!python/object/apply:os.system ['true']", "!!python/name:os.system", "a: !!python/tuple [1]", "a: 1\na: 2",
    "a: {b: 1, b: 2}", BOMB, "a: &x 1\nb: *x", "<<: {a: 1}", "a: !!binary aGk=", "? [1]\n: 2", "a: !x 1", "\tb: 1",
)  # fmt: skip


def yaml_loader(divisor: int) -> Figure:
    """Tags, duplicate keys, aliases and a bomb: each refused, at once and without memory."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hostile.yaml"
        for text in HOSTILE_YAML:
            path.write_text(text, "utf-8")
            memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
            try:
                yaml_strict.load(path)
                fine = False
            except yaml_strict.YamlError:
                fine = True
            seconds = time.perf_counter() - started
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory  # KiB
            tally.note(fine and seconds < 1.0 and grown < 100_000, f"{text[:60]!r}, {grown} KiB", seconds)
    return tally.figure("R15", "hostile YAML refused in under a second and 100 MB")


# --- R17: personal data in logs, metrics and spans

EPISODES = 500
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
WORD = r"[A-Za-z0-9_.+@-]+"


def canaries(row: Row) -> set[str]:
    """Every name, id and address that an episode of the row may touch."""
    world: Any = domain("hr").open_world(row.task.world, row.task.now, ROW_IDS)
    people = world.company.people
    found = {person.email for person in people} | set(world.ids)
    return found | {text for person in people for text in person.name.spellings}


def leaked(sought: set[str], text: str) -> set[str]:
    """Those that stand in the text: as a word where they are one, for a number may be part of a time or a hash."""
    phrases = {canary for canary in sought if not re.fullmatch(WORD, canary)}
    return (sought & set(re.findall(WORD, text))) | {canary for canary in phrases if canary in text}


def watched(played: Callable[[], object], data: bool) -> str:
    """All that logs at every level, metrics and spans wrote while something was played."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from prometheus_client import CollectorRegistry, generate_latest

    exporter, provider, home, text = InMemorySpanExporter(), TracerProvider(), CollectorRegistry(), io.StringIO()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    hr = domain("hr").registry()
    ours, root = logging.StreamHandler(text), logging.getLogger()
    level = root.level
    stops = [trace_episodes(provider.get_tracer("bench")), observe(Metrics(map(hr.contract, hr.names), home))]
    stops += [observe(JsonLog(data=data, stream=text, level=each)) for each in LEVELS]
    root.addHandler(ours)
    root.setLevel(logging.DEBUG)
    try:
        played()
    finally:
        root.removeHandler(ours)
        root.setLevel(level)
        for stop in stops:
            stop()
    return "".join(
        [text.getvalue(), generate_latest(home).decode(), *(span.to_json() for span in exporter.get_finished_spans())]
    )


def personal_data(divisor: int) -> Figure:
    """Episodes of the perfect and of a random player, with faults, with data asked for and without."""
    tally = Tally()
    chosen = list(rows("eval", max(4, EPISODES // divisor), 17))
    sought = set.union(*map(canaries, chosen))
    plan = FaultPlan.load(Path(__file__).parents[1] / "configs/faults.yaml")
    for player in (Oracle(), RandomPlayer(17)):
        for data in (False, True):
            written = watched(lambda player=player: [play(row, player, faults=plan) for row in chosen], data)  # type: ignore[misc]
            found = leaked(sought, written)
            for canary in sorted(sought):
                tally.note(canary not in found, f"{player.name}, data {data}: {canary}")
    return tally.figure("R17", "names, ids, addresses sought in logs, metrics and spans of evaluations")


# --- R19: the tool surface


def surface(divisor: int) -> Figure:
    """What can be called is what is declared: nothing else that a domain's code has a name for."""
    tally = Tally()
    for name in DOMAINS:
        where = domain(name)
        world: Any = where.open_world(where.EXAMPLE, NOW, "bench")
        bound = where.registry().bind(world)
        shown = {tool["function"]["name"] for tool in bound.catalogue()}
        tally.note(shown == set(bound.names), f"{name}: {shown}")
        names = {*dir(world), *dir(where), *dir(bound), *dir(builtins)}
        for each in sorted(names - shown):
            result = bound.call(ToolCall(each, {})).result
            tally.note(result.code is ErrorCode.TOOL_NOT_FOUND, f"{each}: {result.code}")
    return tally.figure("R19", "only declared tools can be called")


# --- R20: leakage of the reference


def leakage(divisor: int) -> Figure:
    """The reference stands in no text that the model sees before the tool that returns it."""
    tally = Tally()
    for split in ("train", "eval"):
        for row in rows(split, 3_000 // divisor, 8, ALL_SHARES["hr"]):
            given = str(row.task.subject) in row.task.world.get("fixed_ids", {})
            if given or row.reference_output in OUTCOMES:
                continue
            episode = row.open()
            wanted = episode.reference_output
            values = list(json.loads(wanted).values()) if wanted.startswith("{") else [wanted]
            seen = "\n".join(message["content"] for message in episode.messages) + json.dumps(episode.tools)
            tally.note(not any(contains(seen, value) for value in values), row.input)
    return tally.figure("R20", "reference absent from prompt, tools and question")


# --- R26: contracts under fuzz


def contracts(divisor: int) -> Figure:
    """Valid inputs accepted, broken ones refused with a code, outputs kept to, verdicts equal to jsonschema's."""
    from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

    rng, tally = random.Random(4), Tally()
    for name in DOMAINS:
        where = domain(name)
        bound = where.registry().bind(where.open_world(where.EXAMPLE, NOW, "bench"))
        for tool in bound.names:
            contract = bound.contract(tool)
            oracle = Draft202012Validator(contract.input_schema, format_checker=FormatChecker())
            bad = list(refused(contract))
            for number in range(10_000 // divisor):
                good = valid(contract, rng)
                # A full call for some: the rest of the budget goes to the verdicts.
                if number % 20 == 0:
                    result = bound.call(ToolCall(tool, good)).result
                    fine = result.code not in (
                        ErrorCode.INVALID_ARGUMENTS,
                        ErrorCode.INTERNAL_ERROR,
                        ErrorCode.OUTPUT_INVALID,
                    )
                    tally.note(fine, f"{tool} {good}: {result.message}")
                tally.note(accepted(contract, good) and oracle.is_valid(good), f"{tool} refused {good}")
                wrong = {**good, **_only(bad[number % len(bad)].arguments, example(contract))}
                if missing := set(example(contract)) - set(bad[number % len(bad)].arguments):
                    wrong = {key: value for key, value in wrong.items() if key not in missing}
                tally.note(not accepted(contract, wrong) and not oracle.is_valid(wrong), f"{tool} accepted {wrong}")
    return tally.figure("R26", "contracts: valid accepted, invalid refused with a code, as jsonschema says")


def _only(arguments: Any, usual: Any) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key not in usual or usual[key] != value}


def accepted(contract: ToolContract, arguments: dict[str, Any]) -> bool:
    try:
        contract.check_arguments(arguments)
    except ToolError as error:
        if error.code is not ErrorCode.INVALID_ARGUMENTS:
            raise
        return False
    return True


def valid(contract: ToolContract, rng: random.Random) -> dict[str, Any]:
    """Random arguments that the input schema allows; optional ones now and then."""
    schema = contract.input_schema
    required = set(schema.get("required", ()))
    return {
        name: _random_value(rule, rng)
        for name, rule in schema.get("properties", {}).items()
        if name in required or rng.random() < 0.5
    }


def _random_value(rule: dict[str, Any], rng: random.Random) -> Any:
    if "enum" in rule:
        return rng.choice(rule["enum"])
    kind = rule.get("type")
    if kind == "integer":
        return rng.randint(rule.get("minimum", 0), min(rule.get("maximum", 1_000), 1_000_000))
    if kind == "number":
        return round(rng.uniform(rule.get("exclusiveMinimum", rule.get("minimum", 0)) + 0.01, 1_000), 2)
    if kind == "boolean":
        return rng.random() < 0.5
    if rule.get("format") == "date":
        return f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    if "pattern" in rule:
        return rng.choice(rule["examples"])
    length = rng.randint(rule.get("minLength", 1), min(rule.get("maxLength", 12), 24))
    return "".join(rng.choice("abc张三%_' 0123<>{}") for _ in range(length - 1)) + "x"


# --- R18: control tokens

CONTROL_PIECES = (
    "<",
    "|",
    ">",
    "im_end",
    "\\",
    '"',
    "\n",
    "张三",
    "user\n",
    " ",
    "<|im_",
    "end|>",
    "\\u003c",
    "{",
    "}",
)


def control_tokens(divisor: int) -> Figure:
    """Hostile results, names in results and queries: as many control tokens as with harmless text."""
    from training.models import load_chat

    rng, tally = random.Random(6), Tally()
    chat = load_chat("models/tiny")
    added = chat.tokenizer.added_tokens_decoder
    special = {id for id, token in added.items() if len(token.content) > 1}
    controls = [added[id].content for id in sorted(special)]

    def prompt(query: str) -> list[int]:
        return chat.prompt_ids([{"role": "system", "content": "s"}, {"role": "user", "content": query}], [])

    def result(data: Any) -> list[int]:
        return chat.results_ids([ToolResult.success(data).text()])

    ways: dict[str, Callable[[str], list[int]]] = {
        "query": prompt,
        "result": result,
        "name in a result": lambda text: result({"matches": [{"name": text, text: "x"}]}),
    }
    for name, tokens in ways.items():
        wanted = [id for id in tokens("hi") if id in special]
        for _ in range(500 // divisor):
            text = "".join(rng.choice((*controls, *CONTROL_PIECES)) for _ in range(rng.randint(1, 12)))
            tally.note([id for id in tokens(text) if id in special] == wanted, f"{name}: {text}")
    return tally.figure("R18", "control tokens in queries, results and names: none becomes one")


# --- R21: MCP over HTTP


def mcp_over_http(divisor: int) -> Figure:
    """Who may reach a served domain: other hosts, origins, addresses, sizes and tokens are refused, others served."""
    import httpx2

    tally = Tally()
    for environment, words in OPEN_WITHOUT_CARE:
        done = subprocess.run(
            [sys.executable, "-m", "scripts.serve_mcp", "--http", "--host", "0.0.0.0", *words],
            env={**os.environ, "STEPCREDIT_MCP_TOKEN": environment}, capture_output=True, timeout=60,
        )  # fmt: skip
        tally.note(done.returncode == 2, f"served on all addresses: {words}")
    for token in ("", "secret"):
        with started(DOMAIN_SERVER, {"STEPCREDIT_MCP_TOKEN": token}) as port:
            url, own = f"http://127.0.0.1:{port}/mcp", {"authorization": f"Bearer {token}"} if token else {}
            for _ in range(max(1, 20 // divisor)):
                for status, headers, body in FOREIGN:
                    answer = httpx2.post(url, content=body, headers={**JSON_HEADERS, **own, **headers})
                    tally.note(answer.status_code == status, f"{headers or len(body)} -> {answer.status_code}")
                answer = httpx2.post(url, json=HELLO, headers={**JSON_HEADERS, **own})
                tally.note(answer.status_code == 200, f"an honest client -> {answer.status_code}")
                if token:
                    answer = httpx2.post(url, json=HELLO, headers={**JSON_HEADERS, "authorization": "Bearer wrong"})
                    tally.note(answer.status_code == 401, f"a wrong token -> {answer.status_code}")
    return tally.figure("R21", "MCP over HTTP: strangers refused, honest clients served")


DOMAIN_SERVER = (sys.executable, "-m", "scripts.serve_mcp", "--domain", "hr")
OPEN_WITHOUT_CARE: tuple[tuple[str, list[str]], ...] = (
    ("", []),
    ("secret", []),
    ("", ["--allow_host", "tools.example"]),
)
JSON_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}  # fmt: skip
FOREIGN: tuple[tuple[int, dict[str, str], bytes], ...] = (
    (421, {"host": "evil.example"}, b"{}"),
    (421, {"host": "127.0.0.1.evil.example"}, b"{}"),
    (403, {"origin": "https://evil.example"}, b"{}"),
    (403, {"origin": "null"}, b"{}"),
    (413, {}, b" " * (4 * 1024 * 1024 + 1)),
)


MEASURES: dict[str, Measure] = {
    "R1": malformed,
    "R7": hung,
    "R8": breaker,
    "R13": injection,
    "R15": yaml_loader,
    "R17": personal_data,
    "R18": control_tokens,
    "R19": surface,
    "R20": leakage,
    "R21": mcp_over_http,
    "R26": contracts,
}


def publish(figures: Sequence[Figure], options: argparse.Namespace, words: Sequence[str]) -> None:
    """reliability.json with what is needed to repeat it."""
    record = {
        "command": "python -m scripts.bench_reliability " + " ".join(map(str, words)),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "versions": {"python": platform.python_version()},
        "written": time.strftime("%Y-%m-%d"),
        "seed": "fixed in the script, one per figure",
        "mode": "quick" if options.quick else "full",
        "figures": [asdict(figure) for figure in figures],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "reliability.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
