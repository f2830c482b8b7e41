"""Who a connected program can be: which names it may have, and tokens for them."""

from __future__ import annotations

from bullpen.agents.rollcall import RollCall
from bullpen.app import resolve_team
from bullpen.errors import NotFound, Refused
from bullpen.mcp.tokens import Tokens
from bullpen.office import Office
from bullpen.protocol import names
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import TeamConfig
from bullpen.store.clock import now_ms
from bullpen.team.team import Team


def refuse_driven(team: Team, config: TeamConfig, name: str) -> None:
    """Refuse a name under which an agent of ours works, or would work when it is resumed.

    Raises:
        Refused: driven.
    """
    member = config.member(name)
    agent = member.agent if member is not None else None
    if agent is None:
        return
    # The row of the lead outlives its launches: whoever leads next sits down in it.
    if name == LEAD and (agent.phase == "ended" or RollCall(team).dead(agent)):
        return
    raise Refused(
        f"{name!r} is an agent that Bullpen runs in team {config.name!r} ({agent.asked.driver}):"
        " it has its tools from its runner.",
        reason="driven",
        remedy="Choose another name"
        + ("." if name == LEAD else f", or remove it first: bullpen member remove {name}"),
    )


async def mint(office: Office, member: str) -> tuple[str, str, bool]:
    """The team that is meant, a new token for a member, and whether it replaces another.

    The member need not be one yet: it joins with its first request. A lead's token can be for a
    team that is to be made with it.

    Raises:
        NotFound: there is no such team.
        Refused: an agent of ours has that name (driven).
        Invalid: the name cannot be a member's or a team's.
    """
    name = await resolve_team(office.teams, office.settings)
    team = office.teams.open(name)
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
    token, replaced = Tokens(office.settings.home).mint(name, member, now_ms=now_ms())
    return name, token, replaced
