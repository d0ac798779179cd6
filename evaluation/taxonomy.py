"""Why an episode failed: one class and its evidence, from the trajectory, the rubric and the score alone.

The first four classes are those of AgentArts' plugin/MCP example, the others are what honestly fits none of them. The
first rule that holds names the class:

1. A call that the task rules out: `wrong_tool`.
2. Otherwise the first required step, in the rubric's order, that was not earned. Later mistakes follow from it.
   a. Its tool was never called. Of what came after the last useful call: one that could not be read is
      `malformed_call`; one of a tool that the task does not need, or that does not exist, is `wrong_tool`. Between
      the two: to go on with an id that nothing had shown, instead of looking it up, is `skipped_tool`. Failing these
      the end decides: `truncated`; an answer that states facts is `skipped_tool`, one that states none `gave_up`.
   b. Its tool was called: unreadably every time is `malformed_call`. Else the last readable call counts: another id
      than the right one is `id_not_passed`; if every fact of the answer is true nonetheless, or the call is right but
      came before what it depends on, `wrong_path`; all else is `wrong_arguments`.
3. Every step was earned, so it is the end: `truncated`, `gave_up` or `wrong_answer`.

A lucky guess is still `skipped_tool`: the tool was not called. `wrong_path` is what a check of the answer would pass.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from env.provenance import PLAN, Origin, argument_ids, call_arguments, provenance, sightings
from env.types import JSON, AttemptStatus, Step, Trajectory
from rewards.facts import read_text
from rewards.rubric import STEP_MASS, FactType, Rubric, RubricStep
from rewards.score import Breach, Score

MAX_SHOWN = 80  # characters of a value


class FailureClass(StrEnum):
    """The classes, those of the source document first."""

    SKIPPED_TOOL = "skipped_tool"  # answered or went on without a required tool: invented
    WRONG_TOOL = "wrong_tool"  # a tool that the task does not need, rules out, or that does not exist
    ID_NOT_PASSED = "id_not_passed"  # a later call with another id than the right one, which had been found or given
    WRONG_PATH = "wrong_path"  # plausible in the end, but by a path that breaks the rules
    WRONG_ARGUMENTS = "wrong_arguments"  # the right tool with a wrong name, wrong dates or invalid arguments
    WRONG_ANSWER = "wrong_answer"  # the right path, but the answer is false, invented or incomplete
    GAVE_UP = "gave_up"  # stopped without stating anything
    MALFORMED_CALL = "malformed_call"  # the call could not be read
    TRUNCATED = "truncated"  # out of turns or tokens


@dataclass(frozen=True, slots=True)
class Failure:
    """A class with its evidence. `call` is None where the end of the episode is meant, not one of its calls."""

    kind: FailureClass
    turn: int
    call: int | None
    value: str


def classify(trajectory: Trajectory, rubric: Rubric, score: Score) -> Failure | None:
    """The class of a failed episode, None for a successful one. The rules and their order: see the module."""
    if score.success:
        return None
    for violation in score.violations:
        if violation.breach is Breach.FORBIDDEN_CALL:
            return Failure(FailureClass.WRONG_TOOL, violation.turn, violation.call, violation.value)
    missing = next((step for step in rubric.steps if step.id not in score.satisfied), None)
    if missing is None:
        return _at_the_end(trajectory, score)
    calls = [step for step in trajectory.steps if step.name == missing.tool]
    if not calls:
        return _never_called(missing, trajectory, rubric)
    return _called_in_vain(missing, calls, _looks_right(trajectory, rubric, score))


def _never_called(missing: RubricStep, trajectory: Trajectory, rubric: Rubric) -> Failure:
    needed = {step.tool for step in rubric.steps}
    detours = _after_last_success(trajectory, needed)
    unreadable = [step for step in detours if not step.name]
    if unreadable:
        return _at(FailureClass.MALFORMED_CALL, unreadable[-1], _shown(unreadable[-1].given))
    for step in trajectory.steps if missing.finds else ():
        if step.name in needed and (unseen := _unseen_id(step, trajectory, rubric)):
            return _at(FailureClass.SKIPPED_TOOL, step, unseen)
    for step in detours:
        if step.name not in needed:
            return _at(FailureClass.WRONG_TOOL, step, step.name)
    if trajectory.stop.truncated:
        return _end(FailureClass.TRUNCATED, trajectory, trajectory.stop.value)
    not_found_is_a_claim = any(fact.type is FactType.NOT_FOUND for fact in rubric.answer)
    if _states_facts(trajectory, not_found_is_a_claim):
        return _end(FailureClass.SKIPPED_TOOL, trajectory, missing.tool)
    return _end(FailureClass.GAVE_UP, trajectory, _shown(trajectory.answer))


def _after_last_success(trajectory: Trajectory, needed: set[str]) -> tuple[Step, ...]:
    """The calls since the last one that was of use: an earlier detour was repaired."""
    useful = [index for index, step in enumerate(trajectory.steps) if step.name in needed and step.result.ok]
    return trajectory.steps[useful[-1] + 1 :] if useful else trajectory.steps


def _called_in_vain(missing: RubricStep, calls: Sequence[Step], looks_right: bool) -> Failure:
    readable = [step for step in calls if step.attempt is AttemptStatus.OK]
    if not readable:
        return _at(FailureClass.MALFORMED_CALL, calls[-1], _shown(calls[-1].given))
    call = readable[-1]
    arguments = call_arguments(call)
    wrong = [argument for argument in missing.arguments if not argument.accepts(arguments)]
    ids = [argument for argument in wrong if argument.source is not None]
    if ids:
        return _at(FailureClass.ID_NOT_PASSED, call, _shown(arguments.get(ids[0].name)))
    evidence = f"{wrong[0].name} = {_shown(arguments.get(wrong[0].name))}" if wrong else _shown(arguments)
    out_of_order = not wrong and call.result.ok and not missing.finds and not missing.empty
    if looks_right or out_of_order:
        return _at(FailureClass.WRONG_PATH, call, evidence)
    return _at(FailureClass.WRONG_ARGUMENTS, call, evidence if wrong or call.result.ok else call.result.message)


def _at_the_end(trajectory: Trajectory, score: Score) -> Failure:
    if trajectory.stop.truncated:
        return _end(FailureClass.TRUNCATED, trajectory, trajectory.stop.value)
    said = [violation.value for violation in score.violations if violation.call is None]
    if said:
        return _end(FailureClass.WRONG_ANSWER, trajectory, said[0])
    states = _states_facts(trajectory, not_found_is_a_claim=False)
    kind = FailureClass.WRONG_ANSWER if states else FailureClass.GAVE_UP
    return _end(kind, trajectory, _shown(trajectory.answer))


def _unseen_id(step: Step, trajectory: Trajectory, rubric: Rubric) -> str | None:
    """An id of the call that neither the user had given nor an earlier turn had shown."""
    if step.result.metadata.get(PLAN):
        return None  # a later stage of a plan, which passed on what its earlier ones had found
    seen = sightings(trajectory)
    for value in sorted(argument_ids(step) - rubric.given):
        if provenance(trajectory, value, step.turn, seen).origin in (Origin.NOWHERE, Origin.NOT_YET_SEEN):
            return value
    return None


def _states_facts(trajectory: Trajectory, not_found_is_a_claim: bool) -> bool:
    """Whether the answer says anything that only a tool could tell; to repeat the query does not count."""
    said, asked = read_text(trajectory.answer), read_text(trajectory.query)
    values = said.emails - asked.emails or said.ids - asked.ids or set(said.days) - set(asked.days)
    claims = said.no_leave or said.on_leave or said.manager or said.no_manager
    return bool(values or claims or (said.not_found and not_found_is_a_claim))


def _looks_right(trajectory: Trajectory, rubric: Rubric, score: Score) -> bool:
    """Every required tool was called, and the answer states every fact truly (with evidence or without) and no more."""
    if not {step.tool for step in rubric.steps} <= {step.name for step in trajectory.steps}:
        return False
    about_answer = [violation for violation in score.violations if violation.call is None]
    if any(found.breach is Breach.WRONG_ANSWER or found.value not in list(FactType) for found in about_answer):
        return False
    mass = 1.0 - STEP_MASS if rubric.steps else 1.0
    grounded = round(score.parts["answer"] / mass * len(rubric.answer))
    return grounded + len(about_answer) == len(rubric.answer)


def _at(kind: FailureClass, step: Step, value: str) -> Failure:
    return Failure(kind, step.turn, step.call, value)


def _end(kind: FailureClass, trajectory: Trajectory, value: str) -> Failure:
    last = max([turn.index for turn in trajectory.turns] + [step.turn for step in trajectory.steps], default=0)
    return Failure(kind, last, None, value)


def _shown(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
