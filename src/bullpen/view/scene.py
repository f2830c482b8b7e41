"""A team at one moment as every screen shows it: members, tasks and open requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import task_order
from bullpen.protocol.request import Request, RequestKind
from bullpen.protocol.task import Task
from bullpen.protocol.team import Limits
from bullpen.team.lookup import owner_of
from bullpen.team.requests.handles import handles
from bullpen.team.requests.operations import open_requests
from bullpen.team.requests.rules import granted
from bullpen.team.tasks import check_rules
from bullpen.view import request_content, sentences
from bullpen.view.cards import MemberCard, TaskCard, member_card, task_card
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
    seq: int
    at_ms: int = field(compare=False)
    began_ms: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def finished(self) -> int:
        return sum(task.state in FINISHED for task in self.tasks)


Drawn = dict[str, tuple[Task, TaskCard]]
"""Earlier cards by task id, each with the task it was made from."""


def scene_of(
    story: Story,
    *,
    now_ms: int,
    agents: Sequence[AgentView] | None = None,
    drawn: Drawn | None = None,
) -> Scene:
    """The team as its story tells it, with what heartbeats say about `agents`.

    Cards in `drawn` are used again for tasks that have not changed.
    """
    config = story.team
    tasks = [task for task in story.tasks.values() if not task.is_internal]
    cards = _cards(tasks, story, {} if drawn is None else drawn)
    waiting = open_requests(story.requests.values(), now_ms)
    handle = handles(waiting)
    seen = {view.name: view for view in agents or ()}
    working: dict[str | None, list[str]] = {}
    for task in tasks:
        if task.status == "in_progress":
            working.setdefault(owner_of(task, config.name), []).append(task.id)
    members = tuple(
        member_card(
            member,
            *story.state_of(name),
            seen=seen.get(name),
            tasks=tuple(working.get(name, ())),
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
        tasks=tuple(sorted(cards, key=lambda card: task_order(card.id))),
        asks=tuple(ask_card(request, handle[request.id], story) for request in waiting),
        total=total,
        limits=config.facts.limits,
        result=None if result is None else result.summary,
        seq=story.seq,
        at_ms=now_ms,
        began_ms=story.began_ms,
    )


def _cards(tasks: Sequence[Task], story: Story, drawn: Drawn) -> list[TaskCard]:
    done = {task.id for task in story.tasks.values() if check_rules.is_done(task)}
    cards = []
    for task in tasks:
        waits_for = tuple(each for each in task.blocked_by if each not in done)
        made_of, card = drawn.get(task.id, (None, None))
        if card is None or made_of is not task or card.waits_for != waits_for:
            since_ms = story.moved_ms.get(task.id)
            card = task_card(task, story.team.name, waits_for, since_ms=since_ms)
            drawn[task.id] = (task, card)
        cards.append(card)
    return cards


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
    )
