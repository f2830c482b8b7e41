"""The queue itself: one step takes the first of the line, lays, tests and lands them.

Everything it must know after a kill is in the team's records and in the repository, so the next
step of any process goes on where it was.
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
from bullpen.protocol.merge import (
    STEP_CHARS_MAX,
    MergeSettings,
    ReturnedFor,
    Step,
    merge_of,
)
from bullpen.protocol.task import Check, Task
from bullpen.protocol.workspace import SETUP_S
from bullpen.store.clock import now_ms
from bullpen.team.team import Team
from bullpen.workspace.git import Git
from bullpen.workspace.queue.bench import Bench
from bullpen.workspace.queue.commands import PLAIN, run_command
from bullpen.workspace.queue.holding import Held, hold
from bullpen.workspace.queue.landing import InTheWay, Target, forward, target_of
from bullpen.workspace.queue.laying import Laying, lay
from bullpen.workspace.queue.telling import tell
from bullpen.workspace.queue.tries import Entry, Found, wanted
from bullpen.workspace.repository import common_dir

P = ParamSpec("P")
T = TypeVar("T")

RunCheck = Callable[[Path, Task | None, Check], Awaitable[Check]]
"""Looks for what a check asks for, in a folder, for a task or for the gate; what it found."""

BENCH = "+merge"
"""What the tree for tests is called in the folder of the queue. `+` is in no name of a member."""

_ROUNDS_MAX = 8
_ROOM_BYTES_MIN = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stepped:
    """What came of a step. `held` says what keeps the rest waiting, if something does."""

    merged: list[str] = field(default_factory=list)
    returned: dict[str, ReturnedFor] = field(default_factory=dict)
    held: str | None = None
    # Where the target is now.
    target: str = ""
    # Why the command failed that is run after the target moved.
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Who may land, and who is to blame that not all may, with what was found."""

    green: list[Entry]
    culprit: Entry | None
    found: Found


class Queue:
    """The merge queue of a team, in the process that has the repository.

    `folder` is where its tree for tests is made; `owner` names the home and team that it is of.
    """

    def __init__(
        self, team: Team, settings: MergeSettings, *, run: RunCheck, folder: Path, owner: str
    ) -> None:
        self._team = team
        self._settings = settings
        self._run = run
        self._folder = folder
        self._owner = owner
        self._git = Git(Path(settings.repository))
        self._held: Held | None = None
        # Commits of the target on which the gate held, and how the last try went: while something
        # keeps the target from moving, the same is not tested over and over.
        self._green: set[str] = set()
        self._last: tuple[tuple[object, ...], _Judgement] | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only queue of this target. Steps inside do not look for others any more.

        Raises:
            Conflict: another process is; it is named.
        """
        if self._held is not None:
            yield
            return
        with hold(self._common, self._settings.target) as self._held:
            try:
                yield
            finally:
                self._held = None

    async def step(self) -> Stepped | None:
        """Bring the first of the line to the target, or back to their owners. None if none waits.

        Raises:
            Conflict: another process is this queue.
            Refused: no_target, path_taken or setup_failed.
            Unavailable: something could not be had, such as room on the disk; nothing is lost, and
                the next step begins where this one did.
        """
        waiting = await self._team.merges.waiting()
        if not waiting.line and not waiting.untold:
            return None
        with self.locked():
            for _ in range(_ROUNDS_MAX):
                try:
                    stepped = await self._round()
                except Refused as error:
                    # Somebody took a task out of the line while it was looked at.
                    if error.reason != "not_queued":
                        raise
                    continue
                if stepped is not None:
                    return stepped
            target = await _blocking(target_of, self._git, self._settings.target)
            held = f"{target.branch} or the line kept changing while work was tested"
            return Stepped(held=held, target=target.commit)

    async def _round(self) -> Stepped | None:
        """One try of a step; None if the target or the line changed meanwhile."""
        merges = self._team.merges
        waiting = await merges.waiting()
        target = await _blocking(target_of, self._git, self._settings.target)
        landed = await self._landed_before(waiting.line, target)
        if landed or waiting.untold:
            trouble = await self._tell()
            return Stepped(merged=landed, target=target.commit, trouble=trouble)
        first = waiting.line[: self._settings.batch]
        inside = self._settings.inside
        laying = await _blocking(lay, self._git, first, target, waiting.trees, inside=inside)
        returned = await self._give_back_unlaid(laying, target)
        held = "; ".join(laying.problems) or None
        if not laying.entries:
            return Stepped(returned=returned, held=held, target=target.commit)
        judgement = await self._judged(target, laying.entries)
        green, culprit, found = judgement.green, judgement.culprit, judgement.found
        if culprit is not None and not green:
            red = await self._red_without(target, found)
            if red is not None:
                self._last = None
                return Stepped(returned=returned, held=red, target=target.commit)
        moved = await self._land(target, green) if green else True
        if moved is False:
            return None
        if isinstance(moved, InTheWay):
            return Stepped(returned=returned, held=moved.words, target=target.commit)
        if culprit is not None:
            await self._give_back_red(culprit, found, target, green)
            returned[culprit.task.id] = "checks"
        trouble = await self._tell() if green and self._tells else None
        return Stepped(
            merged=[entry.task.id for entry in green],
            returned=returned,
            held=held,
            target=green[-1].tip if green else target.commit,
            trouble=trouble,
        )

    async def _landed_before(self, line: Sequence[Task], target: Target) -> list[str]:
        """Finish what a killed queue began: work that the target has is merged."""
        records = {task.id: record for task in line if (record := merge_of(task)) is not None}
        attempts = {
            task_id: record.attempt
            for task_id, record in records.items()
            if record.candidate is not None
            and await _blocking(self._is_on, record.candidate, target.commit)
        }
        if attempts:
            onto = next(
                (step.onto for id_ in attempts for step in records[id_].history[::-1] if step.onto),
                None,
            )
            step = self._step("merged", attempts, onto=onto, commit=target.commit)
            await self._team.merges.landed(attempts, [step], tell=self._tells)
        return list(attempts)

    def _is_on(self, commit: str, target: str) -> bool:
        return self._git.run("merge-base", "--is-ancestor", commit, target).ok

    async def _give_back_unlaid(self, laying: Laying, target: Target) -> dict[str, ReturnedFor]:
        returned: dict[str, ReturnedFor] = {}
        for task, record, clash in laying.clashes:
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
        for task, record in laying.missing:
            text = f"Commit {record.commit} ({record.ref}) is not to be had."
            steps = [self._step("returned", [task.id], onto=target.commit, detail=text)]
            await self._team.merges.give_back(task.id, record.attempt, "missing", text, steps=steps)
            returned[task.id] = "missing"
        return returned

    async def _judged(self, target: Target, entries: list[Entry]) -> _Judgement:
        """Who may land, who is to blame that not all may, and what was found with them."""
        asked = wanted(entries, self._settings.checks, inside=self._settings.inside)
        # The same work of a later attempt is judged anew: the records are those of its attempt.
        works = ((entry.task.id, entry.record.attempt, entry.tip) for entry in entries)
        key = (*works, *(each.key() for each in asked))
        if self._last is None or self._last[0] != key:
            self._last = key, await self._bisected(target, entries)
        return self._last[1]

    async def _bisected(self, target: Target, entries: list[Entry]) -> _Judgement:
        found = await self._tested(target, entries, "tested")
        if found.passed:
            return _Judgement(entries, None, found)
        # Between these, the first that turns the target red: everything up to `low` was green.
        low, high = 0, len(entries)
        while high - low > 1:
            middle = (low + high) // 2
            half = await self._tested(target, entries[:middle], "bisected")
            if half.passed:
                low = middle
            else:
                high, found = middle, half
        return _Judgement(entries[:low], entries[high - 1], found)

    async def _tested(self, target: Target, entries: list[Entry], what: str) -> Found:
        """What is found with some work on the target; what is red is tried again."""
        found = Found(None)
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

    async def _looked(self, tip: str, entries: Sequence[Entry]) -> Found:
        """What is found on a tip: the first check that fails there."""
        try:
            await self._put(tip)
        except Refused as error:
            # Work that needs what the user's tree lacks is not to be had by anybody.
            if error.reason != "submodule_missing":
                raise
            name = "submodules"
            return Found(Check.new(name=name, kind="command", passed=False, detail=str(error)))
        for each in wanted(entries, self._settings.checks, inside=self._settings.inside):
            found = await self._run(each.place(self._bench.path), each.task, each.check)
            if found.passed is not True:
                await _blocking(_refuse_full_disk, self._bench.path)
                return Found(found, each.task)
        return Found(None)

    async def _put(self, tip: str) -> None:
        """Have a commit in the tree for tests, and that set up."""
        await _blocking(self._bench.put, tip)
        if self._settings.setup is None or self._bench.is_set_up:
            return
        where = self._bench.path / self._settings.inside
        # It may run what the work brought along: no key is for that.
        env = {name: os.environ[name] for name in PLAIN if name in os.environ}
        env |= {"BULLPEN_TEAM": self._team.name, "BULLPEN_WORKSPACE": str(self._bench.path)}
        ended = await run_command(self._settings.setup, cwd=where, env=env, seconds=SETUP_S)
        if not ended.ok:
            raise Refused(
                f"The tree for tests at {self._bench.path} cannot be set up: {ended.words}",
                reason="setup_failed",
                remedy="Mend the command: bullpen merge set --setup COMMAND",
            )
        await _blocking(self._bench.keep)
        await _blocking(self._bench.put, tip)

    async def _red_without(self, target: Target, found: Found) -> str | None:
        """What is red on the target already: then nobody who waits is to blame for it."""
        if found.of is not None or target.commit in self._green:
            return None
        bare = await self._looked(target.commit, [])
        if bare.passed:
            self._green.add(target.commit)
            return None
        return f"{target.branch} itself is red at {target.commit[:12]}. {bare.words}"

    async def _land(self, target: Target, entries: Sequence[Entry]) -> bool | InTheWay:
        """Move the target to the last of some work that was found green together."""
        ids = [entry.task.id for entry in entries]
        attempts = _attempts(entries)
        tip = entries[-1].tip
        tested = self._step("tested", ids, onto=target.commit, commit=tip, passed=True)
        steps = {
            entry.task.id: [
                self._step("rebased", ids, onto=target.commit, commit=entry.tip),
                tested,
            ]
            for entry in entries
        }
        commits = {entry.task.id: entry.tip for entry in entries}
        await self._team.merges.about_to_land(commits, attempts, steps)
        why = f"bullpen: merge {', '.join(f'#{id_}' for id_ in ids)}"
        # Whoever ends the queue here would be told that work waits which has landed.
        with CancelScope(shield=True):
            moved = await _blocking(partial(forward, self._git, self._common, target, tip, why=why))
            if moved is True:
                self._green.add(tip)
                step = self._step("merged", ids, onto=target.commit, commit=tip)
                await self._team.merges.landed(attempts, [step], tell=self._tells)
        return moved

    async def _give_back_red(
        self, culprit: Entry, found: Found, target: Target, green: Sequence[Entry]
    ) -> None:
        onto = green[-1].tip if green else target.commit
        text = f"On {target.branch} at {onto[:12]}: {found.words}"
        step = self._step("returned", [culprit.task.id], onto=onto, detail=found.words)
        await self._team.merges.give_back(
            culprit.task.id, culprit.record.attempt, "checks", text, steps=[step]
        )

    @property
    def _tells(self) -> bool:
        return bool(self._settings.after)

    async def _tell(self) -> str | None:
        """Have done what is to be done for what has landed; why that failed, if it did."""
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
    def _bench(self) -> Bench:
        return Bench(self._git, self._common, self._folder / BENCH, owner=self._owner)


def _short(text: str) -> str:
    """The first line, which says what it is about, and the end, which says why."""
    if len(text) <= STEP_CHARS_MAX:
        return text
    first = text.split("\n", 1)[0][: STEP_CHARS_MAX // 3]
    return f"{first}\n[...]\n{text[-STEP_CHARS_MAX // 2 :]}"


def _attempts(entries: Sequence[Entry]) -> dict[str, int]:
    return {entry.task.id: entry.record.attempt for entry in entries}


def _refuse_full_disk(folder: Path) -> None:
    """Refuse to believe that something is red when there is no room to make it green."""
    found = os.statvfs(folder)
    if found.f_bavail * found.f_frsize < _ROOM_BYTES_MIN:
        raise Unavailable(
            f"There is next to no room at {folder}: what fails there says nothing about the work.",
            remedy="Make room; the queue goes on by itself.",
        )


async def _blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await to_thread.run_sync(partial(function, *args, **kwargs))
