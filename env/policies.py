"""What stands between a call and its tool: cache, rate limit, retries, circuit breaker, timeout. Each wraps a callable.

A contract says which of them a tool has. Their state belongs to one episode and their time to its clock, so that one
rollout can neither speed up nor break another's calls, and nothing here ever really waits in a simulation.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cachetools import TTLCache
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from env.clock import Clock
from env.types import JSON, ErrorCode, ToolError

Call = Callable[[dict[str, JSON]], JSON]  # arguments -> data; raises ToolError

CACHED_RESULTS = 1_000  # per tool and episode
FIRST_WAIT_S = 0.1  # before the second attempt; the third waits backoff_factor times as long, and so on


@dataclass(frozen=True, slots=True)
class Retry:
    """max_attempts: the first one included. codes: what is tried again; others are final at once."""

    max_attempts: int
    backoff_factor: float
    codes: frozenset[ErrorCode]


@dataclass(frozen=True, slots=True)
class Breaker:
    """Opens after `failures` failed attempts in a row, and lets one probe through every `reset_s` seconds."""

    failures: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `calls` in any `per_s` seconds."""

    calls: int
    per_s: float


@dataclass(frozen=True, slots=True)
class Policies:
    """What one contract declares; None or 0 where it does not."""

    timeout_ms: int
    latency_ms: int = 0
    retry: Retry | None = None
    breaker: Breaker | None = None
    rate_limit: RateLimit | None = None
    cache_ttl_s: float = 0.0

    @property
    def none(self) -> bool:
        """Whether a call may go straight to its tool."""
        return not (self.latency_ms or self.retry or self.breaker or self.rate_limit or self.cache_ttl_s)


@dataclass(slots=True)
class Report:
    """What happened on the way of one call."""

    attempts: int = 0
    cached: bool = False
    waited_s: float = 0.0
    stages: list[str] = field(default_factory=list)
    error: Exception | None = None  # a bug of ours


def guarded_call(call: Call, policies: Policies, clock: Clock, report: Report, state: State) -> Call:
    """The whole way in one line, outermost first: cache, rate limit, retry, breaker, timeout, tool."""
    attempt = broken_off(timed(call, policies, clock, report), policies.breaker, state.breaker, report)
    return cached(limited(retried(attempt, policies.retry, clock, report), state.limit, report), state.cache, report)


class State:
    """What a tool's policies remember during one episode."""

    def __init__(self, policies: Policies, clock: Clock):
        self.cache: TTLCache[str, JSON] | None = None
        if policies.cache_ttl_s:
            self.cache = TTLCache(CACHED_RESULTS, policies.cache_ttl_s, timer=clock.now)
        self.breaker = CircuitBreaker(policies.breaker, clock) if policies.breaker else None
        self.limit = Window(policies.rate_limit, clock) if policies.rate_limit else None


def timed(call: Call, policies: Policies, clock: Clock, report: Report) -> Call:
    """Let the simulated latency pass, at most the timeout. A tool that really blocks cannot be stopped from here."""
    latency, timeout = policies.latency_ms / 1000, policies.timeout_ms / 1000

    def run(arguments: dict[str, JSON]) -> JSON:
        report.attempts += 1
        clock.sleep(min(latency, timeout))
        if latency > timeout:
            limit = policies.timeout_ms
            raise ToolError(ErrorCode.TIMEOUT, f"no answer within {limit} ms", zh=f"{limit}毫秒内没有应答")
        return call(arguments)

    return run


def broken_off(call: Call, rule: Breaker | None, breaker: CircuitBreaker | None, report: Report) -> Call:
    """Refuse attempts while the breaker is open; tell it how the others went."""
    if rule is None or breaker is None:
        return call

    def run(arguments: dict[str, JSON]) -> JSON:
        if not breaker.allows():
            report.stages.append("circuit open")
            left = f"{breaker.left_s:.0f}"
            detail = f"it failed {rule.failures} times in a row; next attempt in {left} s at the earliest"
            zh = f"服务连续失败{rule.failures}次，暂不可用，请至少{left}秒后再试"
            raise ToolError(ErrorCode.CIRCUIT_OPEN, detail, zh=zh)
        try:
            data = call(arguments)
        except ToolError as error:
            breaker.record(not error.code.infrastructure)
            raise
        except BaseException:
            breaker.record(False)
            raise
        breaker.record(True)
        return data

    return run


def retried(call: Call, rule: Retry | None, clock: Clock, report: Report) -> Call:
    """Try again what may pass: entered after a first failure only, for most calls have none."""
    if rule is None:
        return call

    def may_pass(error: BaseException) -> bool:
        return isinstance(error, ToolError) and error.code in rule.codes

    def wait(state: RetryCallState) -> float:
        return FIRST_WAIT_S * rule.backoff_factor ** (state.attempt_number - 1)

    def sleep(seconds: float) -> None:
        report.waited_s += seconds
        report.stages.append(f"retry after {seconds:g} s")
        clock.sleep(seconds)

    def run(arguments: dict[str, JSON]) -> JSON:
        try:
            return call(arguments)
        except ToolError as error:
            if rule.max_attempts < 2 or not may_pass(error):
                raise
        sleep(FIRST_WAIT_S)
        again = Retrying(
            stop=stop_after_attempt(rule.max_attempts - 1),
            wait=lambda state: wait(state) * rule.backoff_factor,
            retry=retry_if_exception(may_pass),
            sleep=sleep,
            reraise=True,
        )
        data: JSON = again(call, arguments)
        return data

    return run


def limited(call: Call, window: Window | None, report: Report) -> Call:
    """Refuse calls beyond the limit; a refused call does not count."""
    if window is None:
        return call

    def run(arguments: dict[str, JSON]) -> JSON:
        left = window.take()
        if left > 0:
            report.stages.append("rate limited")
            calls, per = window.rule.calls, f"{window.rule.per_s:g}"
            detail, zh = f"{calls} calls per {per} s; wait {left:.0f} s", f"每{per}秒最多{calls}次，请等{left:.0f}秒"
            raise ToolError(ErrorCode.RATE_LIMITED, detail, zh=zh)
        return call(arguments)

    return run


def cached(call: Call, cache: TTLCache[str, JSON] | None, report: Report) -> Call:
    """Answer equal arguments with the result that is still fresh. Errors are never kept."""
    if cache is None:
        return call

    def run(arguments: dict[str, JSON]) -> JSON:
        key = json.dumps(arguments, sort_keys=True)
        if key in cache:
            report.cached = True
            report.stages.append("cached")
            return cache[key]
        data = call(arguments)
        cache[key] = data
        return data

    return run


class BreakerState(StrEnum):
    CLOSED = "closed"  # attempts pass
    OPEN = "open"  # none does
    HALF_OPEN = "half_open"  # one probe is under way, whose end decides


class CircuitBreaker:
    """Counts attempts, not calls after retries. Safe to ask from several threads: one of them gets the probe."""

    def __init__(self, rule: Breaker, clock: Clock):
        self.rule = rule
        self._clock = clock
        self._lock = threading.Lock()
        self._state = BreakerState.CLOSED
        self._failures = 0  # in a row
        self._opened_at = 0.0

    @property
    def state(self) -> BreakerState:
        return self._state

    @property
    def left_s(self) -> float:
        """Seconds until a probe is let through."""
        return max(0.0, self._opened_at + self.rule.reset_s - self._clock.now())

    def allows(self) -> bool:
        """Whether an attempt may be made now; who is told yes must `record` how it went."""
        with self._lock:
            if self._state is BreakerState.OPEN and self.left_s <= 0:
                self._state = BreakerState.HALF_OPEN
                return True
            return self._state is BreakerState.CLOSED

    def record(self, success: bool) -> None:
        """How an attempt went that `allows` let through."""
        with self._lock:
            if self._state is BreakerState.OPEN:
                return  # an attempt from before it opened: what counts now is the probe
            if success:
                self._state, self._failures = BreakerState.CLOSED, 0
                return
            self._failures += 1
            if self._state is BreakerState.HALF_OPEN or self._failures >= self.rule.failures:
                self._state, self._failures, self._opened_at = BreakerState.OPEN, 0, self._clock.now()


class Window:
    """The times of the last calls."""

    def __init__(self, rule: RateLimit, clock: Clock):
        self.rule = rule
        self._clock = clock
        self._taken: deque[float] = deque()

    def take(self) -> float:
        """0 where a call may be made now, and it is counted; else the seconds until one may."""
        now = self._clock.now()
        while self._taken and self._taken[0] <= now - self.rule.per_s:
            self._taken.popleft()
        if len(self._taken) < self.rule.calls:
            self._taken.append(now)
            return 0.0
        return self._taken[0] + self.rule.per_s - now


def from_contract(fields: Mapping[str, JSON], timeout_ms: int, latency_ms: int) -> Policies:
    """The policies of a contract's keys retry_strategy, circuit_breaker, rate_limit and cache, which it has checked."""
    retry, breaker = fields.get("retry_strategy"), fields.get("circuit_breaker")
    limit, cache = fields.get("rate_limit"), fields.get("cache")
    return Policies(
        timeout_ms,
        latency_ms,
        _retry(retry) if retry else None,
        Breaker(breaker["failures"], float(breaker["reset"])) if breaker else None,
        RateLimit(limit["calls"], float(limit["per"])) if limit else None,
        float(cache["ttl"]) if cache else 0.0,
    )


def _retry(value: Mapping[str, JSON]) -> Retry:
    codes = value.get("retry_on", [code for code in ErrorCode if code.retryable])
    return Retry(value["max_attempts"], float(value.get("backoff_factor", 2.0)), frozenset(map(ErrorCode, codes)))
