"""The three steps of debugging a tool, on one stored episode: was it called, with which input, did the output match?

    python -m scripts.trace runs/eval/tiny hr-eval-0-000012      # an evaluation's folder and a row
    python -m scripts.trace runs/tiny_grpo hr-train-0-000345     # a training run's traces: every rollout of that row
    python -m scripts.trace runs/eval/tiny 3                     # the 4th episode of the file

Inputs and outputs are checked again, by the contracts as they are now. Exit status 0 where every call keeps to them, 1
where one does not or nothing was called, 2 where there is no such episode.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from env.contract import ToolContract
from env.domains import domain, known
from env.types import JSON, Step, ToolError, Trajectory

WIDTH = 110  # of a value on its line


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
    sound = [told(payload, contracts) for payload in found]
    return 0 if all(sound) else 1


def chosen(run: Path, episode: str) -> Iterator[dict[str, Any]]:
    """Payloads of the episodes asked for. Raises FileNotFoundError, ValueError for lines that are no episode."""
    files = [run] if run.is_file() else [*run.glob("records.jsonl"), *sorted(run.glob("traces/*.jsonl"))]
    if not files:
        raise FileNotFoundError(f"{run}: no records.jsonl and no traces")
    place = 0
    for file in files:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            try:
                record = json.loads(line)
                row, payload = record["row"], record["payload"]
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{file}:{number}: no episode") from None
            if episode == row or episode == str(place):
                yield payload
            place += 1


def all_contracts() -> dict[str, ToolContract]:
    """Every declared tool of the known domains."""
    registries = [domain(name).registry() for name in known()]
    return {name: registry.contract(name) for registry in registries for name in registry.names}


def told(payload: dict[str, Any], contracts: dict[str, ToolContract]) -> bool:
    """Print one episode; whether every call keeps to its contract."""
    trajectory = Trajectory.from_payload(payload)
    print(f"question   {trajectory.query}")
    if not trajectory.steps:
        print("called     nothing: the model wrote no call, so no tool is to blame")
        print(f"answer     {trajectory.answer}   ({trajectory.stop})")
        return False
    sound = [call_told(step, contracts.get(step.name)) for step in trajectory.steps]
    print(f"answer     {trajectory.answer}   ({trajectory.stop})")
    return all(sound)


def call_told(step: Step, contract: ToolContract | None) -> bool:
    """Print one call in the three steps; whether it keeps to its contract."""
    print(f"turn {step.turn}, call {step.call}")
    if contract is None:
        print(f"  1 called   {step.name or 'something that could not be read'}: no declared tool")
        print(f"             {_cut(step.result.message)}")
        return False
    print(f"  1 called   {step.name}")
    wrong_input = problem(contract.check_arguments, step.given if isinstance(step.given, dict) else {})
    print(f"  2 input    {_cut(json.dumps(step.given, ensure_ascii=False))}")
    print(f"             {wrong_input or 'keeps to the contract'}")
    if not step.result.ok:
        print(f"  3 output   none: {_cut(step.result.message)}")
        return False
    wrong_output = problem(contract.check_output, step.result.data)
    print(f"  3 output   {_cut(json.dumps(step.result.data, ensure_ascii=False))}")
    print(f"             {wrong_output or 'keeps to the contract'}")
    return not wrong_input and not wrong_output


def problem(check: Any, value: JSON) -> str:
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
