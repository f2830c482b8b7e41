"""Finding the command that shows an agent's own terminal, or why there is none."""

from __future__ import annotations

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system.processes import is_elsewhere
from bullpen.errors import Refused
from bullpen.protocol.presence import ENDED
from bullpen.team.lookup import no_member


async def find_agent(supervisor: Supervisor, team: str, name: str) -> AgentView:
    """The member of that name, as the supervisor sees it. Raises NotFound."""
    views = {view.name: view for view in await supervisor.agents()}
    if name not in views:
        raise no_member(name, team, views)
    return views[name]


async def attach_command(
    supervisor: Supervisor, team: str, name: str, *, instead: str, afterwards: str
) -> list[str]:
    """The command that shows an agent in this terminal.

    `instead` is how a person reads what the agent does when its terminal cannot be shown, and
    `afterwards` what it did when it has ended.

    Raises:
        NotFound: the team has no such member.
        Refused: it has no terminal, runs on another machine or has ended (nothing_to_see,
            elsewhere, not_running).
    """
    view = await find_agent(supervisor, team, name)
    words = supervisor.attach(view)
    if words is None:
        raise Refused(
            f"{name!r} has no terminal to show (backend: {view.backend or 'none'}).",
            reason="nothing_to_see",
            remedy=instead,
        )
    if view.place is not None and is_elsewhere(view.place):
        raise Refused(
            f"The terminal of {name!r} is on the machine {view.place.host}.",
            reason="elsewhere",
            remedy=f"Run on {view.place.host}: bullpen attach {name} -t {team}",
        )
    if view.state in ENDED:
        raise Refused(
            f"{name!r} is no longer running ({view.state}).",
            reason="not_running",
            remedy=afterwards,
        )
    return words
