"""Rules and dashboard: up to date, well-formed, and every alert fires when provoked and keeps silent otherwise."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from scripts import ops

ROOT = Path(__file__).resolve().parents[1]
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is missing")
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus (Debian) is missing")


def test_the_committed_files_are_what_the_contracts_give() -> None:
    for name, text in ops.files(ops.of_domains()).items():
        assert (ROOT / "ops" / name).read_text("utf-8") == text, f"run `python -m scripts.ops build`: {name}"


def test_every_expression_parses() -> None:
    expressions = [rule["expr"] for group in ops.rules()["groups"] for rule in group["rules"]]
    panels = ops.dashboard(ops.of_domains())["panels"]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(expressions) > 40
    for expression in expressions:
        promql_parser.parse(expression)


def test_the_dashboard_shows_every_tool_and_every_upstream() -> None:
    contracts = ops.of_domains()
    titles = [panel["title"] for panel in ops.dashboard(contracts)["panels"]]
    for contract in contracts:
        assert sum(title.startswith(f"{contract.name}: ") for title in titles) == 4
        for upstream in contract.upstream_dependencies:
            assert sum(title.startswith(f"upstream {upstream}: ") for title in titles) == 2
    assert len({panel["id"] for panel in ops.dashboard(contracts)["panels"]}) == len(titles)


@needs_promtool
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(ops.files(ops.of_domains())["rules.yaml"], "utf-8")
    done = subprocess.run(["promtool", "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 rules found" in done.stdout


def counts(name: str, labels: str, values: str) -> dict[str, str]:
    return {"series": f'{name}{{tool="get_weather"{labels}}}', "values": values}


# (alert, series that provoke it, series that do not, minute to look at); one sample a minute
CASES: list[tuple[str, list[dict[str, str]], list[dict[str, str]], str]] = [
    (
        "ToolCallsHalved",
        [counts("tool_call_total", ',status="success"', "0+60x60 3600+20x40")],
        [counts("tool_call_total", ',status="success"', "0+60x60 3600+40x40")],
        "90m",
    ),
    (
        "ToolErrors",
        [
            counts("tool_call_total", ',status="success"', "0+94x40"),
            counts("tool_call_total", ',status="error"', "0+6x40"),
        ],
        [
            counts("tool_call_total", ',status="success"', "0+96x40"),
            counts("tool_call_total", ',status="error"', "0+4x40"),
        ],
        "30m",
    ),
    (
        "ToolSlow",
        [
            counts("tool_duration_seconds_bucket", ',le="3.0"', "0+90x40"),
            counts("tool_duration_seconds_bucket", ',le="4.0"', "0+100x40"),
            counts("tool_duration_seconds_bucket", ',le="+Inf"', "0+100x40"),
        ],
        [
            counts("tool_duration_seconds_bucket", ',le="3.0"', "0+97x40"),
            counts("tool_duration_seconds_bucket", ',le="4.0"', "0+100x40"),
            counts("tool_duration_seconds_bucket", ',le="+Inf"', "0+100x40"),
        ],
        "20m",
    ),
    (
        "ToolOutputInvalid",
        [
            counts("tool_output_schema_valid_total", ',valid="true"', "0+997x100"),
            counts("tool_output_schema_valid_total", ',valid="false"', "0+3x100"),
        ],
        [
            counts("tool_output_schema_valid_total", ',valid="true"', "0+9996x100"),
            counts("tool_output_schema_valid_total", ',valid="false"', "0+4x100"),
        ],
        "80m",
    ),
]


@needs_promtool
@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize(("alert", "bad", "good", "when"), CASES, ids=[case[0] for case in CASES])
def test_each_alert_fires_when_provoked_only(
    tmp_path: Path, alert: str, bad: list[Any], good: list[Any], when: str, fires: bool
) -> None:
    (tmp_path / "rules.yaml").write_text(ops.files(ops.of_domains())["rules.yaml"], "utf-8")
    rule = next(each for group in ops.rules()["groups"] for each in group["rules"] if each.get("alert") == alert)
    labels = {"severity": "warning", "tool": "get_weather"}
    annotations = {key: text.replace("{{ $labels.tool }}", "get_weather") for key, text in rule["annotations"].items()}
    expected = [{"exp_labels": labels, "exp_annotations": annotations}] if fires else []
    test = {
        "interval": "1m",
        "input_series": bad if fires else good,
        "alert_rule_test": [{"eval_time": when, "alertname": alert, "exp_alerts": expected}],
    }
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(content), "utf-8")
    done = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_an_error_free_tool_has_an_error_rate_of_zero_and_not_none(tmp_path: Path) -> None:
    """Without this, the panel of a healthy tool is empty, and so is the denominator of the alert's history."""
    (tmp_path / "rules.yaml").write_text(ops.files(ops.of_domains())["rules.yaml"], "utf-8")
    sample = {"labels": 'tool_error_rate{tool="get_weather"}', "value": 0}
    test = {
        "interval": "1m",
        "input_series": [counts("tool_call_total", ',status="success"', "0+10x20")],
        "promql_expr_test": [{"expr": "tool_error_rate", "eval_time": "10m", "exp_samples": [sample]}],
    }
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(content), "utf-8")
    done = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


SERVICE = """\
import itertools, sys, time
from env.domains import domain
from env.telemetry import Metrics, observe
from env.types import ToolCall
from prometheus_client import start_http_server

weather = domain("weather")
registry = weather.registry()
observe(Metrics([registry.contract("get_weather")]))
start_http_server(int(sys.argv[1]), addr="127.0.0.1")
bound = registry.bind(weather.open_world(weather.EXAMPLE, "2026-06-03T09:00:00+08:00", "x"))
for number in itertools.count():
    bound.call(ToolCall("get_weather", {"city": "Beijing"} if number % 5 else {}))
    time.sleep(0.02)
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.slow
@needs_prometheus
def test_a_real_prometheus_scrapes_a_running_process_and_raises_the_alert(tmp_path: Path) -> None:
    """One call in five is wrong; with windows 60 times shorter the alert is due after 10 seconds."""
    port, own = free_port(), free_port()
    (tmp_path / "rules.yaml").write_text(ops.files(ops.of_domains(), speed=60)["rules.yaml"], "utf-8")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "tools", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(port)], cwd=ROOT)
    prometheus = subprocess.Popen(
        [
            "prometheus",
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{own}",
        ],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        firing: list[Any] = []
        while not firing:
            assert time.monotonic() < deadline
            time.sleep(1)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/alerts", timeout=5) as answer:
                    alerts = json.load(answer)["data"]["alerts"]
            except OSError:
                continue
            firing = [alert for alert in alerts if alert["state"] == "firing"]
        assert {alert["labels"]["alertname"] for alert in firing} == {"ToolErrors"}
        assert firing[0]["labels"]["tool"] == "get_weather"
    finally:
        for process in (service, prometheus):
            process.terminate()
            process.wait(30)
