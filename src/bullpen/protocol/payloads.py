"""Protocol payloads: the JSON objects inside a message's `text`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from bullpen.protocol import json_text
from bullpen.protocol.record import StrictBool, Wire, field


class Payload(Wire):
    """A payload. `text()` is what goes into the message: compact JSON in this field order."""

    type: str

    def text(self) -> str:
        """Return the message text that carries this payload."""
        return json_text.dumps_line(self.raw).decode("utf-8")


class TaskAssignment(Payload):
    """A task was assigned to the receiver."""

    type: Literal["task_assignment"] = "task_assignment"
    task_id: str
    subject: str
    description: str = ""
    assigned_by: str
    timestamp: str


class IdleNotification(Payload):
    """The sender's turn ended. `idleReason` is missing when more mail was waiting."""

    type: Literal["idle_notification"] = "idle_notification"
    sender: str = field(key="from")
    timestamp: str
    idle_reason: str | None = None
    summary: str | None = None
    result: str | None = None
    failure_reason: str | None = None
    completed_task_id: str | None = None
    completed_status: str | None = None


class ShutdownRequest(Payload):
    """Please shut down. The receiver approves or rejects, naming `requestId`."""

    type: Literal["shutdown_request"] = "shutdown_request"
    request_id: str
    sender: str = field(key="from")
    reason: str | None = None
    timestamp: str


class ShutdownApproved(Payload):
    """The sender ends now."""

    type: Literal["shutdown_approved"] = "shutdown_approved"
    request_id: str
    sender: str = field(key="from")
    timestamp: str
    pane_id: str | None = None
    backend_type: str | None = None


class ShutdownRejected(Payload):
    """The sender continues working, and says why."""

    type: Literal["shutdown_rejected"] = "shutdown_rejected"
    request_id: str
    sender: str = field(key="from")
    reason: str | None = None
    timestamp: str


class PlanApprovalRequest(Payload):
    """A plan that needs an answer. A variant without a request id is also known."""

    type: Literal["plan_approval_request"] = "plan_approval_request"
    sender: str = field(key="from")
    timestamp: str
    plan_file_path: str | None = None
    plan_content: str
    request_id: str | None = None


class PlanApprovalResponse(Payload):
    """The answer to a plan. `planDigest` ties an approval to the approved text."""

    type: Literal["plan_approval_response"] = "plan_approval_response"
    request_id: str | None = None
    # Strict: "yes" is not an approval.
    approved: StrictBool = field(other_key="approve")
    feedback: str | None = None
    timestamp: str | None = None
    permission_mode: str | None = None
    plan_digest: str | None = None


class PermissionRequest(Payload):
    """A tool call that needs permission."""

    type: Literal["permission_request"] = "permission_request"
    request_id: str = field(key="request_id")
    agent_id: str = field(key="agent_id")
    tool_name: str = field(key="tool_name")
    tool_use_id: str | None = field(default=None, key="tool_use_id")
    description: str | None = None
    input: Any = None
    permission_suggestions: list[Any] | None = field(default=None, key="permission_suggestions")
    timestamp: str | None = None


class PermissionResponse(Payload):
    """The answer to a permission request, in both known variants.

    Claude Code writes `subtype` success or error; `decision`, `resolvedBy`, `updatedInput` and
    `feedback` are also described.
    """

    type: Literal["permission_response"] = "permission_response"
    request_id: str = field(key="request_id")
    subtype: Literal["success", "error"] | None = None
    tool_use_id: str | None = field(default=None, key="tool_use_id")
    approved_request: dict[str, Any] | None = field(default=None, key="approved_request")
    response: dict[str, Any] | None = None
    error: str | None = None
    decision: Literal["approved", "rejected"] | None = None
    resolved_by: str | None = None
    seed_updated_input: Any = field(default=None, key="updatedInput")
    feedback: str | None = None

    @property
    def approved(self) -> bool:
        """Return whether the call may be made. Anything unclear means no."""
        if self.subtype is None:
            return self.decision == "approved"
        return self.subtype == "success" and self.decision != "rejected"

    @property
    def updated_input(self) -> Any:
        """Return the input to use instead of the requested one, if the answer has one."""
        return (self.response or {}).get("updated_input", self.seed_updated_input)

    @property
    def why_not(self) -> str | None:
        """Return the reason for a refusal."""
        return self.error or self.feedback


class TaskCompleted(Payload):
    """A task was completed (described, but not observed)."""

    type: Literal["task_completed"] = "task_completed"
    sender: str = field(key="from")
    task_id: str
    task_subject: str = ""
    timestamp: str


class ModeSetRequest(Payload):
    """The receiver should change its permission mode (described, but not observed)."""

    type: Literal["mode_set_request"] = "mode_set_request"
    mode: str
    sender: str = field(key="from")
    timestamp: str | None = None


class Control(Payload):
    """An order that the receiver's runner obeys at once, without the model. Bullpen's own."""

    type: Literal["bullpen_control"] = "bullpen_control"
    action: Literal["stop", "pause", "resume", "cancel"]
    sender: str = field(key="from")
    reason: str | None = None
    timestamp: str | None = None


class TeammateTerminated(Payload):
    """A teammate's process ended. Told to the lead as from "system", never in a file."""

    type: Literal["teammate_terminated"] = "teammate_terminated"
    message: str


Known: TypeAlias = (
    TaskAssignment
    | IdleNotification
    | ShutdownRequest
    | ShutdownApproved
    | ShutdownRejected
    | PlanApprovalRequest
    | PlanApprovalResponse
    | PermissionRequest
    | PermissionResponse
    | TaskCompleted
    | ModeSetRequest
    | Control
    | TeammateTerminated
)

_BY_TYPE: dict[str, type[Payload]] = {cls.type: cls for cls in Known.__args__}


def payload_of(text: str) -> Payload | None:
    """Return the payload in a message's text, or None if it is text for a reader.

    A known type with invalid fields is also text: a malformed answer must not count as one.
    """
    if not text.startswith("{"):
        return None
    try:
        raw = json_text.loads(text)
    except ValueError:
        return None
    kind = raw.get("type") if isinstance(raw, dict) else None
    cls = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    try:
        return cls.parse(raw) if cls else None
    except ValueError:
        return None
