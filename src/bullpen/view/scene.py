"""A team at one moment as every screen shows it: members, tasks, what waits for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bullpen.agents.news import asked_for
from bullpen.agents.rollcall import AgentView
from bullpen.protocol.agent import Limits, Usage
from bullpen.protocol.merge import merge_of
from bullpen.protocol.names import task_order
from bullpen.protocol.request import Request, RequestKind
from bullpen.protocol.task import Task
from bullpen.team import check_rules
from bullpen.team.approvals import open_requests
from bullpen.team.lookup import owner_of
from bullpen.team.request_handles import handles
from bullpen.team.request_rules import granted
from bullpen.team.snapshot import MemberState
from bullpen.view import asked, sentences
from bullpen.view.story import Story
from bullpen.view.text import Cell

TaskState = Literal["in_progress", "ready", "queued", "unproven", "blocked", "given_up", "done"]
TASK_STATES: tuple[TaskState, ...] = (
    "in_progress", "ready", "queued", "unproven", "blocked", "given_up", "done",
)  # fmt: skip
"""In the order in which a board shows them."""


@dataclass(frozen=True, slots=True)
class MemberCard:
    """A member. What is None is not known, or not ours."""

    name: str
    lead: bool
    color: str | None
    state: MemberState
    since_ms: int | None
    # What it does, waits for or ended with.
    detail: str | None = None
    tasks: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    driver: str | None = None
    model: str | None = None
    backend: str | None = None
    host: str | None = None
    unread: int | None = None
    usage: Usage = field(default_factory=Usage.new)
    # How much of its model's context window the last request took, from 0 to 1.
    context: float | None = None
    launch: int | None = None


@dataclass(frozen=True, slots=True)
class TaskCard:
    """A task. `waits_for` are the ids that stand in its way; `after` are all it was put behind."""

    id: str
    subject: str
    description: str
    state: TaskState
    owner: str | None
    since_ms: int | None
    after: tuple[str, ...]
    waits_for: tuple[str, ...]
    effort: str | None = None
    attempt: int = 0
    # Each check with whether it passed, if it was looked at.
    checks: tuple[tuple[str, bool | None], ...] = ()
    # Why it came back, was given up or returned from the merge queue.
    note: str | None = None
    report: str | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class AskCard:
    """What somebody asks for, with all it takes to answer it."""

    id: str
    handle: str
    kind: RequestKind
    sender: str
    to: str
    # One line, why it has to be asked, and exactly what is asked: a command, a diff, a plan.
    about: str
    why: str
    lines: tuple[Cell, ...]
    created_ms: int
    deadline_ms: int | None
    for_people: bool
    digest: str | None
    # The input that may be changed, and what "always" would allow from then on.
    input: Mapping[str, Any] | None = None
    always: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """A team at one moment. Two are equal if they show the same, whenever they were taken."""

    team: str
    description: str | None
    members: tuple[MemberCard, ...]
    tasks: tuple[TaskCard, ...]
    asks: tuple[AskCard, ...]
    total: Usage
    limits: Limits
    # The lead's word that the goal is reached.
    result: str | None
    seq: int
    at_ms: int = field(compare=False)
    began_ms: int | None = None
    problems: tuple[str, ...] = ()

    def count(self, state: TaskState) -> int:
        """How many tasks are in a state."""
        return sum(task.state == state for task in self.tasks)


Drawn = dict[str, tuple[Task, TaskCard]]
"""Cards that were made before, each with the task it was made of."""


def scene_of(
    story: Story,
    *,
    now_ms: int,
    agents: Sequence[AgentView] | None = None,
    drawn: Drawn | None = None,
) -> Scene:
    """The team as its story tells it; with `agents`, as these are seen to be at the moment.

    With `drawn`, cards of tasks to which nothing happened since are used again.
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
        _member(name, story, tuple(working.get(name, ())), seen.get(name)) for name in story.members
    )
    total = Usage.new()
    for row in config.facts.account:
        total = total.plus(row.usage)
    for card in members:
        total = total.plus(card.usage)
    result = config.facts.result
    return Scene(
        team=config.name,
        description=config.description,
        members=members,
        tasks=tuple(sorted(cards, key=lambda card: task_order(card.id))),
        asks=tuple(ask_card(request, handle[request.id], story) for request in waiting),
        total=total,
        limits=config.facts.bounds,
        result=None if result is None else result.summary,
        seq=story.seq,
        at_ms=now_ms,
        began_ms=story.began_ms,
    )


def _member(name: str, story: Story, tasks: tuple[str, ...], seen: AgentView | None) -> MemberCard:
    member = story.members[name]
    agent = member.agent
    state, since = story.state_of(name)
    detail = None if agent is None or agent.phase != "ended" else agent.cause
    usage = Usage.new() if agent is None else agent.used
    place = None if agent is None else agent.place
    if seen is not None and (agent is not None or seen.state != "unknown"):
        # Whoever waits for an answer works, as far as its own heartbeat says; and of one that has
        # sent none yet, the log may know that it is past its start.
        waits = state == "waiting" and seen.state == "working"
        began = seen.state == "starting" and agent is not None and agent.phase == "running"
        state, since = (state, since) if waits or began else (seen.state, seen.since_ms)
        detail, usage = _doing(seen) or detail, seen.usage
    return MemberCard(
        name=name,
        lead=member.is_lead,
        color=member.color,
        state=state,
        since_ms=since,
        detail=detail,
        tasks=tasks,
        actions=() if seen is None else seen.actions,
        driver=None if agent is None else agent.asked.driver,
        model=member.model if agent is None else agent.asked.model,
        backend=None if agent is None else agent.asked.backend,
        host=None if place is None else place.host,
        unread=story.unread(name),
        usage=usage,
        context=None if seen is None else seen.context,
        launch=None if agent is None else agent.launch,
    )


def _doing(seen: AgentView) -> str | None:
    if seen.tool and seen.state == "working":
        return f"{seen.tool} {seen.detail or ''}".rstrip()
    return seen.detail or seen.cause


def _cards(tasks: Sequence[Task], story: Story, drawn: Drawn) -> list[TaskCard]:
    done = {task.id for task in story.tasks.values() if check_rules.is_done(task)}
    cards = []
    for task in tasks:
        waits_for = tuple(each for each in task.blocked_by if each not in done)
        made_of, card = drawn.get(task.id, (None, None))
        if card is None or made_of is not task or card.waits_for != waits_for:
            card = _task(task, story, waits_for, done=task.id in done)
            drawn[task.id] = (task, card)
        cards.append(card)
    return cards


def _task(task: Task, story: Story, waits_for: tuple[str, ...], *, done: bool) -> TaskCard:
    facts, merge = task.facts, merge_of(task)
    note = facts.given_up or facts.released
    if merge is not None and merge.state == "returned":
        note = f"came back from the merge queue: {merge.why or 'it does not fit'}"
    return TaskCard(
        id=task.id,
        subject=task.subject,
        description=task.description,
        state="done" if done else _state(task, waits_for, given_up=facts.given_up is not None),
        owner=owner_of(task, story.team.name),
        since_ms=story.moved_ms.get(task.id),
        after=tuple(task.blocked_by),
        waits_for=waits_for,
        effort=facts.effort,
        attempt=facts.attempt,
        checks=tuple((check.name, check.passed) for check in facts.all_checks),
        note=note,
        report=facts.report,
        commit=None if merge is None else merge.landed,
    )


def _state(task: Task, waits_for: tuple[str, ...], *, given_up: bool) -> TaskState:
    if given_up:
        return "given_up"
    if check_rules.is_queued(task):
        return "queued"
    if check_rules.is_unproven(task):
        return "unproven"
    if task.status == "in_progress":
        return "in_progress"
    return "blocked" if waits_for else "ready"


def ask_card(request: Request, handle: str, story: Story) -> AskCard:
    """A request, with exactly what it asks for, as the files are at the moment."""
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
        why=asked.why(request),
        lines=tuple(asked.action(request, cwd=None if member is None else member.cwd)),
        created_ms=request.created_ms,
        deadline_ms=request.deadline_ms,
        for_people=sentences.is_for_people(request),
        digest=request.digest,
        input=subject if request.kind == "permission" and isinstance(subject, dict) else None,
        always=(*always, *directories),
    )
