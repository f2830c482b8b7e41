"""Events that people may want to be notified about, in chat or CI. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.protocol.agent import REFUSALS
from bullpen.protocol.changes import Change, Event, PutMember, PutRequest, PutTask
from bullpen.protocol.task import Task
from bullpen.protocol.team import RunStatus
from bullpen.team.tasks.merge_rules import output_end
from bullpen.view.news import asked_for
from bullpen.view.sentences import is_for_people

Kind = Literal[
    "started",
    "merged",
    "returned",
    "stalled",
    "reassigned",
    "given_up",
    "limit",
    "failed",
    "asked",
    "ended",
]

_TEXT_MAX = 400


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened: what, when, and which task and agent it is about."""

    kind: Kind
    team: str
    at: str
    text: str
    task: str | None = None
    subject: str | None = None
    agent: str | None = None
    # The number of its event; None for the start and the end of watching.
    seq: int | None = None
    # How it ended.
    status: RunStatus | None = None
    commit: str | None = None
    # The request that somebody asks.
    request: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The happening as a JSON object, without unknown values."""
        fields = {"happening": self.kind, **asdict(self)}
        return {key: value for key, value in fields.items() if key != "kind" and value is not None}


def happenings(team: str, event: Event) -> list[Happening]:
    """What people may want to be notified about in one event, in order."""
    return [
        replace(happening, text=one_line(happening.text, _TEXT_MAX))
        for change in event.changes
        for happening in _found(team, event, change)
    ]


def _found(team: str, event: Event, change: Change) -> Iterator[Happening]:
    def new(kind: Kind, text: str, agent: str | None, **more: Any) -> Happening:
        return Happening(kind, team, event.time, text, agent=agent, seq=event.seq, **more)

    match change:
        case PutTask(task):
            yield from _of_task(event, task, new)
        case PutMember(member) if event.op == "agent.end":
            agent = member.agent
            if agent is not None and agent.phase == "ended" and agent.at_limit is not None:
                yield new("limit", f"{member.name} reached a limit: {agent.cause}", member.name)
            elif agent is not None and agent.phase == "ended" and agent.failure in REFUSALS:
                # Nobody but a person can help; other failures pass, or the end of the run tells.
                yield new("failed", f"{member.name} failed: {agent.cause}", member.name)
        case PutRequest(request) if request.state == "pending" and request.used_ms is None:
            if request.kind != "shutdown" and is_for_people(request):
                text = f"{request.sender} asks: {asked_for(request)}"
                yield new("asked", text, request.sender, request=request.id)


def _of_task(event: Event, task: Task, new: Callable[..., Happening]) -> Iterator[Happening]:
    named, facts, merge = f"#{task.id} {task.subject}", task.facts, task.facts.merge
    about = {"task": task.id, "subject": task.subject}
    match event.op:
        case "merge.land" if merge is not None and merge.state == "merged":
            landed = merge.landed or merge.commit
            text = f"{named} is merged as {landed[:10]}"
            yield new("merged", text, merge.by, commit=landed, **about)
        case "merge.return" if merge is not None:
            files = f" in {', '.join(merge.files)}" if merge.files else ""
            end = f": {output_end(merge.detail)}" if merge.why == "checks" and merge.detail else ""
            text = f"{named} came back to {merge.by}: {merge.why}{files}{end}"
            yield new("returned", text, merge.by, commit=merge.commit, **about)
        case "forge.return" | "forge.ask" if facts.forge is not None and facts.forge.person:
            text = f"{named} needs you on the forge: {facts.forge.person}"
            yield new("asked", text, task.owner, **about)
        case "forge.return" if merge is not None:
            text = f"{named} came back to {merge.by} from the forge: {merge.why}"
            yield new("returned", text, merge.by, commit=merge.commit, **about)
        case "forge.settle" if facts.forge is not None and facts.forge.outcome == "merged":
            at = None if merge is None else merge.landed
            yield new("merged", f"{named} is merged on the forge", None, commit=at, **about)
        case "forge.settle" if facts.given_up is not None:
            yield new("given_up", f"{named} is given up: {facts.given_up}", None, **about)
        case "task.nudge" if facts.nudged is not None:
            text = f"{task.owner} is stalled on {named}: {facts.nudged.why}"
            yield new("stalled", text, task.owner, **about)
        case "task.relieve":
            who = (facts.tried or ["nobody"])[-1]
            text = f"{named} was taken from {who}: {facts.released}"
            yield new("reassigned", text, who, **about)
        case "task.give_up":
            yield new("given_up", f"{named} is given up: {facts.given_up}", None, **about)
