"""Read one YAML document as JSON values, each key with its line; refuse whatever YAML would guess at.

PyYAML's safe loader turns `0123` into 83, `2026-06-01` into a date object and yes, no, on, off into booleans, and lets
the last of two equal keys win. Here a plain scalar is a boolean, a null or a number only where JSON spells it so, and
text otherwise; keys are text always. Duplicate keys, tags, aliases and merge keys are errors with a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from env.types import JSON

Keys = tuple[str | int, ...]

# Both give the same events; libyaml's, which PyYAML's wheels have, about eight times faster.
LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
MAX_DEPTH = 64
MAX_CHARACTERS = 1_000_000

_CONSTANTS: Mapping[str, JSON] = {"true": True, "false": False, "null": None, "": None}
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_DIGITS = 32  # far below the length at which int() refuses to convert
_TEXT_TAG = "tag:yaml.org,2002:str"


class YamlError(Exception):
    """The document cannot be read. Text: `path:line: what was wrong`; lines count from 1."""

    def __init__(self, path: Path, line: int, detail: str):
        super().__init__(f"{path}:{line}: {detail}")
        self.path = path
        self.line = line
        self.detail = detail


@dataclass(frozen=True)
class Document:
    """The value of a document and where each of its keys and list items stands."""

    path: Path
    value: JSON
    lines: Mapping[Keys, int]

    def line(self, *keys: str | int) -> int:
        """Line of the key path, or of the nearest one above it that is in the document."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)


def load(path: Path | str) -> Document:
    """The one document in the file. Raises YamlError for its content, OSError where it cannot be opened."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError(path, 1, f"not UTF-8 text, at byte {error.start}") from error
    return parse(text, path)


def parse(text: str, path: Path) -> Document:
    """The one document in `text`; `path` is only named in errors. Raises YamlError."""
    if len(text) > MAX_CHARACTERS:
        raise YamlError(path, 1, f"{len(text)} characters, at most {MAX_CHARACTERS} are read")
    try:
        return _Reader(path, yaml.parse(text, Loader=LOADER)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(path, mark.line + 1 if mark else 1, f"not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        # Its position counts characters or bytes, depending on the loader.
        line = text.count("\n", 0, text.find(chr(error.character))) + 1
        raise YamlError(path, line, f"not YAML: {error.reason}, U+{error.character:04X}") from error


class _Reader:
    """Builds values from PyYAML's events: below its composer, which would have dropped duplicate keys."""

    def __init__(self, path: Path, events: Iterator[yaml.Event]):
        self.path = path
        self.events = events
        self.lines: dict[Keys, int] = {}

    def document(self) -> Document:
        next(self.events)  # the start of the stream
        if isinstance(next(self.events), yaml.StreamEndEvent):
            raise YamlError(self.path, 1, "the document is empty")
        value = self.value(next(self.events), ())
        next(self.events)  # the end of the document
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self.error(after, "a second document; one is read")
        return Document(self.path, value, self.lines)

    def value(self, event: yaml.Event, keys: Keys) -> JSON:
        self.lines.setdefault(keys, _line(event))
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event)
        if not isinstance(event, yaml.CollectionStartEvent):
            raise self.error(event, "an alias; write the value out")
        if event.tag is not None:
            raise self.error(event, f"the tag {event.tag}; no tags are read")
        if len(keys) >= MAX_DEPTH:
            raise self.error(event, f"nested more than {MAX_DEPTH} levels deep")
        return self.mapping(keys) if isinstance(event, yaml.MappingStartEvent) else self.sequence(keys)

    def mapping(self, keys: Keys) -> dict[str, JSON]:
        found: dict[str, JSON] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.key(event)
            here = (*keys, key)
            if key in found:
                raise self.error(event, f"duplicate key {key!r}, first on line {self.lines[here]}")
            self.lines[here] = _line(event)
            found[key] = self.value(next(self.events), here)
        return found

    def sequence(self, keys: Keys) -> list[JSON]:
        found: list[JSON] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            found.append(self.value(event, (*keys, len(found))))
        return found

    def key(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag not in (None, _TEXT_TAG):
            raise self.error(event, "a key that is not plain text")
        if event.implicit[0] and event.value == "<<":
            raise self.error(event, "the merge key <<; write the keys out")
        return str(event.value)

    def scalar(self, event: yaml.ScalarEvent) -> JSON:
        text = str(event.value)
        if event.tag not in (None, _TEXT_TAG):
            raise self.error(event, f"the tag {event.tag}; no tags are read")
        if event.tag or not event.implicit[0]:  # tagged as text, quoted, or a block
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        return self.number(event, text) if _FLOAT.fullmatch(text) else text

    def number(self, event: yaml.Event, text: str) -> int | float:
        value = int(text) if len(text) <= _MAX_DIGITS and _INT.fullmatch(text) else float(text)
        if len(text) > _MAX_DIGITS or abs(value) == float("inf"):
            raise self.error(event, f"the number {text[:_MAX_DIGITS]} is too large; quote it if it is text")
        return value

    def error(self, event: yaml.Event, detail: str) -> YamlError:
        return YamlError(self.path, _line(event), detail)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
