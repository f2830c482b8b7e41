"""The tools of a connected member: those of the team, and what only a connection needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import anyio
from pydantic import Field

from bullpen.agents.drivers.base import Desk, Mail
from bullpen.agents.tools.base import Tool, ToolInput
from bullpen.agents.tools.plan import PLAN_TOOLS
from bullpen.agents.tools.tasks import TASK_TOOLS
from bullpen.agents.tools.team import TEAM_TOOLS, answer_request

if TYPE_CHECKING:
    from bullpen.mcp.seat import Seat

ToolSet = Literal["all", "coordination", "read-only"]

WAIT_S_MAX = 50
"""Some programs cut a call after a minute."""

WAIT_FOR_MAIL = "WaitForMail"

# Without a runner nobody gives the member turns, keeps it in plan mode or waits for its goal.
_NEEDS_A_RUNNER = {"ScheduleWakeup", "EnterPlanMode", "Finish"}
_OF_THE_LEAD = {"TeamCreate", "TeamDelete", "SpawnTeammate", "StopTeammate"}
READS = frozenset({"TaskGet", "TaskList", "TeamStatus"})
"""The tools that change nothing."""


class TeamCreateInput(ToolInput):
    """Input of TeamCreate."""

    team_name: str = Field(
        min_length=1,
        description="A name for the team; other signs than letters and digits become -",
    )
    description: str | None = Field(None, description="What the team is for")
    agent_type: str | None = Field(None, description="What kind of lead you are")


class TeamDeleteInput(ToolInput):
    """Input of TeamDelete."""


class WaitForMailInput(ToolInput):
    """Input of WaitForMail."""

    timeout_seconds: float = Field(
        30, ge=0, le=WAIT_S_MAX, description="How long to wait if there is no mail yet"
    )


class ApproveRequestInput(ToolInput):
    """Input of ApproveRequest."""

    request_id: str = Field(description="The request that this answers")
    approve: bool = Field(description="true for yes, false for no")
    feedback: str | None = Field(None, description="Why, or what to do instead")
    updated_input: dict[str, Any] | None = Field(
        None, description="Of a permission: the input with which the tool may be called instead"
    )


async def _wait(given: WaitForMailInput, desk: Desk) -> str:
    mail: Mail | None = None
    with anyio.move_on_after(given.timeout_seconds):
        mail = await desk.wait_mail()
    # Also what came in the last moment, or was there all along when nothing is waited for.
    mail = mail or await desk.take_mail()
    if mail is None:
        return f"No mail came within {given.timeout_seconds:g} seconds."
    return mail.text


async def _approve(given: ApproveRequestInput, desk: Desk) -> str:
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


_OF_A_CONNECTION: tuple[Tool, ...] = (
    Tool(
        WAIT_FOR_MAIL,
        "Get the messages that you have not read, or wait until one comes. Call it again and "
        "again when you have nothing else to do: nothing outside can wake your program.",
        WaitForMailInput,
        "team",
        _wait,
    ),
    Tool(
        "ApproveRequest",
        "Answer a request for a permission, a plan or a shutdown that was put to you. A yes to a "
        "permission holds for exactly this call.",
        ApproveRequestInput,
        "team",
        _approve,
    ),
)


def _leading(seat: Seat) -> tuple[Tool, ...]:
    """Tools that change which team the connection is in."""

    async def create(given: TeamCreateInput, desk: Desk) -> str:
        made = await seat.create_team(
            given.team_name, description=given.description, agent_type=given.agent_type
        )
        return json.dumps({"data": made}, ensure_ascii=False)

    async def delete(given: TeamDeleteInput, desk: Desk) -> str:
        name, trees = await seat.delete_team()
        said = "; ".join([f"Deleted team {name!r} with its tasks and messages", *trees])
        return json.dumps({"success": True, "message": said, "team_name": name})

    return (
        Tool("TeamCreate", "Make a team and lead it.", TeamCreateInput, "team", create),
        Tool(
            "TeamDelete",
            "Delete your team with its tasks and messages, when its work is done and all its "
            "members have ended.",
            TeamDeleteInput,
            "team",
            delete,
        ),
    )


def tools_of(seat: Seat, tool_set: ToolSet) -> list[Tool]:
    """The tools of a member: what the set holds and its place in the team allows."""
    every = (*_leading(seat), *TEAM_TOOLS, *TASK_TOOLS, *PLAN_TOOLS, *_OF_A_CONNECTION)
    tools = [tool for tool in every if tool.name not in _NEEDS_A_RUNNER]
    if tool_set == "read-only":
        return [tool for tool in tools if tool.name in READS or tool.name == WAIT_FOR_MAIL]
    if tool_set == "coordination" or not seat.desk.is_lead:
        return [tool for tool in tools if tool.name not in _OF_THE_LEAD]
    return tools
