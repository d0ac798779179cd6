"""Questions about meeting rooms, with the calls and the facts that a right answer needs.

STEPCREDIT_DOMAINS=rooms PYTHONPATH=docs python -m rooms.rows runs/rooms
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from data.scenarios.plain import Situation, case, row, step
from data.schema import Row
from rooms import NAMES, open_world, reference

# Every fourth phrasing is for evaluation only.
WORDS = {
    "asks": {
        "status": {
            "zh": ["{day}{room}有人订吗", "查一下{room}{day}的预订", "{room}在{day}空闲吗", "请查{room}，{day}空闲吗"]
        },
        "floor": {"zh": ["{room}在几楼", "查一下{room}的楼层", "请问{room}在哪一层", "请查{room}在几层"]},
    },
    "replies": {
        "status": {"zh": "{room}在{day}{status.status}。"},
        "floor": {"zh": "{room}在{find.floor}楼。"},
    },
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
    if at.rng.random() < 0.4:
        ask, steps, fact = "floor", (find,), {"fact": "number", "value": room.floor}
    else:
        arguments = {"room_id": {"equals": "$reference", "from": "result"}, "date": {"equals": day.isoformat()}}
        ask, steps = "status", (find, step("status", "room_status", 0.5, arguments, after=["find"]))
        right, wrong = ("已订", "空闲") if world.booked(room, day) else ("空闲", "已订")
        fact = {"fact": "text", "value": [right], "rivals": [wrong]}
    slots = {"room": room.name, "day": day.isoformat()}
    drawn = Situation(ask, slots, room.name, ask, steps, (fact,), reference(world, subject), subject)
    return row("rooms", 1 if ask == "status" else 2, number, seed, at, drawn, WORDS, spec)


def main() -> None:
    for split, count in (("train", 400), ("eval", 100)):
        path = Path(sys.argv[1]) / split / "rooms.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(make_row(split, number).to_json() + "\n" for number in range(count)), "utf-8")
        print(f"{path}: {count} rows")


if __name__ == "__main__":
    main()
