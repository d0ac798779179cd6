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

HOUR, TEN, FIVE = 3600, 600, 300  # seconds


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
    plain: dict[str, Any] = rules(speed)
    return {
        "rules.yaml": "# Written by `python -m scripts.ops build`.\n"
        + yaml.safe_dump(plain, sort_keys=False, width=120),
        "dashboard.json": json.dumps(dashboard(contracts), indent=1, ensure_ascii=False) + "\n",
    }


def rules(speed: int = 1) -> dict[str, Any]:
    """Recording rules for the rates, and the four alerts on them."""
    hour, ten, five = (f"{max(1, seconds // speed)}s" for seconds in (HOUR, TEN, FIVE))
    rate = f"sum by (tool) (rate(tool_call_total[{five}]))"
    recorded = [
        ("tool_call_rate", rate),
        (
            "tool_error_rate",
            f'(sum by (tool) (rate(tool_call_total{{status="error"}}[{five}])) or {rate} * 0) / {rate}',
        ),
        (
            "tool_duration_seconds_p95",
            f"histogram_quantile(0.95, sum by (tool, le) (rate(tool_duration_seconds_bucket[{five}])))",
        ),
        (
            "tool_output_schema_valid_ratio",
            f'(sum by (tool) (rate(tool_output_schema_valid_total{{valid="true"}}[{five}]))'
            f" or sum by (tool) (rate(tool_output_schema_valid_total[{five}])) * 0)"
            f" / sum by (tool) (rate(tool_output_schema_valid_total[{five}]))",
        ),
    ]
    alerts = [
        _alert(
            "ToolCallsHalved",
            f"tool_call_rate < 0.5 * (tool_call_rate offset {hour})",
            five,
            "Calls of {{ $labels.tool }} fell by more than half within an hour.",
            "Look at the model and its prompt first: a planner that stops calling looks like this.",
        ),
        _alert(
            "ToolSlow",
            "tool_duration_seconds_p95 > 3",
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
    every = f"{max(1, 30 // speed)}s"
    return {
        "groups": [
            {"name": "tools", "interval": every, "rules": [{"record": name, "expr": expr} for name, expr in recorded]},
            {"name": "tool alerts", "interval": every, "rules": alerts},
        ]
    }


def _alert(name: str, expression: str, wait: str, summary: str, action: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": "warning"},
        "annotations": {"summary": summary, "action": action},
    }


def dashboard(contracts: Sequence[ToolContract]) -> dict[str, Any]:
    """Four panels per tool, with its timeout as the threshold, and two per upstream dependency."""
    panels: list[dict[str, Any]] = []
    for contract in contracts:
        tool = f'{{tool="{contract.name}"}}'
        limit = contract.timeout_ms / 1000
        panels += [
            _panel(f"{contract.name}: calls/s", f"tool_call_rate{tool}", len(panels)),
            _panel(f"{contract.name}: error rate", f"tool_error_rate{tool}", len(panels) + 1, 0.05),
            _panel(
                f"{contract.name}: P95, timeout {limit:g} s", f"tool_duration_seconds_p95{tool}", len(panels) + 2, limit
            ),
            _panel(f"{contract.name}: valid outputs", f"tool_output_schema_valid_ratio{tool}", len(panels) + 3, 0.999),
        ]
    for upstream, tools in sorted(by_upstream(contracts).items()):
        chosen = f'{{tool=~"{"|".join(tools)}"}}'
        timeout = min(contract.timeout_ms for contract in contracts if contract.name in tools) / 1000
        panels += [
            _panel(f"upstream {upstream}: error rate", f"max(tool_error_rate{chosen})", len(panels), 0.05),
            _panel(
                f"upstream {upstream}: P95, declared {timeout:g} s",
                f"max(tool_duration_seconds_p95{chosen})",
                len(panels) + 1,
                timeout,
            ),
        ]
    return {"title": "stepcredit tools", "uid": "stepcredit-tools", "schemaVersion": 39, "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"}, "panels": panels}  # fmt: skip


def by_upstream(contracts: Sequence[ToolContract]) -> Mapping[str, list[str]]:
    """Upstream dependency -> names of the tools that need it."""
    found: dict[str, list[str]] = {}
    for contract in contracts:
        for upstream in contract.upstream_dependencies:
            found.setdefault(upstream, []).append(contract.name)
    return found


def _panel(title: str, expression: str, place: int, threshold: float | None = None) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if threshold is not None:
        steps.append({"color": "red", "value": threshold})
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": title,
        "gridPos": {"h": 7, "w": 6, "x": 6 * (place % 4), "y": 7 * (place // 4)},
        "targets": [{"expr": expression, "refId": "A"}],
        "fieldConfig": {"defaults": {"thresholds": {"mode": "absolute", "steps": steps}}, "overrides": []},
    }


if __name__ == "__main__":
    sys.exit(main())
