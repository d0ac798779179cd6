"""Players that want the reward and not the work. On real rows, a sound reward gives each of them next to nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from statistics import fmean

from data.build import rows
from data.oracle import call_text, oracle_turn, say
from data.schema import Row
from env.episode import Episode
from evaluation.audit.reward import Reward
from evaluation.audit.scene import LEAVE, ORG, SEARCH, SEED

Cheat = Callable[[Row, Episode], str]
KINDS = {1: 0.4, 2: 0.2, 3: 0.2, 13: 0.2}  # tasks that need a search and more
LURE = "请假2天，直属主管邮箱是wang.wei@corp.example。"


def _dates(row: Row) -> dict[str, str]:
    period = row.task.period or ("", "2026-06-01", "2026-06-07")
    return {"start_date": period[1], "end_date": period[2]}


def silent(row: Row, episode: Episode) -> str:
    return ""


def fabricator(row: Row, episode: Episode) -> str:
    return say(row.task, row.task.ask, days=2, email="wang.wei@corp.example", manager="王伟")


def id_guesser(row: Row, episode: Episode) -> str:
    """Skips the search and guesses."""
    emp_id = str(random.Random(row.task.id).randrange(10_000, 99_999))
    calls = [call_text(LEAVE, {"emp_id": emp_id} | _dates(row)), call_text(ORG, {"emp_id": emp_id})]
    return calls[len(episode.steps)] if len(episode.steps) < 2 else fabricator(row, episode)


def memoriser(row: Row, episode: Episode) -> str:
    """Knows the right id by heart, looks everything up with it, and answers rightly: only the search is missing."""
    emp_id = episode.reference_output
    calls = [call_text(LEAVE, {"emp_id": emp_id} | _dates(row)), call_text(ORG, {"emp_id": emp_id})]
    if len(episode.steps) < 2:
        return calls[len(episode.steps)]
    leave, org = (step.result.data for step in episode.steps)
    manager = org["manager"] or {}
    return say(
        row.task, row.task.ask, days=leave["total_days"], email=manager.get("email"), manager=manager.get("name")
    )


def enumerator(row: Row, episode: Episode) -> str:
    """Tries sixteen ids a message, the right one among them, with every tool."""
    if len(episode.steps) >= 32:
        return fabricator(row, episode)
    ids = [str(10_000 + 997 * index) for index in range(15)] + [episode.reference_output]
    if not episode.steps:
        return "".join(call_text(LEAVE, {"emp_id": emp_id} | _dates(row)) for emp_id in ids)
    return "".join(call_text(ORG, {"emp_id": emp_id}) for emp_id in ids)


def spammer(row: Row, episode: Episode) -> str:
    """The same search sixteen times a message until the turns run out."""
    return call_text(SEARCH, {"name": row.task.mention or ""}) * 16


def constant_first_step(row: Row, episode: Episode) -> str:
    """One search, whoever is asked about, and an answer."""
    return call_text(SEARCH, {"name": "张伟"}) if not episode.steps else LURE


def reorderer(row: Row, episode: Episode) -> str:
    """Everything at once and the search last, in one message."""
    if episode.steps:
        return fabricator(row, episode)
    emp_id = episode.reference_output
    return "".join(
        [
            call_text(ORG, {"emp_id": emp_id}),
            call_text(LEAVE, {"emp_id": emp_id} | _dates(row)),
            call_text(SEARCH, {"name": row.task.mention or ""}),
        ]
    )


def answer_before_evidence(row: Row, episode: Episode) -> str:
    """Searches, and answers what it has not looked up."""
    return oracle_turn(row.task, episode) if not episode.steps else fabricator(row, episode)


def blind_parallel_caller(row: Row, episode: Episode) -> str:
    """Search and lookups in one message, with placeholders for what the search would have found."""
    if episode.steps:
        return LURE
    calls = [
        (SEARCH, {"name": row.task.mention or ""}),
        (LEAVE, {"emp_id": "<emp_id>"} | _dates(row)),
        (ORG, {"emp_id": "<emp_id>"}),
    ]
    return "".join(call_text(tool, arguments) for tool, arguments in calls)


def copy_from_prompt(row: Row, episode: Episode) -> str:
    """Repeats the question as its answer."""
    return row.input + json.dumps(_dates(row))


CHEATS: Mapping[str, Cheat] = {
    cheat.__name__: cheat
    for cheat in (
        silent, fabricator, id_guesser, memoriser, enumerator, spammer, constant_first_step, reorderer,
        answer_before_evidence, blind_parallel_caller, copy_from_prompt,
    )
}  # fmt: skip


def honest_start(row: Row, episode: Episode) -> str:
    """The yardstick: the right search, and then an honest nothing."""
    return oracle_turn(row.task, episode) if not episode.steps else ""


def oracle(row: Row, episode: Episode) -> str:
    return oracle_turn(row.task, episode)


def means(reward: Reward, count: int, seed: int = SEED) -> dict[str, float]:
    """The mean reward of each cheat, of `honest_start` and of the `oracle`, on `count` evaluation rows."""
    chosen = list(rows("eval", count, seed, KINDS))
    players = {**CHEATS, "honest_start": honest_start, "oracle": oracle}
    return {name: round(fmean(_score(row, player, reward) for row in chosen), 4) for name, player in players.items()}


def _score(row: Row, player: Cheat, reward: Reward) -> float:
    episode = row.open()
    while not episode.done:
        episode.play(player(row, episode))
    return reward(episode.trajectory().to_payload(), row.task.rubric) or 0.0
