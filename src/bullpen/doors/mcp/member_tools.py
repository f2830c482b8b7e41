"""The tools of a member connected through MCP: the team tools and a few of its own."""

from __future__ import annotations

import json
from typing import Any, Literal, Protocol

import anyio
from pydantic import Field

from bullpen.agents.contracts.desk import Identity, Mail, Mailroom, TeamDesk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.own_team import TeamCreateInput, TeamDeleteInput
from bullpen.agents.tools.planning.note_tools import NOTE_TOOLS
from bullpen.agents.tools.planning.plan_tools import EXIT_PLAN_MODE
from bullpen.agents.tools.planning.promise_tools import PROMISE
from bullpen.agents.tools.task_tools import TASK_TOOLS
from bullpen.agents.tools.team_tools import (
    SEND_MESSAGE,
    SPAWN_TEAMMATE,
    STOP_TEAMMATE,
    TEAM_STATUS,
    answer_request,
    send,
)

ToolSet = Literal["all", "coordination", "read-only"]

WAIT_S_MAX = 50
"""Some programs cancel a call after a minute."""

WAIT_FOR_MAIL = "WaitForMail"

_OF_THE_LEAD = {"TeamCreate", "TeamDelete", "SpawnTeammate", "StopTeammate"}
READS = frozenset({"TaskGet", "TaskList", "TeamStatus", "NotesRead"})
"""The tools that only read."""


class WaitForMailInput(ToolInput):
    """Input of WaitForMail."""

    timeout_seconds: float = Field(
        30, ge=0, le=WAIT_S_MAX, description="How long to wait if there is no mail"
    )


class ApproveRequestInput(ToolInput):
    """Input of ApproveRequest."""

    request_id: str = Field(description="Id of the request to answer")
    approve: bool = Field(description="true for yes, false for no")
    feedback: str | None = Field(None, description="Why, or what to do instead")
    updated_input: dict[str, Any] | None = Field(
        None, description="For a permission: the input to allow instead"
    )


async def _wait(given: WaitForMailInput, desk: Mailroom) -> str:
    mail: Mail | None = None
    with anyio.move_on_after(given.timeout_seconds):
        mail = await desk.wait_mail()
    # Mail may have come at the last moment, or was there before a wait of 0 seconds.
    mail = mail or await desk.take_mail()
    if mail is None:
        return f"No mail came within {given.timeout_seconds:g} seconds."
    return mail.text


async def _approve(given: ApproveRequestInput, desk: Identity) -> str:
    request = await answer_request(
        desk,
        given.request_id,
        approve=given.approve,
        feedback=given.feedback,
        updated_input=given.updated_input,
    )
    said = "Approved" if given.approve else "Rejected"
    return json.dumps(
        {
            "success": True,
            "message": f"{said}: the answer is stored in {request.sender}'s inbox",
            "request_id": request.id,
        },
        ensure_ascii=False,
    )


class TeamOwner(Protocol):
    """A connection that can make a team and delete it."""

    async def create_team(
        self, name: str, *, description: str | None, agent_type: str | None
    ) -> dict[str, str]:
        """Create a team and lead it."""

    async def delete_team(self) -> tuple[str, list[str]]:
        """Delete the team that it leads; its name, and what is to be said of its trees."""


# Nobody gives the member turns, keeps it in plan mode, or waits for its answers and its goal.
_OF_THE_TEAM: tuple[Tool[TeamDesk], ...] = (
    Tool(
        SEND_MESSAGE.name,
        SEND_MESSAGE.description,
        SEND_MESSAGE.input,
        SEND_MESSAGE.kind,
        send,
    ),
    TEAM_STATUS,
    SPAWN_TEAMMATE,
    STOP_TEAMMATE,
    *TASK_TOOLS,
    *NOTE_TOOLS,
    PROMISE,
    EXIT_PLAN_MODE,
)
_OF_A_CONNECTION: tuple[Tool[TeamDesk], ...] = (
    Tool(
        WAIT_FOR_MAIL,
        "Get your unread messages, or wait until one comes. When you have nothing else to do, "
        "keep calling it: nothing can wake your program.",
        WaitForMailInput,
        "team",
        _wait,
    ),
    Tool(
        "ApproveRequest",
        "Answer a permission, plan or shutdown request that was sent to you. Approving a "
        "permission allows exactly one call.",
        ApproveRequestInput,
        "team",
        _approve,
    ),
)


def _leading(owner: TeamOwner) -> tuple[Tool[TeamDesk], ...]:
    """Tools that create and delete the team of a connection."""

    async def create(given: TeamCreateInput, desk: Identity) -> str:
        made = await owner.create_team(
            given.team_name, description=given.description, agent_type=given.agent_type
        )
        return json.dumps({"data": made}, ensure_ascii=False)

    async def delete(given: TeamDeleteInput, desk: Identity) -> str:
        name, trees = await owner.delete_team()
        said = "; ".join([f"Deleted team {name!r} with its tasks and messages", *trees])
        return json.dumps({"success": True, "message": said, "team_name": name})

    return (
        Tool("TeamCreate", "Create a team and lead it.", TeamCreateInput, "team", create),
        Tool(
            "TeamDelete",
            "Delete your team with its tasks and messages. Refused while members are running.",
            TeamDeleteInput,
            "team",
            delete,
        ),
    )


def tools_of(owner: TeamOwner, tool_set: ToolSet, *, leads: bool) -> list[Tool[TeamDesk]]:
    """The tools of a member: those in the tool set that its part in the team allows."""
    tools = [*_leading(owner), *_OF_THE_TEAM, *_OF_A_CONNECTION]
    if tool_set == "read-only":
        return [tool for tool in tools if tool.name in READS or tool.name == WAIT_FOR_MAIL]
    if tool_set == "coordination" or not leads:
        return [tool for tool in tools if tool.name not in _OF_THE_LEAD]
    return tools
