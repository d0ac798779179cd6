"""Every plan up to a length, scored and judged; what the reward pays for that it should not, and the reverse.

Two alphabets: all moves, alone or in one message with the one before, up to `length - 2` calls; and the ones that
matter most, one by one, up to `length` calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from evaluation.audit.reward import load
from evaluation.audit.scene import End, Move, Plan, scene
from evaluation.audit.verdict import Outcome, Reason, judge

SHORT = (Move.SEARCH, Move.SEARCH_OTHER, Move.LEAVE, Move.LEAVE_WEEK, Move.ORG, Move.ORG_OTHER)
EPS = 1e-9

Key = tuple[Outcome, tuple[Reason, ...], bool, bool]  # outcome, what is wrong, whether something was earned, clean


@dataclass(slots=True)
class Tally:
    """What a part of the search found. scores: for each kind of plan, score -> (how many, the shortest of them)."""

    plans: int = 0
    scores: dict[Key, dict[float, tuple[int, Plan]]] = field(default_factory=dict)
    broken: dict[str, tuple[int, str]] = field(default_factory=dict)  # property -> how often, the shortest example
    unscored: Counter[str] = field(default_factory=Counter)

    def add(self, plan: Plan, score: float) -> None:
        verdict = judge(plan)
        key = (verdict.outcome, verdict.main, verdict.earned > 0, verdict.clean)
        by_score = self.scores.setdefault(key, {})
        count, shortest = by_score.get(round(score, 6), (0, plan))
        by_score[round(score, 6)] = (count + 1, min(shortest, plan, key=_length))
        self.plans += 1

    def break_property(self, name: str, example: str) -> None:
        count, shortest = self.broken.get(name, (0, example))
        self.broken[name] = (count + 1, min(shortest, example, key=len))

    def merge(self, other: Tally) -> None:
        self.plans += other.plans
        self.unscored += other.unscored
        for key, by_score in other.scores.items():
            own = self.scores.setdefault(key, {})
            for score, (count, plan) in by_score.items():
                before, shortest = own.get(score, (0, plan))
                own[score] = (before + count, min(shortest, plan, key=_length))
        for name, (count, example) in other.broken.items():
            before, shown = self.broken.get(name, (0, example))
            self.broken[name] = (before + count, min(shown, example, key=len))


def _length(plan: Plan) -> tuple[int, str]:
    return len(plan.moves), str(plan)


def search(spec: str, length: int, processes: int, done: Callable[[], None] = lambda: None) -> Tally:
    """Score every plan of up to `length` calls with the reward `spec`. done: called after each of `parts(length)`."""
    total = Tally()
    with ProcessPoolExecutor(processes) as pool:
        for part in pool.map(_search_part, *zip(*[(spec, *part) for part in parts(length)], strict=True)):
            total.merge(part)
            done()
    return total


Part = tuple[tuple[Move, ...], tuple[Move, ...], int, bool]  # the first moves, the alphabet, calls at most, joined too


def parts(length: int) -> list[Part]:
    """Independent pieces of the search: one per pair of first moves, and one for the shortest plans."""
    wide = max(1, length - 2)
    pieces: list[Part] = [((), tuple(Move), min(1, wide), True)]
    pieces += [(pair, tuple(Move), wide, True) for pair in product(Move, Move) if wide >= 2]
    pieces += [(pair, SHORT, length, False) for pair in product(SHORT, SHORT) if length > max(2, wide)]
    return pieces


def _search_part(spec: str, first: tuple[Move, ...], moves: Sequence[Move], most: int, joins: bool) -> Tally:
    situation, reward, tally = scene(), load(spec), Tally()
    rubric = situation.row.task.rubric

    def value(plan: Plan) -> float | None:
        score = reward(situation.trajectory(plan).to_payload(), rubric)
        if score is None:
            tally.unscored[str(plan)] += 1
        return score

    # What the wide search has covered, the narrow one does not count again.
    least = 0 if not first else 2 if joins else max(2, most - 1)
    for calls, joined in _call_sequences(first, moves, most, joins):
        cut = Plan(calls, joined, End.CUT)
        before = value(cut)
        if before is None:
            continue
        if len(calls) >= least:
            for end in End:
                score = before if end is End.CUT else value(Plan(calls, joined, end))
                if score is not None:
                    tally.add(Plan(calls, joined, end), score)
        if len(calls) < most:
            _check_steps(cut, before, value, tally)
    return tally


def _call_sequences(
    first: tuple[Move, ...], moves: Sequence[Move], most: int, joins: bool
) -> Iterator[tuple[tuple[Move, ...], tuple[bool, ...]]]:
    if not first:
        yield (), ()
        if most >= 1:
            yield from (((move,), (False,)) for move in moves)
        return
    for more in range(most - len(first) + 1):
        for rest in product(moves, repeat=more):
            calls = (*first, *rest)
            flags = product((False, True), repeat=len(calls) - 1) if joins else [(False,) * (len(calls) - 1)]
            yield from ((calls, (False, *joined)) for joined in flags)


def _check_steps(cut: Plan, before: float, value: Callable[[Plan], float | None], tally: Tally) -> None:
    """A required call that was missing may not lower the score; one more of what is done may not raise it."""
    earned = judge(cut).earned
    for move in (Move.SEARCH, Move.LEAVE, Move.ORG):
        longer = Plan((*cut.moves, move), (*cut.joined, False), End.CUT)
        after = value(longer)
        if after is None:
            continue
        gained = judge(longer).earned > earned
        repaired = judge(longer).reasons != judge(cut).reasons  # a mistake put right: that may pay
        if gained and after < before - EPS:
            tally.break_property("a correct step lowers the score", f"{longer}: {before:.3f} to {after:.3f}")
        if not (gained or repaired) and after > before + EPS and move in cut.moves and _was_done(cut, move):
            tally.break_property("a repeat raises the score", f"{longer}: {before:.3f} to {after:.3f}")


def _was_done(cut: Plan, move: Move) -> bool:
    """Whether the move has been made rightly before: taking it away would lose something."""
    places = [index for index, each in enumerate(cut.moves) if each is move]
    without = [index for index in range(len(cut.moves)) if index not in places]
    rest = Plan(tuple(cut.moves[i] for i in without), tuple(cut.joined[i] for i in without), cut.end)
    return judge(rest).earned < judge(cut).earned


@dataclass(frozen=True, slots=True)
class Loophole:
    """A kind of plan that is paid too much: what is wrong, how many, the shortest of the best paid and its score."""

    kind: str
    reasons: tuple[str, ...]
    plans: int
    example: str
    score: float
    bar: float  # what it should have stayed below


@dataclass(frozen=True, slots=True)
class Findings:
    """bars: the least that a success scores, and the least that honest work scores that earned something."""

    plans: int
    outcomes: Mapping[str, int]
    bars: Mapping[str, float | None]
    loopholes: tuple[Loophole, ...]
    punished: tuple[Loophole, ...]
    broken: Mapping[str, tuple[int, str]]
    unscored: int

    @property
    def open(self) -> bool:
        return bool(self.loopholes or self.punished or self.broken or self.unscored)


def findings(tally: Tally) -> Findings:
    """The classes of plans that fail the oracle and are paid all the same, and of good ones that are punished."""
    flat = [
        (key, score, count, plan) for key, by_score in tally.scores.items() for score, (count, plan) in by_score.items()
    ]
    successes = [score for (outcome, *_), score, _, _ in flat if outcome is Outcome.SUCCESS]
    failures = [score for (outcome, *_), score, _, _ in flat if outcome is not Outcome.SUCCESS]
    honest = [score for (outcome, _, earned, _), score, _, _ in flat if outcome is Outcome.HONEST and earned]
    success_bar, honest_bar = min(successes, default=None), min(honest, default=None)
    outcomes = Counter[str]()
    for (outcome, *_), _, count, _ in flat:
        outcomes[outcome] += count
    loopholes = []
    for key in tally.scores:
        outcome, _, earned, _ = key
        if outcome is Outcome.SUCCESS:
            continue
        if success_bar is not None:
            loopholes += _paid(tally, key, "a failure scores like a success", success_bar)
        if outcome is Outcome.DISHONEST and honest_bar is not None:
            # Where honest work earns nothing, dishonest work may not earn anything either.
            bar = max(honest_bar, 2 * EPS)
            loopholes += _paid(tally, key, "dishonest work scores like honest work", bar, below=success_bar)
        if outcome is Outcome.HONEST and not earned:
            loopholes += _paid(tally, key, "credit for nothing", 2 * EPS, below=success_bar)
    punished = _punished(tally, max(failures, default=0.0))
    return Findings(
        tally.plans,
        dict(outcomes),
        {"success": success_bar, "honest": honest_bar},
        tuple(sorted(loopholes, key=lambda each: (each.kind, -each.score, each.reasons))),
        tuple(punished),
        tally.broken,
        sum(tally.unscored.values()),
    )


def _paid(tally: Tally, key: Key, kind: str, bar: float, below: float | None = None) -> list[Loophole]:
    """The plans of a class that score at least `bar` (and less than `below`, which another kind covers), if any."""
    caught = [
        (plan, score, count)
        for score, (count, plan) in tally.scores[key].items()
        if score >= bar - EPS and (below is None or score < below - EPS)
    ]
    if not caught:
        return []
    plan, score, _ = min(caught, key=lambda each: (-each[1], _length(each[0])))
    return [Loophole(kind, tuple(key[1]), sum(count for *_, count in caught), str(plan), score, bar)]


def _punished(tally: Tally, best_failure: float) -> Iterator[Loophole]:
    for key, by_score in tally.scores.items():
        outcome, reasons, _, clean = key
        if outcome is not Outcome.SUCCESS:
            continue
        low = [(plan, score, count) for score, (count, plan) in by_score.items() if score <= best_failure + EPS]
        if low:
            plan, score, _ = min(low, key=lambda each: _length(each[0]))
            count = sum(count for *_, count in low)
            yield Loophole("a success scores no more than a failure", reasons, count, str(plan), score, best_failure)
        low = [(plan, score, count) for score, (count, plan) in by_score.items() if clean and score < 1 - 1e-6]
        if low:
            plan, score, _ = min(low, key=lambda each: _length(each[0]))
            yield Loophole(
                "a clean success scores less than 1", reasons, sum(c for *_, c in low), str(plan), score, 1.0
            )


def as_json(found: Findings) -> dict[str, Any]:
    """Plain values, for a file."""
    return {
        "plans": found.plans,
        "outcomes": dict(found.outcomes),
        "bars": dict(found.bars),
        "loopholes": [_plain(each) for each in found.loopholes],
        "punished": [_plain(each) for each in found.punished],
        "broken": {name: {"plans": count, "example": example} for name, (count, example) in found.broken.items()},
        "unscored": found.unscored,
    }


def _plain(each: Loophole) -> dict[str, Any]:
    return {
        "kind": each.kind,
        "reasons": list(each.reasons),
        "plans": each.plans,
        "example": each.example,
        "score": each.score,
        "bar": each.bar,
    }
