"""What one tool promises: its declaration in YAML, and the checks of arguments and output against it.

A contract is checked when it is loaded, so that a call meets only the model's mistakes and the tool's. Nothing here
runs a tool or knows where one is implemented. JSON Schema is draft 2020-12 with formats asserted, by jsonschema-rs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError, ValidationErrorKind

from env import yaml_strict
from env.policies import Policies, from_contract
from env.types import JSON, ErrorCode, ToolError
from env.yaml_strict import Document, Keys

MAX_DEPTH = 32  # of arguments and outputs: deep enough for honest ones, shallow enough for every recursion below
MAX_VALUES = 100_000
MAX_NUMBER = 2**63  # databases and other JSON readers overflow above
MAX_SHOWN = 60  # characters of a value in a message
MAX_RULE = 240  # characters of the rule, which may list values
MAX_PROBLEMS = 3  # told to the model at once

Schema = dict[str, Any]


class ContractError(Exception):
    """A contract cannot be used. Text: `path:line: what was wrong, what was expected, the value`."""

    def __init__(self, path: Path, line: int, detail: str):
        super().__init__(f"{path}:{line}: {detail}")
        self.path = path
        self.line = line
        self.detail = detail


@dataclass(frozen=True)
class Transport:
    """How a tool is reached. kind: local (a Python function), mcp or http. options: as the kind needs them."""

    kind: str
    options: Mapping[str, JSON]


LOCAL = Transport("local", {})
NO_POLICIES = Policies(timeout_ms=5_000)


@dataclass(frozen=True)
class ToolContract:
    """One declared tool. Made by `load`; schemas are shared values, not to be changed."""

    name: str
    description: str
    input_schema: Schema
    output_schema: Schema
    path: Path
    line: int = 1  # of the name in `path`, for errors
    timeout_ms: int = 5_000
    latency_ms: int = 0  # simulated
    idempotent: bool = False
    blocking: bool = False  # its function may really block: it runs in a process that ends at the timeout
    is_async: bool = False  # asynchronous callers hand it to a worker; the function itself is always synchronous
    module_path: str | None = None
    requires: tuple[str, ...] = ()
    produces: tuple[str, ...] = ()
    upstream_dependencies: tuple[str, ...] = ()
    upstream_sla: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by dependency, as it was promised
    compensate: str | None = None  # the tool that undoes a call of this one
    policies: Policies = NO_POLICIES
    transport: Transport = LOCAL
    _has_ids: bool = field(init=False, repr=False, compare=False)  # most schemas need none of these walks
    _fills_input: bool = field(init=False, repr=False, compare=False)
    _fills_output: bool = field(init=False, repr=False, compare=False)
    _input: Draft202012Validator = field(init=False, repr=False, compare=False)
    _output: Draft202012Validator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_has_ids", _anywhere(self.input_schema, lambda each: each.get("x-kind") == "id"))
        object.__setattr__(self, "_fills_input", _anywhere(self.input_schema, _is_filled))
        object.__setattr__(self, "_fills_output", _anywhere(self.output_schema, lambda each: "default" in each))
        object.__setattr__(self, "_input", _compiled(self.input_schema))
        object.__setattr__(self, "_output", _compiled(self.output_schema))

    @classmethod
    def load(cls, path: Path | str) -> ToolContract:
        """The contract in one YAML file. Raises ContractError for its content, OSError where it cannot be opened."""
        try:
            document = yaml_strict.load(path)
        except yaml_strict.YamlError as error:
            raise ContractError(error.path, error.line, error.detail) from error
        _check_fields(document)
        for key in ("input_schema", "output_schema"):
            _check_schema(document, key)
        _check_input(document)
        _check_idempotent(document)
        _check_sla(document)
        fields = document.value
        values = {_ATTRIBUTES.get(key, key): _frozen(fields[key]) for key in fields if key not in _POLICIES}
        values["policies"] = from_contract(fields, fields.get("timeout", 5_000), fields.get("latency_ms", 0))
        if "transport" in fields:
            options = fields["transport"]
            values["transport"] = Transport(options["kind"], {key: options[key] for key in options if key != "kind"})
        return cls(path=document.path, line=document.line("name"), **values)

    def check_arguments(self, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        """A copy of the arguments, validated and normalised.

        Ids become text before validation; after it 1.0 becomes 1 where the schema says integer, and defaults are
        filled in. Normalisation reaches through `properties` and `items`, not through `$ref` and `anyOf`.
        Raises ToolError(INVALID_ARGUMENTS) with a detail from which a model can repair the call.
        """
        given = _argument_values(arguments)
        if self._has_ids:
            _ids_to_text(self.input_schema, given)
        if not self._input.is_valid(given):
            raise ToolError(ErrorCode.INVALID_ARGUMENTS, _problems(self._input, self.input_schema, given, "argument"))
        if self._fills_input:
            _fill(self.input_schema, given)
        return given

    def check_output(self, data: JSON) -> JSON:
        """A copy of what the tool returned, so that no later change of its world reaches a finished step.

        Members that are missing get the default that the schema names for them, through `properties` and `items` as in
        the arguments. Raises ToolError(OUTPUT_INVALID).
        """
        try:
            copied = json_copy(data)
        except ValueError as error:
            raise ToolError(ErrorCode.OUTPUT_INVALID, f"output {error}") from error
        if self._fills_output:
            _fill_defaults(self.output_schema, copied)
        if not self._output.is_valid(copied):
            raise ToolError(ErrorCode.OUTPUT_INVALID, _problems(self._output, self.output_schema, copied, "field"))
        return copied

    def for_model(self) -> dict[str, JSON]:
        """The function schema that every prompt shows, in training and evaluation alike:
        {"type": "function", "function": {"name", "description", "parameters"}}.
        """
        function = {"name": self.name, "description": self.description, "parameters": _shown_schema(self.input_schema)}
        return {"type": "function", "function": function}


def json_copy(value: JSON) -> JSON:
    """A deep copy of a plain JSON value.

    Raises ValueError for anything else, and beyond MAX_DEPTH, MAX_VALUES or MAX_NUMBER: what is accepted here can be
    walked recursively, stored in a database and written as UTF-8.
    """
    return _copied(value, 0, [MAX_VALUES - 1]) if type(value) in _NESTING else _checked_scalar(value)


_NESTING = (dict, list)


def _copied(value: JSON, depth: int, left: list[int]) -> JSON:
    """A dict or a list. left: how many values may follow, the one member; every call of a tool passes here thrice."""
    left[0] -= len(value)
    if left[0] < 0 or (depth == MAX_DEPTH and value):
        raise ValueError(f"has more than {MAX_DEPTH} levels or {MAX_VALUES} values")
    if type(value) is list:
        return [_copied(item, depth + 1, left) if type(item) in _NESTING else _checked_scalar(item) for item in value]
    return {
        _checked_key(key): _copied(item, depth + 1, left) if type(item) in _NESTING else _checked_scalar(item)
        for key, item in value.items()
    }


def _checked_key(key: object) -> str:
    if type(key) is not str:
        raise ValueError(f"has a key that is not text: {shown(str(key))}")
    if not key.isascii():
        _checked_scalar(key)
    return key


def _checked_scalar(value: JSON) -> JSON:
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_unicode(value)
        return value
    if value is None or kind is bool:
        return value
    if kind is not int and kind is not float:
        raise ValueError(f"is not plain JSON: {kind.__name__}")
    if not abs(value) < MAX_NUMBER:  # negated so that nan is refused as well
        raise ValueError("has a number out of range (64 bits)")
    return value


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has text that is not Unicode (a lone surrogate)") from None


def shown(value: JSON) -> str:
    """A value as messages show it, on one line and cut to MAX_SHOWN characters."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _cut(text, MAX_SHOWN)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 3]}..."


# --- arguments


def _argument_values(arguments: Mapping[str, JSON]) -> dict[str, JSON]:
    given = {}
    for name, value in arguments.items():
        try:
            given[_checked_key(name)] = json_copy(value)
        except ValueError as error:
            raise ToolError(ErrorCode.INVALID_ARGUMENTS, f"{_label(name)}: {error}") from error
    return given


def _ids_to_text(schema: Schema, value: JSON) -> None:
    """In place, wherever the schema declares `x-kind: id`. What is no id is left for validation to refuse."""
    for key, inner in _parts(schema, value):
        if inner.get("x-kind") == "id":
            value[key] = _id_text(value[key])
        else:
            _ids_to_text(inner, value[key])


def _id_text(value: JSON) -> JSON:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _fill(schema: Schema, value: JSON) -> None:
    """In place, after validation: integers written as 1.0, then defaults of what is missing."""
    for key, inner in _parts(schema, value):
        if isinstance(value[key], float) and _is_integer(inner) and value[key].is_integer():
            value[key] = int(value[key])
        _fill(inner, value[key])
    _add_missing(schema, value)


def _fill_defaults(schema: Schema, value: JSON) -> None:
    """In place, before validation, wherever the shape is already right."""
    for key, inner in _parts(schema, value):
        _fill_defaults(inner, value[key])
    _add_missing(schema, value)


def _add_missing(schema: Schema, value: JSON) -> None:
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name not in value and isinstance(inner, dict) and "default" in inner:
                value[name] = json_copy(inner["default"])


def _is_filled(schema: Schema) -> bool:
    return "default" in schema or _is_integer(schema)


def _anywhere(schema: Schema, holds: Callable[[Schema], bool]) -> bool:
    """Whether a schema or one of those in its properties and items is such."""
    return any(holds(each) for _, each in _subschemas(schema, ()))


def _is_integer(schema: Schema) -> bool:
    kind = schema.get("type")
    return kind == "integer" or (isinstance(kind, list) and "integer" in kind)


def _parts(schema: Schema, value: JSON) -> list[tuple[Any, Schema]]:
    """Keys of `value` that hold something, each with the schema declared for it."""
    if isinstance(value, dict) and "properties" in schema:
        declared = schema["properties"]  # `true` and `false` are schemas, too, with nothing to normalise inside
        return [(name, declared[name]) for name in value if isinstance(declared.get(name), dict)]
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [(index, schema["items"]) for index in range(len(value))]
    return []


# --- messages

_MASK = "\x00"  # stands for the value in jsonschema-rs's messages, until it is cut to size
_FORMATS = {"date": "a date (YYYY-MM-DD)", "date-time": "a date and time (2026-06-01T09:00:00+08:00)"}


@lru_cache(maxsize=4096)  # jsonschema-rs asks for every date of every call
def _is_date(text: str) -> bool:
    if len(text) != 10 or not text.isascii() or text[4] != "-" or text[7] != "-":  # fromisoformat also reads 20230101
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _compiled(schema: Schema) -> Draft202012Validator:
    return Draft202012Validator(
        schema,
        validate_formats=True,
        ignore_unknown_formats=False,  # they would pass in silence
        formats={"date": _is_date},  # the built-in one takes the year 0000, which Python's dates do not have
        offline=True,  # a $ref to the network fails at load and is not fetched
        mask=_MASK,
    )


def _problems(validator: Draft202012Validator, schema: Schema, value: JSON, noun: str) -> str:
    found = list(dict.fromkeys(_problem(error, schema, noun) for error in validator.iter_errors(value)))
    more = len(found) - MAX_PROBLEMS
    return "; ".join(found[:MAX_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def _problem(error: ValidationError, schema: Schema, noun: str) -> str:
    kind = error.kind
    where = ".".join(_label(key) for key in error.instance_path)
    if isinstance(kind, ValidationErrorKind.Required):
        return f"{where}.{kind.property}: is required" if where else f"{kind.property}: is required"
    if isinstance(kind, ValidationErrorKind.AdditionalProperties):
        problem = _unknown(noun, kind.unexpected, _declared(schema, error.schema_path[:-1]))
    else:
        problem = _rule(error)
    return f"{where}: {problem}" if where else problem


def _rule(error: ValidationError) -> str:
    kind = error.kind
    if isinstance(kind, ValidationErrorKind.Format):
        return f"{shown(error.instance)} is not {_FORMATS.get(kind.format, f'in the format {kind.format}')}"
    if isinstance(kind, ValidationErrorKind.Type):
        return f"{shown(error.instance)} is not of type {' or '.join(kind.types)}"
    return _cut(error.message, MAX_RULE).replace(_MASK, shown(error.instance))


def _unknown(noun: str, names: list[str], allowed: list[str]) -> str:
    quoted = ", ".join(f"'{_label(name)}'" for name in names[:MAX_PROBLEMS])
    return f"unknown {noun} {quoted}; allowed: {', '.join(allowed) or 'none'}"


def _declared(schema: JSON, path: list[str | int]) -> list[str]:
    """Names of the properties at a path into the schema; none where the path goes through a $ref."""
    for key in path:
        if key == "$ref":
            return []
        schema = schema[key]
    return list(schema.get("properties", ()))


def _label(key: object) -> str:
    """A key of the arguments without quotes, on one line and cut; the model may have invented it."""
    return _cut(repr(str(key))[1:-1], MAX_SHOWN)


# --- what the model is shown

_NESTED = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")
_NESTED_BY_NAME = ("properties", "$defs", "patternProperties", "dependentSchemas")
_NESTED_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def _shown_schema(schema: JSON) -> JSON:
    """A copy without annotations of ours and without the closing `additionalProperties: false`."""
    if not isinstance(schema, dict):
        return schema
    return {key: _shown_value(key, value) for key, value in schema.items() if not _hidden(key, value)}


def _hidden(key: str, value: JSON) -> bool:
    return key.startswith("x-") or (key == "additionalProperties" and isinstance(value, bool))


def _shown_value(key: str, value: JSON) -> JSON:
    if key in _NESTED_BY_NAME:
        return {name: _shown_schema(inner) for name, inner in value.items()}
    if key in _NESTED_LISTS:
        return [_shown_schema(inner) for inner in value]
    return _shown_schema(value) if key in _NESTED else json_copy(value)


# --- loading


def _is_name(value: JSON) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", value) is not None


def _is_text(value: JSON) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: JSON) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_count(value: JSON) -> bool:
    return type(value) is int and 0 <= value < MAX_NUMBER


def _is_sla(value: JSON) -> bool:
    return _has(
        value,
        {"availability": lambda share: _is_positive(share) and share < 100, "p95_ms": _is_above_zero},
        {},
    )


Holds = Callable[[JSON], bool]


def _is_positive(value: JSON) -> bool:
    return type(value) in (int, float) and 0 < value < MAX_NUMBER


def _is_above_zero(value: JSON) -> bool:
    return _is_count(value) and value > 0


def _is_codes(value: JSON) -> bool:
    return _is_texts(value) and all(code in [*ErrorCode] and ErrorCode(code).retryable for code in value)


def _is_text_map(value: JSON) -> bool:
    return isinstance(value, dict) and all(_is_text(key) and _is_text(inner) for key, inner in value.items())


def _has(value: JSON, required: Mapping[str, Holds], optional: Mapping[str, Holds]) -> bool:
    """Whether `value` is an object with these members, each of which holds, and no others."""
    if not isinstance(value, dict) or not required.keys() <= value.keys() <= {*required, *optional}:
        return False
    return all({**required, **optional}[key](inner) for key, inner in value.items())


def _is_transport(value: JSON) -> bool:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "local":
        return bool(value.keys() == {"kind"})
    if kind == "mcp":
        return _has(value, {"kind": _is_text, "server": _is_text}, {"tool": _is_text, "schema_hash": _is_text})
    if kind != "http":
        return False
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    required: dict[str, Holds] = {"kind": _is_text, "method": lambda value: value in methods, "url": _is_text}
    return _has(value, required, {"headers": _is_text_map, "arguments": _is_text_map, "result": _is_text_map})


@dataclass(frozen=True)
class _Field:
    expected: str
    holds: Holds
    required: bool = False


_FLAG = _Field("true or false", lambda value: isinstance(value, bool))
_TEXTS = _Field("a list of texts without repeats", _is_texts)
_SCHEMA = _Field("a JSON Schema object", lambda value: isinstance(value, dict), required=True)
_FIELDS: Mapping[str, _Field] = {
    "name": _Field("a name of up to 64 ASCII letters, digits and _", _is_name, required=True),
    "description": _Field("a text for the model that is not empty", _is_text, required=True),
    "input_schema": _SCHEMA,
    "output_schema": _SCHEMA,
    "timeout": _Field("a whole number of milliseconds above 0", lambda value: _is_count(value) and value > 0),
    "latency_ms": _Field("a whole number of milliseconds", _is_count),
    "idempotent": _FLAG,
    "is_async": _FLAG,
    "blocking": _FLAG,
    "module_path": _Field("the dotted name of a module", _is_text),
    "requires": _TEXTS,
    "produces": _TEXTS,
    "upstream_dependencies": _TEXTS,
    "upstream_sla": _Field(
        "what dependencies promise, each {availability: per cent, p95_ms: a whole number of milliseconds}",
        lambda value: isinstance(value, dict) and all(map(_is_sla, value.values())),
    ),
    "compensate": _Field("the name of the tool that undoes this one", _is_name),
    "retry_strategy": _Field(
        "{max_attempts: a whole number from 1, backoff_factor: a number above 0, retry_on: retryable error codes}",
        lambda value: _has(
            value, {"max_attempts": _is_above_zero}, {"backoff_factor": _is_positive, "retry_on": _is_codes}
        ),
    ),
    "circuit_breaker": _Field(
        "{failures: a whole number from 1, reset: seconds}",
        lambda value: _has(value, {"failures": _is_above_zero, "reset": _is_positive}, {}),
    ),
    "rate_limit": _Field(
        "{calls: a whole number from 1, per: seconds}",
        lambda value: _has(value, {"calls": _is_above_zero, "per": _is_positive}, {}),
    ),
    "cache": _Field("{ttl: seconds}", lambda value: _has(value, {"ttl": _is_positive}, {})),
    "transport": _Field(
        "{kind: local}, {kind: mcp, server, tool?, schema_hash?} or {kind: http, method, url, headers?, arguments?, "
        "result?}",
        _is_transport,
    ),
}
_POLICIES = ("retry_strategy", "circuit_breaker", "rate_limit", "cache", "transport")
_ATTRIBUTES = {"timeout": "timeout_ms"}


def _frozen(value: JSON) -> JSON:
    return tuple(value) if isinstance(value, list) else value


def _error(document: Document, keys: Keys, detail: str) -> ContractError:
    return ContractError(document.path, document.line(*keys), detail)


def _check_fields(document: Document) -> None:
    if not isinstance(document.value, dict):
        raise _error(document, (), f"expected a mapping with the contract's keys, got {shown(document.value)}")
    for key in document.value:
        if key not in _FIELDS:
            raise _error(document, (key,), f"unknown key {shown(key)}; allowed: {', '.join(_FIELDS)}")
    for key, wanted in _FIELDS.items():
        if wanted.required and key not in document.value:
            raise _error(document, (), f"{key} is missing; expected {wanted.expected}")
        if key in document.value and not wanted.holds(document.value[key]):
            raise _error(document, (key,), f"{key}: expected {wanted.expected}, got {shown(document.value[key])}")


def _check_idempotent(document: Document) -> None:
    """What may run a call twice, or not at all, is for tools that do not mind."""
    if document.value.get("idempotent"):
        return
    if document.value.get("blocking"):
        raise _error(document, ("blocking",), "blocking: expected idempotent: true beside it, what it changes is lost")
    for key in ("retry_strategy", "cache"):
        if key in document.value:
            raise _error(document, (key,), f"{key}: expected idempotent: true beside it, the tool may run again")


def _check_sla(document: Document) -> None:
    declared = document.value.get("upstream_dependencies", ())
    for name in document.value.get("upstream_sla", ()):
        if name not in declared:
            detail = f"upstream_sla: expected one of upstream_dependencies, got {shown(name)}"
            raise _error(document, ("upstream_sla", name), detail)


def _check_schema(document: Document, key: str) -> None:
    schema = document.value[key]
    try:
        json_copy(schema)
        _compiled(schema)
        for keys, inner in _subschemas(schema, (key,)):
            _check_annotations(document, keys, inner, schema.get("$defs", {}))
    except ValidationError as error:
        detail = error.message.replace(_MASK, shown(error.instance))
        raise _error(document, (key, *error.instance_path), f"{key} is no JSON Schema 2020-12: {detail}") from error
    except ValueError as error:
        raise _error(document, (key,), f"{key} {error}") from error


def _check_annotations(document: Document, keys: Keys, schema: Schema, definitions: Schema) -> None:
    where = ".".join(str(key) for key in keys)
    kind = schema.get("x-kind", "id")
    if kind != "id":
        raise _error(document, (*keys, "x-kind"), f"{where}: x-kind: expected id, got {shown(kind)}")
    if "x-kind" in schema and schema.get("type") != "string":
        got = shown(schema.get("type"))
        raise _error(document, (*keys, "x-kind"), f"{where}: x-kind id: expected type string, got {got}")
    if "default" in schema and not _compiled({**schema, "$defs": definitions}).is_valid(schema["default"]):
        got = shown(schema["default"])
        raise _error(document, (*keys, "default"), f"{where}: default: expected a value of its own schema, got {got}")


def _check_input(document: Document) -> None:
    schema = document.value["input_schema"]
    top: Keys = ("input_schema",)
    if schema.get("type") != "object":
        raise _error(document, (*top, "type"), f"input_schema: expected type object, got {shown(schema.get('type'))}")
    if schema.get("additionalProperties") is not False:
        got = shown(schema.get("additionalProperties"))
        raise _error(
            document, (*top, "additionalProperties"), f"input_schema: expected additionalProperties: false, got {got}"
        )
    for name in schema.get("required", ()):
        if name not in schema.get("properties", {}):
            raise _error(document, (*top, "required"), f"input_schema: {shown(name)} is required but not a property")
    for keys, inner in _subschemas(schema, top):
        for name, argument in inner.get("properties", {}).items():
            _check_described(document, (*keys, "properties", name), argument)


def _check_described(document: Document, keys: Keys, argument: JSON) -> None:
    description = argument.get("description") if isinstance(argument, dict) else None
    if not _is_text(description):
        where = ".".join(str(key) for key in keys[1:] if key != "properties")
        raise _error(
            document, keys, f"argument {where}: expected a description for the model, got {shown(description)}"
        )


def _subschemas(schema: JSON, keys: Keys) -> Iterator[tuple[Keys, Schema]]:
    """The schema itself and those of its properties and items, with their key paths."""
    if not isinstance(schema, dict):
        return
    yield keys, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _subschemas(inner, (*keys, "properties", name))
    yield from _subschemas(schema.get("items"), (*keys, "items"))
