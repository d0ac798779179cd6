"""Rates and means with 95 % intervals, of independent values and of values that come in clusters.

Several episodes of one row, and several rows about one person, are clusters: to take them as independent would make an
interval narrower than it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

Z = 1.959963984540054  # standard normal quantile of 0.975
RESAMPLES = 2000
_AT_ONCE = 2_000_000  # draws in memory


@dataclass(frozen=True, slots=True)
class Rate:
    """count of n, with a 95 % interval; no rate and no interval where n is 0."""

    count: int
    n: int
    rate: float | None
    low: float | None
    high: float | None


def rate(count: int, n: int) -> Rate:
    """With the Wilson interval, which stays inside [0, 1] and has a width at 0 and 1 too."""
    return Rate(count, n, count / n, *wilson(count, n)) if n else Rate(0, 0, None, None, None)


def clustered_rate(outcomes: Sequence[bool], clusters: Sequence[Hashable]) -> Rate:
    """The rate of outcomes that come in clusters; where each is a cluster of its own, `rate`."""
    plain = rate(sum(outcomes), len(outcomes))
    if len(set(clusters)) == len(outcomes):
        return plain
    return Rate(plain.count, plain.n, plain.rate, *interval([float(each) for each in outcomes], clusters))


def wilson(count: float, n: int) -> tuple[float, float]:
    """95 % score interval of a proportion (Wilson 1927). Raises ValueError unless 0 <= count <= n and n > 0."""
    if n <= 0 or not 0 <= count <= n:
        raise ValueError(f"expected 0 <= count <= n and n > 0, got count {count}, n {n}")
    share, scale = count / n, 1 + Z * Z / n
    centre = (share + Z * Z / (2 * n)) / scale
    half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / scale
    return (centre - half if count else 0.0), (centre + half if count < n else 1.0)  # exact where rounding is not


def interval(values: Sequence[float], clusters: Sequence[Hashable]) -> tuple[float, float]:
    """Of the mean of values in [0, 1], by `bootstrap`; where that has no width, Wilson's with a trial per cluster."""
    low, high = bootstrap(values, clusters)
    if high - low > 1e-12:
        return low, high
    count = len(set(clusters))
    return wilson(min(max(low, 0.0), 1.0) * count, count)


def bootstrap(values: Sequence[float], clusters: Sequence[Hashable]) -> tuple[float, float]:
    """Percentile bootstrap of the mean, whole clusters drawn (Davison & Hinkley 1997, section 3.8).

    It has no width where all clusters have the same mean. The draws are the same in every call. Raises ValueError for
    no values, or lengths that differ.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(f"expected values with a cluster each, got {len(values)} and {len(clusters)}")
    place = {cluster: index for index, cluster in enumerate(dict.fromkeys(clusters))}
    where = [place[cluster] for cluster in clusters]
    sums, sizes = np.bincount(where, weights=values), np.bincount(where)
    means = np.concatenate([sums[drawn].sum(1) / sizes[drawn].sum(1) for drawn in _draws(len(place))])
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _draws(count: int) -> Iterator[np.ndarray]:
    """RESAMPLES rows of `count` indices, in blocks that fit into memory."""
    rng, block = np.random.default_rng(0), max(1, min(RESAMPLES, _AT_ONCE // count))
    for start in range(0, RESAMPLES, block):
        yield rng.integers(count, size=(min(block, RESAMPLES - start), count))
