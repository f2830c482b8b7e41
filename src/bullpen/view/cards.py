"""Tasks and members as every screen and report shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import task_order
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.team.lookup import owner_of
from bullpen.team.promises.concerns import promise_words
from bullpen.team.requests.handles import without_ids
from bullpen.team.snapshot import MemberState
from bullpen.team.tasks import check_rules
from bullpen.view.story import Story
from bullpen.view.task_state import TaskState, task_state

_UNFINISHED: tuple[TaskState, ...] = ("ready", "blocked", "in_progress")

_NOTHING = Usage.new()


@dataclass(frozen=True, slots=True)
class TaskCard:
    """A task. `waits_for` are the open tasks that block it; `after` are all its blockers."""

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
    # Each check with whether it passed; None if it has not run.
    checks: tuple[tuple[str, bool | None], ...] = ()
    # What it promises and relies on, a line each.
    promises: tuple[str, ...] = ()
    # Why it was released, given up or returned by the merge queue.
    note: str | None = None
    report: str | None = None
    commit: str | None = None
    # Who did the work, even if the task was reassigned later.
    by: str | None = None
    # Why it was given up, or why its last owner lost it.
    why: str | None = None
    relieved: tuple[str, ...] = ()
    # What its owner does for it, if the task says so and is in progress.
    activity: str | None = None
    # Known only from the whole log.
    returned: int = 0
    # None if only the usage of all older tasks together is known.
    usage: Usage | None = field(default_factory=Usage.new)


@dataclass(frozen=True, slots=True)
class MemberCard:
    """A member. None means not known, or not an agent."""

    name: str
    lead: bool
    color: str | None
    state: MemberState
    since_ms: int | None
    # What it does, waits for, or ended with.
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
    # How its last launch ended, or its phase; `left` if it is not a member any more.
    outcome: str = "left"
    cause: str | None = None
    # Known only from the whole log.
    completed: tuple[str, ...] = ()
    working_s: float = 0.0
    waiting_s: float = 0.0

    @property
    def restarts(self) -> int:
        return 0 if self.launch is None else self.launch - 1


def task_card(
    task: Task,
    team: str,
    waits_for: Sequence[str],
    *,
    since_ms: int | None = None,
    returned: int = 0,
    usage: Usage | None = _NOTHING,
) -> TaskCard:
    """The card of a task that waits for these open tasks."""
    facts, merge = task.facts, task.facts.merge
    state, owner = task_state(task, waits_for), owner_of(task, team)
    note = facts.given_up or facts.released
    if merge is not None and merge.state == "returned":
        note = f"came back from the merge queue: {merge.why or 'conflict'}"
    open_why = facts.released if state in _UNFINISHED else None
    return TaskCard(
        id=task.id,
        subject=task.subject,
        description=task.description,
        state=state,
        owner=owner,
        since_ms=since_ms,
        after=tuple(task.blocked_by),
        waits_for=tuple(waits_for),
        effort=facts.effort,
        attempt=facts.attempt,
        activity=task.active_form if state == "in_progress" else None,
        checks=tuple((check.name, check.passed) for check in facts.checks),
        promises=promise_words(task),
        note=note,
        report=facts.report,
        commit=merge.landed if merge is not None and state == "merged" else None,
        by=merge.by if merge is not None and state in ("merged", "queued") else owner,
        why=facts.given_up if state == "given_up" else open_why,
        relieved=tuple(facts.tried or ()),
        returned=returned,
        usage=usage,
    )


def member_card(
    member: Member,
    state: MemberState,
    since_ms: int | None,
    *,
    seen: AgentView | None = None,
    tasks: tuple[str, ...] = (),
    unread: int | None = None,
) -> MemberCard:
    """The card of a member in a state; `seen` is what its heartbeat says."""
    agent = member.agent
    ended = agent is not None and agent.phase == "ended"
    cause = agent.cause if agent is not None and ended else None
    detail = cause
    usage = Usage.new() if agent is None else agent.usage
    place = None if agent is None else agent.process
    if seen is not None and (agent is not None or seen.state != "unknown"):
        # The heartbeat of an agent that waits for an answer says `working`, and before the first
        # heartbeat the log may already know that the agent has started.
        waits = state == "waiting" and seen.state == "working"
        began = seen.state == "starting" and agent is not None and agent.phase == "running"
        state, since_ms = (state, since_ms) if waits or began else (seen.state, seen.since_ms)
        detail, usage = _activity(seen) or detail, seen.usage
    return MemberCard(
        name=member.name,
        lead=member.is_lead,
        color=member.color,
        state=state,
        since_ms=since_ms,
        detail=None if detail is None else without_ids(detail),
        tasks=tasks,
        actions=() if seen is None else seen.actions,
        driver=None if agent is None else agent.spec.driver,
        # The model that answers may have another name than the one that was asked for.
        model=seen.model
        if seen is not None
        else member.model
        if agent is None
        else agent.spec.model,
        backend=None if agent is None else agent.spec.backend,
        host=None if place is None else place.host,
        unread=unread,
        usage=usage,
        context=None if seen is None else seen.context,
        launch=None if agent is None else agent.launch,
        outcome="left" if agent is None else (agent.end if ended else None) or agent.phase,
        cause=cause,
    )


def _activity(seen: AgentView) -> str | None:
    if seen.tool and seen.state == "working":
        return f"{seen.tool} {seen.detail or ''}".rstrip()
    return seen.detail or seen.cause


class TaskCards:
    """The cards of all tasks that are shown, and who works on which.

    They are kept from scene to scene: a change costs what it changes.
    """

    def __init__(self) -> None:
        self.all: tuple[TaskCard, ...] = ()
        self.working: Mapping[str | None, tuple[str, ...]] = {}
        self._tasks: dict[str, Task] = {}
        self._cards: dict[str, TaskCard] = {}
        self._done: set[str] = set()
        # The tasks that wait for a task, or did.
        self._after: dict[str, set[str]] = {}

    def update(self, story: Story) -> None:
        """Make the cards of tasks that are not the ones from before."""
        now, before = story.tasks, self._tasks
        changed = [task for key, task in now.items() if before.get(key) is not task]
        gone = before.keys() - now.keys() if len(before) + len(changed) > len(now) else ()
        if not changed and not gone:
            return
        made_again = {task.id for task in changed}
        for key in gone:
            self._cards.pop(key, None)
            made_again |= self._finish(key, done=False)
        for task in changed:
            for needed in task.blocked_by:
                self._after.setdefault(needed, set()).add(task.id)
            made_again |= self._finish(task.id, done=check_rules.is_done(task))
        self._tasks = dict(now)
        self._make(made_again, story)
        shown = sorted(self._cards, key=task_order)
        self.all = tuple(self._cards[key] for key in shown)
        self.working = _working(now.values(), story.team.name)

    def _finish(self, key: str, *, done: bool) -> set[str]:
        """Remember whether a task is done; returns the tasks that this concerns."""
        if done == (key in self._done):
            return set()
        (self._done.add if done else self._done.discard)(key)
        return self._after.get(key, set())

    def _make(self, keys: Iterable[str], story: Story) -> None:
        for key in keys:
            task = self._tasks.get(key)
            if task is None or task.is_internal:
                self._cards.pop(key, None)
                continue
            waits_for = tuple(each for each in task.blocked_by if each not in self._done)
            since_ms = story.moved_ms.get(key)
            self._cards[key] = task_card(task, story.team.name, waits_for, since_ms=since_ms)


def _working(tasks: Iterable[Task], team: str) -> dict[str | None, tuple[str, ...]]:
    found: dict[str | None, tuple[str, ...]] = {}
    for task in tasks:
        if task.status == "in_progress" and not task.is_internal:
            owner = owner_of(task, team)
            found[owner] = (*found.get(owner, ()), task.id)
    return found
