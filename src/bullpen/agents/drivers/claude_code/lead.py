"""Answer what Claude Code asks its lead, by the agent's policy."""

from __future__ import annotations

import uuid

from anyio import to_thread

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.drivers.claude_code.calls import kind_of
from bullpen.agents.drivers.claude_code.gate import HookGate
from bullpen.agents.drivers.claude_code.team_copy import Mirror
from bullpen.errors import BullpenError
from bullpen.protocol import payloads
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD

_REJECTED = "[Plan Rejected]"


class Lead:
    """Acts as the lead for one Claude Code process."""

    def __init__(self, desk: Desk, mirror: Mirror, gate: HookGate) -> None:
        self._desk = desk
        self._mirror = mirror
        self._gate = gate
        # Whether the program itself is in plan mode, and its id of the open plan request.
        self.plans = False
        self._plan: str | None = None

    def begin(self) -> None:
        """Start over for a new process, which starts in the agent's mode."""
        self.plans, self._plan = self._desk.mode == "plan", None

    @property
    def is_out_of_step(self) -> bool:
        """Whether only a new process can leave plan mode: none of its own plans was approved."""
        return self.plans and self._desk.mode != "plan" and self._plan is None

    async def permit(self, asked: payloads.PermissionRequest) -> None:
        """Answer a permission request to the lead, for a call that the hook did not deny."""
        use_id = asked.tool_use_id or ""
        call = self._gate.permitted.get(use_id)
        try:
            if call is None:
                given = asked.input if isinstance(asked.input, dict) else {}
                call = Call(asked.tool_name, given, kind_of(asked.tool_name), use_id)
                permitted = await self._desk.permit(call)
            else:
                permitted = call.input
            answer = payloads.PermissionResponse.new(
                request_id=asked.request_id,
                subtype="success",
                tool_use_id=use_id,
                response={"updated_input": dict(permitted), "permission_updates": []},
            )
        except BullpenError as error:
            answer = payloads.PermissionResponse.new(
                request_id=asked.request_id, subtype="error", tool_use_id=use_id, error=str(error)
            )
        await to_thread.run_sync(self._mirror.put, [message_of_lead(answer.text())])

    async def submit(self, asked: payloads.PlanApprovalRequest) -> None:
        """Submit a plan. The answer comes with a later turn."""
        desk = self._desk
        self._plan = asked.request_id
        try:
            told, failed = await desk.submit_plan(asked.plan_content), False
        except BullpenError as error:
            told, failed = str(error), True
        desk.record("result", name="ExitPlanMode", text=told, error=failed)
        if desk.mode != "plan":
            # It was answered at once, so this has to tell the model.
            desk.wake(told)

    def plan_answers(self, text: str) -> list[Message]:
        """The messages to put before the text of a turn that answers a plan."""
        approved = self._desk.mode != "plan"
        if self._plan is None or not (approved or _REJECTED in text):
            return []
        answer = payloads.PlanApprovalResponse.new(
            request_id=self._plan,
            approved=approved,
            feedback=None if approved else "The next message says why.",
            timestamp=iso(now_ms()),
            permission_mode="default" if approved else None,
        )
        self._plan, self.plans = None, not approved
        return [message_of_lead(answer.text())]


def message_of_lead(text: str, *, summary: str | None = None) -> Message:
    """A message from the lead, in the program's form."""
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
