"""From a finished episode to its record: the row's rubric, the reward, the failure class."""

from __future__ import annotations

from data.schema import Row
from env.types import Trajectory
from evaluation.record import Record
from evaluation.taxonomy import classify
from rewards import grounded
from rewards.rubric import Rubric


def rubric_of(row: Row, reference: str) -> Rubric:
    """The row's rubric for an episode whose reference is `reference`."""
    return Rubric.from_dict(row.task.rubric, reference)


def record_of(row: Row, trajectory: Trajectory, sampled_tokens: int = 0, sample: int = 0) -> Record:
    """sampled_tokens: what the model wrote in this episode. sample: which episode of the same row."""
    rubric = rubric_of(row, trajectory.reference_output)
    score = grounded.score(trajectory, rubric)
    return Record(
        row=row.task.id,
        kind=row.task.kind,
        language=row.task.language,
        split=row.task.split,
        depth=row.task.depth,
        template=row.task.template,
        sample=sample,
        payload=trajectory.to_payload(),
        score=None if score is None else score.to_dict(),
        sampled_tokens=sampled_tokens,
        failure=None if score is None else classify(trajectory, rubric, score),
    )
