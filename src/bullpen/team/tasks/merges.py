"""The merge queue in the team's records. Each step is one commit.

`bullpen.workspace.merge_queue` rebases, tests and moves the target. This module only keeps the
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bullpen.by_name import load
from bullpen.protocol.agent import Workspace
from bullpen.protocol.changes import Change, Deliver, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.task import ReturnedFor, Step, Task
from bullpen.protocol.team import MergeSettings, TeamFacts
from bullpen.store.contract import View
from bullpen.team.mail.operations import new_message
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.tasks import merge_rules
from bullpen.team.tasks.guarded_rules import Guard, guard_of

if TYPE_CHECKING:
    from bullpen.team.promises.at_merge import Promised


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the queue has to do: merge queued work, and run the command for merged work.

    `trees` are the worktrees of the members.
    """

    line: list[Task]
    untold: list[Task]
    trees: dict[str, Workspace]
    # What a person has to approve, and what people have approved.
    guard: Guard
    # What members promised each other.
    promised: Promised
    # What waits for promised work, in words.
    held: list[str]


class Merges(TeamPart):
    """The work of one team on its way to the target."""

    @operation
    async def configure(
        self, settings: MergeSettings, *, by: str, voice: Voice = "agent"
    ) -> MergeSettings:
        """Set the target branch and the merge gate. `voice` says who acts.

        Raises:
            Refused: not_a_person.
        """
        merge_rules.refuse_configuring(voice)

        def change(facts: TeamFacts, _: View) -> TeamFacts:
            return facts if facts.merge == settings else facts.evolve(merge=settings)

        await self._change_facts(change, by=by, op="merge.configure")
        return settings

    async def settings(self) -> MergeSettings | None:
        """Where work goes to; None if this team merges nothing.

        Raises:
            ValueError: the settings are damaged. A team that merges must not go on without.
        """
        facts = (await self._store.read(self._team)).team.facts
        if facts.merge is None and facts.has("merge"):
            return MergeSettings.parse(facts.raw["merge"])
        return facts.merge

    async def waiting(self) -> Waiting:
        """Return what the queue has to do, as of one moment."""
        view = await self._store.read(self._team)
        trees = {
            member.name: tree
            for member in view.team.roster
            if member.agent is not None and (tree := member.agent.spec.workspace) is not None
        }
        tasks = list(view.tasks.values())
        guard = guard_of(view.team, view.requests.values())
        kind: type[Promised] = load("bullpen.team.promises.at_merge:Promised")
        promised = kind(view.team.name, dict(view.tasks))
        line, held = promised.in_order(merge_rules.queue_order(tasks))
        return Waiting(line, merge_rules.untold(tasks), trees, guard, promised, held)

    async def line(self) -> list[Task]:
        """Return the tasks whose work is queued, in order."""
        return merge_rules.queue_order((await self._store.read(self._team)).tasks.values())

    @operation
    async def note(self, steps: Mapping[str, Sequence[Step]], attempts: Mapping[str, int]) -> None:
        """Record what was done with the work of some tasks.

        Raises:
            Refused: not_queued, if one of them is no longer queued.
        """
        await self._each(
            steps,
            lambda task: merge_rules.noted(task, attempts[task.id], steps[task.id]),
            op="merge.note",
        )

    @operation
    async def about_to_land(
        self,
        commits: Mapping[str, str],
        attempts: Mapping[str, int],
        steps: Mapping[str, Sequence[Step]],
    ) -> None:
        """Record each task's commit on the target, just before the target moves.

        Raises:
            Refused: not_queued, if one of them is no longer queued.
        """
        await self._each(
            commits,
            lambda task: merge_rules.about_to_land(
                task, attempts[task.id], commits[task.id], steps.get(task.id, ())
            ),
            op="merge.try",
        )

    @operation
    async def landed(
        self, attempts: Mapping[str, int], steps: Sequence[Step], *, tell: bool
    ) -> None:
        """Record that the work of these tasks is merged: they are done.

        A task that has left the queue is not changed. With `tell`, a command must be run for them.
        """
        await self._each_if(
            attempts,
            lambda task: merge_rules.landed(task, attempts[task.id], steps, tell=tell),
            op="merge.land",
        )

    @operation
    async def told(self, ids: Iterable[str], step: Step, *, passed: bool) -> None:
        """Record the result of the after-merge command for these tasks."""
        await self._each_if(
            ids, lambda task: merge_rules.told(task, passed, step), op="merge.after"
        )

    @operation
    async def give_back(
        self,
        task_id: str,
        attempt: int,
        why: ReturnedFor,
        detail: str,
        *,
        files: Sequence[str] = (),
        steps: Sequence[Step] = (),
    ) -> Task:
        """Give work back to its owner, who is told in the same commit.

        Raises:
            Refused: not_queued.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = _in_line(view, task_id)
            record = task.facts.merge
            owner = None if record is None else record.by
            there = owner is not None and view.team.member(owner) is not None
            back = merge_rules.returned(
                task, attempt, why, detail, files, steps, owner=owner if there else None
            )
            changes: list[Change] = [PutTask(back)]
            if owner is not None and there:
                text = _told(back, why, detail, files)
                message = new_message(
                    text, team=view.team, sender=LEAD, message_id=message_id, now_ms=now
                )
                changes.append(Deliver(owner, message, fresh=True))
            return back, changes

        return await self._settle(decide, by=LEAD, op="merge.return")

    async def _each(
        self, ids: Mapping[str, object], rule: Callable[[Task], Task], *, op: str
    ) -> None:
        def decide(view: View) -> tuple[None, list[Change]]:
            return None, [PutTask(rule(_in_line(view, task_id))) for task_id in ids]

        await self._settle(decide, by=LEAD, op=op)

    async def _each_if(
        self, ids: Iterable[str], rule: Callable[[Task], Task | None], *, op: str
    ) -> None:
        wanted = list(ids)

        def decide(view: View) -> tuple[None, list[Change]]:
            there = [task for task_id in wanted if (task := view.task(task_id)) is not None]
            after = [changed for task in there if (changed := rule(task)) is not None]
            return None, [PutTask(task) for task in after]

        await self._settle(decide, by=LEAD, op=op)


def _in_line(view: View, task_id: str) -> Task:
    task = view.task(task_id)
    if task is None:
        raise merge_rules.not_queued(task_id)
    return task


def _told(task: Task, why: ReturnedFor, detail: str, files: Sequence[str]) -> str:
    """Return what the owner of returned work reads."""
    if why == "conflict":
        named = ", ".join(files) or "the same lines"
        what = f"conflicts with what others merged since, in {named}"
    elif why == "checks":
        what = "fails on the target with what others merged since"
    elif why == "guarded":
        what = f"changes guarded paths in a way that no person approved: {', '.join(files)}"
    elif why == "promise":
        what = "does not fit what members promised each other"
    elif why == "nothing":
        what = "changes nothing on the target: all of it is there already"
    else:
        what = "is in no repository that the merge queue can reach"
    kept = (
        ""
        if why == "missing"
        else " your worktree will hold your work on top of the newest target."
    )
    then = f". When you claim it,{kept} Fix it" if kept else ". Do it again"
    return (
        f"Task #{task.id} came back from the merge queue: your work {what}. It is pending and "
        f"still assigned to you{then} and complete the task again.\n\n{detail}"
    )
