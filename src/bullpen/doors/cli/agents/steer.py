"""`bullpen mode` and `bullpen interrupt`: steer an agent while it runs."""

from __future__ import annotations

from typing import Annotated

from bullpen.agents.supervisor.new_mode import mode_told
from bullpen.app.app import App
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.options.policy import ModeName
from bullpen.doors.cli.permissions.policy_view import MODE_WORDS
from bullpen.doors.cli.session import Session
from bullpen.protocol.agent import AgentFacts

Agent = Annotated[str, argument("The agent", "NAME", complete=completion.member_names)]


@examples("bullpen mode alice", "bullpen mode alice acceptEdits", "bullpen mode team-lead delegate")
def mode(
    session: Session,
    agent: Agent,
    new_mode: Annotated[
        ModeName | None, argument("Its new mode; without it, shows the current one", "MODE")
    ] = None,
) -> None:
    """Show or change the permission mode of an agent.

    It counts from the agent's next tool call on, also in the middle of a turn. You may set every
    mode. The lead may give a teammate no wider mode than its own.
    """

    async def look_or_change(app: App, name: str) -> tuple[str, AgentFacts]:
        team = app.teams.open(name)
        if new_mode is None:
            return name, (await team.agents.get(agent))[1]
        by, voice = await session.identity.speaks(team)
        return name, await app.set_mode(name, agent, new_mode, by=by, voice=voice)

    team, found = with_app(session, look_or_change)
    told = f"{agent} is in mode {found.mode}." if new_mode is None else mode_told(agent, found)
    session.page.result(
        "mode/1",
        {"agent": agent, "team": team, "mode": found.mode},
        f"{told} In this mode it {MODE_WORDS[found.mode]}.",
    )


@examples("bullpen interrupt alice", "bullpen interrupt alice --reason 'Wrong branch'")
def interrupt(
    session: Session,
    agent: Agent,
    *,
    reason: Annotated[str | None, option("Why", "TEXT")] = None,
) -> None:
    """Interrupt an agent's turn; it keeps running.

    The agent keeps its tasks. Tell it what to do instead with `bullpen send`, or end it with
    `bullpen stop`.
    """

    async def cancel(app: App, name: str) -> str:
        by, voice = await session.identity.speaks(app.teams.open(name))
        await app.supervisor(name).interrupt(agent, by=by, voice=voice, reason=reason)
        return name

    team = with_app(session, cancel)
    session.page.result(
        "interrupted/1",
        {"agent": agent, "team": team},
        f"Interrupted {agent}; it keeps running. Tell it what to do:",
        f"  bullpen send {agent} 'TEXT' -t {team}{session.elsewhere}",
    )
