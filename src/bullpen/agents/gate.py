"""The gate in front of every tool call: hooks, policy, and whoever has to be asked.

What an agent may do is read from the store at each call, so that an answer or an approval holds
from the moment it is stored, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.hooking import Hooking, HookRuling
from bullpen.agents.policy.answers import answer_of
from bullpen.agents.policy.call import Call, Rights, Ruling
from bullpen.agents.policy.decide import decide, rights_of
from bullpen.agents.shared_tree import SharedTree
from bullpen.agents.tools.opening import keep, look_up
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Approver
from bullpen.protocol.request import Answerer, Request
from bullpen.team import request_rules
from bullpen.team.policy_rules import approver_of
from bullpen.team.team import Team

_LOOK_EVERY_S = 2.0

_WORDS = {"human": "a person", "lead": "the lead", "policy": "the policy file"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an agent's files are, as far as its rights depend on it."""

    user_home: str
    folder: str
    # Where the teams are: whoever could write there could answer its own questions.
    home: str


class Gate:
    """The gate of one agent. It decides nothing itself: it asks those who do, in order."""

    def __init__(
        self,
        team: Team,
        agent: str,
        hooks: Hooking,
        around: Surroundings,
        *,
        waiting: Callable[[str], AbstractContextManager[None]],
        change: Callable[[], anyio.Event],
        redact: Callable[[Any], Any],
        record: Callable[..., None],
    ) -> None:
        self._team = team
        self._agent = agent
        self._hooks = hooks
        self._around = around
        self._waiting = waiting
        self._change = change
        self._redact = redact
        self._record = record
        self._tree = SharedTree(team, agent, Path(around.folder), record=record)
        # As they were at the last call.
        self.current: Rights | None = None

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """Return the input with which the call may be made, when it may be made.

        Raises:
            Refused: denied, not_answered; path_owned, others_edits.
        """
        agent = await self._facts()
        if self._agent == LEAD and agent.mode == "delegate" and call.kind != "team":
            raise self._denied(call, "you only lead, and a teammate has to do it")
        hooked = await self._hooks.before_tool(call, mode=agent.mode)
        if hooked.input is not None:
            call = replace(call, input=hooked.input)
        rights = self.current = self.rights(agent)
        call, ruling = await to_thread.run_sync(_judged, call, rights)
        ruling = await self._not_relayed(call, _with_hooks(ruling, hooked), rights)
        if ruling.effect == "deny":
            raise self._denied(call, ruling.why)
        await self._tree.check(call, agent, claim=ruling.effect == "allow")
        if ruling.effect == "ask":
            call = await self._asked(call, ruling, agent, rights)
            await self._tree.check(call, agent, claim=True)
        if call.real is not None:
            keep(call.input["file_path"], call.real)
        return call.input

    def turn_over(self) -> None:
        """What it has written for no task is anybody's from now on."""
        self._tree.turn_over()

    def rights(self, agent: AgentFacts) -> Rights:
        """All that decides about this agent's calls now."""
        around = self._around
        return rights_of(
            agent, user_home=around.user_home, readable=(around.folder,), private=(around.home,)
        )

    async def _facts(self) -> AgentFacts:
        _, agent = await self._team.agents.get(self._agent)
        return agent

    def _denied(self, call: Call, why: str, *, reason: str = "denied") -> Refused:
        self._record("denied", tool=call.tool, detail=call.detail, why=why)
        return Refused(
            f"You may not do this ({call}): {why}.",
            reason=reason,
            remedy="Do not try to get round it. Do it another way, or say what you could not do.",
        )

    async def _not_relayed(self, call: Call, ruling: Ruling, rights: Rights) -> Ruling:
        """What was denied to another member is not simply done by one that is freer."""
        if ruling.effect != "allow" or call.kind not in ("write", "run"):
            return ruling
        requests = (await self._team.approvals.all()).values()
        no = request_rules.denied_before(requests, digest=call.digest, by=self._agent)
        if no is None:
            return ruling
        why = f"{no.answered_by} denied exactly this to {no.sender} before"
        return Ruling("deny" if rights.mode == "dontAsk" else "ask", why)

    async def _asked(self, call: Call, ruling: Ruling, agent: AgentFacts, rights: Rights) -> Call:
        """Ask, wait, and use the answer once. Returns the call as the answer allows it."""
        policy = agent.asked.rights
        approver = approver_of(policy, leads=self._agent == LEAD)
        request = await self._request(call, ruling, approver, policy.deadline_s)
        if approver == "policy" and request.state == "pending":
            verdict = await to_thread.run_sync(answer_of, call, rights, policy.answers)
            request = await self._team.approvals.answer(
                request.id,
                approve=verdict.effect == "allow",
                by=LEAD,
                voice="policy",
                feedback=verdict.why,
            )
        elif request.state == "pending":
            request = await self._answered(call, request, approver)
        if request.state != "approved":
            raise self._refused(call, request)
        used = await self._team.approvals.redeem(request.id, by=self._agent, digest=call.digest)
        self._record("permitted", tool=call.tool, request=used.id, by=used.answered_by)
        return await self._edited(call, used, agent)

    async def _edited(self, call: Call, used: Request, agent: AgentFacts) -> Call:
        """The call of the answer. Whoever changes it is bound by what is denied all the same."""
        changed = (used.answer or {}).get("updatedInput")
        # Whoever answers saw it without secrets, and may have sent it back like that.
        same = (call.input, self._redact(dict(call.input)))
        if not isinstance(changed, dict) or changed in same:
            return call
        edited, ruling = await to_thread.run_sync(
            _judged, replace(call, input=changed), self.rights(agent)
        )
        if ruling.effect == "deny":
            raise self._denied(edited, ruling.why)
        return edited

    async def _request(
        self, call: Call, ruling: Ruling, approver: Approver, deadline_s: float
    ) -> Request:
        """The request for this call: one of before a restart that still counts, or a new one."""
        digest = call.digest
        for request in (await self._team.approvals.all()).values():
            mine = request.kind == "permission" and request.sender == self._agent
            if mine and request.digest == digest and self._counts(request):
                return request
        answerer: Answerer | None = None if approver == "inbox" else approver
        return await self._team.approvals.ask_permission(
            call.tool,
            self._redact(dict(call.input)),
            by=self._agent,
            to=LEAD,
            tool_use_id=call.use_id,
            description=self._redact(f"{call} ({ruling.why})"),
            suggestions=ruling.suggestions,
            deadline_s=deadline_s,
            approver=answerer,
            digest=digest,
        )

    def _counts(self, request: Request) -> bool:
        if request.state == "approved":
            return self._team.approvals.usable(request)
        return request.state == "pending" and not self._team.approvals.overdue(request)

    async def _answered(self, call: Call, request: Request, approver: Approver) -> Request:
        """Wait for the answer, as long as the request has time."""
        whom = _WORDS.get(approver, LEAD)
        with self._waiting(f"permission of {whom} for {call} ({request.id})"):
            while request.state == "pending":
                change = self._change()
                request = await self._team.approvals.get(request.id)
                if request.state != "pending":
                    break
                if self._team.approvals.overdue(request):
                    await self._team.approvals.expire()
                    continue
                with anyio.move_on_after(_LOOK_EVERY_S):
                    await change.wait()
        return request

    def _refused(self, call: Call, request: Request) -> Refused:
        words = (request.answer or {}).get("feedback") or "no reason was given"
        if request.state == "expired":
            why = f"{words.rstrip('.')}, and what nobody allows is denied"
            return self._denied(call, why, reason="not_answered")
        whose = "the policy" if request.voice == "policy" else request.answered_by
        return self._denied(call, f"{whose} denied it: {words}".rstrip("."))


def _with_hooks(ruling: Ruling, hooked: HookRuling) -> Ruling:
    """The ruling, as hooks change it: they can forbid and ask, but allow only what a mode asks."""
    if hooked.effect is None or ruling.effect == "deny":
        return ruling
    if hooked.effect == "deny":
        return Ruling("deny", hooked.why)
    if hooked.effect == "ask":
        return replace(ruling, effect="ask", why=hooked.why)
    by_rule = ruling.effect == "ask" and ruling.rule is not None
    return ruling if by_rule else Ruling("allow", hooked.why)


def _judged(call: Call, rights: Rights) -> tuple[Call, Ruling]:
    """The call with where its file really lies, and what is decided about that."""
    call = _looked_up(call, rights.cwd)
    return call, decide(call, rights)


def _looked_up(call: Call, cwd: str) -> Call:
    """The call with where its file really lies, to be decided about and opened as that."""
    path = call.input.get("file_path")
    if not isinstance(path, str):
        return replace(call, real=None)
    try:
        return replace(call, real=look_up(path, cwd))
    except Invalid:
        # The tool says the same, and opens nothing.
        return replace(call, real=None)


def surroundings(folder: Path, env: Mapping[str, str]) -> Surroundings:
    """Where an agent's files are, by its folder and its environment."""
    return Surroundings(
        user_home=env.get("HOME") or "/",
        folder=str(folder),
        home=env.get("BULLPEN_HOME") or str(folder),
    )
