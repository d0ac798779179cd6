"""The HR scenario's further kinds: homonyms, attributes, second hops, two people, explicit dates, and what to refuse.

7 asks back, 8 and 9 tell homonyms apart, 12 uses other spellings, 14 to 16 other periods, 21 and 22 go over the
manager, 23 names two people of one result, 24 and 25 ask about two people, 27 and 28 are refused, 30 is about somebody
who left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from data.scenarios import hr
from data.scenarios.hr import LEAVE, ORG, WEIGHTS, Case
from data.schema import ROW_IDS, Row, Task, reference_of
from env.domains import hr as domain
from env.domains.hr.names import PersonName
from env.domains.hr.world import Company
from env.yaml_strict import load

# kind -> share of the rows, where all kinds are asked for
SHARES = {
    7: 0.03, 8: 0.03, 9: 0.03, 12: 0.04, 14: 0.03, 15: 0.03, 16: 0.03, 21: 0.04, 22: 0.04, 23: 0.03, 24: 0.04, 25: 0.04,
    27: 0.02, 28: 0.02, 30: 0.03,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """One situation. ask: phrasings of hr.yaml or hr_more.yaml. slots: of phrasing and reply. reply: name of one."""

    ask: str
    slots: Mapping[str, str]
    reply: str
    steps: tuple[Mapping[str, Any], ...]
    answer: tuple[Mapping[str, Any], ...]
    mention: str | None
    subject: int | Mapping[str, int] | None
    reference: str = ""  # an outcome word, where there is no subject
    forbidden: tuple[str, ...] = ()


def make(kind: int, language: str, split: str, number: int, seed: int, companies: int) -> Row:
    """Row `number` of a split. Equal arguments give an equal row. companies: how many the split draws from."""
    rng = random.Random(f"row/{seed}/{split}/{number}")
    while True:
        made = make_row(kind, hr.draw_case(rng, language, split, seed, companies), number, seed)
        if made is not None:
            return made


def make_row(kind: int, case: Case, number: int, seed: int) -> Row | None:
    """A row of one of KINDS, None where the company has nobody for it."""
    drawn = KINDS[kind](case)
    if drawn is None:
        return None
    text, template = _phrase(case, drawn)
    task = Task(
        id=f"hr-{case.company.split}-{seed}-{number:06d}",
        kind=kind,
        ask=drawn.ask,
        domain="hr",
        language=case.language,
        split=case.company.split,
        template=template,
        world=case.spec,
        now=case.now,
        timezone=case.timezone,
        subject=drawn.subject if isinstance(drawn.subject, int) or drawn.subject is None else dict(drawn.subject),
        mention=drawn.mention,
        period=None,
        rubric={
            "steps": list(drawn.steps),
            "answer": list(drawn.answer),
            "calls": "any" if drawn.steps else "none",
            "forbidden": list(drawn.forbidden),
            "order": "dependencies",
        },
        reply=_filled(more()["replies"][drawn.reply][case.language], drawn.slots),
    )
    if drawn.subject is None:
        return Row(text, drawn.reference, task)
    ids = domain.draw_ids(case.spec, case.now, ROW_IDS)
    return Row(text, reference_of(drawn.subject, ids.__getitem__), task)


@lru_cache(maxsize=1)
def more() -> Mapping[str, Any]:
    """The content of hr_more.yaml."""
    loaded: Mapping[str, Any] = load(Path(__file__).with_name("hr_more.yaml")).value
    return loaded


def _phrase(case: Case, drawn: Drawn) -> tuple[str, str]:
    """Text and name of a phrasing of the split, with noise around it in about half of the rows."""
    own = more()["asks"]
    options = (own if drawn.ask in own else hr.phrasings()["asks"])[drawn.ask][case.language]
    wanted = case.company.split == "eval"
    index = case.rng.choice([i for i in range(len(options)) if hr.held_out_phrasing(i) == wanted])
    text = _filled(options[index], drawn.slots)
    if case.rng.random() < 0.35:
        text = case.rng.choice(hr.phrasings()["prefixes"][case.language]) + text
    if case.rng.random() < 0.35:
        text = text + case.rng.choice(hr.phrasings()["suffixes"][case.language])
    return text, f"{drawn.ask}/{case.language}/{index}"


def _filled(text: str, slots: Mapping[str, str]) -> str:
    for name, value in slots.items():
        text = text.replace("{" + name + "}", value)
    return text


# --- people


def _unique(case: Case, wanted: Callable[[int], bool] = lambda _: True) -> int | None:
    return hr.somebody(case, wanted)


def _called(case: Case, index: int) -> str:
    return hr.mention_of(case, case.company.people[index].name)


def _homonyms(case: Case) -> list[int] | None:
    """Active people of one and the same name, each in a department of their own."""
    groups = case.company.homonyms
    return list(case.rng.choice(groups)) if groups else None


def _manager(company: Company, index: int) -> int | None:
    return company.people[index].manager


def _second_manager(company: Company, index: int) -> int | None:
    manager = _manager(company, index)
    return None if manager is None else _manager(company, manager)


def _reachable(company: Company, index: int) -> bool:
    """Whether the manager and the next one up both have an address."""
    above = (_manager(company, index), _second_manager(company, index))
    return all(boss is not None and company.people[boss].email for boss in above)


# --- steps and facts


def _search(name: PersonName, mention: str | None, who: str, id: str = "search") -> dict[str, Any]:
    step = hr.search_step(name, mention, found=True)
    return {**step, "id": id, "finds": {"emp_id": who}}


def _about(tool: str, who: str, after: str, id: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    rules: dict[str, Any] = {"emp_id": {"equals": who, "from": "result"}, **(arguments or {})}
    if tool == LEAVE and "leave_type" not in rules:
        rules["leave_type"] = {"absent": True}
    return {"id": id, "tool": tool, "weight": WEIGHTS[tool], "arguments": rules, "after": [after]}


def _dates(first: date, last: date) -> dict[str, Any]:
    return {"start_date": {"equals": first.isoformat()}, "end_date": {"equals": last.isoformat()}}


def _taken(company: Company, person: int, first: date, last: date, kind: str | None = None) -> float:
    records = (record for record in company.leave[person] if kind in (None, record.leave_type))
    return sum(record.days_within(first, last) for record in records)


def _days_fact(days: float) -> dict[str, Any]:
    return {"fact": "days", "value": days} if days else {"fact": "no_leave"}


def _person_fact(company: Company, index: int) -> dict[str, Any]:
    return {"fact": "person", "value": list(company.people[index].name.spellings)}


def _email_fact(company: Company, index: int) -> dict[str, Any]:
    return {"fact": "email", "value": company.people[index].email}


# --- kinds


def _kind_7(case: Case) -> Drawn | None:
    """Several of that name: list them and ask."""
    group = _homonyms(case)
    if group is None:
        return None
    people = case.company.people
    called = _called(case, group[0])
    departments = [people[index].department for index in group]
    english = case.company.departments
    said = [name if case.language == "zh" else english[name] for name in departments]
    find = {**hr.search_step(people[group[0]].name, called, found=True), "id": "search"}
    del find["finds"]
    fact = {"fact": "ask", "value": [[name, english[name]] for name in departments]}
    ask = case.rng.choice(("manager_email", "manager_name"))
    joint = {"zh": "、", "en": ", "}[case.language]
    slots = {"name": called, "who": called, "candidates": joint.join(said)}
    return Drawn(ask, slots, "which", (find,), (fact,), called, None, "ask", (LEAVE, ORG))


def _kind_8(case: Case) -> Drawn | None:
    """The one of that name in a department."""
    group = _homonyms(case)
    if group is None:
        return None
    subject = case.rng.choice(group)
    person = case.company.people[subject]
    called = _called(case, subject)
    department = person.department if case.language == "zh" else case.company.departments[person.department]
    mention = f"{department}的{called}" if case.language == "zh" else f"{called} of {department}"
    return _manager_of(case, subject, mention, called)


def _kind_9(case: Case) -> Drawn | None:
    """The one of that name with an address."""
    group = _homonyms(case)
    if group is None:
        return None
    subject = case.rng.choice(group)
    called, email = _called(case, subject), case.company.people[subject].email
    if not email:
        return None
    mention = f"{called}（{email}）" if case.language == "zh" else f"{called} ({email})"
    return _manager_of(case, subject, mention, called, "manager_name")


def _kind_12(case: Case) -> Drawn | None:
    """Another spelling than the language's own."""
    subject = _unique(case, lambda index: len(case.company.people[index].name.spellings) > 1)
    if subject is None:
        return None
    name = case.company.people[subject].name
    called = case.rng.choice((name.pinyin, name.traditional)) if case.language == "zh" else name.simplified
    return _manager_of(case, subject, called, called)


def _manager_of(case: Case, subject: int, mention: str, called: str, ask: str | None = None) -> Drawn | None:
    manager = _manager(case.company, subject)
    if manager is None:
        return None
    ask = ask or case.rng.choice(("manager_email", "manager_name"))
    if not hr.can_tell(case, ask, subject):
        return None
    steps = (
        _search(case.company.people[subject].name, called, "$reference"),
        _about(ORG, "$reference", "search", "org"),
    )
    fact = (_email_fact if ask == "manager_email" else _person_fact)(case.company, manager)
    return Drawn(ask, {"name": mention, "who": mention}, ask, steps, (fact,), called, subject)


def _kind_14(case: Case) -> Drawn | None:
    """Some days of next week."""
    monday = case.today - timedelta(days=case.today.weekday()) + timedelta(days=7)
    last = case.rng.choice((1, 2, 3, 4))
    words = {
        "zh": f"下周一到下周{'一二三四五'[last]}",
        "en": f"from Monday to {('Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday')[last]} next week",
    }
    return _leave_between(case, monday, monday + timedelta(days=last), words[case.language])


def _kind_16(case: Case) -> Drawn | None:
    """From one date to another, over the edge of a month or year where there is one near."""
    first = case.today - timedelta(days=case.rng.randrange(4, 22))
    last = first + timedelta(days=case.rng.randrange(3, 8))
    words = {"zh": f"{first}到{last}", "en": f"from {first} to {last}"}
    return _leave_between(case, first, last, words[case.language])


def _leave_between(case: Case, first: date, last: date, words: str) -> Drawn | None:
    subject = _unique(case)
    if subject is None:
        return None
    called = _called(case, subject)
    days = _taken(case.company, subject, first, last)
    steps = (
        _search(case.company.people[subject].name, called, "$reference"),
        _about(LEAVE, "$reference", "search", "leave", _dates(first, last)),
    )
    slots = {"name": called, "who": called, "period": words, "when": words}
    reply = "days" if days else "no_leave"
    return Drawn("leave_period", slots, reply, steps, (_days_fact(days),), called, subject)


def _kind_15(case: Case) -> Drawn | None:
    """Sick leave of last month."""
    end = case.today.replace(day=1) - timedelta(days=1)
    start = end.replace(day=1)
    subject = _unique(case, lambda index: _taken(case.company, index, start, end, "sick") > 0)
    if subject is None:
        return None
    called = _called(case, subject)
    arguments = {**_dates(start, end), "leave_type": {"equals": "sick"}}
    steps = (
        _search(case.company.people[subject].name, called, "$reference"),
        _about(LEAVE, "$reference", "search", "leave", arguments),
    )
    words = {"zh": "上个月", "en": "last month"}[case.language]
    slots = {"name": called, "who": called, "period": words, "when": words}
    fact = _days_fact(_taken(case.company, subject, start, end, "sick"))
    return Drawn("sick_days", slots, "sick_days", steps, (fact,), called, subject)


def _kind_21(case: Case) -> Drawn | None:
    """The leave of somebody's manager: a second hop, another id."""
    company = case.company
    subject = _unique(case, lambda index: _second_manager(company, index) is not None)
    if subject is None:
        return None
    manager = _manager(company, subject)
    assert manager is not None
    monday = case.today - timedelta(days=case.today.weekday() + 7)
    days = _taken(company, manager, monday, monday + timedelta(days=6))
    called = _called(case, subject)
    who = f"{called}的主管" if case.language == "zh" else f"{called}'s manager"
    steps = (
        _search(company.people[subject].name, called, "$reference.person"),
        _about(ORG, "$reference.person", "search", "org"),
        _about(LEAVE, "$reference.manager", "org", "leave", _dates(monday, monday + timedelta(days=6))),
    )
    words = {"zh": "上周", "en": "last week"}[case.language]
    slots = {"name": who, "who": who, "period": words, "when": words}
    roles = {"person": subject, "manager": manager}
    reply = "days" if days else "no_leave"
    return Drawn("leave_period", slots, reply, steps, (_days_fact(days),), called, roles)


def _kind_22(case: Case) -> Drawn | None:
    """The manager's address, or of the next one up where the manager is on leave."""
    company, today = case.company, case.today
    subject = _unique(case, lambda index: _reachable(company, index))
    if subject is None:
        return None
    manager = _manager(company, subject)
    assert manager is not None
    away = _taken(company, manager, today, today) > 0
    called = _called(case, subject)
    steps = [
        _search(company.people[subject].name, called, "$reference.person"),
        _about(ORG, "$reference.person", "search", "org"),
        _about(LEAVE, "$reference.manager", "org", "leave", _dates(today, today)),
    ]
    right = manager
    if away:
        steps.append(_about(ORG, "$reference.manager", "leave", "above"))
        above = _manager(company, manager)
        assert above is not None
        right = above
    slots = {"name": called, "who": called}
    roles = {"person": subject, "manager": manager}
    reply = "contact_above" if away else "contact"
    return Drawn("contact_chain", slots, reply, tuple(steps), (_email_fact(company, right),), called, roles)


def _kind_23(case: Case) -> Drawn | None:
    """Two people of one result, the third one (the dotted line) left out."""
    company = case.company

    def differ(index: int) -> bool:
        manager, head = _manager(company, index), company.heads.get(company.people[index].department)
        return None not in (manager, head) and head not in (manager, index)

    subject = _unique(case, differ)
    if subject is None:
        return None
    manager = _manager(company, subject)
    assert manager is not None
    head = company.heads[company.people[subject].department]
    called = _called(case, subject)
    steps = (
        _search(company.people[subject].name, called, "$reference"),
        _about(ORG, "$reference", "search", "org"),
    )
    facts = (_person_fact(company, manager), _person_fact(company, head))
    return Drawn("manager_and_head", {"name": called, "who": called}, "manager_and_head", steps, facts, called, subject)


def _kind_24(case: Case) -> Drawn | None:
    """The days of two people; the ids must not be swapped."""
    company = case.company
    monday = case.today - timedelta(days=case.today.weekday() + 7)
    sunday = monday + timedelta(days=6)
    first = _unique(case, lambda index: _taken(company, index, monday, sunday) > 0)
    if first is None:
        return None
    days = _taken(company, first, monday, sunday)
    second = _unique(case, lambda index: index != first and _taken(company, index, monday, sunday) not in (0, days))
    if second is None:
        return None
    arguments = _dates(monday, sunday)
    steps, called, other = _pair(case, first, second, LEAVE, "leave", arguments)
    facts = (_days_fact(days), _days_fact(_taken(company, second, monday, sunday)))
    words = {"zh": "上周", "en": "last week"}[case.language]
    slots = {"name": called, "who": called, "other": other, "period": words}
    return Drawn("days_of_two", slots, "days_of_two", steps, facts, called, {"person": first, "other": second})


def _kind_25(case: Case) -> Drawn | None:
    """The managers of two people."""
    company = case.company
    first = _unique(case, lambda index: _manager(company, index) is not None)
    if first is None:
        return None
    taken = {first, _manager(company, first)}
    second = _unique(
        case, lambda index: index not in taken and _manager(company, index) not in {*taken, None} and index != first
    )
    if second is None:
        return None
    steps, called, other = _pair(case, first, second, ORG, "org", {})
    managers = [_manager(company, index) for index in (first, second)]
    facts = tuple(_person_fact(company, manager) for manager in managers if manager is not None)
    slots = {"name": called, "who": called, "other": other}
    return Drawn("managers_of_two", slots, "managers_of_two", steps, facts, called, {"person": first, "other": second})


def _pair(
    case: Case, first: int, second: int, tool: str, id: str, arguments: Mapping[str, Any]
) -> tuple[tuple[dict[str, Any], ...], str, str]:
    """Search and call for two people, and what they are called."""
    people = case.company.people
    called, other = _called(case, first), _called(case, second)
    steps = (
        _search(people[first].name, called, "$reference.person"),
        _search(people[second].name, other, "$reference.other", "search_other"),
        _about(tool, "$reference.person", "search", id, arguments),
        _about(tool, "$reference.other", "search_other", f"{id}_other", arguments),
    )
    return steps, called, other


def _kind_27(case: Case) -> Drawn | None:
    return _refused(case, "write")


def _kind_28(case: Case) -> Drawn | None:
    return _refused(case, "private")


def _refused(case: Case, ask: str) -> Drawn | None:
    """Outside what the tools can do: say so, and call nothing."""
    subject = _unique(case)
    if subject is None:
        return None
    called = _called(case, subject)
    return Drawn(ask, {"name": called}, "refuse", (), ({"fact": "refuse"},), called, None, "refuse")


def _kind_30(case: Case) -> Drawn | None:
    """Somebody who has left: the directory does not find them, and their records are nobody's business."""
    if not case.company.former:
        return None
    name = case.company.people[case.rng.choice(case.company.former)].name
    called = hr.mention_of(case, name)
    step = hr.search_step(name, called, found=False)
    ask = case.rng.choice(("manager_email", "manager_name", "employee_id"))
    slots = {"name": called, "who": called}
    return Drawn(ask, slots, "not_found", (step,), ({"fact": "not_found"},), called, None, "not_found", (LEAVE, ORG))


KINDS: Mapping[int, Callable[[Case], Drawn | None]] = {
    7: _kind_7, 8: _kind_8, 9: _kind_9, 12: _kind_12, 14: _kind_14, 15: _kind_15, 16: _kind_16, 21: _kind_21,
    22: _kind_22, 23: _kind_23, 24: _kind_24, 25: _kind_25, 27: _kind_27, 28: _kind_28, 30: _kind_30,
}  # fmt: skip
