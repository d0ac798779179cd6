"""One evaluation, or two compared, as a single HTML file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from evaluation.console import number, p_text, percent, rate_text
from evaluation.record import Record
from evaluation.report.charts import bars, strip
from evaluation.report.selection import EPISODE_LIMIT, choose
from evaluation.report.view import KINDS, MEANINGS, entry, kind_title

HERE = Path(__file__).parent
LANGUAGES = {"zh": "Chinese", "en": "English"}

Run = tuple[str, Mapping[str, Any], Sequence[Record]]  # label, summary, records


def write_report(path: Path, title: str, runs: Sequence[Run], comparison: Mapping[str, Any] | None) -> None:
    """Write the page. runs: one, or two over the same rows, the earlier one first. comparison: of these two.

    At most EPISODE_LIMIT rows are embedded, failures first; the page says so. Raises ValueError for other counts.
    """
    if len(runs) not in (1, 2):
        raise ValueError(f"expected one run or two, got {len(runs)}")
    keys, left_out = choose([records for _, _, records in runs], EPISODE_LIMIT)
    by_key = [{record.key: record for record in records} for _, _, records in runs]
    entries = [entry([records.get(key) for records in by_key]) for key in keys]
    page = (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            labels=[label for label, _, _ in runs],
            runs=[summary for _, summary, _ in runs],
            comparison=comparison,
            charts=_charts([summary for _, summary, _ in runs]),
            meanings=MEANINGS,
            shown=len(entries),
            left_out=left_out,
            kinds={value: kind_title(value) for value in sorted({item["kind"] for item in entries})},
            classes=sorted(
                {run["failure"]["kind"] for item in entries for run in item["runs"] if run and run["failure"]}
            ),
            data=embedded({"labels": [label for label, _, _ in runs], "episodes": entries}),
        )
    )
    path.write_text(page, encoding="utf-8")


def embedded(value: Any) -> Markup:
    """JSON that is inert inside a script element: without `<` nothing in it can close that or open a comment.

    jinja2's own `tojson` would write Chinese as escapes, six times the size and unreadable in the source.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _charts(summaries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Success per group, one chart per way to group; every row with one rate per run."""
    return [
        _chart("Success by kind of question", [summary["by_kind"] for summary in summaries], _kind_label),
        _chart("By language", [summary["by_language"] for summary in summaries], lambda value: LANGUAGES[value]),
        _chart("By tool calls needed", [summary["by_depth"] for summary in summaries], _depth_label),
    ]


def _chart(title: str, groups: Sequence[Mapping[str, Any]], label: Callable[[str], str]) -> dict[str, Any]:
    values = dict.fromkeys(value for rates in groups for value in rates)
    ordered = sorted(values, key=lambda value: (int(value) if value.isdecimal() else 0, value))
    return {
        "title": title,
        "tagged": label is _kind_label,
        "rows": [
            {"value": value, "label": label(value), "rates": [rates.get(value) for rates in groups]}
            for value in ordered
        ],
    }


def _kind_label(value: str) -> str:
    return KINDS.get(int(value), f"kind {value}")


def _depth_label(value: str) -> str:
    return f"{value} call{'' if value == '1' else 's'}"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": percent, "rate": rate_text, "number": number, "p": p_text}
    environment.globals |= {"bars": bars, "strip": strip, "asset": _asset}
    return environment


def _asset(name: str) -> Markup:
    """A style sheet or script of ours, to stand inside the page as it is."""
    return Markup((HERE / name).read_text(encoding="utf-8"))
