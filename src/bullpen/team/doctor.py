"""Finds damage that only the rules can see: broken dependencies, cycles, wrong owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from bullpen.errors import Unreadable
from bullpen.protocol.changes import Change, PutTask
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Finding, Store, TeamState, View
from bullpen.team.lookup import find, owner_of
from bullpen.team.operation.commit import settle
from bullpen.team.tasks import check_rules, edges, graph, rules


async def checkup(store: Store, team: str, *, fix: bool, by: str) -> list[Finding]:
    """Look for damage. With `fix`, repair in one commit everything that needs no decision.

    Cycles are only reported: a person must decide which dependency to remove.
    """

    def decide(view: View) -> tuple[list[Finding], Sequence[Change]]:
        examination = _Examination.of(view, team)
        return list(examination.findings()), examination.changes()

    if fix:
        return await settle(store, team, decide, by=by, op="doctor")
    # Looking writes nothing, so that a read-only copy can be looked at.
    findings, _ = decide(_StateView(await store.read(team)))
    return [_unmended(finding) for finding in findings]


class _StateView:
    """A team that was read, as a view."""

    def __init__(self, state: TeamState) -> None:
        self._state = state
        self._damaged = {PurePath(problem.where).stem: problem for problem in state.problems}

    @property
    def team(self) -> TeamConfig:
        return self._state.team

    def task(self, task_id: str) -> Task | None:
        task = self._state.tasks.get(task_id)
        if task is None and (problem := self._damaged.get(task_id)) is not None:
            raise Unreadable(problem.where, problem.why)
        return task

    def tasks(self) -> Mapping[str, Task]:
        return self._state.tasks

    def request(self, request_id: str) -> Request | None:
        return self._state.requests.get(request_id)

    def requests(self) -> Mapping[str, Request]:
        return self._state.requests

    def note(self, name: str) -> Note | None:
        return self._state.notes.get(name)

    def notes(self) -> Mapping[str, Note]:
        return self._state.notes

    @property
    def next_task_id(self) -> int:
        raise NotImplementedError("nothing is created")


@dataclass(slots=True)
class _Examination:
    """The tasks as they are and, after `findings`, as they should be."""

    view: View
    folder: str
    before: dict[str, Task]
    after: dict[str, Task]

    @classmethod
    def of(cls, view: View, folder: str) -> _Examination:
        tasks = dict(view.tasks())
        return cls(view, folder, tasks, dict(tasks))

    def changes(self) -> list[Change]:
        return [
            PutTask(task) for task_id, task in self.after.items() if task != self.before[task_id]
        ]

    def findings(self) -> Iterator[Finding]:
        yield from self._unknown_ends()
        for walk in graph.circles(self.after.values()):
            shown = " -> ".join([*walk, walk[0]])
            yield Finding(
                "cycle", self._where(walk[0]), f"tasks depend on each other in a cycle: {shown}"
            )
        yield from self._half_edges()
        yield from self._owners()
        yield from self._unproven()

    def _where(self, task_id: str) -> str:
        return f"tasks/{self.folder}/{task_id}.json"

    def _unknown_ends(self) -> Iterator[Finding]:
        for task in self.before.values():
            named = dict.fromkeys((*task.blocked_by, *task.blocks))
            gone = {other for other in named if not self._exists(other)}
            for other in (other for other in named if other in gone):
                verb = "depends on" if other in task.blocked_by else "blocks"
                yield Finding(
                    "unknown_edge",
                    self._where(task.id),
                    f"task {task.id!r} {verb} {other!r}, which does not exist",
                    fixed=True,
                    action=f"removed the reference to {other!r}",
                )
            self.after[task.id] = edges.without_references(task, gone)

    def _exists(self, task_id: str) -> bool:
        try:
            return task_id in self.before or find(self.view, task_id) is not None
        except Unreadable:
            # The file exists; its content is checked elsewhere.
            return True

    def _half_edges(self) -> Iterator[Finding]:
        """Find dependencies recorded in one task only. Skip one that would complete a cycle."""
        waits = graph.blockers(self.after.values())
        stuck = graph.stuck(self.after.values())
        for waiter_id, blocker_ids in waits.items():
            for blocker_id in blocker_ids:
                waiter, blocker = self.after[waiter_id], self.after[blocker_id]
                if blocker_id in waiter.blocked_by and waiter_id in blocker.blocks:
                    continue
                mends = waiter_id not in stuck
                if mends:
                    self.after[waiter_id] = edges.with_blocker(waiter, blocker_id)
                    self.after[blocker_id] = edges.with_waiter(blocker, waiter_id)
                yield Finding(
                    "one_ended_edge",
                    self._where(waiter_id if blocker_id in waiter.blocked_by else blocker_id),
                    f"only one of the two tasks records that {waiter_id!r} depends on "
                    f"{blocker_id!r}",
                    fixed=mends,
                    action="recorded it in both" if mends else "break the cycle first",
                )

    def _owners(self) -> Iterator[Finding]:
        members = _names(self.view.team)
        for task in list(self.after.values()):
            if task.status == "completed" or task.is_internal:
                continue
            owner = owner_of(task, self.view.team.name)
            if owner is None and task.status == "in_progress":
                kind, what = "no_owner", f"task {task.id!r} is in progress but has no owner"
            elif owner is not None and owner not in members:
                kind, what = (
                    "unknown_owner",
                    f"task {task.id!r} is owned by {owner!r}, who is not a member",
                )
            else:
                continue
            self.after[task.id] = rules.released(task, "released by doctor")
            yield Finding(
                kind, self._where(task.id), what, fixed=True, action="made it pending again"
            )

    def _unproven(self) -> Iterator[Finding]:
        """Find tasks that another program completed without running their checks."""
        for task in filter(check_rules.is_unproven, self.after.values()):
            names = ", ".join(map(repr, check_rules.missing(task)))
            yield Finding(
                "unproven_task",
                self._where(task.id),
                f"task {task.id!r} is {check_rules.UNPROVEN}, so it does not count as done: "
                f"{names} did not pass",
                action=f"run the checks: bullpen task done {task.id}; or start again: bullpen task "
                f"release {task.id}",
            )


def _unmended(finding: Finding) -> Finding:
    """Return the findings when nothing is to be repaired."""
    return replace(finding, fixed=False, action="") if finding.fixed else finding


def _names(team: TeamConfig) -> set[str]:
    """Return the names of all members, including those whose entry cannot be read."""
    rows = (row.get("name") for row in team.members if isinstance(row, dict))
    return {name for name in rows if isinstance(name, str)}
