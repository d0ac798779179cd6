"""docs/own_data.md: its commands run as they stand, and what its tables name exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from data.columns import LEAVE, PEOPLE

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/own_data.md").read_text("utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", TEXT, re.S)


def test_every_command_runs_as_it_stands(tmp_path: Path) -> None:
    """From a folder of its own, as rows refer to their directory by a path from there."""
    for name in ("env", "rewards", "data", "evaluation", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    script = "set -e\npython() { " + sys.executable + ' "$@"; }\n' + "\n".join(BLOCKS)
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("oracle 1.0 and silent 0.0 on each, no leak") == 2
    assert "6 problems" in done.stdout, "the first company has them, the second is strict"
    assert len((tmp_path / "runs/own/problems.csv").read_text("utf-8").splitlines()) == 7
    manifest = json.loads((tmp_path / "runs/own/manifest.json").read_text("utf-8"))
    assert manifest["left_out"]["eval"]["7"] in done.stdout.replace("│\n│       │      │ ", "")


def test_the_tables_name_every_field() -> None:
    named = set(re.findall(r"`(\w+)`", "".join(line for line in TEXT.splitlines() if line.startswith("| `"))))
    assert named == {*PEOPLE, *LEAVE}


def test_the_mapping_that_the_page_shows_is_the_one_that_it_uses() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)[0]
    used = (ROOT / "data/examples/directory/columns.yaml").read_text("utf-8")
    assert shown == "".join(line for line in used.splitlines(keepends=True) if not line.startswith("#"))
