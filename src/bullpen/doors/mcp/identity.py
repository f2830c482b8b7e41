"""The identities of connected programs: which names they may have, and tokens for them."""

from __future__ import annotations

from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.app.app import App
from bullpen.app.stores import resolve_team
from bullpen.doors.mcp.tokens import Tokens
from bullpen.errors import NotFound, Refused
from bullpen.protocol import names
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import TeamConfig
from bullpen.team.team import Team


def refuse_driven(team: Team, config: TeamConfig, name: str) -> None:
    """Refuse the name of an agent that Bullpen runs or could resume. Raises Refused (driven)."""
    member = config.member(name)
    agent = member.agent if member is not None else None
    if agent is None:
        return
    # The lead's roster entry outlives its launches: the next lead takes it over.
    if name == LEAD and (agent.phase == "ended" or RosterView(team).dead(agent)):
        return
    raise Refused(
        f"{name!r} is an agent that Bullpen runs in team {config.name!r} ({agent.spec.driver});"
        " it gets its tools from its runner.",
        reason="driven",
        remedy="Choose another name"
        + ("." if name == LEAD else f", or remove it first: bullpen member remove {name}"),
    )


async def mint(app: App, member: str) -> tuple[str, str, bool]:
    """Create a token. Returns the team, the token, and whether it replaces an older one.

    The member may not exist yet: it joins with its first request. The lead's token may be for a
    team that does not exist yet.

    Raises:
        NotFound: there is no such team.
        Refused: an agent that Bullpen runs has that name (driven).
        Invalid: it is not a valid name for a member or a team.
    """
    name = await resolve_team(app.teams, app.settings)
    team = app.teams.open(name)
    try:
        config = await team.agents.config()
    except NotFound:
        if member != LEAD:
            raise
        names.check_new_name(name, kind="team")
    else:
        refuse_driven(team, config, member)
        if config.member(member) is None:
            names.check_new_name(member, kind="member")
    token, replaced = Tokens(app.settings.home).mint(name, member, now_ms=now_ms())
    return name, token, replaced
