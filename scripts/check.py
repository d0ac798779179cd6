"""The onboarding checklist for tools: is this contract, and its function, fit to be trained on?

    python -m scripts.check                    # the domains that ship
    python -m scripts.check my_domain/tools    # a folder of YAML + Python pairs
    python -m scripts.check --list             # the items: what, why, how to mend

Where the folder belongs to a domain (ours, or one of STEPCREDIT_DOMAINS), its tools also run: on hostile texts, which
must leave the world as it was. Exit status 0 in order, 1 problems, 2 could not run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from env.checklist import ITEMS, Problem, check_folder
from env.domains import domain, known
from env.negatives import injected
from env.types import ErrorCode, ToolCall

NOW = "2026-06-03T09:00:00+08:00"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="with *.yaml (default: the tools of every known domain)")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument("--list", action="store_true", help="print the items and stop")
    options = parser.parse_args(argv)
    if options.list:
        print_items(options.json)
        return 0
    try:
        homes = {name: folder_of(name) for name in known()}
        folders = [options.folder] if options.folder else list(homes.values())
        tools, problems = 0, list[Problem]()
        for folder in folders:
            contracts, found = check_folder(folder)
            tools, problems = tools + len(contracts), problems + found
            for name, home in homes.items():
                if home.resolve() == folder.resolve():
                    problems += hostile(name)
    except (OSError, SyntaxError, ValueError) as error:
        print(f"check: error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"tools": tools, "items": len(ITEMS), "problems": [asdict(each) for each in problems]}))
    else:
        print_problems(problems)
        print(f"{tools} tools, {len(ITEMS)} items each: {len(problems) or 'no'} problem{'s'[: len(problems) != 1]}")
    return 1 if problems else 0


def folder_of(name: str) -> Path:
    """Where a domain keeps its contracts. Raises ValueError where it has no tool."""
    registry = domain(name).registry()
    if not registry.names:
        raise ValueError(f"domain {name} has no tools")
    return registry.contract(registry.names[0]).path.parent


def hostile(name: str) -> Iterator[Problem]:
    """What goes wrong when every free text of a domain's tools is hostile."""
    where = domain(name)
    world: Any = where.open_world(where.EXAMPLE, NOW, "check")
    before = fingerprint(world)
    registry = where.registry().bind(world)
    for tool in registry.names:
        contract = registry.contract(tool)
        for negative in injected(contract):
            result = registry.call(ToolCall(tool, dict(negative.arguments))).result
            if result.code in (ErrorCode.INTERNAL_ERROR, ErrorCode.OUTPUT_INVALID):
                how = "take texts for what they are: bound parameters, no formatting into queries or code"
                yield Problem(str(contract.path), "hostile_text", f"{negative.name}: {result.message}", how)
            if fingerprint(world) != before:
                how = "a call with a hostile text changed the world; bind parameters"
                yield Problem(str(contract.path), "world_changed", negative.name, how)
                return
    world.close()


def fingerprint(world: Any) -> str:
    """Of everything that a world remembers: its own `fingerprint`, else what its attributes print as."""
    own = getattr(world, "fingerprint", None)
    return str(own()) if own else hashlib.sha256(repr(sorted(vars(world).items())).encode()).hexdigest()


def print_items(as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"id": item.id, "what": item.what, "why": item.why, "how": item.how} for item in ITEMS]))
        return
    table = Table("item", "what", "why", "how to mend", show_lines=True)
    for item in ITEMS:
        table.add_row(item.id, item.what, item.why, item.how)
    Console().print(table)


def print_problems(problems: Sequence[Problem]) -> None:
    table = Table("tool", "item", "problem", "how to mend", show_lines=True)
    for problem in problems:
        table.add_row(Path(problem.path).name, problem.item, problem.detail, problem.how)
    if problems:
        Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
