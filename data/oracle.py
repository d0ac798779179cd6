"""The perfect player: follows a row's rubric, copies what the tools return, and answers in the row's language.

It reads ids, days and addresses from the results of its own episode, so that a transcript of it is what a policy could
have written. The reference only chooses among several ids that the results show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from data.schema import Task
from env.episode import PERIODS, Episode, period_line
from env.planning import NAME as PLAN_TOOL
from env.provenance import nodes

PLACE = re.compile(r"\{(\w+)\.([\w.]+)\}")  # {step.member} in a reply, or {step.member.of_it}

ANSWERS = {
    "zh": {
        "leave_and_email": "{who}{when}{leave}，直属主管邮箱是{email}。",
        "manager_email": "{who}的直属主管邮箱是{email}。",
        "manager_name": "{who}的直属主管是{manager}。",
        "manager_by_id": "{who}的直属主管是{manager}。",
        "no_manager": "{who}没有直属主管。",
        "leave_today": "{who}今天{on_leave}。",
        "employee_id": "{who}的工号是{emp_id}。",
        "leave_by_id": "{who}{when}{leave}。",
        "leave_period": "{who}{when}{leave}。",
        "not_found": "没有找到{who}。",
    },
    "en": {
        "leave_and_email": "{who} {leave} {when}; the direct manager's email is {email}.",
        "manager_email": "The email of {who}'s direct manager is {email}.",
        "manager_name": "The direct manager of {who} is {manager}.",
        "manager_by_id": "The direct manager of {who} is {manager}.",
        "no_manager": "{who} has no direct manager.",
        "leave_today": "{who} {on_leave} today.",
        "employee_id": "The employee id of {who} is {emp_id}.",
        "leave_by_id": "{who} {leave} {when}.",
        "leave_period": "{who} {leave} {when}.",
        "not_found": "Could not find {who}.",
    },
}


GIVE_UP = {"zh": "无法查到。", "en": "I could not look that up."}
MOST_FAILURES = 2  # in an episode


def oracle_turn(task: Task, episode: Episode) -> str:
    """The text of the next turn: one call while the rubric has steps left, then the answer.

    A call that failed is tried once more; after that, or where a result lacks what the next call needs, it says so.
    Where `run_plan` is offered, several calls of different tools are one plan.
    """
    if episode.plans and (text := _plan_turn(task, episode)):
        return text
    shown = [step for step in episode.steps if step.result.ok]
    if len(shown) == len(task.rubric["steps"]):
        return answer_text(task, [step.result.data for step in shown])
    if len(episode.steps) >= len(shown) + MOST_FAILURES:
        return GIVE_UP[task.language]
    step = task.rubric["steps"][len(shown)]
    try:
        return thought(task, step["tool"]) + call_text(step["tool"], step_arguments(task, step, episode))
    except LookupError:
        return GIVE_UP[task.language]


def _plan_turn(task: Task, episode: Episode) -> str:
    """All calls as one plan, then the answer; "" where a plan cannot do it, or has failed."""
    steps = task.rubric["steps"]
    tools = [step["tool"] for step in steps]
    if len(steps) < 2 or len(set(tools)) < len(tools):
        return ""
    if not episode.steps:
        inputs: dict[str, Any] = {}
        for step in steps:
            given = {name: rule for name, rule in step["arguments"].items() if rule.get("from") != "result"}
            inputs |= step_arguments(task, {"arguments": given}, episode)
        return call_text(PLAN_TOOL, {"goals": tools, "inputs": inputs})
    shown = {step.name: step.result.data for step in episode.steps if step.result.ok}
    return answer_text(task, [shown[tool] for tool in tools]) if shown.keys() >= set(tools) else ""


def thought(task: Task, tool: str) -> str:
    """What is written before a call: the period asked for, as the calendar has it, where the tool takes dates.

    To find the line of the calendar, and to copy its two dates into a call, are two steps. A small model that writes
    the first one down does both.
    """
    return period_line(task.language, *task.period) if task.period and tool == "plugin_leave_query" else ""


def call_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as the models are taught to write it (the ChatML / Qwen form, compact)."""
    body = json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False, separators=(",", ":"))
    return f"<tool_call>{body}</tool_call>"


def answer_text(task: Task, results: list[Any]) -> str:
    """The answer that `results` (the data of each step, in the rubric's order) support."""
    if task.reply is not None:
        shown = {step["id"]: result for step, result in zip(task.rubric["steps"], results, strict=True)}
        return PLACE.sub(lambda match: _text(_at(shown[match[1]], match[2], task.mention)), task.reply)
    by_tool = {step["tool"]: result for step, result in zip(task.rubric["steps"], results, strict=True)}
    matches = by_tool.get("mcp_employee_search", {}).get("matches")
    leave = by_tool.get("plugin_leave_query", {})
    org = by_tool.get("plugin_org_query", {})
    which = task.ask
    if matches == []:
        which = "not_found"
    elif org and org["manager"] is None:
        which = "no_manager"
    manager = org.get("manager") or {}
    return say(
        task,
        which,
        days=leave.get("total_days", 0),
        email=manager.get("email"),
        manager=manager.get("name" if task.language == "zh" else "name_en"),
        emp_id=matches[0]["emp_id"] if matches else None,
    )


def say(task: Task, which: str, days: float = 0, **values: str | None) -> str:
    """The sentence `which` of ANSWERS in the task's language. days: of leave. values: email, manager, emp_id."""
    return ANSWERS[task.language][which].format(
        who=task.mention,
        when=PERIODS[task.language][task.period[0]] if task.period else "",
        leave=_leave(task.language, days),
        on_leave=_on_leave(task.language, days),
        **values,
    )


def step_arguments(task: Task, step: Mapping[str, Any], episode: Episode) -> dict[str, Any]:
    """The arguments that a rubric step asks for; a derived id is read from the episode's first result."""
    arguments = {}
    for name, rule in step["arguments"].items():
        if "one_of" in rule:
            arguments[name] = task.mention if task.mention in rule["one_of"] else rule["one_of"][0]
        elif rule.get("from") == "result":
            arguments[name] = _derived(task, episode, rule.get("key", name), rule["equals"])
        elif "equals" in rule:
            arguments[name] = task.mention if rule["equals"] == "$reference" else rule["equals"]
    return arguments


def _derived(task: Task, episode: Episode, key: str, wanted: Any) -> Any:
    """What an earlier result holds under `key`: the one that is wanted where it stands there, else the latest.

    wanted: as the rubric says it. It only chooses among what the results show.
    """
    results = [step.result.data for step in reversed(episode.steps) if step.result.ok]
    shown = [value for data in results for name, value in nodes(data) if name == key]
    right = wanted
    if isinstance(wanted, str) and wanted.startswith("$reference"):
        role = wanted.partition(".")[2]
        right = json.loads(episode.reference_output)[role] if role else episode.reference_output
    if right in shown:
        return right
    for data in results:
        value = _member(data, key, task.mention)
        if value is not None:
            return value
    raise LookupError(f"{task.id}: no result holds {key!r}")


def _at(data: Any, path: str, mention: str | None) -> Any:
    """The value at a path of members; of a single member, see `_member`."""
    first, *rest = path.split(".")
    value = data.get(first) if rest and isinstance(data, dict) else _member(data, first, mention)
    for name in rest:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _member(data: Any, key: str, mention: str | None) -> Any:
    """The value under `key` of the object that names the mention; of the first with that key where none does."""
    objects = [value for _, value in nodes(data) if isinstance(value, dict) and key in value][::-1]
    named = [each for each in objects if mention in each.values()]
    return (named or objects or [{}])[0].get(key)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _leave(language: str, days: float) -> str:
    if language == "zh":
        return f"请假{days}天" if days else "没有请假"
    if not days:
        return "took no leave"
    return f"took {days} day{'' if days == 1 else 's'} of leave"


def _on_leave(language: str, days: float) -> str:
    if language == "zh":
        return "请假了" if days else "没有请假"
    return "is on leave" if days else "is not on leave"
