"""The gate: decide about every tool call with hooks, the policy, and a request if one is needed.

An agent's rights are read from the store at each call, so an answer counts from the moment it is
stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.config.trust import refuse_answers
from bullpen.agents.contracts.call import Call, Rights, Ruling
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.hooks.hook_set import HookVerdict
from bullpen.agents.hooks.lifecycle import AgentHooks
from bullpen.agents.permissions.agent_rights import rights_of
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.policy_file import answer_of
from bullpen.agents.permissions.rule_language.paths import below
from bullpen.agents.permissions.rule_language.web_address import WEB_TOOLS
from bullpen.agents.runner.shared_tree import SharedTree
from bullpen.agents.system.environment import command_environment
from bullpen.agents.system.secrets import with_texts
from bullpen.agents.tools.agent_memory import memory_folder
from bullpen.agents.tools.files.prompt_files import project_root
from bullpen.agents.tools.files.safe_open import keep, look_up
from bullpen.agents.tools.skills.skill_files import skill_folders
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Approver
from bullpen.protocol.request import Answerer, Request
from bullpen.team.requests import rules as request_rules
from bullpen.team.requests.deadlines import RequestDeadlines
from bullpen.team.requests.mode_rules import approver_of

_LOOK_EVERY_S = 2.0

_WORDS = {"human": "a person", "lead": "the lead", "policy": "the policy file"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The folders that an agent's rights depend on."""

    user_home: str
    folder: str
    # The folder of the teams: an agent that can write there could approve its own requests.
    home: str
    # Where Claude Code keeps the user's own files.
    claude_home: str
    # What every command starts with that Bullpen itself runs.
    env: Mapping[str, str]


class Gate:
    """The gate of one agent. It only asks those who decide, in order."""

    def __init__(
        self,
        desk: Desk,
        hooks: AgentHooks,
        *,
        change: Callable[[], anyio.Event],
        deadlines: RequestDeadlines,
    ) -> None:
        """`change` returns the event of the next change in the team."""
        self._desk = desk
        self._team = desk.team
        self._agent = desk.agent
        self._hooks = hooks
        self._around = surroundings(desk.folder, desk.env)
        self._change = change
        self._deadlines = deadlines
        self._tree = SharedTree(desk)
        # The folders of skills in this turn, by working directory.
        self._skills: dict[str, tuple[str, ...]] = {}
        # The rights at the last call.
        self.current: Rights | None = None

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """The input with which the call may be made. Raises Refused."""
        _, agent = await self._team.agents.get(self._agent)
        if self._agent == LEAD and agent.mode == "delegate" and call.kind != "team":
            raise self._denied(call, "you only lead; give this work to a teammate")
        hooked = await self._hooks.before_tool(call)
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
        if call.opens is not None and call.real is not None:
            keep(call.opens, call.real)
        return call.input

    def turn_over(self) -> None:
        """End a turn: files that it wrote for no task are no longer its own."""
        self._tree.turn_over()
        self._skills.clear()

    def rights(self, agent: AgentFacts) -> Rights:
        """The agent's current rights. Folders of skills are looked up once in a turn."""
        cwd = agent.spec.cwd
        if cwd not in self._skills:
            self._skills[cwd] = skill_roots(cwd, self._around)
        return rights_around(agent, self._around, self._skills[cwd])

    def _redacted(self, value: Any) -> Any:
        return with_texts(value, self._desk.redacted)

    def _denied(self, call: Call, why: str, *, reason: str = "denied") -> Refused:
        self._desk.record("denied", tool=call.tool, detail=call.detail, why=why)
        return Refused(
            f"You may not do this ({call}): {why}.",
            reason=reason,
            remedy="Do not work around this. Find an allowed way, or report what you could not do.",
        )

    async def _not_relayed(self, call: Call, ruling: Ruling, rights: Rights) -> Ruling:
        """Ask first if another member was denied exactly this call."""
        minor = call.kind not in ("write", "run") and call.tool not in WEB_TOOLS
        if ruling.effect != "allow" or minor:
            return ruling
        requests = (await self._team.approvals.all()).values()
        no = request_rules.denied_before(requests, digest=call.digest, by=self._agent)
        if no is None:
            return ruling
        why = f"{_whose(no)} denied exactly this to {no.sender} before"
        return Ruling("deny" if rights.mode == "dontAsk" else "ask", why)

    async def _asked(self, call: Call, ruling: Ruling, agent: AgentFacts, rights: Rights) -> Call:
        """Send a request, wait, and use the answer once. Returns the call as it was approved."""
        policy = agent.spec.policy
        approver = approver_of(policy, leads=self._agent == LEAD)
        request = await self._request(call, ruling, approver, policy.deadline_s)
        if approver == "policy" and request.state == "pending":
            refuse = partial(refuse_answers, Path(self._around.home))
            verdict = await to_thread.run_sync(answer_of, call, rights, policy.answers, refuse)
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
        self._desk.record(
            "permitted", tool=call.tool, request=used.id, by=used.answered_by, voice=used.voice
        )
        return await self._edited(call, used, agent)

    async def _edited(self, call: Call, used: Request, agent: AgentFacts) -> Call:
        """The call as the answer changed it. What is denied stays denied."""
        changed = (used.answer or {}).get("updatedInput")
        # The approver saw the input without secrets and may have returned it like that.
        same = (call.input, self._redacted(dict(call.input)))
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
        """The request for this call: a valid one from before a restart, or a new one."""
        digest = call.digest
        for request in (await self._team.approvals.all()).values():
            mine = request.kind == "permission" and request.sender == self._agent
            if mine and request.digest == digest and self._counts(request):
                return request
        answerer: Answerer | None = None if approver == "inbox" else approver
        # A rule with a secret in it would be stored as it is.
        offered = [each for each in ruling.choices if self._redacted(each.record) == each.record]
        plain = next((each for each in offered if each.plain), None)
        return await self._team.approvals.ask_permission(
            call.tool,
            self._redacted(dict(call.input)),
            by=self._agent,
            to=LEAD,
            tool_use_id=call.use_id,
            description=self._redacted(f"{call} ({ruling.why})"),
            suggestions=() if plain is None else plain.suggestions,
            choices=[each.record for each in offered],
            deadline_s=deadline_s,
            approver=answerer,
            digest=digest,
        )

    def _counts(self, request: Request) -> bool:
        if request.state == "approved":
            return self._team.approvals.usable(request)
        return request.state == "pending" and not self._team.approvals.overdue(request)

    async def _answered(self, call: Call, request: Request, approver: Approver) -> Request:
        whom = _WORDS.get(approver, LEAD)
        return await self.answer_to(request, f"permission from {whom} for {call} ({request.id})")

    async def answer_to(self, request: Request, on: str) -> Request:
        """Wait for the answer until the request's deadline. `on` says what for."""
        with self._desk.waiting(on):
            while request.state == "pending":
                change = self._change()
                await self._deadlines.keep()
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
            why = f"{words.rstrip('.')}; no answer means no"
            return self._denied(call, why, reason="not_answered")
        return self._denied(call, f"{_whose(request)} denied it: {words}".rstrip("."))


def _whose(request: Request) -> str:
    """Whose answer it is, as the agent is told. A person answers in the name of the lead."""
    if request.voice == "policy":
        return "the policy"
    if request.voice == "human" and request.answered_by == LEAD:
        return "your user"
    return request.answered_by or "nobody"


def _with_hooks(ruling: Ruling, hooked: HookVerdict) -> Ruling:
    """The ruling after hooks: they can deny or ask, but allow only what no rule asks about."""
    if hooked.effect is None or ruling.effect == "deny":
        return ruling
    if hooked.effect == "deny":
        return Ruling("deny", hooked.why)
    if hooked.effect == "ask":
        return replace(ruling, effect="ask", why=hooked.why)
    by_rule = ruling.effect == "ask" and ruling.rule is not None
    return ruling if by_rule else Ruling("allow", hooked.why)


def _judged(call: Call, rights: Rights) -> tuple[Call, Ruling]:
    """The call with the real path of its file, and the decision about it."""
    path, real = call.opens, None
    if path is not None:
        # The tool reports an invalid path itself, and opens nothing.
        with suppress(Invalid):
            real = look_up(path, rights.cwd)
    call = replace(call, real=real)
    ruling = decide(call, rights)
    return call, ruling if call.limits is None else ruling.or_stricter(call.limits(call))


def surroundings(folder: Path, env: Mapping[str, str]) -> Surroundings:
    """The folders of an agent, from its own folder and its environment."""
    return Surroundings(
        user_home=env.get("HOME") or "/",
        folder=os.path.realpath(folder),
        home=env.get("BULLPEN_HOME") or str(folder),
        claude_home=env.get("CLAUDE_CONFIG_DIR") or os.path.join(env.get("HOME") or "/", ".claude"),
        env=env,
    )


def skill_roots(cwd: str, around: Surroundings) -> tuple[str, ...]:
    """The real paths of the folders of skills for a directory, none outside of its project.

    A link that is put in the place of one later leads out of it: real paths are compared.
    """
    root = project_root(cwd, os.path.realpath(around.user_home))
    return tuple(
        str(folder)
        for folder, of_user in skill_folders(Path(cwd), around.user_home, around.claude_home)
        if of_user or below(str(folder), root)
    )


def rights_around(
    agent: AgentFacts, around: Surroundings, skills: tuple[str, ...] | None = None
) -> Rights:
    """The present rights of an agent with these folders, those of its skills and its memory.

    `skills` are the folders of skills if they are known already.
    """
    if skills is None:
        skills = skill_roots(agent.spec.cwd, around)
    notes = memory_folder(agent.spec, around.user_home)
    return rights_of(
        agent,
        user_home=around.user_home,
        readable=(around.folder, *skills),
        private=(around.home,),
        memory=() if notes is None else (notes,),
        commands=command_environment(around.env, agent.spec),
    )
