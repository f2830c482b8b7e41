"""`bullpen summary`: what a team did, and what is left for a person to see to."""

from __future__ import annotations

from typing import Annotated

from bullpen.app.app import App
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag
from bullpen.doors.cli.runs.run_to_end import RunCommands
from bullpen.doors.cli.runs.summary_view import SummaryViews
from bullpen.doors.cli.session import Session
from bullpen.view.summary import Summary


@examples("bullpen summary -t night", "bullpen summary -t night --markdown > $GITHUB_STEP_SUMMARY")
def summary(
    session: Session,
    *,
    markdown: Annotated[bool, flag("Print Markdown", "--markdown")] = False,
) -> None:
    """Show what a team did and what is left for you to do.

    Shows tasks, merges, members and cost. It reads the team's records, so you can run it at any
    time.
    """

    async def look(app: App, team: str) -> Summary:
        return await RunCommands(session).summary(app, team)

    SummaryViews(session.page).whole(with_app(session, look), markdown=markdown)
