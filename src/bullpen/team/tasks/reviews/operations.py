"""Reviews in the team's records. A review and its cost are one commit."""

from __future__ import annotations

from collections.abc import Sequence

from bullpen.protocol.agent import Spent
from bullpen.protocol.changes import Change, PutTask, PutTeam
from bullpen.protocol.record.review import Review
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.tasks.reviews import rules


class Reviews(TeamPart):
    """The reviews of one team. `by` is who completes the task, or the lead for the merge queue."""

    @operation
    async def record(
        self,
        task_id: str,
        review: Review,
        used: Sequence[Spent],
        *,
        by: str,
        voice: Voice = "agent",
    ) -> Task:
        """Record a review of a task, and book its cost on that task.

        Raises:
            Refused: as completing the task does; same_reviewer, if the reviewer has the driver and
                the model of the author.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = rules.recorded(view, task_id, review, by=by, voice=voice, now_ms=now)
            changes: list[Change] = [PutTask(task)]
            if used:
                facts = view.team.facts.evolve(spent=rules.booked(view.team, task, used))
                changes.append(PutTeam({"bullpen": facts.raw}))
            return task, changes

        return await self._settle(decide, by=by, op="task.review")
