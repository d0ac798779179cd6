"""An episode as a chat of `messages` and `tools`, the form that TRL and OpenAI-compatible trainers read.

Arguments are objects, and only those that were written: nothing is filled up with null. Whoever loads the file has to
keep it so: `datasets.load_dataset("json", ...)` does, `Dataset.from_list` gives every call the keys of all others. What
a model thought (`<think>`) is left out. Texts stand as they are: control tokens inside a result (a name may well hold
`<|im_end|>`) are for the trainer to defuse, as training.chat does, since only it knows its tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from data.oracle import oracle_turn
from data.schema import Row
from env.episode import Episode
from env.parsing import Attempt, parse
from env.types import AttemptStatus, Step, StopReason, Trajectory, Turn


class NoConversation(ValueError):
    """An episode that cannot be written as a chat. The message says why."""


def of_oracle(row: Row, ids: str) -> dict[str, Any]:
    """What the perfect player does. ids: seed of the employee ids."""
    episode = row.open(ids)
    opening = list(episode.messages)
    while not episode.done:
        episode.play(oracle_turn(row.task, episode))
    return _chat(opening, episode.tools, episode.trajectory())


def of_rollout(row: Row, trajectory: Trajectory) -> dict[str, Any]:
    """What was recorded of an episode of this row. Raises NoConversation."""
    episode: Episode = row.open()
    return _chat(episode.messages, episode.tools, trajectory)


def _chat(
    opening: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], trajectory: Trajectory
) -> dict[str, Any]:
    if trajectory.stop is not StopReason.ANSWERED or trajectory.answer is None:
        raise NoConversation(f"it has no answer ({trajectory.stop})")
    messages = [dict(message) for message in opening]
    for turn in trajectory.turns[:-1]:
        messages += _turn(turn, trajectory.steps_of(turn.index))
    messages.append({"role": "assistant", "content": trajectory.answer})
    return {"messages": messages, "tools": list(tools)}


def _turn(turn: Turn, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The message with the calls of a turn, and one with the result of each."""
    parsed = parse(turn.text)
    if not steps or len(parsed.attempts) != len(steps):
        raise NoConversation(f"turn {turn.index} and its calls do not fit together")
    if any(attempt.status is not AttemptStatus.OK for attempt in parsed.attempts):
        raise NoConversation(f"turn {turn.index} has a call that could not be read")
    names = [f"call_{turn.index}_{step.call}" for step in steps]
    calls = [_call(name, attempt) for name, attempt in zip(names, parsed.attempts, strict=True)]
    results = [
        {"role": "tool", "tool_call_id": name, "name": step.name, "content": step.result.text()}
        for name, step in zip(names, steps, strict=True)
    ]
    return [{"role": "assistant", "content": parsed.prose, "tool_calls": calls}, *results]


def _call(name: str, attempt: Attempt) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": attempt.name, "arguments": attempt.arguments}}
