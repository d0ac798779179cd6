"""How often to repeat examples so that rare tools are seen more often.

By the square root of the frequencies, which is what one usually takes between leaving a set as it is and making all
tools equally frequent: a tool that is a hundred times rarer than the most frequent one is seen ten times as often.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from math import sqrt


def counts(examples: Iterable[Set[str]]) -> Counter[str]:
    """Examples that call each tool."""
    return Counter(tool for tools in examples for tool in tools)


def missing(examples: Iterable[Set[str]], catalogue: Iterable[str]) -> list[str]:
    """The tools of the catalogue that no example calls; from none of them could a model learn to call it."""
    return sorted(set(catalogue) - set(counts(examples)))


def copies(examples: Sequence[Set[str]], seed: int) -> list[int]:
    """How often each example is taken, at least once; what is left of a weight after whole numbers is a chance.

    An example has the weight of the rarest tool that it calls, one without calls has 1. Equal arguments give equal
    numbers.
    """
    frequency = counts(examples)
    most = max(frequency.values(), default=1)
    rng = random.Random(f"copies/{seed}")
    weights = [max((sqrt(most / frequency[tool]) for tool in tools), default=1.0) for tools in examples]
    return [int(weight) + (rng.random() < weight % 1) for weight in weights]
