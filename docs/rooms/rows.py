"""Questions about meeting rooms, with the calls and the facts that a right answer needs.

STEPCREDIT_DOMAINS=rooms PYTHONPATH=docs python -m rooms.rows runs/rooms
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from data.scenarios.plain import ZONE, Situation, case, row, step
from data.schema import Row
from rooms import NAMES, open_world, reference

# Every fourth phrasing is for evaluation only.
WORDS = {
    "asks": {
        "abroad": {
            "zh": [
                "{room}{time}开会，和{city}时差多少",
                "{time}在{room}开会，{city}时差是多少",
                "{city}那边差几小时，会议{time}在{room}",
                "{room}的会议{time}开始，{city}时差多少",
            ]
        },
        "status": {
            "zh": ["{day}{room}有人订吗", "查一下{room}{day}的预订", "{room}在{day}空闲吗", "请查{room}，{day}空闲吗"]
        },
        "floor": {"zh": ["{room}在几楼", "查一下{room}的楼层", "请问{room}在哪一层", "请查{room}在几层"]},
    },
    "replies": {
        "status": {"zh": "{room}在{day}{status.status}。"},
        "abroad": {"zh": "时差{convert.time_difference}。"},
        "floor": {"zh": "{room}在{find.floor}楼。"},
    },
}


KINDS = ("status", "floor", "abroad")

# Zones without summer time, so that the answer does not depend on the day. Every fourth city is for evaluation only.
CITIES = {
    "东京": ("Asia/Tokyo", "+1.0h"),
    "迪拜": ("Asia/Dubai", "-4.0h"),
    "曼谷": ("Asia/Bangkok", "-1.0h"),
    "首尔": ("Asia/Seoul", "+1.0h"),
    "孟买": ("Asia/Kolkata", "-2.5h"),
    "利雅得": ("Asia/Riyadh", "-5.0h"),
    "布里斯班": ("Australia/Brisbane", "+2.0h"),
    "河内": ("Asia/Ho_Chi_Minh", "-1.0h"),
}


def make_row(split: str, number: int, seed: int = 0) -> Row:
    """Equal arguments give an equal row."""
    at = case(split, "zh", number, seed)
    spec = {"seed": at.seed, "split": split}
    subject = at.rng.randrange(len(NAMES[split]))
    world = open_world(spec, at.now, "row")
    room = world.rooms[subject]
    day = at.today + timedelta(days=at.rng.randrange(1, 10))
    find = step("find", "find_room", 0.5, {"name": {"one_of": [room.name]}}, finds={"room_id": "$reference"})
    slots = {"room": room.name, "day": day.isoformat()}
    drawn_kind = at.rng.random()
    if drawn_kind < 0.2:
        names = [city for index, city in enumerate(CITIES) if (index % 4 == 3) == (split == "eval")]
        city, time = at.rng.choice(names), f"{at.rng.randrange(8, 18):02}:00"
        zone, difference = CITIES[city]
        arguments = {"source_timezone": {"equals": ZONE}, "time": {"equals": time}, "target_timezone": {"equals": zone}}
        ask, steps, subject = "abroad", (step("convert", "time__convert_time", 1.0, arguments),), None
        others = sorted({each for _, each in CITIES.values()} - {difference})
        fact = {"fact": "text", "value": [difference], "rivals": others}
        slots |= {"city": city, "time": time}
    elif drawn_kind < 0.5:
        ask, steps, fact = "floor", (find,), {"fact": "number", "value": room.floor}
    else:
        arguments = {"room_id": {"equals": "$reference", "from": "result"}, "date": {"equals": day.isoformat()}}
        ask, steps = "status", (find, step("status", "room_status", 0.5, arguments, after=["find"]))
        right, wrong = ("已订", "空闲") if world.booked(room, day) else ("空闲", "已订")
        fact = {"fact": "text", "value": [right], "rivals": [wrong]}
    told = "none" if subject is None else reference(world, subject)
    drawn = Situation(ask, slots, room.name, ask, steps, (fact,), told, subject)
    return row("rooms", KINDS.index(ask) + 1, number, seed, at, drawn, WORDS, spec)


def main() -> None:
    for split, count in (("train", 400), ("eval", 100)):
        path = Path(sys.argv[1]) / split / "rooms.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(make_row(split, number).to_json() + "\n" for number in range(count)), "utf-8")
        print(f"{path}: {count} rows")


if __name__ == "__main__":
    main()
