"""rewards.seed_compat: AgentArts' own scores, to the last bit, on the table of known cases."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.types import Trajectory
from rewards.payload import cal_reward
from rewards.seed_compat import score_payload

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "seed_compat.jsonl").read_text(encoding="utf-8").splitlines()
]
FULL = 0.9999999999999999  # 0.3 + 0.35 + 0.35
TWO = 0.6499999999999999  # 0.3 + 0.35


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool", "name": name, "status": "success", "input": {}, "output": None} | more


def search(given: Any = None) -> dict[str, Any]:
    return step("mcp_employee_search", input={"name": "张三"} if given is None else given)


def leave(emp_id: Any = "1001", **more: Any) -> dict[str, Any]:
    return step("plugin_leave_query", input={"emp_id": emp_id} | more)


def org(emp_id: Any = "1001") -> dict[str, Any]:
    return step("plugin_org_query", input={"emp_id": emp_id})


def payload(steps: Any, **fields: Any) -> str:
    whole = {"input": "q", "reference_output": "1001", "trajectory": {"meta": {}, "root": {}, "steps": steps}} | fields
    return json.dumps(whole, ensure_ascii=False)


S, L, G = search(), leave(), org()  # G is O in the names below
IDS = [str(n) for n in range(950, 1050)]
WITHOUT_ID = [S, step("plugin_leave_query"), step("plugin_org_query")]
TABLE: list[tuple[str, str, float]] = [
    ("S L O", payload([S, L, G]), FULL),
    ("S only, empty arguments", payload([search({})]), 0.3),
    ("S only, wrong person", payload([search({"name": "李四"})]), 0.3),
    ("S L", payload([S, L]), TWO),
    ("S O", payload([S, G]), TWO),
    ("L O, no search", payload([L, G]), 0.7),
    ("O L, no search", payload([G, L]), 0.7),
    ("L O S", payload([L, G, S]), 0.3),
    ("L S O", payload([L, S, G]), 0.3),
    ("S O L", payload([S, G, L]), 0.3),
    ("O S L", payload([G, S, L]), 0.3),
    ("a hundred ids", payload([S, *map(leave, IDS), *map(org, IDS)]), FULL),
    ("each tool 200 times", payload([S] * 200 + [L] * 200 + [G] * 200), FULL),
    ("L with the wrong week", payload([S, leave(start="1999-01-01"), G]), FULL),
    ("an invented answer", payload([S, L, G, {"type": "llm", "name": "assistant", "output": "boss@x.example"}]), FULL),
    ("delete_employee in between", payload([S, L, step("delete_employee", input={"emp_id": "1001"}), G]), FULL),
    ("reference empty and no emp_id", payload(WITHOUT_ID, reference_output=""), FULL),
    ("reference missing and no emp_id", json.dumps({"trajectory": {"steps": WITHOUT_ID}}), FULL),
    ("reference null and emp_id null", payload([S, leave(None), org(None)], reference_output=None), FULL),
    ("reference null and no emp_id", payload(WITHOUT_ID, reference_output=None), 0.3),
    ("emp_id as int", payload([S, leave(1001), org(1001)]), FULL),
    ("emp_id as float", payload([S, leave(1001.0), org(1001.0)]), 0.3),
    ("emp_id with a space", payload([S, leave(" 1001"), org(" 1001")]), 0.3),
    ("7 for 007", payload([S, leave(7), org(7)], reference_output="007"), 0.3),
    ("all three in one parallel message", payload([step_ | {"turn": 0} for step_ in (S, L, G)]), FULL),
    ("a bare string among the steps", payload([S, L, G, "x"]), 0.0),
    ("L's input is the text of a list", payload([S, step("plugin_leave_query", input="[1]"), G]), 0.0),
    ("steps null", payload(None), 0.0),
    ("L's input is a list", payload([S, step("plugin_leave_query", input=[1]), G]), TWO),
    ("status ok", payload([{**step_, "status": "ok"} for step_ in (S, L, G)]), 0.0),
    ("status SUCCESS", payload([{**step_, "status": "SUCCESS"} for step_ in (S, L, G)]), 0.0),
    ("L's input is broken text", payload([S, step("plugin_leave_query", input='{"emp_id":'), G]), TWO),
    ("L's input is deeply nested text", payload([S, step("plugin_leave_query", input="[" * 100_000), G]), TWO),
    ("True is the text of true", payload([S, leave("True"), org(True)], reference_output=True), FULL),
    ("a list's text is Python's", payload([S, leave([1]), org("[1]")], reference_output=[1]), FULL),
    ("a name that cannot be hashed", payload([S, S | {"name": []}, L, G]), FULL),
    ("steps an empty object", payload({}), 0.0),
    ("trajectory null", payload([], trajectory=None), 0.0),
]


@pytest.mark.parametrize(("text", "score"), [pytest.param(text, score, id=name) for name, text, score in TABLE])
def test_every_row_of_the_table_scores_to_the_last_bit(text: str, score: float) -> None:
    assert score_payload(text).hex() == score.hex()


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_every_recorded_case_scores_to_the_last_bit(case: dict[str, Any]) -> None:
    assert score_payload(case["payload"]).hex() == case["score"].hex()


def test_the_weights_are_added_as_floats_in_the_order_of_the_ladder() -> None:
    assert (FULL, TWO) == (0.3 + 0.35 + 0.35, 0.3 + 0.35)
    assert score_payload(payload([G, L])) == 0.0 + 0.35 + 0.35


def test_skipping_the_search_pays_more_than_honest_work_cut_short() -> None:
    assert score_payload(payload([L, G])) > score_payload(payload([S, L]))


TEXTS = [case["payload"] for case in CASES] + [text for _, text, _ in TABLE]


@pytest.mark.parametrize("text", TEXTS)
def test_a_payload_that_went_through_a_trajectory_scores_the_same(text: str) -> None:
    assert score_payload(json.dumps(Trajectory.from_payload(text).to_payload())) == score_payload(text)


@pytest.mark.parametrize("text", TEXTS)
def test_cal_reward_gives_this_score(text: str) -> None:
    assert cal_reward(text) == score_payload(text)


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "5", '"x"', "[" * 100_000, '{"a":' + "9" * 5000 + "}", "\ufeff{}"]
)
def test_an_unreadable_payload_scores_nothing(text: str) -> None:
    assert score_payload(text) == 0.0


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["1001", "tool", "success", "", "[1]", "{"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["emp_id", "steps", "type", "status", "name", "input"]), inner, max_size=4)
    ),
    max_leaves=8,
)
ODD_STEPS = st.lists(
    st.builds(
        lambda base, key, value: base | {key: value},
        st.sampled_from([S, L, G]),
        st.sampled_from(["type", "name", "status", "input", "other"]),
        ANY,
    )
    | st.sampled_from([S, L, G]),
    max_size=6,
)
SCORES = {0.0, 0.3, 0.35, 0.35 + 0.35, TWO, FULL}


@given(ANY)
def test_any_value_has_one_of_the_scores(value: Any) -> None:
    assert score_payload(json.dumps(value)) in SCORES


@given(ODD_STEPS, ANY)
def test_any_steps_have_one_of_the_scores_and_keep_it_through_a_trajectory(steps: Any, reference: Any) -> None:
    text = payload(steps, reference_output=reference)
    assert score_payload(text) in SCORES
    assert score_payload(json.dumps(Trajectory.from_payload(text).to_payload())) == score_payload(text)
