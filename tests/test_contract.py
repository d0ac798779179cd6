"""What makes a contract unusable, what arguments and outputs it accepts, and what it tells the model."""

from __future__ import annotations

import copy
import json
import math
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env.contract import MAX_DEPTH, ContractError, ToolContract, json_copy
from env.types import ErrorCode, ToolError

TOY = """\
name: toy_leave
description: Toy.
timeout: 2000
idempotent: true
requires: [emp_id]
produces: [records]
upstream_dependencies: [oa]
latency_ms: 40
input_schema:
  type: object
  additionalProperties: false
  required: [emp_id]
  properties:
    emp_id:
      type: string
      x-kind: id
      minLength: 1
      maxLength: 8
      description: Employee id.
    start_date: {type: string, format: date, description: First day.}
    page: {type: integer, minimum: 1, maximum: 99, default: 1, description: Page.}
    weight: {type: number, exclusiveMinimum: 0, description: Weight.}
    kinds:
      type: array
      maxItems: 2
      uniqueItems: true
      items: {enum: [annual, sick, no]}
      description: Kinds.
    flags: {type: [boolean, "null"], description: Flags.}
    filter:
      type: object
      description: Filter.
      additionalProperties: false
      required: [level]
      properties:
        level: {type: integer, description: Level.}
        managers: {type: array, description: Ids., items: {type: string, x-kind: id}}
        x-ray: {type: string, default: "off", description: A name that looks like an annotation.}
output_schema:
  type: object
  additionalProperties: false
  required: [total]
  properties:
    total: {type: integer}
    day: {type: string, format: date}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "toy_leave.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToolContract:
    return ToolContract.load(written(tmp_path_factory.mktemp("toy"), TOY))


def refusal(contract: ToolContract, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as caught:
        contract.check_arguments(arguments)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
    assert str(caught.value) == f"invalid_arguments: {caught.value.detail}"
    return caught.value.detail


# --- loading


def test_fields(toy: ToolContract) -> None:
    assert (toy.name, toy.description, toy.timeout_ms, toy.latency_ms) == ("toy_leave", "Toy.", 2000, 40)
    assert (toy.idempotent, toy.is_async, toy.module_path) == (True, False, None)
    assert (toy.requires, toy.produces, toy.upstream_dependencies) == (("emp_id",), ("records",), ("oa",))
    assert toy.path.name == "toy_leave.yaml"


# What is replaced in TOY, by what, the line that the error names, and a part of what it says.
SPOILED: dict[str, tuple[str, str, int, str]] = {
    "unknown key": ("latency_ms: 40", "retries: 40", 8, "unknown key 'retries'; allowed: name, description"),
    "duplicate key": ("latency_ms: 40", "name: other", 8, "duplicate key 'name', first on line 1"),
    "duplicate property": ("    flags:", "    page:", 29, "duplicate key 'page', first on line 21"),
    "alias": ("[oa]", "*x", 7, "alias"),
    "python tag": ("[oa]", "!!python/tuple [oa]", 7, "python/tuple"),
    "no name": ("name: toy_leave\n", "", 1, "name is missing"),
    "name with a dash": ("toy_leave", "toy-leave", 1, "name: expected"),
    "name that is a number": ("toy_leave", "12", 1, "got 12"),
    "no description": ("description: Toy.\n", "", 1, "description is missing"),
    "empty description": ("description: Toy.", "description:", 2, "description: expected a text"),
    "blank description": ("description: Toy.", "description: '  '", 2, "description: expected a text"),
    "description that is a list": ("description: Toy.", "description: [a]", 2, 'got ["a"]'),
    "timeout with a unit": ("2000", "2s", 3, "timeout: expected a whole number of milliseconds above 0, got '2s'"),
    "timeout of 0": ("2000", "0", 3, "timeout"),
    "timeout as a fraction": ("2000", "2000.0", 3, "timeout"),
    "timeout as octal": ("2000", "02000", 3, "got '02000'"),
    "boolean timeout": ("2000", "true", 3, "timeout"),
    "idempotent: yes": ("idempotent: true", "idempotent: yes", 4, "idempotent: expected true or false, got 'yes'"),
    "requires as text": ("[emp_id]\nproduces", "emp_id\nproduces", 5, "requires: expected a list of texts"),
    "requires twice": ("[emp_id]\nproduces", "[a, a]\nproduces", 5, "requires"),
    "requires a number": ("[emp_id]\nproduces", "[1]\nproduces", 5, "requires"),
    "no input schema": ("input_schema:", "x-input:", 9, "unknown key"),
    "input schema of text": (TOY[TOY.index("input_schema") :], "input_schema: x\noutput_schema: {}", 9, "got 'x'"),
    "no output schema": (TOY[TOY.index("output_schema") :], "", 1, "output_schema is missing"),
    "empty output schema": (TOY[TOY.index("output_schema") :], "output_schema:", 39, "expected a JSON Schema object"),
    "input that is a list": ("input_schema:\n  type: object", "input_schema:\n  type: array", 10, "type object"),
    "input without a type": ("input_schema:\n  type: object", "input_schema:", 9, "expected type object, got null"),
    "open input": (
        "  additionalProperties: false\n  required: [emp",
        "  required: [emp",
        9,
        "additionalProperties: false",
    ),
    "openly open input": ("additionalProperties: false\n  req", "additionalProperties: true\n  req", 11, "got true"),
    "required stranger": ("required: [emp_id]", "required: [id]", 12, "'id' is required but not a property"),
    "argument undescribed": ("      description: Employee id.\n", "", 14, "argument emp_id: expected a description"),
    "argument's empty text": ("description: First day.", "description: ''", 20, "argument start_date"),
    "nested undescribed": (", description: Level.", "", 36, "argument filter.level"),
    "argument true": (
        "weight: {type: number, exclusiveMinimum: 0, description: Weight.}",
        "weight: true",
        22,
        "weight",
    ),
    "unknown type": ("type: integer, minimum: 1", "type: int, minimum: 1", 21, "no JSON Schema 2020-12"),
    "limit as text": ("maxItems: 2", "maxItems: two", 25, "'two' is not of type"),
    "unknown format": ("format: date, desc", "format: day, desc", 20, "format: 'day'"),
    "broken pattern": ("maxLength: 8", "pattern: '('", 18, "'(' is not"),
    "required as text": ("required: [emp_id]", "required: emp_id", 12, "no JSON Schema 2020-12"),
    "type null unquoted": ('"null"', "null", 29, "no JSON Schema 2020-12"),
    "reference to the network": (
        "type: integer, minimum: 1",
        "$ref: 'http://127.0.0.1:9/x', minimum: 1",
        9,
        "127.0.0.1",
    ),
    "reference to nothing": ("type: integer, minimum: 1", "$ref: '#/$defs/x', minimum: 1", 9, "/$defs/x"),
    "bad output schema": ("total: {type: integer}", "total: {type: intege}", 44, "output_schema is no JSON Schema"),
    "default against its schema": (
        "default: 1",
        "default: 0",
        21,
        "expected a value of its own schema, got 0",
    ),
    "default of another type": ("default: 1", "default: '1'", 21, "got '1'"),
    "id of another type": ("type: string\n      x-kind", "type: integer\n      x-kind", 16, "expected type string"),
    "unknown kind": ("x-kind: id\n", "x-kind: ids\n", 16, "expected id, got 'ids'"),
    "not a mapping": (TOY, "- a\n- b\n", 1, "expected a mapping"),
    "nothing": (TOY, "", 1, "empty"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_spoiled_contracts_are_refused_with_file_and_line(case: str, tmp_path: Path) -> None:
    old, new, line, says = SPOILED[case]
    assert TOY.count(old) >= 1
    file = written(tmp_path, TOY.replace(old, new, 1))
    with pytest.raises(ContractError) as caught:
        ToolContract.load(file)
    assert str(caught.value).startswith(f"{file}:{line}: "), str(caught.value)
    assert says in str(caught.value)


def test_yaml_does_not_corrupt_values(tmp_path: Path) -> None:
    spelled = TOY.replace("enum: [annual, sick, no]", "enum: [0123, 2026-06-01, yes, no, on]")
    contract = ToolContract.load(written(tmp_path, spelled))
    kinds = contract.input_schema["properties"]["kinds"]["items"]["enum"]
    assert kinds == ["0123", "2026-06-01", "yes", "no", "on"]


# --- arguments

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({}, "emp_id: is required"),
    "month 13": ({"start_date": "2023-13-01"}, "start_date: '2023-13-01' is not a date (YYYY-MM-DD)"),
    "no leap year": ({"start_date": "2023-02-29"}, "start_date: '2023-02-29' is not a date (YYYY-MM-DD)"),
    "year 0": ({"start_date": "0000-01-01"}, "start_date: '0000-01-01' is not a date (YYYY-MM-DD)"),
    "other digits": ({"start_date": "２０２３-01-02"}, "start_date: '２０２３-01-02' is not a date (YYYY-MM-DD)"),
    "slashes": ({"start_date": "2023/01/02"}, "start_date: '2023/01/02' is not a date (YYYY-MM-DD)"),
    "number in text": ({"page": "5"}, "page: '5' is not of type integer"),
    "boolean as integer": ({"page": True}, "page: true is not of type integer"),
    "fraction": ({"page": 1.5}, "page: 1.5 is not of type integer"),
    "below": ({"page": 0}, "page: 0 is less than the minimum of 1"),
    "above": ({"page": 100}, "page: 100 is greater than the maximum of 99"),
    "null": ({"start_date": None}, "start_date: null is not of type string"),
    "two types": ({"flags": "yes"}, "flags: 'yes' is not of type null or boolean"),
    "enum": ({"kinds": ["annual", "x"]}, """kinds.1: 'x' is not one of "annual", "sick" or "no\""""),
    "repeated": ({"kinds": ["sick", "sick"]}, 'kinds: ["sick", "sick"] has non-unique elements'),
    "unknown": (
        {"foo": 1},
        "unknown argument 'foo'; allowed: emp_id, start_date, page, weight, kinds, flags, filter",
    ),
    "nested missing": ({"filter": {}}, "filter.level: is required"),
    "nested unknown": (
        {"filter": {"level": 1, "lvl": 2}},
        "filter: unknown argument 'lvl'; allowed: level, managers, x-ray",
    ),
    "empty id": ({"emp_id": " "}, "emp_id: '' is shorter than 1 character"),
    "boolean id": ({"emp_id": True}, "emp_id: true is not of type string"),
    "null id": ({"emp_id": None}, "emp_id: null is not of type string"),
    "list of an id": ({"emp_id": ["1"]}, 'emp_id: ["1"] is not of type string'),
    "object id": ({"emp_id": {"id": 1}}, 'emp_id: {"id": 1} is not of type string'),
    "fractional id": ({"emp_id": 1001.5}, "emp_id: 1001.5 is not of type string"),
    "not a number": ({"weight": math.nan}, "weight: has a number out of range (64 bits)"),
    "infinite": ({"weight": math.inf}, "weight: has a number out of range (64 bits)"),
    "huge integer": ({"weight": 10**5000}, "weight: has a number out of range (64 bits)"),
    "huge id": ({"emp_id": 1e300}, "emp_id: has a number out of range (64 bits)"),
    "lone surrogate": ({"emp_id": "\ud800"}, "emp_id: has text that is not Unicode (a lone surrogate)"),
    "not JSON": ({"emp_id": {1}}, "emp_id: is not plain JSON: set"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_field_rule_and_value(case: str, toy: ToolContract) -> None:
    arguments, detail = REFUSED[case]
    needed = {} if case == "missing" else {"emp_id": "1"}
    assert refusal(toy, needed | arguments) == detail


def test_a_refusal_is_short_and_one_line(toy: ToolContract) -> None:
    detail = refusal(
        toy, {"start_date": "x\n" * 5000, "page": "9" * 5000, "kinds": list("abcdef"), "z" * 5000: 1, "\ud800": 1} | {}
    )
    assert "\ud800: has text that is not Unicode" not in detail and detail.startswith("\\ud800: ")
    detail = refusal(toy, {"start_date": "x\n" * 5000, "page": "9" * 5000, "kinds": list("abcdef"), "z" * 5000: 1})
    assert detail.endswith("more") and detail.count(";") >= 3
    assert len(detail) < 600 and "\n" not in detail


@pytest.mark.parametrize(
    ("given_id", "text"),
    [(1001, "1001"), (1001.0, "1001"), ("1001", "1001"), ("007", "007"), (" E07\u3000", "E07"), (0, "0"), (-0.0, "0")],
)
def test_ids_become_text_and_text_stays(given_id: object, text: str, toy: ToolContract) -> None:
    checked = toy.check_arguments({"emp_id": given_id, "filter": {"level": 1, "managers": [given_id]}})
    assert checked["emp_id"] == text
    assert checked["filter"]["managers"] == [text]


def test_integers_and_defaults(toy: ToolContract) -> None:
    given_arguments = {"emp_id": "1", "page": 2.0, "weight": 2.0, "filter": {"level": 3.0}}
    before = copy.deepcopy(given_arguments)
    checked = toy.check_arguments(given_arguments)
    assert checked == {"emp_id": "1", "page": 2, "weight": 2.0, "filter": {"level": 3, "x-ray": "off"}}
    kinds = [type(checked["page"]), type(checked["weight"]), type(checked["filter"]["level"])]
    assert kinds == [int, float, int]
    assert given_arguments == before
    assert toy.check_arguments({"emp_id": "1"}) == {"emp_id": "1", "page": 1}
    assert toy.check_arguments(checked) == checked


def nested(levels: int, wrap_in_list: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if wrap_in_list else {"a": value}
    return value


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, sys.getrecursionlimit() * 2, 100_000])
@pytest.mark.parametrize("wrap_in_list", [True, False])
def test_nesting_is_bounded(levels: int, wrap_in_list: bool, toy: ToolContract) -> None:
    assert "levels" in refusal(toy, {"emp_id": nested(levels, wrap_in_list)})


def test_size_is_bounded() -> None:
    shared: Any = []
    for _ in range(30):
        shared = [shared] * 9
    with pytest.raises(ValueError, match="values"):
        json_copy(shared)
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="levels"):
        json_copy(cycle)


# --- verdicts

PLAIN: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["day"],
    "properties": {
        "day": {"type": "string", "format": "date", "description": "d"},
        "page": {"type": "integer", "minimum": 1, "maximum": 20, "description": "d"},
        "share": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5, "description": "d"},
        "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z张]+$", "description": "d"},
        "kind": {"enum": ["a", 1, None], "description": "d"},
        "tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}, "description": "d"},
        "more": {"type": ["object", "null"], "required": ["n"], "properties": {"n": {"type": "integer"}}},
    },
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 25)
    | st.sampled_from([1.0, 1.5, -0.0, 20.0, 0.5, 2**62, 1e15])
    | st.sampled_from(["", "a", "5", "ab", "abcd", "张", "张三丰", "True", "😀😀😀"])
    | st.sampled_from(["2024-02-29", "2023-02-29", "2023-13-01", "2023-1-1", "20230101", "2023-W01-1", "0000-01-01"])
    | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True)
    | st.text(max_size=4)
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.sampled_from(["n", "m"]), SCALARS, max_size=2)
ARGUMENTS = st.fixed_dictionaries(
    {"day": st.dates().map(str) | VALUES},
    optional={name: VALUES for name in [*PLAIN["properties"], "stranger"] if name != "day"},
) | st.dictionaries(st.sampled_from([*PLAIN["properties"], "x"]), VALUES, max_size=3)
ORACLE = jsonschema.Draft202012Validator(PLAIN, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
SUBJECT = ToolContract("plain", "d", PLAIN, {"type": "object"}, Path("plain.yaml"))


@settings(max_examples=600, deadline=None)
@given(arguments=ARGUMENTS)
def test_verdicts_equal_jsonschemas(arguments: dict[str, Any]) -> None:
    try:
        checked = SUBJECT.check_arguments(arguments)
    except ToolError as error:
        assert not ORACLE.is_valid(arguments), f"only we refuse {arguments}: {error}"
        assert error.detail and len(error.detail) < 1200 and "\n" not in error.detail
    else:
        assert ORACLE.is_valid(arguments), f"only we accept {arguments}"
        assert ORACLE.is_valid(checked)
        assert SUBJECT.check_arguments(checked) == checked


# --- output

BAD_OUTPUTS: dict[str, tuple[Any, str]] = {
    "missing": ({}, "total: is required"),
    "text": ({"total": "1"}, "total: '1' is not of type integer"),
    "date": ({"total": 1, "day": "2023-13-01"}, "day: '2023-13-01' is not a date (YYYY-MM-DD)"),
    "extra": ({"total": 1, "sum": 1}, "unknown field 'sum'; allowed: total, day"),
    "nothing": (None, "null is not of type object"),
    "tuple": ({"total": (1,)}, "output is not plain JSON: tuple"),
    "nan": ({"total": math.nan}, "output has a number out of range (64 bits)"),
    "numbered key": ({1: 1}, "output has a key that is not text: '1'"),
}


@pytest.mark.parametrize("case", BAD_OUTPUTS)
def test_bad_output(case: str, toy: ToolContract) -> None:
    data, detail = BAD_OUTPUTS[case]
    with pytest.raises(ToolError) as caught:
        toy.check_output(data)
    assert (caught.value.code, caught.value.detail) == (ErrorCode.OUTPUT_INVALID, detail)


def test_good_output_is_copied(toy: ToolContract) -> None:
    data = {"total": 1, "day": "2024-02-29"}
    checked = toy.check_output(data)
    assert checked == data and checked is not data


# --- for the model


def test_for_model_shows_the_contract_without_annotations(toy: ToolContract) -> None:
    shown = toy.for_model()
    assert list(shown) == ["type", "function"] and shown["type"] == "function"
    assert list(shown["function"]) == ["name", "description", "parameters"]
    parameters = shown["function"]["parameters"]
    assert list(parameters["properties"]) == list(toy.input_schema["properties"])
    assert parameters["properties"]["emp_id"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 8,
        "description": "Employee id.",
    }
    assert "x-ray" in parameters["properties"]["filter"]["properties"]
    assert "x-kind" not in json.dumps(shown) and "additionalProperties" not in json.dumps(shown)


def test_for_model_gives_nothing_away_to_change(toy: ToolContract) -> None:
    before = json.dumps(toy.for_model())
    toy.for_model()["function"]["parameters"]["properties"].clear()
    assert json.dumps(toy.for_model()) == before


def test_output_defaults_are_filled_in_on_the_way_out(tmp_path: Path) -> None:
    """As on the way in: a member that the tool left out gets the default that the output schema names, nested too."""
    path = written(
        tmp_path,
        """
name: report
description: A report.
input_schema: {type: object, additionalProperties: false, properties: {}}
output_schema:
  type: object
  required: [unit, rows]
  properties:
    anything: true
    unit: {type: string, default: CNY}
    rows:
      type: array
      items: {type: object, required: [note], properties: {note: {type: string, default: none}}}
""",
    )
    contract = ToolContract.load(path)
    returned = {"rows": [{}, {"note": "late"}]}
    assert contract.check_output(returned) == {"rows": [{"note": "none"}, {"note": "late"}], "unit": "CNY"}
    assert returned == {"rows": [{}, {"note": "late"}]}, "the tool's own object stays as it was"
    assert contract.check_output({"rows": [], "anything": {"a": 1}})["anything"] == {"a": 1}
    with pytest.raises(ToolError, match="rows: is required"):
        contract.check_output({})
