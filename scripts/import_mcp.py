"""Write contracts for the tools of an MCP server, and later see whether the server still keeps to them.

    python -m scripts.import_mcp weather --servers servers.yaml --out my_domain/tools
    python -m scripts.import_mcp weather --servers servers.yaml --check my_domain/tools

servers.yaml: `servers: {weather: {command: [python, -m, their_server]}}`, or `{url: "https://..."}`. Names are kept
apart per server (weather__get_forecast); each contract keeps a hash of what the server declared. --check ends with
status 1 where a tool has changed, gone or come, 2 where the server cannot be asked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from env.contract import ContractError, ToolContract
from env.types import ToolError

LONGEST_TEXT = 1_000
UNDESCRIBED = "The server says nothing about it."


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", help="its name in --servers")
    parser.add_argument("--servers", type=Path, required=True, help="YAML file of servers")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="folder for the contracts")
    what.add_argument("--check", type=Path, metavar="DIR", help="folder of contracts to compare with the server")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="TOOL", help="these of the server's tools (default: all)"
    )
    options = parser.parse_args(argv)
    from env.transports.mcp_client import McpServers, load_servers

    try:
        with McpServers(load_servers(options.servers)) as servers:
            tools = {tool.name: tool for tool in servers.list_tools(options.server)}
        if unknown := sorted(set(options.only) - tools.keys()):
            raise ValueError(f"{options.server} has no tool {unknown[0]!r}; there are {', '.join(tools)}")
        tools = {name: tool for name, tool in tools.items() if not options.only or name in options.only}
        if options.check:
            drifts = list(drift(options.server, tools, options.check))
            print("\n".join(drifts) if drifts else f"{len(tools)} tools as imported")
            return 1 if drifts else 0
        for path in written(options.server, tools, options.out):
            print(path)
    except (ValueError, OSError, ToolError, ContractError) as error:
        print(f"import_mcp: error: {error}", file=sys.stderr)
        return 2
    return 0


def written(server: str, tools: Mapping[str, Any], out: Path) -> Iterator[Path]:
    """Writes each tool's contract, loading it once to be sure that it can be used."""
    out.mkdir(parents=True, exist_ok=True)
    for tool in tools.values():
        fields = contract_fields(server, tool)
        path = out / f"{fields['name']}.yaml"
        path.write_text(dumped(fields), "utf-8")
        ToolContract.load(path)
        yield path


def contract_fields(server: str, tool: Any) -> dict[str, Any]:
    """A contract for what the server declares; what it leaves open is closed."""
    hints = tool.annotations
    return {
        "name": local_name(server, tool.name),
        "description": sentence(tool.description or "") or UNDESCRIBED,
        "timeout": 10_000,
        "idempotent": bool(hints and (hints.idempotent_hint or hints.read_only_hint)),
        "upstream_dependencies": [server],
        "input_schema": closed_input(tool.input_schema),
        "output_schema": tool.output_schema or {"type": "object"},
        "transport": {"kind": "mcp", "server": server, "tool": tool.name, "schema_hash": schema_hash(tool)},
    }


def sentence(text: str) -> str:
    """With a full stop, as the other descriptions of a catalogue."""
    text = text.strip()
    return text if not text or text[-1] in ".!?。！？" else f"{text}."


def local_name(server: str, tool: str) -> str:
    """A name that two servers with equal tools do not share."""
    return re.sub(r"\W", "_", f"{server}__{tool}", flags=re.ASCII)[:64]


def closed_input(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The input schema with `additionalProperties: false` and a description for every argument."""
    properties = {name: described(rule) for name, rule in schema.get("properties", {}).items()}
    return {**schema, "type": "object", "properties": properties, "additionalProperties": False}


def described(rule: Any) -> Any:
    """A property with a description, its own members included."""
    if not isinstance(rule, dict):
        return {"description": UNDESCRIBED}
    made = {**rule, "description": rule.get("description") or UNDESCRIBED}
    if rule.get("type") == "string" and not {"maxLength", "enum", "pattern", "format", "const"} & rule.keys():
        made["maxLength"] = LONGEST_TEXT  # an endless argument never reaches the server
    if "properties" in rule:
        made["properties"] = {name: described(inner) for name, inner in rule["properties"].items()}
    items = rule.get("items")
    if isinstance(items, dict) and "properties" in items:
        inner = {name: described(each) for name, each in items["properties"].items()}
        made["items"] = {**items, "properties": inner}
    return made


def schema_hash(tool: Any) -> str:
    """Of name, description and both schemas."""
    declared = [tool.name, tool.description, tool.input_schema, tool.output_schema]
    return hashlib.sha256(json.dumps(declared, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def drift(server: str, tools: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """One line per tool that the folder and the server see differently. Raises FileNotFoundError without contracts."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    imported = {}
    for path in sorted(folder.glob("*.yaml")):
        contract = ToolContract.load(path)
        options = contract.transport.options
        if contract.transport.kind == "mcp" and options["server"] == server:
            imported[options.get("tool", contract.name)] = options.get("schema_hash")
    for name in sorted(imported.keys() | tools.keys()):
        if name not in tools:
            yield f"{name}: gone from the server"
        elif name not in imported:
            yield f"{name}: new on the server"
        elif imported[name] != schema_hash(tools[name]):
            yield f"{name}: changed on the server"


class _Plain(yaml.SafeDumper):
    """Without aliases, which our loader refuses."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dumped(fields: Mapping[str, Any]) -> str:
    """YAML that env.yaml_strict reads back as it is."""
    return yaml.dump(dict(fields), Dumper=_Plain, allow_unicode=True, sort_keys=False, width=110)


if __name__ == "__main__":
    sys.exit(main())
