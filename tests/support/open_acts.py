"""Open acts of the lead to the agents of a team that exists. Only a team file does that."""

from __future__ import annotations

from bullpen.protocol.changes import Change, PutTeam
from bullpen.protocol.names import LEAD
from bullpen.store.contract import View
from bullpen.team.team import Team


async def open_to_agents(team: Team, *acts: str) -> None:
    """Open these acts, and no others."""

    def decide(view: View) -> list[Change]:
        return [PutTeam({"bullpen": view.team.facts.evolve(agents_may=list(acts) or None).raw})]

    await team._store.commit(team.name, decide, actor=LEAD, op="other")
