"""Every reliability figure in a small size, and that the figures can fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from env.contract import ToolContract
from env.domains.hr.world import World
from env.policies import CircuitBreaker
from scripts import bench_reliability as bench

SMALL = 100  # a hundredth of the full size


@pytest.mark.parametrize("id", bench.MEASURES)
def test_each_figure_stands(id: str) -> None:
    figure = bench.MEASURES[id](SMALL)
    assert figure.id == id
    assert figure.tried >= 4
    assert figure.broken == 0, figure.example


def test_a_contract_that_accepts_anything_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToolContract, "check_arguments", lambda self, arguments: dict(arguments))
    figure = bench.contracts(SMALL * 10)
    assert figure.broken > 0
    assert figure.example


def test_a_search_that_pastes_its_argument_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = [{"emp_id": "1", "name": "某", "name_en": "x", "department": "d", "title": "t", "email": "e"}]

    def careless(self: World, name: str, department: str | None, email: str | None) -> list[dict[str, str]]:
        return everyone if "%" in name or "'" in name else []

    monkeypatch.setattr(World, "search", careless)
    assert bench.injection(SMALL).broken > 0


def test_a_breaker_with_an_open_door_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CircuitBreaker, "allows", lambda self: True)
    assert bench.breaker(SMALL).broken > 0


def test_a_log_that_tells_names_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("env.telemetry.redacted", lambda value, *_: value)
    assert bench.personal_data(SMALL).broken > 0


def test_the_command_writes_what_it_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["R15", "R19", "--quick", "--out", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "reliability.json").read_text("utf-8"))
    assert written["mode"] == "quick"
    assert [figure["id"] for figure in written["figures"]] == ["R15", "R19"]
    with pytest.raises(SystemExit):
        bench.main(["R99"])
    assert "no figure R99" in capsys.readouterr().err
