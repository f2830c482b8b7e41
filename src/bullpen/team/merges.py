"""The merge queue as the team knows it: every step of it in one commit.

Who rebases, tests and moves the target is `bullpen.workspace.queue`; here is only the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bullpen.protocol.changes import Change, Deliver, PutTask, PutTeam
from bullpen.protocol.merge import MergeSettings, ReturnedFor, Step, merge_of
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.protocol.workspace import Workspace
from bullpen.store.base import View
from bullpen.team import merge_rules
from bullpen.team.decision import Part
from bullpen.team.notices import prompt


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the queue has to see to: work in line, and work on the target that nobody was told of.

    `trees` are those that the members work in.
    """

    line: list[Task]
    untold: list[Task]
    trees: dict[str, Workspace]


class Merges(Part):
    """The work of one team on its way to the target."""

    async def configure(
        self, settings: MergeSettings, *, by: str, voice: Voice = "agent"
    ) -> MergeSettings:
        """Say where work goes to, and what must hold there. `voice` says who speaks.

        Raises:
            Refused: not_a_person.
        """
        merge_rules.refuse_configuring(voice)

        def decide(view: View) -> tuple[MergeSettings, list[Change]]:
            facts = view.team.facts.evolve(merge=settings.raw)
            same = view.team.facts.merge == settings.raw
            return settings, [] if same else [PutTeam({"bullpen": facts.raw})]

        return await self._settle(decide, by=by, op="merge.configure")

    async def settings(self) -> MergeSettings | None:
        """Where work goes to; None if this team merges nothing."""
        row = (await self._store.read(self._team)).team.facts.merge
        return None if row is None else MergeSettings.parse(row)

    async def waiting(self) -> Waiting:
        """What the queue has to see to, all at one moment."""
        view = await self._store.read(self._team)
        trees = {
            member.name: tree
            for member in view.team.roster
            if member.agent is not None and (tree := member.agent.asked.tree) is not None
        }
        tasks = list(view.tasks.values())
        return Waiting(merge_rules.line(tasks), merge_rules.untold(tasks), trees)

    async def line(self) -> list[Task]:
        """The tasks whose work waits, in order."""
        return merge_rules.line((await self._store.read(self._team)).tasks.values())

    async def note(self, steps: Mapping[str, Sequence[Step]], attempts: Mapping[str, int]) -> None:
        """Record what was done with the work of some tasks.

        Raises:
            Refused: not_queued, if one of them does not wait any more.
        """
        await self._each(
            steps,
            lambda task: merge_rules.noted(task, attempts[task.id], steps[task.id]),
            op="merge.note",
        )

    async def about_to_land(
        self,
        commits: Mapping[str, str],
        attempts: Mapping[str, int],
        steps: Mapping[str, Sequence[Step]],
    ) -> None:
        """Record what the work of each task is on the target, just before the target moves.

        Raises:
            Refused: not_queued, if one of them does not wait any more.
        """
        await self._each(
            commits,
            lambda task: merge_rules.about_to_land(
                task, attempts[task.id], commits[task.id], steps.get(task.id, ())
            ),
            op="merge.try",
        )

    async def landed(
        self, attempts: Mapping[str, int], steps: Sequence[Step], *, tell: bool
    ) -> None:
        """Record that the work of these tasks is on the target: they are done.

        One that was taken out of the line meanwhile is left as it is. With `tell` a command is to
        be run for them.
        """
        await self._each_if(
            attempts,
            lambda task: merge_rules.landed(task, attempts[task.id], steps, tell=tell),
            op="merge.land",
        )

    async def told(self, ids: Iterable[str], step: Step, *, passed: bool) -> None:
        """Record how the command went that is run after a landing of these tasks."""
        await self._each_if(
            ids, lambda task: merge_rules.told(task, passed, step), op="merge.after"
        )

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
            record = merge_of(task)
            owner = None if record is None else record.by
            there = owner is not None and view.team.member(owner) is not None
            back = merge_rules.returned(
                task, attempt, why, detail, files, steps, owner=owner if there else None
            )
            changes: list[Change] = [PutTask(back)]
            if owner is not None and there:
                text = _told(back, why, detail, files)
                message = prompt(text, team=view.team, by=LEAD, message_id=message_id, now_ms=now)
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
    """What the owner of work that came back reads."""
    if why == "conflict":
        named = ", ".join(files) or "the same lines"
        what = f"contradicts what others merged meanwhile, in {named}"
    elif why == "checks":
        what = "fails on the target with what others merged meanwhile"
    else:
        what = "is in no repository that the queue can reach"
    kept = "" if why == "missing" else " your tree holds your work on the newest target."
    then = f"; when you take it,{kept} Mend it" if kept else ". Do it again"
    return (
        f"Task #{task.id} came back from the merge queue: your work {what}. It is yours and"
        f" pending again{then} and complete the task again.\n\n{detail}"
    )
