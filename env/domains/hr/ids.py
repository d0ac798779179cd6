"""Employee ids for an imported directory of any size, each worked out when it is asked for.

Drawing an id for each of 5,000 people would cost more than the rest of an episode. Here the ids of an episode are
places in a shuffled pool, one stride apart: two numbers say them all, none occurs twice, and whose an id is can be
worked back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from env.domains.hr.names import held_out

MOST_PEOPLE = 15_000  # below the ids that are held out for evaluation


@dataclass(frozen=True)
class Pool:
    """The ids of a split in random order; their number is prime, so that any stride meets each once."""

    ids: tuple[str, ...]
    places: Mapping[str, int]

    @staticmethod
    @lru_cache(maxsize=2)
    def of(split: str) -> Pool:
        """Zero-padded ones of 4 digits (never like a year) and those of 5 digits."""
        every = [f"{number:04d}" for number in (*range(1, 1000), *range(10_000, 100_000))]
        ids = [emp_id for emp_id in every if held_out(emp_id) == (split == "eval")]
        random.Random(f"pool/{split}").shuffle(ids)
        del ids[_largest_prime(len(ids)) :]
        return Pool(tuple(ids), {emp_id: place for place, emp_id in enumerate(ids)})


class DrawnIds:
    """The ids of `size` people in one episode. fixed: those that a query has named, by person."""

    def __init__(self, split: str, seed: str, size: int, fixed: Mapping[int, str]):
        rng = random.Random(f"ids/{seed}")
        self._pool = Pool.of(split)
        self._stride = rng.randrange(1, len(self._pool.ids))
        self._first = rng.randrange(len(self._pool.ids))
        self._size = size
        self._own = self._swapped(fixed)
        self._owners = {emp_id: person for person, emp_id in self._own.items()}

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return (self[person] for person in range(self._size))

    def __getitem__(self, person: int, /) -> str:
        if not 0 <= person < self._size:
            raise IndexError(person)
        return self._own.get(person) or self._drawn(person)

    def index(self, emp_id: str, /) -> int:
        """Whose id it is. Raises ValueError for nobody's."""
        if emp_id in self._owners:
            return self._owners[emp_id]
        person = self._drawer(emp_id)
        if person is None or person in self._own:
            raise ValueError(f"{emp_id!r} is nobody's id")
        return person

    def _drawn(self, person: int) -> str:
        return self._pool.ids[(self._first + self._stride * person) % len(self._pool.ids)]

    def _drawer(self, emp_id: str) -> int | None:
        """Who would have this id if none were fixed."""
        place = self._pool.places.get(emp_id)
        if place is None:
            return None
        most = len(self._pool.ids)
        person = (place - self._first) * pow(self._stride, -1, most) % most
        return person if person < self._size else None

    def _swapped(self, fixed: Mapping[int, str]) -> dict[int, str]:
        """The fixed ids, and for whoever had drawn one of them an id that became free."""
        drawers = {self._drawer(emp_id) for emp_id in fixed.values()}
        bereft = sorted(person for person in drawers if person is not None and person not in fixed)
        taken = set(fixed.values())
        free = [emp_id for person in sorted(fixed) if (emp_id := self._drawn(person)) not in taken]
        return {**dict(zip(bereft, free, strict=False)), **fixed}


def _largest_prime(most: int) -> int:
    return next(number for number in range(most, 1, -1) if all(number % d for d in range(2, int(number**0.5) + 1)))
