"""The HR scenario's queries: kinds 1-6, 10, 13, 19, 20 and 26 in Chinese and English.

`hr.yaml` holds the phrasings. Every fourth one is for evaluation only; names and ids are split by hash in the world, so
that training and evaluation share no person, no id and no phrasing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from data.schema import ROW_IDS, Row, Task
from env.domains import hr
from env.domains.hr.names import GIVEN, SURNAMES, Name, PersonName, compose, name_split
from env.domains.hr.world import Company, Person, alias_key, draw_id
from env.yaml_strict import load

SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"
# The source document's ladder. A task that needs only part of the chain renormalises.
WEIGHTS = {SEARCH: 0.3, LEAVE: 0.35, ORG: 0.35}
TIMEZONES = ("Asia/Shanghai", "Asia/Singapore", "Europe/Berlin")
COMPANY_SIZE = 60
LOOKED_AT = 200  # of a large company's people, in search of a suitable one


@dataclass(frozen=True)
class Case:
    """One drawn situation, before it is put into words. spec: of the company, for `Domain.open_world`."""

    company: Company
    spec: Mapping[str, Any]
    now: str
    timezone: str
    language: str
    rng: random.Random

    @cached_property
    def today(self) -> date:
        return datetime.fromisoformat(self.now).date()


# Who draws the case of a row, from its randomness, language, split, seed and the number of companies.
Draw = Callable[[random.Random, str, str, int, int], Case]


# kind -> share of the rows; kinds 1, 2, 3, 13, 19 and 20 take several tool calls
SHARES = {1: 0.18, 2: 0.13, 3: 0.1, 4: 0.07, 5: 0.07, 6: 0.07, 10: 0.1, 13: 0.1, 19: 0.08, 20: 0.05, 26: 0.05}
PERSON_ASKS = ("leave_and_email", "manager_email", "manager_name", "leave_today", "leave_period")


def make_row(kind: int, language: str, split: str, number: int, seed: int, companies: int) -> Row:
    """Row `number` of a split. Equal arguments give an equal row. companies: how many the split draws from."""
    rng = random.Random(f"row/{seed}/{split}/{number}")
    while True:
        made = make_of(kind, draw_case(rng, language, split, seed, companies), number, seed)
        if made is not None:
            return made


def first_companies(split: str, count: int, seed: int, companies: int) -> Iterator[int]:
    """Which company `make_row` draws first for each row, and nearly always keeps."""
    rng = random.Random()
    for number in range(count):
        rng.seed(f"row/{seed}/{split}/{number}")
        yield rng.randrange(companies)


def make_of(kind: int, case: Case, number: int, seed: int) -> Row | None:
    """A row of one of KINDS, None where the company has nobody for it."""
    drawn = KINDS[kind](case)
    return None if drawn is None else _row(case, kind, number, seed, *drawn)


@dataclass(frozen=True, slots=True)
class Phrase:
    text: str
    template: str
    reply: str | None = None


@lru_cache(maxsize=1)
def phrasings() -> Mapping[str, Any]:
    """The content of hr.yaml: asks, periods, prefixes, suffixes."""
    loaded: Mapping[str, Any] = load(Path(__file__).with_name("hr.yaml")).value
    return loaded


def held_out_phrasing(position: int) -> bool:
    """position: index in the list, from 0."""
    every = phrasings()["held_out_every"]
    return bool(position % every == every - 1)


def _phrase(case: Case, ask: str) -> Phrase:
    """A phrasing of the split, with noise around it in about half of the rows."""
    options = phrasings()["asks"][ask][case.language]
    wanted = case.company.split == "eval"
    index = case.rng.choice([i for i in range(len(options)) if held_out_phrasing(i) == wanted])
    template = f"{ask}/{case.language}/{index}"
    chosen, reply = options[index], None
    noisy = True
    if ask == "chat":
        noisy = chosen["topic"] not in ("greeting", "thanks")
        chosen, reply = chosen["q"], chosen["a"]
    text = chosen
    if noisy and case.rng.random() < 0.35:
        text = case.rng.choice(phrasings()["prefixes"][case.language]) + text
    if noisy and case.rng.random() < 0.35:
        text = text + case.rng.choice(phrasings()["suffixes"][case.language])
    return Phrase(text, template, reply)


def draw_case(rng: random.Random, language: str, split: str, seed: int, companies: int) -> Case:
    """A company of the split and a moment; equal states of `rng` give equal ones. companies: how many there are."""
    number = rng.randrange(companies)
    own = random.Random(f"when/{seed}/{split}/{number}")
    zone = own.choice(TIMEZONES)
    day = date(2025, 1, 6) + timedelta(days=own.randrange(900))
    now = datetime(day.year, day.month, day.day, own.randrange(8, 19), tzinfo=ZoneInfo(zone)).isoformat()
    # The seed of a company tells the splits apart too: equal numbers must not mean equal reporting lines.
    spec: dict[str, Any] = {"seed": seed * 1_000_003 + number, "size": COMPANY_SIZE, "split": split}
    return Case(hr.company(spec, now), spec, now, zone, language, rng)


Drawn = tuple[str, int | None, str | None, str | None, dict[str, Any]]  # ask, subject, mention, period, extra slots


def somebody(case: Case, wanted: Callable[[int], bool] = lambda _: True) -> int | None:
    """Index of an active person below the CEO whose name nobody shares, None where nobody is wanted."""
    subjects: Sequence[int] = case.company.subjects
    if len(subjects) > LOOKED_AT:
        subjects = case.rng.sample(subjects, LOOKED_AT)
    options = [index for index in subjects if wanted(index)]
    return case.rng.choice(options) if options else None


def manager_of(case: Case, index: int) -> Person | None:
    """None where the person has none."""
    manager = case.company.people[index].manager
    return None if manager is None else case.company.people[manager]


def can_tell(case: Case, ask: str, index: int) -> bool:
    """Whether the directory has what is asked about a person's manager."""
    manager = manager_of(case, index)
    return manager is not None and (not ask.endswith("email") or manager.email != "")


def mention_of(case: Case, name: PersonName) -> str:
    """What a question in the case's language calls a person, now and then in traditional characters."""
    if case.language == "en":
        return name.pinyin
    return name.traditional if case.rng.random() < 0.1 else name.simplified


def _about(case: Case, ask: str, subject: int | None, period: str | None) -> Drawn | None:
    if subject is None:
        return None
    return ask, subject, mention_of(case, case.company.people[subject].name), period, {}


def _kind_1(case: Case) -> Drawn | None:
    ask = "leave_and_email"
    subject = somebody(case, lambda index: can_tell(case, ask, index))
    return _about(case, ask, subject, case.rng.choice(("this_week", "last_week")))


def _kind_2(case: Case) -> Drawn | None:
    ask = "manager_email" if case.rng.random() < 0.7 else "manager_name"
    return _about(case, ask, somebody(case, lambda index: can_tell(case, ask, index)), None)


def _kind_3(case: Case) -> Drawn | None:
    wanted = case.rng.random() < 0.5  # on leave today or not, as often
    days = _days(case, "today")
    subject = somebody(case, lambda index: (days(index) > 0) == wanted)
    return _about(case, "leave_today", subject, "today")


def _kind_4(case: Case) -> Drawn | None:
    return _about(case, "employee_id", somebody(case), None)


def _kind_5(case: Case) -> Drawn | None:
    subject, period = somebody(case), case.rng.choice(("this_week", "last_week"))
    if subject is None:
        return None
    return "leave_by_id", subject, draw_id(case.rng, case.company.split, set()), period, {}


def _kind_6(case: Case) -> Drawn | None:
    subject = somebody(case, lambda index: can_tell(case, "manager_by_id", index))
    if subject is None:
        return None
    return "manager_by_id", subject, draw_id(case.rng, case.company.split, set()), None, {}


def _kind_10(case: Case) -> Drawn | None:
    while True:
        given = tuple(case.rng.randrange(len(GIVEN)) for _ in range(case.rng.choice((1, 2))))
        name = compose(case.rng.randrange(len(SURNAMES)), given)
        keys = {alias_key(text) for text in name.spellings}
        if name_split(name) == case.company.split and not case.company.aliases & keys:
            break
    ask = case.rng.choice((*PERSON_ASKS, "employee_id"))
    period = {"leave_today": "today", "leave_and_email": "this_week", "leave_period": "last_week"}.get(ask)
    return ask, None, mention_of(case, name), period, {"unknown": name}


def _kind_13(case: Case) -> Drawn | None:
    days = _days(case, "last_week")
    subject = somebody(case, lambda index: days(index) > 0)
    return _about(case, "leave_period", subject, "last_week")


def _kind_19(case: Case) -> Drawn | None:
    period = case.rng.choice(("this_week", "last_week"))
    days = _days(case, period)
    return _about(case, "leave_period", somebody(case, lambda index: not days(index)), period)


def _kind_20(case: Case) -> Drawn | None:
    ceo = case.company.ceo
    if ceo is None or not case.company.is_unique(ceo) or not case.company.may_ask(ceo):
        return None
    mention = "CEO" if case.rng.random() < 0.3 else mention_of(case, case.company.people[ceo].name)
    return case.rng.choice(("manager_name", "manager_email")), ceo, mention, None, {}


def _kind_26(case: Case) -> Drawn | None:
    first, second = case.rng.randrange(1, 10), case.rng.randrange(1, 10)
    return "chat", None, None, None, {"a": first, "b": second, "sum": first + second}


KINDS: Mapping[int, Callable[[Case], Drawn | None]] = {
    1: _kind_1, 2: _kind_2, 3: _kind_3, 4: _kind_4, 5: _kind_5, 6: _kind_6, 10: _kind_10, 13: _kind_13,
    19: _kind_19, 20: _kind_20, 26: _kind_26,
}  # fmt: skip


def _row(
    case: Case,
    kind: int,
    number: int,
    seed: int,
    ask: str,
    subject: int | None,
    mention: str | None,
    period: str | None,
    slots: dict[str, Any],
) -> Row:
    phrase = _phrase(case, ask)
    dates = period_dates(case.today, period)
    word = case.rng.choice(phrasings()["periods"][period][case.language]) if period else ""
    values = {"name": mention, "emp_id": mention, "period": word, **slots}
    text = phrase.text
    for slot, value in values.items():
        text = text.replace("{" + slot + "}", str(value))
    spec = dict(case.spec)
    if ask.endswith("_by_id"):
        spec["fixed_ids"] = {str(subject): mention}
    rubric = make_rubric(case.company, ask, subject, mention, dates, slots.get("unknown"))
    if subject is not None:
        reference = hr.draw_id_of(subject, spec, case.now, ROW_IDS)
    else:
        reference = "none" if ask == "chat" else "not_found"
    task = Task(
        id=f"hr-{case.company.split}-{seed}-{number:06d}",
        kind=kind,
        ask=ask,
        domain="hr",
        language=case.language,
        split=case.company.split,
        template=phrase.template,
        world=spec,
        now=case.now,
        timezone=case.timezone,
        subject=subject,
        mention=mention,
        period=dates,
        rubric=rubric,
        reply=phrase.reply.replace("{sum}", str(slots["sum"])) if phrase.reply else None,
    )
    return Row(text, reference, task)


def make_rubric(
    company: Company,
    ask: str,
    subject: int | None,
    mention: str | None,
    period: tuple[str, str, str] | None,
    unknown: Name | None = None,
) -> dict[str, Any]:
    """The rubric of one task, as JSON (see rewards.rubric). subject None: nobody of that name, or nothing to find."""
    if ask == "chat":
        return {"steps": [], "answer": [{"fact": "reply"}], "calls": "none", "forbidden": [], "order": "dependencies"}
    if subject is None:
        assert unknown is not None
        steps = [search_step(unknown, mention, found=False)]
        return _rubric(steps, [{"fact": "not_found"}], [LEAVE, ORG])
    person = company.people[subject]
    given = ask.endswith("_by_id")
    steps = [] if given else [search_step(person.name, mention, found=True)]
    if period is not None:
        steps.append(_step(LEAVE, given, {"start_date": {"equals": period[1]}, "end_date": {"equals": period[2]}}))
    if ask in ("leave_and_email", "manager_email", "manager_name", "manager_by_id"):
        steps.append(_step(ORG, given, {}))
    return _rubric(steps, _facts(company, ask, subject, period), [])


def _facts(company: Company, ask: str, subject: int, period: tuple[str, str, str] | None) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = []
    if period is not None:
        days = total_days(company, subject, period)
        if not days:
            facts.append({"fact": "no_leave"})
        elif period[0] == "today":
            facts.append({"fact": "on_leave", "value": True})
        else:
            facts.append({"fact": "days", "value": days})
    if ask == "employee_id":
        facts.append({"fact": "emp_id", "value": "$reference"})
    if ask in ("leave_and_email", "manager_email", "manager_name", "manager_by_id"):
        manager = company.people[subject].manager
        if manager is None:
            facts.append({"fact": "no_manager"})
        elif ask.endswith("email"):
            facts.append({"fact": "email", "value": company.people[manager].email})
        else:
            facts.append({"fact": "person", "value": list(company.people[manager].name.spellings)})
    return facts


def _rubric(steps: list[dict[str, Any]], facts: list[dict[str, Any]], forbidden: list[str]) -> dict[str, Any]:
    return {"steps": steps, "answer": facts, "calls": "any", "forbidden": forbidden, "order": "dependencies"}


def search_step(name: PersonName, mention: str | None, found: bool) -> dict[str, Any]:
    """The rubric's search for a person by any spelling, which finds the reference or nobody."""
    spellings = list(dict.fromkeys([*name.spellings, *([mention] if mention else [])]))
    step: dict[str, Any] = {"id": "search", "tool": SEARCH, "weight": WEIGHTS[SEARCH]}
    step["arguments"] = {"name": {"one_of": spellings}}
    step |= {"finds": {"emp_id": "$reference"}} if found else {"finds": {}, "empty": True}
    return step | {"after": []}


def _step(tool: str, given: bool, arguments: dict[str, Any]) -> dict[str, Any]:
    source = "given" if given else "result"
    rules: dict[str, Any] = {"emp_id": {"equals": "$reference", "from": source}, **arguments}
    if tool == LEAVE:
        rules["leave_type"] = {"absent": True}
    identity = {LEAVE: "leave", ORG: "org"}[tool]
    return {
        "id": identity,
        "tool": tool,
        "weight": WEIGHTS[tool],
        "arguments": rules,
        "after": [] if given else ["search"],
    }


def period_dates(today: date, period: str | None) -> tuple[str, str, str] | None:
    """First and last day of a period, seen from `today`; weeks start on Monday."""
    if period is None:
        return None
    monday = today - timedelta(days=today.weekday())
    first, last = {
        "today": (today, today),
        "this_week": (monday, monday + timedelta(days=6)),
        "last_week": (monday - timedelta(days=7), monday - timedelta(days=1)),
    }[period]
    return period, first.isoformat(), last.isoformat()


def total_days(company: Company, person: int, period: tuple[str, str, str]) -> float:
    """Leave days of a person inside the period."""
    first, last = date.fromisoformat(period[1]), date.fromisoformat(period[2])
    return sum(record.days_within(first, last) for record in company.leave[person])


def _days(case: Case, period: str) -> Callable[[int], float]:
    """Person -> leave days in the period."""
    dates = period_dates(case.today, period)
    assert dates is not None
    first, last = date.fromisoformat(dates[1]), date.fromisoformat(dates[2])
    return lambda person: sum(record.days_within(first, last) for record in case.company.leave[person])
