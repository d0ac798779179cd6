"""The three steps of debugging a tool, on one stored episode: was it called, with which input, did the output match?

    python -m scripts.trace runs/eval/tiny hr-eval-0-000012      # an evaluation's folder and a row
    python -m scripts.trace runs/tiny_grpo hr-train-0-000345     # a training run's traces: every rollout of that row
    python -m scripts.trace runs/eval/tiny 3                     # the 4th episode of the file

Inputs and outputs are checked again, by the contracts as they are now; which tools had to be called is asked of the
row's rubric, where it can be found. The verdict is about the last call of each tool: a repaired one holds. Exit status
0 where all three hold, 1 where one does not, 2 where there is no such episode.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from env.contract import ToolContract
from env.domains import domain, known
from env.types import JSON, AttemptStatus, Fault, Step, ToolError, Trajectory
from evaluation.run import RECORDS, SUMMARY, Refused, select_rows

WIDTH = 110  # of a value on its line
BLAME = {  # whose an error is, and which step shows it
    Fault.POLICY: "2 input: the model's arguments were refused",
    Fault.TOOL: "3 output: the tool broke its contract",
    Fault.UPSTREAM: "3 output: what is behind the tool failed",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """One episode of a file. needed: the tools that its task needs, None where that is not known."""

    payload: Mapping[str, JSON]
    needed: tuple[str, ...] | None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of an evaluation or a training run, or a file of its episodes")
    parser.add_argument("episode", help="id of a row, or the place of an episode in the file, from 0")
    options = parser.parse_args(argv)
    try:
        found = list(chosen(options.run, options.episode))
    except (OSError, ValueError) as error:
        print(f"trace: error: {error}", file=sys.stderr)
        return 2
    if not found:
        print(f"trace: error: no episode {options.episode} in {options.run}", file=sys.stderr)
        return 2
    contracts = all_contracts()
    sound = [told(stored, contracts) for stored in found]
    return 0 if all(sound) else 1


def chosen(run: Path, episode: str) -> Iterator[Stored]:
    """The episodes asked for. Raises FileNotFoundError, ValueError for lines that are no episode."""
    files = [run] if run.is_file() else [*run.glob(RECORDS), *sorted(run.glob("traces/*.jsonl"))]
    if not files:
        raise FileNotFoundError(f"{run}: no {RECORDS} and no traces")
    place = 0
    for file in files:
        # A killed run leaves a torn last line; str.splitlines would also break at characters that a model may write.
        for number, line in enumerate(file.read_text("utf-8").split("\n")[:-1], start=1):
            try:
                record = json.loads(line)
                row, payload = record["row"], dict(record["payload"])
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{file}:{number}: no episode") from None
            if episode in (row, str(place)):
                yield Stored(payload, needed(record, file))
            place += 1


def needed(record: Mapping[str, JSON], file: Path) -> tuple[str, ...] | None:
    """A trace has its rubric with it; for a record it is looked up in the rows that the evaluation was made on."""
    rubric = record.get("rubric") or rubrics(file.parent / SUMMARY).get((record["row"], record["payload"].get("input")))
    return tuple(step["tool"] for step in rubric["steps"]) if rubric else None


@lru_cache(maxsize=1)
def rubrics(summary: Path) -> Mapping[tuple[str, str], Mapping[str, JSON]]:
    """By row id and question; none where the rows are not there any more."""
    try:
        settings = json.loads(summary.read_text("utf-8"))["settings"]
        source = None if settings["rows"] == "generated" else Path(settings["rows"])
        return {(row.task.id, row.input): row.task.rubric for row in select_rows(source, settings["count"])}
    except (OSError, ValueError, KeyError, TypeError, Refused):
        return {}


def all_contracts() -> dict[str, ToolContract]:
    """Every declared tool of the known domains."""
    registries = [domain(name).registry() for name in known()]
    return {name: registry.contract(name) for registry in registries for name in registry.names}


def told(stored: Stored, contracts: Mapping[str, ToolContract]) -> bool:
    """Print one episode and the verdict; whether that is that all three steps hold."""
    trajectory = Trajectory.from_payload(stored.payload)
    print(f"question   {trajectory.query}")
    if not trajectory.steps:
        print("called     nothing: the model wrote no call, so no tool is to blame")
    for step in trajectory.steps:
        call_told(step, contracts.get(step.name))
    print(f"answer     {trajectory.answer}   ({trajectory.stop})")
    verdict = first_fault(trajectory, stored.needed, contracts)
    print(f"verdict    {verdict or 'called, input and output hold: if the answer is wrong, the model misread them'}")
    return not verdict


def first_fault(trajectory: Trajectory, required: Sequence[str] | None, contracts: Mapping[str, ToolContract]) -> str:
    """The first step that does not hold, with the tool it is about; "" where all do. A repaired call holds."""
    called = [step.name for step in trajectory.steps if step.attempt is AttemptStatus.OK and step.name in contracts]
    missing = [name for name in required or () if name not in called]
    if missing or (required is None and not called):
        which = ", ".join(dict.fromkeys(missing)) or "any declared tool"
        return f"1 called: the model never called {which}; look at the prompt and the catalogue, not at the tool"
    for name in dict.fromkeys(called):
        last = [step for step in trajectory.steps if step.name == name][-1]
        if why := _fault_of(last, contracts[name]):
            return f"{why} ({name}, turn {last.turn})"
    return ""


def _fault_of(step: Step, contract: ToolContract) -> str:
    if step.attempt is not AttemptStatus.OK or problem(contract.check_arguments, given(step)):
        return BLAME[Fault.POLICY]
    if step.result.code is not None:
        return BLAME[step.result.code.fault]
    return BLAME[Fault.TOOL] if problem(contract.check_output, step.result.data) else ""


def call_told(step: Step, contract: ToolContract | None) -> None:
    """Print one call in the three steps."""
    print(f"turn {step.turn}, call {step.call}")
    if step.attempt is not AttemptStatus.OK or contract is None:
        why = "no declared tool" if step.attempt is AttemptStatus.OK else f"could not be read ({step.attempt})"
        print(f"  1 called   {step.name or 'nothing that has a name'}: {why}")
        print(f"             {_cut(step.result.message)}")
        return
    print(f"  1 called   {step.name}")
    print(f"  2 input    {_cut(json.dumps(step.given, ensure_ascii=False))}")
    print(f"             {problem(contract.check_arguments, given(step)) or 'keeps to the contract'}")
    if not step.result.ok:
        print(f"  3 output   none: {_cut(step.result.message)}")
        return
    print(f"  3 output   {_cut(json.dumps(step.result.data, ensure_ascii=False))}")
    print(f"             {problem(contract.check_output, step.result.data) or 'keeps to the contract'}")


def given(step: Step) -> dict[str, JSON]:
    """The arguments; none where a payload of others has something else there."""
    return step.given if isinstance(step.given, dict) else {}


def problem(check: Callable[[Any], object], value: JSON) -> str:
    """What a contract's check says of a value, "" where it is in order."""
    try:
        check(value)
    except ToolError as error:
        return f"{error.code}: {error.detail}"
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


if __name__ == "__main__":
    sys.exit(main())
