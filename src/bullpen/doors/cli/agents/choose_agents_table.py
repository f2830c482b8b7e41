"""Which views show agents to the reader of a command."""

from __future__ import annotations

from bullpen.by_name import load
from bullpen.doors.cli.agents.agents_table import AgentViews
from bullpen.doors.cli.session import Session


def agent_views(session: Session) -> AgentViews:
    """The agents of a team, as the reader of this command wants them."""
    made: type[AgentViews] = AgentViews
    if session.at_screen:
        made = load("bullpen.doors.cli.output.live:ScreenAgentViews")
    return made(session.page, reader=session.settings.agent, elsewhere=session.elsewhere)
