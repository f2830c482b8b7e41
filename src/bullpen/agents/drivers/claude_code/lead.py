"""What Claude Code asks its lead: the runner answers in the lead's place, by the agent's policy."""

from __future__ import annotations

import uuid

from anyio import to_thread

from bullpen.agents.drivers.base import Desk
from bullpen.agents.drivers.claude_code.calls import kind_of
from bullpen.agents.drivers.claude_code.gate import HookGate
from bullpen.agents.drivers.claude_code.mirror import Mirror
from bullpen.agents.policy.call import Call
from bullpen.errors import BullpenError
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import (
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    PlanApprovalResponse,
)
from bullpen.protocol.times import iso
from bullpen.store.clock import now_ms

_REJECTED = "[Plan Rejected]"


class Lead:
    """The lead as one program knows it."""

    def __init__(self, desk: Desk, mirror: Mirror, gate: HookGate) -> None:
        self._desk = desk
        self._mirror = mirror
        self._gate = gate
        # Whether the program itself is in plan mode, and its name for the plan that waits.
        self.plans = False
        self._plan: str | None = None

    def begin(self) -> None:
        """A new process begins in the mode that the agent is in."""
        self.plans, self._plan = self._desk.mode == "plan", None

    @property
    def is_out_of_step(self) -> bool:
        """Whether only a new process can leave plan mode: no plan of this one was approved."""
        return self.plans and self._desk.mode != "plan" and self._plan is None

    async def permit(self, asked: PermissionRequest) -> None:
        """Answer for a call that it asks its lead about, although its hook did not deny it."""
        use_id = asked.tool_use_id or ""
        call = self._gate.permitted.get(use_id)
        try:
            if call is None:
                given = asked.input if isinstance(asked.input, dict) else {}
                call = Call(asked.tool_name, given, kind_of(asked.tool_name), use_id)
                permitted = await self._desk.permit(call)
            else:
                permitted = call.input
            answer = PermissionResponse.new(
                request_id=asked.request_id,
                subtype="success",
                tool_use_id=use_id,
                response={"updated_input": dict(permitted), "permission_updates": []},
            )
        except BullpenError as error:
            answer = PermissionResponse.new(
                request_id=asked.request_id, subtype="error", tool_use_id=use_id, error=str(error)
            )
        await to_thread.run_sync(self._mirror.put, [message_of_lead(answer.text())])

    async def submit(self, asked: PlanApprovalRequest) -> None:
        """Pass a plan on. The answer comes with a later turn."""
        desk = self._desk
        self._plan = asked.request_id
        try:
            told, failed = await desk.submit_plan(asked.plan_content), False
        except BullpenError as error:
            told, failed = str(error), True
        desk.record("result", name="ExitPlanMode", text=told, error=failed)
        if desk.mode != "plan":
            # It was answered at once, and nobody else would tell the model.
            desk.wake(told)

    def plan_answers(self, text: str) -> list[Message]:
        """What the turn with this text has to begin with, if it answers a plan."""
        approved = self._desk.mode != "plan"
        if self._plan is None or not (approved or _REJECTED in text):
            return []
        answer = PlanApprovalResponse.new(
            request_id=self._plan,
            approved=approved,
            feedback=None if approved else "Why is said in the next message.",
            timestamp=iso(now_ms()),
            permission_mode="default" if approved else None,
        )
        self._plan, self.plans = None, not approved
        return [message_of_lead(answer.text())]


def message_of_lead(text: str, *, summary: str | None = None) -> Message:
    """A message of the lead, as the program reads it."""
    return Message.new(
        sender=LEAD,
        text=text,
        summary=summary,
        timestamp=iso(now_ms()),
        msg_v=1,
        msg_id=str(uuid.uuid4()),
        type="message",
        read=False,
    )
