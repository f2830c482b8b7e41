"""A team at one moment as every screen shows it: members, tasks and open requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.protocol.agent import Usage
from bullpen.protocol.request import Request, RequestKind
from bullpen.protocol.team import Limits
from bullpen.team.agents.verdict import Verdict, verdict_of
from bullpen.team.requests.always_rules import choice_lines, granted
from bullpen.team.requests.handles import handles
from bullpen.team.requests.operations import open_requests
from bullpen.view import sentences
from bullpen.view.calls import request_content
from bullpen.view.cards import MemberCard, TaskCard, TaskCards, member_card
from bullpen.view.news import asked_for
from bullpen.view.story import Story
from bullpen.view.task_state import FINISHED
from bullpen.view.text import Cell


@dataclass(frozen=True, slots=True)
class AskCard:
    """An open request, with everything that is needed to answer it."""

    id: str
    handle: str
    kind: RequestKind
    sender: str
    to: str
    # A summary, why approval is needed, and the exact content: a command, a diff, a plan.
    about: str
    why: str
    lines: tuple[Cell, ...]
    created_ms: int
    deadline_ms: int | None
    for_people: bool
    digest: str | None
    # The input that may be edited, and what "always" would allow.
    input: Mapping[str, Any] | None = None
    always: tuple[str, ...] = ()
    # The names of what "always" can choose from, each with what it covers, narrow to wide.
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """A team at one moment. Scenes are equal if they show the same, whenever they were taken."""

    team: str
    description: str | None
    members: tuple[MemberCard, ...]
    tasks: tuple[TaskCard, ...]
    asks: tuple[AskCard, ...]
    total: Usage
    limits: Limits
    # What the lead said when the goal was reached.
    result: str | None
    # How its run ended, or that it is at work.
    verdict: Verdict
    seq: int
    at_ms: int = field(compare=False)
    began_ms: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def finished(self) -> int:
        return sum(task.state in FINISHED for task in self.tasks)


def scene_of(
    story: Story,
    *,
    now_ms: int,
    agents: Sequence[AgentView] | None = None,
    cards: TaskCards | None = None,
) -> Scene:
    """The team as its story tells it, with what heartbeats say about `agents`.

    `cards` are those of the scene before: only the cards of changed tasks are made again.
    """
    config = story.team
    cards = TaskCards() if cards is None else cards
    cards.update(story)
    waiting = open_requests(story.requests.values(), now_ms)
    handle = handles(waiting)
    seen = {view.name: view for view in agents or ()}
    members = tuple(
        member_card(
            member,
            *story.state_of(name),
            seen=seen.get(name),
            tasks=cards.working.get(name, ()),
            unread=story.unread(name),
        )
        for name, member in story.members.items()
    )
    total = Usage.new()
    for row in config.facts.spent:
        total = total.plus(row.usage)
    for card in members:
        total = total.plus(card.usage)
    result = config.facts.finished
    return Scene(
        team=config.name,
        description=config.description,
        members=members,
        tasks=cards.all,
        asks=tuple(ask_card(request, handle[request.id], story) for request in waiting),
        total=total,
        limits=config.facts.limits,
        result=None if result is None else result.summary,
        verdict=verdict_of(config, story.tasks.values(), waiting),
        seq=story.seq,
        at_ms=now_ms,
        began_ms=story.began_ms,
    )


def ask_card(request: Request, handle: str, story: Story) -> AskCard:
    """A request with its exact content, compared with the current files."""
    member = story.members.get(request.sender)
    subject = request.subject.get("input")
    always, directories = granted(request) if request.kind == "permission" else ((), ())
    return AskCard(
        id=request.id,
        handle=handle,
        kind=request.kind,
        sender=request.sender,
        to=request.to,
        about=asked_for(request),
        why=request_content.why(request),
        lines=tuple(request_content.action(request, cwd=None if member is None else member.cwd)),
        created_ms=request.created_ms,
        deadline_ms=request.deadline_ms,
        for_people=sentences.is_for_people(request),
        digest=request.digest,
        input=subject if request.kind == "permission" and isinstance(subject, dict) else None,
        always=(*always, *directories),
        choices=tuple(choice_lines(request)) if request.kind == "permission" else (),
    )
