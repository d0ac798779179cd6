"""Ids are canonical, and only what a result of an earlier turn showed counts as seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.provenance import (
    Origin,
    Provenance,
    argument_ids,
    call_arguments,
    canonical_id,
    ids_in,
    in_text,
    nodes,
    provenance,
    seen_ids,
)
from env.types import JSON, AttemptStatus, ErrorCode, Step, StopReason, ToolResult, Trajectory

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("emp_id"), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1001, "1001"),
        (1001.0, "1001"),
        ("1001", "1001"),
        (" 1001\n", "1001"),
        ("007", "007"),
        (7, "7"),
        (0, "0"),
        ("E-12", "E-12"),
        (True, None),
        (False, None),
        (None, None),
        ([1001], None),
        ({"emp_id": 1001}, None),
        ("", None),
        ("  ", None),
        (10.5, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (1e300, None),
    ],
)
def test_canonical_id(value: JSON, text: str | None) -> None:
    assert canonical_id(value) == text


@given(JSON_VALUES)
def test_canonical_id_is_total_and_idempotent(value: JSON) -> None:
    text = canonical_id(value)
    assert text is None or canonical_id(text) == text


@given(JSON_VALUES)
def test_walks_are_total(value: JSON) -> None:
    assert ("", value) == next(iter(nodes(value))) or value != value
    assert ids_in(value) <= {canonical_id(item) for key, item in nodes(value) if key == "emp_id"}


def test_deep_nesting_does_not_recurse() -> None:
    deep: JSON = {"emp_id": 1}
    for _ in range(50_000):
        deep = [deep]
    assert ids_in(deep) == {"1"}


def test_only_scalars_under_the_key_are_typed_ids() -> None:
    assert ids_in({"a": [{"emp_id": 1}, {"emp_id": [2]}, {"x": 3}], "text": "emp_id: 4"}) == {"1"}


def test_arguments_as_run_come_before_those_given() -> None:
    assert call_arguments(_step(0, {"emp_id": "2"}, None)) == {"emp_id": "2"}
    assert call_arguments(_step(0, "{", None)) == {}
    assert argument_ids(_step(0, {"emp_id": [1, {"x": "2"}, True, None]}, None)) == {"1", "2"}


def test_seen_means_an_earlier_turn() -> None:
    trajectory = _episode(_step(0, {}, {"emp_id": 1}), _step(1, {}, [{"emp_id": "2"}]))
    assert [seen_ids(trajectory, turn) for turn in range(3)] == [set(), {"1"}, {"1", "2"}]
    assert provenance(trajectory, 1, 1) == Provenance(Origin.RESULT, 0)
    assert provenance(trajectory, "2", 1) == Provenance(Origin.NOT_YET_SEEN, 1)
    assert provenance(trajectory, "42", 0) == Provenance(Origin.QUERY)
    assert provenance(trajectory, "3", 9) == Provenance(Origin.NOWHERE)
    assert provenance(trajectory, None, 9) == Provenance(Origin.NOWHERE)


def test_failed_results_show_nothing() -> None:
    failed = Step(0, 0, AttemptStatus.OK, "t", {}, {}, ToolResult("error", {"emp_id": 1}, ErrorCode.NOT_FOUND))
    assert seen_ids(_episode(failed), 1) == set()


def test_an_echo_is_no_provenance() -> None:
    """A guessed id does not become a seen one because the result repeats it."""
    assert seen_ids(_episode(_step(0, {"emp_id": "9"}, {"emp_id": "9"})), 1) == set()
    assert seen_ids(_episode(_step(0, {"emp_id": "42"}, {"emp_id": "42"})), 1) == set()


def test_a_guess_vouches_for_nothing_that_it_reached() -> None:
    guess = _step(0, {"emp_id": "9"}, {"emp_id": "9", "manager": {"emp_id": "1"}})
    chain = _step(1, {"emp_id": "1"}, {"manager": {"emp_id": "2"}})
    assert seen_ids(_episode(guess, chain), 2) == set()
    allowed = _step(0, {"emp_id": 42}, {"manager": {"emp_id": "1"}})
    assert seen_ids(_episode(allowed, chain), 2) == {"1", "2"}


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ("1001", "工号1001本周", True),
        ("1001", "工号１００１", True),
        ("0042", "id 0042.", True),
        ("42", "id 0042", False),
        ("1001", "21001 10012 E1001", False),
        ("1001", "", False),
    ],
)
def test_in_text(value: str, text: str, found: bool) -> None:
    assert in_text(value, text) is found


def _step(turn: int, arguments: JSON, data: JSON) -> Step:
    ran = arguments if isinstance(arguments, dict) else None
    return Step(turn, 0, AttemptStatus.OK, "t", arguments, ran, ToolResult.success(data))


def _episode(*steps: Step) -> Trajectory:
    return Trajectory("who is 42?", "1", (), steps, None, StopReason.TURN_LIMIT)
