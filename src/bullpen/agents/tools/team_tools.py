"""Tools to write to the team and to lead it. The sender is always the agent that calls them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Literal, NoReturn, TypeVar

from pydantic import Field

from bullpen.agents.contracts.desk import Colleagues, Desk, Identity, Runtime, Wanted
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.work.until_stored import stored
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentSpec, WorkspaceKind
from bullpen.protocol.names import team_folder
from bullpen.protocol.request import Request, RequestKind
from bullpen.team.lookup import color_of
from bullpen.team.operation.commit import new_id
from bullpen.team.requests.rules import may_answer
from bullpen.team.snapshot import MemberView

T = TypeVar("T")

EVERYBODY = "*"
"""The receiver of a broadcast, in the newer form of SendMessage."""

_SUMMARY_CHARS_MAX = 80

ProtocolType = Literal[
    "shutdown_request", "shutdown_response", "plan_approval_response", "permission_response"
]
MessageType = Literal["message", "broadcast", ProtocolType]

_ANSWERS: dict[str, RequestKind] = {
    "shutdown_response": "shutdown",
    "plan_approval_response": "plan",
    "permission_response": "permission",
}


class ProtocolMessage(ToolInput):
    """A `message` that is not text but part of a request: asking for a shutdown, or answering."""

    type: ProtocolType
    request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None
    feedback: str | None = None


class SendMessageInput(ToolInput):
    """Input of SendMessage, in both forms that models know. They are told of the newer one."""

    sent_as: ClassVar[Mapping[str, Mapping[str, Any] | None]] = dict.fromkeys(
        ("type", "recipient", "content", "request_id", "approve")
    )

    to: str | None = Field(None, description="Name of a member, or * for every other member")
    summary: str | None = Field(None, description="5 to 10 words")
    message: str | ProtocolMessage | None = Field(
        None,
        description="The text, or a request to shut down with a reason, or the answer to a request "
        "with its request_id, approve and a reason or feedback",
    )
    type: MessageType | None = Field(
        None, description="Older form: kind of message. Use with recipient and content"
    )
    recipient: str | None = Field(None, description="Older form: name of the receiver")
    content: str | None = Field(None, description="Older form: the text, reason or feedback")
    request_id: str | None = Field(None, description="Id of the request that this answers")
    approve: bool | None = Field(None, description="The answer: true for yes, false for no")


class _Letter:
    """One message, whichever form of the input it came in."""

    def __init__(self, given: SendMessageInput, team: str) -> None:
        step = given.message if isinstance(given.message, ProtocolMessage) else None
        if given.message is not None and (given.type is not None or given.content is not None):
            raise Invalid(
                "The input mixes both forms of SendMessage.",
                remedy="Give either {to, summary, message} or {type, recipient, content, summary}.",
            )
        if given.to and given.recipient and given.to != given.recipient:
            raise Invalid(
                f"The input names two receivers, {given.to!r} and {given.recipient!r}.",
                remedy="Name one receiver, or '*' for every other member.",
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
        """The receiver. Raises Invalid if none is named."""
        if not self.to or self.to == EVERYBODY:
            self.missing("the name of one member in `to`")
        return self.to

    def said(self) -> str:
        """The text. Raises Invalid if there is none."""
        if self.text is None or not self.text.strip():
            self.missing("a text in `message`")
        return self.text

    def answer(self) -> tuple[str, bool]:
        """The request that is answered, and the answer."""
        if not self.request_id:
            self.missing("the `request_id` of the request")
        if self.approve is None:
            self.missing("`approve`, true or false")
        return self.request_id, self.approve

    def missing(self, what: str) -> NoReturn:
        """Refuse the message because a field is missing."""
        raise Invalid(
            f"A {self.type} needs {what}. Nothing was sent.", remedy="Add it and send again."
        )


async def send(given: SendMessageInput, desk: Identity) -> str:
    """Send a message or an answer under the name of a member."""
    letter = _Letter(given, desk.team.name)
    if letter.type in _ANSWERS:
        return await _answer(letter, desk, _ANSWERS[letter.type])
    if letter.type == "broadcast":
        return await _broadcast(letter, desk)
    if letter.type == "shutdown_request":
        return await _ask_shutdown(letter, desk)
    return await _message(letter, desk)


async def _send_and_report(given: SendMessageInput, desk: Desk) -> str:
    """Write to your team. Teammates see only what you send with this tool. The result confirms that
    it is stored, not that it was read.
    """
    text = await send(given, desk)
    letter = _Letter(given, desk.team.name)
    if letter.type == "message":
        # The agent may wait for an answer from this member.
        desk.wrote(letter.receiver(), _summary(letter))
    return text


async def _message(letter: _Letter, desk: Identity) -> str:
    to, text = letter.receiver(), letter.said()
    if to == desk.agent:
        raise Invalid(
            f"{to!r} is you. Nothing was sent.", remedy="Write to another member, or keep working."
        )
    sent = await _stored(
        lambda key, fresh: desk.team.mailbox.send(
            to, text, sender=desk.agent, summary=letter.summary, key=key, fresh=fresh
        )
    )
    ahead = f"{sent.ahead or 'no'} unread message{'s are' if sent.ahead > 1 else ' is'}"
    return _told(
        message=f"Message stored in {to}'s inbox; {ahead} ahead of it",
        message_id=sent.id,
        ahead=sent.ahead,
        routing=await _routing(letter, desk, to=to),
    )


async def _stored(send_it: Callable[[str, bool], Awaitable[T]]) -> T:
    """Send a message once, however often the store has to be asked, within a minute."""
    key = new_id()
    tried: list[str] = []

    async def act() -> T:
        fresh = not tried
        tried.append(key)
        return await send_it(key, fresh)

    return await stored(act)


async def _broadcast(letter: _Letter, desk: Identity) -> str:
    sent = await _stored(
        lambda key, fresh: desk.team.mailbox.broadcast(
            letter.said(), sender=desk.agent, summary=letter.summary, key=key, fresh=fresh
        )
    )
    names = ", ".join(one.to for one in sent)
    return _told(
        message=f"Message stored in the inboxes of {len(sent)} members: {names}",
        recipients=[one.to for one in sent],
        stored=[{"to": one.to, "message_id": one.id, "ahead": one.ahead} for one in sent],
        routing=await _routing(letter, desk, to=None),
    )


async def _routing(letter: _Letter, desk: Identity, *, to: str | None) -> dict[str, str]:
    """Sender and receiver, for programs that show them to users. A broadcast has no colour."""
    config = await desk.team.agents.config()
    fields = {
        "sender": desk.agent,
        "senderColor": color_of(config, desk.agent),
        "target": "@team" if to is None else f"@{to}",
        "targetColor": None if to is None else color_of(config, to),
        "summary": letter.summary,
        "content": letter.said(),
    }
    return {name: value for name, value in fields.items() if value is not None}


async def _ask_shutdown(letter: _Letter, desk: Identity) -> str:
    to = letter.receiver()
    request = await desk.team.approvals.ask_shutdown(to, by=desk.agent, reason=letter.text)
    return _told(
        message=f"Shutdown request stored in {to}'s inbox. Request ID: {request.id}",
        request_id=request.id,
        target=to,
    )


async def _answer(letter: _Letter, desk: Identity, kind: RequestKind) -> str:
    request_id, approve = letter.answer()
    asked = await desk.team.approvals.get(request_id)
    if asked.kind != kind:
        raise Invalid(
            f"Request {request_id!r} is a {asked.kind} request, not a {kind} request.",
            remedy=_right_type(asked.kind),
        )
    if kind == "shutdown" and asked.to != desk.agent:
        raise Refused(
            f"Request {request_id!r} asks {asked.to!r} to shut down, not you.",
            reason="not_approver",
            remedy=f"Leave the answer to {asked.to!r}.",
        )
    request = await answer_request(desk, request_id, approve=approve, feedback=letter.text)
    return _told(message=_verdict(request, approve), request_id=request.id)


def _right_type(kind: RequestKind) -> str:
    """How to answer a request of this kind."""
    types = [name for name, answered in _ANSWERS.items() if answered == kind]
    return f"Answer it with the type {types[0]}." if types else "Leave the answer to a person."


async def answer_request(
    desk: Identity,
    request_id: str,
    *,
    approve: bool,
    feedback: str | None,
    updated_input: dict[str, Any] | None = None,
) -> Request:
    """Answer a request as this agent, which stops if it agrees to its own shutdown."""
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
    ends = request.kind == "shutdown" and approve
    return (
        f"{'Approved' if approve else 'Rejected'}: the answer is stored in {request.sender}'s inbox"
        f"{'. You stop now: do nothing else' if ends else ''}"
    )


def _summary(letter: _Letter) -> str:
    words = " ".join((letter.summary or letter.said()).split())
    return words if len(words) <= _SUMMARY_CHARS_MAX else f"{words[: _SUMMARY_CHARS_MAX - 1]}…"


def _told(**said: Any) -> str:
    return json.dumps({"success": True, **said}, ensure_ascii=False)


class AgentInput(ToolInput):
    """What both tools that start agents take."""

    prompt: str = Field(description="What to do. It does not see your conversation")
    model: str | None = Field(None, description="Its model; default: yours")
    driver: str | None = Field(None, description="Agent program to run")
    backend: str | None = Field(None, description="in-process, subprocess or tmux")
    cwd: str | None = Field(None, description="Its working directory; default: yours")
    mode: str | None = Field(None, description="Its permission mode, such as plan")
    on: str | None = Field(
        None,
        description="Labels of its host, such as os=linux,gpu, or any; default: yours",
    )
    workspace: WorkspaceKind | None = Field(
        None,
        description="worktree: its own git worktree and branch; default: like yours",
    )
    skills: list[str] = Field(default_factory=list, description="For tasks that need them")


class SpawnTeammateInput(AgentInput):
    """Input of SpawnTeammate."""

    name: str = Field(description="Its name. A name that is used again starts no second one")
    agent_type: str | None = Field(None, description="Agent definition (role) to use")


class TaskInput(AgentInput):
    """Input of Task. `team_name` is taken from models that know it, and ignored."""

    sent_as: ClassVar[Mapping[str, Mapping[str, Any] | None]] = {"team_name": None}

    description: str | None = Field(None, description="What it is for, in 3 to 5 words")
    subagent_type: str | None = Field(
        None, description="general-purpose, Explore, Plan, Bash or an agent definition"
    )
    name: str | None = Field(None, description="Name of the teammate; without it, a subagent")
    team_name: str | None = Field(None, description="Ignored: you have one team")
    run_in_background: bool = Field(
        False, description="For a subagent: return at once; BashOutput shows its answer"
    )


class StopTeammateInput(ToolInput):
    """Input of StopTeammate."""

    name: str = Field(description="Name of the teammate")
    reason: str | None = Field(None, description="Why")


class TeamStatusInput(ToolInput):
    """Input of TeamStatus."""


class FinishInput(ToolInput):
    """Input of Finish."""

    summary: str = Field(description="What was achieved, and where it is")
    override_reason: str | None = Field(
        None, description="Why the goal is reached although tasks are open"
    )


class ScheduleWakeupInput(ToolInput):
    """Input of ScheduleWakeup."""

    delay_seconds: float = Field(
        alias="delaySeconds", gt=0, le=86_400, description="Seconds until the turn"
    )
    reason: str = Field(description="What to do then. That turn starts with this text")


def colleagues_of(desk: Identity, *, members: bool = True) -> Colleagues:
    """What starts, stops and changes teammates for an agent. Raises Refused if it may not.

    Without `members`, it may be an agent that has only subagents.
    """
    if desk.colleagues is None or (members and not desk.colleagues.members):
        raise Refused(
            f"{desk.agent!r} may not start or stop teammates.",
            reason="not_allowed",
            remedy="Ask the lead to do it. A subagent (Task without a name) may read for you.",
        )
    return desk.colleagues


async def _spawn(given: SpawnTeammateInput, desk: Identity) -> str:
    """Start a teammate with a name and a prompt. It works on its own and writes to you."""
    return await colleagues_of(desk).spawn(_wanted(given, given.name, given.agent_type))


async def _task(given: TaskInput, desk: Identity) -> str:
    """Start a teammate, if you give a name: it works on its own and writes to you. Without a name,
    run a subagent: it uses your tools, and the result is its answer.
    """
    colleagues = colleagues_of(desk)
    if not given.name:
        raise Refused(
            "Only native agents have subagents. Nothing was started.",
            reason="no_subagents",
            remedy="Add `name` to start a teammate.",
        )
    told = await colleagues.spawn(_wanted(given, given.name, given.subagent_type))
    named, led = given.team_name, desk.team.name
    if named is None or led in (named, team_folder(named)):
        return told
    return f"{told} Your team is {led!r}; team_name was ignored."


async def subagent_spec(given: TaskInput, desk: Identity) -> AgentSpec:
    """The spec of the subagent that a call without a name asks for. Raises Refused."""
    asked = _wanted(given, "", given.subagent_type)
    return await colleagues_of(desk, members=False).subagent(asked)


def _wanted(given: AgentInput, name: str, role: str | None) -> Wanted:
    return Wanted(
        name=name,
        prompt=given.prompt,
        role=role,
        model=given.model,
        driver=given.driver,
        backend=given.backend,
        cwd=given.cwd,
        mode=given.mode,
        on=given.on,
        workspace=given.workspace,
        skills=tuple(given.skills),
    )


async def _stop(given: StopTeammateInput, desk: Identity) -> str:
    """Stop a teammate at once. To let it finish its work first, send it a shutdown_request."""
    return await colleagues_of(desk).stop(given.name, reason=given.reason)


async def _status(given: TeamStatusInput, desk: Identity) -> str:
    """Show each member's state, for how long, and its number of unread messages."""
    seen = await desk.team.snapshot()
    lines = [f"Team {seen.team.name!r}, {len(seen.members)} members:"]
    lines += [_member(view, desk.agent, seen.taken_ms) for view in seen.members]
    counts = dict.fromkeys(("pending", "in_progress", "completed"), 0)
    for task in seen.tasks:
        counts[task.status] += 1
    lines.append("Tasks: " + ", ".join(f"{number} {name}" for name, number in counts.items()))
    lines += [
        f"Waiting for your answer: {request.kind} request {request.id} from {request.sender}"
        for request in seen.pending
        if request.to == desk.agent and may_answer(request, "agent")
    ]
    lines += [f"Cannot read {problem.where}: {problem.why}" for problem in seen.problems]
    return "\n".join(lines)


def _member(view: MemberView, me: str, now_ms: int) -> str:
    marks = ["lead"] * view.member.is_lead + ["you"] * (view.member.name == me)
    name = f"{view.member.name} ({', '.join(marks)})" if marks else view.member.name
    state: str = view.state
    if view.since_ms is not None:
        state += f" for {max(0, now_ms - view.since_ms) // 1000} s"
    parts = [state]
    if view.detail:
        parts.append(view.detail)
    if view.tasks:
        parts.append("working on " + ", ".join(f"#{task_id}" for task_id in view.tasks))
    parts.append("mailbox cannot be read" if view.unread is None else f"{view.unread} unread")
    return f"- {name}: {'; '.join(parts)}"


async def _finish(given: FinishInput, desk: Identity) -> str:
    """Report that the team's goal is reached. Refused while tasks are open, unless you give an
    override_reason.
    """
    finished = await desk.team.agents.finish(
        by=desk.agent, summary=given.summary, override=given.override_reason
    )
    desk.end_turn()
    spite = f" although tasks are open: {finished.override}" if finished.override else ""
    return f"The team's goal is recorded as reached{spite}."


async def _wake(given: ScheduleWakeupInput, desk: Runtime) -> str:
    """Get another turn later, without waiting in this one. Mail always wakes you."""
    desk.wake_later(given.delay_seconds, given.reason)
    return f"You get a turn in {given.delay_seconds:g} seconds. You can end this one now."


SEND_MESSAGE: Tool[Desk] = documented("SendMessage", SendMessageInput, "team", _send_and_report)
TEAM_STATUS: Tool[Identity] = documented("TeamStatus", TeamStatusInput, "team", _status)
SCHEDULE_WAKEUP: Tool[Runtime] = documented("ScheduleWakeup", ScheduleWakeupInput, "team", _wake)
SPAWN_TEAMMATE: Tool[Identity] = documented("SpawnTeammate", SpawnTeammateInput, "team", _spawn)
TASK: Tool[Identity] = documented("Task", TaskInput, "team", _task)
STOP_TEAMMATE: Tool[Identity] = documented("StopTeammate", StopTeammateInput, "team", _stop)
FINISH: Tool[Identity] = documented("Finish", FinishInput, "team", _finish)

TEAM_TOOLS: tuple[Tool[Desk], ...] = (
    SEND_MESSAGE,
    TEAM_STATUS,
    SCHEDULE_WAKEUP,
    SPAWN_TEAMMATE,
    TASK,
    STOP_TEAMMATE,
    FINISH,
)
