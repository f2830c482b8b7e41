"""What a team did, from its records and its log: tasks, members, merges, cost, open points. Pure.

Usage is the same as in `bullpen cost`; times are those between events.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bullpen.protocol.agent import OLDER, Usage
from bullpen.protocol.changes import Event, PutMember, PutRequest, PutTask
from bullpen.protocol.clock import iso, ms_of
from bullpen.protocol.names import LEAD, task_order
from bullpen.protocol.request import Request
from bullpen.protocol.task import Merge, Task
from bullpen.protocol.team import RunStatus, TeamConfig
from bullpen.store.events.checkpoint import is_begin
from bullpen.team.agents.verdict import Verdict, verdict_of
from bullpen.team.budget.cost import Allowance, cost_of
from bullpen.team.budget.saved import Saved, WorkedTask, saved
from bullpen.team.lookup import owner_of
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks.check_rules import is_done, is_queued
from bullpen.team.tasks.dispatch_rules import WEIGHTS
from bullpen.team.tasks.merge_rules import unchanged
from bullpen.team.tasks.rules import open_blockers
from bullpen.team.tasks.stall_rules import blocked_for_good
from bullpen.view.cards import MemberCard, TaskCard, member_card, task_card
from bullpen.view.task_state import TaskState
from bullpen.view.text import shortened

_WORK = ("agent.", "task.", "merge.", "team.finish")
_NAMES_MAX = 5
_LEAVES = ("agent.end", "agent.withdraw")


@dataclass(frozen=True, slots=True)
class MergeLine:
    """The work of a task that was merged into the target."""

    task: str
    by: str
    commit: str
    at: str


@dataclass(frozen=True, slots=True)
class WorktreeLine:
    """A worktree or clone of an agent that has ended, and its branch."""

    agent: str
    path: str
    branch: str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a team did."""

    team: str
    goal: str | None
    file: str | None
    # How its run ended, or that it is at work, and why if not everything was done.
    verdict: Verdict
    began: str | None
    until: str
    tasks: tuple[TaskCard, ...]
    members: tuple[MemberCard, ...]
    merges: tuple[MergeLine, ...]
    used: Usage
    limits: tuple[Allowance, ...]
    # What needs a person's attention, in words.
    needs: tuple[str, ...]
    # What is left on this machine of agents that have ended.
    worktrees: tuple[WorktreeLine, ...] = ()
    # What the lead, or the person who ended it, says of it.
    result: str | None = None
    # What the team saved over one agent, if it was chosen for each task who works on it.
    saved: Saved | None = None
    # What changed in its repository since it began, in words; None outside of one.
    changed: str | None = None

    @property
    def status(self) -> RunStatus:
        return self.verdict.status

    @property
    def cause(self) -> str | None:
        return self.verdict.why

    @property
    def removal(self) -> str | None:
        """Return the command that removes the worktrees; None if there are none."""
        return f"bullpen workspace remove --all -t {self.team}" if self.worktrees else None

    @property
    def counts(self) -> dict[TaskState, int]:
        return dict(Counter(line.state for line in self.tasks))

    @property
    def seconds(self) -> float:
        began = ms_of(self.began) if self.began is not None else None
        now = ms_of(self.until)
        return 0.0 if began is None or now is None else max(0.0, (now - began) / 1000)

    @property
    def row(self) -> dict[str, Any]:
        plain = ("team", "goal", "file", "status", "cause", "began", "until")
        return {
            **{name: getattr(self, name) for name in plain},
            "tasks": [_task_row(card) for card in self.tasks],
            "members": [_member_row(card) for card in self.members],
            "merges": [asdict(line) for line in self.merges],
            "used": self.used.raw,
            "limits": [asdict(limit) for limit in self.limits],
            "needs": list(self.needs),
            "worktrees": [asdict(line) for line in self.worktrees],
            "result": self.result,
            "saved": None if self.saved is None else asdict(self.saved),
            "counts": self.counts,
            "seconds": self.seconds,
        }


def _task_row(card: TaskCard) -> dict[str, Any]:
    return {
        "id": card.id,
        "subject": card.subject,
        "state": card.state,
        "by": card.by,
        "commit": card.commit,
        "why": card.why,
        "attempts": card.attempt,
        "returned": card.returned,
        "relieved": list(card.relieved),
        "used": None if card.usage is None else card.usage.raw,
    }


def _member_row(card: MemberCard) -> dict[str, Any]:
    return {
        "name": card.name,
        "driver": card.driver,
        "model": card.model,
        "state": card.outcome,
        "cause": card.cause,
        "tasks": list(card.completed),
        "used": card.usage.raw,
        "workingS": card.working_s,
        "waitingS": card.waiting_s,
        "restarts": card.restarts,
    }


def summed_up(
    snapshot: Snapshot,
    events: Sequence[Event],
    *,
    verdict: Verdict | None = None,
    needs: Iterable[str] = (),
    worktrees: Iterable[WorktreeLine] = (),
    changed: str | None = None,
) -> Summary:
    """What a team did until the moment of the snapshot, with all or the last events until then.

    If the log begins later, working times and how often work came back are counted from there.

    `verdict` says how its run ended, if the caller knows; otherwise the records do. `needs` are
    further points that need a person's attention, `worktrees` those that still exist, and
    `changed` is what changed in its repository, in words.
    """
    team = snapshot.team
    cost = cost_of(team, snapshot.tasks, now_ms=snapshot.taken_ms)
    used_for = {line.name: line.used for line in cost.tasks}
    is_short = OLDER in used_for
    used_by = {line.name: line.used for line in cost.agents}
    came_back = Counter(
        task.id
        for event in events
        for task in _tasks_of(event, "merge.return", "forge.return")
        if task.status == "pending"
    )
    by_id = {task.id: task for task in snapshot.tasks}
    tasks = [
        task_card(
            task,
            team.name,
            open_blockers(task, by_id.get),
            returned=came_back[task.id],
            usage=used_for.get(task.id, None if is_short and is_done(task) else Usage.new()),
        )
        for task in snapshot.tasks
    ]
    origin = team.facts.origin
    result = team.facts.finished
    at_work = any(
        (agent := view.member.agent) is not None and agent.phase != "ended"
        for view in snapshot.members
    )
    return Summary(
        team=team.name,
        goal=team.description or None,
        file=None if origin is None else origin.file,
        verdict=verdict or verdict_of(team, snapshot.tasks, snapshot.pending),
        result=None if result is None else result.summary or None,
        began=_began(snapshot, events),
        until=iso(snapshot.taken_ms) if at_work or not events else _last_work(events),
        tasks=tuple(sorted(tasks, key=lambda line: task_order(line.id))),
        members=_members(snapshot, events, used_by),
        merges=_merges(events, snapshot.tasks),
        used=cost.total,
        limits=tuple(each for each in cost.allowances if each.scope == "team"),
        needs=(*_needs(snapshot, tasks), *_denied(events, team.name), *needs),
        worktrees=tuple(worktrees),
        changed=changed,
        saved=_saved(events, snapshot.tasks, used_for, cost.coordination),
    )


def _saved(
    events: Sequence[Event], tasks: Iterable[Task], used: dict[str, Usage], coordination: Usage
) -> Saved | None:
    """Return what the team saved; None if nobody chose who works on the tasks."""
    shaped = {task.id: task for task in tasks if task.facts.shape is not None and is_done(task)}
    began: dict[str, int] = {}
    ended: dict[str, int] = {}
    for event in events if shaped else ():
        at = ms_of(event.time)
        for change in event.changes:
            if at is None or not isinstance(change, PutTask) or change.task.id not in shaped:
                continue
            status = change.task.status
            if status == "in_progress":
                began.setdefault(change.task.id, at)
            elif status == "completed":
                ended.setdefault(change.task.id, at)
            else:
                # It came back, or was freed.
                ended.pop(change.task.id, None)
    worked = [
        WorkedTask(
            began[key] / 1000,
            ended[key] / 1000,
            WEIGHTS[task.facts.effort or "medium"],
            used.get(key, Usage.new()).cost_usd,
            alone=task.facts.shape is not None and task.facts.shape.shape != "team",
        )
        for key, task in shaped.items()
        if key in began and key in ended
    ]
    return saved(worked, coordination.cost_usd)


def _members(
    snapshot: Snapshot, events: Sequence[Event], used: dict[str, Usage]
) -> tuple[MemberCard, ...]:
    working, alive = _times(events, snapshot.taken_ms)
    done: defaultdict[str, list[str]] = defaultdict(list)
    for task in snapshot.tasks:
        merge = task.facts.merge
        who = merge.by if merge is not None else owner_of(task, snapshot.team.name)
        if who is not None and is_done(task):
            done[who].append(task.id)
    cards = [
        member_card(view.member, view.state, view.since_ms)
        for view in snapshot.members
        if view.member.agent is not None
    ]
    known = {card.name for card in cards}
    # Members that have left are part of the cost.
    gone = [name for name, usage in used.items() if name not in known and usage.turns]
    cards += [
        MemberCard(name=name, lead=False, color=None, state="unknown", since_ms=None)
        for name in gone
    ]
    return tuple(
        replace(
            card,
            usage=used.get(card.name, Usage.new()),
            completed=tuple(done[card.name]),
            working_s=working[card.name] / 1000,
            waiting_s=max(0, alive[card.name] - working[card.name]) / 1000,
        )
        for card in cards
    )


def _times(events: Sequence[Event], now_ms: int) -> tuple[Counter[str], Counter[str]]:
    """For how many milliseconds each agent worked in a turn, and was running."""
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


def _began(snapshot: Snapshot, events: Sequence[Event]) -> str | None:
    created = snapshot.team.created_at
    if events and is_begin(events[0], 0) and created is not None:
        return iso(int(created))
    return events[0].time if events else None


def _last_work(events: Sequence[Event]) -> str:
    """When something last happened to an agent, a task or a merge: looking again is no work."""
    worked = (event.time for event in reversed(events) if event.op.startswith(_WORK))
    return next(worked, events[-1].time)


def _merges(events: Sequence[Event], tasks: Iterable[Task]) -> tuple[MergeLine, ...]:
    # What the merge queue merged ends on the forge later.
    first: dict[tuple[str, str], MergeLine] = {}
    for event in events:
        for task in _tasks_of(event, "merge.land", "forge.settle"):
            merge = task.facts.merge
            if merge is not None and merge.state == "merged":
                commit = merge.landed or merge.commit
                first.setdefault(
                    (task.id, commit), MergeLine(task.id, merge.by, commit, event.time)
                )
    told = list(first.values())
    if not (events and is_begin(events[0], 0)):
        return tuple(told)
    known = {line.task for line in told}
    earlier = [
        MergeLine(task.id, merge.by, merge.landed or merge.commit, iso(_merged_ms(merge)))
        for task in tasks
        if task.id not in known
        and (merge := task.facts.merge) is not None
        and merge.state == "merged"
    ]
    return (*sorted(earlier, key=lambda line: line.at), *told)


def _merged_ms(merge: Merge) -> int:
    """When work was merged; when it was handed in if its last steps were dropped."""
    return next((s.at_ms for s in reversed(merge.steps) if s.what == "merged"), merge.at_ms)


def _tasks_of(event: Event, *ops: str) -> list[Task]:
    """The tasks that an event of one of these kinds changed."""
    changes = event.changes if event.op in ops else ()
    return [change.task for change in changes if isinstance(change, PutTask)]


def _given_up(lines: Sequence[TaskCard], which: str) -> Iterator[str]:
    """The tasks that were given up, each with those that wait for it: a retry brings them back."""
    because = {blocked_for_good(line.id): line.id for line in lines}
    # In the order of their ids: a task is nearly always younger than the one that it waits for.
    first: dict[str, str] = {}
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        blocker = because.get(line.why or "")
        if blocker is not None:
            first[line.id] = first.get(blocker, blocker)
            waiting[first[line.id]].append(f"#{line.id}")
    for line in lines:
        if line.id not in first or waiting[line.id]:
            more = f", and with it {', '.join(waiting[line.id])}" if waiting[line.id] else ""
            yield (
                f"task #{line.id} was given up ({line.why}){more}: bullpen task retry {line.id}"
                f" {which}"
            )


def held_by_gate(team: TeamConfig, tasks: Iterable[Task]) -> str | None:
    """Return how many tasks wait because the target itself fails the gate; None if none does.

    Work that breaks the gate is returned to its owner. It stays queued only if the gate fails
    without it too.
    """
    merge = team.facts.merge
    queued = [record for task in tasks if is_queued(task) and (record := task.facts.merge)]
    red = [record for record in queued if record.steps and record.steps[-1].passed is False]
    if merge is None or not red:
        return None
    waits = "1 task waits" if len(queued) == 1 else f"{len(queued)} tasks wait"
    said = [line.strip() for line in (red[0].steps[-1].detail or "").splitlines() if line.strip()]
    why = f" ({shortened(said[-1])})" if said else ""
    return f"{waits} to be merged: {merge.target} fails its gate{why}"


def _denied(events: Iterable[Event], team: str) -> list[str]:
    """Return how many tool calls code denied, and of what: nobody was there to allow them."""
    last = {
        change.request.id: (change.request, event.op)
        for event in events
        for change in event.changes
        if isinstance(change, PutRequest)
    }
    denied = [
        _called(request)
        for request, op in last.values()
        if request.kind == "permission"
        # Somebody who interrupts a turn knows that its calls are not made.
        and op != "request.withdraw"
        and (
            request.state == "expired" or (request.state == "denied" and request.voice == "policy")
        )
    ]
    if not denied:
        return []
    calls = "1 call" if len(denied) == 1 else f"{len(denied)} calls"
    names = list(dict.fromkeys(denied))
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return [
        f"denied: {calls} ({', '.join(names[:_NAMES_MAX])}{more}): bullpen requests --all -t {team}"
    ]


def _called(request: Request) -> str:
    """Return what a call would have used: the first word of a command, else the tool."""
    asked = request.subject.get("input")
    command = asked.get("command") if isinstance(asked, dict) else None
    words = command.split() if isinstance(command, str) else []
    return shortened(words[0] if words else str(request.subject.get("toolName") or "a tool"))


def _report_of(task: Task) -> str:
    """Return the beginning of what its owner said about a task, in quotes."""
    return f' ("{shortened(task.facts.report)}")' if task.facts.report else ", and without a report"


def _needs(snapshot: Snapshot, tasks: Iterable[TaskCard]) -> list[str]:
    """What needs a person's attention, as far as the team's records say."""
    which = f"-t {snapshot.team.name}"
    found = [
        f"{request.sender} waits for an answer: bullpen requests {which}"
        for request in snapshot.pending
    ]
    if (held := held_by_gate(snapshot.team, snapshot.tasks)) is not None:
        found.append(f"{held}: bullpen merge log {which}")
    found += _given_up([line for line in tasks if line.state == "given_up"], which)
    found += [
        f"task #{line.id} was marked completed without its checks: bullpen task show {line.id}"
        f" {which}"
        for line in tasks
        if line.state == "unproven"
    ]
    found += [
        f"task #{task.id} was completed without a change{_report_of(task)}: "
        f"bullpen task show {task.id} {which}"
        for task in unchanged(snapshot.team, snapshot.tasks)
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
