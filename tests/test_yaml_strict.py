"""What the strict reader leaves alone, what it refuses, and that it says where; with both of PyYAML's parsers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from env import yaml_strict
from env.yaml_strict import YamlError, parse

HERE = Path("toy.yaml")


@pytest.fixture(autouse=True, params=["pure", "libyaml"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "libyaml" and not yaml.__with_libyaml__:
        pytest.skip("PyYAML without libyaml")
    monkeypatch.setattr(yaml_strict, "LOADER", yaml.CSafeLoader if request.param == "libyaml" else yaml.SafeLoader)


STAYS_TEXT = [
    *("0123", "007", "0x1F", "0o17", "0b11", "1_000", "12:30:45", "+5", ".5", "5.", "1e", "--1", "~", "="),
    *("2026-06-01", "2026-06-01T09:00:00Z", "2023-13-01", ".inf", "-.inf", ".nan", "NaN", "Infinity"),
    *("yes", "no", "on", "off", "y", "n", "Yes", "NO", "True", "FALSE", "Null", "NULL", "张三"),
]


@pytest.mark.parametrize("written", STAYS_TEXT)
def test_only_json_spellings_are_more_than_text(written: str) -> None:
    assert parse(f"a: {written}\nb: [{written}]", HERE).value == {"a": written, "b": [written]}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("-0.5E-1", -0.05),
        ('"12"', "12"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ("|-\n  0123\n  true", "0123\ntrue"),
    ],
)
def test_json_spellings(written: str, value: object) -> None:
    read = parse(f"a: {written}", HERE).value["a"]
    assert (read, type(read)) == (value, type(value))


def test_keys_are_text() -> None:
    assert parse("on: 1\n2026: 1\ntrue: 1\nnull: 1\n0123: 1", HERE).value == dict.fromkeys(
        ["on", "2026", "true", "null", "0123"], 1
    )


ALIAS_BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 30)
)
REFUSED = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a', first on line 1"),
    "duplicate nested key": ("a:\n  b: 1\n  c: 2\n  b: 3\n", 4, "duplicate key 'b', first on line 2"),
    "duplicate key, once quoted": ("a: 1\n'a': 2\n", 2, "duplicate key 'a'"),
    "duplicate key in a flow": ("x: {a: 1,\n a: 2}\n", 2, "duplicate key 'a'"),
    "python object": ("a: 1\nb: !!python/object/apply:os.system ['true']\n", 2, "python/object/apply"),
    "python name": ("a: !!python/name:os.system\n", 1, "python/name"),
    "timestamp tag": ("a: !!timestamp 2026-06-01\n", 1, "timestamp"),
    "set tag": ("a:\n  b: !!set {x}\n", 2, "set"),
    "own tag": ("a: !mine x\n", 1, "!mine"),
    "tagged key": ("!!int 1: x\n", 1, "a key that is not plain text"),
    "key that is a list": ("a: 1\n? [x]\n: 2\n", 2, "a key that is not plain text"),
    "alias": ("a: &x 1\nb:\n- *x\n", 3, "an alias"),
    "alias of itself": ("a: &x\n  b: *x\n", 2, "an alias"),
    "alias bomb": (ALIAS_BOMB, 2, "an alias"),
    "merge key": ("a: 1\nb:\n  <<: {c: 1}\n", 3, "merge key"),
    "two documents": ("a: 1\n---\nb: 1\n", 2, "a second document"),
    "empty": ("# nothing\n", 1, "empty"),
    "unclosed": ("a: 1\nb: 'x\n", 3, "not YAML"),
    "control character": ("a: 1\nb: \x07\n", 2, "U+0007"),
    "too deep": ("[" * 900, 1, "levels deep"),
    "far too deep": ("\n- " + "- " * 50_000, 2, ""),
    "too long": ("a" * (yaml_strict.MAX_CHARACTERS + 1), 1, "characters"),
    "number beyond float": ("a: 1e999\n", 1, "too large"),
    "number with many digits": (f"a: {'9' * 5000}\n", 1, "too large"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_line(case: str) -> None:
    text, line, says = REFUSED[case]
    started = time.monotonic()
    with pytest.raises(YamlError) as caught:
        parse(text, HERE)
    assert str(caught.value).startswith(f"toy.yaml:{line}: ")
    assert says in caught.value.detail
    assert time.monotonic() - started < 5


def test_lines_of_key_paths() -> None:
    document = parse("# top\na: 1\nb:\n  c:\n    - x\n    - d: 1\n      e: 2\n", HERE)
    lines = [document.line(*keys) for keys in ((), ("a",), ("b", "c"), ("b", "c", 0), ("b", "c", 1, "e"))]
    assert lines == [2, 2, 4, 5, 7]
    assert document.line("b", "c", 1, "missing", "deeper") == 6
    assert document.line("missing") == 2


def test_files_are_utf8(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes("\ufeffname: 张三\n".encode())
    assert yaml_strict.load(file).value == {"name": "张三"}
    file.write_bytes("name: 张三\n".encode("gb18030"))
    with pytest.raises(YamlError, match=r"a\.yaml:1: not UTF-8"):
        yaml_strict.load(file)
    with pytest.raises(FileNotFoundError):
        yaml_strict.load(tmp_path / "b.yaml")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text("ab 0:-#张\"\\'\n", max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab0", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(value=JSON_VALUES)
def test_json_text_is_read_as_json(value: object) -> None:
    assert parse(json.dumps(value), HERE).value == value
    assert parse(json.dumps(value, ensure_ascii=False), HERE).value == value
