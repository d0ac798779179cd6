"""What an evaluation keeps: one JSON line per episode, written as soon as the episode ends.

A file that was cut off by a kill is read up to its last whole line, so that the evaluation can go on from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from evaluation.taxonomy import Failure, FailureClass

Key = tuple[str, int]  # row id and sample


class RecordError(ValueError):
    """A line that is no record. The message says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """One finished episode and what was made of it.

    depth: how many tool calls the task needs. sample: which episode of the same row, from 0. payload:
    `Trajectory.to_payload()`. score: `Score.to_dict()`, None where the infrastructure failed. sampled_tokens: what
    the model wrote, 0 for scripted players.
    """

    row: str
    kind: int
    language: str
    split: str
    depth: int
    template: str
    sample: int
    payload: Mapping[str, Any]
    score: Mapping[str, Any] | None
    sampled_tokens: int
    failure: Failure | None

    @property
    def key(self) -> Key:
        return (self.row, self.sample)

    @property
    def query(self) -> str:
        return str(self.payload["input"])

    @property
    def success(self) -> bool:
        return self.score is not None and bool(self.score["success"])

    def to_json(self) -> str:
        """One line. A lone surrogate, which a model can write, becomes the JSON escape that gives it back."""
        text = json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace").decode("utf-8")

    @classmethod
    def from_json(cls, line: str) -> Record:
        """Raises RecordError."""
        try:
            value = json.loads(line)
        except ValueError as error:
            raise RecordError(f"not JSON: {error}") from None
        return cls(**{**_checked(value), "failure": _failure(value["failure"])})


class Writer:
    """Appends records to a file and flushes each; as a context manager it closes the file.

    A torn last line is cut off first, or the next record would be glued to it.
    """

    def __init__(self, path: Path):
        whole = _whole_lines(path.read_bytes()) if path.exists() else b""
        self._file = path.open("r+b" if path.exists() else "wb")
        self._file.truncate(len(whole))
        self._file.seek(0, 2)

    def append(self, record: Record) -> None:
        self._file.write((record.to_json() + "\n").encode())
        self._file.flush()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_records(path: Path) -> list[Record]:
    """Every whole line; a torn last one is left out.

    Raises FileNotFoundError, or RecordError with `file:line: reason` for any other line that is no record.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file or folder")
    records = []
    for number, line in enumerate(_whole_lines(path.read_bytes()).splitlines(), start=1):
        try:
            records.append(Record.from_json(line.decode("utf-8")))
        except (RecordError, UnicodeDecodeError) as error:
            raise RecordError(f"{path}:{number}: {error}") from None
    return records


def rewrite(path: Path, records: Iterable[Record]) -> None:
    """Replace a file of records by these, or leave it as it is."""
    partial = path.with_suffix(".partial")
    partial.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
    partial.replace(path)


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _checked(value: Any) -> dict[str, Any]:
    names = {field.name for field in fields(Record)}
    if not isinstance(value, dict) or value.keys() != names:
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise RecordError(f"expected an object with {', '.join(sorted(names))}; got {found}")
    for name in ("kind", "depth", "sample", "sampled_tokens"):
        if type(value[name]) is not int:
            raise RecordError(f"{name}: expected an integer, got {value[name]!r}")
    for name in ("row", "language", "split", "template"):
        if not isinstance(value[name], str):
            raise RecordError(f"{name}: expected text, got {value[name]!r}")
    if not isinstance(value["payload"], dict) or not isinstance(value["payload"].get("input"), str):
        raise RecordError("payload: expected an object with the text input")
    if not isinstance(value["score"], dict | None):
        raise RecordError(f"score: expected an object or null, got {value['score']!r}")
    return value


def _failure(value: Any) -> Failure | None:
    if value is None:
        return None
    try:
        return Failure(**{**value, "kind": FailureClass(value["kind"])})
    except (TypeError, KeyError, ValueError) as error:
        raise RecordError(f"failure: {error}") from None
