"""Cache, rate limit, retry, breaker and timeout, each by what it promises, on a clock that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from env.clock import VirtualClock
from env.contract import ContractError, ToolContract
from env.policies import (
    FIRST_WAIT_S,
    Breaker,
    BreakerState,
    CircuitBreaker,
    Policies,
    RateLimit,
    Report,
    Retry,
    State,
    guarded_call,
)
from env.registry import CallEvent, Registry, Tool
from env.types import JSON, ErrorCode, ToolCall, ToolError

TRANSIENT = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT})


class Flaky:
    """Fails as told, in order, and then works. Counts how often it was reached."""

    def __init__(self, *codes: ErrorCode | None):
        self.codes = list(codes)
        self.reached = 0

    def __call__(self, arguments: dict[str, JSON]) -> JSON:
        self.reached += 1
        code = self.codes.pop(0) if self.codes else None
        if code is not None:
            raise ToolError(code, "told to")
        return {"reached": self.reached, **arguments}


class Episode:
    """One tool with its policies and its clock."""

    def __init__(self, tool: Callable[[dict[str, JSON]], JSON], **policies: Any):
        self.policies = Policies(**{"timeout_ms": 1000, **policies})
        self.clock = VirtualClock()
        self.state = State(self.policies, self.clock)
        self.tool = tool
        self.report = Report()

    def call(self, **arguments: JSON) -> Any:
        self.report = Report()
        return guarded_call(self.tool, self.policies, self.clock, self.report, self.state)(arguments)

    def code(self, **arguments: JSON) -> ErrorCode | None:
        try:
            self.call(**arguments)
        except ToolError as error:
            return error.code
        return None


def test_latency_passes_on_the_clock_and_beyond_the_timeout_there_is_no_result() -> None:
    quick = Episode(Flaky(), latency_ms=400)
    assert quick.call() == {"reached": 1} and quick.clock.now() == pytest.approx(0.4)
    tool = Flaky()
    slow = Episode(tool, latency_ms=4800)
    assert slow.code() is ErrorCode.TIMEOUT
    assert slow.clock.now() == pytest.approx(1.0) and tool.reached == 0


def test_what_may_pass_is_tried_again_with_growing_waits() -> None:
    tool = Flaky(ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.UNAVAILABLE)
    episode = Episode(tool, retry=Retry(4, 1.5, TRANSIENT))
    assert episode.call(a=1) == {"reached": 4, "a": 1}
    assert episode.report.attempts == 4
    assert episode.clock.now() == pytest.approx(FIRST_WAIT_S * (1 + 1.5 + 1.5**2)) == episode.report.waited_s


@pytest.mark.parametrize(
    ("codes", "attempts", "final"),
    [
        ((ErrorCode.NOT_FOUND,), 1, ErrorCode.NOT_FOUND),
        ((ErrorCode.UNAVAILABLE, ErrorCode.NOT_FOUND), 2, ErrorCode.NOT_FOUND),
        ((ErrorCode.UNAVAILABLE,) * 9, 3, ErrorCode.UNAVAILABLE),
    ],
)
def test_what_will_not_pass_is_final(codes: tuple[ErrorCode, ...], attempts: int, final: ErrorCode) -> None:
    tool = Flaky(*codes)
    assert Episode(tool, retry=Retry(3, 2.0, TRANSIENT)).code() is final
    assert tool.reached == attempts


def test_one_attempt_means_none_again() -> None:
    tool = Flaky(ErrorCode.UNAVAILABLE)
    assert Episode(tool, retry=Retry(1, 2.0, TRANSIENT)).code() is ErrorCode.UNAVAILABLE
    assert tool.reached == 1


def test_a_fresh_result_is_not_asked_for_again_and_an_error_is() -> None:
    tool = Flaky(ErrorCode.UNAVAILABLE)
    episode = Episode(tool, cache_ttl_s=300.0)
    assert episode.code(a=1) is ErrorCode.UNAVAILABLE
    first = episode.call(a=1, b=2)
    assert episode.call(b=2, a=1) == first and episode.report.cached and episode.report.attempts == 0
    assert episode.call(a=2) != first and tool.reached == 3
    episode.clock.sleep(301)
    assert episode.call(a=1, b=2)["reached"] == 4


def test_calls_beyond_the_limit_are_refused_until_the_window_has_moved() -> None:
    tool = Flaky()
    episode = Episode(tool, rate_limit=RateLimit(2, 60.0))
    assert [episode.code() for _ in range(4)] == [None, None, ErrorCode.RATE_LIMITED, ErrorCode.RATE_LIMITED]
    episode.clock.sleep(60)
    assert episode.code() is None and tool.reached == 3


def test_an_open_breaker_lets_nothing_through_but_one_probe_per_reset() -> None:
    tool = Flaky(*[ErrorCode.UNAVAILABLE] * 4)
    episode = Episode(tool, breaker=Breaker(3, 600.0))
    assert [episode.code() for _ in range(5)] == [ErrorCode.UNAVAILABLE] * 3 + [ErrorCode.CIRCUIT_OPEN] * 2
    assert tool.reached == 3
    episode.clock.sleep(600)
    assert episode.code() is ErrorCode.UNAVAILABLE  # the probe, which fails
    assert episode.code() is ErrorCode.CIRCUIT_OPEN and tool.reached == 4
    episode.clock.sleep(600)
    assert [episode.code() for _ in range(3)] == [None] * 3


def test_a_mistake_of_the_model_does_not_open_the_breaker() -> None:
    episode = Episode(Flaky(*[ErrorCode.NOT_FOUND] * 9), breaker=Breaker(2, 60.0))
    assert [episode.code() for _ in range(9)] == [ErrorCode.NOT_FOUND] * 9


def test_the_breaker_counts_attempts_not_calls() -> None:
    tool = Flaky(*[ErrorCode.UNAVAILABLE] * 9)
    episode = Episode(tool, breaker=Breaker(3, 60.0), retry=Retry(5, 2.0, TRANSIENT))
    assert episode.code() is ErrorCode.CIRCUIT_OPEN
    assert tool.reached == 3


def test_a_cached_result_costs_neither_the_limit_nor_the_breaker() -> None:
    tool = Flaky()
    episode = Episode(tool, cache_ttl_s=60.0, rate_limit=RateLimit(1, 60.0), breaker=Breaker(1, 60.0))
    assert [episode.code(a=1) for _ in range(5)] == [None] * 5
    assert episode.code(a=2) is ErrorCode.RATE_LIMITED


def test_of_many_threads_exactly_one_gets_the_probe() -> None:
    clock = VirtualClock()
    breaker = CircuitBreaker(Breaker(1, 10.0), clock)
    assert breaker.allows()
    breaker.record(False)
    clock.sleep(10)
    barrier, allowed = threading.Barrier(64), list[bool]()

    def ask() -> None:
        barrier.wait()
        allowed.append(breaker.allows())

    threads = [threading.Thread(target=ask) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed.count(True) == 1 and len(allowed) == 64


class BreakerMachine(RuleBasedStateMachine):
    """Against a model that is told only what it should do."""

    @initialize(failures=st.integers(1, 4), reset=st.sampled_from([1.0, 30.0]))
    def start(self, failures: int, reset: float) -> None:
        self.clock = VirtualClock()
        self.breaker = CircuitBreaker(Breaker(failures, reset), self.clock)
        self.failures, self.reset = failures, reset
        self.in_a_row, self.open_until = 0, None
        self.probing = False

    @rule(success=st.booleans())
    def attempt(self, success: bool) -> None:
        wanted = self.open_until is None or (not self.probing and self.clock.now() >= self.open_until)
        assert self.breaker.allows() == wanted
        if not wanted:
            return
        self.in_a_row = 0 if success else self.in_a_row + 1
        probe = self.open_until is not None
        self.breaker.record(success)
        if success:
            self.open_until = None
        elif probe or self.in_a_row >= self.failures:
            self.open_until, self.in_a_row = self.clock.now() + self.reset, 0

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 29.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    @invariant()
    def is_open_exactly_when_it_should_be(self) -> None:
        if hasattr(self, "breaker"):
            assert (self.breaker.state is BreakerState.CLOSED) == (self.open_until is None)


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


CONTRACT = """
name: flaky
description: Answers, or does not.
timeout: 1000
{more}
input_schema:
  type: object
  additionalProperties: false
  required: [key]
  properties:
    key: {{type: string, description: Any text.}}
output_schema: {{type: object}}
"""


def contract(folder: Path, more: str) -> ToolContract:
    path = folder / "flaky.yaml"
    path.write_text(CONTRACT.format(more=more), "utf-8")
    return ToolContract.load(path)


FULL = """idempotent: true
latency_ms: 200
retry_strategy: {max_attempts: 2, backoff_factor: 1.5, retry_on: [unavailable, timeout]}
circuit_breaker: {failures: 3, reset: 600}
rate_limit: {calls: 100, per: 60}
cache: {ttl: 300}"""


def test_a_contract_declares_its_policies(tmp_path: Path) -> None:
    assert contract(tmp_path, FULL).policies == Policies(
        1000, 200, Retry(2, 1.5, TRANSIENT), Breaker(3, 600.0), RateLimit(100, 60.0), 300.0
    )
    assert contract(tmp_path, "").policies.none


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("idempotent: true\nretry_strategy: {max_attempts: 0}", "retry_strategy: expected {max_attempts"),
        ("idempotent: true\nretry_strategy: {attempts: 2}", "retry_strategy: expected {max_attempts"),
        ("idempotent: true\nretry_strategy: {max_attempts: 2, retry_on: [not_found]}", "retry_strategy: expected"),
        ("retry_strategy: {max_attempts: 2}", "retry_strategy: expected idempotent: true beside it"),
        ("cache: {ttl: 5}", "cache: expected idempotent: true beside it"),
        ("idempotent: true\ncache: {ttl: 0}", "cache: expected {ttl: seconds}"),
        ("circuit_breaker: {failures: 3}", "circuit_breaker: expected {failures"),
        ("circuit_breaker: {failures: true, reset: 1}", "circuit_breaker: expected {failures"),
        ("rate_limit: {calls: 1.5, per: 1}", "rate_limit: expected {calls"),
        ("transport: {kind: ftp}", "transport: expected {kind: local}"),
        ("transport: {kind: mcp}", "transport: expected {kind: local}"),
        ("transport: {kind: http, method: get, url: http://x}", "transport: expected {kind: local}"),
        ("compensate: 'no name'", "compensate: expected the name"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_its_line(more: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"flaky\.yaml:\d+: ") as caught:
        contract(tmp_path, more)
    assert said in str(caught.value)


def test_a_call_goes_the_whole_way_and_its_event_says_so(tmp_path: Path) -> None:
    tool, events = Flaky(ErrorCode.UNAVAILABLE), list[CallEvent]()
    registry = Registry([Tool(contract(tmp_path, FULL), lambda world, **given: tool(given))], on_call=events.append)
    episode = registry.bind(object())
    for _ in range(2):
        assert episode.call(ToolCall("flaky", {"key": "a"})).result.ok
    assert [(event.attempts, event.cached) for event in events] == [(2, False), (0, True)]
    other = registry.bind(object())  # another episode knows nothing of it
    assert other.call(ToolCall("flaky", {"key": "a"})).result.data == {"reached": 3, "key": "a"}


def test_a_tool_elsewhere_is_reached_by_the_caller_of_its_kind(tmp_path: Path) -> None:
    made = contract(tmp_path, "transport: {kind: mcp, server: hr}")
    registry = Registry.load_tools_from_directory(tmp_path, "no.such.package")
    seen: list[tuple[str, dict[str, JSON]]] = []

    def caller(asked: ToolContract, arguments: dict[str, JSON]) -> JSON:
        seen.append((asked.transport.options["server"], arguments))
        return {"ok": True}

    assert registry.names == (made.name,)
    assert registry.bind(None, callers={"mcp": caller}).tool_call("flaky", key="a").data == {"ok": True}
    assert seen == [("hr", {"key": "a"})]
    assert registry.bind(None).tool_call("flaky", key="a").code is ErrorCode.UNAVAILABLE


def test_an_output_that_breaks_the_contract_is_a_failure_and_never_cached(tmp_path: Path) -> None:
    outputs: list[JSON] = ["no object", "no object", {"fine": [1]}]
    reached: list[JSON] = []

    def tool(world: object, **given: JSON) -> JSON:
        reached.append(given)
        return outputs.pop(0)

    more = "idempotent: true\ncircuit_breaker: {failures: 2, reset: 600}\ncache: {ttl: 3000}"
    registry = Registry([Tool(contract(tmp_path, more), tool)])
    clock = VirtualClock()
    episode = registry.bind(None, clock=clock)
    codes = [episode.tool_call("flaky", key="a").code for _ in range(3)]
    assert codes == [ErrorCode.OUTPUT_INVALID, ErrorCode.OUTPUT_INVALID, ErrorCode.CIRCUIT_OPEN]
    clock.sleep(600)
    first = episode.tool_call("flaky", key="a").data
    first["fine"].append("changed by whoever got it")
    assert episode.tool_call("flaky", key="a").data == {"fine": [1]} and len(reached) == 3
