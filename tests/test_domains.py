"""The second domains: sound rows, rewards that see through made-up values, and the incident of the price source."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from data.build import SCENARIOS, rows
from data.checks import leaks
from data.oracle import call_text, oracle_turn
from data.schema import Row, RowError, row_from_json
from env.clock import VirtualClock
from env.domains import domain, finance
from env.domains.weather.world import CITIES
from env.planning import Planner
from env.policies import RateLimit
from env.registry import CallEvent, Registry, Tool
from env.types import ErrorCode, ToolCall, ToolError, Trajectory
from evaluation.players import Oracle, Silent, play
from evaluation.scoring import rubric_of
from rewards import grounded
from rewards.facts import read_text
from rewards.rubric import Rubric, RubricError
from rewards.score import Breach, Score

SECOND = ("weather", "finance")
NOW = "2026-06-03T09:00:00+08:00"


def scored(row: Row, trajectory: Trajectory) -> Score:
    score = grounded.score(trajectory, rubric_of(row, trajectory.reference_output))
    assert score is not None
    return score


def of_kind(name: str, kind: int, language: str = "zh") -> Row:
    return next(row for row in rows("train", 400, 3, {kind: 1.0}, name) if row.task.language == language)


def played(row: Row, texts: list[str]) -> Score:
    """The given turns, then nothing more."""
    episode = row.open()
    for text in texts:
        episode.play(text)
    return scored(row, episode.trajectory())


def oracle_texts(row: Row) -> list[str]:
    episode, texts = row.open(), list[str]()
    while not episode.done:
        texts.append(oracle_turn(row.task, episode))
        episode.play(texts[-1])
    return texts


@pytest.mark.parametrize("name", SECOND)
def test_the_oracle_is_perfect_silence_earns_nothing_and_nothing_leaks(name: str) -> None:
    made = [row for split in ("train", "eval") for row in rows(split, 300, 5, domain=name)]
    for row in made:
        assert scored(row, play(row, Oracle())).total == 1.0, row.input
        assert scored(row, play(row, Silent())).total == 0.0, row.input
        assert row == row_from_json(json.loads(row.to_json()))
    assert list(leaks(made)) == []
    kinds = Counter(row.task.kind for row in made)
    assert set(kinds) == set(SCENARIOS[name].SHARES)
    assert len(kinds) >= 5
    assert {row.task.language for row in made} == {"zh", "en"}


@pytest.mark.parametrize("name", SECOND)
def test_every_ask_has_twelve_phrasings_of_which_a_quarter_is_held_out(name: str) -> None:
    from data.scenarios.plain import phrasings

    for ask, languages in phrasings(name)["asks"].items():
        for language, texts in languages.items():
            assert len(texts) >= 12, (ask, language)
            assert len(set(texts)) == len(texts)
    train, held = ({row.task.template for row in rows(split, 900, 0, domain=name)} for split in ("train", "eval"))
    assert not train & held


@pytest.mark.parametrize("name", SECOND)
def test_equal_seeds_give_equal_bytes_and_others_do_not(name: str) -> None:
    first, again, other = ([row.to_json() for row in rows("train", 40, seed, domain=name)] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("name", SECOND)
def test_an_answer_without_a_call_earns_no_fact(name: str) -> None:
    for row in rows("train", 60, 0, domain=name):
        if row.task.depth:
            assert played(row, [oracle_texts(row)[-1]]).total < 0.1


def test_a_price_that_no_tool_returned_is_a_violation() -> None:
    row = of_kind("finance", 203)
    right = oracle_texts(row)
    assert played(row, right).success
    made_up = call_text("calculate_profit", {"quantity": 10, "cost_price": 3.25, "price": 4.5})
    score = played(row, [right[0], made_up, "盈亏为12.5元。"])
    assert {violation.breach for violation in score.violations} >= {Breach.UNGROUNDED_VALUE}
    assert score.total < 0.05
    # All that it needs is in the rubric, but the price had not been looked up when it was used.
    rule = row.task.rubric["steps"][2]["arguments"]
    early = call_text("calculate_profit", {key: rule[key]["equals"] for key in rule})
    score = played(row, [right[0], early, right[-1]])
    assert not score.success
    assert any(violation.value == str(rule["price"]["equals"]) for violation in score.violations)


def test_the_quantity_of_another_holding_is_no_step() -> None:
    row = of_kind("finance", 203)
    right = oracle_texts(row)
    rule = row.task.rubric["steps"][2]["arguments"]
    episode = row.open()
    episode.play(right[0])
    holdings = episode.steps[0].result.data["holdings"]
    other = next(each for each in holdings if each["quantity"] != rule["quantity"]["equals"])
    wrong = call_text("calculate_profit", {"quantity": other["quantity"], "cost_price": other["cost_price"],
                                           "price": rule["price"]["equals"]})  # fmt: skip
    score = played(row, [right[0], right[1], wrong, right[-1]])
    assert "profit" not in score.earned
    assert not score.success


def test_listing_every_condition_is_no_answer() -> None:
    row = of_kind("weather", 101)
    right = oracle_texts(row)
    assert played(row, right).success
    score = played(row, [right[0], "可能是晴、多云、阴、小雨、大雨或雪。"])
    assert not score.success
    assert Breach.WRONG_ANSWER in {violation.breach for violation in score.violations}


def test_numbers_beside_the_right_one_are_no_answer() -> None:
    row = of_kind("weather", 102)
    right = oracle_texts(row)
    high = row.task.rubric["answer"][0]["value"]
    assert played(row, [right[0], f"最高{high}度"]).success
    for answer in (f"最高{high}度或{high + 1}度", f"{high + 1}度", "".join(f"{n}度，" for n in range(-10, 40))):
        assert not played(row, [right[0], answer]).success, answer


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("盈亏为-28800元。", (-28800.0,)),
        ("profit: 1,234.50 yuan", (1234.5,)),
        ("2026-06-03 北京最高31度", (31.0,)),
        ("7963.8 yuan", (7963.8,)),
        ("between 3 and 12 degrees", (3.0, 12.0)),
        ("3-12", (3.0, 12.0)),  # a range: no sign is invented
        ("湿度45%", (45.0,)),
        ("B2 和 a7 不是数", ()),
        ("not 5 but 6", (6.0,)),
    ],
)
def test_numbers_are_read_from_text(text: str, numbers: tuple[float, ...]) -> None:
    assert read_text(text).numbers == numbers


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ({"fact": "number"}, "value: number needs one"),
        ({"fact": "number", "value": "12"}, "expected a number"),
        ({"fact": "number", "value": 1, "places": 10}, "expected 0 to 9"),
        ({"fact": "number", "value": 1, "rivals": []}, "unknown key"),
        ({"fact": "text", "value": []}, "expected at least one spelling"),
        ({"fact": "text", "value": ["Sunny"], "rivals": ["sunny"]}, "accepted as well"),
        ({"fact": "not_found"}, "not_found needs a step with 'empty': true"),
    ],
)
def test_facts_that_cannot_be_used_are_refused(fact: dict[str, object], message: str) -> None:
    step = {"id": "a", "tool": "t", "weight": 1, "arguments": {}}
    with pytest.raises(RubricError, match=message):
        Rubric.from_dict({"steps": [step], "answer": [fact]}, "x")


def test_a_city_is_found_by_either_name_and_a_far_day_is_refused() -> None:
    world = domain("weather").open_world({"seed": 4}, NOW, "")
    bound = domain("weather").registry().bind(world)
    by_name = [bound.tool_call("get_weather", city=name) for name in (*CITIES[7], "XI'AN")]
    assert len({str(result.data) for result in by_name}) == 1
    far = bound.tool_call("get_weather", city="北京", date="2026-07-01")
    assert far.code is ErrorCode.BUSINESS_ERROR
    assert "14 days" in far.message
    assert bound.tool_call("get_weather", city="Atlantis").data == {"forecasts": []}


def test_the_price_incident_from_first_503_to_recovery() -> None:
    """Three failed attempts open the breaker for ten minutes; a probe after that closes it; what is fresh is cached."""
    clock = VirtualClock()
    world = finance.open_world({"seed": 4}, NOW, "")
    events = []
    registry = finance.Registry.load_tools_from_directory(
        Path(finance.__file__).parent / "tools", "env.domains.finance.tools", on_call=events.append
    ).bind(world, clock=clock)

    def ask(symbol: str) -> ErrorCode | None:
        return registry.call(ToolCall("stock_price", {"symbol": symbol})).result.code

    assert ask("VEGA") is None
    world.source.down = True
    assert ask("VEGA") is None  # five minutes fresh
    assert events[-1].cached
    assert ask("KENT") is ErrorCode.UNAVAILABLE  # two attempts
    assert events[-1].attempts == 2
    assert ask("KENT") is ErrorCode.CIRCUIT_OPEN  # the third failed one opened it
    world.source.down = False
    assert ask("KENT") is ErrorCode.CIRCUIT_OPEN
    assert events[-1].attempts == 0
    clock.sleep(599)
    assert ask("KENT") is ErrorCode.CIRCUIT_OPEN
    clock.sleep(2)
    assert ask("KENT") is None
    assert ask("QLAN") is None


QUOTA_PER_MINUTE = 10


def test_an_incident_of_the_upstream_with_quota_latency_and_errors() -> None:
    """The quota falls from 100 to 10, answers take 4,800 ms in place of 200, 35 % fail: what was promised still holds.

    Two attempts with factor 1.5, a breaker and a cache stand between; no output breaks its contract on the way, no
    call hangs, the upstream gets fewer attempts than calls were made, and after the incident all is well again.
    """
    clock, rng, events = VirtualClock(), random.Random(5), list[CallEvent]()
    declared = domain("finance").registry().contract("stock_price")
    assert declared.policies.retry is not None
    assert (declared.policies.retry.max_attempts, declared.policies.retry.backoff_factor) == (2, 1.5)
    policies = replace(declared.policies, latency_ms=4_800, rate_limit=RateLimit(QUOTA_PER_MINUTE, 60.0))
    attempts: list[float] = []

    def price(world: object, symbol: str) -> dict[str, object]:
        attempts.append(clock.now())
        if rng.random() < 0.35:
            raise ToolError(ErrorCode.UNAVAILABLE, "the price source answers 503")
        return {"prices": [{"symbol": symbol, "price": 12.5, "currency": "CNY"}]}

    during = Registry([Tool(replace(declared, policies=policies), price)], on_call=events.append).bind(
        None, clock=clock
    )
    symbols = ("VEGA", "KENT", "QLAN", "BEIX")
    for number in range(600):
        during.tool_call("stock_price", symbol=symbols[number % 4])
        clock.sleep(1.0)
    codes = Counter(event.code for event in events)
    assert codes.keys() <= {None, ErrorCode.UNAVAILABLE, ErrorCode.RATE_LIMITED, ErrorCode.CIRCUIT_OPEN}
    assert codes[None] > 300, "the cache and the second attempt carry most calls"
    assert {event.output_valid for event in events} <= {True, None}
    assert all(event.duration_s <= 2 * 5.0 + 0.2 for event in events)
    assert len(attempts) < 300
    assert max(sum(start <= at < start + 60 for at in attempts) for start in attempts) <= 2 * QUOTA_PER_MINUTE
    after = domain("finance").registry().bind(finance.open_world({"seed": 4}, NOW, ""), on_call=events.append)
    assert [after.tool_call("stock_price", symbol=symbol).ok for symbol in symbols] == [True] * 4


def test_a_plan_whose_last_step_fails_takes_back_what_it_had_written() -> None:
    world = finance.open_world({"seed": 4}, NOW, "")
    registry = domain("finance").registry().bind(world)
    planner = Planner(registry)
    cash, price = world.cash("A-1027"), world.price("VEGA")
    assert price is not None
    inputs = {"account": "A-1027", "symbol": "VEGA"}
    with pytest.raises(ToolError, match=r"business_error: confirm_order: .*undone: place_order"):
        planner.run(None, ["confirm_order"], {**inputs, "quantity": int(cash / price) + 1})
    assert [planned.call.name for planned in planner.taken()] == [
        "stock_price", "place_order", "confirm_order", "cancel_order",
    ]  # fmt: skip
    assert [order.status for order in world.orders.values()] == ["cancelled"]
    planner.run(None, ["confirm_order"], {**inputs, "quantity": 10})
    assert [order.status for order in world.orders.values()] == ["cancelled", "confirmed"]


def test_an_order_at_a_price_of_ones_own_is_refused() -> None:
    world = finance.open_world({"seed": 4}, NOW, "")
    bound = domain("finance").registry().bind(world)
    refused = bound.tool_call("place_order", account="A-1027", symbol="VEGA", quantity=10, price=0.01)
    assert refused.code is ErrorCode.BUSINESS_ERROR and not world.orders
    assert bound.tool_call("confirm_order", order_id="12345").code is ErrorCode.NOT_FOUND


def test_errors_are_told_in_the_callers_language_where_a_tool_speaks_it() -> None:
    world = finance.open_world({"seed": 4}, NOW, "")
    registry = domain("finance").registry()
    told = {
        language: registry.bind(world, language=language).tool_call("get_portfolio", account="B-1").message
        for language in ("zh", "en", "fr")
    }
    assert told["zh"] == "not_found: 没有账户'B-1'，账户形如A-1027"
    assert told["en"] == told["fr"] == "not_found: no account 'B-1'; accounts look like A-1027"
    rows_of = {row.task.language: row for row in rows("train", 60, 3, domain="finance")}
    for language, row in rows_of.items():
        [text] = row.open().play(call_text("get_portfolio", {"account": "B-1"})) or []
        assert ("没有账户" in text) == (language == "zh")


def test_an_open_breaker_says_so_in_chinese_too() -> None:
    world = finance.open_world({"seed": 4}, NOW, "")
    world.source.down = True
    bound = domain("finance").registry().bind(world, language="zh")
    for _ in range(3):
        told = bound.tool_call("stock_price", symbol="VEGA").message
    assert told.startswith("circuit_open: 服务连续失败3次，暂不可用，请至少")


def test_order_numbers_are_drawn_for_each_episode() -> None:
    row = of_kind("finance", 207)
    assert row.open().reference_output == row.reference_output
    assert row.open("other").reference_output != row.reference_output
    assert scored(row, play(row, Oracle(), "other")).total == 1.0


def test_a_domain_of_ones_own_is_found_by_the_variable_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "acme_desk"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from env.domains.weather import EXAMPLE, check_spec, open_world, reference, registry\n", "utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    row = of_kind("weather", 102)
    value = json.loads(row.to_json())
    value["task"]["domain"] = "acme_desk"
    with pytest.raises(RowError, match="acme_desk"):
        row_from_json(value)
    assert "acme_desk" not in sys.modules
    monkeypatch.setenv("STEPCREDIT_DOMAINS", "acme_desk, no_such_module, json")
    own = row_from_json(value)
    assert scored(own, play(own, Oracle())).total == 1.0
    with pytest.raises(ValueError, match="no_such_module"):
        domain("no_such_module")
    with pytest.raises(ValueError, match="json, which has no registry"):
        domain("json")
