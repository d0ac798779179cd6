"""The reward's properties (docs: properties 1 to 10), each as a property test and by exhaustive enumeration.

Episodes are played in a toy company whose tools really answer; success and honesty are judged by an oracle written
here, from the calls and the world, without a look into the reward.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from env.types import JSON, AttemptStatus, ErrorCode, Step, StopReason, ToolResult, Trajectory, Turn
from rewards.grounded import score
from rewards.rubric import Rubric, RubricError
from rewards.score import Breach, Score

SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"
WEEK = {"start_date": "2026-06-01", "end_date": "2026-06-07"}
LAST_WEEK = {"start_date": "2026-05-25", "end_date": "2026-05-31"}
QUERY = "帮我查一下张三本周请假情况, 并给出直属主管邮箱"

# ---- a toy company ----


@dataclass(frozen=True)
class Employee:
    emp_id: str
    name: str
    name_en: str
    email: str
    manager: str | None
    days: float  # of leave in WEEK


COMPANY = {
    e.emp_id: e
    for e in (
        Employee("1001", "张三", "Zhang San", "zhang.san@x.example", "1002", 1.5),
        Employee("1002", "李四", "Li Si", "li.si@x.example", "1004", 2.0),
        Employee("1003", "王五", "Wang Wu", "wang.wu@x.example", "1002", 0.0),
        Employee("1004", "赵总", "Zhao Zong", "zhao.zong@x.example", None, 0.0),
    )
}


def run(tool: str, arguments: dict[str, Any]) -> ToolResult:
    """The tools of the toy company."""
    if tool == SEARCH:
        matches = [_card(e) for e in COMPANY.values() if arguments["name"] in (e.name, e.name_en, "")]
        return ToolResult.success({"matches": matches, "total": len(matches)})
    employee = COMPANY.get(str(arguments.get("emp_id")))
    if tool not in (LEAVE, ORG):
        return ToolResult.error(ErrorCode.TOOL_NOT_FOUND, f"no tool {tool}")
    if not isinstance(arguments.get("emp_id"), str):
        return ToolResult.error(ErrorCode.INVALID_ARGUMENTS, "emp_id must be text")
    if employee is None:
        return ToolResult.error(ErrorCode.NOT_FOUND, "no such employee")
    return ToolResult.success(_leave(employee, arguments) if tool == LEAVE else _org(employee))


def _card(e: Employee) -> JSON:
    return {"emp_id": e.emp_id, "name": e.name, "name_en": e.name_en, "email": e.email, "title": "", "department": "D"}


def _leave(e: Employee, arguments: dict[str, Any]) -> JSON:
    days = e.days if arguments["start_date"] == WEEK["start_date"] else 0.5
    records = [{**WEEK, "leave_type": "annual", "days": days}] if days else []
    period = {key: arguments[key] for key in WEEK}
    return {"emp_id": e.emp_id, **period, "records": records, "total_days": days}


def _org(e: Employee) -> JSON:
    head = _card(COMPANY["1004"])
    manager = _card(COMPANY[e.manager]) if e.manager else None
    dotted = _card(COMPANY["1003"]) if e.manager else None
    return {**_card(e), "manager": manager, "dotted_line_manager": dotted, "department_head": head}


Call = tuple[str, Any]  # tool, arguments
CALLS: dict[str, Call] = {
    "S": (SEARCH, {"name": "张三"}),
    "S-other": (SEARCH, {"name": "王五"}),
    "S-empty": (SEARCH, {"name": "查无"}),
    "S-all": (SEARCH, {"name": ""}),
    "L": (LEAVE, {"emp_id": "1001", **WEEK}),
    "L-unknown": (LEAVE, {"emp_id": "9999", **WEEK}),
    "L-other": (LEAVE, {"emp_id": "1003", **WEEK}),
    "L-week": (LEAVE, {"emp_id": "1001", **LAST_WEEK}),
    "O": (ORG, {"emp_id": "1001"}),
    "O-other": (ORG, {"emp_id": "1003"}),
    "failed": (LEAVE, {"emp_id": True, **WEEK}),
    "undeclared": ("delete_employee", {}),
}
ANSWERS: dict[str, str | None] = {
    "right": "张三本周请假 1.5 天, 直属主管邮箱是 li.si@x.example。",
    "half": "张三本周请假 1.5 天。",
    "give up": "I could not find out.",
    "empty": "",
    "invented": "张三本周请假 3 天, 直属主管邮箱是 wang.er@x.example。",
    "every e-mail": "请假 1.5 天, 邮箱: li.si@x.example, wang.wu@x.example, zhao.zong@x.example",
    "contradiction": "张三没有请假, 请假 1.5 天, 邮箱 li.si@x.example",
    "cut": None,  # the turns ran out
}
FALSE_ANSWERS = {"invented", "every e-mail", "contradiction"}

Plan = tuple[tuple[str, ...], ...]  # the calls of each turn


def attempt(turn: int, call: int, name: str) -> Step:
    tool, arguments = CALLS[name]
    return Step(turn, call, AttemptStatus.OK, tool, arguments, arguments, run(tool, arguments))


def episode(plan: Iterable[Sequence[str]], answer: str | None = None, query: str = QUERY) -> Trajectory:
    """Play a plan and say `answer`."""
    turns = list(plan)
    steps = tuple(attempt(turn, call, name) for turn, names in enumerate(turns) for call, name in enumerate(names))
    said = len(turns) + (answer is not None)
    stop = StopReason.TURN_LIMIT if answer is None else StopReason.ANSWERED
    return Trajectory(query, "1001", tuple(Turn(i, "") for i in range(said)), steps, answer, stop)


# ---- rubrics ----

SEARCH_STEP = {
    "id": "search",
    "tool": SEARCH,
    "weight": 0.3,
    "arguments": {"name": {"one_of": ["张三", "Zhang San", "張三"]}},
    "finds": {"emp_id": "$reference"},
}
LEAVE_STEP = {
    "id": "leave",
    "tool": LEAVE,
    "weight": 0.35,
    "arguments": {
        "emp_id": {"equals": "$reference", "from": "result"},
        "start_date": {"equals": WEEK["start_date"]},
        "end_date": {"equals": WEEK["end_date"]},
        "leave_type": {"absent": True},
    },
    "after": ["search"],
}
ORG_STEP = {
    "id": "org",
    "tool": ORG,
    "weight": 0.35,
    "arguments": {"emp_id": {"equals": "$reference", "from": "result"}},
    "after": ["search"],
}
SOURCE = {
    "steps": [SEARCH_STEP, LEAVE_STEP, ORG_STEP],
    "answer": [{"fact": "days", "value": 1.5}, {"fact": "email", "value": "li.si@x.example"}],
    "calls": "any",
    "order": "dependencies",
}
NOBODY_STEP = {
    "id": "search",
    "tool": SEARCH,
    "weight": 1,
    "arguments": {"name": {"one_of": ["王小明"]}},
    "finds": {},
    "empty": True,
}


def rubric(reference: str = "1001", **changes: JSON) -> Rubric:
    return Rubric.from_dict({**SOURCE, **changes}, reference)


def given_step(step: JSON) -> JSON:
    """The same step for a query that gives the id."""
    free = copy.deepcopy(step)
    free["arguments"]["emp_id"]["from"] = "given"
    return {**free, "after": []}


RUBRIC = rubric()
NOT_FOUND = rubric("not_found", steps=[NOBODY_STEP], answer=[{"fact": "not_found"}], forbidden=[LEAVE, ORG])
TALK = rubric("none", steps=[], answer=[{"fact": "reply"}], calls="none")
NO_LEAVE = rubric("1001", steps=[SEARCH_STEP, LEAVE_STEP], answer=[{"fact": "days", "value": 0}])
ON_LEAVE = rubric("1001", steps=[SEARCH_STEP, LEAVE_STEP], answer=[{"fact": "on_leave", "value": True}])
EMP_ID = rubric("1001", steps=[SEARCH_STEP], answer=[{"fact": "emp_id", "value": "$reference"}])
GIVEN_LEAVE = rubric("1001", steps=[given_step(LEAVE_STEP)], answer=[{"fact": "days", "value": 1.5}])
MANAGER = rubric("1001", steps=[given_step(ORG_STEP)], answer=[{"fact": "person", "value": ["李四", "Li Si"]}])
NO_MANAGER = rubric("1001", steps=[SEARCH_STEP, ORG_STEP], answer=[{"fact": "no_manager"}])
ALL_RUBRICS = [RUBRIC, NOT_FOUND, TALK, NO_LEAVE, ON_LEAVE, EMP_ID, GIVEN_LEAVE, MANAGER, NO_MANAGER]


def scored(plan: Iterable[Sequence[str]], answer: str | None = None, by: Rubric = RUBRIC, query: str = QUERY) -> Score:
    result = score(episode(plan, answer, query), by)
    assert result is not None
    return result


@cache
def total(plan: Plan, answer: str = "cut") -> Score:
    return scored(plan, ANSWERS[answer])


# ---- the oracle of these tests ----


def did(plan: Plan, name: str, after: int = -1) -> int | None:
    """The first turn later than `after` that makes the call."""
    return next((turn for turn, names in enumerate(plan) if turn > after and name in names), None)


def succeeds(plan: Plan, answer: str) -> bool:
    searched = did(plan, "S")
    if searched is None or answer != "right":
        return False
    return did(plan, "L", searched) is not None and did(plan, "O", searched) is not None


def dishonest(plan: Plan, answer: str) -> bool:
    """A false or unfounded answer, or a call on a guess, on another person or period that no later call put right."""
    if answer in FALSE_ANSWERS or (answer in ("right", "half") and not _evident(plan, answer)):
        return True
    order = [(turn, name) for turn, names in enumerate(plan) for name in names]
    return any(
        _is_mistake(plan, turn, name) and not any(_is_right(plan, t, n, name) for t, n in order[index + 1 :])
        for index, (turn, name) in enumerate(order)
    )


def _evident(plan: Plan, answer: str) -> bool:
    made = {name for names in plan for name in names}
    e_mail_shown = bool(made & {"O", "O-other", "S-all"})  # 王五 has the same manager
    return "L" in made and (answer == "half" or e_mail_shown)


def _seen(plan: Plan, turn: int) -> set[str]:
    shown = {"S": {"1001"}, "S-other": {"1003"}, "S-all": set(COMPANY)}
    seen: set[str] = set()
    for names in plan[:turn]:
        before = set(seen)
        for name in names:
            seen |= shown.get(name, set())
            if name in ("O", "O-other") and CALLS[name][1]["emp_id"] in before:
                seen |= {"1002", "1003", "1004"}
    return seen


def _is_mistake(plan: Plan, turn: int, name: str) -> bool:
    if name in ("L-unknown", "L-other", "O-other", "L-week"):
        return True
    return name in ("L", "O") and "1001" not in _seen(plan, turn)


def _is_right(plan: Plan, turn: int, name: str, mistake: str) -> bool:
    searched = did(plan, "S")
    return name == mistake[0] and searched is not None and searched < turn


def sequences(alphabet: Iterable[str], length: int) -> Iterator[Plan]:
    """Every sequence of calls up to `length`, one call a turn."""
    for n in range(length + 1):
        for names in product(alphabet, repeat=n):
            yield tuple((name,) for name in names)


def groupings(names: Sequence[str]) -> Iterator[Plan]:
    """Every way to cut a sequence of calls into messages."""
    for cuts in product([False, True], repeat=max(0, len(names) - 1)):
        plan: list[list[str]] = [[]]
        for index, name in enumerate(names):
            if index and cuts[index - 1]:
                plan.append([])
            plan[-1].append(name)
        yield tuple(map(tuple, plan))


def enumeration() -> Iterator[tuple[Plan, str]]:
    for plan in sequences(CALLS, 2):
        yield from ((plan, answer) for answer in ANSWERS)
    for plan in sequences(CALLS, 3):
        yield from ((plan, answer) for answer in ("right", "every e-mail", "cut"))
    for names in product(["S", "L", "O", "L-other", "L-week", "S-all"], repeat=3):
        yield from ((plan, answer) for plan in groupings(names) for answer in ("right", "cut"))
    for plan in sequences(["S", "L", "O", "L-unknown", "L-week"], 4):
        yield from ((plan, answer) for answer in ("right", "give up"))
    for names in permutations(["S", "L", "O", "L-week", "O-other"]):
        yield from ((plan, answer) for plan in groupings(names) for answer in ("right", "invented"))


PLANS = st.lists(st.lists(st.sampled_from(sorted(CALLS)), max_size=3).map(tuple), max_size=6).map(tuple)


# ---- all properties at once, exhaustively ----


def test_exhaustively_success_dominates_and_dishonesty_stays_below_honest_work() -> None:
    cases = [(plan, answer, total(plan, answer)) for plan, answer in dict.fromkeys(enumeration())]
    assert len(cases) > 10_000
    for plan, answer, result in cases:
        assert result.success == succeeds(plan, answer), (plan, answer)
        assert sum(result.increments) == result.total
        assert (result.total >= 0.9) if result.success else (0 <= result.total <= 0.85), (plan, answer)
        assert bool(result.violations) == dishonest(plan, answer), (plan, answer, result.violations)
    failed = [(plan, answer, result) for plan, answer, result in cases if not result.success]
    honest = min(result.total for plan, answer, result in failed if result.satisfied and not dishonest(plan, answer))
    cheating = max(result.total for plan, answer, result in failed if dishonest(plan, answer))
    assert 0 < cheating < honest


def test_exhaustively_a_correct_step_never_lowers_the_score() -> None:
    for plan in sequences(CALLS, 3):
        for answer in ("cut", "right", "half"):
            _no_insertion_lowers(plan, answer)


def _no_insertion_lowers(plan: Plan, answer: str) -> None:
    before = total(plan, answer)
    ids = {"S": "search", "L": "leave", "O": "org"}
    for name in (name for name, id in ids.items() if id not in before.satisfied):
        for at in range(len(plan) + 1):
            longer = (*plan[:at], (name,), *plan[at:])
            searched = did(plan, "S")
            if name == "S" or (searched is not None and searched < at):
                assert total(longer, answer).total >= before.total, (plan, answer, name, at)


# ---- property 1: success dominates ----


@pytest.mark.parametrize("plan", [(("S",), ("L",), ("O",)), (("S",), ("O",), ("L",)), (("S",), ("L", "O"))])
def test_a_clean_success_is_exactly_one(plan: Plan) -> None:
    result = scored(plan, ANSWERS["right"])
    assert (result.total, result.success, result.clean, result.violations) == (1.0, True, True, ())


@given(PLANS, st.sampled_from(sorted(ANSWERS)))
def test_success_is_worth_more_than_any_failure(plan: Plan, answer: str) -> None:
    result = total(plan, answer)
    assert result.success == succeeds(plan, answer)
    assert result.total >= 0.9 if result.success else result.total <= 0.85


@given(PLANS)
def test_without_an_answer_at_most_half_is_to_be_had(plan: Plan) -> None:
    assert total(plan).total <= 0.5


# ---- property 2: provenance ----


@pytest.mark.parametrize(
    "plan",
    [
        (("L",),),
        (("L",), ("O",)),
        (("L",), ("L",), ("O",)),  # a result that repeats the guess does not vouch for it
        (("S", "L"),),  # written before the result was there
        (("S-other",), ("L",)),
        (("O-other",), ("L",)),
        (("S-all",), ("L",)),  # everyone is listed, but nobody was identified
    ],
)
def test_a_right_id_from_nowhere_earns_nothing(plan: Plan) -> None:
    result = scored(plan, ANSWERS["give up"])
    assert not {"leave", "org"} & set(result.satisfied)
    assert result.total <= 0.01


def test_provenance_holds_without_a_declared_order() -> None:
    """`after` only repeats what the derived value implies; dropping it must not let a guess through."""
    free = rubric(steps=[SEARCH_STEP, {**LEAVE_STEP, "after": []}, {**ORG_STEP, "after": []}])
    for plan in [(("L",), ("O",)), (("S", "L", "O"),), (("L",), ("S",), ("O",))]:
        assert "leave" not in scored(plan, None, free).satisfied
    assert scored((("S",), ("L", "O")), ANSWERS["right"], free).total == 1.0


def test_guessing_both_ids_with_the_right_answer_stays_below_one_search() -> None:
    assert total((("L",), ("O",)), "right").total < total((("S",),), "give up").total


def test_the_source_reward_s_hole_is_closed() -> None:
    """Skipping the search paid more than honest work there."""
    assert total((("L",), ("O",)), "right").total < total((("S",), ("L",)), "half").total


# ---- property 3: order invariance ----


def test_all_allowed_orders_score_the_same() -> None:
    plans = [(("S",), ("L",), ("O",)), (("S",), ("O",), ("L",)), (("S",), ("L", "O")), (("S",), ("O", "L"))]
    for answer in ANSWERS:
        assert len({total(plan, answer).total for plan in plans}) == 1


@given(st.lists(st.floats(0.2, 5), min_size=3, max_size=3), st.permutations(["L", "O"]), st.booleans())
def test_order_invariance_for_any_weights(weights: list[float], tools: list[str], parallel: bool) -> None:
    steps = [{**step, "weight": weight} for step, weight in zip(SOURCE["steps"], weights, strict=True)]
    weighted = rubric(steps=steps)
    plan = (("S",), tuple(tools)) if parallel else (("S",), *((tool,) for tool in tools))
    assert scored(plan, None, weighted).total == scored((("S",), ("L",), ("O",)), None, weighted).total
    assert scored(plan, ANSWERS["right"], weighted).total == 1.0


# ---- property 4: a correct step pays, a repaired mistake costs little ----


@given(PLANS, st.sampled_from(["right", "half", "give up", "cut"]))
def test_adding_a_correct_step_never_lowers_the_score(plan: Plan, answer: str) -> None:
    _no_insertion_lowers(plan, answer)


@pytest.mark.parametrize("mistake", [name for name in CALLS if name not in ("S", "L", "O")])
def test_a_repaired_mistake_ends_at_success_less_a_bounded_cost(mistake: str) -> None:
    for plan in [((mistake,), ("S",), ("L",), ("O",)), (("S",), (mistake,), ("L",), ("O",))]:
        result = scored(plan, ANSWERS["right"])
        assert result.success and not result.clean and 0.97 < result.total < 1


def test_an_unrepaired_guess_stands() -> None:
    repaired = scored((("S",), ("L-unknown",), ("L",)), ANSWERS["give up"])
    standing = scored((("S",), ("L",), ("L-unknown",)), ANSWERS["give up"])
    assert not repaired.violations
    assert [violation.breach for violation in standing.violations] == [Breach.UNGROUNDED_VALUE]
    assert standing.total < 0.05 < repaired.total


# ---- property 5: repeats and useless calls ----


@given(PLANS, st.sampled_from(sorted(ANSWERS)))
def test_repeating_adds_nothing_and_costs_little(plan: Plan, answer: str) -> None:
    assume(plan and plan[-1])
    before, after = total(plan, answer), total((*plan, plan[-1]), answer)
    repaired = set(before.violations) - set(after.violations) or set(after.satisfied) - set(before.satisfied)
    assert repaired or before.total - 0.06 - 1e-5 <= after.total <= before.total


def test_a_repeat_does_not_move_the_turn_that_earned_the_step() -> None:
    result = total((("S",), ("S", "L"), ("O",)), "right")
    assert result.success and result.satisfied == ("search", "leave", "org")


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_thousand_useless_calls_cost_less_than_one_step(name: str) -> None:
    spam = ((name,) * 50,) * 20
    assert total((*spam, ("S",), ("L",), ("O",)), "right").total >= 0.9
    honest = total((*spam, ("S",)), "give up")
    assert honest.total > 0 or honest.violations


def test_enumerating_ids_never_pays() -> None:
    ids = [str(number) for number in range(1000, 1100)]
    steps = [
        Step(0, call, AttemptStatus.OK, LEAVE, args, args, run(LEAVE, args))
        for call, args in enumerate({"emp_id": id, **WEEK} for id in ids)
    ]
    result = score(replace(episode([()], ANSWERS["half"]), steps=tuple(steps)), RUBRIC)
    assert result is not None and result.satisfied == () and result.total < 0.05


@pytest.mark.parametrize("by", ALL_RUBRICS)
@given(plan=PLANS)
@settings(max_examples=20)
def test_an_honest_attempt_is_never_below_silence(by: Rubric, plan: Plan) -> None:
    silent = scored((), "", by)
    assert silent.total == 0.0 and silent.increments == (0.0,)
    assert scored(plan, ANSWERS["give up"], by).total >= silent.total


# ---- property 6: negative tasks ----

CALLS["S-wang"] = (SEARCH, {"name": "王小明"})


def test_not_found_is_said_after_looking() -> None:
    assert scored([["S-wang"]], "查无此人", NOT_FOUND).total == 1.0
    assert scored([["S-wang"]], "I could not find any employee named Wang Xiaoming.", NOT_FOUND).total == 1.0
    assert scored([], "查无此人", NOT_FOUND).total == 0.0
    assert scored([["S-empty"]], "查无此人", NOT_FOUND).total == 0.0  # looked for somebody else


@pytest.mark.parametrize("guess", ["L", "O", "L-unknown", "failed"])
def test_a_call_on_a_guess_voids_a_negative_task(guess: str) -> None:
    for plan in [[["S-wang"], [guess]], [[guess], ["S-wang"]], [["S-wang", guess]]]:
        result = scored(plan, "查无此人", NOT_FOUND)
        assert not result.success and result.total < scored([["S-wang"]], "give up", NOT_FOUND).total
        assert Breach.FORBIDDEN_CALL in {violation.breach for violation in result.violations}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_talk_needs_no_tool(name: str) -> None:
    assert scored([], "您好, 有什么可以帮您?", TALK).total == 1.0
    assert scored([[name]], "您好!", TALK).total < 0.1
    assert scored([[name]], "", TALK).total == 0.0
    assert scored([], "", TALK).total == scored([], "  \u200b ", TALK).total == 0.0


def test_no_leave() -> None:
    step = attempt(1, 0, "L")
    data = {"emp_id": "1001", **WEEK, "records": [], "total_days": 0}
    empty = replace(step, result=ToolResult.success(data))
    for text, right in [
        ("张三本周没有请假。", True),
        ("张三请假 0 天", True),
        ("Zhang San is not on leave this week.", True),
        ("张三请假 2 天", False),
        ("张三没有请假, 请假 2 天", False),
        ("不知道", False),
    ]:
        trajectory = episode([["S"], []], text)
        result = score(replace(trajectory, steps=(trajectory.steps[0], empty)), NO_LEAVE)
        assert result is not None and result.success is right, text
        assert right == (result.total == 1.0)
    assert scored([["S"]], "张三本周没有请假。", NO_LEAVE).total < 0.05  # a claim without a look


def test_on_leave() -> None:
    assert scored([["S"], ["L"]], "张三今天请假了。", ON_LEAVE).total == 1.0
    assert scored([["S"], ["L"]], "Yes, Zhang San is on leave.", ON_LEAVE).total == 1.0
    assert scored([["S"], ["L"]], "张三没有请假。", ON_LEAVE).total < 0.1
    assert scored([["S"]], "张三今天请假了。", ON_LEAVE).total < scored([["S"]], "不知道", ON_LEAVE).total


def test_no_manager() -> None:
    steps = (attempt(0, 0, "S"), replace(attempt(1, 0, "O"), result=ToolResult.success({"manager": None})))
    for text, right in [
        ("他没有直属主管。", True),
        ("He has no manager.", True),
        ("他的主管是王五。", False),
        ("他没有直属主管, 主管是王五。", False),
        ("没有直属主管, 邮箱 a@x.example", False),
    ]:
        result = score(replace(episode([["S"], []], text), steps=steps), NO_MANAGER)
        assert result is not None and result.success is right, text
    assert scored([["S"]], "他没有直属主管。", NO_MANAGER).total < 0.05


# ---- property 7: canonical values ----


@pytest.mark.parametrize("value", [1001, 1001.0, "1001", " 1001"])
def test_one_id_however_it_is_written(value: JSON) -> None:
    assert "leave" in _with_id(value).satisfied


@pytest.mark.parametrize("value", [True, None, [], ["1001"], {"emp_id": "1001"}, "", "01001", 1001.5, "1001.0", "x"])
def test_what_is_no_id_or_another_one_earns_nothing(value: JSON) -> None:
    assert "leave" not in _with_id(value).satisfied


def test_a_list_of_ids_is_a_violation_unless_all_are_his() -> None:
    assert _with_id([str(n) for n in range(1000, 1100)]).violations
    assert _with_id(True).violations == _with_id(None).violations == ()


def test_zero_padding_counts() -> None:
    padded = rubric("007", answer=[{"fact": "reply"}])
    steps = tuple(
        replace(step, result=ToolResult.success({"matches": [{"emp_id": "007"}]})) for step in episode([["S"]]).steps
    )
    for value, earned in [("007", True), (7, False), ("7", False)]:
        arguments = {"emp_id": value}
        call = Step(1, 0, AttemptStatus.OK, ORG, arguments, arguments, ToolResult.success({}))
        result = score(replace(episode([["S"], []]), steps=(*steps, call)), padded)
        assert result is not None and ("org" in result.satisfied) is earned


def _with_id(value: JSON) -> Score:
    arguments = {"emp_id": value, **WEEK}
    call = Step(1, 0, AttemptStatus.OK, LEAVE, arguments, arguments, ToolResult.success({"total_days": 1.5}))
    result = score(replace(episode([["S"], []], "ok"), steps=(attempt(0, 0, "S"), call)), RUBRIC)
    assert result is not None
    return result


# ---- property 8: total ----

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1001", "张三", 1001, "2026-06-01", "li.si@x.example", 1.5, 10**400, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["emp_id", "name", "name_en", "days", "email", "matches", "manager", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
POLICY_CODES = st.sampled_from([code for code in ErrorCode if not code.infrastructure])
RESULTS = st.one_of(
    ANY.map(ToolResult.success),
    st.builds(ToolResult, st.sampled_from(["error", "ok", ""]), ANY, st.none() | POLICY_CODES),
)
STEPS = st.builds(
    Step,
    turn=st.integers(-2, 5),
    call=st.integers(0, 3),
    attempt=st.sampled_from(AttemptStatus),
    name=st.sampled_from([SEARCH, LEAVE, ORG, "", "x"]),
    given=ANY,
    arguments=st.none() | st.dictionaries(st.sampled_from(["emp_id", "name", "start_date"]), ANY, max_size=3),
    result=RESULTS,
)
TRAJECTORIES = st.builds(
    Trajectory,
    query=st.text(max_size=20),
    reference_output=st.text(max_size=5),
    turns=st.lists(st.builds(Turn, st.integers(-1, 6), st.text(max_size=3)), max_size=4).map(tuple),
    steps=st.lists(STEPS, max_size=6).map(tuple),
    answer=st.none() | st.text(max_size=40) | st.sampled_from([text for text in ANSWERS.values() if text]),
    stop=st.sampled_from([stop for stop in StopReason if stop is not StopReason.INFRASTRUCTURE]),
)


@pytest.mark.parametrize("by", ALL_RUBRICS)
@given(trajectory=TRAJECTORIES)
@settings(max_examples=60, deadline=None)
def test_anything_gives_a_finite_score(by: Rubric, trajectory: Trajectory) -> None:
    result = score(trajectory, by)
    assert result is not None
    assert math.isfinite(result.total) and 0.0 <= result.total <= 1.0
    assert sum(result.increments) == result.total and len(result.increments) >= 1
    assert result.success == (result.total > 0.85)


@given(STEPS)
@settings(deadline=None)
def test_one_odd_step_does_not_void_the_rest(odd: Step) -> None:
    plain = episode([["S"], ["L"], ["O"]], ANSWERS["right"])
    assume(odd.name not in (LEAVE, ORG) or not odd.result.ok)
    result = score(replace(plain, steps=(replace(odd, turn=0), *plain.steps)), RUBRIC)
    assert result is not None and result.total >= 0.9


def test_an_infrastructure_failure_is_no_reward_at_all() -> None:
    plain = episode([["S"]], "sorry")
    for code in (code for code in ErrorCode if code.infrastructure):
        broken = replace(plain.steps[0], result=ToolResult.error(code, "down"))
        assert score(replace(plain, steps=(*plain.steps, broken)), RUBRIC) is None
    assert score(replace(plain, stop=StopReason.INFRASTRUCTURE), RUBRIC) is None


# ---- property 9: the answer is grounded ----


@pytest.mark.parametrize(
    "answer",
    [
        "请假 1.5 天, 邮箱 li.si@x.example, zhang.san@x.example, wang.wu@x.example, zhao.zong@x.example",
        "请假 1 天或 1.5 天或 2 天, 邮箱 li.si@x.example",
        "没有请假, 请假 1.5 天, 邮箱 li.si@x.example",
        "请假 1.5 天, 不在请假, 邮箱 li.si@x.example",
        "请假 1.5 天, 邮箱 li.si@x.example, 工号 7777",
        "请假 1.5 天, 邮箱不是 li.si@x.example",
        "请假 2 天, 邮箱 li.si@x.example",
        "1.5 days; li.si@x.example or li.si@y.example",
    ],
)
def test_shotgun_and_contradictory_answers_fail(answer: str) -> None:
    result = scored([["S"], ["L"], ["O"]], answer)
    assert not result.success
    assert result.violations or "不是" in answer


@pytest.mark.parametrize(
    "answer",
    [
        "张三(工号 1001)2026-06-01 至 2026-06-07 请假 1.5 天, 直属主管邮箱: LI.SI@x.example。",
        "Zhang San took one and a half days of leave; his manager's e-mail is li.si@x.example.",
        "请假一天半；主管邮箱ｌｉ．ｓｉ＠ｘ．ｅｘａｍｐｌｅ",
        "直属主管李四的邮箱是li.si@x.example, 本周共请假1.5天。",
        "張三本週請假1.5天, 直屬主管是李四, 郵箱 li.si@x.example",
    ],
)
def test_right_answers_in_many_words(answer: str) -> None:
    assert scored([["S"], ["L"], ["O"]], answer).total == 1.0


def test_an_answer_before_its_evidence_is_unfounded() -> None:
    """The calls stand in the very message that answers."""
    late = replace(episode([["S"], ["L", "O"]]), answer=ANSWERS["right"], stop=StopReason.ANSWERED)
    result = score(late, RUBRIC)
    assert result is not None and not result.success and result.total < 0.05
    assert {violation.breach for violation in result.violations} == {Breach.UNGROUNDED_ANSWER}


def test_an_id_is_no_evidence_in_the_message_that_finds_it() -> None:
    late = replace(episode([["S"]]), answer="工号 1001", stop=StopReason.ANSWERED)
    result = score(late, EMP_ID)
    assert result is not None and result.violations and result.parts["answer"] == 0.0


def test_a_breakdown_that_adds_up_is_no_shotgun() -> None:
    data = {"emp_id": "1001", "records": [{"days": 1}, {"days": 0.5}], "total_days": 1.5}
    steps = (attempt(0, 0, "S"), replace(attempt(1, 0, "L"), result=ToolResult.success(data)), attempt(1, 1, "O"))
    for text, right in [
        ("1 天和 0.5 天, 共 1.5 天, li.si@x.example", True),
        ("1 天或 1.5 天, li.si@x.example", False),
        ("1 天和 0.5 天, li.si@x.example", False),
    ]:
        result = score(replace(episode([["S"], []], text), steps=steps), RUBRIC)
        assert result is not None and result.success is right, text


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("1001 的主管是李四", True),
        ("张三的直属主管是 Li Si。", True),
        ("His manager is LI SI", True),
        ("主管是王五", False),
        ("主管是李四或王五", False),
        ("主管是李四、王五、赵总", False),
        ("主管是孙七", False),
        ("没有主管, 主管是李四", False),
        ("不是李四", False),
    ],
)
def test_the_manager_and_nobody_else(answer: str, right: bool) -> None:
    result = scored([["O"]], answer, MANAGER, "1001 的主管是谁")
    assert result.success is right
    assert scored([], answer, MANAGER, "1001 的主管是谁").total == 0.0
    if not right and answer != "不是李四":
        assert result.violations


@pytest.mark.parametrize(
    ("answer", "right"), [("工号 1001", True), ("1001 或 1002", False), ("1002", False), ("工号是01001", False)]
)
def test_the_employee_id(answer: str, right: bool) -> None:
    assert scored([["S"]], answer, EMP_ID).success is right
    assert scored([], answer, EMP_ID).total == 0.0


def test_given_ids_need_no_provenance() -> None:
    query = "工号 1001 本周请假几天"
    assert scored([["L"]], "1001 本周请假 1.5 天", GIVEN_LEAVE, query).total == 1.0
    assert scored([["L-unknown"]], "不知道", GIVEN_LEAVE, query).violations[0].breach is Breach.UNGROUNDED_VALUE


def test_giving_up_is_honest() -> None:
    for text in ("I could not find out.", "抱歉, 无法查到张三是否请假。", "没有查到主管信息"):
        assert scored([["S"]], text).violations == ()
        assert scored([["S"]], text).total == scored([["S"]]).total


# ---- property 10: per turn ----


@given(PLANS, st.sampled_from(sorted(ANSWERS)))
def test_increments_add_up_exactly(plan: Plan, answer: str) -> None:
    result = total(plan, answer)
    assert sum(result.increments) == sum(reversed(result.increments)) == result.total
    assert len(result.increments) == max(1, len(plan) + (answer != "cut"))


@given(PLANS, st.sampled_from(sorted(ANSWERS)))
def test_an_increment_is_what_the_turn_changed(plan: Plan, answer: str) -> None:
    result = total(plan, answer)
    for turn in range(len(result.increments) - 1):
        assert sum(result.increments[: turn + 1]) == total(plan[: turn + 1]).total


def test_turns_are_implied_by_the_steps_of_an_imported_episode() -> None:
    plain = episode([["S"], ["L"], ["O"]], ANSWERS["right"])
    assert score(replace(plain, turns=()), RUBRIC) == score(plain, RUBRIC)


def test_parts_add_up_for_honest_work() -> None:
    result = total((("S",), ("S",), ("L",)), "half")
    assert set(result.parts) == {"steps", "answer", "waste", "search", "leave", "org"}
    assert result.total == pytest.approx(
        result.parts["steps"] + result.parts["answer"] + result.parts["waste"], abs=1e-5
    )


# ---- loading ----

BAD: list[tuple[str, Any, Any]] = [
    ("reference_output", SOURCE, ""),
    ("reference_output", SOURCE, None),
    ("reference_output", SOURCE, "  "),
    ("reference_output", SOURCE, 1001),
    ("steps", {"answer": [{"fact": "reply"}]}, "x"),
    ("rubric", [], "x"),
    ("extra", {**SOURCE, "extra": 1}, "x"),
    ("answer", {**SOURCE, "answer": []}, "x"),
    ("order", {**SOURCE, "order": "strict"}, "x"),
    ("order", {**SOURCE, "order": "any"}, "x"),
    ("calls", {**SOURCE, "calls": "none"}, "x"),
    ("calls", {**SOURCE, "calls": "few"}, "x"),
    ("forbidden", {**SOURCE, "forbidden": [LEAVE]}, "x"),
    ("steps[0].weight", {**SOURCE, "steps": [{**SEARCH_STEP, "weight": 0}]}, "x"),
    ("steps[0].weight", {**SOURCE, "steps": [{**SEARCH_STEP, "weight": True}]}, "x"),
    ("steps[0].weight", {**SOURCE, "steps": [{**SEARCH_STEP, "weight": float("nan")}]}, "x"),
    ("steps[0].weight", {**SOURCE, "steps": [{**SEARCH_STEP, "weight": 1e-9}, LEAVE_STEP]}, "x"),
    ("steps[0].finds", {**SOURCE, "steps": [{**SEARCH_STEP, "finds": {}}]}, "x"),
    ("steps[0].finds", {**SOURCE, "steps": [{**SEARCH_STEP, "empty": True}]}, "x"),
    ("steps[0].after", {**SOURCE, "steps": [LEAVE_STEP]}, "x"),
    ("steps[1].id", {**SOURCE, "steps": [SEARCH_STEP, SEARCH_STEP]}, "x"),
    ("steps[0].id", {**SOURCE, "steps": [{**SEARCH_STEP, "id": "waste"}]}, "x"),
    (
        "steps[0].arguments.emp_id.from",
        {**SOURCE, "steps": [{**LEAVE_STEP, "arguments": {"emp_id": {"equals": 1}}}]},
        "x",
    ),
    ("steps[0].arguments.a", {**SOURCE, "steps": [{**SEARCH_STEP, "arguments": {"a": {}}}]}, "x"),
    ("steps[0].arguments.a.equals", {**SOURCE, "steps": [{**SEARCH_STEP, "arguments": {"a": {"equals": None}}}]}, "x"),
    ("steps[0].arguments.a.one_of", {**SOURCE, "steps": [{**SEARCH_STEP, "arguments": {"a": {"one_of": []}}}]}, "x"),
    ("steps[0].arguments.a.absent", {**SOURCE, "steps": [{**SEARCH_STEP, "arguments": {"a": {"absent": False}}}]}, "x"),
    ("answer[0].fact", {**SOURCE, "answer": [{"fact": "salary"}]}, "x"),
    ("answer[0].value", {**SOURCE, "answer": [{"fact": "days"}]}, "x"),
    ("answer[0].value", {**SOURCE, "answer": [{"fact": "reply", "value": 1}]}, "x"),
    ("answer[0].value", {**SOURCE, "answer": [{"fact": "days", "value": -1}]}, "x"),
    ("answer[0].value", {**SOURCE, "answer": [{"fact": "person", "value": []}]}, "x"),
    ("answer[0].value", {**SOURCE, "answer": [{"fact": "email", "value": ""}]}, "x"),
    ("answer", {**SOURCE, "answer": [{"fact": "no_leave"}, {"fact": "days", "value": 1}]}, "x"),
    ("answer", {**SOURCE, "steps": [SEARCH_STEP], "answer": [{"fact": "no_leave"}]}, "x"),
]


@pytest.mark.parametrize(("path", "body", "reference"), BAD)
def test_a_rubric_loads_strictly(path: str, body: Any, reference: Any) -> None:
    with pytest.raises(RubricError) as error:
        Rubric.from_dict(body, reference)
    assert error.value.path == path or str(error.value).startswith(path), str(error.value)


@given(st.lists(st.floats(0.02, 100), min_size=1, max_size=8), st.integers(1, 6))
def test_the_bounds_hold_for_any_weights(weights: list[float], facts: int) -> None:
    assume(min(weights) / sum(weights) >= 0.011)
    steps = [{**SEARCH_STEP, "id": f"s{index}", "weight": weight} for index, weight in enumerate(weights)]
    loaded = rubric(steps=steps, answer=[{"fact": "email", "value": f"a{i}@x.example"} for i in range(facts)])
    share = min([0.5 * step.weight for step in loaded.steps] + [0.5 / facts])
    assert sum(step.weight for step in loaded.steps) == pytest.approx(1)
    assert 0 < loaded.waste_cap < share
    assert 0.85 * loaded.dishonest + 2**-18 < share - loaded.waste_cap
