"""The finance scenario: kinds 201 to 207. Chains of one to three calls whose arguments come from earlier results."""

from __future__ import annotations

from typing import Any

from data.scenarios.plain import Case, Situation, case, held_out, reference, row, step
from data.schema import ROW_IDS, Row
from env.domains.finance.world import SYMBOLS, World, quarter_before

# kind -> share of the rows
SHARES = {201: 0.18, 202: 0.17, 203: 0.2, 204: 0.17, 205: 0.08, 206: 0.07, 207: 0.13}
UNKNOWN = ("ZZZA", "QQQB", "XXYC", "WWWD", "JJJE", "ZQZF", "XQXG", "WQWH")  # not traded


def make_row(kind: int, language: str, split: str, number: int, seed: int, companies: int) -> Row:
    """Row `number` of a split. Equal arguments give an equal row. companies: not used."""
    at = case(split, language, number, seed)
    return row("finance", kind, number, seed, at, KINDS[kind](at))


def _mine(at: Case, names: tuple[str, ...]) -> str:
    return at.rng.choice([name for index, name in enumerate(names) if held_out(index) == (at.split == "eval")])


def _account(at: Case) -> str:
    number = at.rng.randrange(1000, 4000)
    return f"A-{number - number % 4 + (3 if at.split == 'eval' else at.rng.randrange(3))}"


def _price(at: Case) -> Situation:
    symbol = _mine(at, SYMBOLS)
    price = World(at.seed, at.today).price(symbol)
    steps = (_price_step(symbol),)
    facts = ({"fact": "number", "value": price},)
    told = reference(symbol=symbol, date=at.today.isoformat(), price=price)
    return Situation("price", {"symbol": symbol}, symbol, "price", steps, facts, told)


def _quantity(at: Case) -> Situation:
    account, holding = _position(at)
    slots = {"account": account, "symbol": holding.symbol}
    steps = (_portfolio_step(account, holding),)
    facts = ({"fact": "number", "value": holding.quantity},)
    told = reference(account=account, quantity=holding.quantity)
    return Situation("quantity", slots, holding.symbol, "quantity", steps, facts, told)


def _profit(at: Case) -> Situation:
    account, holding = _position(at)
    price = World(at.seed, at.today).price(holding.symbol)
    assert price is not None
    profit = round(holding.quantity * (price - holding.cost_price), 2)
    steps = (
        _portfolio_step(account, holding),
        _price_step(holding.symbol),
        step(
            "profit",
            "calculate_profit",
            0.4,
            {
                "quantity": {"equals": holding.quantity, "from": "result"},
                "cost_price": {"equals": holding.cost_price, "from": "result"},
                "price": {"equals": price, "from": "result"},
            },
            after=["portfolio", "price"],
        ),
    )
    facts = ({"fact": "number", "value": profit, "places": 0},)
    slots = {"account": account, "symbol": holding.symbol}
    return Situation("profit", slots, holding.symbol, "profit", steps, facts, reference(account=account, profit=profit))


def _growth(at: Case) -> Situation:
    year = at.rng.choice((2023, 2025) if at.split == "eval" else (2020, 2021, 2022, 2024))
    quarter = f"{year}Q{at.rng.randrange(1, 5)}"
    world, before = World(at.seed, at.today), quarter_before(quarter)
    returned, earlier = world.returned(quarter), world.returned(before)
    growth = round(((world.sales(quarter) - returned) / (world.sales(before) - earlier) - 1) * 100, 1)
    steps = (
        step("returns", "get_return_orders", 0.4, {"quarter": {"one_of": [quarter]}}, finds={"quarter": quarter}),
        step(
            "growth",
            "sales_report_qoq",
            0.6,
            {
                "quarter": {"one_of": [quarter]},
                "returned": {"equals": returned, "from": "result"},
                "returned_before": {"equals": earlier, "from": "result"},
            },
            after=["returns"],
        ),
    )
    facts = ({"fact": "number", "value": growth},)
    told = reference(quarter=quarter, seed=at.seed, growth_percent=growth)
    return Situation("growth", {"quarter": quarter}, quarter, "growth", steps, facts, told)


def _unknown(at: Case) -> Situation:
    symbol = _mine(at, UNKNOWN)
    steps = (_price_step(symbol, empty=True),)
    return Situation("price", {"symbol": symbol}, symbol, "unknown", steps, ({"fact": "not_found"},), "not_found")


def _chat(at: Case) -> Situation:
    return Situation("chat", {}, None, "chat", (), ({"fact": "reply"},), "none")


def _order(at: Case) -> Situation:
    """A purchase that the account can pay: price, order, confirmation."""
    account, symbol = _account(at), _mine(at, SYMBOLS)
    world = World(at.seed, at.today, ROW_IDS)
    price = world.price(symbol)
    assert price is not None
    quantity = at.rng.randrange(1, int(world.cash(account) / price) // 10 + 2) * 10
    quantity = min(quantity, int(world.cash(account) / price), 10_000)
    order_id = {"equals": "$reference", "from": "result"}
    steps = (
        _price_step(symbol),
        step(
            "order",
            "place_order",
            0.4,
            {
                "account": {"one_of": [account]},
                "symbol": {"one_of": [symbol]},
                "quantity": {"equals": quantity},
                "price": {"equals": price, "from": "result"},
            },
            after=["price"],
        ),
        step("confirmation", "confirm_order", 0.3, {"order_id": order_id}, after=["order"]),
    )
    facts = ({"fact": "number", "value": round(quantity * price, 2)},)
    slots = {"account": account, "symbol": symbol, "quantity": str(quantity)}
    return Situation("order", slots, symbol, "order", steps, facts, world.order_id(0), 0)


KINDS = {201: _price, 202: _quantity, 203: _profit, 204: _growth, 205: _unknown, 206: _chat, 207: _order}


def _position(at: Case) -> tuple[str, Any]:
    account = _account(at)
    holdings = World(at.seed, at.today).holdings(account)
    assert holdings is not None
    return account, at.rng.choice(holdings)


def _price_step(symbol: str, empty: bool = False) -> dict[str, Any]:
    more: dict[str, Any] = {"empty": True} if empty else {"finds": {"symbol": symbol}}
    return step("price", "stock_price", 0.3, {"symbol": {"one_of": [symbol]}}, **more)


def _portfolio_step(account: str, holding: Any) -> dict[str, Any]:
    arguments = {"account": {"one_of": [account]}}
    return step("portfolio", "get_portfolio", 0.3, arguments, finds={"symbol": holding.symbol})
