"""docs/evaluation.md: its commands are ones that the programs take, and its numbers those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import eval as evaluate
from evaluation import endpoint
from scripts import play

TEXT = (Path(__file__).resolve().parents[1] / "docs/evaluation.md").read_text("utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.S) for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_taken(line: str) -> None:
    python, *words = shlex.split(line)
    assert python == "python"
    if words[:2] == ["-m", "scripts.play"]:
        play._parser().parse_args(words[2:])
    else:
        assert words[0] == "eval.py"
        asked = evaluate._parser().parse_args(words[1:])
        assert asked.compare or evaluate._check_player(asked) is None


def test_the_numbers_of_the_table_are_those_of_the_code() -> None:
    assert f"at most {endpoint.ATTEMPTS} times" in TEXT and f"double from {endpoint.FIRST_WAIT_S} s" in TEXT
    assert f"failed {endpoint.MOST_FAILURES} requests in a row" in TEXT
    assert f"silent for {endpoint.TIMEOUT.read:g} s" in TEXT
    again, hopeless = ", ".join(map(str, sorted(endpoint.RETRIED))), sorted(endpoint.HOPELESS)
    assert f"{again} or 5xx" in TEXT
    assert f"{', '.join(map(str, hopeless[:-1]))} or {hopeless[-1]}" in TEXT
