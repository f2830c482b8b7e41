"""Plan mode of one agent: it looks, submits a plan, and works when the store holds an approval."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyio import to_thread

from bullpen.agents.plan_rule import PlanVerdict
from bullpen.errors import Conflict, NotFound, Refused, Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import PermissionResponse, PlanApprovalResponse
from bullpen.protocol.policy import Mode
from bullpen.protocol.request import Answerer, Request
from bullpen.store.base import Entry
from bullpen.team.plan_rules import PlanStatus
from bullpen.team.policy_rules import plan_approver_of
from bullpen.team.team import Team

RunRule = Callable[[str, str], Any]
"""Asks the rule for plans: a command and the plan; awaits a PlanVerdict."""


class Planning:
    """The plans of one launch of an agent, and how its answers come in."""

    def __init__(
        self,
        team: Team,
        agent: str,
        *,
        folder: Path,
        ask_rule: RunRule,
        record: Callable[..., None],
    ) -> None:
        self._team = team
        self._agent = agent
        self._folder = folder
        self._ask_rule = ask_rule
        self._record = record
        # Set by the runner: which launch this is.
        self.nonce = ""
        self.mode: Mode = "default"
        self.waits_for: str | None = None

    def adopt(self, agent: AgentFacts) -> None:
        """Take up how it stands with an agent, also after a restart."""
        self.mode = agent.mode
        plan = agent.stands.submitted
        self.waits_for = None if plan is None else plan.request_id

    async def enter(self) -> None:
        """Go into plan mode."""
        self.adopt(await self._team.plans.enter(self._agent, nonce=self.nonce))
        self._record("plan", state="entered")

    async def submit(self, plan: str) -> str:
        """Ask for approval of a plan. Returns what the model is told.

        Raises:
            Refused: not_in_plan_mode.
        """
        _, agent = await self._team.agents.get(self._agent)
        if agent.mode != "plan":
            raise Refused(
                "You are not in plan mode: there is nothing to leave.",
                reason="not_in_plan_mode",
                remedy="Go on working. EnterPlanMode first if you want a plan approved.",
            )
        policy = agent.asked.rights
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
            return await self.look() or "The plan waits for an answer."
        whom = "a person" if approver == "human" else "the lead"
        return (
            f"Your plan waits for the approval of {whom} (request {request.id}). You stay in plan"
            " mode. End your turn now: you get another one when it is answered."
        )

    async def _answer_by_code(
        self, request: Request, plan: str, rule: str | None, *, auto: bool
    ) -> None:
        verdict = PlanVerdict(True, "Approved by code, as it was set for this agent.")
        if not auto:
            verdict = await self._ask_rule(rule or "", plan)
        await self._team.approvals.answer(
            request.id,
            approve=verdict.approved,
            by=LEAD,
            voice="policy",
            feedback=verdict.words,
            digest=request.digest,
        )

    async def look(self) -> str | None:
        """See whether the plan was answered. Returns what the model is told if it was."""
        if self.waits_for is None:
            return None
        status = await self._team.plans.settle(self._agent, nonce=self.nonce)
        if status.answer == "waiting":
            return None
        self.mode, self.waits_for = status.mode, None
        if status.answer == "none":
            return None
        self._record("plan", state=status.answer, mode=status.mode, feedback=status.feedback)
        return _told(status)

    async def heard(self, entry: Entry, answer: PermissionResponse | PlanApprovalResponse) -> None:
        """Take an answer that came as a message.

        It counts only if the question was put to a program that can answer in no other way, and
        only from whoever was asked. All others are in the store already, or are none.
        """
        try:
            request = await self._team.approvals.get(answer.request_id or "")
        except NotFound:
            return self._ignored(entry, "nobody asked for it")
        if request.state != "pending":
            if request.kind == "plan" and request.sender == self._agent:
                # Also one that another process of this agent submitted.
                self.waits_for = request.id
            return None
        if request.approver is not None or request.sender != self._agent:
            return self._ignored(entry, f"request {request.id} is not answered by messages")
        sender = entry.message.sender
        if sender != request.to:
            return self._ignored(entry, f"{request.to} was asked, not {sender}")
        try:
            await self._team.approvals.answer(
                request.id, by=sender, voice="agent", **_content(answer)
            )
        except (Refused, Conflict) as error:
            return self._ignored(entry, error.message)
        if request.kind == "plan":
            self.waits_for = request.id
        return None

    def _ignored(self, entry: Entry, why: str) -> None:
        sender = entry.message.sender
        self._record("trouble", text=f"An answer in the name of {sender} does not count: {why}.")

    def _written(self, plan: str) -> Path:
        """Keep a plan in a file of its own, for people to read."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
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
                f"The plan cannot be kept in {self._folder}: {error.strerror}.",
                remedy="Make room on the disk, or check the directory; then submit it again.",
            ) from error


def _content(answer: PermissionResponse | PlanApprovalResponse) -> dict[str, Any]:
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


def _told(status: PlanStatus) -> str:
    words = f" {status.feedback}" if status.feedback else ""
    if status.answer == "approved":
        return (
            f"[Plan Approved] You can now proceed with implementation.{words}"
            f" Your mode is {status.mode}."
        )
    return (
        f"[Plan Rejected]{words or ' No reason was given.'} You are still in plan mode: revise the"
        " plan and submit it again with ExitPlanMode."
    )
