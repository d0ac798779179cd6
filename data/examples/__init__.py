"""Hand-written questions, put to one fixed held-out company: how a policy fares with wording nobody generated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from data.scenarios import hr as scenario
from data.schema import ROW_IDS, Row, Task
from env.domains import hr
from env.domains.hr.names import GIVEN, SURNAMES, compose, name_split
from env.domains.hr.world import Company, alias_key, draw_id
from env.yaml_strict import load

SOURCE = Path(__file__).with_name("questions.source.yaml")
QUESTIONS = Path(__file__).with_name("questions.jsonl")
NOW, TIMEZONE = "2026-06-03T10:00:00+08:00", "Asia/Shanghai"
COMPANY_SEED = 20260603
ASKS = {
    1: "leave_and_email", 2: "manager_email", 3: "leave_today", 4: "employee_id", 5: "leave_by_id",
    6: "manager_by_id", 10: "leave_period", 13: "leave_period", 19: "leave_period", 20: "manager_name", 26: "chat",
}  # fmt: skip
REPLIES = {"zh": "我只能查询员工、请假和组织信息。", "en": "I can only look up employees, leave and reporting lines."}


def rows() -> Iterator[Row]:
    """The rows of questions.jsonl: the texts of questions.source.yaml with people, ids and references filled in."""
    spec = {"seed": COMPANY_SEED, "size": 60, "split": "eval"}
    company = hr.company(spec, NOW)
    rng = random.Random(COMPANY_SEED)
    for number, question in enumerate(load(SOURCE).value["questions"]):
        yield _row(question, number, company, spec, rng)


def _row(
    question: Mapping[str, Any], number: int, company: Company, spec: Mapping[str, Any], rng: random.Random
) -> Row:
    kind, ask = question["kind"], ASKS[question["kind"]]
    period = scenario.period_dates(datetime.fromisoformat(NOW).date(), question["period"])
    subject, mention, unknown = _who(kind, company, question["language"], period, rng)
    world = dict(spec)
    if ask.endswith("_by_id"):
        world["fixed_ids"] = {str(subject): mention}
    rubric = scenario.make_rubric(company, ask, subject, mention, period, unknown)
    if subject is not None:
        reference = hr.draw_ids(world, NOW, ROW_IDS)[subject]
    else:
        reference = "none" if kind == 26 else "not_found"
    text = question["text"].replace("{name}", str(mention)).replace("{emp_id}", str(mention))
    task = Task(
        id=f"hr-examples-{number:02d}",
        kind=kind,
        ask=ask,
        domain="hr",
        language=question["language"],
        split="eval",
        template=f"examples/{number}",
        world=world,
        now=NOW,
        timezone=TIMEZONE,
        subject=subject,
        mention=mention,
        period=period,
        rubric=rubric,
        reply=REPLIES[question["language"]] if kind == 26 else None,
    )
    return Row(text, reference, task)


def _who(
    kind: int, company: Company, language: str, period: tuple[str, str, str] | None, rng: random.Random
) -> tuple[int | None, str | None, Any]:
    """Subject, how the text names them, and the name of a person whom the company does not know."""
    if kind == 26:
        return None, None, None
    if kind == 10:
        while True:
            name = compose(rng.randrange(len(SURNAMES)), (rng.randrange(len(GIVEN)), rng.randrange(len(GIVEN))))
            if name_split(name) == "eval" and not company.aliases & {alias_key(text) for text in name.spellings}:
                return None, name.simplified if language == "zh" else name.pinyin, name
    options = list(company.subjects)
    if kind == 20 and company.ceo is not None:
        options = [company.ceo]
    if kind in (13, 19):
        assert period is not None
        options = [i for i in options if (scenario.total_days(company, i, period) > 0) == (kind == 13)]
    subject = rng.choice(options)
    if ASKS[kind].endswith("_by_id"):
        return subject, draw_id(rng, "eval", set()), None
    called = company.people[subject].name
    return subject, called.simplified if language == "zh" else called.pinyin, None
