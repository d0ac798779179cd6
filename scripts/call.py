"""One call through the whole pipeline: what each stage did, and the envelope that the model would read.

    python -m scripts.call get_weather city=Beijing date=2026-06-05 --domain weather
    python -m scripts.call mcp_employee_search name=张子 --row 5     # in the world of the 6th training row

Values are read as the contract declares them: text as it stands, numbers, lists and the like as JSON.
Exit status 0 where the tool succeeded, 1 where it did not, 2 where nothing was called.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from data.build import SCENARIOS, rows
from env.domains import domain, known
from env.registry import CallEvent
from env.types import JSON, ToolCall


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", help="its name, as declared")
    parser.add_argument("arguments", nargs="*", metavar="key=value")
    parser.add_argument("--domain", default="hr", help=f"one of {', '.join(known())} (default: hr)")
    parser.add_argument("--row", type=int, default=0, metavar="N", help="whose world: training row N of seed 0")
    parser.add_argument("--spec", help="the world instead, as JSON, for a domain without a scenario of ours")
    parser.add_argument("--now", default="2026-06-03T09:00:00+08:00", help="with --spec: ISO date-time with offset")
    options = parser.parse_args(argv)
    try:
        query, world = opened(options)
        events: list[CallEvent] = []
        registry = domain(options.domain).registry().bind(world, on_call=events.append)
        schema = registry.contract(options.tool).input_schema if options.tool in registry.names else {}
        given = parsed(options.arguments, schema)
    except ValueError as error:
        parser.error(str(error))
    if query:
        print(f"question    {query}")
    print(f"given       {json.dumps(given, ensure_ascii=False)}")
    outcome = registry.call(ToolCall(options.tool, given))
    event = events[0]
    checked = outcome.arguments is not None
    print(f"validated   {json.dumps(outcome.arguments, ensure_ascii=False) if checked else 'no: see the message'}")
    print(f"stages      {', '.join(event.stages) or 'straight to the tool' if checked else 'none'}")
    print(f"attempts    {event.attempts if checked else 0}   cached {str(event.cached).lower()}   {event.transport}")
    print(f"took        {event.duration_s * 1e6:.0f} µs")
    print(f"model reads {outcome.result.text()}")
    return 0 if outcome.result.ok else 1


def opened(options: argparse.Namespace) -> tuple[str, Any]:
    """The question whose world it is ("" for a spec), and the world."""
    if options.spec is None:
        if options.row < 0:
            raise ValueError(f"--row must be at least 0, got {options.row}")
        if options.domain not in SCENARIOS:
            raise ValueError(f"{options.domain} has no scenario of ours: give its world with --spec")
        row = next(islice(rows("train", options.row + 1, 0, domain=options.domain), options.row, None))
        return row.input, domain(options.domain).open_world(row.task.world, row.task.now, "row")
    try:
        spec = json.loads(options.spec)
        domain(options.domain).check_spec(spec, None)
        return "", domain(options.domain).open_world(spec, options.now, "row")
    except (json.JSONDecodeError, AttributeError) as error:
        raise ValueError(f"--spec: expected a JSON object, got {options.spec!r}: {error}") from error


def parsed(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, JSON]:
    """key=value, each value by its declared type. What is no JSON stays text, for the contract to refuse."""
    given: dict[str, JSON] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"expected key=value, got {pair!r}")
        if schema.get("properties", {}).get(key, {}).get("type", "string") == "string":
            given[key] = value
            continue
        try:
            given[key] = json.loads(value)
        except json.JSONDecodeError:
            given[key] = value
    return given


if __name__ == "__main__":
    sys.exit(main())
