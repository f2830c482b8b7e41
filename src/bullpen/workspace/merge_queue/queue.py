"""The merge queue: each step rebases, tests and merges the first tasks in the queue.

Everything it must know after a kill is in the team's records and in the repository, so the next
step of any process continues from there.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from anyio import CancelScope, to_thread

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import SETUP_S
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import STEP_CHARS_MAX, Check, ReturnedFor, Step, Task
from bullpen.protocol.team import MergeSettings
from bullpen.team.promises.at_merge import Promised
from bullpen.team.tasks.check_rules import landing
from bullpen.team.tasks.guarded_rules import named
from bullpen.team.team import Team
from bullpen.workspace.git.promised_files import looked_for
from bullpen.workspace.git.repository import common_dir
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.merge_queue.after_merge import tell
from bullpen.workspace.merge_queue.attempts import (
    AttemptResult,
    AttemptWanted,
    QueueEntry,
    wanted,
)
from bullpen.workspace.merge_queue.land import InTheWay, Target, forward, target_of
from bullpen.workspace.merge_queue.lock import hold
from bullpen.workspace.merge_queue.stack import Stacked, is_there, stack_branches
from bullpen.workspace.merge_queue.test_tree import TestTree
from bullpen.workspace.merge_queue.tick import Boxes, late_ticks, no_boxes
from bullpen.workspace.merge_queue.user_command import run_command
from bullpen.workspace.trees.slots import PLAIN

P = ParamSpec("P")
T = TypeVar("T")

RunCheck = Callable[[Path, Task | None, Check], Awaitable[Check]]
"""Runs a check in a folder, for a task or for the merge gate. Returns the result."""

RunReview = Callable[[Task, Check, str, str, Sequence[Check]], Awaitable[Check]]
"""Has the work of a task between two commits reviewed, given the results of the other checks."""

BENCH = "+merge"
"""The name of the test worktree in the folder of the queue. `+` is in no member's name."""

_FILES_MAX = 50
_ROUNDS_MAX = 8
_ROOM_BYTES_MIN = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stepped:
    """The result of a step. `held` says what keeps the rest waiting, if anything."""

    merged: list[str] = field(default_factory=list)
    returned: dict[str, ReturnedFor] = field(default_factory=dict)
    held: str | None = None
    # Where the target is now.
    target: str = ""
    # Why the after-merge command failed.
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Which tasks may be merged, and which one causes a failure, with the results."""

    green: list[QueueEntry]
    culprit: QueueEntry | None
    found: AttemptResult


class Queue:
    """The merge queue of a team, in the process that has the repository.

    `folder` is where its test worktree is created; `owner` names its home and team. `boxes` are
    ticked with the work of their tasks.
    """

    bench = BENCH

    def __init__(
        self,
        team: Team,
        settings: MergeSettings,
        *,
        run: RunCheck,
        folder: Path,
        owner: str,
        boxes: Boxes = no_boxes,
        review: RunReview | None = None,
    ) -> None:
        self._team = team
        self._settings = settings
        self._run = run
        self._review = review
        self._folder = folder
        self._owner = owner
        self._boxes = boxes
        # Whether boxes are ticked: not after something was in the way of a tick.
        self._ticks = True
        self._git = Git(Path(settings.repository))
        self._is_locked = False
        # Target commits on which the gate passed, and the result of the last try: while something
        # blocks the target, the same is not tested again and again.
        self._green: set[str] = set()
        self._last: tuple[tuple[object, ...], _Judgement] | None = None
        # What members promised each other, as of the current try.
        self._promised = Promised()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Become the only queue of this target. Steps inside do not check for others.

        Raises:
            Conflict: another process is the queue; the error names it.
        """
        if self._is_locked:
            yield
            return
        with hold(self._common, self._settings.target):
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    async def step(self) -> Stepped | None:
        """Merge the first tasks in the queue, or return them to their owners. None if it is empty.

        Raises:
            Conflict: another process is this queue.
            Refused: no_target, path_taken or setup_failed.
            Unavailable: something is missing, such as disk space; nothing is lost, and the next
                step starts where this one did.
        """
        waiting = await self._team.merges.waiting()
        if not waiting.line and not waiting.untold and not waiting.held:
            return None
        with self.locked():
            for _ in range(_ROUNDS_MAX):
                try:
                    stepped = await self._round()
                except Refused as error:
                    # Somebody removed a task from the queue meanwhile.
                    if error.reason != "not_queued":
                        raise
                    continue
                if stepped is not None:
                    return stepped
            target = await blocking(target_of, self._git, self._settings.target)
            held = f"{target.branch} or the merge queue kept changing during the tests"
            return Stepped(held=held, target=target.commit)

    async def bare(self) -> Check | None:
        """Run the gate on the target as it is, and remove the test worktree. Merges nothing.

        Return the check that fails there; None if all pass. No lock is taken, so the folder of this
        queue must be nobody else's. Raises Refused or Unavailable as `step`.
        """
        target = await blocking(target_of, self._git, self._settings.target)
        try:
            return (await self._looked(target.commit, [])).failed
        finally:
            with CancelScope(shield=True):
                await blocking(self._test_tree.remove)

    async def tick(self) -> None:
        """Tick the boxes of finished tasks that are still open, in a commit of their own.

        Their file had uncommitted changes when they were merged, or a person called them done. If
        something is in the way, they stay open for the next time. Raises as `step`.
        """
        tasks = (await self._team.tasks.list()).tasks
        done = [task for task in tasks if landing(task) in ("changed", "vouched")]
        if not done:
            return
        with self.locked():
            target = await blocking(target_of, self._git, self._settings.target)
            author = self._settings.author
            made = await blocking(late_ticks, self._git, target, done, self._boxes, author=author)
            if made is not None:
                why = "bullpen: tick finished tasks"
                with CancelScope(shield=True):
                    await blocking(forward, self._git, self._common, target, made, why=why)

    async def _round(self) -> Stepped | None:
        """Try one step; None if the target or the queue changed meanwhile."""
        merges = self._team.merges
        waiting = await merges.waiting()
        self._promised = waiting.promised
        target = await blocking(target_of, self._git, self._settings.target)
        landed = await self._landed_before(waiting.line, target)
        if landed or waiting.untold:
            trouble = await self._tell()
            return Stepped(merged=landed, target=target.commit, trouble=trouble)
        first = waiting.line[: self._settings.batch]
        stacked = await blocking(
            stack_branches,
            self._git,
            first,
            target,
            waiting.trees,
            settings=self._settings,
            guard=waiting.guard,
            promised=waiting.promised,
            boxes=self._boxes if self._ticks else no_boxes,
        )
        returned = await self._give_back_unstacked(stacked, target)
        held = "; ".join([*stacked.problems, *waiting.held]) or None
        if not stacked.entries:
            return Stepped(returned=returned, held=held, target=target.commit)
        judgement = await self._judged(target, stacked.entries)
        green, culprit, found = judgement.green, judgement.culprit, judgement.found
        if culprit is not None and not green:
            red = await self._red_without(target, found)
            if red is not None:
                self._last = None
                return Stepped(returned=returned, held=red, target=target.commit)
        moved = await self._land(target, green) if green else True
        if moved is False:
            return None
        if isinstance(moved, InTheWay) and stacked.ticked.intersection(moved.paths):
            # Somebody has just changed a file with a box: no tick is worth waiting for.
            self._ticks = False
            return None
        self._ticks = self._ticks or moved is True
        if isinstance(moved, InTheWay):
            return Stepped(returned=returned, held=moved.words, target=target.commit)
        if culprit is not None:
            await self._give_back_red(culprit, found, target, green)
            returned[culprit.task.id] = "promise" if found.promise else "checks"
        trouble = await self._tell() if green and self._tells else None
        return Stepped(
            merged=[entry.task.id for entry in green],
            returned=returned,
            held=held,
            target=green[-1].tip if green else target.commit,
            trouble=trouble,
        )

    async def _landed_before(self, line: Sequence[Task], target: Target) -> list[str]:
        """Finish what a killed queue started: work that is on the target is merged."""
        records = {task.id: record for task in line if (record := task.facts.merge) is not None}
        attempts = {
            task_id: record.attempt
            for task_id, record in records.items()
            if record.candidate is not None
            and await blocking(is_there, self._git, record.candidate, target.commit)
        }
        if attempts:
            onto = next(
                (step.onto for id_ in attempts for step in records[id_].steps[::-1] if step.onto),
                None,
            )
            step = self._step("merged", attempts, onto=onto, commit=target.commit)
            await self._team.merges.landed(attempts, [step], tell=self._tells)
        return list(attempts)

    async def _give_back_unstacked(
        self, stacked: Stacked, target: Target
    ) -> dict[str, ReturnedFor]:
        returned: dict[str, ReturnedFor] = {}
        for task, record, clash in stacked.clashes:
            text = f"On {target.branch} at {target.commit[:12]}:\n{clash.text}"
            steps = [
                self._step(
                    "conflict", [task.id], onto=target.commit, detail=", ".join(clash.files)
                ),
                self._step("returned", [task.id], onto=target.commit),
            ]
            await self._team.merges.give_back(
                task.id, record.attempt, "conflict", text, files=clash.files, steps=steps
            )
            returned[task.id] = "conflict"
        for task, record in stacked.missing:
            text = f"Commit {record.commit} ({record.ref}) cannot be fetched."
            steps = [self._step("returned", [task.id], onto=target.commit, detail=text)]
            await self._team.merges.give_back(task.id, record.attempt, "missing", text, steps=steps)
            returned[task.id] = "missing"
        for task, record, changes in stacked.guarded:
            text = f"No person approved these changes: {named(changes)}."
            steps = [self._step("returned", [task.id], onto=target.commit, detail=text)]
            files = list(dict.fromkeys(change.path for change in changes))[:_FILES_MAX]
            await self._team.merges.give_back(
                task.id, record.attempt, "guarded", text, files=files, steps=steps
            )
            returned[task.id] = "guarded"
        for task, record in stacked.nothing:
            text = f"{target.branch} at {target.commit[:12]} has all of it, by other commits."
            steps = [self._step("returned", [task.id], onto=target.commit, detail=text)]
            await self._team.merges.give_back(task.id, record.attempt, "nothing", text, steps=steps)
            returned[task.id] = "nothing"
        for task, record, text in stacked.unkept:
            steps = [self._step("returned", [task.id], onto=target.commit, detail=text)]
            await self._team.merges.give_back(task.id, record.attempt, "promise", text, steps=steps)
            returned[task.id] = "promise"
        return returned

    async def _judged(self, target: Target, entries: list[QueueEntry]) -> _Judgement:
        """Return which tasks may be merged, which one causes a failure, and the results."""
        asked = self._wanted(entries)
        # The same work of a later attempt is judged again: each attempt has its own records.
        works = ((entry.task.id, entry.record.attempt, entry.tip) for entry in entries)
        key = (*works, *(each.key() for each in asked))
        if self._last is None or self._last[0] != key:
            self._last = key, await self._bisected(target, entries)
        return self._last[1]

    async def _bisected(self, target: Target, entries: list[QueueEntry]) -> _Judgement:
        found = await self._tested(target, entries, "tested")
        if found.passed:
            return _Judgement(entries, None, found)
        # Between these, find the first that breaks the target: everything up to `low` passed.
        low, high = 0, len(entries)
        while high - low > 1:
            middle = (low + high) // 2
            half = await self._tested(target, entries[:middle], "bisected")
            if half.passed:
                low = middle
            else:
                high, found = middle, half
        return _Judgement(entries[:low], entries[high - 1], found)

    async def _tested(self, target: Target, entries: list[QueueEntry], what: str) -> AttemptResult:
        """Test some work on the target; run failing checks again."""
        found = AttemptResult(None)
        for _ in range(1 + self._settings.retries):
            found = await self._looked(entries[-1].tip, entries)
            if found.passed:
                return found
            ids = [entry.task.id for entry in entries]
            step = self._step(
                what, ids, onto=target.commit, commit=entries[-1].tip, passed=False,
                detail=found.words,
            )  # fmt: skip
            await self._team.merges.note({task_id: [step] for task_id in ids}, _attempts(entries))
        return found

    async def _looked(self, tip: str, entries: Sequence[QueueEntry]) -> AttemptResult:
        """Test a tip: return the first check that fails there."""
        try:
            await self._put(tip)
        except Refused as error:
            # Work that needs what the user's checkout lacks cannot be tested by anybody.
            if error.reason != "submodule_missing":
                raise
            name = "submodules"
            return AttemptResult(
                Check.new(name=name, kind="command", passed=False, detail=str(error))
            )
        before: list[Check] = []
        for each in self._wanted(entries):
            if each.promise is not None and each.promise.promise.kind == "signature":
                found = await blocking(looked_for, self._git, tip, each.promise.promise)
            elif each.task is not None and each.work is not None and self._review is not None:
                found = await self._review(each.task, each.check, *each.work, before)
            else:
                found = await self._run(each.place(self._test_tree.path), each.task, each.check)
            before.append(found)
            if found.passed is not True:
                await blocking(_refuse_full_disk, self._test_tree.path)
                return AttemptResult(found, each.blames, each.promise)
        return AttemptResult(None)

    def _wanted(self, entries: Sequence[QueueEntry]) -> list[AttemptWanted]:
        gate, inside = self._settings.gate, self._settings.inside
        return wanted(entries, gate, inside=inside, promised=self._promised)

    async def _put(self, tip: str) -> None:
        """Check out a commit in the test worktree, and run its setup."""
        await blocking(self._test_tree.put, tip)
        if self._settings.setup is None or self._test_tree.is_set_up:
            return
        where = self._test_tree.path / self._settings.inside
        # The setup may run what the work contains, so it gets no keys.
        env = {name: os.environ[name] for name in PLAIN if name in os.environ}
        env |= {"BULLPEN_TEAM": self._team.name, "BULLPEN_WORKSPACE": str(self._test_tree.path)}
        ended = await run_command(self._settings.setup, cwd=where, env=env, seconds=SETUP_S)
        if not ended.ok:
            raise Refused(
                f"The setup command of the test worktree at {self._test_tree.path} failed: "
                f"{ended.words}",
                reason="setup_failed",
                remedy="Fix the command: bullpen merge set --setup COMMAND",
            )
        await blocking(self._test_tree.keep)
        await blocking(self._test_tree.put, tip)

    async def _red_without(self, target: Target, found: AttemptResult) -> str | None:
        """Return what already fails on the target: then no queued work is to blame."""
        known = target.commit in self._green and found.promise is None
        if found.of is not None or known:
            return None
        bare = await self._looked(target.commit, [])
        if bare.passed:
            self._green.add(target.commit)
            return None
        return f"{target.branch} itself fails at {target.commit[:12]}. {bare.words}"

    async def _land(self, target: Target, entries: Sequence[QueueEntry]) -> bool | InTheWay:
        """Move the target to the last of some work that passed together."""
        ids = [entry.task.id for entry in entries]
        attempts = _attempts(entries)
        tip = entries[-1].tip
        rebased = [
            self._step("rebased", ids, onto=target.commit, commit=entry.tip) for entry in entries
        ]
        tested = self._step("tested", ids, onto=target.commit, commit=tip, passed=True)
        steps = {
            entry.task.id: [step, tested] for entry, step in zip(entries, rebased, strict=True)
        }
        commits = {entry.task.id: entry.tip for entry in entries}
        await self._team.merges.about_to_land(commits, attempts, steps)
        why = f"bullpen: merge {', '.join(f'#{id_}' for id_ in ids)}"
        # If the queue ended here, merged work would be reported as waiting.
        with CancelScope(shield=True):
            moved = await blocking(partial(forward, self._git, self._common, target, tip, why=why))
            if moved is True:
                self._green.add(tip)
                step = self._step("merged", ids, onto=target.commit, commit=tip)
                await self._team.merges.landed(attempts, [step], tell=self._tells)
        return moved

    async def _give_back_red(
        self, culprit: QueueEntry, found: AttemptResult, target: Target, green: Sequence[QueueEntry]
    ) -> None:
        onto = green[-1].tip if green else target.commit
        text = f"On {target.branch} at {onto[:12]}: {found.words}"
        step = self._step("returned", [culprit.task.id], onto=onto, detail=found.words)
        why: ReturnedFor = "promise" if found.promise else "checks"
        await self._team.merges.give_back(
            culprit.task.id, culprit.record.attempt, why, text, steps=[step]
        )
        if found.promise is not None and found.promise.task.id == culprit.task.id:
            broken = {found.promise.promise.id: (found.failed and found.failed.detail) or ""}
            await self._team.promises.judge(culprit.task.id, broken, by=LEAD)

    @property
    def _tells(self) -> bool:
        return bool(self._settings.after)

    async def _tell(self) -> str | None:
        """Run the after-merge command for merged work. Returns why it failed, if it did."""
        untold = (await self._team.merges.waiting()).untold
        if not untold:
            return None
        return await tell(self._team.merges, self._settings, untold, team=self._team.name)

    def _step(self, what: str, ids: Sequence[str] | Mapping[str, object], **more: object) -> Step:
        detail = more.pop("detail", None)
        words = None if detail is None else _short(str(detail))
        return Step.new(at_ms=now_ms(), what=what, batch=list(ids), detail=words, **more)

    @cached_property
    def _common(self) -> Path:
        return common_dir(Path(self._settings.repository))

    @cached_property
    def _test_tree(self) -> TestTree:
        return TestTree(self._git, self._common, self._folder / self.bench, owner=self._owner)


def _short(text: str) -> str:
    """Return the first line, which says what failed, and the end, which says why."""
    if len(text) <= STEP_CHARS_MAX:
        return text
    first = text.split("\n", 1)[0][: STEP_CHARS_MAX // 3]
    return f"{first}\n[...]\n{text[-STEP_CHARS_MAX // 2 :]}"


def _attempts(entries: Sequence[QueueEntry]) -> dict[str, int]:
    return {entry.task.id: entry.record.attempt for entry in entries}


def _refuse_full_disk(folder: Path) -> None:
    """Refuse to call work broken when the disk is full."""
    found = os.statvfs(folder)
    if found.f_bavail * found.f_frsize < _ROOM_BYTES_MIN:
        raise Unavailable(
            f"{folder} has almost no disk space, so failures there say nothing about the work.",
            remedy="Free some space. The queue then continues by itself.",
        )


async def blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await to_thread.run_sync(partial(function, *args, **kwargs))
