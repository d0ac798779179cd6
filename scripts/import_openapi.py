"""Write contracts for an HTTP plugin that is described by OpenAPI 3 (a local JSON or YAML file).

    python -m scripts.import_openapi plugin.yaml --out my_domain/tools --header 'Authorization: Bearer ${PLUGIN_TOKEN}'

One contract per operation that answers with JSON. Secrets stay in the environment: ${NAME} is read at every call.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from env.contract import ContractError, ToolContract
from scripts.import_mcp import UNDESCRIBED, closed_input, dumped

METHODS = ("get", "post", "put", "patch", "delete")
DEEPEST = 16  # references inside references
DROPPED = ("example", "xml", "externalDocs", "discriminator", "nullable", "readOnly", "writeOnly", "deprecated")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="OpenAPI 3 description, JSON or YAML")
    parser.add_argument("--out", type=Path, required=True, help="folder for the contracts")
    parser.add_argument("--url", help="base address (default: the first of the description's servers)")
    parser.add_argument("--header", nargs="+", default=[], metavar="'Name: value'", help="sent with every request")
    options = parser.parse_args(argv)
    try:
        description = yaml.safe_load(options.file.read_text("utf-8"))
        headers = dict(header_of(each) for each in options.header)
        options.out.mkdir(parents=True, exist_ok=True)
        for fields in contracts(description, options.url, headers):
            path = options.out / f"{fields['name']}.yaml"
            path.write_text(dumped(fields), "utf-8")
            ToolContract.load(path)
            print(path)
    except (OSError, ValueError, yaml.YAMLError, ContractError) as error:
        print(f"import_openapi: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def header_of(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"expected 'Name: value', got {text!r}")
    return name.strip(), value.strip()


def contracts(description: Any, url: str | None, headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The fields of each operation's contract. Raises ValueError for what is no OpenAPI 3 or cannot be reached."""
    if not isinstance(description, dict) or not str(description.get("openapi", "")).startswith("3"):
        raise ValueError("expected an OpenAPI 3 description")
    base = url or next((server["url"] for server in description.get("servers", ())), "")
    if not re.match(r"https?://", base):
        raise ValueError(f"expected a base address with --url, the description has {base!r}")
    for path, item in description.get("paths", {}).items():
        for method in METHODS:
            if method in item:
                yield operation(description, base.rstrip("/") + path, method, item, headers)


def operation(
    description: Mapping[str, Any], url: str, method: str, item: Mapping[str, Any], headers: Mapping[str, str]
) -> dict[str, Any]:
    """One operation as a contract."""
    declared = item[method]
    title = description.get("info", {}).get("title", "plugin")
    said = declared.get("description") or declared.get("summary") or UNDESCRIBED
    transport: dict[str, Any] = {"kind": "http", "method": method.upper(), "url": url}
    if headers:
        transport["headers"] = dict(headers)
    return {
        "name": named(declared.get("operationId") or f"{method}_{item_path(url)}"),
        "description": " ".join(said.split()),
        "timeout": 10_000,
        "idempotent": method in ("get", "put", "delete"),
        "upstream_dependencies": [named(title)],
        "input_schema": closed_input(input_schema(description, item, declared)),
        "output_schema": output_schema(description, declared),
        "transport": transport,
    }


def item_path(url: str) -> str:
    return re.sub(r"https?://[^/]+", "", url)


def named(text: str) -> str:
    """lower_case_words, at most 64 characters."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"_+", "_", re.sub(r"\W", "_", spaced, flags=re.ASCII)).strip("_").lower()[:64] or "plugin"


def input_schema(
    description: Mapping[str, Any], item: Mapping[str, Any], declared: Mapping[str, Any]
) -> dict[str, Any]:
    """Parameters of path and query, and the members of a JSON body, in one object."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for raw in [*item.get("parameters", ()), *declared.get("parameters", ())]:
        parameter = resolved(description, raw)
        if parameter["in"] not in ("path", "query"):
            continue
        rule = resolved(description, parameter.get("schema", {"type": "string"}))
        properties[parameter["name"]] = {**rule, "description": parameter.get("description") or rule.get("description")}
        required += [parameter["name"]] if parameter.get("required") else []
    body = resolved(description, declared.get("requestBody", {})).get("content", {}).get("application/json", {})
    schema = resolved(description, body.get("schema", {}))
    properties |= schema.get("properties", {})
    required += schema.get("required", [])
    return {"properties": properties, "required": required}


def output_schema(description: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Of the first 2xx answer in JSON; any object where none is described."""
    for status, raw in sorted(declared.get("responses", {}).items(), key=lambda pair: str(pair[0])):
        if str(status).startswith("2"):
            content = resolved(description, raw).get("content", {}).get("application/json", {})
            return resolved(description, content.get("schema", {})) or {"type": "object"}
    return {"type": "object"}


def resolved(description: Mapping[str, Any], value: Any, depth: int = 0) -> Any:
    """With local references put in, and without OpenAPI's own keywords. Raises ValueError for others, or a circle."""
    if depth > DEEPEST:
        raise ValueError("references nested too deeply, or in a circle")
    if isinstance(value, list):
        return [resolved(description, each, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return resolved(description, referred(description, value["$ref"]), depth + 1)
    kept = {key: inner for key, inner in value.items() if key not in DROPPED}
    if value.get("nullable") and isinstance(value.get("type"), str):
        kept["type"] = [value["type"], "null"]
    made = {key: resolved(description, inner, depth + 1) for key, inner in kept.items() if key != "properties"}
    if "properties" in kept:  # a map of names, where "example" is a name like any other
        members = kept["properties"].items()
        made["properties"] = {name: resolved(description, inner, depth + 1) for name, inner in members}
    return made


def referred(description: Mapping[str, Any], reference: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise ValueError(f"expected a reference into this file, got {reference!r}")
    found: Any = description
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or part not in found:
            raise ValueError(f"{reference} refers to nothing")
        found = found[part]
    return found


if __name__ == "__main__":
    sys.exit(main())
