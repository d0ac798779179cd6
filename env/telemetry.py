"""One event per call, three readers: log, metrics, spans. Silent unless somebody installs one; each works alone.

    remove = observe(Metrics(contracts))        # every registry of the process, until remove()

Arguments and results stay out of all of them. A log may be asked to hold them, and then texts, ids and secrets are
masked, but for the texts under keys that one names. Needs the extra: `pip install -e ".[ops]"`.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TextIO

from env.contract import ToolContract
from env.domains import domain, known
from env.episode import Episode, watch
from env.registry import NOT_REGISTERED, CallEvent, SpanIds, observe, places, surround
from env.types import JSON, StopReason

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily

__all__ = ["JsonLog", "Metrics", "Spans", "observe", "redacted", "serve_metrics", "trace_calls", "trace_episodes"]

NAMES = ("name", "name_en", "person", "manager", "user", "customer", "owner", "given_name", "family_name")
SECRETS = re.compile(r"token|secret|password|passwd|api_?key|authorization|cookie|credential", re.I)
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
LONG_DIGITS = re.compile(r"(?<!\d)(?!\d{4}-\d\d-\d\d(?!\d))\d{4,}(?!\d)")  # but for the year of a date
DATE = re.compile(r"\d{4}-\d\d-\d\d")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")  # a key that somebody has declared, most likely
QUOTED = re.compile(r"'[^']*(?:'|$)|\"[^\"]*(?:\"|$)")  # how messages show a value, which may be cut
MASK = "***"
# Of a turn, by how its episode ended there; any other turn made calls.
FINISH: Mapping[StopReason | None, str] = {StopReason.ANSWERED: "stop", StopReason.TOKEN_LIMIT: "length"}
ALERT_S = 3.0  # the alert on latency is about this


class JsonLog:
    """One JSON object per call and line, by structlog.

    data: also write arguments and output, without their texts (see `redacted`). shown: keys whose texts are wanted all
    the same, such as {"city"}, and "message" for that of an error; whoever names one vouches for what a model or a tool
    writes there. stream: standard error by default.
    """

    def __init__(
        self,
        *,
        data: bool = False,
        shown: Iterable[str] = (),
        stream: TextIO | None = None,
        level: int = logging.INFO,
    ):
        import structlog

        self._data = data
        self._shown = frozenset(shown)
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(stream or sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )

    def __call__(self, event: CallEvent) -> None:
        fields: dict[str, Any] = {
            "tool": event.tool,
            "status": event.status,
            "code": event.code.value if event.code else None,
            "duration_ms": round(event.duration_s * 1000, 3),
            "attempts": event.attempts,
            "cached": event.cached,
            "transport": event.transport,
            "output_schema_validated": event.output_valid,
            "trace_id": event.span.trace_id if event.span else None,
            "span_id": event.span.span_id if event.span else None,
            "parent_span_id": (event.span.parent_span_id or None) if event.span else None,
        }
        if self._data and event.outcome is not None:
            arguments, result = dict(event.outcome.arguments or {}), event.outcome.result
            known = personal([arguments, result.data])
            fields["arguments"] = redacted(arguments, self._shown, known)
            fields["output"] = redacted(result.data, self._shown, known)
            if "message" in self._shown:
                fields["message"] = QUOTED.sub(MASK, _text(result.message, known))
        if event.error is not None:  # a bug of ours: where it happened, and not what it was about
            fields["traceback"] = places(event.error)
        (self._log.info if event.status == "success" else self._log.warning)("tool_call", **fields)


class Metrics:
    """Prometheus metrics of calls, at 0 from the start, for a rate needs a sample from before the first call.

    contracts: of the tools to come; all others share a label, so that no model can make up time series. registry:
    prometheus_client's default one where it is None.
    """

    def __init__(self, contracts: Iterable[ToolContract], registry: CollectorRegistry | None = None):
        from prometheus_client import REGISTRY, Counter

        home = registry or REGISTRY
        calls = Counter("tool_call", "Calls by tool and status", ("tool", "status"), registry=home)
        valid = Counter(
            "tool_output_schema_valid", "Outputs by whether they keep to the contract", ("tool", "valid"), registry=home
        )
        limits = {contract.name: edges(contract) for contract in contracts} | {NOT_REGISTERED: (ALERT_S,)}
        self._calls = {(tool, status): calls.labels(tool, status) for tool in limits for status in ("success", "error")}
        self._valid = {(tool, each): valid.labels(tool, str(each).lower()) for tool in limits for each in (True, False)}
        self._durations = Durations(limits)
        home.register(self._durations)

    def __call__(self, event: CallEvent) -> None:
        tool = event.tool if event.tool in self._durations.edges else NOT_REGISTERED
        self._calls[tool, event.status].inc()
        self._durations.add(tool, event.duration_s)
        if event.output_valid is not None:
            self._valid[tool, event.output_valid].inc()


def edges(contract: ToolContract) -> tuple[float, ...]:
    """Bucket edges in seconds: 50, 100 and 200 % of the timeout, and what the alert on latency asks about."""
    return tuple(sorted({contract.timeout_ms * share / 1000 for share in (0.5, 1.0, 2.0)} | {ALERT_S}))


class Durations:
    """The histogram tool_duration_seconds with edges of its own for each tool, which prometheus_client's cannot have.

    edges: in seconds, by tool.
    """

    def __init__(self, edges: Mapping[str, tuple[float, ...]]):
        self.edges = edges
        self._lock = threading.Lock()
        self._counts = {tool: [0] * (len(own) + 1) for tool, own in edges.items()}  # the last: above every edge
        self._sums = dict.fromkeys(edges, 0.0)

    def add(self, tool: str, seconds: float) -> None:
        with self._lock:
            self._counts[tool][bisect_left(self.edges[tool], seconds)] += 1
            self._sums[tool] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """What a scrape sees."""
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily("tool_duration_seconds", "Duration of calls", labels=["tool"])
        with self._lock:
            for tool, own in self.edges.items():
                names = [*map(str, own), "+Inf"]
                family.add_metric(
                    [tool], list(zip(names, accumulate(self._counts[tool]), strict=True)), self._sums[tool]
                )
        yield family


def serve_metrics(port: int) -> Callable[[], None]:
    """Show the metrics of every known domain's tools at http://127.0.0.1:<port>/metrics; returns what stops it.

    Raises OSError where the port is taken, ValueError where it is none.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    if not 0 < port < 65_536:
        raise ValueError(f"metrics_port: expected 1 to 65535, got {port}")
    registries = [domain(name).registry() for name in known()]
    home = CollectorRegistry()
    metrics = Metrics([registry.contract(name) for registry in registries for name in registry.names], home)
    server, thread = start_http_server(port, addr="127.0.0.1", registry=home)
    remove = observe(metrics)

    def stop() -> None:
        remove()
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


class Spans:
    """An OpenTelemetry span around each call, under whatever span is current (an episode's turn, say).

    It is current while the call runs, so that what the tool does over MCP belongs to it. Attribute names are those of
    the GenAI semantic conventions; exceptions are not recorded, as their text may hold personal data. tracer: the
    global one where it is None, which exports to Jaeger or elsewhere as its provider was told.
    """

    def __init__(self, tracer: Tracer | None = None):
        from opentelemetry import trace

        self._tracer = tracer or trace.get_tracer("stepcredit")

    @contextmanager
    def around(self, tool: str) -> Iterator[SpanIds]:
        from opentelemetry import trace

        parent = trace.get_current_span().get_span_context()
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.type": "function"}
        span = self._tracer.start_span(f"execute_tool {tool}", attributes=attributes)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            own = span.get_span_context()
            above = f"{parent.span_id:016x}" if parent.is_valid else ""
            yield SpanIds(f"{own.trace_id:032x}", f"{own.span_id:016x}", above)

    def __call__(self, event: CallEvent) -> None:
        """Says on the current span, which is the call's, how it went."""
        from opentelemetry import trace

        span = trace.get_current_span()
        span.set_attributes(
            {
                "stepcredit.attempts": event.attempts,
                "stepcredit.cached": event.cached,
                "stepcredit.transport": event.transport,
                "stepcredit.duration_s": event.duration_s,
            }
        )
        if event.code is not None:
            span.set_attribute("error.type", event.code.value)
            span.set_status(trace.Status(trace.StatusCode.ERROR))


def trace_calls(tracer: Tracer | None = None) -> Callable[[], None]:
    """A span for every call of the process. Returns what stops it."""
    spans = Spans(tracer)
    stops = [surround(spans.around), observe(spans)]
    return lambda: _all(stops)


def _all(stops: Iterable[Callable[[], None]]) -> None:
    for stop in stops:
        stop()


def trace_episodes(tracer: Tracer | None = None) -> Callable[[], None]:
    """One trace per episode: episode, then a span per turn of the model with its calls inside. Returns what stops it.

    A turn lasts from the end of the one before it to the end of its calls, so that waiting for the model is in it.
    """
    from opentelemetry import trace

    used = tracer or trace.get_tracer("stepcredit")
    stops = [watch(lambda episode: _follow(episode, used)), trace_calls(used)]
    return lambda: _all(stops)


def export_traces(url: str) -> Callable[[], None]:
    """Send one trace per episode to an OTLP collector, such as Jaeger's at http://127.0.0.1:4318. Returns what stops it
    and sends what is left.

    What the collector does not take is lost, and nothing waits for it. Raises ValueError for what is no address.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", url):
        raise ValueError(f"otlp: expected http://host:port, got {url!r}")
    provider = TracerProvider(resource=Resource.create({"service.name": "stepcredit"}), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces", timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    stop = trace_episodes(provider.get_tracer("stepcredit"))
    return lambda: _all([stop, provider.shutdown])


def _follow(episode: Episode, tracer: Tracer) -> None:
    import time

    from opentelemetry import trace

    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "stepcredit"}
    root = tracer.start_span("invoke_agent stepcredit", attributes=agent)
    for name in ("row", "kind", "language"):
        if name in episode.meta:
            root.set_attribute(f"stepcredit.{name}", episode.meta[name])
    inside = trace.set_span_in_context(root)
    plain, cut, started = episode.play, episode.truncate, [time.time_ns()]

    def turn() -> Span:
        chat = {"gen_ai.operation.name": "chat"}
        return tracer.start_span("chat", context=inside, start_time=started[0], attributes=chat)

    def end(span: Span | None) -> None:
        if span is not None:
            span.set_attribute("gen_ai.response.finish_reasons", [FINISH.get(episode.stop, "tool_calls")])
            if episode.stop is StopReason.ANSWERED:
                span.update_name("chat answer")
            span.end()
        started[0] = time.time_ns()
        if episode.done:
            root.set_attribute("stepcredit.stop", str(episode.stop))
            root.end()

    def play(text: str) -> list[str] | None:
        span = turn()
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                return plain(text)
        finally:
            end(span)

    def truncate(text: str | None = None) -> None:
        cut(text)
        end(None if text is None else turn())  # without a text the turn is over: its results did not fit

    episode.play, episode.truncate = play, truncate  # type: ignore[method-assign]


def redacted(value: JSON, shown: Set[str] = frozenset(), known: Set[str] | None = None, key: str = "") -> JSON:
    """A copy without texts, for a model or a tool may put anybody's name into any of them: what stays are dates, and
    numbers that are no ids.

    shown: keys whose texts stay, but for secrets, e-mail addresses, ids, and names that are `known` (default: what
    `personal` finds). key: under which the value stands.
    """
    known = personal(value, key) if known is None else known
    if isinstance(value, Mapping):
        return {
            name if WORD.fullmatch(str(name)) and name not in known else MASK: redacted(inner, shown, known, str(name))
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(inner, shown, known, key) for inner in value]
    if value is not None and _is_personal(key):
        return MASK
    if not isinstance(value, str) or DATE.fullmatch(value):
        return value
    return _text(value, known) if key in shown else MASK


def personal(value: JSON, key: str = "") -> set[str]:
    """The texts that stand under a key which tells that they are somebody's: they may turn up elsewhere, too."""
    if isinstance(value, Mapping):
        return set().union(*(personal(inner, str(name)) for name, inner in value.items()))
    if isinstance(value, list | tuple):
        return set().union(*(personal(inner, key) for inner in value))
    return {str(value)} if _is_personal(key) and len(str(value)) > 1 and value is not None else set()


def _is_personal(key: str) -> bool:
    return bool(SECRETS.search(key)) or key in NAMES or key.endswith("_id") or key == "account"


def _text(text: str, known: Set[str]) -> str:
    for each in sorted(known, key=len, reverse=True):
        text = text.replace(each, MASK)
    return LONG_DIGITS.sub(MASK, EMAIL.sub(MASK, text))
