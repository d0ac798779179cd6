"""Forecasts that follow from a seed: the same city on the same day has the same weather in every episode of a row."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

CITIES = (
    ("北京", "Beijing"), ("上海", "Shanghai"), ("广州", "Guangzhou"), ("深圳", "Shenzhen"), ("成都", "Chengdu"),
    ("杭州", "Hangzhou"), ("武汉", "Wuhan"), ("西安", "Xi'an"), ("南京", "Nanjing"), ("天津", "Tianjin"),
    ("重庆", "Chongqing"), ("苏州", "Suzhou"), ("长沙", "Changsha"), ("青岛", "Qingdao"), ("大连", "Dalian"),
    ("厦门", "Xiamen"), ("昆明", "Kunming"), ("哈尔滨", "Harbin"), ("沈阳", "Shenyang"), ("济南", "Jinan"),
    ("福州", "Fuzhou"), ("合肥", "Hefei"), ("郑州", "Zhengzhou"), ("贵阳", "Guiyang"),
)  # fmt: skip
CONDITIONS = {
    "sunny": "晴",
    "cloudy": "多云",
    "overcast": "阴",
    "light rain": "小雨",
    "heavy rain": "大雨",
    "snow": "雪",
}
FORECAST_DAYS = 14  # before and after today


@dataclass(frozen=True, slots=True)
class Forecast:
    """One day in one city. Temperatures in degrees Celsius, humidity in per cent."""

    city: str
    date: str
    condition: str
    condition_zh: str
    high: int
    low: int
    humidity: int


class World:
    """today: the episode's day; forecasts reach FORECAST_DAYS to either side of it."""

    def __init__(self, seed: int, today: date):
        self.today = today
        self._seed = seed
        self._cities = {name.casefold(): pair for pair in CITIES for name in pair}

    def forecast(self, city: str, day: date) -> Forecast | None:
        """None for a city that is not covered. city: Chinese or English name, in any case."""
        pair = self._cities.get(city.strip().casefold())
        if pair is None:
            return None
        return _forecast(self._seed, pair, day)

    def close(self) -> None:
        """Nothing to release."""


@lru_cache(maxsize=4096)
def _forecast(seed: int, pair: tuple[str, str], day: date) -> Forecast:
    rng = random.Random(f"weather/{seed}/{pair[1]}/{day}")
    condition = rng.choice(list(CONDITIONS))
    low = rng.randrange(-12, 0) if condition == "snow" else rng.randrange(1, 25)
    high = low + rng.randrange(3, 12)
    return Forecast(pair[0], day.isoformat(), condition, CONDITIONS[condition], high, low, rng.randrange(30, 95))
