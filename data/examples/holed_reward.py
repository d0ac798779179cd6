"""A reward as one might write it in an afternoon, with holes that an audit finds: pays right calls, forgives the rest.

It looks at the answer, which many do not, but never asks where an id came from or which week was asked about.
"""

import json


def cal_reward(payload: str) -> float:
    data = json.loads(payload)
    trajectory = data["trajectory"]
    calls = [step for step in trajectory["steps"] if step["type"] == "tool" and step["status"] == "success"]
    right = [step["name"] for step in calls if str(step["input"].get("emp_id")) == data["reference_output"]]
    score = 0.2 * any(step["name"] == "mcp_employee_search" for step in calls)
    score += 0.2 * ("plugin_leave_query" in right) + 0.2 * ("plugin_org_query" in right)
    answer = trajectory["meta"].get("answer") or ""
    emails = [step["output"]["manager"]["email"] for step in calls if step["name"] == "plugin_org_query"]
    return score + 0.4 * any(email in answer for email in emails)
