"""How the last run of a team ended: what every screen, report, notice and exit code says. Pure.

The run records how it ended. If it vanished instead, the records of its agents and tasks say so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import RunStatus, TeamConfig
from bullpen.team.lookup import owner_of
from bullpen.team.tasks import guarded_rules
from bullpen.team.tasks.check_rules import is_done
from bullpen.team.tasks.merge_rules import unchanged

Tone = Literal["good", "attention", "bad"]

_NAMED_MAX = 20
_VANISHED = "Its process vanished."


@dataclass(frozen=True, slots=True)
class Manner:
    """What is shown for a way to end: a heading, what a team did, and the exit code of its run."""

    heading: str
    did: str
    tone: Tone
    code: int


MANNERS: Mapping[RunStatus, Manner] = {
    "running": Manner("At work", "is at work", "good", 0),
    "done": Manner("Done", "is done", "good", 0),
    "ended": Manner("You ended it", "was ended by you", "attention", 0),
    "waits": Manner("Waits for you", "waits for you", "attention", 6),
    "unfinished": Manner("Unfinished", "ended unfinished", "attention", 2),
    "budget": Manner("Out of budget", "is out of budget", "attention", 2),
    "failed": Manner("Failed", "failed", "bad", 1),
    "lost": Manner("Lost", "was lost", "bad", 1),
    "interrupted": Manner("Interrupted", "was interrupted", "attention", 130),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended, and why if not everything was done."""

    status: RunStatus
    why: str | None = None

    @property
    def manner(self) -> Manner:
        """Return what is shown for it."""
        return MANNERS[self.status]

    @property
    def code(self) -> int:
        """Return the exit code of the run."""
        return self.manner.code

    @property
    def sentence(self) -> str:
        """Return it in a sentence: "Unfinished: 2 tasks are open."."""
        return f"{self.manner.heading}: {self.why}" if self.why else f"{self.manner.heading}."


def verdict_of(
    team: TeamConfig, tasks: Collection[Task], pending: Iterable[Request] = ()
) -> Verdict:
    """Return how the last run of a team ended, or that it is at work."""
    if any(agent.phase != "ended" for agent in _agents(team)):
        return Verdict("running")
    end = team.facts.run_end
    if end is None:
        return _without_word(team, tasks)
    if end.status == "done":
        # There may be more to do since.
        return judged(Verdict("done", end.why), team, tasks, pending)
    if end.status == "waits" and not _waiting(team, tasks, pending):
        left = left_open(tasks)
        return Verdict("unfinished", left) if left else Verdict("done")
    return Verdict(end.status, end.why)


def judged(
    found: Verdict, team: TeamConfig, tasks: Collection[Task], pending: Iterable[Request] = ()
) -> Verdict:
    """Return what the end of a run, as it was found, means: who has to do what about it now."""
    if found.status == "ended":
        return Verdict("done") if tasks and all(map(is_done, tasks)) else found
    if found.status == "done" and open_tasks(tasks):
        return Verdict("unfinished", found.why or left_open(tasks))
    if found.status == "done" and (claimed := unchanged(team, tasks)):
        why = said_of(claimed, "was completed without a change", "were completed without a change")
        return Verdict("waits", f"{why}.")
    waiting = _waiting(team, tasks, pending)
    rest = {task.id for task in (*open_tasks(tasks), *given_up(tasks))}
    if found.status == "unfinished" and waiting and rest <= waiting:
        return Verdict("waits", found.why)
    if found.status == "unfinished" and any(agent.at_limit is not None for agent in _agents(team)):
        return Verdict("budget", found.why)
    broke = [agent.end for agent in _agents(team) if agent.end in ("failed", "lost")]
    if found.status == "failed" and broke and "failed" not in broke:
        return Verdict("lost", found.why)
    return found


def _without_word(team: TeamConfig, tasks: Collection[Task]) -> Verdict:
    """Return how it ended if no run has said so: it vanished, or there was none."""
    result, agents = team.facts.finished, _agents(team)
    if result is not None:
        found = Verdict("ended" if result.voice == "human" else "done", left_open(tasks))
        return judged(found, team, tasks)
    over = not open_tasks(tasks) and not given_up(tasks)
    if over and (tasks or all(agent.end not in ("suspended", "lost") for agent in agents)):
        return judged(Verdict("done"), team, tasks)
    if any(agent.end == "lost" for agent in agents):
        return Verdict("lost", _VANISHED)
    return Verdict("unfinished", left_open(tasks))


def open_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that are not done, or whose work is not merged yet."""
    return [
        task
        for task in tasks
        if not task.is_internal and not is_done(task) and task.facts.given_up is None
    ]


def left_open(tasks: Iterable[Task]) -> str | None:
    """Return which tasks are open or were given up; None if none is."""
    there = list(tasks)
    said = [
        said_of(open_tasks(there), "is open", "are open"),
        said_of(given_up(there), "was given up", "were given up"),
    ]
    words = "; ".join(part for part in said if part)
    return f"{words}." if words else None


def said_of(tasks: Sequence[Task], one: str, many: str) -> str | None:
    """Return how many tasks that are, and which; None if there are none."""
    named = ", ".join(f"#{task.id}" for task in tasks[:_NAMED_MAX])
    if not tasks:
        return None
    return f"1 task {one}: {named}" if len(tasks) == 1 else f"{len(tasks)} tasks {many}: {named}"


def given_up(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that were given up, but not those that people do not want any more."""
    return [
        task
        for task in tasks
        if not is_done(task) and task.facts.given_up is not None and not _is_withdrawn(task)
    ]


def _is_withdrawn(task: Task) -> bool:
    """Return whether people do not want it any more: they closed its issue."""
    work = task.facts.forge
    return work is not None and work.outcome == "issue_closed"


def _waiting(team: TeamConfig, tasks: Collection[Task], pending: Iterable[Request]) -> set[str]:
    """Return the tasks that wait for a person."""
    asking = {request.sender for request in pending if request.approver == "human"}
    return {task.id for task in unchanged(team, tasks)} | {
        task.id
        for task in tasks
        if not is_done(task)
        and (
            (task.facts.given_up or "").startswith(guarded_rules.WAITS)
            or (task.status == "in_progress" and owner_of(task, team.name) in asking)
        )
    }


def _agents(team: TeamConfig) -> list[AgentFacts]:
    return [member.agent for member in team.roster if member.agent is not None]
