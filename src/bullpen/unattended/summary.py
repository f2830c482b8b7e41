"""What a team did, from its records and its log: tasks, members, merges, money, what is left. Pure.

All numbers are those of the store: what is used is the account of `bullpen cost`, times are those
between events.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bullpen.protocol.agent import Usage
from bullpen.protocol.changes import Event, PutMember, PutTask
from bullpen.protocol.merge import merge_of
from bullpen.protocol.names import LEAD, task_order
from bullpen.protocol.roster import Member
from bullpen.protocol.task import Task
from bullpen.protocol.times import iso, ms_of
from bullpen.team.check_rules import is_done, is_queued, is_unproven
from bullpen.team.cost import Allowance, cost_of
from bullpen.team.lookup import owner_of
from bullpen.team.rules import open_blockers
from bullpen.team.snapshot import Snapshot

TaskState = Literal[
    "merged", "done", "given_up", "queued", "unproven", "in_progress", "blocked", "pending"
]

_LEAVES = ("agent.end", "agent.withdraw")


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task: how far it is, who did it, and how it went."""

    id: str
    subject: str
    state: TaskState
    by: str | None
    # What it is on the target; why it was given up; what became of it last, if it is open.
    commit: str | None
    why: str | None
    attempts: int
    # How often its work came back from the merge queue, and who was relieved of it.
    returned: int
    relieved: tuple[str, ...]
    used: Usage


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One member: what it completed, what it used, how long it worked and waited."""

    name: str
    driver: str | None
    model: str | None
    state: str
    cause: str | None
    tasks: tuple[str, ...]
    used: Usage
    working_s: float
    waiting_s: float
    restarts: int


@dataclass(frozen=True, slots=True)
class MergeLine:
    """One piece of work that landed on the target."""

    task: str
    by: str
    commit: str
    at: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The account of a team."""

    team: str
    goal: str | None
    file: str | None
    # done, failed, unfinished or interrupted; or that it is running.
    status: str
    cause: str | None
    began: str | None
    until: str
    tasks: tuple[TaskLine, ...]
    members: tuple[MemberLine, ...]
    merges: tuple[MergeLine, ...]
    used: Usage
    limits: tuple[Allowance, ...]
    # What a person has to see to, in words.
    needs: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks there are in each state."""
        return dict(Counter(line.state for line in self.tasks))

    @property
    def seconds(self) -> float:
        """How long it took so far."""
        began = ms_of(self.began) if self.began is not None else None
        now = ms_of(self.until)
        return 0.0 if began is None or now is None else max(0.0, (now - began) / 1000)

    @property
    def row(self) -> dict[str, Any]:
        """It as a JSON object."""
        rows = asdict(self)
        for kind in ("tasks", "members"):
            lines: tuple[TaskLine | MemberLine, ...] = getattr(self, kind)
            for row, line in zip(rows[kind], lines, strict=True):
                row["used"] = line.used.raw
        rows["used"] = self.used.raw
        return {**rows, "counts": self.counts, "seconds": self.seconds}


def summed_up(
    snapshot: Snapshot,
    events: Sequence[Event],
    *,
    status: str | None = None,
    cause: str | None = None,
    needs: Iterable[str] = (),
) -> Summary:
    """The account of a team as it is at a moment, with all events until then.

    `status` and `cause` say how its run ended, as far as whoever asks was there; else the tasks
    say it. `needs` is what else a person must see to.
    """
    team = snapshot.team
    cost = cost_of(team, snapshot.tasks, now_ms=snapshot.taken_ms)
    used_for = {line.name: line.used for line in cost.tasks}
    used_by = {line.name: line.used for line in cost.agents}
    came_back = Counter(task.id for event in events for task in _tasks_of(event, "merge.return"))
    by_id = {task.id: task for task in snapshot.tasks}
    tasks = [_task(task, team.name, by_id, came_back, used_for) for task in snapshot.tasks]
    origin = team.facts.made_from
    result = team.facts.result
    at_work = any(
        (agent := view.member.agent) is not None and agent.phase != "ended"
        for view in snapshot.members
    )
    return Summary(
        team=team.name,
        goal=team.description or None,
        file=None if origin is None else origin.file,
        status=status or _status(tasks, at_work=at_work),
        cause=cause if cause or result is None else result.summary,
        began=events[0].time if events else None,
        until=iso(snapshot.taken_ms) if at_work or not events else events[-1].time,
        tasks=tuple(sorted(tasks, key=lambda line: task_order(line.id))),
        members=_members(snapshot, events, used_by),
        merges=_merges(events),
        used=cost.total,
        limits=tuple(each for each in cost.allowances if each.scope == "team"),
        needs=(*_needs(snapshot, tasks), *needs),
    )


def _status(tasks: Sequence[TaskLine], *, at_work: bool) -> str:
    """How far a team is, by its tasks."""
    if at_work:
        return "running"
    return "done" if all(line.state in ("merged", "done") for line in tasks) else "unfinished"


def state_of(task: Task, by_id: Mapping[str, Task]) -> TaskState:
    """How far a task is, in one word; `by_id` are all tasks."""
    if is_done(task):
        return "merged" if merge_of(task) is not None else "done"
    if task.facts.given_up is not None:
        return "given_up"
    if is_queued(task):
        return "queued"
    if is_unproven(task):
        return "unproven"
    if task.status == "in_progress":
        return "in_progress"
    return "blocked" if open_blockers(task, by_id.get) else "pending"


def _task(
    task: Task,
    team: str,
    by_id: Mapping[str, Task],
    came_back: Counter[str],
    used: dict[str, Usage],
) -> TaskLine:
    merge, facts = merge_of(task), task.facts
    state = state_of(task, by_id)
    owner = owner_of(task, team)
    open_why = facts.released if state in ("pending", "blocked", "in_progress") else None
    return TaskLine(
        id=task.id,
        subject=task.subject,
        state=state,
        by=merge.by if merge is not None and state in ("merged", "queued") else owner,
        commit=merge.landed if merge is not None and state == "merged" else None,
        why=facts.given_up if state == "given_up" else open_why,
        attempts=facts.attempt,
        returned=came_back[task.id],
        relieved=tuple(facts.tried or ()),
        used=used.get(task.id, Usage.new()),
    )


def _members(
    snapshot: Snapshot, events: Sequence[Event], used: dict[str, Usage]
) -> tuple[MemberLine, ...]:
    working, alive = _times(events, snapshot.taken_ms)
    done: defaultdict[str, list[str]] = defaultdict(list)
    for task in snapshot.tasks:
        merge = merge_of(task)
        who = merge.by if merge is not None else owner_of(task, snapshot.team.name)
        if who is not None and is_done(task):
            done[who].append(task.id)
    agents: dict[str, Member | None] = {
        view.member.name: view.member for view in snapshot.members if view.member.agent is not None
    }
    # Whoever has left used something all the same.
    agents |= {name: None for name, usage in used.items() if name not in agents and usage.turns}
    return tuple(
        _member(name, member, tuple(done[name]), used, working[name], alive[name])
        for name, member in agents.items()
    )


def _member(
    name: str,
    member: Member | None,
    tasks: tuple[str, ...],
    used: dict[str, Usage],
    working_ms: int,
    alive_ms: int,
) -> MemberLine:
    agent = None if member is None else member.agent
    spec = None if agent is None else agent.asked
    ended = agent is not None and agent.phase == "ended"
    return MemberLine(
        name=name,
        driver=None if spec is None else spec.driver,
        model=None if spec is None else spec.model,
        state="left" if agent is None else (agent.end or "ended") if ended else agent.phase,
        cause=agent.cause if agent is not None and ended else None,
        tasks=tasks,
        used=used.get(name, Usage.new()),
        working_s=working_ms / 1000,
        waiting_s=max(0, alive_ms - working_ms) / 1000,
        restarts=0 if agent is None else agent.launch - 1,
    )


def _times(events: Sequence[Event], now_ms: int) -> tuple[Counter[str], Counter[str]]:
    """For how many milliseconds each agent had a turn, and was there."""
    working, alive = Counter[str](), Counter[str]()
    turns: dict[str, int] = {}
    lives: dict[str, int] = {}
    for event in events:
        at = ms_of(event.time)
        if at is None or not event.op.startswith("agent."):
            continue
        for change in event.changes:
            if not isinstance(change, PutMember):
                continue
            name = change.member.name
            if event.op == "agent.ready":
                lives.setdefault(name, at)
            elif event.op == "agent.turn":
                turns.setdefault(name, at)
            elif event.op == "agent.idle" or event.op in _LEAVES:
                working[name] += at - turns.pop(name, at)
                if event.op in _LEAVES:
                    alive[name] += at - lives.pop(name, at)
    for name, at in turns.items():
        working[name] += max(0, now_ms - at)
    for name, at in lives.items():
        alive[name] += max(0, now_ms - at)
    return working, alive


def _merges(events: Sequence[Event]) -> tuple[MergeLine, ...]:
    return tuple(
        MergeLine(task.id, merge.by, merge.landed or merge.commit, event.time)
        for event in events
        for task in _tasks_of(event, "merge.land")
        if (merge := merge_of(task)) is not None
    )


def _tasks_of(event: Event, op: str) -> list[Task]:
    """The tasks that an event changed, if it is one of that kind."""
    if event.op != op:
        return []
    return [change.task for change in event.changes if isinstance(change, PutTask)]


def _needs(snapshot: Snapshot, tasks: Iterable[TaskLine]) -> list[str]:
    """What a person has to see to, as far as the team's records say."""
    which = f"-t {snapshot.team.name}"
    found = [
        f"{request.sender} waits for an answer: bullpen requests {which}"
        for request in snapshot.pending
    ]
    found += [
        f"task #{line.id} was given up ({line.why}): bullpen task retry {line.id} {which}"
        for line in tasks
        if line.state == "given_up"
    ]
    found += [
        f"task #{line.id} was called completed without its checks: bullpen task show {line.id}"
        f" {which}"
        for line in tasks
        if line.state == "unproven"
    ]
    found += [
        f"{view.member.name} failed: {agent.cause}"
        for view in snapshot.members
        if (agent := view.member.agent) is not None
        and agent.phase == "ended"
        and agent.end == "failed"
        and view.member.name != LEAD
    ]
    return found
