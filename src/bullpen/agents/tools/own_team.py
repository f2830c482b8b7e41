"""TeamCreate, TeamDelete and SetMode, for an agent that leads. The first two are not shown.

Models that know Claude Code call the first two by themselves; the team is there before the first
turn. The third is rare.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from pydantic import Field

from bullpen.agents.contracts.desk import Desk, Identity
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.team_tools import colleagues_of
from bullpen.errors import Refused
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD, agent_id, team_folder
from bullpen.team.agents.rules import agreed_to_end, refuse_while_alive
from bullpen.team.team import Team

ENDS_S = 10.0
"""How long TeamDelete waits for those who agreed to shut down. Their turns end within 5 seconds."""

_LOOK_S = 0.05


class TeamCreateInput(ToolInput):
    """Input of TeamCreate."""

    team_name: str = Field(
        min_length=1,
        description="Name of the team; characters other than letters and digits become -",
    )
    description: str | None = Field(None, description="What the team is for")
    agent_type: str | None = Field(None, description="Your role as the lead")


class TeamDeleteInput(ToolInput):
    """Input of TeamDelete."""


class SetModeInput(ToolInput):
    """Input of SetMode."""

    name: str = Field(description="Name of the teammate")
    mode: str = Field(description="Its new mode, such as plan")


def second_team(led: str, remedy: str) -> Refused:
    """Return the refusal to let a lead create another team."""
    return Refused(f"You already lead team {led!r}.", reason="already_leads", remedy=remedy)


async def _create(given: TeamCreateInput, desk: Desk) -> str:
    """Create a team and lead it. Yours exists; its name is answered with its data."""
    led, config = desk.team.name, await desk.team.agents.config()
    if led not in (given.team_name.strip(), team_folder(given.team_name.strip())):
        raise second_team(led, "Use it: start teammates with Task. No other team is needed.")
    path = Path(desk.env.get("BULLPEN_HOME") or "", "teams", led, "config.json")
    made = {
        "team_name": led,
        # Teams that are not kept as files have no path: name their store.
        "team_file_path": desk.env.get("BULLPEN_STORE") or str(path),
        "lead_agent_id": config.lead_agent_id or agent_id(LEAD, led),
    }
    return json.dumps({"data": made}, ensure_ascii=False)


async def ends_agreed_to(team: Team) -> None:
    """Wait until those who agreed to shut down have ended, but not for ever."""
    waited_for: set[str] = set()
    with anyio.move_on_after(ENDS_S):
        while True:
            config = await team.agents.config()
            leaving = agreed_to_end(config, (await team.approvals.all()).values())
            waited_for |= leaving
            # The last heartbeat of an agent comes after the record of its end.
            beats = await team.agents.presence() if waited_for else {}
            alive = {name for name, beat in beats.items() if beat.alive(now_ms())}
            if not leaving and not waited_for & alive:
                return
            await anyio.sleep(_LOOK_S)


async def _delete(given: TeamDeleteInput, desk: Identity) -> str:
    """End your team. Refused while members are running or tasks are open."""
    await ends_agreed_to(desk.team)
    refuse_while_alive(await desk.team.agents.config(), by=desk.agent)
    await desk.team.agents.finish(by=desk.agent, summary="The lead ended the team.")
    name = desk.team.name
    said = f"Team {name!r} is finished. Its records stay until a person deletes them"
    return json.dumps({"success": True, "message": said, "team_name": name}, ensure_ascii=False)


async def _set_mode(given: SetModeInput, desk: Identity) -> str:
    """Change the permission mode of a running teammate, never to a wider one than yours."""
    return await colleagues_of(desk).set_mode(given.name, given.mode)


TEAM_CREATE: Tool[Desk] = documented("TeamCreate", TeamCreateInput, "team", _create)
TEAM_DELETE: Tool[Identity] = documented("TeamDelete", TeamDeleteInput, "team", _delete)
SET_MODE: Tool[Identity] = documented("SetMode", SetModeInput, "team", _set_mode, deferred=True)

OWN_TEAM_TOOLS: tuple[Tool[Desk], ...] = (TEAM_CREATE, TEAM_DELETE, SET_MODE)
