"""One connection to the host: its identity, its calls and its answers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import astuple, dataclass
from typing import Any, TypeVar, cast

from bullpen.errors import BullpenError, Invalid, Refused, Unavailable
from bullpen.protocol.changes import Event
from bullpen.protocol.message import Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Mark, Store
from bullpen.store.hosted import frames as wire
from bullpen.store.hosted import rights
from bullpen.store.hosted.outcomes import Outcomes
from bullpen.store.hosted.replica import Reads
from bullpen.store.hosted.team_session import HostDecision, TeamSession
from bullpen.store.hosted.tokens import Identify, TokenIdentity

T = TypeVar("T")
Args = dict[str, Any]
Work = Awaitable[Any]

Asked = Callable[[TokenIdentity, str, Args], Awaitable[Any]]
"""Answers questions to the host that do not concern the store."""


@dataclass(frozen=True, slots=True)
class OperationCall:
    """An operation that an agent asks for, with arguments that nobody has checked.

    `eid` and `at_ms` are the caller's: who asks again after the connection broke (`repeated`) gives
    them again, so that the host finds out whether it was done.
    """

    team: str
    name: str
    arguments: Any
    eid: str
    at_ms: int
    repeated: bool


Operate = Callable[[TokenIdentity, OperationCall], Awaitable[Any]]
"""Runs an operation in the name of an agent."""

_HELLO_S = 10.0
_RECHECK_S = 0.1
"""How soon a connection notices that its token was revoked."""
_CALLS_MAX = 4_096
_DECIDE = "write records itself"
_CHANGING = frozenset({"create", "restore", "delete", "append", "acknowledge", "settle", "operate"})


@dataclass(frozen=True, slots=True)
class SharedHost:
    """What all sessions share."""

    store: Store
    # The same store for the operator, who must see what everybody has stored by now.
    exact: Store
    identities: Identify
    outcomes: Outcomes
    session: Callable[[str], TeamSession]
    forget_team: Callable[[str], None]
    asked: Asked
    operate: Operate


class HostSession:
    """One connection, from its hello to its end. Many of its calls can run at once."""

    def __init__(
        self, shared: SharedHost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._shared, self._store = shared, shared.store
        self._reader, self._writer = reader, writer
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._turns: dict[str, str] = {}
        self._name = uuid.uuid4().hex
        self._token = ""
        self._who = TokenIdentity("", "")
        self._checked = 0.0
        self._call_ended = asyncio.Event()
        self._handlers: dict[str, Callable[[Args], Work]] = {
            "teams": self._teams,
            "create": self._create,
            "restore": self._restore,
            "delete": self._delete,
            "config": self._config,
            "read": self._read,
            "begin": self._begin,
            "settle": self._settle,
            "append": self._append,
            "mailbox": self._mailbox,
            "acknowledge": self._acknowledge,
            "events": self._events,
            "beat": self._beat,
            "presence": self._presence,
            "checkup": self._checkup,
            "operate": self._operate,
            "ask": self._ask,
        }

    async def run(self) -> None:
        """Serve the connection until it is closed."""
        try:
            if await self._greeted():
                frames_max = wire.frames_of(operator=self._who.is_operator)
                while True:
                    # A client that does not read its answers gets no more of them.
                    await self._writer.drain()
                    frame = await wire.receive(self._reader, frames_max=frames_max)
                    await self._begin_call(frame)
        except wire.TooLong as error:
            await self._tell({"id": 0, "error": wire.error_raw(_too_long(error))})
        finally:
            for call in list(self._calls.values()):
                call.cancel()
            await asyncio.gather(*self._calls.values(), return_exceptions=True)
            for ticket, team in self._turns.items():
                self._shared.session(team).turns.give_back(ticket)

    async def _greeted(self) -> bool:
        async with asyncio.timeout(_HELLO_S):
            hello = await wire.receive(self._reader)
        self._token = str(hello.get("token", ""))
        try:
            if hello.get("v") != wire.VERSION:
                raise _other_version(hello.get("v"))
            who = self._shared.identities(self._token)
            if who is None:
                raise _unknown_token()
        except BullpenError as error:
            await self._tell({"id": 0, "error": wire.error_raw(error)})
            return False
        self._who, self._checked = who, time.monotonic()
        if who.is_operator:
            self._store = self._shared.exact
        await self._tell({"id": 0, "ok": {"operator": who.is_operator}})
        return True

    async def _begin_call(self, frame: Args) -> None:
        match frame.get("op"), frame.get("id"):
            case "cancel", int(number):
                if number in self._calls:
                    self._calls[number].cancel()
            case "pass", _:
                self._pass(self._ticket(frame))
            case str(op), int(number) if number > 0 and number not in self._calls:
                while len(self._calls) >= _CALLS_MAX:
                    self._call_ended.clear()
                    await self._call_ended.wait()
                self._calls[number] = asyncio.ensure_future(self._answer(number, op, frame))
            case _:
                raise ValueError("it is not a call")

    def _ticket(self, args: Args) -> str:
        """Return the name of a turn, which no other session can name."""
        return f"{self._name} {args.get('turn')}"

    def _pass(self, ticket: str) -> None:
        team = self._turns.pop(ticket, None)
        if team is not None:
            self._shared.session(team).turns.give_back(ticket)

    async def _answer(self, number: int, op: str, args: Args) -> None:
        try:
            self._check_identity()
            if op == "watch":
                await self._watch(number, args)
            else:
                await self._tell({"id": number, "ok": await self._result(op, args)})
        except BullpenError as error:
            await self._tell({"id": number, "error": wire.error_raw(error)})
        except Exception as error:
            failed = Unavailable(
                f"The host process failed at {op!r}: {type(error).__name__}: {error}.",
                remedy="Try again. If it fails again, it is a bug in the host process.",
            )
            await self._tell({"id": number, "error": wire.error_raw(failed)})
        finally:
            self._calls.pop(number, None)
            self._call_ended.set()

    def _check_identity(self) -> None:
        now = time.monotonic()
        if now - self._checked > _RECHECK_S:
            if self._shared.identities(self._token) != self._who:
                raise _unknown_token()
            self._checked = now

    async def _result(self, op: str, args: Args) -> Any:
        eid = args.get("eid")
        if op not in _CHANGING or not isinstance(eid, str):
            return await self._work(op, args)
        with _reading(op):
            team = self._team(args)
        return await self._shared.outcomes.of(
            team, (self._who, op, eid), lambda: self._work(op, args)
        )

    def _work(self, op: str, args: Args) -> Work:
        with _reading(op):
            if op not in self._handlers:
                raise ValueError("the call is unknown")
            return self._handlers[op](args)

    async def _tell(self, answer: Args) -> None:
        try:
            frames = wire.pack(answer, frames_max=wire.FRAMES_MAX)
        except ValueError as error:
            unsaid = Unavailable(
                f"The host's answer cannot be sent: {error}.", remedy="Ask for less at once."
            )
            frames = wire.pack({"id": answer["id"], "error": wire.error_raw(unsaid)})
        # If the connection is gone, its reader ends the session.
        with suppress(OSError):
            self._writer.write(frames)
            await self._writer.drain()

    # The calls. Each reads its arguments and checks the rights at once, and returns the work.

    def _team(self, args: Args) -> str:
        team = _text(args, "team")
        rights.check_team(self._who, team)
        return team

    def _operator(self, what: str) -> None:
        rights.check_operator(self._who, what)

    def _teams(self, args: Args) -> Work:
        return _shown(self._store.teams(), lambda teams: rights.visible_teams(self._who, teams))

    def _create(self, args: Args) -> Work:
        self._operator("create a team")
        team, config = _text(args, "team"), TeamConfig.parse(args["config"])
        self._shared.forget_team(team)
        return self._store.create(team, config, actor=_text(args, "actor"))

    def _restore(self, args: Args) -> Work:
        self._operator("restore a team from a log")
        team, events = _text(args, "team"), [Event.decode(row) for row in args["events"]]
        self._shared.forget_team(team)
        return self._store.restore(team, events)

    def _delete(self, args: Args) -> Work:
        self._operator("delete a team")
        team, actor = _text(args, "team"), _text(args, "actor")

        async def delete() -> bool:
            try:
                return await self._store.delete(team, actor=actor)
            finally:
                self._shared.forget_team(team)

        return delete()

    def _config(self, args: Args) -> Work:
        return _shown(self._store.config(self._team(args)), lambda config: config.raw)

    def _read(self, args: Args) -> Work:
        return _shown(self._store.read(self._team(args)), wire.state_raw)

    def _begin(self, args: Args) -> Work:
        team, ticket = self._team(args), self._ticket(args)
        self._operator(_DECIDE)
        stamp, seq = args.get("stamp"), _number(args, "seq")
        self._turns[ticket] = team

        async def begin() -> dict[str, Any]:
            session = self._shared.session(team)
            try:
                return await session.begin(ticket, stamp if isinstance(stamp, str) else None, seq)
            except BaseException:
                self._pass(ticket)
                raise

        return begin()

    def _settle(self, args: Args) -> Work:
        team, ticket, repeated = self._team(args), self._ticket(args), _is_repeated(args)
        self._operator(_DECIDE)
        decision = HostDecision(
            stamp=_text(args, "stamp"),
            seq=_number(args, "seq"),
            reads=Reads.of(args["reads"]),
            changes=wire.changes_of(args["changes"], trust_fresh=not repeated),
            actor=_text(args, "actor"),
            op=_text(args, "op_name"),
        )

        async def settle() -> dict[str, Any]:
            session = self._shared.session(team)
            if repeated and decision.changes:
                found = await session.find(decision)
                if found is not None:
                    return found
            answer = await session.settle(ticket, decision)
            if "again" not in answer:
                self._turns.pop(ticket, None)
            return answer

        return settle()

    def _append(self, args: Args) -> Work:
        team = self._team(args)
        self._operator(_DECIDE)
        message = Message.parse(args["message"])
        # A repeated message may already be there, whatever its sender says.
        fresh = args.get("fresh") is True and not _is_repeated(args)
        work = self._store.append(
            team, _text(args, "to"), message, actor=_text(args, "actor"), fresh=fresh
        )
        return _shown(work, astuple)

    def _mailbox(self, args: Args) -> Work:
        team, agent, after = self._team(args), _text(args, "agent"), args.get("after")
        work = self._store.mailbox(
            team,
            agent,
            after=after if isinstance(after, str) else None,
            history=args.get("history") is True,
        )
        return _shown(work, lambda box: wire.box_raw(rights.shown_box(self._who, agent, box)))

    def _acknowledge(self, args: Args) -> Work:
        team = self._team(args)
        self._operator(_DECIDE)
        agent, state = _text(args, "agent"), _text(args, "state")
        ids = args["ids"]
        if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
            raise ValueError("ids must be a list of texts")
        if state not in ("injected", "seen"):
            raise ValueError(f"{state!r} is not a delivery state")
        actor = _text(args, "actor")
        return self._store.acknowledge(team, agent, ids, cast("Mark", state), actor=actor)

    def _events(self, args: Args) -> Work:
        team, after = self._team(args), _number(args, "after")
        limit = None if args.get("limit") is None else _number(args, "limit")
        if args.get("recent"):
            work = self._store.recent_events(team)
        else:
            work = self._store.events(team, after=after, limit=limit)
        return _shown(
            work, lambda events: [rights.shown_event(self._who, each).encode() for each in events]
        )

    def _beat(self, args: Args) -> Work:
        team = self._team(args)
        self._operator(_DECIDE)
        return self._store.beat(team, Presence.parse(args["presence"]))

    def _presence(self, args: Args) -> Work:
        return _shown(
            self._store.presence(self._team(args)),
            lambda beats: {agent: beat.raw for agent, beat in beats.items()},
        )

    def _checkup(self, args: Args) -> Work:
        fix = args.get("fix") is True
        if args.get("team") is None:
            self._operator("check the whole store")
            work = self._store.checkup(None, fix=fix)
        else:
            team = self._team(args)
            if fix:
                self._operator("repair a team")
            work = self._store.checkup(team, fix=fix)
        return _shown(work, lambda findings: [astuple(each) for each in findings])

    def _operate(self, args: Args) -> Work:
        call = OperationCall(
            self._team(args),
            _text(args, "name"),
            args["arguments"],
            _text(args, "eid"),
            _number(args, "at_ms"),
            _is_repeated(args),
        )
        return self._shared.operate(self._who, call)

    def _ask(self, args: Args) -> Work:
        return self._shared.asked(self._who, _text(args, "what"), args["args"])

    async def _watch(self, number: int, args: Args) -> None:
        with _reading("watch"):
            team, agent, every = self._team(args), args.get("agent"), args.get("every_s")
        seqs = self._store.watch(
            team,
            every_s=every if isinstance(every, int | float) else None,
            agent=agent if isinstance(agent, str) else None,
        )
        async with aclosing(seqs):
            async for seq in seqs:
                self._check_identity()
                await self._tell({"id": number, "item": seq})


async def _shown(work: Awaitable[T], show: Callable[[T], Any]) -> Any:
    return show(await work)


@contextmanager
def _reading(op: str) -> Iterator[None]:
    """Refuse invalid arguments."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(
            f"The call {op!r} to the host is not valid: {error}.",
            remedy="Use the same version on both sides of the socket.",
        ) from None


def _text(args: Args, key: str) -> str:
    value = args[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} must be a text")
    return value


def _number(args: Args, key: str) -> int:
    value = args[key]
    if not isinstance(value, int):
        raise TypeError(f"{key} must be a number")
    return value


def _is_repeated(args: Args) -> bool:
    return args.get("repeat") is True


def _other_version(given: Any) -> Refused:
    return Refused(
        f"The host process uses version {wire.VERSION} of its socket protocol,"
        f" not version {given!r}.",
        reason="old_protocol",
        remedy="Use the same version of Bullpen for both: after an upgrade, restart the host"
        " process and start the agents again.",
    )


def _unknown_token() -> Refused:
    return Refused(
        "The host process of this machine does not know this token.",
        reason="unknown_token",
        remedy="The token was revoked or belongs to another host. Start the agent again.",
    )


def _too_long(error: wire.TooLong) -> Invalid:
    return Invalid(
        f"The call to the host is too large: {error}. The limit is {wire.FRAME_BYTES_MAX} bytes.",
        remedy="Put the content in a file and send its path.",
    )
