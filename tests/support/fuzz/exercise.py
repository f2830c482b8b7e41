"""What is done with a damaged team: a random mix of operations, then the doctor, then again."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bullpen.errors import BullpenError, NotFound, Unavailable
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    PutMember,
    PutRequest,
    PutTask,
    RemoveMember,
)
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.store.contract import Committed, Decide, Finding, Mark, Stored, View
from bullpen.store.files.store import FileStore
from bullpen.team.doctor import checkup
from bullpen.team.team import Teams

from .home import LIMITS, MEMBERS, TASK_IDS, TEAM, Sandbox
from .values import any_text

SLOW_S = 5.0


@dataclass(slots=True)
class Meant:
    """What operations meant to change: the only changes that a valid record may show."""

    settled: dict[tuple[str, str], Any] = field(default_factory=dict)
    failed: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    sent: list[tuple[str, Message]] = field(default_factory=list)

    def happened(self, changes: Sequence[Change]) -> None:
        """The records have these values now."""
        for change in changes:
            if isinstance(change, Deliver):
                self.sent.append((change.to, change.message))
            elif (value := _value(change)) is not None:
                self.settled[value[:2]] = value[2]
                self.failed.pop(value[:2], None)

    def failed_to(self, changes: Sequence[Change]) -> None:
        """The records may have these values now, or get them from whoever comes next."""
        for change in changes:
            if (value := _value(change)) is not None:
                self.failed.setdefault(value[:2], []).append(value[2])

    def allowed(self, kind: str, key: str, base: Any) -> list[Any]:
        """The values that a record may have; None stands for a record that is gone."""
        return [self.settled.get((kind, key), base), *self.failed.get((kind, key), ())]


def _value(change: Change) -> tuple[str, str, Any] | None:
    match change:
        case PutTask(task):
            return "task", task.id, task.raw
        case DeleteTask(task_id):
            return "task", task_id, None
        case PutMember(member):
            return "member", member.name, member.raw
        case RemoveMember(name):
            return "member", name, None
        case PutRequest(request):
            return "request", request.id, request.raw
        case _:
            return None


class NotedStore(FileStore):
    """The file store, with a note of all that it was asked to change."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox.home, limits=LIMITS, fsync=False)
        self.meant = Meant()

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        changes: Sequence[Change] = ()

        def noted(view: View) -> Sequence[Change]:
            nonlocal changes
            changes = decide(view)
            return changes

        try:
            committed = await super().commit(team, noted, actor=actor, op=op)
        except BullpenError:
            self.meant.failed_to(changes)
            raise
        self.meant.happened(committed.changes)
        return committed

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        stored = await super().append(team, to, message, actor=actor, fresh=fresh)
        if not stored.duplicate:
            self.meant.sent.append((to, message))
        return stored


class Exercise:
    """One team in the hands of one case."""

    def __init__(self, sandbox: Sandbox, rng: random.Random) -> None:
        self.store = NotedStore(sandbox)
        self.teams = Teams(self.store)
        self.team = self.teams.open(TEAM)
        self.rng = rng
        self.wrong: list[str] = []
        self.told: list[str] = []

    async def attempt(self, name: str, operation: Callable[[], Awaitable[Any]]) -> Any:
        """Run an operation. It may succeed or say no; nothing else, and not for long."""
        began = time.monotonic()
        result = None
        try:
            result = await operation()
            self.told.append(f"{name}: fine")
        except BullpenError as error:
            self.told.append(f"{name}: {type(error).__name__}: {error.message[:200]}")
            result = error
        except Exception as error:
            self.told.append(f"{name}: {type(error).__name__}")
            self.wrong.append(f"{name} raised\n{''.join(traceback.format_exception(error))}")
            result = error
        if time.monotonic() - began > SLOW_S:
            self.wrong.append(f"{name} took {time.monotonic() - began:.1f} s")
        return result

    async def work(self, count: int) -> None:
        """Some operations, as agents would do them."""
        for name in self.rng.choices(_NAMES, k=count):
            await self.attempt(name, partial(_OPERATIONS[name], self))

    async def doctor(self, *, fix: bool) -> list[Finding] | Exception:
        """What `bullpen doctor` does for one team."""

        async def examine() -> list[Finding]:
            found = await self.store.checkup(TEAM, fix=fix)
            try:
                return found + await checkup(self.store, TEAM, fix=fix, by=LEAD)
            except Unavailable:
                if all(finding.fixed for finding in found):
                    raise
                return found

        result: list[Finding] | Exception = await self.attempt(f"doctor fix={fix}", examine)
        if isinstance(result, BullpenError) and not isinstance(result, NotFound):
            self.wrong.append(f"the doctor gives up: {result}")
        return result

    @property
    def member(self) -> str:
        return self.rng.choice(MEMBERS)

    @property
    def task_id(self) -> str:
        return self.rng.choice(TASK_IDS)


async def _marked(exercise: Exercise) -> None:
    name = exercise.member
    entries = (await exercise.team.mailbox.read(name)).unread
    state: Mark = exercise.rng.choice(("seen", "injected"))
    await exercise.team.mailbox.mark(name, [entry.id for entry in entries], state)


async def _read_on(exercise: Exercise) -> None:
    name = exercise.member
    entries = (await exercise.team.mailbox.read(name, history=True)).entries
    if entries:
        after = exercise.rng.choice(entries).id
        await exercise.team.mailbox.read(name, after=after)


async def _answered(exercise: Exercise) -> None:
    for request in await exercise.team.approvals.pending():
        approve = exercise.rng.random() < 0.5
        await exercise.team.approvals.answer(request.id, approve=approve, by=request.to)


async def _beaten(exercise: Exercise) -> None:
    beat = Presence.new(agent=exercise.member, state="idle", since_ms=1, beat_ms=2)
    await exercise.store.beat(TEAM, beat)


async def _watched(exercise: Exercise) -> None:
    changes = exercise.store.watch(TEAM)
    try:
        async for _ in changes:
            break
    finally:
        await changes.aclose()


async def _found(exercise: Exercise) -> None:
    task_id = exercise.rng.choice((exercise.task_id, any_text(exercise.rng)))
    await exercise.team.tasks.get(task_id)


_OPERATIONS: dict[str, Callable[[Exercise], Awaitable[Any]]] = {
    "read": lambda e: e.store.read(TEAM),
    "teams": lambda e: e.teams.list(),
    "snapshot": lambda e: e.team.snapshot(),
    "list": lambda e: e.team.tasks.list(),
    "ready": lambda e: e.team.tasks.ready(),
    "get": _found,
    "claim": lambda e: e.team.tasks.claim(e.task_id, by=e.member, also=e.rng.random() < 0.5),
    "claim next": lambda e: e.team.tasks.claim_next(by=e.member, lease_s=60),
    "done": lambda e: e.team.tasks.done(e.task_id, by=e.rng.choice((LEAD, e.member)), report="x"),
    "release": lambda e: e.team.tasks.release(e.task_id, by=LEAD, reason="fuzz"),
    "assign": lambda e: e.team.tasks.assign(e.task_id, e.member, by=LEAD),
    "add": lambda e: e.team.tasks.add("New", by=LEAD, blocked_by=[e.task_id], owner=e.member),
    "depend": lambda e: e.team.tasks.depend(e.task_id, e.task_id, by=LEAD),
    "delete": lambda e: e.team.tasks.delete(e.task_id, by=LEAD),
    "expire": lambda e: e.team.tasks.expire(by=LEAD),
    "join": lambda e: e.team.roster.join(f"new{e.rng.randrange(9)}", by=LEAD),
    "remove": lambda e: e.team.roster.remove(e.member, by=LEAD),
    "send": lambda e: e.team.mailbox.send(e.member, "Hello", sender=e.member),
    "send again": lambda e: e.team.mailbox.send("bob", "Hello", sender=LEAD, key="fuzz"),
    "broadcast": lambda e: e.team.mailbox.broadcast("Hello", sender=e.member),
    "mailbox": lambda e: e.team.mailbox.read(e.member, history=e.rng.random() < 0.5),
    "mailbox after": _read_on,
    "acknowledge": _marked,
    "unread": lambda e: e.team.mailbox.unread(),
    "pending": lambda e: e.team.approvals.pending(),
    "ask": lambda e: e.team.approvals.ask_shutdown(e.member, by=LEAD),
    "answer": _answered,
    "deadlines": lambda e: e.team.approvals.expire(),
    "events": lambda e: e.team.events(after=e.rng.choice((0, 5, 10**6)), limit=3),
    "presence": lambda e: e.store.presence(TEAM),
    "beat": _beaten,
    "watch": _watched,
}
_NAMES = tuple(_OPERATIONS)


async def read_everything(exercise: Exercise) -> None:
    """Every kind of reading; each must succeed in a team that the doctor says is well."""
    await exercise.store.read(TEAM)
    await exercise.team.snapshot()
    await exercise.team.events()
    for name in MEMBERS:
        try:
            await exercise.team.mailbox.read(name, history=True)
        except NotFound:
            continue
