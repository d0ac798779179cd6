"""An answer is read by value, in both languages; what it does not claim is not read into it."""

from __future__ import annotations

import time

import pytest

from env.types import AttemptStatus, Step, ToolResult
from rewards.facts import mentioned, normal, read_results, read_text

DAYS = [
    ("张三请假1.5天", [1.5]),
    ("本周请假共2天。", [2]),
    ("He took 2 days off", [2]),
    ("one day of leave", [1]),
    ("请了一天半", [1.5]),
    ("请假半天", [0.5]),
    ("half a day", [0.5]),
    ("a half-day", [0.5]),
    ("two and a half days", [2.5]),
    ("a day and a half", [1.5]),
    ("two days and a half", [2.5]),
    ("两天半", [2.5]),
    ("１．５天", [1.5]),
    ("2 个工作日", [2]),
    ("一个半工作日", [1.5]),
    ("两个半天", [1]),
    ("3 working days", [3]),
    ("a 2-day leave", [2]),
    ("十二天", [12]),
    ("二十天", [20]),
    ("二十五天", [25]),
    ("請假兩天", [2]),
    ("0 天", [0]),
    ("zero days", [0]),
    ("1 or 2 days", [1, 2]),
    ("1-2天", [1, 2]),
    ("一天或两天", [1, 2]),
    ("1、2、3天", [1, 2, 3]),
    ("1天和0.5天，共1.5天", [1, 0.5, 1.5]),
    ("不是2天，是3天", [3]),
    ("not 2 days but 3 days", [3]),
    ("TWO DAYS", [2]),
    ("took a day off", [1]),
    ("6/1-6/2, 1.5 天", [1.5]),
    ("06-01 至 06-02, 1.5天", [1.5]),
    ("June 1-2, 1.5 days", [1.5]),
    ("1-2 June, 1.5 days", [1.5]),
    ("2026-06-01 至 2026-06-02，1.5天", [1.5]),
    # no counts
    ("一天假都没请", []),
    ("not a single day", []),
    ("第二天", []),
    ("今天、明天、每天", []),
    ("2026年6月2日", []),
    ("今天天气好, 一天气", []),
    ("day 3", []),
    ("1234 days", []),
    ("Monday is fine", []),
    ("6月1日至7日", []),
    ("哪一天", []),
]


@pytest.mark.parametrize(("text", "days"), DAYS)
def test_day_counts(text: str, days: list[float]) -> None:
    assert sorted(read_text(text).days) == sorted(days)


EMAILS = [
    ("邮箱是li.si@x.example。", {"li.si@x.example"}),
    ("LI.SI@X.EXAMPLE", {"li.si@x.example"}),
    ("ｌｉ．ｓｉ＠ｘ．ｅｘａｍｐｌｅ", {"li.si@x.example"}),
    ("a@x.example, b@x.example.", {"a@x.example", "b@x.example"}),
    ("<li.si@x.example>", {"li.si@x.example"}),
    ("[li.si@x.example](mailto:li.si@x.example)", {"li.si@x.example"}),
    ("不是 a@x.example", set()),
    ("li.si at x", set()),
    ("@x.example a@", set()),
    ("zero\u200bwidth@x.example", {"zerowidth@x.example"}),
]


@pytest.mark.parametrize(("text", "emails"), EMAILS)
def test_emails(text: str, emails: set[str]) -> None:
    assert read_text(text).emails == emails


IDS = [
    ("工号是1001。", {"1001"}),
    ("The employee ID is 0042.", {"0042"}),
    ("工号：１００１", {"1001"}),
    ("EMP1001", {"1001"}),
    ("1001和1002", {"1001", "1002"}),
    ("从2026-06-01到2026-06-07", set()),
    ("2026/06/01", set()),
    ("2026年6月1日, 2026年", set()),
    ("June 1, 2026; 1 June 2026; June 2026", set()),
    ("zhang1001@x.example", set()),
    ("3.14159 1234567 123", set()),
    ("不是1001", set()),
]


@pytest.mark.parametrize(("text", "ids"), IDS)
def test_ids(text: str, ids: set[str]) -> None:
    assert read_text(text).ids == ids


def test_iso_dates() -> None:
    assert read_text("从2026-06-01到２０２６－０６－０７").dates == {"2026-06-01", "2026-06-07"}


NO_LEAVE = [
    "张三本周没有请假",
    "张三未请假",
    "没请假",
    "他没请过假",
    "无请假记录",
    "张三不在请假",
    "没有任何请假记录",
    "没有查到张三本周的请假记录",
    "请假记录为空",
    "请假天数为 0",
    "請假：無",
    "張三本週沒有請假",
    "没有请年假",
    "一天假都没请",
    "not a single day of leave",
    "No leave was found.",
    "未查询到张三本周的请假记录",
    "Zhang San has no leave this week",
    "There are no leave records.",
    "He is NOT on leave",
    "he isn't on leave today",
    "She did not take any leave",
    "She took no leave",
    "hasn't taken any time off",
    "took no days off",
    "no records of leave",
]
ON_LEAVE = [
    "张三今天请假了",
    "他在休假",
    "张三正在休年假",
    "他已请假",
    "张三今天请假。",
    "他请了一天病假",
    "张三休了年假",
    "有 1 条请假记录",
    "Zhang San is on leave",
    "he is currently on annual leave",
    "She took sick leave",
    "she has approved leave",
    "He's on leave",
]
NEITHER = [
    "无法查询张三有没有请假",
    "我不知道张三是否请假。",
    "I could not find out whether he is on leave.",
    "张三请假了吗？",
    "Is he on leave?",
    "未能查到请假信息",
    "没有权限查看请假记录",
    "您好！我可以帮您查询员工、请假情况和直属主管信息。",
    "我无法为张三请假。",
    "我没有请假制度的资料，请咨询人力资源部。",
    "年假制度请以员工手册为准，我只能查询请假记录。",
    "I have no information on leave",
    "I can look up leave for you.",
    "",
]


@pytest.mark.parametrize("text", NO_LEAVE)
def test_no_leave(text: str) -> None:
    said = read_text(text)
    assert (said.no_leave, said.on_leave) == (True, False)


@pytest.mark.parametrize("text", ON_LEAVE)
def test_on_leave(text: str) -> None:
    said = read_text(text)
    assert (said.no_leave, said.on_leave) == (False, True)


@pytest.mark.parametrize("text", NEITHER)
def test_no_claim_about_leave(text: str) -> None:
    said = read_text(text)
    assert (said.no_leave, said.on_leave) == (False, False)


@pytest.mark.parametrize("text", ["没有请假，但是请假了", "He is on leave. He is not on leave."])
def test_a_contradiction_reads_as_both(text: str) -> None:
    said = read_text(text)
    assert said.no_leave and said.on_leave


NO_MANAGER = [
    "她没有直属主管",
    "王总没有上级",
    "无直属主管",
    "直属主管：无",
    "直属主管为空",
    "沒有直屬主管",
    "不向任何人汇报",
    "He has no manager",
    "There is no direct manager.",
    "She doesn't have a manager",
    "reports to no one",
    "her manager field is null",
    "主管字段为空",
    "No manager is listed",
    "CEO 没有直属主管，因此没有主管邮箱。",
    "does not report to anyone",
]


@pytest.mark.parametrize("text", NO_MANAGER)
def test_no_manager(text: str) -> None:
    said = read_text(text)
    assert (said.no_manager, said.manager) == (True, False)


MANAGER = [
    "张三的主管是王五",
    "直属主管：王五",
    "王五是张三的直属主管",
    "The manager is Wang Wu",
    "he reports to Wang Wu",
    "Wang Wu is his direct manager",
    "Wang Wu is Zhang San's manager",
]


@pytest.mark.parametrize("text", MANAGER)
def test_manager_claims(text: str) -> None:
    said = read_text(text)
    assert (said.no_manager, said.manager) == (False, True)


@pytest.mark.parametrize(
    "text",
    [
        "没有查到主管信息",
        "以下是张三的直属主管信息",
        "Ask your manager: they can approve it.",
        "无法查到主管是谁",
        "张三有没有主管我不清楚",
        "I do not know who the manager is",
        "直属主管邮箱是 li.si@x.example",
        "您好！我可以帮您查询员工、请假情况和直属主管信息。",
        "I can look up an employee's manager or leave.",
        "Zhang San is a Product Manager",
        "张三是产品经理",
        "no information about the manager",
    ],
)
def test_no_claim_about_a_manager(text: str) -> None:
    said = read_text(text)
    assert (said.no_manager, said.manager) == (False, False)


NOT_FOUND = [
    "查无此人",
    "没有找到王小明",
    "未找到该员工",
    "找不到王小明这个人",
    "公司里没有这个人",
    "没有名为王小明的员工",
    "该员工不存在",
    "沒有找到王小明",
    "No employee named Wang Xiaoming",
    "Employee not found.",
    "I could not find Wang Xiaoming",
    "I couldn’t find him",
    "I found no one called Wang Xiaoming",
    "There's nobody by that name.",
    "There is no one named Wang",
    "There is no such employee",
    "does not exist",
]


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    assert read_text(text).not_found


@pytest.mark.parametrize("text", ["I could not find out", "没有找到请假记录", "张三在研发部", "Found Zhang San"])
def test_not_a_not_found(text: str) -> None:
    assert not read_text(text).not_found


@pytest.mark.parametrize(
    ("text", "names", "found"),
    [
        ("主管是李四", {"李四", "王五"}, {"李四"}),
        ("主管是张伟明", {"张伟", "张伟明"}, {"张伟明"}),
        ("manager: LI  SI", {"Li Si"}, {"Li Si"}),
        ("manager: lisi", {"Li Si"}, {"Li Si"}),
        ("li.si@x.example", {"Li Si", "li"}, set()),
        ("delisimo", {"Li Si"}, set()),
        ("不是王五而是李四", {"李四", "王五"}, {"李四"}),
        ("anything", {" ", ""}, set()),
    ],
)
def test_names(text: str, names: set[str], found: set[str]) -> None:
    assert mentioned(normal(text), names) == found


@pytest.mark.parametrize("value", [None, 1, [], {}, True])
def test_what_is_no_text_says_nothing(value: object) -> None:
    assert read_text(value).text == ""


def test_results_show_typed_values_of_successes_only() -> None:
    data = {
        "emp_id": 1001,
        "name": "张三",
        "note": "call 5555 or a@x.example",
        "days": True,
        "records": [{"days": 0.5}, {"days": 10**400}, {"total_days": 1}],
    }
    shown = read_results([_step(ToolResult.success(data)), _step(ToolResult("error", data={"days": 9}))])
    assert shown.ids == {"1001"} and shown.digits == {"1001", "5555"}
    assert shown.emails == {"a@x.example"} and shown.days == {0.5, 1.0}
    assert shown.people == {("1001", "张三")} and shown.tools == {"t"}


def _step(result: ToolResult) -> Step:
    return Step(0, 0, AttemptStatus.OK, "t", {}, {}, result)


@pytest.mark.parametrize(
    "unit", "a|a.|1,|1 |没有|有|是|no |is the |请了|主管|not find |一|a@|@a|?|june |1-|6/1".split("|")
)
def test_reading_is_linear(unit: str) -> None:
    start = time.perf_counter()
    read_text(unit * 20_000)
    assert time.perf_counter() - start < 5  # quadratic patterns take minutes
