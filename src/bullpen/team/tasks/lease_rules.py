"""Which leases have expired. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.team.lookup import Actor
from bullpen.team.tasks.rules import LEASE_OVER, released


def expired(
    view: View, *, by: str, now_ms: int, over: Mapping[str, int] | None = None
) -> list[Task]:
    """Return all tasks in progress whose lease has expired, released.

    `over` are the leases that a watcher judged to be over; one that was renewed since is not. Only
    the lead's word counts against the clock.
    """
    leads = Actor.of(view.team, by).lead

    def is_over(task_id: str, until_ms: int) -> bool:
        judged = over is None or over.get(task_id) == until_ms
        return judged and (until_ms <= now_ms or (leads and over is not None))

    return [
        released(task, LEASE_OVER)
        for task in view.tasks().values()
        if task.status == "in_progress"
        and task.facts.lease_until_ms is not None
        and is_over(task.id, task.facts.lease_until_ms)
    ]
