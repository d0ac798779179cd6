"""The simulated company: fresh ids, disjoint splits, sound reporting lines, a forgiving and safe search, exact days."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from env.domains import hr
from env.domains.hr.names import GIVEN, SURNAMES, Name, compose, held_out
from env.domains.hr.world import CEO_ALIASES, LEAVE_TYPES, Company, Leave, World, alias_key
from env.types import ErrorCode, ToolResult

ROOT = Path(__file__).resolve().parents[1]
NOW = "2026-06-03T10:00:00+08:00"
TODAY = date(2026, 6, 3)
SIZES = (8, 60, 500)
SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"


def spec(seed: int = 0, size: int = 60, split: str = "train") -> dict[str, Any]:
    return {"seed": seed, "size": size, "split": split}


def opened(seed: int = 0, size: int = 60, split: str = "train", ids: str = "row") -> World:
    return hr.open_world(spec(seed, size, split), NOW, ids)


def called(world: World, tool: str, **arguments: Any) -> ToolResult:
    return hr.registry().bind(world).tool_call(tool, **arguments)


def data(world: World, tool: str, **arguments: Any) -> dict[str, Any]:
    result = called(world, tool, **arguments)
    assert result.ok, result.message
    return dict(result.data)


def found(world: World, name: str, **filters: str) -> set[str]:
    """Ids of the people whom the search finds."""
    return {match["emp_id"] for match in data(world, SEARCH, name=name, **filters)["matches"]}


def image(world: World) -> str:
    """A hash of everything that the database holds."""
    return hashlib.sha256(bytes(world._db.serialize())).hexdigest()


@cache
def companies(count: int = 100) -> tuple[tuple[Company, Company], ...]:
    """Pairs of a training and a held-out company of equal seed."""
    return tuple(
        (Company.generate(seed, 60, "train", TODAY), Company.generate(seed, 60, "eval", TODAY)) for seed in range(count)
    )


# ---- ids ----


def test_equal_seeds_give_equal_ids_and_other_seeds_none_in_the_same_place() -> None:
    first, again, other = (hr.draw_ids(spec(), NOW, seed) for seed in ("a", "a", "b"))
    assert first == again
    assert sum(one == two for one, two in zip(first, other, strict=True)) <= 1


def test_ids_are_drawn_anew_in_every_episode() -> None:
    """No id tells who a person is: over 200 episodes nobody has the same one more often than chance allows."""
    drawn = [hr.draw_ids(spec(), NOW, str(episode)) for episode in range(200)]
    for ids in drawn:
        assert len(set(ids)) == len(ids)
    for person in range(60):
        assert Counter(ids[person] for ids in drawn).most_common(1)[0][1] <= 4


def test_ids_look_like_ids_and_never_like_a_year() -> None:
    ids = {emp_id for episode in range(50) for emp_id in hr.draw_ids(spec(), NOW, str(episode))}
    assert all(emp_id.isdecimal() and emp_id.isascii() for emp_id in ids)
    assert {len(emp_id) for emp_id in ids} == {4, 5, 6}
    assert all(emp_id.startswith("0") for emp_id in ids if len(emp_id) == 4)
    assert not any(emp_id.startswith("0") for emp_id in ids if len(emp_id) > 4)


def test_fixed_ids_stay_and_nobody_else_gets_them() -> None:
    ids = hr.draw_ids(spec() | {"fixed_ids": {"7": "0042", "9": "31415"}}, NOW, "x")
    assert (ids[7], ids[9]) == ("0042", "31415")
    assert len(set(ids)) == 60


def test_a_world_refuses_ids_that_two_people_share() -> None:
    company = Company.generate(0, 8, "train", TODAY)
    with pytest.raises(ValueError, match="8 people need as many different ids, got 7"):
        World(company, ("1", "1", "2", "3", "4", "5", "6", "7"))


FINGERPRINT = f"""
import hashlib
from env.domains import hr
for split in ("train", "eval"):
    spec = {{"seed": 5, "size": 60, "split": split}}
    world = hr.open_world(spec, {NOW!r}, "episode")
    company = hr.company(spec, {NOW!r})
    print(hashlib.sha256(bytes(world._db.serialize())).hexdigest())
    print(hashlib.sha256(repr((world.ids, company.people, company.heads, company.leave)).encode()).hexdigest())
"""


def test_another_process_sees_the_same_company_and_the_same_ids() -> None:
    """Whatever the order of sets and dicts is there."""
    outputs = set()
    for hashseed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", FINGERPRINT],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hashseed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 4


# ---- splits ----


def test_no_name_is_in_both_splits() -> None:
    """Over 200 companies, in every spelling that keeps the surname where it belongs."""
    names: dict[str, set[str]] = {"train": set(), "eval": set()}
    for pair in companies():
        for company in pair:
            for person in company.people:
                name = person.name
                names[company.split] |= {alias_key(text) for text in (name.simplified, name.traditional, name.pinyin)}
    assert min(map(len, names.values())) > 1000
    assert not names["train"] & names["eval"]


def test_no_id_is_in_both_splits() -> None:
    """By construction, so that no number of episodes can change it; here over 200 companies."""
    ids = {"train": set[str](), "eval": set[str]()}
    for seed, pair in enumerate(companies()):
        for company in pair:
            ids[company.split] |= set(company.draw_ids(f"{company.split}/{seed}"))
    assert min(map(len, ids.values())) > 4000
    assert not ids["train"] & ids["eval"]
    assert all(map(held_out, ids["eval"])) and not any(map(held_out, ids["train"]))


def test_equal_seeds_do_not_repeat_reporting_lines_across_splits() -> None:
    lines = [tuple(tuple(person.manager for person in company.people) for company in pair) for pair in companies(20)]
    assert not any(train == held for train, held in lines)


# ---- people ----


@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize("size", SIZES)
def test_only_the_ceo_has_no_manager_and_every_line_ends_there(size: int, split: str) -> None:
    for seed in range(5):
        company = Company.generate(seed, size, split, TODAY)
        assert len(company.people) == size
        assert company.people[company.ceo].manager is None and company.people[company.ceo].active
        for index, person in enumerate(company.people):
            if index == company.ceo or not person.active:
                continue
            path = [index]
            while (manager := company.people[path[-1]].manager) is not None:
                assert company.people[manager].active
                assert manager not in path, f"a circle of managers: {[*path, manager]}"
                path.append(manager)
            assert path[-1] == company.ceo and len(path) > 1


@pytest.mark.parametrize("size", SIZES)
def test_dotted_lines_and_heads_lead_to_other_active_people(size: int) -> None:
    for seed in range(5):
        company = Company.generate(seed, size, "train", TODAY)
        for department, head in company.heads.items():
            assert company.people[head].active and company.people[head].department == department
        for index, person in enumerate(company.people):
            if person.dotted_line_manager is not None:
                assert person.dotted_line_manager not in (index, person.manager)
                assert company.people[person.dotted_line_manager].active
        dotted = [p for p in company.people if p.dotted_line_manager is not None]
        assert dotted or size == 8


@pytest.mark.parametrize("size", SIZES)
def test_homonyms_exist_and_have_addresses_of_their_own(size: int) -> None:
    for seed in range(5):
        company = Company.generate(seed, size, "train", TODAY)
        counts = Counter(person.name.simplified for person in company.people)
        assert counts.most_common(1)[0][1] > 1
        assert len({person.email for person in company.people}) == size


def test_homonyms_are_all_listed_and_not_called_unique() -> None:
    seen = 0
    for company in (company for pair in companies(20) for company in pair):
        groups: dict[str, list[int]] = {}
        for index, person in enumerate(company.people):
            if person.active:
                groups.setdefault(person.name.simplified, []).append(index)
        for name, members in groups.items():
            if len(members) == 1:
                continue
            seen += 1
            ids = company.draw_ids("x")
            world = World(company, ids)
            assert found(world, name) >= {ids[member] for member in members}
            assert not any(company.is_unique(member) for member in members)
    assert seen > 10


@pytest.mark.parametrize("size", SIZES)
def test_a_unique_person_is_found_alone_by_every_spelling(size: int) -> None:
    world = opened(seed=1, size=size)
    people = world.company.people
    unique = [index for index in range(size) if world.company.is_unique(index)]
    assert len(unique) >= size // 2
    for index in unique[:40]:
        for spelling in people[index].name.spellings:
            assert found(world, spelling) == {world.ids[index]}


def test_every_active_person_is_found_and_no_former_one() -> None:
    former = 0
    for seed in range(4):
        world = opened(seed=seed)
        for index, person in enumerate(world.company.people):
            for spelling in person.name.spellings:
                assert (world.ids[index] in found(world, spelling)) == person.active
            former += not person.active
    assert former > 4


def test_former_employees_are_unknown_to_the_other_tools() -> None:
    checked = 0
    for seed in range(6):
        world = opened(seed=seed)
        for index, person in enumerate(world.company.people):
            emp_id = world.ids[index]
            results = [
                called(world, LEAVE, emp_id=emp_id, start_date="2026-06-01", end_date="2026-06-07"),
                called(world, ORG, emp_id=emp_id),
            ]
            assert [result.code for result in results] == [None if person.active else ErrorCode.NOT_FOUND] * 2
            checked += not person.active
    assert checked > 5


def test_former_employees_manage_nobody() -> None:
    for company in (company for pair in companies(50) for company in pair):
        for person in company.people:
            for boss in (person.manager, person.dotted_line_manager):
                assert boss is None or company.people[boss].active


@pytest.mark.parametrize("size", [-1, 0, 1, 7])
def test_a_company_too_small_for_its_roles_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"at least 8 people, got {size}"):
        Company.generate(0, size, "train", TODAY)


def test_org_chart_agrees_with_the_company() -> None:
    for seed in range(3):
        world = opened(seed=seed)
        company = world.company
        for index, person in enumerate(company.people):
            if not person.active:
                continue
            chart = data(world, ORG, emp_id=world.ids[index])
            head = company.heads[person.department]
            wanted = {
                "manager": person.manager,
                "dotted_line_manager": person.dotted_line_manager,
                "department_head": None if index in (head, company.ceo) else head,
            }
            for role, boss in wanted.items():
                assert (chart[role] and chart[role]["emp_id"]) == (None if boss is None else world.ids[boss])
                assert boss is None or chart[role]["email"] == company.people[boss].email


# ---- how colleagues write a name ----


def odd_forms(name: Name) -> Iterator[str]:
    yield from name.spellings
    pinyin = name.pinyin
    yield from (pinyin.upper(), pinyin.lower(), pinyin.swapcase(), pinyin.replace(" ", ""), f"  {pinyin}\t")
    yield from (pinyin.replace(" ", "   "), pinyin.replace(" ", "\u00a0"), pinyin.replace(" ", "\u3000"))
    yield from (" ".join(name.simplified), f"\n{name.traditional} ", "·".join(name.simplified))


def test_a_name_resolves_however_it_is_written() -> None:
    world = opened(seed=2)
    people = [i for i in range(60) if world.company.is_unique(i)]
    assert len(people) > 40
    for index in people:
        for form in odd_forms(world.company.people[index].name):
            assert found(world, form) == {world.ids[index]}, form


@pytest.mark.parametrize("alias", [*CEO_ALIASES, "ceo", " C E O ", "Ceo", "首席 执行官"])
@pytest.mark.parametrize("size", SIZES)
def test_the_ceo_is_found_by_role(alias: str, size: int) -> None:
    world = opened(seed=3, size=size)
    assert found(world, alias) == {world.ids[world.company.ceo]}


def test_part_of_a_name_finds_nobody() -> None:
    """A full name or none: half a name would be a guess."""
    world = opened()
    whole = {alias_key(s) for p in world.company.people for s in p.name.spellings} | {alias_key(a) for a in CEO_ALIASES}
    for person in world.company.people:
        for spelling in person.name.spellings:
            for part in (spelling[:-1], spelling[1:], spelling + "x", spelling * 2):
                if alias_key(part) not in whole and part:
                    assert found(world, part) == set(), part


def test_filters_narrow_the_search_and_never_widen_it() -> None:
    world = opened(seed=1)
    for index, person in enumerate(world.company.people):
        if not person.active:
            continue
        emp_id, name = world.ids[index], person.name.simplified
        assert found(world, name, email=person.email) == {emp_id}
        assert found(world, name, email=f" {person.email.upper()} ") == {emp_id}
        assert emp_id in found(world, name, department=person.department)
        assert found(world, name, department="no such department") == set()
        assert found(world, name, email="somebody.else@corp.example") == set()


def test_a_department_may_be_given_in_either_language() -> None:
    world = opened(seed=1)
    for chinese, spellings in {"研发部": ("R&D", "r&d", " 研 发 部 "), "人事部": ("HR", "hr")}.items():
        members = [i for i, p in enumerate(world.company.people) if p.department == chinese and p.active]
        assert members
        for index in members:
            name = world.company.people[index].name.simplified
            for spelling in (chinese, *spellings):
                assert world.ids[index] in found(world, name, department=spelling)


HOSTILE = (
    *("%", "_", "%%", "张%", "张_", "*", "?", "'", "''", '"', "`", ";", "--", "/*", "\\", "\\'", "\0", "张\0", "[张]"),
    "'; DROP TABLE people; --",
    "' OR '1'='1",
    "' OR 1=1 --",
    '" OR ""="',
    "1; DELETE FROM ids",
    "x' UNION SELECT emp_id, 1, 1, 1, 1, 1 FROM ids --",
    "张三'); UPDATE people SET active=0; --",
    "a' AND randomblob(1000000000) --",
    "' || (SELECT emp_id FROM ids LIMIT 1) || '",
    "NULL",
    "None",
    "${name}",
    "{name}",
    ":name",
    "?1",
    "@p1",
    "$1",
    "\u202e三张",
    "\ufeff",
    "🙂",
    "x" * 64,
)


def test_hostile_text_finds_nobody_and_changes_nothing() -> None:
    world = opened()
    before = image(world)
    person = world.company.people[5]
    for text in HOSTILE:
        assert found(world, text) == set(), text
        assert found(world, person.name.simplified, department=text) == set(), text
        if len(text) >= 3:
            assert found(world, person.name.simplified, email=text) == set(), text
        for tool, rest in ((ORG, {}), (LEAVE, {"start_date": "2026-06-01", "end_date": "2026-06-07"})):
            if len(text) <= 16:
                assert called(world, tool, emp_id=text, **rest).code is ErrorCode.NOT_FOUND, text
    assert image(world) == before
    assert found(world, person.name.simplified)


def test_no_call_of_any_tool_changes_the_database() -> None:
    world = opened(seed=1)
    before = image(world)
    for index, person in enumerate(world.company.people):
        called(world, SEARCH, name=person.name.pinyin)
        called(world, ORG, emp_id=world.ids[index])
        called(world, LEAVE, emp_id=world.ids[index], start_date="2026-05-01", end_date="2026-07-01")
    assert image(world) == before


def test_worlds_of_one_company_do_not_share_a_database() -> None:
    one, two = opened(ids="a"), opened(ids="b")
    one._db.execute("DELETE FROM people")
    assert found(two, two.company.people[0].name.simplified) == {two.ids[0]}


def test_an_id_is_text_as_it_stands() -> None:
    """A leading zero belongs to it, and near misses are nobody."""
    checked = 0
    for episode in range(20):
        world = opened(ids=str(episode))
        for index, emp_id in enumerate(world.ids):
            if not emp_id.startswith("0") or not world.company.people[index].active:
                continue
            checked += 1
            assert called(world, ORG, emp_id=emp_id).ok
            for near in (emp_id.lstrip("0"), "0" + emp_id):
                if near not in world.ids:
                    assert called(world, ORG, emp_id=near).code is ErrorCode.NOT_FOUND
    assert checked > 20


# ---- days of leave ----


def days_by_enumeration(record: Leave, first: date, last: date) -> float:
    """Day by day: a weekday counts one, half at an end that is marked as half."""
    total, day = 0.0, record.start
    while day <= record.end:
        if first <= day <= last and day.isoweekday() <= 5:
            halves = (record.half_start and day == record.start) + (record.half_end and day == record.end)
            total += 1 - 0.5 * halves
        day += timedelta(days=1)
    return total


def test_days_of_a_record_are_those_counted_one_by_one() -> None:
    rng = random.Random(0)
    seen: Counter[float] = Counter()
    for _ in range(4000):
        start = date(2025, 12, 20) + timedelta(days=rng.randrange(40))
        end = start + timedelta(days=rng.choice((0, 0, 1, 2, 4, 9, 20)))
        record = Leave(start, end, "annual", rng.random() < 0.4, rng.random() < 0.4)
        first = start + timedelta(days=rng.randrange(-12, 24))
        last = first + timedelta(days=rng.choice((0, 1, 6, 13, 40)))
        days = record.days_within(first, last)
        assert days == days_by_enumeration(record, first, last), (record, first, last)
        seen[days] += 1
    assert {0.0, 0.5, 1.0, 1.5, 2.5} <= seen.keys()


def test_a_period_split_in_two_has_the_same_days() -> None:
    rng = random.Random(1)
    for _ in range(500):
        start = date(2026, 1, 1) + timedelta(days=rng.randrange(300))
        record = Leave(start, start + timedelta(days=rng.randrange(15)), "sick", rng.random() < 0.5, rng.random() < 0.5)
        first, length, cut = record.start - timedelta(days=3), 24, rng.randrange(24)
        middle, last = first + timedelta(days=cut), first + timedelta(days=length)
        parts = record.days_within(first, middle) + record.days_within(middle + timedelta(days=1), last)
        assert parts == record.days_within(first, last)


def test_leave_tool_counts_the_days_of_every_person_right() -> None:
    rng = random.Random(2)
    totals: Counter[float] = Counter()
    for seed in range(6):
        world = opened(seed=seed, split=("train", "eval")[seed % 2])
        for index, person in enumerate(world.company.people):
            if not person.active:
                continue
            first = TODAY + timedelta(days=rng.randrange(-40, 30))
            last = first + timedelta(days=rng.choice((0, 3, 6, 30, 180)))
            only = rng.choice((None, *LEAVE_TYPES))
            arguments = {"emp_id": world.ids[index], "start_date": str(first), "end_date": str(last)}
            answer = data(world, LEAVE, **arguments, **({"leave_type": only} if only else {}))
            records = [r for r in world.company.leave[index] if only in (None, r.leave_type)]
            wanted = [(str(r.start), str(r.end), r.leave_type, days_by_enumeration(r, first, last)) for r in records]
            shown = [(r["start_date"], r["end_date"], r["leave_type"], r["days"]) for r in answer["records"]]
            assert shown == [each for each in wanted if each[3]]
            assert answer["total_days"] == sum(each[3] for each in wanted)
            totals[answer["total_days"]] += 1
    assert totals[0] and any(total % 1 for total in totals)


def test_pages_of_leave_add_up_to_the_whole() -> None:
    world = opened(seed=3)
    most = max(
        range(len(world.ids)), key=lambda index: (world.company.people[index].active, len(world.company.leave[index]))
    )
    period = {"emp_id": world.ids[most], "start_date": "2026-04-01", "end_date": "2026-08-01"}
    whole = data(world, LEAVE, **period)
    assert len(whole["records"]) > 2 and whole["has_more"] is False
    pages = [data(world, LEAVE, **period, page=page + 1, page_size=1) for page in range(len(whole["records"]))]
    assert [record for page in pages for record in page["records"]] == whole["records"]
    assert sum(page["total_days"] for page in pages) == whole["total_days"]
    assert [page["has_more"] for page in pages] == [True] * (len(pages) - 1) + [False]
    assert data(world, LEAVE, **period, page=len(pages) + 1, page_size=1)["records"] == []
    for wrong in ({"page_size": 21}, {"page_size": 0}, {"page": 0}):
        assert called(world, LEAVE, **period, **wrong).code is ErrorCode.INVALID_ARGUMENTS


def test_whole_days_are_written_without_a_fraction() -> None:
    """The answer is to be a copy of the result: 2, not 2.0."""
    world = opened(seed=1)
    for index, person in enumerate(world.company.people):
        if person.active:
            answer = data(world, LEAVE, emp_id=world.ids[index], start_date="2026-05-01", end_date="2026-07-01")
            numbers = [answer["total_days"], *(record["days"] for record in answer["records"])]
            assert all(isinstance(number, int) or number % 1 == 0.5 for number in numbers)


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        ("2026-01-01", "2026-06-30", None),  # 180 days later
        ("2026-01-01", "2026-07-01", ErrorCode.BUSINESS_ERROR),
        ("2025-12-31", "2026-12-31", ErrorCode.BUSINESS_ERROR),
        ("0001-01-01", "9999-12-31", ErrorCode.BUSINESS_ERROR),
        ("2026-06-02", "2026-06-01", ErrorCode.BUSINESS_ERROR),
        ("2026-06-01", "2026-06-01", None),
        ("0001-01-01", "0001-01-01", None),
        ("9999-12-31", "9999-12-31", None),
        ("2026-02-30", "2026-03-01", ErrorCode.INVALID_ARGUMENTS),
        ("2026-6-1", "2026-06-07", ErrorCode.INVALID_ARGUMENTS),
        ("20260601", "20260607", ErrorCode.INVALID_ARGUMENTS),
        ("2026-W23-1", "2026-W23-7", ErrorCode.INVALID_ARGUMENTS),
        ("this week", "today", ErrorCode.INVALID_ARGUMENTS),
    ],
)
def test_a_period_that_cannot_be_asked_for_is_refused(start: str, end: str, code: ErrorCode | None) -> None:
    world = opened()
    result = called(world, LEAVE, emp_id=world.ids[0], start_date=start, end_date=end)
    assert result.code is code
    if code is ErrorCode.BUSINESS_ERROR:
        assert start in result.message and end in result.message


def test_every_name_of_the_pool_can_be_told_apart_in_chinese() -> None:
    """No two characters are alike, or a search could not tell their people apart."""
    for pool in (SURNAMES, GIVEN):
        assert len({entry[0] for entry in pool}) == len({entry[1] for entry in pool}) == len(pool)
    assert compose(0, (0, 15)) == Name("张伟明", "張偉明", "zhang", "weiming")
