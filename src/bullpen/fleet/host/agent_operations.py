"""Runs the operations that local agents ask their host for, each in the caller's own name.

An agent sends the name of an operation and arguments. The host decodes them, sets who acts and in
which voice, checks what only it can know, and runs the rules of the team in its own process.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, cast

from bullpen.errors import Conflict, Invalid
from bullpen.fleet.host.answered_by_code import answer_in_name_of
from bullpen.fleet.host.operation_rights import DOOR, Right, check_beat, facts_of, other_identity
from bullpen.fleet.host.repeated_call import NotDone, RepeatedStore, SearchedLog
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord
from bullpen.protocol.changes import Change
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import ShutdownRequest, payload_of
from bullpen.store.contract import Committed, Decide, Mark, Store, Stored, View
from bullpen.store.hosted.host_session import OperationCall
from bullpen.store.hosted.tokens import TokenIdentity
from bullpen.team.budget.rules import OverBudget
from bullpen.team.operation import answer_raw, over_budget_raw
from bullpen.team.operation.call_codec import call_codec
from bullpen.team.requests.mode_rules import approver_of, plan_approver_of
from bullpen.team.team import Team, operations

Args = dict[str, Any]

JudgeSpec = Callable[[str, str, AgentSpec, tuple[str, AgentFacts]], Awaitable[None]]
"""Refuses the spec of an agent (team, name, spec) that its parent could not have spawned."""

CheckPlace = Callable[[ProcessRecord, Collection[str]], Awaitable[None]]
"""Refuses a place that is not on this machine, or belongs to none of the launches with a nonce."""

_CLOCK_MS = 1_000
"""How far the clock of a caller on the same machine may be off to be used."""
_REDACTED = "[secret"


class AgentOperations:
    """Runs operations for agents. It has the rights of the host, and the caller has not."""

    def __init__(
        self, store: Store, *, judge: JudgeSpec, place: CheckPlace, clock: Clock = now_ms
    ) -> None:
        self._store = store
        self._judge = judge
        self._place = place
        self._clock = clock

    async def __call__(self, who: TokenIdentity, call: OperationCall) -> dict[str, Any]:
        """Run one operation. Raises what it raises, and Invalid or Refused for a bad call."""
        now = self._clock()
        if not call.repeated:
            # A repeat of the call can then be recognized by its time.
            at_ms = call.at_ms if abs(now - call.at_ms) <= _CLOCK_MS else now
            return await self._run(who, call, self._store, at_ms)
        with suppress(NotDone):
            return await self._run(who, call, SearchedLog(self._store, call.at_ms), call.at_ms)
        return await self._run(who, call, RepeatedStore(self._store), now)

    async def _run(
        self, who: TokenIdentity, call: OperationCall, store: Any, at_ms: int
    ) -> dict[str, Any]:
        caller, operation = who.agent, operations().get(call.name)
        if caller is None:
            raise Invalid(
                "The operator of the machine sends changes, not operations.",
                remedy="Use the token of an agent.",
            )
        if operation is None or operation.part == "teams":
            raise Invalid(
                f"The host does not run {call.name!r} for agents.",
                remedy="Use the same version of Bullpen here and on the host.",
            )
        asked = _CallStore(store, caller, DOOR[call.name])
        clock, new_id = (lambda: at_ms), _ids(who, call)
        team = Team(cast("Store", asked), call.team, clock=clock, new_id=new_id)
        method = getattr(getattr(team, operation.part), operation.method)
        bare = inspect.unwrap(method)
        with _reading(call.name):
            args = asked.args = call_codec(bare).arguments_of(call.arguments)
            inspect.signature(bare).bind(None, **_flat(bare, args))
        claimed = caller if operation.actor is None else args[operation.actor]
        voice = args.get("voice")
        if "voice" in call_codec(bare).arguments:
            args["voice"] = "agent"
        if call.name == "approvals.answer" and (claimed != caller or voice == "policy"):
            args["by"], args["voice"] = await answer_in_name_of(
                caller, args, team, claimed=claimed, voice=voice
            )
        elif claimed != caller:
            raise other_identity(caller, claimed)
        if not await self._prepared(caller, call.name, args, team):
            return answer_raw(bare, None)
        try:
            return answer_raw(bare, await method(**_flat(bare, args)))
        except OverBudget as error:
            return over_budget_raw(error)

    async def _prepared(self, caller: str, name: str, args: Args, team: Team) -> bool:
        """Check what only the host knows, and set what the caller may not choose.

        False if there is nothing to do.
        """
        match name:
            case "agents.register":
                await self._check_registration(caller, args, team)
            case "agents.relaunch":
                _, agent = await team.agents.get(args["name"])
                if agent.nonce != args["nonce"]:
                    args["expect"] = args.get("expect") or agent.nonce
            case "agents.ready" | "agents.placed":
                own = facts_of(await team.agents.config(), caller)
                nonces = {args["nonce"]} if own is None else {args["nonce"], own.nonce}
                await self._place(args["place"], nonces)
            case "agents.beat" if args["presence"].agent != caller:
                check_beat(caller, args["presence"], await team.agents.config())
            case "mailbox.send" | "mailbox.broadcast":
                _check_payload(caller, args["text"])
            case "approvals.ask_permission" | "approvals.ask_plan":
                facts = facts_of(await team.agents.config(), caller)
                _set_approver(name, args, facts, leads=caller == LEAD)
            case "approvals.hear":
                return await self._is_own_mail(caller, args, team)
        return True

    async def _check_registration(self, caller: str, args: Args, team: Team) -> None:
        name, key = args["name"], args.get("key")
        config = await team.agents.config()
        parent = facts_of(config, caller)
        if parent is None:
            raise other_identity(caller, name)
        agents = (member.agent for member in config.roster)
        if key is not None and any(agent and agent.key == key for agent in agents):
            # It exists already: the operation returns it and changes nothing.
            return
        await self._judge(team.name, name, args["spec"], (caller, parent))
        if caller != LEAD and config.member(name) is None:
            box = await self._store.mailbox(team.name, name, history=True)
            if box.entries or box.problems:
                raise Conflict(
                    f"Team {team.name!r} had a member {name!r} before, whose mail is kept.",
                    remedy="Choose another name.",
                )

    async def _is_own_mail(self, caller: str, args: Args, team: Team) -> bool:
        """Return whether a message asks for a shutdown. Refuses one that is not in its mailbox."""
        if args["to"] != caller:
            raise other_identity(caller, args["to"])
        message: Message = args["message"]
        if not isinstance(payload_of(message.text), ShutdownRequest):
            return False
        box = await self._store.mailbox(team.name, caller, history=True)
        given = (message.sender, message.text)
        if given not in ((each.message.sender, each.message.text) for each in box.entries):
            raise other_identity(caller, message.sender)
        return True


class _CallStore:
    """The store of one call: what it reads and writes, in the name of the caller alone.

    The right to the call is checked in the commit that it makes.
    """

    def __init__(self, store: Any, caller: str, right: Right) -> None:
        self._inner = store
        self._caller = caller
        self._right = right
        self.args: Args = {}
        self.config, self.read = store.config, store.read
        self.mailbox, self.unread, self.events = store.mailbox, store.unread, store.events
        self.presence, self.beat = store.presence, store.beat

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        def run(view: View) -> Sequence[Change]:
            self._right(self._caller, view, self.args)
            return decide(view)

        # Whoever starts an agent says where it runs.
        actor = self._caller if op == "agent.placed" else actor
        committed: Committed = await self._inner.commit(team, run, actor=actor, op=op)
        return committed

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        if message.sender != self._caller:
            raise other_identity(self._caller, message.sender)
        stored: Stored = await self._inner.append(team, to, message, actor=actor, fresh=fresh)
        return stored

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        if agent != self._caller:
            raise other_identity(self._caller, agent)
        return int(await self._inner.acknowledge(team, agent, ids, state, actor=actor))


def _ids(who: TokenIdentity, call: OperationCall) -> Callable[[], str]:
    """Return new ids that a repeat of the same call gets again."""
    numbers = count()
    return lambda: str(
        uuid.uuid5(uuid.NAMESPACE_OID, f"{who.team} {who.agent} {call.eid} {next(numbers)}")
    )


def _check_payload(caller: str, text: str) -> None:
    """Refuse a text for programs that says that another agent wrote it."""
    payload = payload_of(text)
    sender = None if payload is None else getattr(payload, "sender", None)
    if sender is not None and sender != caller:
        raise other_identity(caller, sender)


def _set_approver(name: str, args: Args, facts: AgentFacts | None, *, leads: bool) -> None:
    """Let those answer whom the agent's policy names. A person may always be asked instead."""
    args["to"] = LEAD
    if facts is None:
        args["approver"] = "human"
    elif args.get("approver") != "human":
        policy = facts.spec.policy
        find = plan_approver_of if name == "approvals.ask_plan" else approver_of
        approver = find(policy, leads=leads)
        args["approver"] = None if approver == "inbox" else approver
    if args.get("digest") is not None and _REDACTED not in repr(args["tool_input"]):
        # It may differ from the input only because secrets were removed from that.
        args["digest"] = None


def _flat(method: Callable[..., Any], args: Args) -> Args:
    """Return the arguments of a call, with those of `**changes` among them."""
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            rest = {key: value for key, value in args.items() if key != name}
            more = args.get(name, {})
            if more.keys() & (rest.keys() | {"self"}):
                raise ValueError("an argument is given twice")
            return {**rest, **more}
    return args


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Refuse invalid arguments."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(
            f"The arguments of {name!r} are not valid: {error}.",
            remedy="Use the same version on both sides of the socket.",
        ) from None
