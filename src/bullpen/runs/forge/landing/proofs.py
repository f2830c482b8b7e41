"""Which work has to pass our own checks before a forge gets it or merges it.

The worker of the forge says what is wanted, and the queue that tests reads it. What passed is in
the team's records, so nothing here has to outlive a kill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bullpen.protocol.task import Task
from bullpen.team.tasks.check_rules import is_queued
from bullpen.team.tasks.merge_rules import last_proof
from bullpen.workspace.merge_queue.attempts import Wanted

NO_GATE = "there is no merge gate: only what CI passes is merged, and a person is asked otherwise"
NO_TESTS = (
    "there is neither a merge gate nor CI: nothing is merged, and a person is asked. Set gate in "
    "[merge] of the team file, or run: bullpen merge set --gate COMMAND"
)
"""What a team says at its start whose work is merged on the forge, and not tested here."""

TARGET_AGAIN_S = 60.0
"""After how long work that could not be tested yet is tested on a newer target."""

_MERGE_S = 120.0
"""How long the forge has to merge what passed, before other work is tested for its merge."""


@dataclass(slots=True)
class _Again:
    """Work that only has to pass on the newest target to be merged."""

    task: str
    onto: str
    asked_s: float
    passed_s: float | None = None


class Proofs:
    """The work of one team that has to pass on the forge's target.

    Before its pull request, work passes once. Before its merge it passes on the newest target, one
    task at a time: each merge moves the target, and what others had passed would count no more.
    """

    def __init__(self) -> None:
        self._first: dict[str, Wanted] = {}
        self._attempts: dict[str, int] = {}
        self._again: _Again | None = None

    def wanted(self) -> Mapping[str, Wanted]:
        """Return what has to pass, by task."""
        again = self._again
        if again is None:
            return dict(self._first)
        return {**self._first, again.task: Wanted(again.onto, anew=True)}

    def is_new(self, task: Task) -> bool:
        """Return whether nobody asked yet for tests of this work before its pull request."""
        return self._attempts.get(task.id) != task.facts.attempt

    def before_pull(self, tasks: Iterable[Task], onto: str) -> None:
        """Ask that exactly these tasks pass on this commit of the target, or on a newer one."""
        found = list(tasks)
        self._first = {task.id: Wanted(onto) for task in found}
        self._attempts = {task.id: task.facts.attempt for task in found}

    def may_merge(self, task: Task, now_s: float) -> bool:
        """Return whether it is worth looking whether a task can be merged now.

        While it is tested, that is once a minute: the target may have moved.
        """
        again = self._again
        if again is None or again.task != task.id:
            return again is None
        return _passed_on(task) == again.onto or now_s - again.asked_s >= TARGET_AGAIN_S

    def before_merge(self, task_id: str, onto: str, now_s: float) -> None:
        """Ask that a task passes on this commit, unless another one is about to be merged."""
        again = self._again
        if again is None or (again.task == task_id and again.onto != onto):
            self._again = _Again(task_id, onto, now_s)
        elif again.task == task_id:
            again.asked_s = now_s

    def passed(self, tasks: Iterable[Task], now_s: float) -> str | None:
        """Return the task that has just passed and can be merged now; let others have their turn
        when it is merged or returned, or the forge does not merge it.
        """
        again = self._again
        if again is None:
            return None
        task = next((each for each in tasks if each.id == again.task), None)
        work = None if task is None else task.facts.forge
        if task is None or not is_queued(task) or (work is not None and work.person is not None):
            self._again = None
        elif _passed_on(task) != again.onto:
            again.passed_s = None
        elif again.passed_s is None:
            again.passed_s = now_s
            return again.task
        elif now_s - again.passed_s > _MERGE_S:
            self._again = None
        return None


def _passed_on(task: Task) -> str | None:
    """Return where the work of a task passed last. Its merge asks whether that still counts."""
    proof = None if task.facts.merge is None else last_proof(task.facts.merge)
    return None if proof is None else proof.onto


def all_held(tasks: Iterable[Task]) -> str | None:
    """Return why nothing that was handed in goes on without a person; None if something does."""
    queued = [task for task in tasks if is_queued(task)]
    works = [task.facts.forge for task in queued]
    if not queued or any(work is None or work.person is None for work in works):
        return None
    return (
        f"a person has to look at {', '.join(f'#{task.id}' for task in queued[:20])} on the forge"
    )
