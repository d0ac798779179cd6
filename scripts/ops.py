"""Write what an operator needs, from the contracts: Prometheus recording and alerting rules, and a Grafana dashboard.

    python -m scripts.ops build                       # the tools of every known domain -> ops/
    python -m scripts.ops build my_domain/tools --out my_ops

Alerts: calls halved within an hour, P95 above 3 s for 5 minutes, errors above 5 % for 10 minutes, outputs valid below
99.9 % for an hour. --speed N makes every window and wait N times shorter, to try them out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from env.contract import ContractError, ToolContract
from env.domains import domain, known
from env.telemetry import ALERT_S

HOUR, TEN, FIVE, EVERY = 3600, 600, 300, 30  # seconds


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build"])
    parser.add_argument("folder", type=Path, nargs="?", help="with contracts (default: those of every known domain)")
    parser.add_argument("--out", type=Path, default=Path("ops"), help="folder to write (default: ops)")
    parser.add_argument("--speed", type=int, default=1, metavar="N", help="windows N times shorter (default: 1)")
    options = parser.parse_args(argv)
    if options.speed < 1:
        parser.error(f"--speed must be at least 1, got {options.speed}")
    try:
        contracts = of_folder(options.folder) if options.folder else of_domains()
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in files(contracts, options.speed).items():
            (options.out / name).write_text(text, "utf-8")
            print(options.out / name)
    except (OSError, ContractError, ValueError) as error:
        print(f"ops: error: {error}", file=sys.stderr)
        return 2
    return 0


def of_folder(folder: Path) -> list[ToolContract]:
    """Raises ContractError, FileNotFoundError where there is none."""
    found = [ToolContract.load(path) for path in sorted(folder.glob("*.yaml"))]
    if not found:
        raise FileNotFoundError(f"{folder}: no *.yaml")
    return found


def of_domains() -> list[ToolContract]:
    registries = [domain(name).registry() for name in known()]
    return [registry.contract(name) for registry in registries for name in registry.names]


def files(contracts: Sequence[ToolContract], speed: int = 1) -> dict[str, str]:
    """File name -> content."""
    return {
        "rules.yaml": "# Written by `python -m scripts.ops build`.\n"
        + yaml.safe_dump(rules(contracts, speed), sort_keys=False, width=120),
        "dashboard.json": json.dumps(dashboard(contracts), indent=1, ensure_ascii=False) + "\n",
    }


def rules(contracts: Sequence[ToolContract], speed: int = 1) -> dict[str, Any]:
    """What the contracts promise as series, recording rules for the rates, and the four alerts on them."""
    hour, ten, five = (_seconds(seconds, speed) for seconds in (HOUR, TEN, FIVE))
    every = _seconds(EVERY, speed)
    return {
        "groups": [
            {"name": "contracts", "interval": every, "rules": promises(contracts)},
            {"name": "tools", "interval": every, "rules": rates(five)},
            {"name": "tool alerts", "interval": every, "rules": alerts(hour, ten, five)},
        ]
    }


def _seconds(seconds: int, speed: int) -> str:
    return f"{max(1, seconds // speed)}s"


def promises(contracts: Sequence[ToolContract]) -> list[dict[str, Any]]:
    """Constants: the timeout of each tool, who needs which upstream, and what each upstream has promised."""
    found = [_constant("tool_timeout_seconds", each.timeout_ms / 1000, tool=each.name) for each in contracts]
    for name, tools in sorted(by_upstream(contracts).items()):
        found += [_constant("tool_upstream", 1, tool=tool, upstream=name) for tool in tools]
    for name, sla in sorted(slas(contracts).items()):
        found.append(_constant("upstream_sla_availability", round(sla["availability"] / 100, 6), upstream=name))
        found.append(_constant("upstream_sla_p95_seconds", sla["p95_ms"] / 1000, upstream=name))
    return found


def _constant(name: str, value: float, **labels: str) -> dict[str, Any]:
    return {"record": name, "expr": f"vector({value:g})", "labels": labels}


def slas(contracts: Sequence[ToolContract]) -> dict[str, Mapping[str, float]]:
    """What each upstream promises. Raises ValueError where two contracts do not agree."""
    found: dict[str, Mapping[str, float]] = {}
    for contract in contracts:
        for name, sla in contract.upstream_sla.items():
            if found.setdefault(name, sla) != sla:
                raise ValueError(
                    f"{contract.path}: upstream_sla of {name}: expected {found[name]} as elsewhere, got {sla}"
                )
    return found


def rates(window: str) -> list[dict[str, Any]]:
    """Recording rules by tool. A ratio whose numerator has no series yet is 0, not missing."""

    def rate(series: str, by: str = "tool") -> str:
        return f"sum by ({by}) (rate({series}[{window}]))"

    calls, outputs = rate("tool_call_total"), rate("tool_output_schema_valid_total")
    errors, valid = rate('tool_call_total{status="error"}'), rate('tool_output_schema_valid_total{valid="true"}')
    in_time, timed = rate(f'tool_duration_seconds_bucket{{le="{ALERT_S}"}}'), rate("tool_duration_seconds_count")
    recorded = {
        "tool_call_rate": calls,
        "tool_success_rate": rate('tool_call_total{status="success"}'),
        "tool_error_rate": f"({errors} or {calls} * 0) / {calls}",
        "tool_duration_seconds_p95": f"histogram_quantile(0.95, {rate('tool_duration_seconds_bucket', 'tool, le')})",
        "tool_duration_seconds_mean": f"{rate('tool_duration_seconds_sum')} / {timed}",
        "tool_slow_share": f"1 - {in_time} / {timed}",
        "tool_output_schema_valid_ratio": f"({valid} or {outputs} * 0) / {outputs}",
    }
    return [{"record": name, "expr": expression} for name, expression in recorded.items()]


def alerts(hour: str, ten: str, five: str) -> list[dict[str, Any]]:
    """The four, with the windows given."""
    before = f"tool_success_rate offset {hour}"
    return [
        _alert(
            "ToolCallsHalved",
            # Of a process that is gone there is no rate at all, which is the worst of falls.
            f"(tool_success_rate or {before} * 0) < 0.5 * ({before})",
            five,
            "Successful calls of {{ $labels.tool }} fell by more than half within an hour.",
            "Look at the model and its prompt first: a planner that stops calling looks like this.",
        ),
        _alert(
            "ToolSlow",
            # P95 is above 3 s where more than 5 % take longer. A quantile of buckets cannot exceed the last edge, which
            # is 3 s itself for a tool with a short timeout.
            "tool_slow_share > 0.05",
            five,
            "P95 of {{ $labels.tool }} is above 3 s.",
            "Network, database or computation: compare with the upstream's own panel.",
        ),
        _alert(
            "ToolErrors",
            "tool_error_rate > 0.05",
            ten,
            "More than 5 % of the calls of {{ $labels.tool }} fail.",
            "Group the log by code: invalid_arguments is the model, unavailable and rate_limited are upstream.",
        ),
        _alert(
            "ToolOutputInvalid",
            "tool_output_schema_valid_ratio < 0.999",
            hour,
            "Outputs of {{ $labels.tool }} break their contract.",
            "The tool or its upstream changed: python -m scripts.call shows the field.",
        ),
    ]


def _alert(name: str, expression: str, wait: str, summary: str, action: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": "warning"},
        "annotations": {"summary": summary, "action": action},
    }


def dashboard(contracts: Sequence[ToolContract]) -> dict[str, Any]:
    """Four panels per tool and three per upstream dependency, with what the contracts promise as a line in them."""
    panels: list[dict[str, Any]] = []
    for contract in contracts:
        panels += _of_tool(contract, len(panels))
    for name, tools in sorted(by_upstream(contracts).items()):
        panels += _of_upstream(name, tools, slas(contracts).get(name), len(panels))
    return {"title": "stepcredit tools", "uid": "stepcredit-tools", "schemaVersion": 39, "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"}, "panels": panels}  # fmt: skip


def _of_tool(contract: ToolContract, place: int) -> list[dict[str, Any]]:
    name, limit = contract.name, contract.timeout_ms / 1000
    tool = f'{{tool="{name}"}}'
    durations = {
        "P95": f"tool_duration_seconds_p95{tool}",
        "mean": f"tool_duration_seconds_mean{tool}",
        "timeout": f"tool_timeout_seconds{tool}",
    }
    return [
        _panel(f"{name}: calls/s", {"calls": f"tool_call_rate{tool}", "successes": f"tool_success_rate{tool}"}, place),
        _panel(f"{name}: error rate", {"errors": f"tool_error_rate{tool}"}, place + 1, 0.05, "percentunit"),
        _panel(f"{name}: duration, timeout {limit:g} s", durations, place + 2, limit, "s"),
        _panel(
            f"{name}: valid outputs",
            {"valid": f"tool_output_schema_valid_ratio{tool}"},
            place + 3,
            0.999,
            "percentunit",
        ),
    ]


def _of_upstream(name: str, tools: Sequence[str], sla: Mapping[str, float] | None, place: int) -> list[dict[str, Any]]:
    """Its tools taken together. The promise is drawn where a contract declares one."""
    chosen, upstream = f'{{tool=~"{"|".join(tools)}"}}', f'{{upstream="{name}"}}'
    success = {"success": f"sum(tool_success_rate{chosen}) / sum(tool_call_rate{chosen})"}
    slowest = {"slowest P95": f"max(tool_duration_seconds_p95{chosen})"}
    calls = {"{{tool}}": f"tool_call_rate{chosen}"}
    if sla is None:
        return [
            _panel(f"upstream {name}: success, no SLA declared", success, place, None, "percentunit"),
            _panel(f"upstream {name}: P95, no SLA declared", slowest, place + 1, None, "s"),
            _panel(f"upstream {name}: calls/s", calls, place + 2),
        ]
    share, limit = sla["availability"] / 100, sla["p95_ms"] / 1000
    success["SLA"], slowest["SLA"] = f"upstream_sla_availability{upstream}", f"upstream_sla_p95_seconds{upstream}"
    return [
        _panel(f"upstream {name}: success, SLA {sla['availability']:g} %", success, place, share, "percentunit"),
        _panel(f"upstream {name}: P95, SLA {limit:g} s", slowest, place + 1, limit, "s"),
        _panel(f"upstream {name}: calls/s", calls, place + 2),
    ]


def by_upstream(contracts: Sequence[ToolContract]) -> Mapping[str, list[str]]:
    """Upstream dependency -> names of the tools that need it."""
    found: dict[str, list[str]] = {}
    for contract in contracts:
        for upstream in contract.upstream_dependencies:
            found.setdefault(upstream, []).append(contract.name)
    return found


def _panel(
    title: str, series: Mapping[str, str], place: int, threshold: float | None = None, unit: str = "short"
) -> dict[str, Any]:
    """series: legend -> expression. threshold: drawn as a line."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if threshold is not None:
        steps.append({"color": "red", "value": threshold})
    defaults = {
        "unit": unit,
        "custom": {"thresholdsStyle": {"mode": "off" if threshold is None else "line"}},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": title,
        "gridPos": {"h": 7, "w": 6, "x": 6 * (place % 4), "y": 7 * (place // 4)},
        "targets": [
            {"expr": expression, "legendFormat": legend, "refId": chr(ord("A") + index)}
            for index, (legend, expression) in enumerate(series.items())
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }


if __name__ == "__main__":
    sys.exit(main())
