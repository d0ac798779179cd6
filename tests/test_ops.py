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
from prometheus_client import CollectorRegistry

from env.contract import ToolContract
from env.registry import CallEvent
from env.telemetry import Metrics
from scripts import ops

ROOT = Path(__file__).resolve().parents[1]
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is missing")
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus (Debian) is missing")


def test_the_committed_files_are_what_the_contracts_give() -> None:
    for name, text in ops.files(ops.of_domains()).items():
        assert (ROOT / "ops" / name).read_text("utf-8") == text, f"run `python -m scripts.ops build`: {name}"


def test_every_expression_parses() -> None:
    expressions = [rule["expr"] for group in ops.rules(ops.of_domains())["groups"] for rule in group["rules"]]
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
            assert sum(title.startswith(f"upstream {upstream}: ") for title in titles) == 3
    assert len({panel["id"] for panel in ops.dashboard(contracts)["panels"]}) == len(titles)


@needs_promtool
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(ops.files(ops.of_domains())["rules.yaml"], "utf-8")
    done = subprocess.run(["promtool", "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = sum(len(group["rules"]) for group in ops.rules(ops.of_domains())["groups"])
    assert f"{expected} rules found" in done.stdout


CONTRACT = """\
name: toy
description: Toy.
timeout: 400
upstream_dependencies: [queue, store]
upstream_sla: {queue: {availability: 99.5, p95_ms: 250}}
input_schema: {type: object, additionalProperties: false}
output_schema: {type: object}
"""


def test_timeouts_and_promises_of_the_contracts_are_in_rules_and_panels(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(CONTRACT, "utf-8")
    assert ops.main(["build", str(tmp_path), "--out", str(tmp_path / "ops")]) == 0
    rules = yaml.safe_load((tmp_path / "ops/rules.yaml").read_text("utf-8"))
    constants = {(rule["record"], *rule["labels"].values()): rule["expr"] for rule in rules["groups"][0]["rules"]}
    assert constants == {
        ("tool_timeout_seconds", "toy"): "vector(0.4)",
        ("tool_upstream", "toy", "queue"): "vector(1)",
        ("tool_upstream", "toy", "store"): "vector(1)",
        ("upstream_sla_availability", "queue"): "vector(0.995)",
        ("upstream_sla_p95_seconds", "queue"): "vector(0.25)",
    }
    panels = {panel["title"]: panel for panel in json.loads((tmp_path / "ops/dashboard.json").read_text())["panels"]}
    drawn = {
        title: panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] for title, panel in panels.items()
    }
    assert drawn["toy: duration, timeout 0.4 s"] == 0.4
    assert drawn["upstream queue: success, SLA 99.5 %"] == 0.995
    assert drawn["upstream queue: P95, SLA 0.25 s"] == 0.25
    assert drawn["upstream store: P95, no SLA declared"] is None
    assert panels["toy: duration, timeout 0.4 s"]["fieldConfig"]["defaults"]["custom"] == {
        "thresholdsStyle": {"mode": "line"}
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (CONTRACT.replace("toy", "other").replace("99.5", "99.9"), "upstream_sla of queue: expected"),
        (
            CONTRACT.replace("toy", "other").replace("[queue, store]", "[store]"),
            "other.yaml:5: upstream_sla: expected one of",
        ),
        (
            CONTRACT.replace("toy", "other").replace("99.5", "100"),
            "other.yaml:5: upstream_sla: expected what dependencies",
        ),
    ],
)
def test_promises_that_make_no_sense_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, said: str
) -> None:
    (tmp_path / "toy.yaml").write_text(CONTRACT, "utf-8")
    (tmp_path / "other.yaml").write_text(more, "utf-8")
    assert ops.main(["build", str(tmp_path), "--out", str(tmp_path / "ops")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


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
            counts("tool_duration_seconds_count", "", "0+100x40"),
        ],
        [
            counts("tool_duration_seconds_bucket", ',le="3.0"', "0+97x40"),
            counts("tool_duration_seconds_count", "", "0+100x40"),
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


# What else has to fire, or not yet: (alert, series, minute, fires)
MORE: dict[str, tuple[str, list[dict[str, str]], str, bool]] = {
    "errors for less than ten minutes": ("ToolErrors", CASES[1][1], "9m", False),
    "slow for less than five minutes": ("ToolSlow", CASES[2][1], "5m", False),
    "invalid outputs for less than an hour": ("ToolOutputInvalid", CASES[3][1], "55m", False),
    "a process that is gone": (
        "ToolCallsHalved",
        [counts("tool_call_total", ',status="success"', "0+60x60 _x40")],
        "80m",
        True,
    ),
    "calls that only fail": (
        "ToolCallsHalved",
        [
            counts("tool_call_total", ',status="success"', "0+60x60 3600x40"),
            counts("tool_call_total", ',status="error"', "0+0x60 0+60x40"),
        ],
        "80m",
        True,
    ),
    "a tool that was never called": (
        "ToolCallsHalved", [counts("tool_call_total", ',status="success"', "0x100")], "90m", False
    ),
    "as many calls as before": (
        "ToolCallsHalved", [counts("tool_call_total", ',status="success"', "0+60x100")], "90m", False
    ),
}  # fmt: skip


def judged(folder: Path, alert: str, series: list[dict[str, str]], when: str, fires: bool) -> None:
    """promtool's verdict on the committed rules."""
    rules = ops.rules(ops.of_domains())
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules), "utf-8")
    rule = next(each for group in rules["groups"] for each in group["rules"] if each.get("alert") == alert)
    labels = {"severity": "warning", "tool": "get_weather"}
    annotations = {key: text.replace("{{ $labels.tool }}", "get_weather") for key, text in rule["annotations"].items()}
    expected = [{"exp_labels": labels, "exp_annotations": annotations}] if fires else []
    test = {
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": [{"eval_time": when, "alertname": alert, "exp_alerts": expected}],
    }
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(content), "utf-8")
    done = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize(("alert", "bad", "good", "when"), CASES, ids=[case[0] for case in CASES])
def test_each_alert_fires_when_provoked_only(
    tmp_path: Path, alert: str, bad: list[Any], good: list[Any], when: str, fires: bool
) -> None:
    judged(tmp_path, alert, bad if fires else good, when, fires)


@needs_promtool
@pytest.mark.parametrize("case", MORE)
def test_alerts_wait_as_long_as_they_say_and_see_what_is_missing(tmp_path: Path, case: str) -> None:
    judged(tmp_path, *MORE[case])


@needs_promtool
def test_the_alert_on_latency_fires_for_a_tool_whose_timeout_is_short(tmp_path: Path) -> None:
    """With series as our own exporter writes them: the last edge is 3 s, which no quantile of buckets exceeds."""
    (tmp_path / "toy.yaml").write_text(CONTRACT.replace("toy", "get_weather"), "utf-8")
    home = CollectorRegistry()
    metrics = Metrics([ToolContract.load(tmp_path / "toy.yaml")], home)
    for seconds in [0.1] * 90 + [4.0] * 10:
        metrics(CallEvent("get_weather", "success", None, seconds))
    samples = [
        (sample.name, ",".join(f'{key}="{text}"' for key, text in sample.labels.items()), sample.value)
        for family in home.collect()
        for sample in family.samples
        if sample.labels.get("tool") == "get_weather" and sample.name.startswith("tool_duration")
    ]
    series = [
        {"series": f"{name}{{{labels}}}", "values": f"0+{value:.0f}x40"} for name, labels, value in samples if value
    ]
    assert any('le="3.0"' in each["series"] for each in series)
    judged(tmp_path, "ToolSlow", series, "20m", True)


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
