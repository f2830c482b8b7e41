"""`bullpen acp`: a team as the agent of an editor or another program that speaks ACP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from bullpen.app.app import open_app
from bullpen.app.steady_loop import run_steadily
from bullpen.by_name import load
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag, option
from bullpen.doors.cli.options.policy import PolicyOptions
from bullpen.doors.cli.runs.run import TeamAgents, TeamLimits
from bullpen.doors.cli.screens.extras import need_extra
from bullpen.doors.cli.session import Session
from bullpen.errors import Invalid
from bullpen.runs.goal import Goal
from bullpen.runs.teamfile.read import read_team_file


@examples(
    "bullpen acp",
    "bullpen acp --driver claude --mode acceptEdits --allow 'Bash(make:*)'",
    "bullpen acp --team-file TEAM.toml",
)
def serve(
    session: Session,
    *,
    team_file: Annotated[
        str | None, option("Start the team of this team file for each session", "FILE")
    ] = None,
    agents: TeamAgents,
    limits: TeamLimits,
    delegate: Annotated[
        bool, flag("The lead only coordinates; teammates do the work", "--delegate")
    ] = False,
    rights: PolicyOptions,
) -> None:
    """Be the agent of an editor: a team that speaks ACP.

    An editor or another program starts it and speaks the Agent Client Protocol over standard input
    and output. Each session is a team in the session's directory. Its first prompt is the team's
    goal; every prompt goes to the lead. The task list is the plan, and requests of the team are
    permission requests, which you answer in the editor.

    When the editor closes its end, all agents are stopped. Teams stay and can be loaded again.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        raise Invalid(
            "`bullpen acp` expects a program that speaks ACP on standard input, not a terminal.",
            remedy="Name it in the settings of your editor. See: bullpen acp --help",
        )
    need_extra("acp", "acp")
    file = None if team_file is None else read_team_file(Path(team_file).absolute())
    lead = agents.lead(os.getcwd(), rights)
    goal = Goal(
        "",
        lead,
        delegate=delegate,
        budget_turns=limits.turns,
        budget_tokens=limits.budget_tokens,
        budget_usd=limits.budget_usd,
        timeout_s=limits.timeout,
    )
    start = load("bullpen.doors.acp.team_start:TeamStart")(goal, file)
    start.check()
    serve_stdio = load("bullpen.doors.acp.stdio:serve_stdio")

    async def run() -> None:
        async with open_app(session.settings) as app:
            await serve_stdio(app, start)

    run_steadily(run)
