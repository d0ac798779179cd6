"""The default reward: required calls with provenance, and the facts of the answer with evidence.

With w_i the normalised weights of the rubric's steps and f the share of its facts that are right:

    partial = 0.5 * sum(w_i of earned steps) + 0.5 * f              (f alone where the rubric has no steps)
    waste   = min(cap, 0.02 * attempts that earned no step)         (cap <= 0.10, below the smallest share)
    success : 1 - waste
    else    : min(0.85, max(0, partial - waste)), times `rubric.dishonest` (<= 0.1) while a violation stands

A step is earned by the first successful call of its tool whose arguments and findings match, after the steps that it
depends on, and with every derived value already shown by a result of an earlier turn. A fact is right when the answer
states it, states nothing else of its type, and a result of an earlier turn shows it. Success: every step earned, every
fact right, no call that the task rules out, no false or unfounded value in the answer. Because 0.85 < 0.90 success
dominates, and because `dishonest` is at most the smallest share less the cap, a standing violation scores less than
any honest work that earned something.

A call that uses an id from nowhere or of somebody else, or asks for another period, is a violation until a later
correct call of the same tool repairs it; then it is waste only. So it is after success, where nothing is left to
repair: useless calls stay bounded. Ruled-out calls and false answers stand. The list in the score holds what stands.

Increments: V(t) is the value of turns 0..t as if the episode had stopped there unanswered, and turn t earns
V(t) - V(t-1), the last one total - V(t-1). All values lie on a grid of 2**-20, where sums of doubles are exact.
There is one increment for every turn index of the trajectory (of its turns and steps; without turns, one more for the
answer), in order, and at least one.

Parts: "steps" and "answer" are the two summands of partial, "waste" is its negative cost, and each step's id holds
what that step earned. They add up to the total unless the cap, the floor, the factor or the grid interferes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import floor

from env.provenance import (
    ID_KEY,
    Origin,
    argument_ids,
    call_arguments,
    canonical_id,
    canonical_value,
    nodes,
    provenance,
    sightings,
    unfolded,
)
from env.types import ErrorCode, Step, StopReason, Trajectory
from rewards.facts import Evidence, Saying, mentioned, read_results, read_text
from rewards.rubric import (
    LEAVE,
    ORG,
    STEP_MASS,
    Argument,
    Calls,
    Comparison,
    Fact,
    FactType,
    Rubric,
    RubricStep,
    Source,
    fold,
)
from rewards.score import Breach, Score, Violation, folded

WASTED_CALL = 0.02
FAILURE_CAP = 0.85
_UNKNOWN = (Origin.NOWHERE, Origin.NOT_YET_SEEN)
_GRID = 2.0**20


# By (key of a result's member, name of an argument): value -> index of the step whose result first showed it.
Seen = Mapping[tuple[str, str], Mapping[str, int]]
IDS = (ID_KEY, ID_KEY)


class Verdict(StrEnum):
    """What an answer does with one fact of the rubric."""

    RIGHT = "right"
    MISSING = "missing"  # honest, if incomplete
    WRONG = "wrong"  # contradicts it, or names several candidates
    UNGROUNDED = "ungrounded"  # happens to be true, but no result showed it


@dataclass(frozen=True, slots=True)
class Progress:
    """What a prefix of the calls amounts to. `open`: mistakes by tool, until a later correct call repairs them."""

    earned: Mapping[str, int]  # step id -> turn that earned it
    attempts: int
    open: Mapping[str, tuple[Violation, ...]]
    ruled_out: tuple[Violation, ...]

    @property
    def violations(self) -> tuple[Violation, ...]:
        standing = self.ruled_out + tuple(violation for group in self.open.values() for violation in group)
        return tuple(sorted(standing, key=lambda violation: (violation.turn, violation.call or 0)))


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer judged: a verdict for each fact of the rubric, and what it claims without evidence."""

    verdicts: tuple[Verdict, ...]
    violations: tuple[Violation, ...]

    @property
    def right(self) -> float:
        return sum(verdict is Verdict.RIGHT for verdict in self.verdicts) / len(self.verdicts)


def score(trajectory: Trajectory, rubric: Rubric) -> Score | None:
    """Score one episode; None where its failure is not the model's, which is no reward at all.

    The stages of a plan (`run_plan`) count as turns, since it passes on what earlier ones found; what they earned is
    their turn's.
    """
    if _infrastructure(trajectory):
        return None
    if flat := unfolded(trajectory):
        return folded(_scored(flat.trajectory, rubric), flat.turns)
    return _scored(trajectory, rubric)


def _scored(trajectory: Trajectory, rubric: Rubric) -> Score:
    turns = _turn_indices(trajectory)
    seen = {pair: sightings(trajectory, *pair) for pair in rubric.derived}
    history = _history(trajectory, rubric, turns, seen)
    last = history[-1]
    reading = _read_answer(trajectory, rubric, last, turns[-1], seen)
    success = _succeeded(trajectory, rubric, last, reading)
    total = 1.0 - _waste(rubric, last) if success else _value(rubric, last, reading)
    values = [0.0, *(_value(rubric, progress, None) for progress in history[:-1]), total]
    return Score(
        total=total,
        parts=_parts(rubric, last, reading),
        increments=tuple(after - before for before, after in pairwise(values)),
        success=success,
        clean=success and last.attempts == len(last.earned),
        earned=dict(last.earned),
        violations=last.violations + (reading.violations if reading else ()),
    )


def _infrastructure(trajectory: Trajectory) -> bool:
    codes = (step.result.code for step in trajectory.steps)
    return trajectory.stop is StopReason.INFRASTRUCTURE or any(
        isinstance(code, ErrorCode) and code.infrastructure for code in codes
    )


def _turn_indices(trajectory: Trajectory) -> list[int]:
    called = {step.turn for step in trajectory.steps}
    if trajectory.turns:
        return sorted(called | {turn.index for turn in trajectory.turns})
    answered = {max(called, default=-1) + 1} if trajectory.stop is StopReason.ANSWERED else set()
    return sorted(called | answered) or [0]


def _history(trajectory: Trajectory, rubric: Rubric, turns: list[int], seen: Seen) -> list[Progress]:
    """The progress after each turn."""
    progress = Progress({}, 0, {}, ())
    history = []
    for turn in turns:
        for step in trajectory.steps_of(turn):
            progress = _after(progress, step, trajectory, rubric, seen)
        history.append(progress)
    return history


def _after(progress: Progress, step: Step, trajectory: Trajectory, rubric: Rubric, seen: Seen) -> Progress:
    """The progress after one more attempt."""
    met = [item for item in rubric.steps if _meets(item, step, progress, trajectory, seen)]
    new = next((item for item in met if item.id not in progress.earned), None)
    mistakes = () if met else _mistakes(step, trajectory, rubric, seen)
    standing = () if met else progress.open.get(step.name, ()) + mistakes
    ruled_out = rubric.calls is Calls.NONE or step.name in rubric.forbidden
    return replace(
        progress,
        earned={**progress.earned, new.id: step.turn} if new else progress.earned,
        attempts=progress.attempts + 1,
        open={**progress.open, step.name: standing},
        ruled_out=progress.ruled_out + ((_violation(Breach.FORBIDDEN_CALL, step, step.name),) if ruled_out else ()),
    )


def _meets(item: RubricStep, step: Step, progress: Progress, trajectory: Trajectory, seen: Seen) -> bool:
    """Whether a call does what a rubric step asks for, knowing what it had to know."""
    if not step.result.ok or step.name != item.tool:
        return False
    arguments = call_arguments(step)
    if not all(argument.accepts(arguments) for argument in item.arguments):
        return False
    derived = (argument for argument in item.arguments if argument.source is Source.RESULT)
    if any(_origin(argument, arguments, step, trajectory, seen) is not Origin.RESULT for argument in derived):
        return False
    # A step of the same message does not count: its result was not there yet when this call was written.
    return _finds(item, step) and all(progress.earned.get(id, step.turn) < step.turn for id in item.after)


def _origin(
    argument: Argument, arguments: Mapping[str, object], step: Step, trajectory: Trajectory, seen: Seen
) -> Origin:
    known = seen[(argument.key, argument.name)]
    return provenance(trajectory, arguments.get(argument.name), step.turn, known).origin


def _finds(item: RubricStep, step: Step) -> bool:
    data = step.result.data
    if item.empty:
        lists = [value for value in data.values() if isinstance(value, list)] if isinstance(data, Mapping) else []
        return bool(lists) and not any(lists)
    if not item.finds:
        return True
    objects = (value for _, value in nodes(data) if isinstance(value, Mapping))
    return any(all(canonical_id(value.get(key)) == text for key, text in item.finds.items()) for value in objects)


def _mistakes(step: Step, trajectory: Trajectory, rubric: Rubric, seen: Seen) -> tuple[Violation, ...]:
    """Dishonest arguments of a call that met no rubric step. Ids count even if the call failed, periods do not."""
    found = []
    for value in sorted(argument_ids(step) - rubric.given):
        if provenance(trajectory, value, step.turn, seen[IDS]).origin in _UNKNOWN:
            found.append(_violation(Breach.UNGROUNDED_VALUE, step, value))
        elif value not in rubric.subjects:
            found.append(_violation(Breach.WRONG_PERSON, step, value))
    for value in sorted(_made_up(step, trajectory, rubric, seen)):
        found.append(_violation(Breach.UNGROUNDED_VALUE, step, value))
    if step.result.ok and (period := _wrong_period(step, rubric)):
        found.append(_violation(Breach.WRONG_PERIOD, step, period))
    return tuple(found)


def _made_up(step: Step, trajectory: Trajectory, rubric: Rubric, seen: Seen) -> set[str]:
    """Values other than ids that the rubric wants from a result, and that neither a result nor the query had."""
    arguments, found = call_arguments(step), set()
    for item in rubric.steps:
        for argument in item.arguments if item.tool == step.name else ():
            if argument.source is not Source.RESULT or argument.name == ID_KEY:
                continue
            if arguments.get(argument.name) is None:
                continue
            if _origin(argument, arguments, step, trajectory, seen) in _UNKNOWN:
                found.add(canonical_value(arguments[argument.name]) or argument.name)
    return found


def _wrong_period(step: Step, rubric: Rubric) -> str:
    """The dates of a call that fit no rubric step of its tool; "" where they fit one or none is asked for."""
    arguments = call_arguments(step)
    asked = [[arg for arg in item.arguments if _is_date(arg)] for item in rubric.steps if item.tool == step.name]
    if not asked or any(all(_fits(arg, arguments) for arg in dates) for dates in asked):
        return ""
    return "..".join(str(arguments.get(arg.name)) for arg in asked[0])


def _is_date(argument: Argument) -> bool:
    return argument.test is Comparison.EQUALS and argument.name.endswith("_date")


def _fits(argument: Argument, arguments: Mapping[str, object]) -> bool:
    return arguments.get(argument.name) is None or argument.accepts(arguments)


def _violation(breach: Breach, step: Step, value: str) -> Violation:
    return Violation(breach, step.turn, step.call, value)


def _read_answer(
    trajectory: Trajectory, rubric: Rubric, progress: Progress, last_turn: int, seen: Seen
) -> Reading | None:
    """Judge the answer against what the model had seen when it wrote it; None where there is no answer."""
    if trajectory.stop is not StopReason.ANSWERED or not isinstance(trajectory.answer, str):
        return None
    said, asked = read_text(trajectory.answer), read_text(trajectory.query)
    shown = read_results(step for step in trajectory.steps if step.turn < last_turn)
    traced = frozenset(id for id, index in seen[IDS].items() if trajectory.steps[index].turn < last_turn)
    shown = replace(shown, ids=traced)  # an id that a call only echoed is no evidence
    done = {tool for tool in shown.tools if _all_earned(rubric, progress, tool, last_turn)}
    verdicts = tuple(_judge(fact, rubric, said, asked, shown, done) for fact in rubric.answer)
    breaches = [
        (Breach.WRONG_ANSWER if verdict is Verdict.WRONG else Breach.UNGROUNDED_ANSWER, fact.type.value)
        for fact, verdict in zip(rubric.answer, verdicts, strict=True)
        if verdict in (Verdict.WRONG, Verdict.UNGROUNDED)
    ]
    numbers = [fact for fact in rubric.answer if fact.type is FactType.NUMBER]
    sizes = {abs(number) for number in shown.numbers}
    founded = {id for id in said.ids if float(id) in sizes or any(fact.is_size(float(id)) for fact in numbers)}
    said = replace(said, ids=said.ids - founded)  # "1500" is a sum as well as an id
    breaches += [(Breach.UNGROUNDED_ANSWER, value) for value in _unfounded(said, asked, shown)]
    return Reading(verdicts, tuple(Violation(breach, last_turn, None, value) for breach, value in breaches))


def _all_earned(rubric: Rubric, progress: Progress, tool: str, before: int) -> bool:
    return all(progress.earned.get(item.id, before) < before for item in rubric.steps if item.tool == tool)


def _unfounded(said: Saying, asked: Saying, shown: Evidence) -> list[str]:
    """Values and claims of an answer that stand neither in a result nor in the query, whatever the rubric checks."""
    values = sorted(said.emails - shown.emails - asked.emails) + sorted(said.ids - shown.digits - asked.ids)
    values += [f"{days:g} days" for days in sorted(set(said.days) - shown.days - set(asked.days) - {0.0})]
    if (said.on_leave or said.no_leave or 0.0 in said.days) and LEAVE not in shown.tools:
        values.append("leave")
    if (said.manager or said.no_manager) and ORG not in shown.tools:
        values.append("manager")
    return values


def _judge(fact: Fact, rubric: Rubric, said: Saying, asked: Saying, shown: Evidence, done: set[str]) -> Verdict:
    """The verdict on one fact; `done` are the tools whose required calls were all earned and seen."""
    expected = rubric.fact_texts(fact.type)
    days = [count for count in said.days if count not in asked.days or count in _numbers(rubric)]
    leave_claims = said.on_leave or any(days)
    match fact.type:
        case FactType.REPLY:
            return Verdict.RIGHT if said.text else Verdict.MISSING
        case FactType.EMAIL:
            return _exactly(fact, expected, said.emails, asked.emails, shown.emails)
        case FactType.EMP_ID:
            said_ids = said.ids - (shown.digits - shown.ids)  # a year, say
            return _exactly(fact, expected, said_ids, asked.ids, shown.ids)
        case FactType.PERSON:
            return _person(fact, rubric, said, asked, shown)
        case FactType.DAYS:
            return _days(fact, days, rubric, said, shown)
        case FactType.NUMBER:
            return _number(fact, rubric, said, asked, shown)
        case FactType.TEXT:
            return _text(fact, said, asked, shown)
        case FactType.ASK:
            told = leave_claims or said.no_leave or said.manager or said.no_manager or said.not_found
            named = all(mentioned(said.text, texts) for texts in fact.candidates)
            shown_all = all(any(mentioned(text, texts) for text in shown.texts) for texts in fact.candidates)
            return _claim(said.asking and named, told, shown_all)
        case FactType.REFUSE:
            told = leave_claims or said.no_leave or said.manager or said.no_manager
            return _claim(said.refusing, bool(told or said.emails - asked.emails or said.ids - asked.ids), True)
        case FactType.ON_LEAVE:
            return _claim(leave_claims, said.no_leave or 0.0 in days, LEAVE in done)
        case FactType.NO_LEAVE:
            return _claim(said.no_leave or 0.0 in days, leave_claims, LEAVE in done)
        case FactType.NO_MANAGER:
            return _claim(said.no_manager, said.manager or bool(said.emails - asked.emails), ORG in done)
    facts = said.emails - asked.emails or said.ids - asked.ids or said.manager or leave_claims
    return _claim(said.not_found, bool(facts), done >= {item.tool for item in rubric.steps if item.empty})


def _claim(made: bool, contradicted: bool, grounded: bool) -> Verdict:
    if contradicted:
        return Verdict.WRONG
    if not made:
        return Verdict.MISSING
    return Verdict.RIGHT if grounded else Verdict.UNGROUNDED


def _exactly(
    fact: Fact, expected: frozenset[str], said: frozenset[str], asked: frozenset[str], shown: frozenset[str]
) -> Verdict:
    """The expected values and no other; what the user wrote may be repeated."""
    return _claim(bool(fact.texts & said), bool(said - asked - expected), bool(fact.texts & (shown | asked)))


def _days(fact: Fact, days: list[float], rubric: Rubric, said: Saying, shown: Evidence) -> Verdict:
    others = set(days) - _numbers(rubric)
    # "1 天和 0.5 天, 共 1.5 天" is one statement: its parts add up to the total.
    breakdown = others <= shown.days and sum(days) == 2 * fact.number
    return _claim(fact.number in days, said.no_leave or bool(others and not breakdown), fact.number in shown.days)


def _number(fact: Fact, rubric: Rubric, said: Saying, asked: Saying, shown: Evidence) -> Verdict:
    """The number and no other one; what the user wrote, and the task's other numbers, may be named."""
    wanted = [each for each in rubric.answer if each.type is FactType.NUMBER]
    free = [number for number in said.numbers if number not in asked.numbers or fact.is_number(number)]
    others = [number for number in free if not any(each.is_number(number) for each in wanted)]
    return _claim(any(map(fact.is_number, free)), bool(others), fact.number in shown.numbers)


def _text(fact: Fact, said: Saying, asked: Saying, shown: Evidence) -> Verdict:
    """One of the accepted spellings and no rival, but for those in the query."""
    named = mentioned(said.text, fact.texts | fact.rivals)
    rivals = (named & fact.rivals) - mentioned(asked.text, fact.rivals)
    grounded = any(mentioned(text, fact.texts) for text in shown.texts)
    return _claim(bool(named & fact.texts), bool(rivals), grounded)


def _numbers(rubric: Rubric) -> set[float]:
    return {fact.number for fact in rubric.answer if fact.type is FactType.DAYS}


def _person(fact: Fact, rubric: Rubric, said: Saying, asked: Saying, shown: Evidence) -> Verdict:
    """One of the accepted spellings and nobody else; the people whom the task is about may be named."""
    right, wanted = _spellings(fact.texts, shown), _spellings(rubric.fact_texts(fact.type), shown)
    people = {name for _, name in shown.people}
    named = mentioned(said.text, wanted | people)
    subjects = {name for id, name in shown.people if id in rubric.subjects}
    others = named - wanted - subjects - mentioned(asked.text, named)
    made = bool(named & right)
    contradicted = bool(others) or said.no_manager or (said.manager and not made)
    return _claim(made, contradicted, bool(right & people))


def _spellings(texts: frozenset[str], shown: Evidence) -> frozenset[str]:
    """Accepted spellings of a name, with those that results give the same people."""
    folded = {fold(text) for text in texts}
    ids = {id for id, name in shown.people if id and fold(name) in folded}
    return texts.union(name for id, name in shown.people if id in ids or fold(name) in folded)


def _succeeded(trajectory: Trajectory, rubric: Rubric, progress: Progress, reading: Reading | None) -> bool:
    if reading is None or reading.violations or progress.ruled_out:
        return False
    return len(progress.earned) == len(rubric.steps) and reading.right == 1.0


def _value(rubric: Rubric, progress: Progress, reading: Reading | None) -> float:
    """What an episode without success is worth."""
    partial = _steps_share(rubric, progress) + _answer_share(rubric, reading)
    value = min(FAILURE_CAP, max(0.0, partial - _waste(rubric, progress)))
    standing = progress.violations or (reading is not None and reading.violations)
    return _on_grid(value * rubric.dishonest if standing else value)


def _waste(rubric: Rubric, progress: Progress) -> float:
    return _on_grid(min(rubric.waste_cap, WASTED_CALL * (progress.attempts - len(progress.earned))))


def _steps_share(rubric: Rubric, progress: Progress) -> float:
    # Summed in the rubric's order, so that the order of the calls cannot show in the last bit.
    return STEP_MASS * sum(item.weight for item in rubric.steps if item.id in progress.earned)


def _answer_share(rubric: Rubric, reading: Reading | None) -> float:
    mass = 1.0 - STEP_MASS if rubric.steps else 1.0
    return mass * reading.right if reading is not None else 0.0


def _parts(rubric: Rubric, progress: Progress, reading: Reading | None) -> dict[str, float]:
    parts = {
        "steps": _steps_share(rubric, progress),
        "answer": _answer_share(rubric, reading),
        "waste": -_waste(rubric, progress),
    }
    return parts | {item.id: STEP_MASS * item.weight * (item.id in progress.earned) for item in rubric.steps}


def _on_grid(value: float) -> float:
    """The next lower value on the grid: rounding must not lift waste over its cap."""
    return floor(value * _GRID) / _GRID
