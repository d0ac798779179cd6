"""Runs tools: finds one by name, checks both ways against its contract, and answers with one envelope, always.

It refuses to guess: a name that nobody registered is the model's mistake, an exception that is no ToolError is ours.
"""

from __future__ import annotations

import asyncio
import copy
import difflib
import importlib
import inspect
import logging
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from env.clock import Clock, VirtualClock
from env.contract import ContractError, ToolContract, Transport, json_copy, shown
from env.faults import Faults
from env.policies import Report, State, guarded_call
from env.types import JSON, ErrorCode, ToolCall, ToolError, ToolResult
from env.workers import run_with_deadline

log = logging.getLogger(__name__)

MAX_PLACES = 20  # frames told of an exception: an endless recursion has a thousand
NOT_REGISTERED = "<unknown>"  # in events, instead of whatever name the model made up

ToolFunction = Callable[..., JSON]


REPEATED = "this very call failed before; change the arguments, use another tool, or say that it cannot be found"

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Tool:
    """A contract and its implementation: called with the episode's world first, then arguments by keyword."""

    contract: ToolContract
    function: ToolFunction


@dataclass(frozen=True, slots=True)
class Outcome:
    """One finished call. `arguments` as the tool got them, None where the call never got that far."""

    arguments: dict[str, JSON] | None
    result: ToolResult


@dataclass(frozen=True, slots=True)
class SpanIds:
    """Where a call stands in its trace, in hexadecimal as W3C trace context has it; "" for no parent."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""


@dataclass(frozen=True, slots=True)
class CallEvent:
    """What an observer learns of a call. `tool` is NOT_REGISTERED for an unknown name, whatever the model made up.

    duration_s: by the machine's clock, or by the episode's where more time passed on that: simulated latency counts.
    Arguments and data are in `outcome` only, which prints as nothing.
    """

    tool: str
    status: str
    code: ErrorCode | None
    duration_s: float
    attempts: int = 1
    cached: bool = False
    transport: str = "local"
    stages: tuple[str, ...] = ()  # what the policies did on the way
    output_valid: bool | None = None  # None where there was no output to check
    outcome: Outcome | None = field(default=None, repr=False, compare=False)  # for readers that were asked to show data
    error: Exception | None = field(default=None, repr=False, compare=False)  # a bug of ours
    span: SpanIds | None = field(default=None, compare=False)


Observer = Callable[[CallEvent], None]
Around = Callable[[str], AbstractContextManager[SpanIds]]  # name of the tool -> what a call of it runs inside
Timer = Callable[[], float]
Caller = Callable[[ToolContract, dict[str, JSON]], JSON]  # reaches the tools of a transport; raises ToolError


_OBSERVERS: list[Observer] = []
_AROUND: list[Around] = []


def observe(observer: Observer) -> Callable[[], None]:
    """Let `observer` see every call of every registry in this process; returns what takes it away again."""
    _OBSERVERS.append(observer)
    return lambda: _OBSERVERS.remove(observer)


def surround(around: Around) -> Callable[[], None]:
    """Run every call of this process inside `around`, its observers too; returns what takes it away again."""
    _AROUND.append(around)
    return lambda: _AROUND.remove(around)


class Registry:
    """Tools by name. Bind it to an episode's world before calling.

    on_call: gets one event per call, in the caller's thread; what it raises reaches the caller.
    clock: seconds, monotonic. Raises ContractError where two tools share a name.
    """

    def __init__(
        self, tools: Iterable[Tool], *, on_call: Observer | None = None, clock: Timer = time.perf_counter
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in sorted(tools, key=lambda tool: tool.contract.name):
            self._add(tool)
        self._on_call = on_call
        self._clock = clock
        self._world: object = None
        self._time: Clock = VirtualClock()
        self._states: dict[str, State] = {}
        self._failed: Counter[str] = Counter()  # calls by name and arguments, since `bind`
        self._callers: Mapping[str, Caller] = {}
        self._faults: Faults | None = None
        self._now: datetime | None = None
        self._language = "en"
        self._trace_id = ""
        self._span = 0  # the last one of the trace; those that follow count up from a random number

    @classmethod
    def load_tools_from_directory(
        cls, path: Path | str, package: str, *, on_call: Observer | None = None, clock: Timer = time.perf_counter
    ) -> Registry:
        """The tools of one directory: each `<stem>.yaml` with the function of its name in `<package>.<stem>`.

        Raises ContractError for a contract that cannot be used or does not fit its function.
        """
        directory = Path(path)
        for stray in sorted(directory.glob("*.yml")):
            raise ContractError(stray, 1, "expected the ending .yaml, got .yml")
        files = sorted(directory.glob("*.yaml"))
        if not files:
            raise ContractError(directory, 1, "expected at least one *.yaml, found none")
        return cls([_load(file, package) for file in files], on_call=on_call, clock=clock)

    @property
    def names(self) -> tuple[str, ...]:
        """In alphabetical order."""
        return tuple(self._tools)

    def list_tools(self) -> list[dict[str, JSON]]:
        """What is declared, for people and scripts: name, description, both schemas, in the order of `names`."""
        return [
            {
                "name": name,
                "description": tool.contract.description,
                "input_schema": json_copy(tool.contract.input_schema),
                "output_schema": json_copy(tool.contract.output_schema),
            }
            for name, tool in self._tools.items()
        ]

    def summary(self) -> str:
        """One line per tool, for the start of a run: name, transport, timeout, policies."""
        return "\n".join(_summary(tool.contract) for tool in self._tools.values())

    def only(self, allowed: Iterable[str]) -> Registry:
        """The same registry with these tools only. Raises ValueError for a name that is not there."""
        wanted = set(allowed)
        if unknown := sorted(wanted - set(self._tools)):
            raise ValueError(f"no tool {unknown[0]!r}; there are {', '.join(self.names)}")
        fewer = copy.copy(self)
        fewer._tools = {name: tool for name, tool in self._tools.items() if name in wanted}
        return fewer

    def joined(self, tool: Tool) -> Registry:
        """The same registry with one tool more. Raises ContractError for a name that is taken."""
        more = copy.copy(self)
        more._tools = dict(self._tools)
        more._add(tool)
        return more

    def rerouted(self, transports: Mapping[str, Transport]) -> Registry:
        """The same contracts reached another way. transports: by tool name, "*" for all others."""
        moved = copy.copy(self)
        moved._tools = {}
        for name, tool in self._tools.items():
            transport = transports.get(name, transports.get("*", tool.contract.transport))
            moved._tools[name] = replace(tool, contract=replace(tool.contract, transport=transport))
        return moved

    def reached_by(self, callers: Mapping[str, Caller]) -> Registry:
        """The same registry with a way to its tools of other transports, by kind, where `bind` gives none."""
        reached = copy.copy(self)
        reached._callers = dict(callers)
        return reached

    def register_tool(self, contract: ToolContract, function: ToolFunction) -> None:
        """Add one tool by hand. Raises ContractError for a name that is taken or a function that does not fit."""
        if inspect.iscoroutinefunction(function):
            raise _mismatch(contract, function.__module__, "it is async; write it synchronously")
        _check_signature(contract, function.__module__, function)
        self._add(Tool(contract, function))
        self._tools = dict(sorted(self._tools.items()))

    def tool(self, path: Path | str) -> Callable[[_Function], _Function]:
        """Decorator: `@registry.tool("get_weather.yaml")` registers the function under that contract."""

        def register(function: _Function) -> _Function:
            self.register_tool(ToolContract.load(path), function)
            return function

        return register

    def contract(self, name: str) -> ToolContract:
        """Raises KeyError."""
        return self._tools[name].contract

    def function(self, name: str) -> ToolFunction:
        """The implementation, to be called with a world first. Raises KeyError."""
        return self._tools[name].function

    def catalogue(self) -> list[dict[str, JSON]]:
        """The function schemas for the prompt, in the order of `names`."""
        return [tool.contract.for_model() for tool in self._tools.values()]

    def bind(
        self,
        world: object,
        *,
        clock: Clock | None = None,
        callers: Mapping[str, Caller] | None = None,
        on_call: Observer | None = None,
        faults: Faults | None = None,
        now: str = "",
        language: str = "en",
    ) -> Registry:
        """The same tools on one episode's world; whatever a call leaves behind belongs to this copy.

        clock: the episode's, for latencies, timeouts, retries, breakers and caches (default: a virtual one). callers:
        how to reach the tools of other transports than local, by kind. on_call: an observer. Where these two are left
        out, the registry's own hold. faults: of this episode. now: ISO date-time at the clock's start, from which
        results get their timestamp. language: of the errors that have a text in it.
        """
        bound = copy.copy(self)
        bound._on_call = on_call or self._on_call
        bound._faults = faults
        bound._world = world
        bound._time = clock or VirtualClock()
        bound._states = {}
        bound._failed = Counter()
        bound._callers = self._callers if callers is None else callers
        bound._trace_id = ""
        bound._language = language
        bound._now = datetime.fromisoformat(now) if now else None
        return bound

    def tool_call(self, name: str, /, **arguments: JSON) -> ToolResult:
        """`call` in keyword form."""
        return self.call(ToolCall(name, arguments)).result

    async def atool_call(self, name: str, /, **arguments: JSON) -> ToolResult:
        """`tool_call` for asynchronous callers: the same thing in a worker thread."""
        return await asyncio.to_thread(self.tool_call, name, **arguments)

    def call(self, call: ToolCall) -> Outcome:
        """Run one call. Whatever the model or the tool does wrong is in the result; nothing is raised for it."""
        tool, report = self._tools.get(call.name), Report()
        if not (self._on_call or _OBSERVERS or _AROUND):
            return self._finished(tool, call, report)
        if not _AROUND:
            return self._observed(tool, call, report, self._span_ids())
        with ExitStack() as stack:
            spans = [stack.enter_context(around(call.name if tool else NOT_REGISTERED)) for around in _AROUND]
            return self._observed(tool, call, report, spans[-1])

    def _observed(self, tool: Tool | None, call: ToolCall, report: Report, span: SpanIds) -> Outcome:
        started, began = self._clock(), self._time.now()
        outcome = self._finished(tool, call, report)
        result = outcome.result
        event = CallEvent(
            call.name if tool else NOT_REGISTERED,
            result.status,
            result.code,
            max(self._clock() - started, self._time.now() - began),
            report.attempts,
            report.cached,
            tool.contract.transport.kind if tool else "local",
            tuple(report.stages),
            _output_valid(result.code, report),
            outcome,
            report.error,
            span,
        )
        for observer in _OBSERVERS:
            observer(event)
        if self._on_call:
            self._on_call(event)
        return outcome

    def _finished(self, tool: Tool | None, call: ToolCall, report: Report) -> Outcome:
        already = len(self._faults.happened) if self._faults else 0
        outcome = self._run(tool, call, report) if tool else Outcome(None, self._not_found(call.name))
        return self._with_faults(self._hinted(call, outcome), already)

    def _span_ids(self) -> SpanIds:
        """Where nobody traces: one trace per binding. From the system, for the seeded random states are not ours."""
        if not self._trace_id:
            self._trace_id, self._span = os.urandom(16).hex(), int.from_bytes(os.urandom(7))
        self._span += 1
        return SpanIds(self._trace_id, f"{self._span:016x}")

    def _with_faults(self, outcome: Outcome, already: int) -> Outcome:
        """The faults that this call met, in the result's metadata. already: how many there were before it."""
        met = self._faults.happened[already:] if self._faults else []
        if not met:
            return outcome
        result = outcome.result
        return replace(outcome, result=replace(result, metadata={**result.metadata, "faults": list(map(str, met))}))

    def _hinted(self, call: ToolCall, outcome: Outcome) -> Outcome:
        """The hint that breaks an endless retry: an identical call that failed before, and failed again."""
        result = outcome.result
        if result.ok or result.code is None or result.code.infrastructure:
            return outcome
        try:
            key = repr((call.name, sorted(call.arguments.items(), key=lambda item: str(item[0]))))
        except RecursionError:  # nested more deeply than any contract allows
            return outcome
        self._failed[key] += 1
        if self._failed[key] < 2:
            return outcome
        metadata = {**result.metadata, "repeated": self._failed[key]}
        return replace(outcome, result=replace(result, message=f"{result.message}; {REPEATED}", metadata=metadata))

    def _run(self, tool: Tool, call: ToolCall, report: Report) -> Outcome:
        arguments = None
        try:
            arguments = tool.contract.check_arguments(call.arguments)
            data = self._data(tool, arguments, report)
            return Outcome(arguments, ToolResult.success(data, tool=call.name, **self._origin(tool)))
        except ToolError as error:
            detail = error.detail_in(self._language)
            told = ToolResult.error(error.code, detail, tool=call.name, **self._origin(tool))
            return Outcome(arguments, told)
        except Exception as error:
            # The one broad except of the core: a bug in one of many tools must void its own episode, visibly, and not
            # end the training run. Only its type and place are told, for the text may hold personal data.
            report.error = error
            log.error("tool %s failed with an exception that is no ToolError: %s", call.name, " > ".join(places(error)))
            return Outcome(arguments, ToolResult.error(ErrorCode.INTERNAL_ERROR, type(error).__name__, tool=call.name))

    def _origin(self, tool: Tool) -> dict[str, str]:
        """Where a result comes from and when, by the episode's clock; for readers, the model is not shown it."""
        source = ", ".join(tool.contract.upstream_dependencies) or tool.contract.transport.kind
        if self._now is None:
            return {"source": source}
        return {"source": source, "timestamp": (self._now + timedelta(seconds=self._time.now())).isoformat()}

    def _data(self, tool: Tool, arguments: dict[str, JSON], report: Report) -> JSON:
        policies = tool.contract.policies
        if policies.none:
            report.attempts = 1
            return self._reach(tool, arguments)
        state = self._states.get(tool.contract.name)
        if state is None:
            state = self._states[tool.contract.name] = State(policies, self._time)
        call = guarded_call(lambda given: self._reach(tool, given), policies, self._time, report, state)
        return json_copy(call(arguments))  # a cached result may be handed out again

    def _reach(self, tool: Tool, arguments: dict[str, JSON]) -> JSON:
        """One attempt. An output that breaks the contract is a failed one: never cached, counted by the breaker."""
        if self._faults is None:
            return tool.contract.check_output(self._answer(tool, arguments))
        answer = self._faults.answer(tool.contract.name, lambda: self._answer(tool, arguments))
        return tool.contract.check_output(answer)

    def _answer(self, tool: Tool, arguments: dict[str, JSON]) -> JSON:
        # The tool works on a copy: the arguments end up in the trajectory as they were when it was called.
        kind = tool.contract.transport.kind
        if kind == "local" and tool.contract.blocking:
            limit = tool.contract.timeout_ms / 1000
            return run_with_deadline(tool.function, self._world, json_copy(arguments), limit)
        if kind == "local":
            return tool.function(self._world, **json_copy(arguments))
        caller = self._callers.get(kind)
        if caller is None:
            raise ToolError(ErrorCode.UNAVAILABLE, f"nothing here can reach tools over {kind}")
        return caller(tool.contract, json_copy(arguments))

    def _not_found(self, name: str) -> ToolResult:
        nearest = difflib.get_close_matches(name[:64], self.names, n=3)
        hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        detail = f"no tool {shown(name)}; {hint}available: {', '.join(self.names) or 'none'}"
        return ToolResult.error(ErrorCode.TOOL_NOT_FOUND, detail, tool=name)

    def _add(self, tool: Tool) -> None:
        first = self._tools.setdefault(tool.contract.name, tool)
        if first is not tool:
            detail = f"expected a name of its own, {tool.contract.name} is taken by {first.contract.path}"
            raise ContractError(tool.contract.path, tool.contract.line, detail)


def places(error: BaseException) -> list[str]:
    """Where an exception came from, the innermost frame last, then its type; no values, which may be personal."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_PLACES:]
    found = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return [*found, type(error).__name__]


def _load(file: Path, package: str) -> Tool:
    contract = ToolContract.load(file)
    if contract.transport.kind != "local":
        return Tool(contract, _elsewhere)
    module = _module(contract, contract.module_path or f"{package}.{file.stem}")
    function = vars(module).get(contract.name)
    if not inspect.isfunction(function):
        raise _mismatch(contract, module.__name__, f"functions found: {', '.join(_functions(module)) or 'none'}")
    if inspect.iscoroutinefunction(function):
        raise _mismatch(contract, module.__name__, "it is async; write it synchronously, is_async concerns callers")
    _check_signature(contract, module.__name__, function)
    return Tool(contract, function)


def _output_valid(code: ErrorCode | None, report: Report) -> bool | None:
    if not report.attempts or code not in (None, ErrorCode.OUTPUT_INVALID):
        return None
    return code is None


def _summary(contract: ToolContract) -> str:
    policies = contract.policies
    said = [f"timeout {contract.timeout_ms} ms"]
    said += [f"{policies.retry.max_attempts} attempts"] if policies.retry else []
    said += [f"cache {policies.cache_ttl_s:g} s"] if policies.cache_ttl_s else []
    said += [f"{policies.rate_limit.calls} calls per {policies.rate_limit.per_s:g} s"] if policies.rate_limit else []
    said += [f"breaker after {policies.breaker.failures}"] if policies.breaker else []
    return f"{contract.name} ({contract.transport.kind}): {', '.join(said)}"


def _elsewhere(world: object, **arguments: JSON) -> JSON:
    raise AssertionError("a tool of another transport is reached by its caller")


def _module(contract: ToolContract, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there and misses something else
        raise _mismatch(contract, name, f"there is no module {error.name}") from error


def _check_signature(contract: ToolContract, module: str, function: Callable[..., Any]) -> None:
    """The function must take every declared argument, and do without those that a call may leave out."""
    properties = contract.input_schema.get("properties", {})
    always = {name for name, schema in properties.items() if "default" in schema}
    always.update(contract.input_schema.get("required", ()))
    signature = inspect.signature(function)
    for names in (properties, always):
        try:
            signature.bind(None, **dict.fromkeys(names))
        except TypeError as error:
            given = ", ".join(("world", *names))
            raise _mismatch(contract, module, f"{signature} cannot be called with ({given}): {error}") from error


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _mismatch(contract: ToolContract, module: str, found: str) -> ContractError:
    return ContractError(
        contract.path, contract.line, f"expected a function {contract.name} in module {module}; {found}"
    )
