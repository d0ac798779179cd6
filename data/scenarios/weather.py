"""The weather scenario: kinds 101 to 106. `weather.yaml` holds the phrasings; cities are split between the splits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from data.scenarios.plain import Case, Situation, case, held_out, reference, row, step
from data.schema import Row
from env.domains.weather.world import CITIES, CONDITIONS, Forecast, World

# kind -> share of the rows
SHARES = {101: 0.25, 102: 0.2, 103: 0.2, 104: 0.15, 105: 0.1, 106: 0.1}
ASKS = {101: "condition", 102: "high", 103: "range", 104: "humidity"}
UNKNOWN = (
    ("亚特兰蒂斯", "Atlantis"),
    ("香格里城", "Shangri Town"),
    ("东极镇", "Far East Town"),
    ("云中城", "Cloud City"),
)


def make_row(kind: int, language: str, split: str, number: int, seed: int, companies: int) -> Row:
    """Row `number` of a split. Equal arguments give an equal row. companies: not used."""
    at = case(split, language, number, seed)
    return row("weather", kind, number, seed, at, _situation(kind, at))


def _situation(kind: int, at: Case) -> Situation:
    if kind == 106:
        return Situation("chat", {}, None, "chat", (), ({"fact": "reply"},), "none")
    offset = at.rng.choice((0, 0, 1, 2, 3, -1))
    day = (at.today + timedelta(days=offset)).isoformat()
    ask = ASKS[at.rng.choice(list(ASKS))] if kind == 105 else ASKS[kind]
    pool = UNKNOWN if kind == 105 else CITIES
    pair = at.rng.choice([pair for index, pair in enumerate(pool) if held_out(index) == (at.split == "eval")])
    name = pair[0] if at.language == "zh" else pair[1]
    said = day if offset else {"zh": "今天", "en": "today"}[at.language]
    arguments = {"city": {"one_of": list(pair)}, "date": {"one_of": [day]} if offset else {"equals": day}}
    if not offset:  # today is what the tool takes where nothing is said, so the model need not
        del arguments["date"]
    slots = {"city": name, "day": said}
    if kind == 105:
        steps = (step("weather", "get_weather", 1.0, arguments, empty=True),)
        return Situation(ask, slots, name, "unknown", steps, ({"fact": "not_found"},), "not_found")
    found = World(at.seed, at.today).forecast(pair[1], at.today + timedelta(days=offset))
    assert found is not None
    steps = (step("weather", "get_weather", 1.0, arguments, finds={"city": pair[0], "date": day}),)
    return Situation(ask, slots, name, ask, steps, _facts(ask, found), reference(city=pair[1], date=day, ask=ask))


def _facts(ask: str, found: Forecast) -> tuple[dict[str, Any], ...]:
    if ask == "high":
        return ({"fact": "number", "value": found.high},)
    if ask == "range":
        return ({"fact": "number", "value": found.low}, {"fact": "number", "value": found.high})
    rivals = [name for pair in CONDITIONS.items() if pair[0] != found.condition for name in pair]
    sky: dict[str, Any] = {"fact": "text", "value": [found.condition, found.condition_zh], "rivals": rivals}
    return (sky, {"fact": "number", "value": found.humidity}) if ask == "humidity" else (sky,)
