"""docs/tools.md: its commands run as they stand, and what its tables name exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from env.checklist import ITEMS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/tools.md").read_text("utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", TEXT, re.S)


def copied(folder: Path) -> Path:
    """What the commands need, where they may write."""
    for name in ("env", "rewards", "data", "evaluation", "training", "scripts", "docs", "eval.py"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.mark.slow
def test_every_command_runs_as_it_stands(tmp_path: Path) -> None:
    script = "set -e\npython() { " + sys.executable + ' "$@"; }\n' + "\n".join(BLOCKS)
    done = subprocess.run(
        ["bash", "-c", script], cwd=copied(tmp_path), env=dict(os.environ), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "3 tools, 26 items each: no problems" in done.stdout
    assert "1 tools as imported" in done.stdout
    assert "oracle 1.0 and silent 0.0 on each, no leak" in done.stdout
    assert '"status":"success"' in done.stdout
    assert "name: is required" in done.stdout
    assert "did you mean find_room?" in done.stdout
    assert (tmp_path / "runs/rooms_oracle/report.html").is_file()


def test_the_page_counts_the_items_rightly() -> None:
    assert f"{len(ITEMS)} items" in TEXT


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?:tests|docs|configs)/[\w/]+\.\w+", TEXT))))
def test_files_that_the_page_names_exist(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m (scripts\.\w+)", TEXT))))
def test_commands_that_the_page_names_exist(module: str) -> None:
    assert (ROOT / (module.replace(".", "/") + ".py")).is_file()
