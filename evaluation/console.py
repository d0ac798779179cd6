"""Tables of an evaluation for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def percent(share: float | None) -> str:
    """0.975 -> "97.5 %"; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def rate_text(rate: Mapping[str, Any]) -> str:
    """A rate with its interval: "97.5 % (95.8–98.6)"."""
    if rate["rate"] is None:
        return "–"
    return f"{percent(rate['rate'])} ({100 * rate['low']:.1f}–{100 * rate['high']:.1f})"


def number(value: float | None, digits: int = 2) -> str:
    """Rounded; a dash where there is none, and no minus before a zero."""
    return "–" if value is None else f"{value:z.{digits}f}"


def p_text(p: float) -> str:
    """p-values below what anybody can tell apart are given as a bound."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"


def print_summary(console: Console, label: str, numbers: Mapping[str, Any]) -> None:
    """The whole summary of one run."""
    console.print(_headline(label, numbers))
    if "passes" in numbers:
        console.print(_passes(numbers["passes"]))
    console.print(_groups(numbers))
    if numbers["tools"]:
        console.print(_tools(numbers))
    if numbers["failures"]:
        console.print(_failures(numbers))
    if numbers["infrastructure"]:
        console.print(f"[yellow]{numbers['infrastructure']} episodes without a score: the infrastructure failed[/]")
    trained = numbers["by_split"].get("train")
    if trained:
        console.print(f"[yellow]{trained['n']} of these rows are training rows: this is no held-out result[/]")


def print_comparison(console: Console, before: str, after: str, comparison: Mapping[str, Any]) -> None:
    """What changed between two runs over the same rows."""
    table = _table(f"{before} → {after}", "", "value")
    difference = comparison["difference"]
    several = "samples" in comparison
    table.add_row("rows in both", str(comparison["n"]))
    table.add_row("success before", rate_text(comparison["before"]))
    table.add_row("success after", rate_text(comparison["after"]))
    points = [f"{100 * difference[name]:+.1f}" for name in ("value", "low", "high")]
    table.add_row("difference, points", f"{points[0]} ({points[1]} to {points[2]})")
    table.add_row("rows right more often" if several else "wrong → right", str(comparison["to_right"]))
    table.add_row("rows right less often" if several else "right → wrong", str(comparison["to_wrong"]))
    table.add_row("right in both", str(comparison["both_right"]))
    table.add_row("wrong in both", str(comparison["both_wrong"]))
    if several:
        table.add_row("now and then right, as often in both", str(comparison["mixed"]))
    table.add_row("sign test over rows, exact" if several else "McNemar, exact", p_text(comparison["mcnemar_p"]))
    console.print(table)
    for name, reason in (("unscored", "without a score in one of the runs"), ("unpaired", "in one run only")):
        if comparison[name]:
            console.print(f"[yellow]left out: {comparison[name]} rows {reason}[/]")


def _headline(label: str, numbers: Mapping[str, Any]) -> Table:
    table = _table(f"{label}: {numbers['n']} episodes", "", "value")
    table.add_row("success (95 %)", rate_text(numbers["success"]))
    table.add_row("clean", rate_text(numbers["clean"]))
    table.add_row("score", number(numbers["score"], 3))
    for name, value in numbers["parts"].items():
        table.add_row(f"  {name}", number(value, 3))
    if calling := numbers.get("calling"):
        table.add_row("right calls", rate_text(calling["call_accuracy"]))
        table.add_row("right arguments", rate_text(calling["argument_accuracy"]))
        table.add_row("calls before what they need", rate_text(calling["order_violations"]))
        table.add_row("wasted calls an episode", number(calling["wasted_calls"]))
    table.add_row("turns · calls", f"{number(numbers['turns'])} · {number(numbers['calls'])}")
    table.add_row("sampled tokens", number(numbers["sampled_tokens"], 1))
    return table


def _passes(found: Mapping[str, Any]) -> Table:
    table = _table(
        f"{found['samples']} episodes a row",
        "k",
        "pass@k (95 %)",
        "by person",
        "pass^k (95 %)",
        "by person",
    )
    for k, one in found["pass_at"].items():
        cells = [cell for each in (one, found["pass_all"][k]) for cell in (_estimate_text(each), _person_text(each))]
        table.add_row(k, *cells)
    return table


def _estimate_text(found: Mapping[str, Any]) -> str:
    return rate_text({"rate": found["value"], "low": found["low"], "high": found["high"]})


def _person_text(found: Mapping[str, Any]) -> str:
    return "–" if found["value"] is None else f"{100 * found['person_low']:.1f}–{100 * found['person_high']:.1f}"


def _groups(numbers: Mapping[str, Any]) -> Table:
    table = _table("success", "group", "episodes", "rate (95 %)")
    splits = [("kind", "by_kind"), ("language", "by_language"), ("calls needed", "by_depth"), ("fault", "by_fault")]
    for title, name in splits:
        if name == "by_fault" and numbers[name].keys() <= {"none"}:
            continue
        for value, rate in numbers[name].items():
            table.add_row(f"{title} {value}", str(rate["n"]), rate_text(rate))
        table.add_section()
    return table


def _tools(numbers: Mapping[str, Any]) -> Table:
    table = _table("tool calls", "tool", "success", "error", "right (95 %)")
    right = numbers.get("calling", {}).get("tools", {})
    for name, counts in numbers["tools"].items():
        accuracy = rate_text(right[name]) if name in right else ""
        table.add_row(name, str(counts.get("success", 0)), str(counts.get("error", 0)), accuracy)
    table.add_section()
    for code, count in numbers["errors"].items():
        table.add_row(f"  {code}", "", str(count))
    return table


def _failures(numbers: Mapping[str, Any]) -> Table:
    table = _table("failures", "class", "episodes", "share")
    for name, found in numbers["failures"].items():
        table.add_row(name, str(found["count"]), percent(found["share"]))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table
