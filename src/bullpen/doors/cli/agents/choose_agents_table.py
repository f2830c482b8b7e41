"""Which views show agents to the reader of a command."""

from __future__ import annotations

from bullpen.doors.cli.agents.agents_table import AgentViews
from bullpen.doors.cli.output.live import ScreenAgentViews
from bullpen.doors.cli.output.screen import Screen
from bullpen.doors.cli.session import Session


def agent_views(session: Session) -> AgentViews:
    """The agents of a team, as the reader of this command wants them."""
    if isinstance(session.page, Screen):
        return ScreenAgentViews(
            session.page, reader=session.settings.agent, elsewhere=session.elsewhere
        )
    return AgentViews(session.page, reader=session.settings.agent, elsewhere=session.elsewhere)
