"""Prices, portfolios and sales that follow from a seed. Symbols stand for no real company; amounts are in yuan."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from env.types import ErrorCode, ToolError

SYMBOLS = (
    "QLAN", "BEIX", "HUOY", "MTRA", "SNWE", "DAXI", "LUPO", "KENT", "ZHIR", "OBAN", "FENQ", "TIGO", "WAVR", "YUNT",
    "CEDA", "NOVI", "PELA", "RUSH", "SOLM", "VEGA",
)  # fmt: skip
HOLDINGS = 3  # per account


@dataclass(frozen=True, slots=True)
class Holding:
    """A position. cost_price: paid per share, in yuan."""

    symbol: str
    quantity: int
    cost_price: float


@dataclass(frozen=True, slots=True)
class Order:
    """amount: in yuan. status: pending, confirmed or cancelled."""

    order_id: str
    account: str
    amount: float
    status: str = "pending"


@dataclass(slots=True)
class Source:
    """The upstream of the prices. down: whether it answers 503 at the moment."""

    down: bool = False


class World:
    """today: the episode's day. ids: seed of the order numbers, drawn for each episode."""

    def __init__(self, seed: int, today: date, ids: str = ""):
        self.today = today
        self.source = Source()
        self.orders: dict[str, Order] = {}
        self._ids = ids
        self._seed = seed

    def price(self, symbol: str) -> float | None:
        """Today's price in yuan, None for an unknown symbol. Raises ToolError(UNAVAILABLE) while the source is down."""
        if self.source.down:
            raise ToolError(ErrorCode.UNAVAILABLE, "the price source answers 503", zh="行情服务返回503")
        if symbol.upper() not in SYMBOLS:
            return None
        cents = random.Random(f"price/{self._seed}/{symbol.upper()}/{self.today}").randrange(500, 30_000)
        return cents / 100

    def holdings(self, account: str) -> tuple[Holding, ...] | None:
        """None for an account that does not exist: accounts are A-1000 to A-4999."""
        if not (
            account[:2] == "A-" and account[2:].isdecimal() and "1000" <= account[2:] <= "4999" and len(account) == 6
        ):
            return None
        return _holdings(self._seed, account)

    def cash(self, account: str) -> int:
        """What an account can spend, in yuan."""
        return random.Random(f"cash/{self._seed}/{account}").randrange(4_000, 45_000)

    def order_id(self, number: int) -> str:
        """Of the order that comes at this place, from 0."""
        return str(random.Random(f"order/{self._seed}/{self._ids}/{number}").randrange(10_000, 100_000))

    def place(self, account: str, amount: float) -> Order:
        """A new pending order."""
        order = Order(self.order_id(len(self.orders)), account, amount)
        self.orders[order.order_id] = order
        return order

    def settle(self, order_id: str, status: str) -> None:
        """Raises KeyError."""
        self.orders[order_id] = replace(self.orders[order_id], status=status)

    def returned(self, quarter: str) -> int:
        """Value of the orders returned in a quarter ("2026Q1"), in yuan."""
        return random.Random(f"returns/{self._seed}/{quarter}").randrange(1_000, 90_000)

    def sales(self, quarter: str) -> int:
        """Gross sales of a quarter, in yuan."""
        return random.Random(f"sales/{self._seed}/{quarter}").randrange(500_000, 2_000_000)

    def close(self) -> None:
        """Nothing to release."""


@lru_cache(maxsize=4096)
def _holdings(seed: int, account: str) -> tuple[Holding, ...]:
    rng = random.Random(f"holdings/{seed}/{account}")
    symbols = rng.sample(SYMBOLS, HOLDINGS)
    quantities = rng.sample(range(2, 90), HOLDINGS)  # of different size, so that a mix-up shows
    return tuple(
        Holding(symbol, quantity * 10, rng.randrange(500, 30_000) / 100)
        for symbol, quantity in zip(symbols, quantities, strict=True)
    )


def quarter_before(quarter: str) -> str:
    """ "2026Q1" -> "2025Q4"."""
    year, number = int(quarter[:4]), int(quarter[5])
    return f"{year}Q{number - 1}" if number > 1 else f"{year - 1}Q4"
