"""What happened in a team that somebody may want to be told, for chat or CI. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from bullpen.agents.frame import one_line
from bullpen.agents.news import asked_for
from bullpen.protocol.changes import Event, PutMember, PutRequest, PutTask
from bullpen.protocol.merge import merge_of
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import Member
from bullpen.protocol.task import Task
from bullpen.protocol.unattended import Nudged

Kind = Literal[
    "started", "merged", "returned", "stalled", "reassigned", "given_up", "limit", "asked", "ended"
]

_TEXT_MAX = 400


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened: what, when, to which task and whom, in one line of words."""

    kind: Kind
    team: str
    at: str
    text: str
    task: str | None = None
    subject: str | None = None
    agent: str | None = None
    # The event of the team's log that it is; None for the begin and the end of the watch.
    seq: int | None = None
    # How it ended: done, failed, unfinished or interrupted.
    status: str | None = None
    commit: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        """It as a JSON object; what is not known is left out."""
        fields = {
            "happening": self.kind,
            "team": self.team,
            "at": self.at,
            "text": self.text,
            "task": self.task,
            "subject": self.subject,
            "agent": self.agent,
            "seq": self.seq,
            "status": self.status,
            "commit": self.commit,
        }
        return {key: value for key, value in fields.items() if value is not None}


def happenings(team: str, event: Event) -> list[Happening]:
    """What one event means to people who do not look, in order."""
    return [
        Happening(
            kind,
            team,
            event.time,
            one_line(text, _TEXT_MAX),
            task=None if task is None else task.id,
            subject=None if task is None else task.subject,
            agent=agent,
            seq=event.seq,
            commit=commit,
        )
        for kind, text, task, agent, commit in _told(event)
    ]


_Told = tuple[Kind, str, Task | None, str | None, str | None]


def _told(event: Event) -> Iterator[_Told]:
    for change in event.changes:
        match change:
            case PutTask(task):
                yield from _task(event, task)
            case PutMember(member) if event.op == "agent.end":
                yield from _ended(member)
            case PutRequest(request) if request.state == "pending" and request.used_ms is None:
                asks_lead = request.approver is None and request.to == LEAD
                if request.kind != "shutdown" and (request.approver == "human" or asks_lead):
                    words = f"{request.sender} asks: {asked_for(request)}"
                    yield "asked", words, None, request.sender, None


def _task(event: Event, task: Task) -> Iterator[_Told]:
    named, facts, merge = f"#{task.id} {task.subject}", task.facts, merge_of(task)
    match event.op:
        case "merge.land" if merge is not None and merge.state == "merged":
            landed = merge.landed or merge.commit
            yield "merged", f"{named} is merged as {landed[:10]}", task, merge.by, landed
        case "merge.return" if merge is not None:
            files = f" in {', '.join(merge.files)}" if merge.files else ""
            words = f"{named} came back to {merge.by}: {merge.why}{files}"
            yield "returned", words, task, merge.by, merge.commit
        case "task.nudge" if facts.nudged is not None:
            why = Nudged.parse(facts.nudged).why
            yield (
                "stalled",
                f"{task.owner} comes no further with {named}: {why}",
                task,
                task.owner,
                None,
            )
        case "task.relieve":
            who = (facts.tried or ["nobody"])[-1]
            words = f"{named} was taken from {who}: {facts.released}"
            yield "reassigned", words, task, who, None
        case "task.give_up":
            yield "given_up", f"{named} is given up: {facts.given_up}", task, None, None


def _ended(member: Member) -> Iterator[_Told]:
    agent = member.agent
    if agent is not None and agent.phase == "ended" and agent.at_limit is not None:
        yield "limit", f"{member.name} met a limit: {agent.cause}", None, member.name, None
