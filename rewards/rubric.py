"""What a task requires, loaded strictly from the `task.rubric` of its data row.

A rubric is data: required calls with weights, the facts of the right answer, and what the task rules out. Whatever is
unknown, missing or unsatisfiable is a RubricError that names its path, so that no task ever gives credit by accident.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import TypeVar

from env.provenance import ID_KEY, canonical_id, canonical_value
from env.types import JSON

REFERENCE = "$reference"
STEP_MASS = 0.5  # the required calls carry this much, the facts of the answer the rest
WASTE_CAP = 0.10
DISHONEST_FACTOR = 0.1
MIN_WEIGHT = 0.01  # of the normalised weights: far above the grid on which scores lie

_T = TypeVar("_T")


class RubricError(ValueError):
    """A rubric that must not be used; the message starts with the path of what is wrong."""

    def __init__(self, path: str, problem: str):
        super().__init__(f"{path or 'rubric'}: {problem}")
        self.path = path


class Source(StrEnum):
    """Where the value of an argument has to come from."""

    RESULT = "result"  # an earlier result of the episode
    GIVEN = "given"  # the user's query: exempt from provenance


class Comparison(StrEnum):
    """How an argument is compared."""

    EQUALS = "equals"  # canonical equality: 1001 is "1001", "007" is not 7
    ONE_OF = "one_of"  # any of several spellings, whatever their case and spaces
    ABSENT = "absent"  # not given, or null


class Calls(StrEnum):
    """Whether the task may be done with calls at all."""

    ANY = "any"
    NONE = "none"  # every attempt to call is a failure


class FactType(StrEnum):
    """What the answer has to say. `on_leave: false` and `days: 0` are read as NO_LEAVE."""

    EMAIL = "email"
    DAYS = "days"
    ON_LEAVE = "on_leave"
    NO_LEAVE = "no_leave"
    PERSON = "person"
    NO_MANAGER = "no_manager"
    EMP_ID = "emp_id"
    NOT_FOUND = "not_found"
    NUMBER = "number"  # this number, and no other that the query does not have; `places`: decimals that are enough
    TEXT = "text"  # one of these spellings, and none of `rivals`
    ASK = "ask"  # which one is meant, naming something of every candidate: `value` has a list of spellings for each
    REFUSE = "refuse"  # that this cannot be done, and nothing else
    REPLY = "reply"  # any answer that is not empty

    @property
    def evidence(self) -> str | None:
        """The tool whose required call shows a fact that is no value in a result; None for the others."""
        return _EVIDENCE.get(self)


LEAVE, ORG = "plugin_leave_query", "plugin_org_query"
_EVIDENCE = {
    FactType.ON_LEAVE: LEAVE,
    FactType.NO_LEAVE: LEAVE,
    FactType.NO_MANAGER: ORG,
}
_VALUED = {
    FactType.EMAIL,
    FactType.DAYS,
    FactType.ON_LEAVE,
    FactType.PERSON,
    FactType.EMP_ID,
    FactType.NUMBER,
    FactType.TEXT,
    FactType.ASK,
}
_OPTIONS = {FactType.NUMBER: {"places"}, FactType.TEXT: {"rivals"}}
_RESERVED = {"steps", "answer", "waste"}  # names of score parts


@dataclass(frozen=True, slots=True)
class Argument:
    """One constraint on an argument of a call. `accepted` is canonical (EQUALS) or folded (ONE_OF) text."""

    name: str
    test: Comparison
    accepted: frozenset[str] = frozenset()
    source: Source | None = None
    key: str = ""  # the member of a result that holds a derived value

    def accepts(self, arguments: Mapping[str, JSON]) -> bool:
        value = arguments.get(self.name)
        if self.test is Comparison.ABSENT:
            return value is None
        return (fold(value) if self.test is Comparison.ONE_OF else canonical_value(value)) in self.accepted


@dataclass(frozen=True, slots=True)
class RubricStep:
    """A required call. `finds`: members that one object of its result must have. `empty`: its lists must be empty."""

    id: str
    tool: str
    weight: float  # normalised: the weights of a rubric add up to 1
    arguments: tuple[Argument, ...]
    finds: Mapping[str, str]
    empty: bool
    after: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that the answer must state: accepted texts (e-mail, id, spellings of a name) or a number (of days).

    places: decimals to which a number has to be right, None for exactly. rivals: texts that would be another answer.
    candidates: for each of them the texts that tell it from the others.
    """

    type: FactType
    texts: frozenset[str] = frozenset()
    number: float = 0.0
    places: int | None = None
    rivals: frozenset[str] = frozenset()
    candidates: tuple[frozenset[str], ...] = ()

    def is_number(self, said: float) -> bool:
        """Whether `said` states the number: as it is, or rounded to at least `places` decimals."""
        if said == self.number:
            return True
        return self.places is not None and any(said == round(self.number, n) for n in range(self.places, 10))

    def is_size(self, said: float) -> bool:
        """Whether `said` states the number but for its sign."""
        return self.is_number(said) or self.is_number(-said)


@dataclass(frozen=True, slots=True)
class Rubric:
    """The requirements of one task; build it with `from_dict`."""

    steps: tuple[RubricStep, ...]
    answer: tuple[Fact, ...]
    calls: Calls
    forbidden: frozenset[str]
    subjects: frozenset[str]  # ids that the task is about; any other id in a call is somebody else's
    given: frozenset[str]  # those of them that the user gave
    waste_cap: float
    dishonest: float  # factor on a score with a standing violation

    @classmethod
    def from_dict(cls, rubric: JSON, reference: JSON) -> Rubric:
        """Load a rubric, "$reference" replaced by the reference. Raises RubricError."""
        if not isinstance(reference, str) or not reference.strip():
            raise RubricError("reference_output", f"expected text that is not empty, got {reference!r}")
        body = _object(_substitute(rubric, reference), "", {"steps", "answer"}, {"calls", "forbidden", "order"})
        steps = _steps(body["steps"])
        answer = _each(body["answer"], "answer", _fact)
        calls = _member(Calls, body.get("calls", "any"), "calls")
        forbidden = frozenset(_each(body.get("forbidden", []), "forbidden", _text))
        _check_order(body.get("order", "dependencies"))
        _check_satisfiable(steps, answer, calls, forbidden)
        return cls(steps, answer, calls, forbidden, _subjects(steps), _given(steps), *_bounds(steps, answer))

    @property
    def derived(self) -> frozenset[tuple[str, str]]:
        """(key of the results' member, name of the argument) of every value that has to come from a result."""
        marked = {(arg.key, arg.name) for step in self.steps for arg in step.arguments if arg.source is Source.RESULT}
        return frozenset(marked | {(ID_KEY, ID_KEY)})

    def fact_texts(self, kind: FactType) -> frozenset[str]:
        """All accepted texts of one type of fact: two managers may be asked for."""
        return frozenset(text for fact in self.answer if fact.type is kind for text in fact.texts)


def fold(value: JSON) -> str | None:
    """Text without case and spaces; None for what is no text."""
    return "".join(value.casefold().split()) if isinstance(value, str) else None


def _bounds(steps: tuple[RubricStep, ...], answer: tuple[Fact, ...]) -> tuple[float, float]:
    """The cap on waste and the factor on dishonest scores, from the smallest share that honest work can earn.

    share - cap is the least that honest partial work is left with. The factor is at most that, and what it scales
    stays below 1, so every dishonest score lies below every honest one that earned a step or a fact.
    """
    mass = STEP_MASS if steps else 0.0
    share = min([mass * step.weight for step in steps] + [(1.0 - mass) / len(answer)])
    cap = min(WASTE_CAP, share * 2 / 3)
    return cap, min(DISHONEST_FACTOR, share - cap)


def _subjects(steps: tuple[RubricStep, ...]) -> frozenset[str]:
    found = frozenset(step.finds[ID_KEY] for step in steps if ID_KEY in step.finds)
    return found.union(*(arg.accepted for step in steps for arg in step.arguments if arg.source and arg.name == ID_KEY))


def _given(steps: tuple[RubricStep, ...]) -> frozenset[str]:
    marked = [arg.accepted for step in steps for arg in step.arguments if arg.source is Source.GIVEN]
    return frozenset().union(*marked)


def _check_order(value: JSON) -> None:
    if value == "strict":
        raise RubricError("order", "'strict' is not supported yet; expected 'dependencies'")
    if value != "dependencies":
        raise RubricError("order", f"expected 'dependencies', got {value!r}")


def _check_satisfiable(
    steps: tuple[RubricStep, ...], answer: tuple[Fact, ...], calls: Calls, forbidden: frozenset[str]
) -> None:
    tools = {step.tool for step in steps}
    kinds = {fact.type for fact in answer}
    if not answer:
        raise RubricError("answer", "expected at least one fact")
    if calls is Calls.NONE and steps:
        raise RubricError("calls", "'none' contradicts the required steps")
    if both := sorted(tools & forbidden):
        raise RubricError("forbidden", f"{both[0]} is required as well")
    if FactType.NO_LEAVE in kinds and kinds & {FactType.DAYS, FactType.ON_LEAVE}:
        raise RubricError("answer", "no leave contradicts days of leave")
    if FactType.NOT_FOUND in kinds and not any(step.empty for step in steps):
        raise RubricError("answer", "not_found needs a step with 'empty': true")
    for kind in sorted(kinds):
        if kind.evidence is not None and kind.evidence not in tools:
            raise RubricError("answer", f"{kind} needs a step that calls {kind.evidence}")


def _steps(value: JSON) -> tuple[RubricStep, ...]:
    drafts = _each(value, "steps", _step)
    seen: set[str] = set()
    for index, step in enumerate(drafts):
        path = f"steps[{index}]"
        if step.id in seen or step.id in _RESERVED:
            raise RubricError(f"{path}.id", f"{step.id!r} is taken")
        if missing := sorted(step.after - seen):
            raise RubricError(f"{path}.after", f"{missing[0]!r} is no step before this one")
        seen.add(step.id)
    total = sum(step.weight for step in drafts)
    return tuple(_weighted(step, total, f"steps[{index}].weight") for index, step in enumerate(drafts))


def _weighted(step: RubricStep, total: float, path: str) -> RubricStep:
    weight = step.weight / total
    if weight < MIN_WEIGHT:
        raise RubricError(path, f"{step.weight} is less than {MIN_WEIGHT} of all weights")
    return RubricStep(step.id, step.tool, weight, step.arguments, step.finds, step.empty, step.after)


def _step(value: JSON, path: str) -> RubricStep:
    body = _object(value, path, {"id", "tool", "weight", "arguments"}, {"finds", "empty", "after"})
    weight = _number(body["weight"], f"{path}.weight")
    if weight <= 0:
        raise RubricError(f"{path}.weight", f"expected a positive number, got {weight}")
    arguments = _mapping(body["arguments"], f"{path}.arguments")
    finds = {key: _id(item, f"{path}.finds.{key}") for key, item in _mapping(body.get("finds", {}), path).items()}
    empty = body.get("empty", False)
    if not isinstance(empty, bool):
        raise RubricError(f"{path}.empty", f"expected true or false, got {empty!r}")
    if empty == bool(finds) and "finds" in body:
        raise RubricError(f"{path}.finds", "expected members, or none with 'empty': true")
    return RubricStep(
        id=_text(body["id"], f"{path}.id"),
        tool=_text(body["tool"], f"{path}.tool"),
        weight=weight,
        arguments=tuple(_argument(name, item, f"{path}.arguments.{name}") for name, item in arguments.items()),
        finds=finds,
        empty=empty,
        after=frozenset(_each(body.get("after", []), f"{path}.after", _text)),
    )


def _argument(name: str, value: JSON, path: str) -> Argument:
    body = _object(value, path, set(), {*Comparison, "from", "key"})
    tests = [test for test in Comparison if test in body]
    if len(tests) != 1:
        raise RubricError(path, f"expected exactly one of {', '.join(Comparison)}")
    source = _member(Source, body["from"], f"{path}.from") if "from" in body else None
    if source is not None and tests[0] is not Comparison.EQUALS:
        raise RubricError(f"{path}.from", "goes with 'equals' only")
    if name == ID_KEY and tests[0] is Comparison.EQUALS and source is None:
        raise RubricError(f"{path}.from", "an id needs one: 'result' or 'given'")
    if "key" in body and source is not Source.RESULT:
        raise RubricError(f"{path}.key", 'goes with "from": "result" only')
    key = _text(body.get("key", name), f"{path}.key")
    return Argument(name, tests[0], _accepted(tests[0], body[tests[0]], f"{path}.{tests[0]}"), source, key)


def _accepted(test: Comparison, value: JSON, path: str) -> frozenset[str]:
    if test is Comparison.EQUALS:
        text = canonical_value(value)
        return frozenset({text}) if text is not None else _fail(path, f"expected text or a number, got {value!r}")
    if test is Comparison.ONE_OF:
        spellings = _each(value, path, _text)
        return frozenset(filter(None, map(fold, spellings))) or _fail(path, "expected at least one spelling")
    return frozenset() if value is True else _fail(path, f"expected true, got {value!r}")


def _fact(value: JSON, path: str) -> Fact:
    kind = _member(FactType, _mapping(value, path).get("fact"), f"{path}.fact")
    body = _object(value, path, {"fact"}, {"value"} | _OPTIONS.get(kind, set()))
    if (kind in _VALUED) != ("value" in body):
        raise RubricError(f"{path}.value", f"{kind} {'needs one' if kind in _VALUED else 'takes none'}")
    if kind is FactType.NUMBER:
        return _number_fact(body, path)
    if kind is FactType.TEXT:
        return _text_fact(body, path)
    if kind is FactType.ASK:
        return Fact(kind, candidates=_candidates(body["value"], f"{path}.value"))
    return _valued_fact(kind, body["value"], f"{path}.value") if kind in _VALUED else Fact(kind)


def _number_fact(body: Mapping[str, JSON], path: str) -> Fact:
    places = body.get("places")
    if places is not None and (type(places) is not int or not 0 <= places <= 9):
        raise RubricError(f"{path}.places", f"expected 0 to 9, got {places!r}")
    return Fact(FactType.NUMBER, number=_number(body["value"], f"{path}.value"), places=places)


def _text_fact(body: Mapping[str, JSON], path: str) -> Fact:
    texts = frozenset(_each(body["value"], f"{path}.value", _text))
    rivals = frozenset(_each(body.get("rivals", []), f"{path}.rivals", _text))
    if not texts:
        raise RubricError(f"{path}.value", "expected at least one spelling")
    if both := sorted({fold(text) for text in texts} & {fold(text) for text in rivals}, key=str):
        raise RubricError(f"{path}.rivals", f"{both[0]!r} is accepted as well")
    return Fact(FactType.TEXT, texts, rivals=rivals)


def _candidates(value: JSON, path: str) -> tuple[frozenset[str], ...]:
    found = _each(value, path, lambda each, at: frozenset(_each(each, at, _text)))
    if len(found) < 2 or not all(found):
        raise RubricError(path, f"expected at least two candidates with a text each, got {value!r}")
    return found


def _valued_fact(kind: FactType, value: JSON, path: str) -> Fact:
    if kind is FactType.ON_LEAVE:
        if not isinstance(value, bool):
            raise RubricError(path, f"expected true or false, got {value!r}")
        return Fact(kind if value else FactType.NO_LEAVE)
    if kind is FactType.DAYS:
        days = _number(value, path)
        if days < 0:
            raise RubricError(path, f"expected a number of days, got {days}")
        return Fact(kind, number=days) if days else Fact(FactType.NO_LEAVE)
    if kind is FactType.PERSON:
        spellings = frozenset(_each(value, path, _text))
        return Fact(kind, spellings or _fail(path, "expected at least one spelling"))
    text = _text(value, path).strip()
    return Fact(kind, frozenset({text.lower() if kind is FactType.EMAIL else text}))


def _substitute(value: JSON, reference: str) -> JSON:
    """ "$reference" is the reference, "$reference.manager" that member of a reference in JSON."""
    if value == REFERENCE:
        return reference
    if isinstance(value, str) and value.startswith(f"{REFERENCE}."):
        role = value.removeprefix(f"{REFERENCE}.")
        try:
            return json.loads(reference)[role]
        except (ValueError, TypeError, KeyError):
            raise RubricError("reference_output", f"has no member {role!r}, which the rubric refers to") from None
    if isinstance(value, Mapping):
        return {key: _substitute(item, reference) for key, item in value.items()}
    return [_substitute(item, reference) for item in value] if isinstance(value, list) else value


def _fail(path: str, problem: str) -> frozenset[str]:
    raise RubricError(path, problem)


def _object(value: JSON, path: str, required: set[str], optional: set[str]) -> Mapping[str, JSON]:
    body = _mapping(value, path)
    dot = f"{path}." if path else ""
    if unknown := sorted(set(body) - required - optional):
        allowed = ", ".join(sorted(required | optional))
        raise RubricError(f"{dot}{unknown[0]}", f"unknown key; expected one of {allowed}")
    if missing := sorted(required - set(body)):
        raise RubricError(f"{dot}{missing[0]}", "missing")
    return body


def _mapping(value: JSON, path: str) -> Mapping[str, JSON]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise RubricError(path, f"expected an object, got {value!r}")
    return value


def _each(value: JSON, path: str, read: Callable[[JSON, str], _T]) -> tuple[_T, ...]:
    if not isinstance(value, list | tuple):
        raise RubricError(path, f"expected a list, got {value!r}")
    return tuple(read(item, f"{path}[{index}]") for index, item in enumerate(value))


def _text(value: JSON, path: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RubricError(path, f"expected text that is not empty, got {value!r}")
    return value


def _number(value: JSON, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise RubricError(path, f"expected a number, got {value!r}")
    return float(value)


def _id(value: JSON, path: str) -> str:
    text = canonical_id(value)
    if text is None:
        raise RubricError(path, f"expected text or a whole number, got {value!r}")
    return text


_E = TypeVar("_E", bound=StrEnum)


def _member(enum: type[_E], value: JSON, path: str) -> _E:
    if not isinstance(value, str) or value not in list(enum):
        raise RubricError(path, f"expected one of {', '.join(enum)}, got {value!r}")
    return enum(value)
