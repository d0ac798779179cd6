"""AgentArts' stepwise reward, bit for bit: the score that a person brings along from that platform.

Source: Huawei Cloud AgentArts, the documentation of the plugin / MCP scenario ("employee information assistant"),
where a `cal_reward(payload)` adds up partial scores: 0.3 for the first successful employee search, 0.35 for the first
successful leave query and 0.35 for the first successful org query that carry the expected employee id.

It is kept for comparison and for moving rewards between the two places, not for training. What can be had from it:
- a guessed id scores without any search: leave + org is 0.7, more than honest work cut short after two steps (0.65);
- the search scores whatever its arguments, repeats cost nothing, so one call per known id finds the right one;
- the final answer, the dates asked for and every other tool that was called (a deletion, say) are not looked at;
- without a reference, a call without an id matches it ("" is ""), and a null id matches a null reference;
- ids match as text, so that 1001 matches "1001", but 1001.0, " 1001" and "007" against 7 do not;
- one odd step, or an input whose text is JSON but no object, voids the whole score.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Rung:
    """One tool of the ladder. needs_id: its `emp_id` has to equal the reference."""

    tool: str
    weight: float
    needs_id: bool


LADDER = (
    _Rung("mcp_employee_search", 0.3, needs_id=False),
    _Rung("plugin_leave_query", 0.35, needs_id=True),
    _Rung("plugin_org_query", 0.35, needs_id=True),
)
WRONG_ORDER = 0.3  # all rungs, but not in the order of the ladder


class _Unreadable(Exception):
    """The payload has another shape than the source's code relies on."""


def score_payload(payload: str) -> float:
    """The source's score of a payload, {"reference_output", "trajectory": {"steps": [...]}} as JSON text.

    One of 0.0, 0.3, 0.35, 0.7 and the sums 0.3 + 0.35 and 0.3 + 0.35 + 0.35 as floats add up. Anything unreadable is
    0.0; nothing is raised.
    """
    try:
        return _total(_climbed(json.loads(payload)))
    except (_Unreadable, ValueError, TypeError, RecursionError):
        return 0.0


def _climbed(data: Any) -> list[_Rung]:
    """The rungs of the ladder that were reached, in the order in which that happened."""
    reference = str(_object(data).get("reference_output", ""))
    steps = _object(data.get("trajectory", {})).get("steps", [])
    if not isinstance(steps, list):
        raise _Unreadable
    reached: list[_Rung] = []
    for step in steps:
        rung = _rung_of(_object(step))
        if rung is None or rung in reached:
            continue
        if not rung.needs_id or _id_given(step.get("input")) == reference:
            reached.append(rung)
    return reached


def _total(reached: list[_Rung]) -> float:
    if len(reached) == len(LADDER) and tuple(reached) != LADDER:
        return WRONG_ORDER
    total = 0.0
    for rung in LADDER:  # not sum(): since Python 3.12 it compensates rounding, and a full ladder would be 1.0
        if rung in reached:
            total += rung.weight
    return total


def _rung_of(step: dict[str, Any]) -> _Rung | None:
    if step.get("type") != "tool" or step.get("status") != "success":
        return None
    return next((rung for rung in LADDER if rung.tool == step.get("name", "")), None)


def _id_given(given: Any) -> str:
    """The employee id of a step's input as text, "" without one. Raises _Unreadable where text decodes to no object."""
    if isinstance(given, str):
        return str(_object(_decoded(given)).get("emp_id", ""))
    return str(given.get("emp_id", "")) if isinstance(given, dict) else ""


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}  # broken text costs its own step only


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unreadable
    return value
