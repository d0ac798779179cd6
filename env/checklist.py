"""The onboarding checklist: what a contract and its function must have before a model is trained on the tool.

Every item says what it wants, why, and how to mend it, and looks at one tool: its YAML, its syntax, its neighbours.
Nothing here runs the tool; `scripts.check` does that where it has a world.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from env.contract import ContractError, ToolContract
from env.graph import GraphError, ToolGraph
from env.negatives import refused
from env.types import ErrorCode, ToolError
from env.yaml_strict import load

SHORTEST, LONGEST = 30, 600  # characters of a description
MIN_TIMEOUT_MS, MAX_TIMEOUT_MS = 100, 60_000
MIN_NEGATIVES = 3


@dataclass(frozen=True)
class Candidate:
    """One tool as found in a folder. tree: of its module, None where it has none. others: contracts of the folder."""

    path: Path
    contract: ToolContract
    declared: Mapping[str, Any]  # the YAML as written
    tree: ast.Module | None
    others: Sequence[ToolContract]

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        for node in self.tree.body if self.tree else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == self.contract.name:
                return node
        return None

    @property
    def local(self) -> bool:
        return self.contract.transport.kind == "local"


@dataclass(frozen=True, slots=True)
class Item:
    """find: problems of one candidate, none where it is in order."""

    id: str
    what: str
    why: str
    how: str
    find: Callable[[Candidate], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Problem:
    """path: the YAML file. item: what it failed, "contract" where the contract could not even be loaded."""

    path: str
    item: str
    detail: str
    how: str


ITEMS: list[Item] = []

Find = Callable[[Candidate], Iterator[str]]


def _item(what: str, why: str, how: str) -> Callable[[Find], Find]:
    def add(find: Find) -> Find:
        ITEMS.append(Item(find.__name__.lstrip("_"), what, why, how, find))
        return find

    return add


@_item(
    "a module of the same name beside the YAML file, with a function of the tool's name",
    "the registry binds by name; anything else fails at load",
    "name file, function and contract alike",
)
def _function(tool: Candidate) -> Iterator[str]:
    if tool.local and tool.tree is None:
        yield f"no {tool.path.stem}.py"
    elif tool.local and tool.function is None:
        yield f"no function {tool.contract.name}"


@_item(
    "a synchronous function",
    "asynchronous callers hand the tool to a worker; written twice, the two would drift",
    "write `def`; `is_async: true` in the contract concerns callers only",
)
def _synchronous(tool: Candidate) -> Iterator[str]:
    if isinstance(tool.function, ast.AsyncFunctionDef):
        yield f"{tool.contract.name} is async"


@_item(
    "the world as first parameter of the function",
    "state belongs to an episode; a tool that keeps its own leaks from one rollout into the next",
    "write `def NAME(world, ...)`",
)
def _world_first(tool: Candidate) -> Iterator[str]:
    if tool.function and (not tool.function.args.args or tool.function.args.args[0].arg != "world"):
        yield f"the first parameter of {tool.contract.name} is not `world`"


@_item("a docstring", "whoever mends the tool at night reads it first", "say what it returns and what it raises")
def _docstring(tool: Candidate) -> Iterator[str]:
    if tool.function and not ast.get_docstring(tool.function):
        yield f"{tool.contract.name} has none"


@_item(
    "no branching on the tool's name inside the function",
    "a function that behaves by name is two tools with one contract",
    "split it into one YAML + Python pair per tool",
)
def _no_branch_on_name(tool: Candidate) -> Iterator[str]:
    for node in ast.walk(tool.function) if tool.function else ():
        if isinstance(node, ast.Compare | ast.Match):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and part.value in {other.name for other in tool.others}:
                    yield f"line {node.lineno} compares with {part.value!r}"
                if isinstance(part, ast.Name) and part.id in ("tool_name", "tool"):
                    yield f"line {node.lineno} compares `{part.id}`"


@_item(
    "every error raised as ToolError(ErrorCode.X, detail)",
    "any other exception counts as a bug of ours, voids the episode and tells the model nothing",
    "raise ToolError with a code of env.types.ErrorCode",
)
def _coded_errors(tool: Candidate) -> Iterator[str]:
    for node in ast.walk(tool.tree) if tool.tree else ():
        if isinstance(node, ast.Raise) and node.exc is not None:
            call = node.exc
            named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "ToolError"
            if not named:
                yield f"line {node.lineno} raises {ast.unparse(node.exc)[:60]}"


@_item(
    "an error detail that says what to do",
    "the model repairs a call from this text alone",
    "name the value and the way out: \"no account 'B-1'; accounts look like A-1027\"",
)
def _helpful_errors(tool: Candidate) -> Iterator[str]:
    for node in ast.walk(tool.tree) if tool.tree else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ToolError":
            texts = [part.value for each in node.args[1:] for part in ast.walk(each) if isinstance(part, ast.Constant)]
            if len(node.args) < 2 or sum(len(text) for text in texts if isinstance(text, str)) < 10:
                yield f"line {node.lineno} says next to nothing"


@_item(
    "no bare or silent except",
    "a swallowed failure comes out as a plausible result",
    "catch what you expect, and raise ToolError from it",
)
def _no_silent_except(tool: Candidate) -> Iterator[str]:
    for node in ast.walk(tool.tree) if tool.tree else ():
        if isinstance(node, ast.ExceptHandler):
            names = {part.id for part in ast.walk(node.type) if isinstance(part, ast.Name)} if node.type else {""}
            if names & {"", "Exception", "BaseException"} or all(isinstance(each, ast.Pass) for each in node.body):
                yield f"line {node.lineno}"


@_item(
    "no print, eval, exec, global or pickle",
    "output mixes with the run's, evaluated text is an open door, globals outlive their episode",
    "return values; keep state in the world",
)
def _no_side_doors(tool: Candidate) -> Iterator[str]:
    for node in ast.walk(tool.tree) if tool.tree else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "eval", "exec"):
            yield f"line {node.lineno} calls {node.func.id}"
        if isinstance(node, ast.Global):
            yield f"line {node.lineno} uses global"
        if isinstance(node, ast.Import | ast.ImportFrom) and "pickle" in ast.unparse(node):
            yield f"line {node.lineno} imports pickle"


@_item(
    "no clock, sleep or chance of its own",
    "an episode must play again the same way",
    "take the day from the world, and let the contract's latency_ms stand for waiting",
)
def _deterministic(tool: Candidate) -> Iterator[str]:
    names = {"time.sleep", "time.time", "datetime.now", "date.today", "random.random", "random.choice", "uuid.uuid4"}
    for node in ast.walk(tool.tree) if tool.tree else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield f"line {node.lineno} calls {ast.unparse(node.func)}"


@_item(
    "every required output field in every dict that the function returns",
    "a result that breaks its contract is a failure of the tool in production",
    "return all of them, or drop them from `required`",
)
def _returns_required(tool: Candidate) -> Iterator[str]:
    required = set(tool.contract.output_schema.get("required", ()))
    for node in ast.walk(tool.function) if tool.function else ():
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict) and None not in node.value.keys:
            given = {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
            if missing := sorted(required - given):
                yield f"line {node.lineno} lacks {', '.join(missing)}"


@_item(
    f"a description of {SHORTEST} to {LONGEST} characters that ends in a full stop",
    "it is all that the model learns about when to call the tool",
    "say what comes back, from what, and when to call it",
)
def _description(tool: Candidate) -> Iterator[str]:
    text = tool.contract.description.strip()
    if not SHORTEST <= len(text) <= LONGEST:
        yield f"it has {len(text)} characters"
    if not text.endswith((".", "。")):
        yield "it does not end in a full stop"


@_item(
    "no placeholder left",
    "a model trained on TODO calls the tool for TODO",
    "fill in every TODO of the contract and the function",
)
def _no_placeholder(tool: Candidate) -> Iterator[str]:
    if "TODO" in str(tool.declared):
        yield "TODO in the contract"
    if tool.tree and ("TODO" in ast.unparse(tool.tree) or "NotImplementedError" in ast.unparse(tool.tree)):
        yield "TODO in the function"


@_item(
    "a name of lower-case words with _ between",
    "models mix up names that differ in their case",
    "rename it, for example get_weather",
)
def _name(tool: Candidate) -> Iterator[str]:
    name = tool.contract.name
    if tool.contract.transport.kind == "mcp":
        name = name.removeprefix(f"{tool.contract.transport.options['server']}__")  # keeps two servers' tools apart
    if not all(part.isalnum() and part == part.lower() for part in name.split("_")):
        yield name
    if "_" not in name:
        yield f"{name} is one word"


@_item(
    "a bound on the length of every text that the model writes",
    "an endless argument is a request of its own",
    "give it maxLength, enum, pattern or a format",
)
def _bounded_texts(tool: Candidate) -> Iterator[str]:
    for name, rule in _properties(tool):
        if rule.get("type") == "string" and not {"maxLength", "enum", "const", "pattern", "format"} & rule.keys():
            yield name


@_item(
    "bounds on every number and list that the model writes",
    "page_size 10**9 is a valid integer",
    "give it minimum and maximum, or maxItems",
)
def _bounded_numbers(tool: Candidate) -> Iterator[str]:
    for name, rule in _properties(tool):
        if rule.get("type") in ("integer", "number") and "enum" not in rule:
            low = {"minimum", "exclusiveMinimum"} & rule.keys()
            high = {"maximum", "exclusiveMaximum"} & rule.keys()
            if not (low and high):
                yield name
        if rule.get("type") == "array" and "maxItems" not in rule:
            yield name


@_item(
    "an example for every pattern",
    "a model writes what it has seen sooner than what a regular expression allows",
    "add `examples: [...]`, the first of which fits",
)
def _patterns_exemplified(tool: Candidate) -> Iterator[str]:
    for name, rule in _properties(tool):
        examples = rule.get("examples", [])
        if "pattern" in rule and not (examples and re.search(rule["pattern"], str(examples[0]))):
            yield name


@_item(
    "a type for every argument",
    "without one any value passes",
    "declare it; a union is a list of types",
)
def _typed(tool: Candidate) -> Iterator[str]:
    for name, rule in _properties(tool):
        if not {"type", "enum", "const", "$ref", "anyOf", "oneOf"} & rule.keys():
            yield name


@_item(
    "`x-kind: id` on every argument that is called *_id",
    'only so 1001 and "1001" are one id, and 007 stays 007',
    "add it, with type string",
)
def _ids_marked(tool: Candidate) -> Iterator[str]:
    for name, rule in _properties(tool):
        if name.endswith("_id") and rule.get("x-kind") != "id":
            yield name


@_item(
    "an output schema of type object with `required` and no other members",
    "what is not declared cannot be relied on, and drifts unseen",
    "list the members, the required ones, and additionalProperties: false",
)
def _closed_output(tool: Candidate) -> Iterator[str]:
    schema = tool.contract.output_schema
    if schema.get("type") != "object":
        yield f"type is {schema.get('type')!r}"
    elif not schema.get("required"):
        yield "nothing is required"
    elif schema.get("additionalProperties") is not False and tool.contract.transport.kind == "local":
        yield "additionalProperties is not false"  # a service of others may add members as it likes


@_item(
    f"a timeout of {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS} ms, written down",
    "the default fits nobody, and alerts take their edges from it",
    "declare `timeout` in milliseconds",
)
def _timeout(tool: Candidate) -> Iterator[str]:
    if "timeout" not in tool.declared:
        yield "none is declared"
    elif not MIN_TIMEOUT_MS <= tool.contract.timeout_ms <= MAX_TIMEOUT_MS:
        yield f"{tool.contract.timeout_ms} ms"


@_item(
    "`idempotent` written down",
    "it decides whether a call may be tried again or answered from a cache",
    "declare true for a tool that only reads, false for one that writes",
)
def _idempotent(tool: Candidate) -> Iterator[str]:
    if "idempotent" not in tool.declared:
        yield "it is not declared"


@_item(
    "a tool that undoes what a writing tool does",
    "a plan that fails half-way has to be rolled back",
    "name it as `compensate`, in the same folder",
)
def _compensated(tool: Candidate) -> Iterator[str]:
    undo = tool.contract.compensate
    if undo is not None and undo not in {other.name for other in tool.others}:
        yield f"{undo} is no tool of this folder"
    undoes = any(other.compensate == tool.contract.name for other in tool.others)
    if tool.declared.get("idempotent") is False and undo is None and not undoes:
        yield "none is named"


@_item(
    "upstream dependencies declared for a tool that reaches out",
    "the dashboard groups by them, and an outage is found by them",
    "list the services as `upstream_dependencies`",
)
def _upstreams(tool: Candidate) -> Iterator[str]:
    reaches = not tool.local or "circuit_breaker" in tool.declared or "rate_limit" in tool.declared
    if reaches and not tool.contract.upstream_dependencies:
        yield "it has a breaker, a limit or a remote transport, and none is named"


@_item(
    "what it requires is produced by a neighbour, without a circle",
    "a value that no tool gives can only be made up",
    "declare `produces` where the value comes from, or take it out of `requires`",
)
def _reachable(tool: Candidate) -> Iterator[str]:
    try:
        graph = ToolGraph(tool.others)
    except GraphError as error:
        yield str(error)
        return
    for value in tool.contract.requires:
        if not graph.producers(value):
            yield f"nothing produces {value!r}"
        if value not in dict(_properties(tool)):
            yield f"{value!r} is required and is no argument"


@_item(
    f"at least {MIN_NEGATIVES} kinds of wrong arguments that the contract refuses",
    "a contract that refuses nothing protects nothing",
    "declare types, bounds and formats",
)
def _negatives(tool: Candidate) -> Iterator[str]:
    stopped = 0
    for negative in refused(tool.contract):
        try:
            tool.contract.check_arguments(negative.arguments)
            yield f"accepted: {negative.name}"
        except ToolError as error:
            stopped += error.code is ErrorCode.INVALID_ARGUMENTS
    if stopped < MIN_NEGATIVES:
        yield f"only {stopped}"


def _properties(tool: Candidate) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from tool.contract.input_schema.get("properties", {}).items()


def check_folder(folder: Path) -> tuple[list[ToolContract], list[Problem]]:
    """The contracts that could be loaded, and every problem of every tool. Raises FileNotFoundError without *.yaml."""
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise FileNotFoundError(f"{folder}: no *.yaml")
    contracts: dict[Path, ToolContract] = {}
    problems = []
    for file in files:
        try:
            contracts[file] = ToolContract.load(file)
        except ContractError as error:
            problems.append(Problem(str(file), "contract", str(error), "mend the line that the message names"))
    for file, contract in contracts.items():
        tool = _candidate(file, contract, list(contracts.values()))
        for item in ITEMS:
            problems += [Problem(str(file), item.id, detail, item.how) for detail in item.find(tool)]
    return list(contracts.values()), problems


def _candidate(file: Path, contract: ToolContract, others: Sequence[ToolContract]) -> Candidate:
    module = file.with_suffix(".py")
    tree = ast.parse(module.read_text("utf-8"), str(module)) if module.is_file() else None
    return Candidate(file, contract, load(file).value, tree, others)
