"""Which column of somebody's files holds what: by a small YAML file, or by the usual English and Chinese names.

    people:                      # our field -> their column
      table: staff               # where --people is an SQLite file; "people" where it is left out
      id: 工号
      manager: Vorgesetzter
    leave:
      person: emp_no
    leave_types:                 # their word -> annual, sick or personal
      调休: personal

Fields that the file does not map are looked for by their usual names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data.table import Table, TableError, find
from env.domains.hr.world import LEAVE_TYPES
from env.yaml_strict import Document, YamlError, load

PEOPLE = {
    "id": "id employee_id emp_id emp_no employee_no employee_number staff_id staff_no 工号 员工工号 员工编号 员工号",
    "name": "姓名 员工姓名 中文名 名字 name full_name employee_name display_name",
    "name_en": "name_en english_name name_english latin_name pinyin 英文名 英文姓名 拼音",
    "alias": "alias aliases nickname known_as preferred_name 别名 花名 昵称 曾用名",
    "email": "email work_email email_address mail 邮箱 工作邮箱 电子邮箱 邮箱地址 电子邮件 邮件",
    "department": "department dept department_name team 部门 所属部门 部门名称",
    "department_en": "department_en dept_en english_department 部门英文名 英文部门",
    "title": "title job_title position role 职位 岗位 职务 职称",
    "manager": "manager_id manager manager_no manager_emp_id reports_to supervisor supervisor_id line_manager "
    "manager_email 直属主管 直属主管工号 直属上级 直属上级工号 主管 主管工号 上级 上级工号 直属领导 汇报对象",
    "dotted_line_manager": "dotted_line_manager dotted_line_manager_id dotted_line matrix_manager 虚线主管 虚线上级",
    "active": "active is_active status employment_status 状态 在职状态 员工状态 是否在职",
}
LEAVE = {
    "person": "person employee_id emp_id emp_no employee_no employee_number staff_id employee email name "
    "工号 员工工号 员工编号 员工号 员工 姓名 员工姓名 邮箱",
    "start": "start start_date from first_day begin begin_date 开始日期 起始日期 开始时间 开始",
    "end": "end end_date to last_day until finish 结束日期 截止日期 终止日期 结束时间 结束",
    "leave_type": "leave_type type kind category 请假类型 假期类型 休假类型 假别 类型",
    "half_start": "half_start half_day_start 开始半天",
    "half_end": "half_end half_day_end 结束半天",
}
PARTS = ("people", "leave", "leave_types")
NEEDED = {"people": ("id", "name"), "leave": ("person", "start", "end")}
USUAL_TYPES = {
    **dict.fromkeys("annual vacation holiday pto 年假 年休假".split(), "annual"),
    **dict.fromkeys("sick illness medical 病假".split(), "sick"),
    **dict.fromkeys("personal unpaid other 事假".split(), "personal"),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The content of a mapping file. tables: names in an SQLite file. leave_types: their word, case-folded -> ours."""

    people: Mapping[str, str] = field(default_factory=dict)
    leave: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=lambda: {"people": "people", "leave": "leave"})
    leave_types: Mapping[str, str] = field(default_factory=lambda: USUAL_TYPES)


def read(path: Path | None) -> Columns:
    """Raises ValueError with file and line for a field that there is not, OSError where the file cannot be opened."""
    if path is None:
        return Columns()
    try:
        document = load(path)
    except YamlError as error:
        raise ValueError(str(error)) from None
    parts = {
        "people": dict(_object(document, "people", ("table", *PEOPLE))),
        "leave": dict(_object(document, "leave", ("table", *LEAVE))),
    }
    tables = {part: parts[part].pop("table", part) for part in parts}
    types = _object(document, "leave_types", None)
    for word, ours in types.items():
        if ours not in LEAVE_TYPES:
            line = document.line("leave_types", word)
            raise ValueError(f"{path}:{line}: {word}: expected one of {', '.join(LEAVE_TYPES)}, got {ours!r}")
    known = USUAL_TYPES | {word.casefold(): ours for word, ours in types.items()}
    return Columns(parts["people"], parts["leave"], tables, known)


def found(table: Table, part: str, named: Mapping[str, str]) -> dict[str, str]:
    """Our field -> the table's column, for what it has. part: "people" or "leave".

    Raises TableError for a column that the mapping names and the table has not, or where a needed one is not there.
    """
    columns = ", ".join(table.columns)
    for field_name, column in named.items():
        if column not in table.columns:
            raise TableError(f"{table.name}: no column {column!r} for {field_name}; there are {columns}")
    usual = {name: find(table, names.split()) for name, names in (PEOPLE if part == "people" else LEAVE).items()}
    result = {name: column for name, column in usual.items() if column is not None} | dict(named)
    for name in NEEDED[part]:
        if name not in result:
            raise TableError(f"{table.name}: no column for {name}; name it with --columns (there are {columns})")
    return result


def _object(document: Document, part: str | None, allowed: Sequence[str] | None) -> dict[str, Any]:
    """A part of the document, or all of it. allowed: its names, None for any."""
    value: Any = document.value if part is None else _object(document, None, PARTS).get(part)
    keys = () if part is None else (part,)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{document.path}:{document.line(*keys)}: expected field: column, got {value!r}")
    for name, column in value.items():
        where = f"{document.path}:{document.line(*keys, name)}"
        if allowed is not None and name not in allowed:
            raise ValueError(f"{where}: no field {name!r}; there are {', '.join(allowed)}")
        if part is not None and not isinstance(column, str):
            raise ValueError(f"{where}: {name}: expected text, got {column!r}")
    return value
