"""The default reward as one file of standard-library Python, for platforms that take a reward as a file.

The file holds the sources of env.types, env.provenance and rewards.*, and entry points in the shapes that platforms ask
for. All of them score the same payload with the same rubric:

- `cal_reward(payload)`: AgentArts. payload: JSON text, with a member "rubric" where none was built in.
- `grade(sample, item)`: OpenAI's and Azure's Python grader (below 256 kB, no network, 2 minutes; Azure's guide to
  reinforcement fine-tuning states these limits). item["payload"]: the payload, as text or object.
- `lambda_handler(event, context)`: Amazon Bedrock (user guide, "Setting up reward functions for open-weight models"): a
  list of {"id", "messages", "reference_answer"} -> a list of {"id", "aggregate_reward_score"}. reference_answer: the
  payload.
- `compute_score(data_source, solution_str, ground_truth, extra_info)`: verl's custom reward. extra_info["payload"], or
  ground_truth.

Only the scores were compared, by calling these functions; nothing has been run on the platforms themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from env.types import JSON
from rewards.rubric import Rubric

MODULES = (
    "env.types",
    "env.provenance",
    "rewards.score",
    "rewards.rubric",
    "rewards.facts",
    "rewards.grounded",
)
LARGEST = 256_000  # bytes, of OpenAI's grader

HEAD = '''\
"""A reward for tool-calling trajectories in one file: stepcredit's `grounded`. Standard library only. Apache-2.0.

Made by `python -m scripts.export_reward`; change the project, not this file.
"""

import json
import sys
import types

SOURCES = {sources}
RUBRIC = json.loads({rubric!r})


def _module(name):
    """Make one of the modules, and the empty package that it is in."""
    package = name.rpartition(".")[0]
    if package not in sys.modules:
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = []
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(SOURCES[name], name, "exec"), module.__dict__)
    setattr(sys.modules[package], name.rpartition(".")[2], module)
    return module


for _name in SOURCES:
    _module(_name)


def score(payload):
    """The Score of a payload (text or object), None where its failure is not the model's."""
    body = json.loads(payload) if isinstance(payload, str) else payload
    trajectory = sys.modules["env.types"].Trajectory.from_payload(body)
    rules = RUBRIC if RUBRIC is not None else body["rubric"]
    rubric = sys.modules["rewards.rubric"].Rubric.from_dict(rules, trajectory.reference_output)
    return sys.modules["rewards.grounded"].score(trajectory, rubric)


def cal_reward(payload):
    """AgentArts."""
    found = score(payload)
    return None if found is None else found.total


def grade(sample, item):
    """OpenAI and Azure: a number in any case, 0.0 where there is no reward."""
    return cal_reward(item["payload"]) or 0.0


def lambda_handler(event, context):
    """Amazon Bedrock."""
    totals = [cal_reward(each["reference_answer"]) or 0.0 for each in event]
    return [{{"id": each["id"], "aggregate_reward_score": total}} for each, total in zip(event, totals)]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """verl."""
    return cal_reward((extra_info or {{}}).get("payload", ground_truth)) or 0.0
'''


def bundled(rubric: Mapping[str, JSON] | None = None) -> str:
    """The file's text. rubric: built in, in place of the one that each payload carries.

    Raises RubricError for a rubric that cannot be used, ValueError where the file would be too large.
    """
    if rubric is not None:
        Rubric.from_dict(dict(rubric), "1001")
    root = Path(__file__).parent.parent
    sources = {name: (root / f"{name.replace('.', '/')}.py").read_text("utf-8") for name in MODULES}
    body = "{\n" + "".join(f"    {name!r}: {text!r},\n" for name, text in sources.items()) + "}"
    text = HEAD.format(sources=body, rubric=json.dumps(rubric))
    if len(text.encode()) >= LARGEST:
        raise ValueError(f"the file would have {len(text.encode())} bytes, {LARGEST} are allowed")
    return text
