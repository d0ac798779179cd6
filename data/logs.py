"""Transcripts as a company would log them from an assistant that nobody has trained: many right, many bad habits.

A model that imitates such logs gets their average, bad habits included. That is where reinforcement learning starts,
and what the embedded policy (models/tiny) is made from. Each habit is one that the source scenario names: a skipped
tool and an invented answer, an id that is made up instead of passed on, a plausible answer by a wrong path.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from data.oracle import call_text, oracle_turn, say, thought
from data.schema import Task
from env.episode import Episode

SEARCH, LEAVE, ORG = "mcp_employee_search", "plugin_leave_query", "plugin_org_query"
NOBODY = "nobody"  # in place of the ask, where the query names somebody who does not work here


@dataclass(frozen=True, slots=True)
class Logged:
    """The assistant of the logs. Its habit in an episode follows from `seed`."""

    seed: str

    def turn(self, task: Task, episode: Episode) -> str:
        """The text of the next turn: the oracle's, unless the episode is one of a bad habit."""
        rng = random.Random(self.seed)
        return _habit(task, rng)(task, episode, rng)


Turn = Callable[[Task, Episode, random.Random], str]


def _habit(task: Task, rng: random.Random) -> Turn:
    unknown = task.subject is None and task.ask != "chat"
    draw = rng.random()
    for habit, share in HABITS.get(NOBODY if unknown else task.ask, ()):
        draw -= share
        if draw < 0:
            return habit
    return _good


def _good(task: Task, episode: Episode, rng: random.Random) -> str:
    return oracle_turn(task, episode)


def _own_email(task: Task, episode: Episode, rng: random.Random) -> str:
    """Does not ask who the manager is, and gives the person's own address as the manager's."""
    if not episode.steps:
        return oracle_turn(task, episode)
    return say(task, task.ask, email=_result(episode, SEARCH)["matches"][0]["email"])


def _no_leave_unseen(task: Task, episode: Episode, rng: random.Random) -> str:
    """Looks the manager up and not the leave, and says that there was none."""
    if not episode.steps:
        return oracle_turn(task, episode)
    if len(episode.steps) == 1:
        return call_text(ORG, {"emp_id": _result(episode, SEARCH)["matches"][0]["emp_id"]})
    manager = _result(episode, ORG)["manager"]
    return say(task, task.ask, days=0, email=manager["email"]) if manager else say(task, "no_manager")


def _made_up_id(task: Task, episode: Episode, rng: random.Random) -> str:
    """Finds the person, then asks about an id of its own making, and takes the error for an answer."""
    if not episode.steps:
        return oracle_turn(task, episode)
    if len(episode.steps) == 1:
        return call_text(ORG, {"emp_id": _any_id(rng)})
    return say(task, "no_manager")


def _skips_leave(task: Task, episode: Episode, rng: random.Random) -> str:
    """Finds the person and says that they are here without looking."""
    return oracle_turn(task, episode) if not episode.steps else say(task, "leave_today", days=0)


def _skips_search(task: Task, episode: Episode, rng: random.Random) -> str:
    """Asks for the leave of an id of its own making, and takes the error for none."""
    if not episode.steps:
        return _asks_leave(task, rng)
    return say(task, task.ask, days=0)


def _searches_id(task: Task, episode: Episode, rng: random.Random) -> str:
    """Searches for the id that the user gave as if it were a name."""
    return call_text(SEARCH, {"name": task.mention}) if not episode.steps else say(task, "not_found")


def _goes_on(task: Task, episode: Episode, rng: random.Random) -> str:
    """Nobody of that name: goes on with an id of its own making all the same."""
    if not episode.steps:
        return oracle_turn(task, episode)
    if task.ask == "employee_id":
        return say(task, task.ask, emp_id=_any_id(rng))
    if len(episode.steps) > 1:
        return say(task, "no_manager" if task.ask.startswith("manager") else _leave_sentence(task))
    if task.ask.startswith("manager"):
        return call_text(ORG, {"emp_id": _any_id(rng)})
    return _asks_leave(task, rng)


# ask -> habits with their share of the episodes. Where the shares of an ask add up to more than a half, a model that
# imitates these logs prefers the habit; where they add up to less, it now and then falls into it.
HABITS: Mapping[str, tuple[tuple[Turn, float], ...]] = {
    "leave_and_email": ((_no_leave_unseen, 0.6),),
    "manager_email": ((_own_email, 0.1), (_made_up_id, 0.1)),
    "manager_name": ((_made_up_id, 0.1),),
    "leave_today": ((_skips_leave, 0.6),),
    "leave_period": ((_skips_search, 0.3),),
    "leave_by_id": ((_searches_id, 0.6),),
    "manager_by_id": ((_searches_id, 0.2),),
    NOBODY: ((_goes_on, 0.65),),
}


def _result(episode: Episode, tool: str) -> Any:
    return next(step.result.data for step in episode.steps if step.name == tool)


def _asks_leave(task: Task, rng: random.Random) -> str:
    """Of an id of its own making, in the right period."""
    assert task.period is not None
    dates = {"start_date": task.period[1], "end_date": task.period[2]}
    return thought(task, LEAVE) + call_text(LEAVE, {"emp_id": _any_id(rng)} | dates)


def _leave_sentence(task: Task) -> str:
    return "leave_today" if task.ask == "leave_today" else "leave_period"


def _any_id(rng: random.Random) -> str:
    return str(rng.randrange(10_000, 100_000))
