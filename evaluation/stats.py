"""Numbers about records: rates with intervals, counts, and the paired comparison of two runs.

Rates are over scored episodes; one that the infrastructure broke has no score and is counted apart. Rows count as
independent, several episodes of one row do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import comb, sqrt
from statistics import fmean
from typing import Any

from env.registry import NOT_REGISTERED
from env.types import ErrorCode, Trajectory
from evaluation.intervals import clustered_rate, rate, wilson
from evaluation.record import Record


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Everything that one run's report shows, as plain JSON values; the keys are named as in the report."""
    scored = [record for record in records if record.score is not None]
    return {
        "n": len(scored),
        "infrastructure": len(records) - len(scored),
        "success": _success(scored),
        "clean": _rate(scored, lambda record: bool(_score(record)["clean"])),
        "score": _mean(_score(record)["total"] for record in scored),
        "parts": _parts(scored),
        "by_kind": _split(scored, lambda record: record.kind),
        "by_language": _split(scored, lambda record: record.language),
        "by_depth": _split(scored, lambda record: record.depth),
        "by_split": _split(scored, lambda record: record.split),
        "by_fault": _split(scored, fault_of),
        **_calls(records),
        "sampled_tokens": _mean(record.sampled_tokens for record in records),
        "failures": _failures(scored),
    }


def fault_of(record: Record) -> str:
    """The first fault that a tool was given in the episode, "none" without one."""
    for step in record.payload["trajectory"]["steps"]:
        for fault in (step.get("metadata") or {}).get("faults", ()):
            return str(fault)
    return "none"


def mcnemar(gained: int, lost: int) -> float:
    """Exact two-sided p-value that changes in both directions are equally likely; 1.0 without any change."""
    changes = gained + lost
    tail = sum(comb(changes, k) for k in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / (1 << changes))


def paired_interval(both: int, gained: int, lost: int, neither: int) -> tuple[float, float]:
    """95 % interval of (gained - lost) / n for paired outcomes: Newcombe 1998, Statist. Med. 17:2635, method 10.

    Not the normal one, which has no width where nothing changed and leaves [-1, 1] near the ends, where a trained
    policy is. Raises ValueError for no pairs.
    """
    n = both + gained + lost + neither
    after, before = both + gained, both + lost
    (low_a, high_a), (low_b, high_b) = wilson(after, n), wilson(before, n)
    up, down = high_a - after / n, after / n - low_a
    up_b, down_b = high_b - before / n, before / n - low_b
    phi = _phi(both, gained, lost, neither)
    difference = (gained - lost) / n
    below = sqrt(max(0.0, down * down - 2 * phi * down * up_b + up_b * up_b))
    above = sqrt(max(0.0, up * up - 2 * phi * up * down_b + down_b * down_b))
    return difference - below, difference + above


def compare(before: Sequence[Record], after: Sequence[Record]) -> dict[str, Any]:
    """Paired by row and sample. Pairs where one side has no score are counted in `unscored`, rows of one side only in
    `unpaired`. Raises ValueError where nothing pairs, or a row's query differs (the runs saw different data).
    """
    left, right = {record.key: record for record in before}, {record.key: record for record in after}
    keys = [key for key in left if key in right]
    check_same_rows(before, after)
    scored = [key for key in keys if left[key].score is not None and right[key].score is not None]
    cells = Counter((left[key].success, right[key].success) for key in scored)
    both, gained, lost, neither = (cells[pair] for pair in ((True, True), (False, True), (True, False), (False, False)))
    if not scored:
        raise ValueError("the runs have no scored row in common")
    low, high = paired_interval(both, gained, lost, neither)
    return {
        "n": len(scored),
        "both_right": both,
        "to_right": gained,
        "to_wrong": lost,
        "both_wrong": neither,
        "before": asdict(rate(both + lost, len(scored))),
        "after": asdict(rate(both + gained, len(scored))),
        "difference": {"value": (gained - lost) / len(scored), "low": low, "high": high},
        "mcnemar_p": mcnemar(gained, lost),
        "unscored": len(keys) - len(scored),
        "unpaired": len(left) + len(right) - 2 * len(keys),
        "rows_to_wrong": [key[0] for key in scored if left[key].success and not right[key].success],
    }


def check_same_rows(before: Iterable[Record], after: Iterable[Record]) -> None:
    """Raises ValueError where a row of both runs asks something else in one of them."""
    asked = {record.row: record.query for record in before}
    for record in after:
        if record.query != asked.get(record.row, record.query):
            raise ValueError(
                f"row {record.row} asks {asked[record.row]!r} in one run and {record.query!r} in the other;"
                " compare runs over the same rows"
            )


def _phi(both: int, gained: int, lost: int, neither: int) -> float:
    """Correlation of the paired outcomes, with Newcombe's continuity correction."""
    margins = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    if not margins:
        return 0.0
    cross = float(both * neither - gained * lost)
    if cross > 0:
        cross = max(0.0, cross - (both + gained + lost + neither) / 2)
    return cross / sqrt(margins)


def _score(record: Record) -> Mapping[str, Any]:
    assert record.score is not None
    return record.score


def _success(records: Sequence[Record]) -> dict[str, Any]:
    return _rate(records, lambda record: record.success)


def _rate(records: Sequence[Record], good: Callable[[Record], bool]) -> dict[str, Any]:
    return asdict(clustered_rate([good(record) for record in records], [record.row for record in records]))


def _split(records: Sequence[Record], by: Callable[[Record], Any]) -> dict[str, Any]:
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(by(record), []).append(record)
    return {str(value): _success(groups[value]) for value in sorted(groups)}


def _parts(records: Sequence[Record]) -> dict[str, float | None]:
    """Mean of each part over the records that have it, in the reward's order."""
    names = dict.fromkeys(name for record in records for name in _score(record)["parts"])
    return {
        name: _mean(_score(record)["parts"][name] for record in records if name in _score(record)["parts"])
        for name in names
    }


def _calls(records: Sequence[Record]) -> dict[str, Any]:
    """Counts over all episodes, the infrastructure's failures included: they are what one looks for there."""
    trajectories = [Trajectory.from_payload(record.payload) for record in records]
    tools: dict[str, Counter[str]] = {}
    errors: Counter[str] = Counter()
    for step in (step for trajectory in trajectories for step in trajectory.steps):
        unknown = step.result.code is ErrorCode.TOOL_NOT_FOUND or not step.name
        tools.setdefault(NOT_REGISTERED if unknown else step.name, Counter())[step.result.status] += 1
        if step.result.code is not None:
            errors[step.result.code.value] += 1
    return {
        "turns": _mean(len(trajectory.turns) for trajectory in trajectories),
        "calls": _mean(len(trajectory.steps) for trajectory in trajectories),
        "tools": {name: dict(sorted(tools[name].items())) for name in sorted(tools)},
        "errors": dict(sorted(errors.items())),
        "stops": dict(sorted(Counter(trajectory.stop.value for trajectory in trajectories).items())),
    }


def _failures(records: Sequence[Record]) -> dict[str, Any]:
    counts = Counter(record.failure.kind.value for record in records if record.failure)
    return {name: {"count": count, "share": count / len(records)} for name, count in counts.most_common()}


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None
