"""Several episodes of one row: pass@k, pass^k, and the comparison of two such runs, row by row.

pass@k asks whether one of k tries is right (what a search can reach), pass^k whether all k are (what a user can rely
on). Intervals draw whole rows, or all rows about one person. An episode without a score is left out of its row; a row
with fewer than k scored episodes is left out of k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import comb
from statistics import fmean
from typing import Any

from data.schema import Row
from evaluation.intervals import bootstrap, clustered_rate, interval, wilson
from evaluation.record import Record
from evaluation.stats import check_same_rows, mcnemar


def pass_at(n: int, right: int, k: int) -> float:
    """Chance that one of k draws from n episodes is right, without bias (Chen et al. 2021, "Codex", equation 1).

    Raises ValueError unless 0 <= right <= n and 1 <= k <= n.
    """
    return 1.0 - pass_all(n, n - right, k)


def pass_all(n: int, right: int, k: int) -> float:
    """Chance that all of k draws from n episodes are right, without bias: pass^k (Yao et al. 2024, "tau-bench")."""
    if not 0 <= right <= n or not 1 <= k <= n:
        raise ValueError(f"expected 0 <= right <= n and 1 <= k <= n, got right {right}, n {n}, k {k}")
    return comb(right, k) / comb(n, k)


def samples_of(records: Iterable[Record]) -> int:
    """How many episodes a row has."""
    return 1 + max((record.sample for record in records), default=0)


def passes(records: Sequence[Record], people: Mapping[str, str]) -> dict[str, Any]:
    """pass_at and pass_all by k (1, 2, 4, ... and the number of samples). people: row id -> whom it is about."""
    outcomes = _outcomes(records)
    ks = _ks(samples_of(records))
    return {
        "samples": samples_of(records),
        "pass_at": {str(k): _estimate(pass_at, outcomes, people, k) for k in ks},
        "pass_all": {str(k): _estimate(pass_all, outcomes, people, k) for k in ks},
    }


def person_of(row: Row) -> str:
    """Whom a row asks about: the same text for every row about that person, the row's own id for nobody."""
    task, subject = row.task, row.task.subject
    first = next(iter(subject.values()), None) if isinstance(subject, Mapping) else subject
    whom = task.mention if first is None else first
    return task.id if whom is None else f"{task.domain}/{task.world.get('seed')}/{whom}"


def compare(before: Sequence[Record], after: Sequence[Record]) -> dict[str, Any]:
    """`stats.compare` for rows with several episodes: paired by row, through the row's mean.

    to_right, to_wrong: rows whose mean rose or fell; both_right, both_wrong: rows that are always right or always
    wrong in both; mixed: the others that stayed. mcnemar_p: of the sign test over rows, which McNemar's is for one
    episode. Raises ValueError for other numbers of samples, other questions, or nothing in common.
    """
    counts = samples_of(before), samples_of(after)
    if counts[0] != counts[1]:
        raise ValueError(f"one has {counts[0]} samples a row, the other {counts[1]}; give both the same --samples")
    check_same_rows(before, after)
    left, right = _outcomes(before), _outcomes(after)
    rows = [row for row in left if row in right]
    if not rows:
        raise ValueError("the runs have no scored row in common")
    pairs = {row: (fmean(left[row]), fmean(right[row])) for row in rows}
    to_wrong = [row for row, (was, now) in pairs.items() if now < was]
    gained = sum(now > was for was, now in pairs.values())
    stayed = [was for was, now in pairs.values() if was == now]
    known = [{record.row for record in records} for records in (before, after)]
    return {
        "samples": counts[0],
        "n": len(rows),
        "both_right": stayed.count(1.0),
        "to_right": gained,
        "to_wrong": len(to_wrong),
        "both_wrong": stayed.count(0.0),
        "mixed": sum(0.0 < mean < 1.0 for mean in stayed),
        "before": _rate(left, rows),
        "after": _rate(right, rows),
        "difference": _difference([now - was for was, now in pairs.values()]),
        "mcnemar_p": mcnemar(gained, len(to_wrong)),
        "unscored": len(known[0] & known[1]) - len(rows),
        "unpaired": len(known[0] ^ known[1]),
        "rows_to_wrong": to_wrong,
    }


def _outcomes(records: Iterable[Record]) -> dict[str, list[bool]]:
    """By row, of the episodes that have a score."""
    found: dict[str, list[bool]] = {}
    for record in records:
        if record.score is not None:
            found.setdefault(record.row, []).append(record.success)
    return found


def _ks(samples: int) -> list[int]:
    doubled = [2**power for power in range(samples.bit_length()) if 2**power <= samples]
    return sorted({*doubled, samples})


def _estimate(
    measure: Callable[[int, int, int], float], outcomes: Mapping[str, Sequence[bool]], people: Mapping[str, str], k: int
) -> dict[str, Any]:
    """The mean over rows, with an interval by row and one by person; none of them where no row has k episodes."""
    rows = [row for row, found in outcomes.items() if len(found) >= k]
    if not rows:
        return dict.fromkeys(("value", "low", "high", "person_low", "person_high")) | {"rows": 0, "people": 0}
    values = [measure(len(outcomes[row]), sum(outcomes[row]), k) for row in rows]
    whom = [people[row] for row in rows]
    low, high = interval(values, rows)
    person_low, person_high = interval(values, whom)
    return {
        "value": fmean(values),
        "low": low,
        "high": high,
        "person_low": person_low,
        "person_high": person_high,
        "rows": len(rows),
        "people": len(set(whom)),
    }


def _rate(outcomes: Mapping[str, Sequence[bool]], rows: Sequence[str]) -> dict[str, Any]:
    pairs = [(found, row) for row in rows for found in outcomes[row]]
    return asdict(clustered_rate([found for found, _ in pairs], [row for _, row in pairs]))


def _difference(changes: Sequence[float]) -> dict[str, float]:
    """The mean change with its bootstrap interval; where that has no width, give or take what n rows can hide."""
    value = fmean(changes)
    low, high = bootstrap(changes, range(len(changes)))
    if high - low < 1e-12:
        hidden = wilson(0, len(changes))[1]
        low, high = max(-1.0, value - hidden), min(1.0, value + hidden)
    return {"value": value, "low": low, "high": high}
