"""The tree, the wheel and the commands are what the README says. Import directions: `lint-imports`, in `make lint`."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("env", "rewards", "data", "training", "evaluation", "scripts")
LIGHT = ("env", "rewards", "data")
HEAVY = {"torch", "transformers", "trl", "datasets", "accelerate", "peft"}
TOP = (
    *(f"{room}/__init__.py" for room in ROOMS),
    *("train.py", "eval.py", "pyproject.toml", "constraints.txt", "Makefile", ".ci/run", ".github/workflows/ci.yml"),
    *("README.md", "README.zh-CN.md", "LICENSE", "CHANGELOG.md", ".gitignore"),
    *("models/tiny", "configs", "configs/accelerate", "tests", "docs", "docs/results"),
)
MODULES = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.py"), *(p for room in (*ROOMS, "tests") for p in ROOT.glob(f"{room}/**/*.py"))]
)
# This machine's folders and package hosts. Brackets keep the pattern from matching this file.
ELSEWHERE = re.compile(
    r"/work[/]|/root[/]|[.]{2}/shared|/opt/(wheels|pypi)"
    r"|pypi[.]org|pythonhosted[.]org|registry[.]npmjs|deb[.]debian[.]org|download[.]pytorch[.]org"
)


def python(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Another interpreter, as sys.modules of this one is full already. Timeouts guard against a hang only."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=timeout
    )


def repository() -> list[str]:
    """The files git has or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def imported(path: Path) -> set[str]:
    """First names of the modules that `path` imports, inside its functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def commands() -> list[Any]:
    """Every script that can be run; slow are those that may load torch before they have read their arguments."""
    found = []
    for path in MODULES:
        if path.parent in (Path("."), Path("scripts")) and "__main__" in (ROOT / path).read_text(encoding="utf-8"):
            heavy = imported(path) & (HEAVY | {"training", "evaluation", "train", "eval"})
            module = ".".join(path.with_suffix("").parts)
            found.append(pytest.param(module, marks=[pytest.mark.slow] if heavy else [], id=module))
    return found


@pytest.mark.parametrize("name", TOP)
def test_the_tree_has(name: str) -> None:
    assert (ROOT / name).exists()


def test_ci_runs_what_a_developer_runs() -> None:
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert ".ci/run" in (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8")))


def test_rooms_downstairs_load_nothing_heavy() -> None:
    """Every module of them, not the packages alone."""
    names = [".".join(p.with_suffix("").parts).removesuffix(".__init__") for p in MODULES if p.parts[0] in LIGHT]
    code = f"import sys, {', '.join(names)}\nprint(*sorted({HEAVY} & set(sys.modules)))"
    run = python("-c", code, timeout=10)
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stderr


def test_wheel_carries_every_file_of_the_rooms(tmp_path: Path) -> None:
    run = python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    rooms = {file for file in repository() if file.split("/")[0] in (*ROOMS, "train.py", "eval.py")}
    assert rooms <= names, sorted(rooms - names)

    assert {f"{room}/py.typed" for room in ROOMS} | {"train.py", "eval.py", "data/scenarios/hr.yaml"} <= names
    for tool in ("employee_search", "leave_query", "org_query"):
        assert f"env/domains/hr/tools/{tool}.yaml" in names
    assert any(re.fullmatch(r"evaluation/.+\.(html|j2)", name) for name in names), "no report template"
    assert not [name for name in names if name.split("/")[0] in ("tests", "docs", "models")]


@pytest.mark.parametrize("module", commands())
def test_command_explains_itself(module: str) -> None:
    run = python("-m", module, "--help", timeout=300)
    assert run.returncode == 0, run.stderr
    assert "usage" in run.stdout.lower()


def test_nothing_names_the_machine_it_was_written_on() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in repository()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8", errors="ignore").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert not found, "\n".join(found)
