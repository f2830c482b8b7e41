"""Tests work as a forge would merge it: what a forge merges passes the same checks as our merges.

Nothing is merged here. What passed is recorded with the commit of the target that it passed with;
what fails goes back to its owner exactly as from the merge queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from anyio import CancelScope

from bullpen.errors import Refused
from bullpen.protocol.task import Merge, ReturnedFor, Task
from bullpen.team.tasks.merge_rules import proof_words, proven_on
from bullpen.workspace.git.replay_commits import Clash
from bullpen.workspace.git.task_commits import with_author
from bullpen.workspace.git.tree_changes import tree_changes
from bullpen.workspace.merge_queue.attempts import QueueEntry, Wanted
from bullpen.workspace.merge_queue.fetch import have
from bullpen.workspace.merge_queue.land import Target
from bullpen.workspace.merge_queue.lock import hold
from bullpen.workspace.merge_queue.queue import Queue, Stepped, blocking
from bullpen.workspace.merge_queue.stack import Stacked, is_there

FORGE_BENCH = "+forge"
"""The name of its test worktree in the folder of the queue."""

_FILES_MAX = 20


class ForgeQueue(Queue):
    """The queue of a team whose work is merged by a forge. It tests, and merges nothing.

    Its worktree and its lock are its own: the target may be moved during the tests.
    """

    bench = FORGE_BENCH

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one who tests for this target. Raises Conflict, which names the other."""
        with hold(self._common, f"{self._settings.target}+forge-{self._team.name}"):
            yield

    async def prove(self, wanted: Callable[[], Mapping[str, Wanted]]) -> Stepped | None:
        """Test the work that is wanted, in the order of the queue; None if there is none.

        Stops at the first that does not pass. Raises as `step`.
        """
        result: Stepped | None = None
        while (found := await self._next(wanted())) is not None:
            with self.locked():
                task, onto = found
                try:
                    result = await self._proved(task, onto)
                except Refused as error:
                    # Somebody removed the task from the queue meanwhile.
                    if error.reason != "not_queued":
                        raise
                    continue
            if result.returned or result.held is not None:
                return result
        return result

    async def _next(self, wanted: Mapping[str, Wanted]) -> tuple[Task, str] | None:
        """Return the first task in the queue that did not pass yet where it has to."""
        if not wanted:
            return None
        for task in (await self._team.merges.waiting()).line:
            asked, record = wanted.get(task.id), task.facts.merge
            if asked is None or record is None:
                continue
            passed = proven_on(task, self._settings)
            if passed != asked.onto and (asked.anew or passed is None):
                return task, asked.onto
        return None

    async def _proved(self, task: Task, onto: str) -> Stepped:
        """Test the work of one task on a commit of the forge's target."""
        waiting = await self._team.merges.waiting()
        self._promised = waiting.promised
        record = task.facts.merge
        assert record is not None
        tree = waiting.trees.get(record.by)
        target = await blocking(self._target_at, onto)
        stacked = Stacked()
        merged = await blocking(
            self._merged, task, record, target, [tree.repository] if tree is not None else []
        )
        if merged is None:
            stacked.missing.append((task, record))
        elif isinstance(merged, Clash):
            stacked.clashes.append((task, record, merged))
        elif await blocking(self._adds_nothing, merged, record, target):
            stacked.nothing.append((task, record))
        else:
            # Only its own: commits of the target here that the forge lacks are nobody's task.
            changed = await blocking(tree_changes, self._git, record.base, record.commit)
            changes = waiting.guard.changes(changed)
            unkept = self._promised.refusal(task, changed)
            if not waiting.guard.approves(changes):
                stacked.guarded.append((task, record, changes))
            elif unkept is not None:
                stacked.unkept.append((task, record, unkept))
            else:
                where = self._settings.inside if tree is None else tree.inside
                entry = QueueEntry(task, record, merged, where, target.commit)
                return await self._judged_alone(entry, target)
        returned = await self._give_back_unstacked(stacked, target)
        return Stepped(returned=returned, target=target.commit)

    async def _judged_alone(self, entry: QueueEntry, target: Target) -> Stepped:
        found = await self._tested(target, [entry], "tested")
        task_id = entry.task.id
        if found.passed:
            words = proof_words(entry.task, self._settings)
            step = self._step(
                "tested", [task_id], onto=target.commit, commit=entry.tip, passed=True, detail=words
            )
            with CancelScope(shield=True):
                await self._team.merges.note({task_id: [step]}, {task_id: entry.record.attempt})
            return Stepped(target=target.commit)
        red = await self._red_without(target, found)
        if red is not None:
            return Stepped(held=red, target=target.commit)
        await self._give_back_red(entry, found, target, [])
        why: ReturnedFor = "promise" if found.promise else "checks"
        return Stepped(returned={task_id: why}, target=target.commit)

    def _adds_nothing(self, merged: str, record: Merge, target: Target) -> bool:
        same = self._git("rev-parse", f"{merged}^{{tree}}") == target.commit_tree
        return same and not is_there(self._git, record.commit, target.commit)

    def _target_at(self, commit: str) -> Target:
        tree = self._git("rev-parse", "--verify", f"{commit}^{{tree}}")
        return Target(self._settings.target, commit, tree, None)

    def _merged(
        self, task: Task, record: Merge, target: Target, sources: list[str]
    ) -> str | Clash | None:
        """Return a commit as the forge's merge would be; None if the work is nowhere."""
        if not have(self._git, record, sources):
            return None
        words = ("merge-tree", "--write-tree", "--name-only", target.commit, record.commit)
        merged = self._git.run(*words)
        if not merged.ok:
            files, _, said = merged.out.partition("\n\n")
            named = files.splitlines()[1:][:_FILES_MAX]
            text = said.strip() or merged.err.strip()
            return Clash(named, text, files.split("\n")[0], target.branch, f"task {task.id}")
        author = with_author(self._git, self._settings.author, agent="bullpen")
        parents = ("-p", target.commit, "-p", record.commit)
        said = f"Task {task.id}, merged with {target.branch} to be tested"
        return author("commit-tree", merged.out.split()[0], *parents, "-m", said).strip()
