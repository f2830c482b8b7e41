"""Takes issues, brings work to the forge, and brings back what the forge says, while a team runs.

It is the only one that has the token. Everything that it must know after a kill is in the team's
records and on the forge, so that the next worker goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from functools import partial

import anyio
from anyio import to_thread

from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable, one_error
from bullpen.protocol.forge import ForgeSettings, ForgeWrite
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connection import Connection
from bullpen.runs.forge.contract import TRY_LATER, TryLater
from bullpen.runs.forge.landing.night_work import NightWork
from bullpen.runs.forge.landing.proofs import NO_GATE, NO_TESTS, TARGET_AGAIN_S, Proofs, all_held
from bullpen.runs.forge.landing.queue_landing import landing_push, lands_target
from bullpen.runs.forge.looking.looks import SAME_SECOND_S, Looks
from bullpen.runs.forge.outbox import NotAllowedYet, Outbox
from bullpen.runs.forge.webhooks.hints import Hints
from bullpen.runs.watch.ending import QueueState
from bullpen.team.forge.bodies import branch_name, labels_for, state_of
from bullpen.team.forge.nights.rules import is_busy, night_id
from bullpen.team.forge.outbox_rules import next_due, numbered, write_of
from bullpen.team.forge.wishes import is_untested, wishes_of
from bullpen.team.tasks.check_rules import is_queued, landing
from bullpen.team.team import Team

_PAUSE_S = 5.0
_PAUSE_MAX_S = 300.0
_WRITE_S = 600.0
_LOOK_AGAIN_S = 5.0
"""How often the team's records are read again although nothing is heard of them."""

_AWAY_S = 600.0
"""How long a run that has nothing else to do waits for a forge that cannot be used."""

_HINT_LOOK_S = 1.0
"""How often hints are looked for."""

_HINT_PAUSE_S = 5.0
_ALL_PAUSE_S = 30.0
"""How long further hints wait after one, and after one that says to look at everything."""

_ONCE_MORE = 2
"""How many more looks one pass takes while words are kept back."""

_REFUSED_TURNS = 5
"""After how many intervals a merge is tried again that the forge did not allow."""


class ForgeWorker:
    """What a team does on its forge."""

    name = "forge"

    def __init__(
        self,
        team: Team,
        connect: Callable[[ForgeSettings], Awaitable[Connection]],
        *,
        quiet: Callable[[], bool] = lambda: False,
        returned: Callable[[], None] | None = None,
        alone: Callable[[], AbstractContextManager[object]] = nullcontext,
        clock: Callable[[], float] = anyio.current_time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        hints: Hints | None = None,
        proofs: Proofs | None = None,
    ) -> None:
        """`alone` keeps other workers of this team away; `returned` is called for returned work.

        `hints` are what the forge says by way of webhooks, and `proofs` what the queue has to test.
        """
        self._team = team
        self._connect = connect
        self._quiet = quiet
        self._returned = returned
        self._alone = alone
        self._clock = clock
        self._sleep = sleep
        self._hints = hints
        self._hints_from_s = -math.inf
        self._proofs = proofs or Proofs()
        # What nothing tests, if that is so; None before anybody looked.
        self._untested: str | None = None
        self._asked_s = -math.inf
        # Why nothing but a person can go on, and since when.
        self._held = QueueState()
        self._lock = anyio.Lock()
        self._settings: ForgeSettings | None = None
        self._connection: Connection | None = None
        self._looks: Looks | None = None
        self._nights: NightWork | None = None
        self._told: set[str] = set()
        self._tell: Callable[[str], None] = lambda _: None
        self._state = QueueState()
        self._pause_s = _PAUSE_S
        self._not_before_s = -math.inf
        # By task, the head whose merge was refused, and when.
        self._refused: dict[str, tuple[str | None, float, str]] = {}

    def state(self) -> QueueState:
        """Return why nothing can be merged, if that is so."""
        return self._state

    def held(self) -> QueueState:
        """Return why only a person can let the work that is on the forge go on, if that is so."""
        return self._held

    async def needs(self) -> list[str]:
        """Return what a person has to look at."""
        on = await self._team.forge.now()
        held = [
            (task.id, work.person or self._refused.get(task.id, (None, 0.0, None))[2])
            for task in on.tasks
            if (work := task.facts.forge) is not None and (work.person or is_queued(task))
        ]
        said = [f"task #{task_id} on the forge: {why}" for task_id, why in held if why is not None]
        named = [(night_id(night), night.work.person) for night in on.nights]
        said += [self._untested] if self._untested else []
        return [*said, *(f"{name} on the forge: {why}" for name, why in named if why is not None)]

    def hint(self, number: int | None) -> None:
        """Look soon: somebody says that something changed there; None for anywhere."""
        if self._looks is not None and number is None:
            self._looks.wheel.hint_all()
        elif self._looks is not None:
            self._looks.wheel.hint(number, self._clock())

    async def first_look(self) -> None:
        """Make tasks of the issues that there are. Raises what the forge or the token raise."""
        settings = await self._team.forge.settings()
        if settings is not None:
            async with self._lock:
                looks = await self._ready(settings)
                with anyio.fail_after(_WRITE_S):
                    await looks.take_issues()

    async def more(self) -> bool:
        """Return whether a team that has done everything has more to do here."""
        if self._state.trouble is not None:
            return self._clock() - self._state.since_s < _AWAY_S
        await self.step(issues=True)
        on = await self._team.forge.now()
        works = [task.facts.forge for task in on.tasks]
        due = any(work is not None and next_due(work) is not None for work in works)
        left = [task for task in on.tasks if task.status != "completed" or is_queued(task)]
        if any(is_busy(night, on.every, self._team.name) for night in on.nights):
            return True
        if self._looks is not None and self._looks.waits_for(on.nights):
            return True
        return due or any(task.facts.given_up is None for task in left)

    async def run(self, tell: Callable[[str], None]) -> None:
        """Work until cancelled. Raises Conflict if another process works for this team."""
        self._tell = tell
        with self._alone():
            try:
                while True:
                    wait_s = _LOOK_AGAIN_S if self._quiet() else await self.step()
                    await self._until_something_changes(wait_s)
            finally:
                await self._disconnect()

    async def once(self, tell: Callable[[str], None]) -> None:
        """Look at everything and write what is due, once.

        Raises:
            Conflict: another process works for this team.
            Unavailable: the forge cannot be used.
        """
        self._tell = tell
        with self._alone():
            try:
                # What was read first may be what a later look needs. Words that were read in the
                # second in which they were said are read once more.
                for turn in range(2 + _ONCE_MORE):
                    if turn >= 2:
                        if self._looks is None or not self._looks.holds_back:
                            break
                        await self._sleep(SAME_SECOND_S)
                    on = await self._team.forge.now()
                    await self.step()
                    works = [*(task.facts.forge for task in on.tasks), *(n.work for n in on.nights)]
                    for work in works:
                        if work is not None and work.pull is not None:
                            self.hint(work.pull)
                if self._state.trouble is not None:
                    raise Unavailable(self._state.trouble, remedy=TRY_LATER)
            finally:
                await self._disconnect()

    async def step(self, *, issues: bool = False) -> float:
        """Look and write once. Returns after how many seconds there is more to look at."""
        async with self._lock:
            now = self._clock()
            if now < self._not_before_s:
                return self._not_before_s - now
            try:
                settings = await self._team.forge.settings()
                if settings is None:
                    return _PAUSE_MAX_S
                looks = await self._ready(settings)
                await self._take_hints(now)
                if issues:
                    looks.wheel.hint(None, now)
                await looks.look()
                await self._write_all(settings)
                self._trouble(None)
                self._pause_s = _PAUSE_S
                return looks.wheel.next_s(self._clock())
            except TimeoutError:
                return self._later("the forge took too long", None)
            except TryLater as later:
                return self._later(str(later), later.after_s)
            except BullpenError as error:
                return self._later(str(error), None)
            except Exception as error:
                # Whatever it is: the agents work on. Its text may have what the forge sent.
                return self._later(f"a bug in Bullpen: {type(error).__name__}", None)

    async def _take_hints(self, now: float) -> None:
        """Look at what the forge says has changed. Without hints, polling finds it later."""
        if self._hints is None or now < self._hints_from_s:
            return
        try:
            found = await to_thread.run_sync(self._hints.take)
        except BullpenError as error:
            self._tell_once(f"hints of the forge are not heard: {error}")
            self._hints_from_s = now + _ALL_PAUSE_S
            return
        if found:
            self._hints_from_s = now + (_ALL_PAUSE_S if found.everything else _HINT_PAUSE_S)
        if found.everything:
            self.hint(None)
        for number in found.numbers:
            self.hint(number)

    def _later(self, why: str, after_s: float | None) -> float:
        """Wait as long as the forge says, or longer after each failure."""
        wait_s = self._pause_s if after_s is None else min(max(after_s, 1.0), 3600.0)
        self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)
        self._not_before_s = self._clock() + wait_s
        if self._state.trouble != why:
            self._tell(f"the forge waits {wait_s:.0f} s: {why}")
        self._trouble(why)
        return wait_s

    def _trouble(self, why: str | None) -> None:
        is_new = why is not None and self._state.trouble is None
        since_s = self._clock() if is_new else self._state.since_s
        self._state = QueueState(why, since_s)

    async def _ready(self, settings: ForgeSettings) -> Looks:
        """Return what looks at the forge of these settings; connects if it is not connected."""
        if self._looks is None or settings != self._settings:
            await self._disconnect()
            self._connection = await self._connect(settings)
            self._settings = settings
            looks = self._looks = Looks(
                self._team,
                settings,
                self._connection,
                clock=self._clock,
                tell=self._tell_once,
                returned=self._returned,
                proofs=self._proofs,
            )
            self._nights = NightWork(
                self._team,
                settings,
                self._connection,
                tell=self._tell_once,
                stir=lambda number: looks.wheel.stir(number, self._clock()),
            )
        return self._looks

    async def _disconnect(self) -> None:
        connection, self._connection, self._looks = self._connection, None, None
        self._nights = None
        if connection is not None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await connection.aclose()

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    async def _write_all(self, settings: ForgeSettings) -> None:
        """Make every write that is due now."""
        connection = self._connection
        if connection is None:
            return
        if self._nights is not None:
            with anyio.fail_after(_WRITE_S):
                await self._nights.write()
        landed = partial(self._bring_target, connection)
        outbox = Outbox(connection.desk(self._team, settings), landed=landed)
        merge = await self._team.merges.settings()
        tasks = (await self._team.tasks.list()).tasks
        if settings.merge == "forge":
            await self._say_if_untested(connection, merge)
            await self._ask_for_tests(tasks, settings, merge, connection)
        for task in tasks:
            # Those that are on the forge, and those that were handed in and go there.
            if task.facts.forge is not None or is_queued(task):
                with anyio.fail_after(_WRITE_S):
                    await self._write(task.id, settings, merge, connection, outbox)
        self._see_held((await self._team.tasks.list()).tasks)

    async def _say_if_untested(self, connection: Connection, merge: MergeSettings | None) -> None:
        """Say once what is merged if there is no merge gate: only what CI passes."""
        if merge is not None and merge.gate:
            self._untested = None
            return
        if self._untested is not None:
            return
        head = await connection.client.branch_head(connection.target)
        has_ci = head is not None and bool(await connection.client.verdicts(head))
        self._untested = "" if has_ci else NO_TESTS
        self._tell_once(NO_GATE if has_ci else NO_TESTS)

    async def _ask_for_tests(
        self,
        tasks: Sequence[Task],
        settings: ForgeSettings,
        merge: MergeSettings | None,
        connection: Connection,
    ) -> None:
        """Ask the queue for what has to pass before a pull request, on the newest target."""
        passed = self._proofs.passed(tasks, self._clock())
        for task in tasks:
            work = task.facts.forge
            if task.id == passed and work is not None and work.pull is not None:
                self.hint(work.pull)
        untested = [task for task in tasks if is_untested(task, settings, merge)]
        for task in untested:
            self._tell_once(f"task #{task.id} is tested before the forge gets it")
        is_due = self._clock() - self._asked_s >= TARGET_AGAIN_S
        if untested and not is_due and not any(map(self._proofs.is_new, untested)):
            return
        there: str | None = None
        if untested:
            self._asked_s = self._clock()
            there = await connection.client.branch_head(connection.target)
            await self._bring_target(connection)
        self._proofs.before_pull(untested if there else (), there or "")

    def _see_held(self, tasks: Sequence[Task]) -> None:
        """Remember whether everything that is handed in waits for a person."""
        why = all_held(tasks)
        if why is None:
            self._held = QueueState()
        elif self._held.trouble is None:
            self._held = QueueState(why, self._clock())

    async def _write(
        self,
        task_id: str,
        settings: ForgeSettings,
        merge: MergeSettings | None,
        connection: Connection,
        outbox: Outbox,
    ) -> None:
        skipped: set[int] = set()
        for _ in range(100):
            task = await self._team.tasks.get(task_id)
            wishes = wishes_of(task, settings, branch_name(self._team.name, task.id), merge)
            wishes += landing_push(task, settings)
            if wishes:
                await self._team.forge.begin(task_id, wishes)
                task = await self._team.tasks.get(task_id)
            work = task.facts.forge
            if work is None:
                return
            write = next_due(
                work.evolve(writes=[each for each in work.writes if each.n not in skipped])
            )
            if write is None:
                break
            if write.kind == "merge" and self._waits(task, write):
                skipped.add(write.n)
                continue
            await self._make(task, write, connection, outbox, skipped)
        task = await self._team.tasks.get(task_id)
        if state_of(task) == "person" and landing(task) == "unchanged":
            self._tell_once(f"task #{task_id} needs you: it was completed without a change")
        await self._show_state(task, connection, outbox)
        await self._land_target(await self._team.tasks.get(task_id), settings, connection)

    async def _make(
        self,
        task: Task,
        write: ForgeWrite,
        connection: Connection,
        outbox: Outbox,
        skipped: set[int],
    ) -> None:
        try:
            if write.kind == "push":
                await connection.blocking(partial(connection.prepare, task))
            after = await outbox.make(task, write)
        except NotAllowedYet as why:
            self._refused[task.id] = write.target, self._clock(), str(why)
            skipped.add(write.n)
            self._tell_once(f"task #{task.id} is not merged yet: the forge says: {why}")
            return
        except (Refused, NotFound, Conflict) as error:
            # It will not get better by itself, and must not keep others waiting.
            await self._team.forge.drop(task.id, write.n)
            skipped.add(write.n)
            self._tell_once(f"task #{task.id}: {write.kind} was not possible: {error.message}")
            return
        work = after.facts.forge
        if work is not None and numbered(work, write.n).state != "done":
            # It was given up; another reason for it may come with the next look.
            skipped.add(write.n)
        if self._looks is not None and work is not None and work.pull is not None:
            self._looks.wheel.stir(work.pull, self._clock())

    def _waits(self, task: Task, write: ForgeWrite) -> bool:
        """Return whether the forge refused this merge a short time ago."""
        head, at_s, _ = self._refused.get(task.id, (None, -math.inf, ""))
        settings = self._settings
        pause_s = _REFUSED_TURNS * (60.0 if settings is None else settings.poll_s)
        return head == write.target and self._clock() - at_s < pause_s

    async def _show_state(self, task: Task, connection: Connection, outbox: Outbox) -> None:
        """Let the comment and the labels of the issue say where its work is."""
        work = task.facts.forge
        if work is None or work.issue is None:
            return
        state = state_of(task)
        try:
            write = write_of(work, "state", "state")
            if write is not None and write.state == "done":
                await outbox.restate(task, write)
            if work.labelled != state:
                add, remove = labels_for(state)
                await connection.client.set_labels(work.issue, add=add, remove=remove)
                await self._team.forge.label(task.id, state)
        except (Refused, NotFound, Conflict) as error:
            await self._team.forge.label(task.id, state)
            self._tell_once(f"issue #{work.issue}: its state is not shown: {error.message}")

    async def _land_target(
        self, task: Task, settings: ForgeSettings, connection: Connection
    ) -> None:
        """Push the target that our merge queue moved, once the pull request has the same commit."""
        landed = lands_target(task, settings)
        if landed is None:
            return
        there = await connection.client.branch_head(connection.target)
        why = await connection.blocking(partial(connection.push_target, landed, there))
        if why is not None:
            self._tell_once(f"the target is not pushed: {why}")
            return
        await self._team.forge.settle(task.id, "merged", commit=landed)

    async def _bring_target(self, connection: Connection) -> None:
        why: str | None
        try:
            why = await connection.blocking(connection.bring_target)
        except Refused as refused:
            why = refused.message
        if why is not None:
            self._tell_once(f"your {connection.target} stays where it is: {why}")

    async def _until_something_changes(self, most_s: float) -> None:
        """Wait until there is something to look at, or the team's records have changed."""
        with one_error(), anyio.move_on_after(max(most_s, 0.05)):
            async with anyio.create_task_group() as group:
                if self._hints is not None:
                    group.start_soon(self._until_hinted, self._hints, group.cancel_scope)
                async with aclosing(self._team.changes()) as changes:
                    await anext(changes)
                    await anext(changes)
                group.cancel_scope.cancel()

    async def _until_hinted(self, hints: Hints, waiting: anyio.CancelScope) -> None:
        """End the waiting when there is a hint that may be followed."""
        while True:
            await anyio.sleep(_HINT_LOOK_S)
            may_look = self._clock() >= max(self._hints_from_s, self._not_before_s)
            if may_look and not self._quiet() and hints.waits():
                waiting.cancel()
                return
