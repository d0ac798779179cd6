"""Reporting lines of one employee."""

from __future__ import annotations

from typing import Any

from env.domains.hr.world import World
from env.types import ErrorCode, ToolError


def plugin_org_query(world: World, emp_id: str) -> dict[str, Any]:
    """Direct manager, dotted-line manager and department head; nobody is reported as head of their own department."""
    index = world.person_of(emp_id)
    if index is None:
        raise ToolError(ErrorCode.NOT_FOUND, f"no active employee has emp_id {emp_id!r}; search by name first")
    person = world.company.people[index]
    head = world.company.heads.get(person.department)
    return {
        "emp_id": emp_id,
        "name": person.name.simplified,
        "department": person.department,
        "manager": world.contact(person.manager),
        "dotted_line_manager": world.contact(person.dotted_line_manager),
        "department_head": None if index in (head, world.company.ceo) else world.contact(head),
    }
