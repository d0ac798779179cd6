"""Bars and intervals as inline SVG. Widths are in percent, so that they follow the page and the text beside doesn't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evaluation.console import rate_text

BAR, GAP = 11, 4  # height of a bar and distance between two, in pixels


def bars(rates: Sequence[Mapping[str, Any] | None]) -> Markup:
    """One bar per run with its 95 % interval; a run without such episodes leaves its place empty."""
    drawn = [_bar(rate, index, len(rates)) for index, rate in enumerate(rates) if rate and rate["rate"] is not None]
    height = len(rates) * (BAR + GAP) - GAP
    label = " → ".join(rate_text(rate) if rate else "–" for rate in rates)
    return Markup('<svg class="bars" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        height, label, Markup("").join(drawn)
    )


def strip(rate: Mapping[str, Any], run: str) -> Markup:
    """A rate on a scale from 0 to 1 with its interval. run: "before" or "after", the colour."""
    if rate["rate"] is None:
        return Markup("")
    return Markup(
        '<svg class="strip {}" width="100%" height="14" aria-hidden="true">'
        '<line class="scale" x1="0" x2="100%" y1="7" y2="7"/>'
        '<line class="interval" x1="{:.2f}%" x2="{:.2f}%" y1="7" y2="7"/>'
        '<circle cx="{:.2f}%" cy="7" r="4.5"/></svg>'
    ).format(run, 100 * rate["low"], 100 * rate["high"], 100 * rate["rate"])


def _bar(rate: Mapping[str, Any], index: int, runs: int) -> Markup:
    top = index * (BAR + GAP)
    return Markup(
        '<g class="{}"><title>{}, n = {}</title><rect class="track" x="0" y="{}" width="100%" height="{}" rx="2"/>'
        '<rect class="bar" x="0" y="{}" width="{:.2f}%" height="{}" rx="2"/>'
        '<line class="whisker" x1="{:.2f}%" x2="{:.2f}%" y1="{}" y2="{}"/></g>'
    ).format(
        "before" if index < runs - 1 else "after",
        rate_text(rate),
        rate["n"],
        top,
        BAR,
        top,
        100 * rate["rate"],
        BAR,
        100 * rate["low"],
        100 * rate["high"],
        top + BAR / 2,
        top + BAR / 2,
    )
