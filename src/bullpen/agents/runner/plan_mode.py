"""The mode of one agent. In plan mode it reads, submits a plan, and works once it is approved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anyio import to_thread

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.drivers.registry import refuse_fixed_mode
from bullpen.agents.runner.plan_command import PlanVerdict, ask_rule
from bullpen.agents.system.environment import for_commands
from bullpen.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import ModeSetRequest, PermissionResponse, PlanApprovalResponse
from bullpen.protocol.policy import Mode
from bullpen.protocol.request import Answerer, Request
from bullpen.store.contract import Entry
from bullpen.store.private_folder import make_private
from bullpen.team.requests.deadlines import RequestDeadlines
from bullpen.team.requests.mode_change import is_stored
from bullpen.team.requests.mode_rules import plan_approver_of
from bullpen.team.requests.plan_rules import PlanStatus


class PlanMode:
    """The plans of one launch of an agent, and their answers."""

    def __init__(self, desk: Desk, *, nonce: str, deadlines: RequestDeadlines) -> None:
        self._desk = desk
        self._deadlines = deadlines
        self._team = desk.team
        self._agent = desk.agent
        self._folder = Path(desk.env.get("BULLPEN_HOME") or desk.folder) / "plans"
        self._record = desk.record
        self._nonce = nonce
        self.mode: Mode = "default"
        self.waits_for: str | None = None
        # What to tell the model with its next request.
        self.news: list[str] = []

    def adopt(self, agent: AgentFacts) -> None:
        """Take the mode and the plan from an agent's record, also after a restart."""
        self.mode = agent.mode
        plan = agent.standing.plan
        self.waits_for = None if plan is None else plan.request_id

    def changed(self, agent: AgentFacts) -> str | None:
        """Take the mode that somebody gave this agent; returns what to tell the model, if any."""
        before = self.mode
        if agent.mode == before:
            return None
        self.adopt(agent)
        return self._told_change(before)

    def _told_change(self, before: Mode) -> str | None:
        if self.mode == before:
            return None
        self._record("mode", mode=self.mode, before=before)
        return _new_mode(before, self.mode, leads=self._agent == LEAD)

    async def told_mode(self, entry: Entry, order: ModeSetRequest) -> None:
        """Take the mode from the store, where Bullpen's own doors put it before the message.

        Other programs only write the message, so this agent stores the mode for them. A message
        proves no person: the mode is never wider than what its sender may give as an agent.
        """
        _, agent = await self._team.agents.get(self._agent)
        sender = entry.message.sender
        if not is_stored(entry.message) and order.mode != agent.mode:
            try:
                refuse_fixed_mode(agent, order.mode)
                agent = await self._team.modes.change(
                    self._agent, order.mode, by=sender, voice="agent"
                )
            except (Invalid, Refused) as error:
                self._record("trouble", text=f"Ignored a mode from {sender}: {error.message}")
                return
        waited = self.waits_for is not None
        said = self.changed(agent)
        if said is not None:
            # An agent that waited for an answer to its plan has to be told to go on.
            (self._desk.wake if waited else self.news.append)(said)

    async def enter(self) -> None:
        """Enter plan mode."""
        self.adopt(await self._team.plans.enter(self._agent, nonce=self._nonce))
        self._record("plan", state="entered")

    async def submit(self, plan: str) -> str:
        """Request approval of a plan. Returns what to tell the model. Raises Refused."""
        _, agent = await self._team.agents.get(self._agent)
        if agent.mode != "plan":
            raise Refused(
                "You are not in plan mode.",
                reason="not_in_plan_mode",
                remedy="Continue. To have a plan approved, call EnterPlanMode first.",
            )
        policy = agent.spec.policy
        approver = plan_approver_of(policy, leads=self._agent == LEAD)
        path = await to_thread.run_sync(self._written, plan)
        answerer: Answerer | None = None if approver == "inbox" else approver
        request = await self._team.approvals.ask_plan(
            plan,
            by=self._agent,
            plan_file_path=str(path),
            deadline_s=policy.deadline_s,
            approver=answerer,
        )
        self.waits_for = request.id
        self._record("plan", state="submitted", request=request.id, path=str(path))
        if approver in ("auto", "rule"):
            await self._answer_by_code(request, plan, policy.plan_rule, auto=approver == "auto")
            return await self.look() or "The plan was not answered yet."
        whom = "a person" if approver == "human" else "the lead"
        return (
            f"Your plan needs approval from {whom} (request {request.id}). You stay in plan mode."
            " End your turn now. You get another turn when the plan is answered."
        )

    async def _answer_by_code(
        self, request: Request, plan: str, rule: str | None, *, auto: bool
    ) -> None:
        verdict = PlanVerdict(True, "This agent's plans are approved automatically.")
        if not auto:
            spec = self._desk.spec
            env = for_commands(self._desk.env, spec)
            verdict = await ask_rule(rule or "", plan, cwd=spec.cwd, env=env)
        await self._team.approvals.answer(
            request.id,
            approve=verdict.approved,
            by=LEAD,
            voice="policy",
            feedback=verdict.words,
            digest=request.digest,
        )

    async def look(self) -> str | None:
        """What to tell the model if the plan was answered, else None."""
        if self.waits_for is None:
            return None
        await self._deadlines.keep()
        status = await self._team.plans.settle(self._agent, nonce=self._nonce)
        if status.answer == "waiting":
            return None
        before = self.mode
        self.mode, self.waits_for = status.mode, None
        if status.answer == "none":
            # Somebody changed its mode instead of answering.
            return self._told_change(before)
        self._record("plan", state=status.answer, mode=status.mode, feedback=status.feedback)
        return _told(status)

    async def heard(self, entry: Entry, answer: PermissionResponse | PlanApprovalResponse) -> None:
        """Take an answer that came as a message.

        It counts only if the approver can answer in no other way, and only from that approver. All
        other answers are in the store already.
        """
        try:
            request = await self._team.approvals.get(answer.request_id or "")
        except NotFound:
            return self._ignored(entry, "nobody asked for it")
        if request.state != "pending":
            if request.kind == "plan" and request.sender == self._agent:
                # An earlier process of this agent may have submitted it.
                self.waits_for = request.id
            return None
        if request.approver is not None or request.sender != self._agent:
            return self._ignored(entry, f"request {request.id} cannot be answered by message")
        sender = entry.message.sender
        if sender != request.to:
            return self._ignored(entry, f"{request.to} was asked, not {sender}")
        try:
            await self._team.approvals.answer(
                request.id, by=sender, voice="agent", **answer_content(answer)
            )
        except (Refused, Conflict) as error:
            return self._ignored(entry, error.message)
        if request.kind == "plan":
            self.waits_for = request.id
        return None

    def _ignored(self, entry: Entry, why: str) -> None:
        sender = entry.message.sender
        self._record("trouble", text=f"Ignored an answer from {sender}: {why}.")

    def _written(self, plan: str) -> Path:
        """Save a plan in its own file for people to read."""
        try:
            make_private(self._folder)
            number = 1
            while True:
                path = self._folder / f"{self._team.name}-{self._agent}-{number}.md"
                try:
                    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                except FileExistsError:
                    number += 1
                    continue
                with open(descriptor, "w", encoding="utf-8") as file:
                    file.write(plan)
                return path
        except OSError as error:
            raise Unavailable(
                f"The plan cannot be saved in {self._folder}: {error.strerror}.",
                remedy="Check the folder and the free disk space, then submit the plan again.",
            ) from error


def answer_content(answer: PermissionResponse | PlanApprovalResponse) -> dict[str, Any]:
    """The arguments of `approvals.answer` for an answer that came as a message."""
    if isinstance(answer, PlanApprovalResponse):
        return {
            "approve": answer.approved,
            "feedback": answer.feedback,
            "digest": answer.plan_digest,
        }
    named = answer.approved_request or {}
    return {
        "approve": answer.approved,
        "feedback": answer.why_not,
        "updated_input": answer.updated_input if answer.approved else None,
        "digest": named.get("input_digest"),
    }


def _new_mode(before: Mode, mode: Mode, *, leads: bool) -> str:
    said = [f"Your permission mode is now {mode}."]
    if mode == "plan":
        said.append("Change nothing. Submit a plan with ExitPlanMode and wait for its approval.")
    elif before == "plan":
        said.append("You no longer plan: start the work.")
    if leads and mode == "delegate":
        said.append("You only lead: have teammates read, change and run everything.")
    elif leads and before == "delegate":
        said.append("You have your own tools again.")
    return " ".join(said)


def _told(status: PlanStatus) -> str:
    words = f" {status.feedback}" if status.feedback else ""
    if status.answer == "approved":
        return (
            f"[Plan Approved] You can now proceed with implementation.{words}"
            f" Your mode is {status.mode}."
        )
    return (
        f"[Plan Rejected]{words or ' No reason was given.'} You are still in plan mode."
        " Revise the plan and submit it again with ExitPlanMode."
    )
