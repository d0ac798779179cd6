"""Leave records of one employee over a range of dates."""

from __future__ import annotations

from datetime import date
from typing import Any

from env.domains.hr.world import World
from env.types import ErrorCode, ToolError

LONGEST_RANGE_DAYS = 180
LARGEST_PAGE = 20


def plugin_leave_query(
    world: World,
    emp_id: str,
    start_date: str,
    end_date: str,
    leave_type: str | None = None,
    page: int = 1,
    page_size: int = LARGEST_PAGE,
) -> dict[str, Any]:
    """One page of the records that touch the range; days are counted inside it only.

    Raises ToolError for what a schema cannot say. A page beyond the last one is empty.
    """
    first, last = date.fromisoformat(start_date), date.fromisoformat(end_date)
    if last < first:
        raise ToolError(ErrorCode.BUSINESS_ERROR, f"start_date {start_date} is after end_date {end_date}; swap them")
    if (last - first).days > LONGEST_RANGE_DAYS:
        raise ToolError(
            ErrorCode.BUSINESS_ERROR,
            f"{start_date} to {end_date} is more than {LONGEST_RANGE_DAYS} days; split the period",
        )
    person = world.person_of(emp_id)
    if person is None:
        raise ToolError(ErrorCode.NOT_FOUND, f"no active employee has emp_id {emp_id!r}; search by name first")
    records = [
        {
            "start_date": record.start.isoformat(),
            "end_date": record.end.isoformat(),
            "leave_type": record.leave_type,
            "days": plain(days),
        }
        for record, days in world.leave_of(person, first, last, leave_type)
        if days
    ]
    shown = records[(page - 1) * page_size : page * page_size]
    return {
        "emp_id": emp_id,
        "records": shown,
        "total_days": plain(sum(float(record["days"]) for record in shown)),
        "has_more": page * page_size < len(records),
    }


def plain(days: float) -> float | int:
    """2.0 as 2: a person says "2 days", and the answer should be a copy of the result."""
    return int(days) if days == int(days) else days
