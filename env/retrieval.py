"""Finds the tools that a question may need, where a catalogue is too large for a prompt.

BM25 over names, descriptions and the arguments' descriptions: words of Latin script, characters and pairs of them in
Chinese. It does not translate; a catalogue that is described in English is found by English questions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from env.contract import ToolContract
from env.graph import ToolGraph

_TOKEN = re.compile(r"[a-z]+|[0-9]+|[\u3400-\u9fff]+")


def nearest(contracts: Sequence[ToolContract], question: str, count: int) -> tuple[str, ...]:
    """The names of the `count` best matches, best first, and then of the tools that give what those require.

    Ties, and a question that matches nothing, go by the alphabet.
    """
    ordered = sorted(contracts, key=lambda contract: contract.name)
    names = [contract.name for contract in ordered]
    index = _index(tuple(map(_text, ordered)))
    words = [token for token in _tokens(question) if token in index.vocab_dict]  # the index refuses others
    scores = index.get_scores(words) if words else [0.0] * len(names)
    best = sorted(range(len(names)), key=lambda at: (-scores[at], names[at]))[:count]
    return _with_producers(ordered, [names[at] for at in best])


def _with_producers(contracts: Sequence[ToolContract], chosen: list[str]) -> tuple[str, ...]:
    graph = ToolGraph(contracts)
    for name in chosen:  # grows on the way
        for value in graph.contracts[name].requires:
            chosen += [each for each in graph.producers(value) if each not in chosen]
    return tuple(chosen)


@lru_cache(maxsize=8)
def _index(texts: tuple[str, ...]) -> Any:
    from bm25s import BM25  # type: ignore[import-untyped]

    index = BM25()
    index.index([_tokens(text) for text in texts], show_progress=False)
    return index


def _text(contract: ToolContract) -> str:
    properties = contract.input_schema.get("properties", {})
    told = [f"{name} {schema.get('description', '')}" for name, schema in properties.items()]
    return " ".join([contract.name, contract.name, contract.description, *told])  # the name counts twice


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    for found in _TOKEN.findall(text.lower().replace("_", " ")):
        tokens += [found] if found.isascii() else [*found, *(found[at : at + 2] for at in range(len(found) - 1))]
    return tokens
