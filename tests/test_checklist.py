"""The onboarding checklist: a good tool passes, and for every item there is one that fails it alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from env.checklist import ITEMS, check_folder
from env.contract import ToolContract
from env.domains import DOMAINS, domain
from env.negatives import INJECTIONS, example, injected, refused
from env.types import ErrorCode, ToolError
from scripts import call, check, new_tool

CONTRACT = """\
name: get_order
description: >-
  The order of that number. An empty list means that there is none.
timeout: 3000
idempotent: true
produces: [order_id]
input_schema:
  type: object
  additionalProperties: false
  required: [order_id]
  properties:
    order_id:
      type: string
      x-kind: id
      description: Number of the order, for example "1001".
      minLength: 1
      maxLength: 16
    limit:
      type: integer
      description: At most so many.
      minimum: 1
      maximum: 20
output_schema:
  type: object
  additionalProperties: false
  required: [orders]
  properties:
    orders: {type: array, items: {type: object}}
"""
FUNCTION = '''\
"""Orders."""

from env.types import ErrorCode, ToolError


def get_order(world, order_id, limit=20):
    """The order. Raises ToolError(NOT_FOUND)."""
    if order_id not in world.orders:
        raise ToolError(ErrorCode.NOT_FOUND, f"no order {order_id!r}; search for it first")
    return {"orders": [{"order_id": order_id}][:limit]}
'''

Change = Callable[[str, str], tuple[str, str | None]]


def contract(old: str, new: str) -> Change:
    assert old in CONTRACT, old
    return lambda yaml, python: (yaml.replace(old, new), python)


def function(old: str, new: str) -> Change:
    assert old in FUNCTION, old
    return lambda yaml, python: (yaml, python.replace(old, new))


RAISE = 'raise ToolError(ErrorCode.NOT_FOUND, f"no order {order_id!r}; search for it first")'
FAILING: list[tuple[str, Change]] = [
    ("function", function("def get_order", "def get_orders")),
    ("function", lambda yaml, python: (yaml, None)),
    ("synchronous", function("def get_order", "async def get_order")),
    ("world_first", function("(world, order_id", "(self, order_id")),
    ("docstring", function('    """The order. Raises ToolError(NOT_FOUND)."""\n', "")),
    ("no_branch_on_name", function("if order_id not in world.orders", 'if order_id == "get_order"')),
    ("no_branch_on_name", function("if order_id not in world.orders", "if tool_name == order_id")),
    ("coded_errors", function(RAISE, 'raise ValueError("no such order, search for it first")')),
    ("helpful_errors", function(RAISE, 'raise ToolError(ErrorCode.NOT_FOUND, "no")')),
    (
        "no_silent_except",
        function(
            RAISE, "try:\n            world.find(order_id)\n        except Exception:\n            order_id = '1'"
        ),
    ),
    (
        "no_silent_except",
        function(RAISE, "try:\n            world.find(order_id)\n        except KeyError:\n            pass"),
    ),
    ("no_side_doors", function(RAISE, "print(order_id)")),
    ("no_side_doors", function(RAISE, "order_id = eval(order_id)")),
    ("deterministic", function(RAISE, "limit = random.random()")),
    ("returns_required", function('{"orders": ', '{"order": ')),
    ("description", contract("The order of that number. An empty list means that there is none.", "An order.")),
    ("description", contract("there is none.", "there is none")),
    ("no_placeholder", contract("At most so many.", "TODO")),
    ("no_placeholder", function('"""Orders."""', '"""TODO: say what."""')),
    ("bounded_texts", contract("      minLength: 1\n      maxLength: 16\n", "      minLength: 1\n")),
    ("bounded_numbers", contract("      minimum: 1\n      maximum: 20\n", "      minimum: 1\n")),
    ("patterns_exemplified", contract("      maxLength: 16\n", '      pattern: "^[0-9]+$"\n')),
    ("patterns_exemplified", contract("      maxLength: 16\n", '      pattern: "^[0-9]+$"\n      examples: [abc]\n')),
    ("typed", contract("      type: integer\n", "")),
    ("ids_marked", contract("      x-kind: id\n", "")),
    ("closed_output", contract("  required: [orders]\n", "")),
    (
        "closed_output",
        lambda yaml, python: (yaml[: yaml.rindex("  additional")] + yaml[yaml.rindex("  required") :], python),
    ),
    ("timeout", contract("timeout: 3000\n", "")),
    ("timeout", contract("timeout: 3000\n", "timeout: 90\n")),
    ("idempotent", contract("idempotent: true\n", "")),
    ("compensated", contract("idempotent: true\n", "idempotent: false\n")),
    ("compensated", contract("idempotent: true\n", "idempotent: true\ncompensate: undo_order\n")),
    ("upstreams", contract("timeout: 3000\n", "timeout: 3000\nrate_limit: {calls: 5, per: 60}\n")),
    ("reachable", contract("produces: [order_id]\n", "requires: [limit]\n")),
    ("reachable", contract("produces: [order_id]\n", "produces: [shop]\nrequires: [shop]\n")),
    ("contract", contract("name: get_order\n", "name: get_order\nname: get_order\n")),
]


def written(folder: Path, yaml: str, python: str | None, name: str = "get_order") -> Path:
    (folder / f"{name}.yaml").write_text(yaml, "utf-8")
    if python is not None:
        (folder / f"{name}.py").write_text(python, "utf-8")
    return folder


def test_a_good_tool_passes(tmp_path: Path) -> None:
    contracts, problems = check_folder(written(tmp_path, CONTRACT, FUNCTION))
    assert [each.name for each in contracts] == ["get_order"]
    assert problems == []


@pytest.mark.parametrize(("item", "change"), FAILING)
def test_each_item_is_failed_alone(tmp_path: Path, item: str, change: Change) -> None:
    _, problems = check_folder(written(tmp_path, *change(CONTRACT, FUNCTION)))
    assert {problem.item for problem in problems} == {item}


def test_a_name_of_one_word_and_one_in_capitals_fail(tmp_path: Path) -> None:
    for name in ("order", "getOrder_now"):
        yaml, python = CONTRACT.replace("get_order", name), FUNCTION.replace("get_order", name)
        (tmp_path / name).mkdir()
        _, problems = check_folder(written(tmp_path / name, yaml, python))
        assert {problem.item for problem in problems} == {"name"}


def test_a_contract_that_refuses_nothing_fails(tmp_path: Path) -> None:
    start, end = CONTRACT.index("  required: [order_id]"), CONTRACT.index("output_schema")
    yaml = (CONTRACT[:start] + "  properties: {}\n" + CONTRACT[end:]).replace("produces: [order_id]\n", "")
    python = FUNCTION.replace("(world, order_id, limit=20)", "(world)")
    _, problems = check_folder(written(tmp_path, yaml, python))
    assert [problem.item for problem in problems] == ["negatives"]


def test_every_item_has_a_tool_that_fails_it_and_says_what_why_and_how() -> None:
    assert len(ITEMS) >= 20
    assert {item.id for item in ITEMS} - {item for item, _ in FAILING} == {"name", "negatives"}  # the two above
    for item in ITEMS:
        assert min(len(item.what), len(item.why), len(item.how)) > 10, item.id


@pytest.mark.parametrize("name", DOMAINS)
def test_shipped_contracts_refuse_every_generated_negative(name: str) -> None:
    registry = domain(name).registry()
    for tool in registry.names:
        contract = registry.contract(tool)
        contract.check_arguments(example(contract))
        negatives = list(refused(contract))
        assert len(negatives) >= 3
        for negative in negatives:
            with pytest.raises(ToolError) as caught:
                contract.check_arguments(negative.arguments)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS, negative.name


@pytest.mark.parametrize("name", DOMAINS)
def test_hostile_texts_change_no_world_and_find_nobody(name: str) -> None:
    assert list(check.hostile(name)) == []
    registry = domain(name).registry()
    assert sum(1 for tool in registry.names for _ in injected(registry.contract(tool))) >= len(INJECTIONS)


def test_a_world_that_a_text_changes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from env.domains import weather

    def careless(world: object, city: str, date: str | None = None) -> dict[str, list[object]]:
        vars(world)["seen"] = city
        return {"forecasts": []}

    tool = weather.registry()._tools["get_weather"]
    monkeypatch.setitem(weather.registry()._tools, "get_weather", type(tool)(tool.contract, careless))
    assert [problem.item for problem in check.hostile("weather")] == ["world_changed"]


def test_check_has_three_exit_statuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([]) == 0
    assert "no problems" in capsys.readouterr().out
    assert check.main([str(tmp_path / "nothing")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    folder = written(tmp_path, CONTRACT.replace("timeout: 3000\n", ""), FUNCTION)
    assert check.main([str(folder), "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["tools"] == 1
    assert shown["items"] == len(ITEMS)
    assert [problem["item"] for problem in shown["problems"]] == ["timeout"]
    assert check.main(["--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(ITEMS)


def test_a_new_tool_passes_once_it_is_filled_in(tmp_path: Path) -> None:
    assert new_tool.main(["get_rate", "--argument", "currency", "bank_id", "--out", str(tmp_path)]) == 0
    assert {problem.item for problem in check_folder(tmp_path)[1]} == {"no_placeholder", "coded_errors"}
    yaml, python = (tmp_path / f"get_rate.{end}" for end in ("yaml", "py"))
    yaml.write_text(yaml.read_text("utf-8").replace("TODO: w", "W"), "utf-8")
    text = python.read_text("utf-8").replace("TODO: w", "W")
    head, _, body = text.partition("raise NotImplementedError  # ")
    python.write_text(head + body, "utf-8")
    contracts, problems = check_folder(tmp_path)
    assert problems == []
    assert contracts[0].check_arguments({"currency": "EUR", "bank_id": 7}) == {"currency": "EUR", "bank_id": "7"}
    with pytest.raises(SystemExit):
        new_tool.main(["get_rate", "--out", str(tmp_path)])  # it is there already
    for name in ("rate", "GetRate", "get-rate"):
        with pytest.raises(SystemExit):
            new_tool.main([name, "--out", str(tmp_path)])


def test_call_shows_what_each_stage_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert call.main(["get_weather", "city=Beijing", "--domain", "weather"]) == 0
    shown = capsys.readouterr().out
    assert '"status":"success"' in shown
    assert "attempts    1" in shown
    assert call.main(["plugin_leave_query", "emp_id=1", "page=0"]) == 1
    assert "page: 0 is less than the minimum of 1" in capsys.readouterr().out
    assert call.main(["get_wether", "city=Beijing", "--domain", "weather"]) == 1
    assert "did you mean get_weather?" in capsys.readouterr().out
    spec = ["--domain", "finance", "--spec", '{"seed": 3}']
    assert call.main(["calculate_profit", "quantity=10", "cost_price=1.5", "price=2", *spec]) == 0
    assert '"profit":5.0' in capsys.readouterr().out
    for words in (
        ["get_weather", "city"],
        ["get_weather", "--domain", "no"],
        ["x", "--spec", "{"],
        ["x", "--row", "-1"],
    ):
        with pytest.raises(SystemExit):
            call.main(words)


def test_candidates_are_read_and_never_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    python = f"open({str(canary)!r}, 'w').write('run')\n" + FUNCTION
    check_folder(written(tmp_path, CONTRACT, python))
    assert not canary.exists()
    assert isinstance(ToolContract.load(tmp_path / "get_order.yaml"), ToolContract)
