"""Reads a table of records from CSV, JSON or SQLite as text cells, each record with the number that its owner sees.

Row numbers: in CSV those of a spreadsheet, the header being row 1; in JSON the position in the list, from 1; in SQLite
the order of the table, from 1. Cells are text without surrounding space; a missing or null cell is "". CSV is UTF-8 or
else GB 18030, with commas, semicolons or tabs.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATABASES = (".db", ".sqlite", ".sqlite3")


class TableError(ValueError):
    """A file that is no table. The message names it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row. cells: by the name of the column."""

    row: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """What a file holds. name: to show, with the table's where a file has several."""

    name: str
    columns: tuple[str, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something odd, and what was done about it."""

    file: str
    row: int
    column: str
    reason: str
    done: str

    def __str__(self) -> str:
        return f"{self.file}: row {self.row}, {self.column}: {self.reason}; {self.done}"


def read(path: Path, table: str) -> Table:
    """table: its name in an SQLite file. Raises TableError, or FileNotFoundError where there is no file."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    ending = path.suffix.lower()
    if ending in DATABASES:
        return _sqlite(path, table)
    if ending not in (".csv", ".tsv", ".txt", ".json"):
        raise TableError(f"{path}: expected .csv, .tsv, .txt, .json or {', '.join(DATABASES)}")
    text = _text(path)
    return _json(path, text) if ending == ".json" else _csv(path, text)


def has_table(path: Path, table: str) -> bool:
    """Whether an SQLite file has a table or view of that name."""
    return path.suffix.lower() in DATABASES and table in _tables(path)


def _text(path: Path) -> str:
    content = path.read_bytes()
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise TableError(f"{path}: neither UTF-8 nor GB 18030")


def _csv(path: Path, text: str) -> Table:
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    except csv.Error as error:
        raise TableError(f"{path}: not CSV: {error}") from None
    except ValueError:
        raise TableError(f"{path}: no header") from None
    columns = _columns(str(path), header)
    for number, row in enumerate(rows, start=2):
        if len(row) > len(columns):
            raise TableError(f"{path}: row {number} has {len(row)} cells, the header {len(columns)}")
    cells = ((number, dict(zip(columns, map(_cell, row), strict=False))) for number, row in enumerate(rows, start=2))
    return Table(str(path), columns, tuple(Record(number, each) for number, each in cells if any(each.values())))


def _json(path: Path, text: str) -> Table:
    try:
        items = json.loads(text)
    except ValueError as error:
        raise TableError(f"{path}: not JSON: {error}") from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise TableError(f"{path}: expected a list of objects")
    columns = _columns(str(path), list(dict.fromkeys(name for item in items for name in item)))
    records = (
        Record(number, {str(name).strip(): _cell(value) for name, value in item.items()})
        for number, item in enumerate(items, start=1)
    )
    return Table(str(path), columns, tuple(records))


def _sqlite(path: Path, table: str) -> Table:
    if table not in _tables(path):
        raise TableError(f"{path}: no table {table!r}; there are {', '.join(_tables(path)) or 'none'}")
    quoted = table.replace('"', '""')
    with closing(_open(path)) as connection:
        cursor = connection.execute(f'SELECT * FROM "{quoted}"')
        columns = _columns(f"{path}:{table}", [each[0] for each in cursor.description])
        rows = cursor.fetchall()
    records = (
        Record(number, dict(zip(columns, map(_cell, row), strict=True))) for number, row in enumerate(rows, start=1)
    )
    return Table(f"{path}:{table}", columns, tuple(records))


def _tables(path: Path) -> list[str]:
    try:
        with closing(_open(path)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    except sqlite3.DatabaseError as error:
        raise TableError(f"{path}: no SQLite file: {error}") from None
    return [row[0] for row in found]


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def _columns(name: str, header: Sequence[str]) -> tuple[str, ...]:
    columns = tuple(str(each).strip() for each in header)
    if not any(columns):
        raise TableError(f"{name}: no header")
    if twice := sorted({each for each in columns if each and columns.count(each) > 1}):
        raise TableError(f"{name}: column {twice[0]!r} occurs twice")
    return columns


def _cell(value: Any) -> str:
    """As text: 1001.0, which spreadsheets make of 1001, is "1001"."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def find(table: Table, names: Sequence[str]) -> str | None:
    """The first of the table's columns that has one of these names, without regard to case, spaces and underscores."""
    wanted = [_plain(name) for name in names]
    found = {_plain(column): column for column in reversed(table.columns)}
    return next((found[name] for name in wanted if name in found), None)


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())
