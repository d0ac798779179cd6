"""Commands that read a finished run say in one line what is no run."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from scripts import explain, rescore


@pytest.mark.parametrize("command", [explain, rescore])
@pytest.mark.parametrize("content", [None, "{}", "[]", "[1]", "nonsense"])
def test_what_is_no_run_is_said_in_one_line(
    command: ModuleType, content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "traces").mkdir()
        (tmp_path / "traces" / "rank0.jsonl").write_text(content, "utf-8")
    assert command.main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path) in said
