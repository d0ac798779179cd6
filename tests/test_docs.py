"""Documents say what the result files say, and name only commands that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scripts import render_docs

DOCUMENTS = [path for path in render_docs.DOCUMENTS if path.is_file()]
COMMAND = re.compile(r"python (?:-m (scripts\.[a-z]\w+)|(\w+\.py))")


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_figures_in_documents_are_those_of_the_result_files(path: Path) -> None:
    assert render_docs.rendered(path) == path.read_text("utf-8"), "run `python -m scripts.render_docs`"


def test_a_changed_figure_is_noticed(tmp_path: Path) -> None:
    text = Path("README.md").read_text("utf-8")
    changed = tmp_path / "README.md"
    changed.write_text(re.sub(r"\*\*\d", "**1234", text, count=1), "utf-8")
    assert changed.read_text("utf-8") != text
    assert render_docs.rendered(changed) == text


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_every_command_and_link_in_a_document_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    for module, file in COMMAND.findall(text):
        assert Path(file or module.replace(".", "/") + ".py").is_file(), module or file
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in link or Path(link).exists() or (path.parent / link).exists(), link


def test_both_readmes_have_the_same_sections_blocks_and_commands() -> None:
    english, chinese = (Path(name).read_text("utf-8") for name in ("README.md", "README.zh-CN.md"))
    for pattern in (r"<!-- results:\S+ -->", COMMAND.pattern, r"^## ", r"^make \w+"):
        assert len(re.findall(pattern, english, re.MULTILINE)) == len(re.findall(pattern, chinese, re.MULTILINE))
    assert [found[0] for found in render_docs.BLOCK.findall(english)] == [
        found[0] for found in render_docs.BLOCK.findall(chinese)
    ]


def test_result_files_say_how_they_were_made() -> None:
    for path in render_docs.RESULTS.glob("*.json"):
        content = json.loads(path.read_text("utf-8"))
        assert content["command"].startswith("python ")
        assert content["machine"]
        assert "python" in content["versions"]
        assert content.get("seeds") or "seed" in content
