"""Tools to talk to the team and to lead it. The sender is always the agent itself."""

from __future__ import annotations

import json
from typing import Any, Literal, NoReturn

from pydantic import Field

from bullpen.agents.drivers.base import Colleagues, Desk, Wanted
from bullpen.agents.tools.base import Tool, ToolInput
from bullpen.errors import Invalid, Refused
from bullpen.protocol.request import Request, RequestKind
from bullpen.protocol.workspace import WorkspaceKind
from bullpen.team.mailbox import Sent
from bullpen.team.notices import color_of
from bullpen.team.request_rules import may_answer
from bullpen.team.snapshot import MemberView

EVERYBODY = "*"
"""The receiver of a broadcast in the newer form of SendMessage."""

_SUMMARY_CHARS_MAX = 80

MessageType = Literal[
    "message",
    "broadcast",
    "shutdown_request",
    "shutdown_response",
    "plan_approval_response",
    "permission_response",
]


class ProtocolMessage(ToolInput):
    """A `message` that is no text but a step of a protocol."""

    type: Literal[
        "shutdown_request", "shutdown_response", "plan_approval_response", "permission_response"
    ]
    request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None
    feedback: str | None = None


class SendMessageInput(ToolInput):
    """Input of SendMessage, in both forms that models know."""

    to: str | None = Field(
        None, description="Name of the member who shall get it; * is everybody else"
    )
    summary: str | None = Field(None, description="5 to 10 words on what it says")
    message: str | ProtocolMessage | None = Field(
        None, description="The text, or a protocol message such as a shutdown_request"
    )
    type: MessageType | None = Field(
        None, description="Older form: what it is. Goes with recipient and content"
    )
    recipient: str | None = Field(None, description="Older form: the name of the receiver")
    content: str | None = Field(None, description="Older form: the text, reason or feedback")
    request_id: str | None = Field(None, description="The request that this answers")
    approve: bool | None = Field(None, description="The answer to that request")


class _Letter:
    """What both forms of the input come to."""

    def __init__(self, given: SendMessageInput, team: str) -> None:
        step = given.message if isinstance(given.message, ProtocolMessage) else None
        if given.message is not None and (given.type is not None or given.content is not None):
            raise Invalid(
                "This mixes both forms of SendMessage.",
                remedy="Give {to, summary, message}, or {type, recipient, content, summary}.",
            )
        if given.to and given.recipient and given.to != given.recipient:
            raise Invalid(
                f"This names two receivers, {given.to!r} and {given.recipient!r}.",
                remedy="Give one; every other member at once is '*'.",
            )
        to = (given.to or given.recipient or "").strip().removesuffix(f"@{team}")
        self.to = to if to == EVERYBODY else to.removeprefix("@")
        self.summary = given.summary
        if step is not None:
            self.type: str = step.type
            self.text = step.feedback or step.reason
            self.request_id, self.approve = step.request_id, step.approve
        else:
            self.type = given.type or "message"
            self.text = given.message if isinstance(given.message, str) else given.content
            self.request_id, self.approve = given.request_id, given.approve
        if self.type == "message" and self.to == EVERYBODY:
            self.type = "broadcast"

    def receiver(self) -> str:
        """To whom. Raises Invalid if nobody is named."""
        if not self.to or self.to == EVERYBODY:
            self.missing("the name of one member in `to`")
        return self.to

    def said(self) -> str:
        """The text. Raises Invalid if there is none."""
        if self.text is None or not self.text.strip():
            self.missing("a text in `message`")
        return self.text

    def answer(self) -> tuple[str, bool]:
        """Which request is answered, and how."""
        if not self.request_id:
            self.missing("the `request_id` of the request that it answers")
        if self.approve is None:
            self.missing("`approve`, true or false")
        return self.request_id, self.approve

    def missing(self, what: str) -> NoReturn:
        """Refuse for lack of something."""
        raise Invalid(f"A {self.type} needs {what}.", remedy="Nothing was sent; send it again.")


async def _send(given: SendMessageInput, desk: Desk) -> str:
    letter = _Letter(given, desk.team.name)
    match letter.type:
        case "broadcast":
            return await _broadcast(letter, desk)
        case "shutdown_request":
            return await _ask_shutdown(letter, desk)
        case "shutdown_response":
            return await _answer(letter, desk, "shutdown")
        case "plan_approval_response":
            return await _answer(letter, desk, "plan")
        case "permission_response":
            return await _answer(letter, desk, "permission")
        case _:
            return await _message(letter, desk)


async def _message(letter: _Letter, desk: Desk) -> str:
    to, text = letter.receiver(), letter.said()
    if to == desk.agent:
        raise Invalid(
            f"{to!r} is you: nothing was sent.", remedy="Write to somebody else, or go on working."
        )
    sent = await desk.team.mailbox.send(to, text, sender=desk.agent, summary=letter.summary)
    desk.wrote(to, _summary(letter))
    return _told(
        message=f"Message stored in {to}'s inbox; {_ahead(sent)}",
        message_id=sent.id,
        ahead=sent.ahead,
        routing=await _routing(letter, desk, to=to),
    )


async def _broadcast(letter: _Letter, desk: Desk) -> str:
    sent = await desk.team.mailbox.broadcast(
        letter.said(), sender=desk.agent, summary=letter.summary
    )
    names = ", ".join(one.to for one in sent)
    return _told(
        message=f"Message stored in the inboxes of {len(sent)} members: {names}",
        recipients=[one.to for one in sent],
        stored=[{"to": one.to, "message_id": one.id, "ahead": one.ahead} for one in sent],
        routing=await _routing(letter, desk, to=None),
    )


async def _routing(letter: _Letter, desk: Desk, *, to: str | None) -> dict[str, str]:
    """Whose words went where, as programs show it to their users. A broadcast has no colour."""
    config = await desk.team.agents.config()
    return _stated(
        sender=desk.agent,
        senderColor=color_of(config, desk.agent),
        target="@team" if to is None else f"@{to}",
        targetColor=None if to is None else color_of(config, to),
        summary=letter.summary,
        content=letter.said(),
    )


async def _ask_shutdown(letter: _Letter, desk: Desk) -> str:
    to = letter.receiver()
    request = await desk.team.approvals.ask_shutdown(to, by=desk.agent, reason=letter.text)
    return _told(
        message=f"Shutdown request stored in {to}'s inbox. Request ID: {request.id}",
        request_id=request.id,
        target=to,
    )


async def _answer(letter: _Letter, desk: Desk, kind: RequestKind) -> str:
    request_id, approve = letter.answer()
    asked = await desk.team.approvals.get(request_id)
    if asked.kind != kind:
        raise Invalid(
            f"Request {request_id!r} is a {asked.kind} request, not a {kind} request.",
            remedy="Answer it with the type that belongs to it.",
        )
    if kind == "shutdown" and asked.to != desk.agent:
        raise Refused(
            f"Request {request_id!r} asks {asked.to!r} to shut down, not you.",
            reason="not_approver",
            remedy=f"{asked.to!r} has to answer it.",
        )
    request = await answer_request(desk, request_id, approve=approve, feedback=letter.text)
    return _told(message=_verdict(request, approve), request_id=request.id)


async def answer_request(
    desk: Desk,
    request_id: str,
    *,
    approve: bool,
    feedback: str | None,
    updated_input: dict[str, Any] | None = None,
) -> Request:
    """Answer a request as this agent, who ends if it agrees to its own shutdown.

    Raises:
        NotFound, Refused: as `approvals.answer` does.
    """
    request = await desk.team.approvals.answer(
        request_id,
        approve=approve,
        by=desk.agent,
        feedback=feedback,
        updated_input=updated_input,
        voice="agent",
    )
    if request.kind == "shutdown" and request.to == desk.agent and approve:
        desk.leave(f"agreed to the shutdown that {request.sender} asked for")
    return request


def _verdict(request: Request, approve: bool) -> str:
    answer = "Approved" if approve else "Rejected"
    told = f"the answer is stored in {request.sender}'s inbox"
    if request.kind == "shutdown" and approve:
        return f"{answer}: {told}. You end when this turn is over"
    return f"{answer}: {told}"


def _ahead(sent: Sent) -> str:
    if sent.ahead == 0:
        return "no unread message is ahead of it"
    return f"{sent.ahead} unread message{'s are' if sent.ahead > 1 else ' is'} ahead of it"


def _summary(letter: _Letter) -> str:
    words = " ".join((letter.summary or letter.said()).split())
    return words if len(words) <= _SUMMARY_CHARS_MAX else f"{words[: _SUMMARY_CHARS_MAX - 1]}…"


def _told(**said: Any) -> str:
    return json.dumps({"success": True, **said}, ensure_ascii=False)


def _stated(**fields: str | None) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}


class SpawnTeammateInput(ToolInput):
    """Input of SpawnTeammate."""

    name: str = Field(description="A name for the teammate; the same name again is the same one")
    prompt: str = Field(description="What it shall do; it knows nothing of your conversation")
    agent_type: str | None = Field(None, description="The agent definition to make it from")
    model: str | None = Field(None, description="Its model; yours if left out")
    driver: str | None = Field(None, description="The program that takes its turns")
    backend: str | None = Field(None, description="Where it runs: in-process, subprocess, tmux")
    cwd: str | None = Field(None, description="Its working directory; yours if left out")
    mode: str | None = Field(None, description="Its permission mode, for example plan")
    on: str | None = Field(
        None,
        description="Labels of the machine to run it on, such as os=linux,gpu, or any; yours "
        "if left out",
    )
    workspace: WorkspaceKind | None = Field(
        None,
        description="Where it works: worktree (a git tree and branch of its own), clone or shared; "
        "like you if left out",
    )
    skills: list[str] = Field(
        default_factory=list, description="What it can do, for tasks that need it"
    )


class StopTeammateInput(ToolInput):
    """Input of StopTeammate."""

    name: str = Field(description="The name of the teammate")
    reason: str | None = Field(None, description="Why")


class TeamStatusInput(ToolInput):
    """Input of TeamStatus."""


class FinishInput(ToolInput):
    """Input of Finish."""

    summary: str = Field(description="What was reached, and where it is")
    override_reason: str | None = Field(
        None, description="Why the work is finished in spite of open tasks"
    )


class ScheduleWakeupInput(ToolInput):
    """Input of ScheduleWakeup."""

    delay_seconds: float = Field(
        alias="delaySeconds", gt=0, le=86_400, description="In how many seconds"
    )
    reason: str = Field(description="What you want to do then; your next turn begins with it")


def _colleagues(desk: Desk) -> Colleagues:
    if desk.colleagues is None:
        raise Refused(
            f"{desk.agent!r} may neither start nor stop teammates.",
            reason="not_allowed",
            remedy="Ask the lead for it.",
        )
    return desk.colleagues


async def _spawn(given: SpawnTeammateInput, desk: Desk) -> str:
    wanted = Wanted(
        name=given.name,
        prompt=given.prompt,
        role=given.agent_type,
        model=given.model,
        driver=given.driver,
        backend=given.backend,
        cwd=given.cwd,
        mode=given.mode,
        on=given.on,
        workspace=given.workspace,
        skills=tuple(given.skills),
    )
    return await _colleagues(desk).spawn(wanted)


async def _stop(given: StopTeammateInput, desk: Desk) -> str:
    return await _colleagues(desk).stop(given.name, reason=given.reason)


async def _status(given: TeamStatusInput, desk: Desk) -> str:
    seen = await desk.team.snapshot()
    lines = [f"Team {seen.team.name!r}, {len(seen.members)} members:"]
    lines += [_member(view, desk.agent, seen.taken_ms) for view in seen.members]
    counts = dict.fromkeys(("pending", "in_progress", "completed"), 0)
    for task in seen.tasks:
        counts[task.status] += 1
    lines.append("Tasks: " + ", ".join(f"{number} {name}" for name, number in counts.items()))
    lines += [
        f"Waits for your answer: {request.kind} request {request.id} of {request.sender}"
        for request in seen.pending
        if request.to == desk.agent and may_answer(request, "agent")
    ]
    lines += [f"Cannot be read: {problem.where}: {problem.why}" for problem in seen.problems]
    return "\n".join(lines)


def _member(view: MemberView, me: str, now_ms: int) -> str:
    marks = [
        word
        for word, holds in (("lead", view.member.is_lead), ("you", view.member.name == me))
        if holds
    ]
    name = f"{view.member.name} ({', '.join(marks)})" if marks else view.member.name
    state: str = view.state
    if view.since_ms is not None:
        state += f" for {max(0, now_ms - view.since_ms) // 1000} s"
    parts = [state]
    if view.detail:
        parts.append(view.detail)
    if view.tasks:
        parts.append("works on " + ", ".join(f"#{task_id}" for task_id in view.tasks))
    parts.append("mailbox cannot be read" if view.unread is None else f"{view.unread} unread")
    return f"- {name}: {'; '.join(parts)}"


async def _finish(given: FinishInput, desk: Desk) -> str:
    finished = await desk.team.agents.finish(
        by=desk.agent, summary=given.summary, override=given.override_reason
    )
    spite = f" in spite of open tasks: {finished.override}" if finished.override else ""
    return f"The team's work is recorded as finished{spite}."


async def _wake(given: ScheduleWakeupInput, desk: Desk) -> str:
    desk.wake_later(given.delay_seconds, given.reason)
    return f"You get another turn in {given.delay_seconds:g} seconds. You can end this one now."


TEAM_TOOLS: tuple[Tool, ...] = (
    Tool(
        "SendMessage",
        "Write to a member of your team: {to, summary, message}. `to` is a member's name, or * "
        "for everybody else. What you say outside of this tool reaches no teammate. A message "
        'can also be {"type": "shutdown_request", "reason"}, {"type": "shutdown_response", '
        '"request_id", "approve", "reason"} {"type": "plan_approval_response", "request_id", '
        '"approve", "feedback"} or {"type": "permission_response", "request_id", "approve", '
        '"feedback"}. The answer says that it is stored, not that it was read.',
        SendMessageInput,
        "team",
        _send,
    ),
    Tool(
        "TeamStatus",
        "Who is in the team, what each does, since when, and how many messages each has unread.",
        TeamStatusInput,
        "team",
        _status,
    ),
    Tool(
        "ScheduleWakeup",
        "Get another turn after some seconds, without waiting in this one. Mail wakes you anyway.",
        ScheduleWakeupInput,
        "team",
        _wake,
    ),
    Tool(
        "SpawnTeammate",
        "Start a teammate with a name and a prompt. It works on its own, and writes to you.",
        SpawnTeammateInput,
        "team",
        _spawn,
    ),
    Tool(
        "StopTeammate",
        "Stop a teammate at once. To let it end its work first, send it a shutdown_request.",
        StopTeammateInput,
        "team",
        _stop,
    ),
    Tool(
        "Finish",
        "Say that the team's goal is reached. Refused while tasks are open, unless you give an "
        "override_reason.",
        FinishInput,
        "team",
        _finish,
    ),
)
