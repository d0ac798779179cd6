"""Reads rows strictly: what is wrong is reported as file:line:column with the reason, and nothing is coerced."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data.schema import Row, RowError, row_from_json


class BadRow(ValueError):
    """The message is `file:line:column: reason`."""

    def __init__(self, path: Path, line: int, column: int, reason: str):
        super().__init__(f"{path}:{line}:{column}: {reason}")
        self.path, self.line, self.column, self.reason = path, line, column, reason


def read_rows(path: Path, skip_bad: bool = False) -> list[Row]:
    """All rows of one JSONL file, or of every *.jsonl below a folder, in name order.

    skip_bad: write what cannot be used to `<file>.rejects` and go on. Raises BadRow otherwise, FileNotFoundError where
    there is no file, ValueError where there is no row or an id occurs twice.
    """
    rows: list[Row] = []
    seen: dict[str, str] = {}
    for file in _files(path):
        rejects = []
        for number, raw in _lines(file):
            try:
                row = parse_row(file, number, _text(file, number, raw))
                if row.task.id in seen:
                    raise BadRow(file, number, 1, f"id {row.task.id!r} was used before, at {seen[row.task.id]}")
            except BadRow as error:
                if not skip_bad:
                    raise
                line = raw.decode("utf-8", "backslashreplace")
                rejects.append(json.dumps({"error": str(error), "line": line}, ensure_ascii=False))
                continue
            seen[row.task.id] = f"{file}:{number}"
            rows.append(row)
        if rejects:
            file.with_name(file.name + ".rejects").write_text("\n".join(rejects) + "\n", encoding="utf-8")
    if not rows:
        raise ValueError(f"{path}: no rows")
    return rows


def parse_row(path: Path, number: int, line: str) -> Row:
    """One line. Raises BadRow."""
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
        row = row_from_json(value)
        row.to_json().encode()  # what was read can be written again
    except json.JSONDecodeError as error:
        raise BadRow(path, number, error.colno, f"not JSON: {error.msg}") from None
    except RowError as error:
        raise BadRow(path, number, _column(line, error.field), str(error)) from None
    except RecursionError:
        raise BadRow(path, number, 1, "nested too deeply") from None
    except UnicodeEncodeError:
        raise BadRow(path, number, line.lower().find("\\ud") + 1, "half of a surrogate pair in a string") from None
    except ValueError as error:
        raise BadRow(path, number, 1, str(error)) from None
    return row


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.jsonl"))
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file or folder; `python -m scripts.build_data --help` makes one")
    return [path]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        if raw.strip():
            yield number, raw


def _text(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise BadRow(path, number, column, "not UTF-8") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return result


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:24]} is too large")
    return number


def _column(line: str, field: str) -> int:
    """Where the last name of a dotted field starts in the line, from 1."""
    found = line.find(f'"{field.rpartition(".")[2]}"') if field else -1
    return found + 1 if found >= 0 else 1
