"""Be the model: answer a question with the tools, and see what each step earns.

    python -m scripts.play                          # any question; --seed S asks the same one again
    python -m scripts.play --kind 1 --language en
    python -m scripts.play --domain weather

A line is a call in the short form (a tool's name, then key=value ...), a call as a model writes it
(<tool_call>{"name": ..., "arguments": {...}}</tool_call>), or else your answer, which ends the game. Tab completes
names. :hint shows what the oracle would do next, :quit leaves.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from data.build import SCENARIOS, rows, shares_of
from data.oracle import call_text
from data.schema import LANGUAGES, Row
from env.episode import Episode
from env.types import StopReason, Trajectory, Turn
from evaluation import players
from evaluation.scoring import record_of, rubric_of
from rewards import grounded
from scripts.call import parsed

COMMANDS = (":hint", ":quit")
TRIES = 200  # questions that are drawn to find one in the language asked for


class Left(Exception):
    """The player had enough."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 played or left, 2 nothing to play, 130 interrupted."""
    options = _parser().parse_args(argv)
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    try:
        row = chosen(options.domain, options.kind, options.language, seed)
    except ValueError as error:
        print(f"play: {error}", file=sys.stderr)
        return 2
    episode = row.open(max_turns=players.MAX_TURNS)
    complete_with(episode.tools)
    print(opening(row, episode, seed))
    try:
        while not episode.done:
            take(row, episode, input("> ").strip())
    except (EOFError, Left):
        print("\nleft before an answer")
        return 0
    except KeyboardInterrupt:
        print("\nleft before an answer")
        return 130
    print(verdict(row, episode.trajectory()))
    return 0


def chosen(domain: str, kind: int | None, language: str | None, seed: int) -> Row:
    """A question of the evaluation split. Raises ValueError where there is none like that."""
    shares = None if kind is None else shares_of(domain, [kind])
    for row in rows("eval", TRIES, seed, shares, domain):
        if language in (None, row.task.language):
            return row
    raise ValueError(f"no question in {language} among {TRIES}")


def opening(row: Row, episode: Episode, seed: int) -> str:
    """What a model is told: the system prompt, the tools, the question."""
    tools = [_signature(tool["function"]) for tool in episode.tools]
    return "\n".join(
        [
            f"kind {row.task.kind}, seed {seed}; at most {episode.max_turns} turns; {', '.join(COMMANDS)}",
            "",
            *(f"  {line}" for line in episode.messages[0]["content"].splitlines()),
            "",
            *tools,
            "",
            f"QUESTION  {row.input}",
        ]
    )


def take(row: Row, episode: Episode, line: str) -> None:
    """One line of the player: a command, a call or the answer. What cannot be a call costs nothing. Raises Left."""
    if line == ":quit":
        raise Left
    if line == ":hint":
        print(hint(row, episode))
    elif line.startswith(":"):
        print(f"there are {', '.join(COMMANDS)}")
    elif line:
        try:
            text = turn_text(line, episode.tools)
        except ValueError as error:
            print(f"not played: {error}")
            return
        players.take_turn(episode, text)
        for message in episode.messages[::-1]:
            if message["role"] != "tool":
                break
            print(f"  {message['content']}")


def turn_text(line: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """The short form as a model would write it; any other line as it is. Raises ValueError."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    name = line.split()[0]
    if name not in schemas:
        return line
    return call_text(name, parsed(shlex.split(line)[1:], schemas[name]))


def hint(row: Row, episode: Episode) -> str:
    """What the oracle writes for the first step that has not been earned, or as its answer."""
    # The oracle's turns are the rubric's steps in their order, and then the answer.
    turns = players.play(row, players.Oracle()).turns
    earned = _earned(row, episode)
    steps = [step["id"] for step in row.task.rubric["steps"]]
    return turns[next((place for place, step in enumerate(steps) if step not in earned), len(steps))].text


def _earned(row: Row, episode: Episode) -> Mapping[str, int]:
    """Steps of the rubric that are done, as if the episode had stopped here."""
    said = [message["content"] for message in episode.messages if message["role"] == "assistant"]
    turns = tuple(Turn(index, text) for index, text in enumerate(said))
    stopped = Trajectory(
        episode.query, episode.reference_output, turns, episode.steps, None, StopReason.TURN_LIMIT, episode.meta
    )
    score = grounded.score(stopped, rubric_of(row, episode.reference_output))
    return {} if score is None else score.earned


def verdict(row: Row, trajectory: Trajectory) -> str:
    """The score, what each turn earned, and why it was no success."""
    record = record_of(row, trajectory)
    if record.score is None:
        return "no score: the infrastructure failed"
    score = record.score
    by_turn: dict[int, list[str]] = {}
    for step, turn in score["earned"].items():
        by_turn.setdefault(turn, []).append(step)
    outcome = "clean success" if score["clean"] else "success" if score["success"] else "no success"
    lines = [f"\nSCORE  {score['total']:.3f}  {outcome}  ({trajectory.stop})"]
    for turn, increment in zip(trajectory.turns, score["increments"], strict=False):
        what = by_turn.get(turn.index) or (["nothing"] if trajectory.steps_of(turn.index) else ["answer"])
        lines.append(f"  turn {turn.index + 1}  {increment:+.3f}  {', '.join(what)}")
    for violation in score["violations"]:
        lines.append(f"  {violation['breach']}: {violation['value']} (turn {violation['turn'] + 1})")
    if record.failure is not None:
        lines.append(f"  {record.failure.kind}: {record.failure.value}")
        lines += ["the oracle:", *(f"  {turn.text}" for turn in players.play(row, players.Oracle()).turns)]
    return "\n".join(lines)


def completions(line: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the last word of a line may become: a tool or a command, then the tool's arguments not yet given."""
    words = line.split(" ")
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    if len(words) == 1:
        options = [f"{name} " for name in schemas] + list(COMMANDS)
    else:
        given = {word.partition("=")[0] for word in words[1:-1]}
        options = [f"{name}=" for name in schemas.get(words[0], {}).get("properties", {}) if name not in given]
    return [option for option in options if option.startswith(words[-1])]


def complete_with(tools: Sequence[Mapping[str, Any]]) -> None:
    """Tab completion, where a person types and the system has readline."""
    if not sys.stdin.isatty():
        return
    try:
        import readline
    except ImportError:  # not on every system
        return

    def complete(_: str, state: int) -> str | None:
        found = completions(readline.get_line_buffer()[: readline.get_endidx()], tools)
        return found[state] if state < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")


def _signature(function: Mapping[str, Any]) -> str:
    """name(required, optional?) and what it is for."""
    parameters = function["parameters"]
    required = parameters.get("required", ())
    names = [name if name in required else f"{name}?" for name in parameters.get("properties", {})]
    return f"{function['name']}({', '.join(names)})\n    {' '.join(function['description'].split())}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", type=int, metavar="K", help="number of the kind of question (default: any)")
    parser.add_argument("--language", choices=LANGUAGES, help="default: any")
    parser.add_argument("--seed", type=int, metavar="S", help="of the question (default: another one every time)")
    parser.add_argument("--domain", default="hr", choices=list(SCENARIOS), help="default: hr")
    return parser


if __name__ == "__main__":
    sys.exit(main())
