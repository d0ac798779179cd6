"""Loading pairs of contract and function, and the one envelope that every call ends in."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from env.clock import VirtualClock
from env.contract import ContractError, ToolContract
from env.registry import NOT_REGISTERED, REPEATED, CallEvent, Registry, Tool
from env.types import ErrorCode, Fault, ToolCall, ToolError

YAML = """\
description: Toy.
name: toy_add
input_schema:
  type: object
  additionalProperties: false
  required: [emp_id]
  properties:
    emp_id: {type: string, x-kind: id, description: Id.}
    days: {type: integer, default: 1, description: Days.}
    notes: {type: array, items: {type: string}, description: Notes.}
output_schema:
  type: object
  additionalProperties: false
  required: [sum]
  properties: {sum: {type: number}}
"""
PYTHON = """\
from pathlib import Path

def toy_add(world, emp_id: str, days: int, notes: list[str] | None = None) -> dict:
    return {"sum": world + int(emp_id) + days}

def another(world) -> dict:
    return {}
"""


class Package:
    """A package of tools in the making; its name is new in every test, so that imports never meet."""

    def __init__(self, path: Path):
        self.path = path
        self.write("__init__.py", "")

    def write(self, name: str, text: str) -> Path:
        self.path.mkdir(exist_ok=True)
        (self.path / name).write_text(text, encoding="utf-8")
        return self.path / name

    def load(self, **options: Any) -> Registry:
        return Registry.load_tools_from_directory(self.path, self.path.name, **options)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    monkeypatch.syspath_prepend(tmp_path)
    made = Package(tmp_path / f"tools_of_{abs(hash(tmp_path))}")
    made.write("adding.yaml", YAML)
    made.write("adding.py", PYTHON)
    return made


def contract(name: str = "toy", properties: dict[str, Any] | None = None) -> ToolContract:
    schema = {"type": "object", "additionalProperties": False, "properties": properties or {}}
    return ToolContract(name, "Toy.", schema, {"type": "object"}, Path(f"{name}.yaml"))


def registry(function: Callable[..., Any], **properties: Any) -> Registry:
    return Registry([Tool(contract(properties=properties), function)])


# --- loading


def test_a_pair_is_loaded_and_called(package: Package) -> None:
    loaded = package.load()
    assert loaded.names == ("toy_add",)
    outcome = loaded.bind(100).call(ToolCall("toy_add", {"emp_id": 7.0}))
    assert outcome.arguments == {"emp_id": "7", "days": 1}
    assert outcome.result.data == {"sum": 108}
    assert outcome.result.metadata == {"tool": "toy_add", "source": "local"}
    assert outcome.result.text() == '{"status":"success","data":{"sum":108}}'


def test_results_say_where_they_come_from_and_when_by_the_episodes_clock() -> None:
    upstream = replace(contract(), upstream_dependencies=("ledger", "archive"))
    clock = VirtualClock()
    bound = Registry([Tool(upstream, lambda world: {})]).bind(None, clock=clock, now="2026-06-03T09:00:00+08:00")
    clock.sleep(90)
    for result in (bound.tool_call("toy"), bound.tool_call("toy", wrong=1)):
        assert result.metadata["source"] == "ledger, archive"
        assert result.metadata["timestamp"] == "2026-06-03T09:01:30+08:00"
        assert "timestamp" not in result.text() and "ledger" not in result.text(), "the model is not shown it"


def test_module_path_overrides_the_module(package: Package) -> None:
    package.write("elsewhere.py", PYTHON)
    package.write("adding.py", "")
    package.write("adding.yaml", f"{YAML}module_path: {package.path.name}.elsewhere\n")
    assert package.load().bind(0).tool_call("toy_add", emp_id="1").data == {"sum": 2}


# What the module holds, and what the error says of it.
MISFITS = {
    "another name": (PYTHON.replace("toy_add", "toy_plus"), "functions found: toy_plus, another"),
    "no function": ("toy_add = 3\n", "functions found: none"),
    "private only": ("def _toy_add(world): ...\n", "functions found: none"),
    "async": (PYTHON.replace("def toy_add", "async def toy_add"), "it is async"),
    "argument missing": (PYTHON.replace("emp_id: str, ", ""), "unexpected keyword argument 'emp_id'"),
    "argument renamed": (PYTHON.replace("days: int", "day: int"), "argument"),
    "argument too many": (PYTHON.replace("days: int", "days: int, year: int"), "missing a required argument: 'year'"),
    "optional without a default": (PYTHON.replace(" = None", ""), "missing a required argument: 'notes'"),
    "no world": (PYTHON.replace("world, emp_id", "*, emp_id"), "too many positional arguments"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_misfits_name_yaml_module_and_functions(case: str, package: Package) -> None:
    source, says = MISFITS[case]
    package.write("adding.py", source)
    with pytest.raises(ContractError) as caught:
        package.load()
    expected = f"expected a function toy_add in module {package.path.name}.adding; "
    assert str(caught.value).startswith(f"{package.path / 'adding.yaml'}:2: {expected}")
    assert says in str(caught.value)


def test_a_missing_module_is_named(package: Package) -> None:
    (package.path / "adding.py").unlink()
    with pytest.raises(ContractError, match=r"adding\.yaml:2: .*there is no module tools_of_\d+\.adding"):
        package.load()
    with pytest.raises(ContractError, match=r"adding\.yaml:2: .*there is no module nowhere"):
        Registry.load_tools_from_directory(package.path, "nowhere.tools")


def test_what_a_module_cannot_import_is_not_disguised(package: Package) -> None:
    package.write("adding.py", "import a_library_that_is_not_there\n")
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        package.load()


def test_names_are_unique(package: Package) -> None:
    package.write("other.yaml", YAML)
    package.write("other.py", PYTHON)
    with pytest.raises(ContractError, match=r"other\.yaml:2: .*toy_add is taken by .*adding\.yaml"):
        package.load()


def test_directories_without_contracts(package: Package, tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ContractError, match=r"at least one \*\.yaml"):
            Registry.load_tools_from_directory(directory, "x")
    package.write("other.yml", YAML)
    with pytest.raises(ContractError, match=r"other\.yml:1: expected the ending \.yaml"):
        package.load()


# --- calling


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    many = Registry(Tool(contract(name), lambda world: {}) for name in ("leave_query", "org_query", "employee_search"))
    outcome = many.call(ToolCall("leave_qery", {"a": 1}))
    assert (outcome.arguments, outcome.result.code) == (None, ErrorCode.TOOL_NOT_FOUND)
    assert outcome.result.message.startswith("tool_not_found: no tool 'leave_qery'; did you mean leave_query")
    assert outcome.result.message.endswith("available: employee_search, leave_query, org_query")
    assert len(many.tool_call("x" * 100_000).message) < 250
    assert Registry([]).tool_call("x").message == "tool_not_found: no tool 'x'; available: none"


def test_invalid_arguments_never_reach_the_tool() -> None:
    def toy(world: object, **arguments: Any) -> dict[str, Any]:
        raise AssertionError("called")

    outcome = registry(toy).call(ToolCall("toy", {"a": 1}))
    assert outcome.arguments is None
    assert outcome.result.message == "invalid_arguments: unknown argument 'a'; allowed: none"


@pytest.mark.parametrize("code", ErrorCode)
def test_a_tool_error_keeps_its_code(code: ErrorCode) -> None:
    def toy(world: object) -> dict[str, Any]:
        raise ToolError(code, "so it is")

    outcome = registry(toy).call(ToolCall("toy", {}))
    assert outcome.arguments == {}
    assert (outcome.result.status, outcome.result.code) == ("error", code)
    assert outcome.result.message == f"{code}: so it is"


def endless(world: object) -> dict[str, Any]:
    return endless(world)


def personal(world: object) -> dict[str, Any]:
    raise ValueError("张三 earns 12345")


@pytest.mark.parametrize(("function", "name"), [(endless, "RecursionError"), (personal, "ValueError")])
def test_our_bugs_are_loud_and_tell_nobodys_data(
    function: Callable[..., Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        outcome = registry(function).call(ToolCall("toy", {}))
    assert outcome.result.message == f"internal_error: {name}"
    assert outcome.result.code is not None and outcome.result.code.fault is Fault.TOOL
    assert f"{function.__name__} > {name}" in caplog.text and "test_registry.py:" in caplog.text
    assert "张三" not in caplog.text and "12345" not in caplog.text and len(caplog.text) < 4_000


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_stop_is_not_swallowed(stop: type[BaseException]) -> None:
    def toy(world: object) -> dict[str, Any]:
        raise stop

    with pytest.raises(stop):
        registry(toy).call(ToolCall("toy", {}))


@pytest.mark.parametrize("returned", [None, [], {"a": {1}}, {"a": float("nan")}, {1: 2}])
def test_output_is_checked(returned: Any) -> None:
    outcome = registry(lambda world: returned).call(ToolCall("toy", {}))
    assert (outcome.result.code, outcome.result.data) == (ErrorCode.OUTPUT_INVALID, None)


def test_a_finished_call_stays_as_it_was() -> None:
    def toy(world: list[int], notes: list[int]) -> dict[str, Any]:
        notes.append(0)
        world.append(len(notes))
        return {"world": world}

    bound = registry(toy, notes={"type": "array"}).bind([])
    outcome = bound.call(ToolCall("toy", {"notes": [5]}))
    bound.call(ToolCall("toy", {"notes": [5]}))
    assert outcome.arguments == {"notes": [5]}
    assert outcome.result.data == {"world": [2]}


def test_bound_registries_share_tools_and_nothing_else() -> None:
    loaded = registry(lambda world: {"world": world})
    first, second = loaded.bind("a"), loaded.bind("b")
    assert [bound.tool_call("toy").data for bound in (first, second, first)] == [{"world": w} for w in "aba"]
    assert loaded.tool_call("toy").data == {"world": None}
    assert first.contract("toy") is second.contract("toy")


def test_arguments_may_be_called_anything() -> None:
    toy = registry(lambda world, **rest: rest, name={}, self={}, call={})
    assert toy.tool_call("toy", name=1, call=3).data == {"name": 1, "call": 3}
    assert toy.call(ToolCall("toy", {"self": 2})).result.data == {"self": 2}


def test_the_catalogue_is_what_contracts_show_in_order_of_names() -> None:
    tools = [Tool(contract(name), lambda world: {}) for name in ("b", "c", "a")]
    assert Registry(tools).catalogue() == [tool.contract.for_model() for tool in (tools[2], tools[0], tools[1])]


# --- observing


def ticks() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 0.5


def test_one_event_per_call() -> None:
    events: list[CallEvent] = []
    watched = Registry([Tool(contract(), lambda world: {})], on_call=events.append, clock=ticks().__next__).bind(None)
    watched.tool_call("toy")
    watched.tool_call("toy", a=1)
    watched.tool_call("made_up")
    assert events == [
        CallEvent("toy", "success", None, 0.5, attempts=1, output_valid=True),
        CallEvent("toy", "error", ErrorCode.INVALID_ARGUMENTS, 0.5, attempts=0),
        CallEvent(NOT_REGISTERED, "error", ErrorCode.TOOL_NOT_FOUND, 0.5, attempts=0),
    ]
    told = {"tool", "status", "code", "duration_s", "attempts", "cached", "transport", "stages", "output_valid", "span"}
    assert {field.name for field in dataclasses.fields(CallEvent) if field.repr} == told  # no data


def test_a_call_that_fails_again_is_answered_with_a_way_out(tmp_path: Path) -> None:
    def find(world: object, a: str = "") -> dict[str, Any]:
        raise ToolError(ErrorCode.NOT_FOUND, f"no {a!r}")

    registry = Registry([Tool(contract(), find)])
    bound = registry.bind(None)
    first, other, again, third = (bound.call(ToolCall("toy", {"b": b})).result for b in (1, 2, 1, 1))
    assert (first.metadata.get("repeated"), other.metadata.get("repeated")) == (None, None)
    assert REPEATED not in first.message + other.message
    assert again.message.endswith(REPEATED)
    assert (again.metadata["repeated"], third.metadata["repeated"]) == (2, 3)
    assert REPEATED not in registry.bind(None).call(ToolCall("toy", {"b": 1})).result.message  # another episode


def test_what_succeeds_or_is_not_the_model_s_fault_may_be_repeated() -> None:
    def busy(world: list[int]) -> dict[str, Any]:
        world.append(1)
        if len(world) > 2:
            raise ToolError(ErrorCode.UNAVAILABLE, "the upstream answers 503")
        return {}

    bound = Registry([Tool(contract(), busy)]).bind([])
    results = [bound.tool_call("toy") for _ in range(4)]
    assert [result.ok for result in results] == [True, True, False, False]
    assert all("repeated" not in result.metadata for result in results)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_arguments_nested_beyond_reason_fail_again_and_again() -> None:
    bound = Registry([Tool(contract(), lambda world: {})]).bind(None)
    for _ in range(3):
        assert bound.call(ToolCall("toy", {"a": deep(100_000)})).result.code is ErrorCode.INVALID_ARGUMENTS


def test_keys_that_are_no_text_fail_again_and_again() -> None:
    bound = Registry([Tool(contract(), lambda world: {})]).bind(None)
    for _ in range(3):
        odd: Any = {1: 1, "a": 2}
        assert bound.call(ToolCall("toy", odd)).result.code is ErrorCode.INVALID_ARGUMENTS


def test_tools_by_hand_by_decorator_and_fewer_of_them(package: Package) -> None:
    path = package.write("toy_add.yaml", YAML)
    registry = Registry([])

    @registry.tool(path)
    def toy_add(world: int, emp_id: str, days: int, notes: list[str] | None = None) -> dict[str, Any]:
        return {"sum": world + int(emp_id) + days}

    assert toy_add(1, "2", 3) == {"sum": 6}  # the decorator leaves the function as it is
    assert registry.bind(1).tool_call("toy_add", emp_id="2").data == {"sum": 4}
    registry.register_tool(contract(), lambda world: {})
    assert registry.names == ("toy", "toy_add")
    with pytest.raises(ContractError, match="taken"):
        registry.register_tool(contract(), lambda world: {})
    with pytest.raises(ContractError, match="cannot be called"):
        Registry([]).register_tool(ToolContract.load(path), lambda world: {})
    fewer = registry.only(["toy"])
    assert fewer.names == ("toy",)
    assert [tool["function"]["name"] for tool in fewer.catalogue()] == ["toy"]
    assert fewer.bind(1).tool_call("toy_add", emp_id="2").code is ErrorCode.TOOL_NOT_FOUND
    assert registry.names == ("toy", "toy_add")
    with pytest.raises(ValueError, match="no tool 'sum'"):
        registry.only(["sum"])


def test_listing_and_summary_name_every_tool(package: Package) -> None:
    policies = "idempotent: true\ncache: {ttl: 9}\nretry_strategy: {max_attempts: 2}\n"
    package.write("adding.yaml", policies + YAML)
    registry = package.load()
    (listed,) = registry.list_tools()
    assert listed["name"] == "toy_add"
    listed["input_schema"].clear()  # a copy
    assert registry.list_tools()[0]["input_schema"]["required"] == ["emp_id"]
    assert registry.summary() == "toy_add (local): timeout 5000 ms, 2 attempts, cache 9 s"


def test_asynchronous_callers_get_the_same_envelope(package: Package) -> None:
    bound = package.load().bind(1)
    assert asyncio.run(bound.atool_call("toy_add", emp_id="2")) == bound.tool_call("toy_add", emp_id="2")
    assert not asyncio.run(bound.atool_call("toy_add")).ok
