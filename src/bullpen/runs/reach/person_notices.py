"""Sends what happens in a team to a person: to chats, phones and browsers, until they have it.

Each target has a line of its own, so that a slow one delays nobody. What waits and what was sent is
recorded before and after each sending: a kill loses nothing, and only what was on its way at that
moment can come twice.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.errors import BullpenError
from bullpen.protocol.clock import Clock, now_ms
from bullpen.runs.reach import due_rules
from bullpen.runs.reach.browsers import Browsers
from bullpen.runs.reach.courier import Courier, Delivery
from bullpen.runs.reach.due_rules import WaitingNotice
from bullpen.runs.reach.home_files import locked
from bullpen.runs.reach.notice_text import Link, Notice, notice_of
from bullpen.runs.reach.outbox import Outbox, read_outbox, write_outbox
from bullpen.runs.reach.request_links import RequestLinks
from bullpen.runs.reach.targets import Target
from bullpen.runs.watch.quiet_hours import local
from bullpen.team.team import Team
from bullpen.view.notable_events import Happening, happenings

_GRACE_S = 3.0
"""How long a sending may still take when the run is interrupted."""

_TRIES_AT_END = 3
_PAUSE_AT_END_S = 1.0
_LOCK_LOOK_S = 0.2
_LOOK_MAX_S = 60.0
"""How long to sleep at most: the clock may be set, and a machine may sleep."""


class PersonNotices:
    """The notices of one team to a person."""

    def __init__(
        self,
        team: Team,
        *,
        kept: Path,
        links: RequestLinks,
        browsers: Browsers,
        courier: Courier,
        environ: Mapping[str, str],
        redacted: Callable[[str], str],
        tell: Callable[[str], None],
        clock: Clock = now_ms,
        shown: Callable[[int], datetime] = local,
    ) -> None:
        """`kept` is the file of the record; `tell` gets what went wrong."""
        self._team = team
        self._kept = kept
        self._links = links
        self._browsers = browsers
        self._courier = courier
        self._environ = environ
        self._redacted = redacted
        self._tell = tell
        self._clock = clock
        self._shown = shown
        self._outbox = Outbox()
        self._heard: deque[Happening] = deque()
        self._stirred = anyio.Event()
        self._writing = anyio.Lock()
        self._sending: dict[str, anyio.Lock] = {}
        # What was told of each target, until it works again.
        self._told: dict[str, str] = {}

    @asynccontextmanager
    async def opened(self, targets: Sequence[Target]) -> AsyncIterator[None]:
        """Be the one that sends for this team, with what was left or missed by the last one."""
        async with self._alone():
            self._outbox = await to_thread.run_sync(read_outbox, self._kept)
            self._aim(targets)
            if self._outbox.seq is None:
                self._outbox.seq = await self._team.last_seq()
            for event in await self._team.events(after=self._outbox.seq):
                for happening in happenings(self._team.name, event):
                    self.hear(happening)
            await self._absorb(always=True)
            yield

    async def send_left(self) -> bool:
        """Send what an ended run has left, if nobody else sends for this team. False if not."""
        if not await to_thread.run_sync(self._kept.exists):
            return False
        lock = locked(self._lock_path(), wait=False)
        if not await to_thread.run_sync(lock.__enter__):
            lock.__exit__(None, None, None)
            return False
        try:
            self._outbox = await to_thread.run_sync(read_outbox, self._kept)
            self._aim(self._outbox.targets)
            for target in self._outbox.targets:
                while await self._step(target) == 0:
                    pass
        finally:
            lock.__exit__(None, None, None)
        return True

    def hear(self, happening: Happening) -> None:
        """Queue a happening for all targets that want its kind."""
        self._heard.append(happening)
        self._stirred.set()

    async def run(self) -> None:
        """Send until cancelled."""
        async with anyio.create_task_group() as group:
            for target in self._outbox.targets:
                group.start_soon(self._serve, target)

    async def drain(self, *, within_s: float) -> None:
        """Send what is left, within a time that nothing lengthens; the rest stays recorded.

        It needs none of the tasks of `run`, which may have been cancelled.
        """
        with anyio.move_on_after(within_s, shield=True):
            await self._absorb()
            async with anyio.create_task_group() as group:
                for target in self._outbox.targets:
                    group.start_soon(self._finish, target)
        for target in self._outbox.targets:
            left = len(self._outbox.line(target.key).waiting)
            if left:
                self._tell(
                    f"notices that {target.shown} has not got: {left}; they are sent when the team"
                    " is run or served by bullpen web again"
                )

    def _aim(self, targets: Sequence[Target]) -> None:
        self._outbox.aim(targets)
        self._sending = {target.key: anyio.Lock() for target in targets}

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the lock of the record. Whoever has it lets go soon."""
        while True:
            lock = locked(self._lock_path(), wait=False)
            if lock.__enter__():
                break
            lock.__exit__(None, None, None)
            await anyio.sleep(_LOCK_LOOK_S)
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    def _lock_path(self) -> Path:
        return self._kept.with_suffix(".lock")

    async def _serve(self, target: Target) -> None:
        while True:
            stirred = self._stirred
            await self._absorb()
            wait_s = await self._step(target)
            with anyio.move_on_after(min(wait_s, _LOOK_MAX_S)):
                await stirred.wait()

    async def _finish(self, target: Target) -> None:
        for number in range(_TRIES_AT_END):
            tries: list[int] = []
            while await self._step(target, at_once=True, failures=tries) == 0 and not tries:
                pass
            if not tries:
                return
            await anyio.sleep(_PAUSE_AT_END_S * 2**number)

    async def _absorb(self, *, always: bool = False) -> None:
        """Record what was heard."""
        async with self._writing:
            if not self._heard and not always:
                return
            self._stirred = anyio.Event() if self._stirred.is_set() else self._stirred
            now = self._clock()
            while self._heard:
                happening = self._heard.popleft()
                self._outbox.seq = max(self._outbox.seq or 0, happening.seq or 0)
                for target in self._outbox.targets:
                    if happening.kind in target.on:
                        quiet = self._is_quiet(target)
                        line = self._outbox.line(target.key)
                        line = due_rules.heard(line, happening, now_ms=now, quiet=quiet)
                        self._outbox.lines[target.key] = line
            await self._write()

    async def _write(self) -> None:
        try:
            await to_thread.run_sync(write_outbox, self._kept, self._outbox)
        except BullpenError as error:
            self._say("record", error.message)

    async def _step(
        self, target: Target, *, at_once: bool = False, failures: list[int] | None = None
    ) -> float:
        """Send what is due to a target. Returns how long there is nothing to do, in seconds."""
        async with self._sending[target.key]:
            line, quiet = self._outbox.line(target.key), self._is_quiet(target)
            if quiet and line.waiting:
                line = self._outbox.lines[target.key] = due_rules.held_over(line)
            now = self._clock()
            found = due_rules.due(line, now_ms=now, quiet=quiet, at_once=at_once)
            if not found.notices:
                ends = due_rules.quiet_ends_ms(target.quiet, self._shown(now)) if quiet else None
                left = [each for each in (found.wait_ms, ends) if each is not None]
                return max(0.01, min(left) / 1000) if left else _LOOK_MAX_S
            ok = False
            async with _finishing(0.0 if at_once else _GRACE_S):
                ok = await self._try(target, found.notices)
            if not ok and failures is not None:
                failures.append(len(found.notices))
            return 0

    async def _try(self, target: Target, waiting: Sequence[WaitingNotice]) -> bool:
        """Send notices and record whether that worked."""
        causes = [each.cause for each in waiting]
        try:
            delivery = await self._deliver(target, waiting)
        except BullpenError as error:
            delivery = Delivery(False, error.message)
        line = self._outbox.line(target.key)
        if delivery.ok:
            line = due_rules.settled(line, causes)
            self._told.pop(target.key, None)
        else:
            line = due_rules.failed(line, causes, now_ms=self._clock())
            self._say(target.key, f"a notice to {target.shown} was not sent: {delivery.why}")
        self._outbox.lines[target.key] = line
        async with self._writing:
            await self._write()
        return delivery.ok

    async def _deliver(self, target: Target, waiting: Sequence[WaitingNotice]) -> Delivery:
        """Send notices as one, without those that are about what was answered meanwhile."""
        links: dict[str, tuple[Link, ...]] = {}
        live: list[Happening] = []
        for each in waiting:
            made = await self._links.of(each.happening, life_ms=target.life_ms)
            if made is not None:
                links[each.cause] = made
                live.append(each.happening)
        if not live:
            return Delivery(True)
        notice = notice_of(
            self._team.name,
            live,
            links=lambda happening: links[due_rules.cause_of(happening)],
            redacted=self._redacted,
            tag=_tag(self._team.name, [each.cause for each in waiting]),
        )
        if target.is_push:
            return await self._push(target, waiting, notice)
        address = target.address(self._environ)
        return await self._courier.send(address, notice, timeout_s=target.timeout_s)

    async def _push(
        self, target: Target, waiting: Sequence[WaitingNotice], notice: Notice
    ) -> Delivery:
        """Push to every browser that does not have all of it; one that is gone is forgotten."""
        browsers = await to_thread.run_sync(self._browsers.of, self._team.name)
        causes = [each.cause for each in waiting]
        failed: Delivery | None = None
        key = await to_thread.run_sync(self._browsers.private_key) if browsers else b""
        for browser in browsers:
            if all(browser.key in each.got for each in waiting):
                continue
            found = await self._courier.push(browser, key, notice, timeout_s=target.timeout_s)
            if found.gone:
                await to_thread.run_sync(self._browsers.remove, None, browser.endpoint)
                self._tell("a browser that wanted pushes is gone, and was removed")
            elif found.ok:
                line = self._outbox.line(target.key)
                self._outbox.lines[target.key] = due_rules.reached(line, causes, browser.key)
                async with self._writing:
                    await self._write()
            else:
                failed = found
        return failed or Delivery(True)

    def _is_quiet(self, target: Target) -> bool:
        return due_rules.is_quiet_at(target.quiet, self._shown(self._clock()))

    def _say(self, about: str, words: str) -> None:
        """Tell people, once as long as it stays the same."""
        if self._told.get(about) != words:
            self._told[about] = words
            self._tell(words)


@asynccontextmanager
async def _finishing(grace_s: float) -> AsyncIterator[None]:
    """Let what is inside end in this time after a cancellation: half a sending may be a whole one.

    A shield alone would let a slow service hold up whoever waits for the end.
    """
    async with anyio.create_task_group() as group:
        with anyio.CancelScope(shield=grace_s > 0) as inside:

            async def limit() -> None:
                try:
                    await anyio.sleep_forever()
                finally:
                    inside.deadline = anyio.current_time() + grace_s

            group.start_soon(limit)
            yield
        group.cancel_scope.cancel()


def _tag(team: str, causes: Sequence[str]) -> str:
    """What tells a notice from others: in a browser, one with the same tag is shown once."""
    return hashlib.sha256("\n".join([team, *causes]).encode()).hexdigest()[:32]
