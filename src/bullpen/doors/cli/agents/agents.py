"""`bullpen spawn`, `stop`, `logs` and `attach`: commands for agents."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated

import anyio
import typer

from bullpen.agents.config.spec import unattended
from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.supervisor.supervisor import Stopped
from bullpen.agents.system.processes import is_elsewhere
from bullpen.agents.work.tree_at_spawn import isolated
from bullpen.app.app import App
from bullpen.doors.actions.attach import attach_command, find_agent
from bullpen.doors.cli.agents.agents_table import agent_views
from bullpen.doors.cli.agents.starting import starting
from bullpen.doors.cli.agents.transcript_view import TranscriptViews
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.limits import Wait
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.options.policy import CAN_ASK, PolicyOptions, policy_of
from bullpen.doors.cli.options.spawn import SpawnOptions
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.sandbox.command import weakness
from bullpen.view.transcript import TranscriptTail

Name = Annotated[str, argument("The agent", "NAME", complete=completion.member_names)]

_GRACE_S = 5.0
_ASKED_S = 60.0
_TAIL_EVERY_S = 0.2
_FOLLOWED_ROWS = 20


@examples(
    "bullpen spawn alice 'Write the parser'",
    "bullpen spawn bob --role reviewer --backend tmux",
    "bullpen spawn dan 'Fix it' --mode acceptEdits --allow 'Bash(git:*)'",
    "bullpen spawn eve 'Review the parser' --driver codex",
    "bullpen spawn fay 'Fix #12' --workspace worktree --setup 'npm ci'",
    "bullpen spawn carol - --key nightly < prompt.txt",
)
def spawn(
    session: Session,
    name: Annotated[str, argument("Name of the new agent", "NAME")],
    prompt: Annotated[
        str | None, argument("The first instruction; - reads standard input", "PROMPT")
    ] = None,
    *,
    made: SpawnOptions,
    key: Annotated[
        str | None, option("Do nothing if an agent was started with this key", "TEXT")
    ] = None,
    wait: Wait = None,
    rights: PolicyOptions,
) -> None:
    """Start an agent as a teammate.

    The agent keeps running when this command ends.
    """
    text = None if prompt is None else text_or_input(prompt)
    request = replace(made.request(prompt=text, rights=rights), policy=policy_of(rights.stated()))

    async def start(app: App, team: str) -> tuple[Spawned, str, bool]:
        by, parent = await session.identity.spawns(app.teams.open(team))
        workspace = made.workspace_request(team, name, parent)
        apart = isolated(workspace, made.workspace, team=team, agent=name, dirty=made.dirty)
        asked = replace(request, workspace=workspace, isolated=apart)
        spec = await app.resolve(asked, parent=parent)
        if parent is None:
            spec = _attended(session, spec, rights, where=name)
        async with starting(session) as room:
            spawned = await app.supervisor(team).spawn(
                name, spec, by=by, key=key, ready_s=wait, room=room
            )
        return spawned, team, spec.policy.approver == "human" and spec.start_mode in CAN_ASK

    spawned, team, asks = with_app(session, start)
    agent_views(session).spawned(spawned, which=f"-t {team}{session.elsewhere}", asks=asks)


@examples(
    "bullpen stop alice", "bullpen stop bob --ask --reason 'All is done'", "bullpen stop --all"
)
def stop(
    session: Session,
    name: Annotated[
        str | None, argument("The agent", "NAME", complete=completion.member_names)
    ] = None,
    *,
    everyone: Annotated[bool, flag("Stop all agents of the team", "--all")] = False,
    ask: Annotated[
        bool, flag("Ask it to stop first; stop it anyway if it refuses", "--ask")
    ] = False,
    grace: Annotated[
        float | None,
        option("Seconds it has to stop by itself [default: 5; 60 with --ask]", "S", min=0),
    ] = None,
    reason: Annotated[str | None, option("Why", "TEXT")] = None,
) -> None:
    """Stop an agent, or all agents of a team.

    Also stops every process the agent started. Its unfinished tasks become pending again.
    """
    if (name is None) != everyone:
        raise typer.BadParameter("name one agent, or pass --all.")
    if everyone and ask:
        raise typer.BadParameter("--ask works for one agent at a time, because each may refuse.")

    async def end(app: App, team: str) -> list[Stopped]:
        supervisor = app.supervisor(team)
        by, why = await session.identity.stops(app.teams.open(team), reason)
        grace_s = _GRACE_S if grace is None else grace
        if name is None:
            return await supervisor.stop_all(by=by, grace_s=grace_s, reason=why)
        if ask:
            deadline_s = _ASKED_S if grace is None else grace
            asked = await supervisor.ask_to_stop(
                name, by=by, deadline_s=deadline_s, reason=reason, cause=why
            )
            return [asked]
        return [await supervisor.stop(name, by=by, grace_s=grace_s, reason=why)]

    agent_views(session).stopped(with_app(session, end))


@examples("bullpen logs alice -f", "bullpen logs alice -n 20")
def logs(
    session: Session,
    name: Annotated[
        str | None, argument("The agent", "NAME", complete=completion.member_names)
    ] = None,
    *,
    follow: Annotated[bool, flag("Keep showing new lines", "--follow", "-f")] = False,
    lines: Annotated[
        int | None,
        option("Show only the last N lines [default: all; 20 with -f]", "N", "-n", min=0),
    ] = None,
) -> None:
    """Show what an agent was told, said and did."""

    if follow:
        session.goes_on("--follow")

    async def show(app: App, team: str) -> None:
        supervisor = app.supervisor(team)
        if name is None:
            raise _no_name(team, [view.name for view in await supervisor.agents()])
        view = await find_agent(supervisor, team, name)
        tail = TranscriptTail(await supervisor.transcript(name))
        views = TranscriptViews(session.page)
        if session.json and not follow:
            rows = tail.last(lines) if tail.begun else []
            views.whole(rows, agent=name, team=team)
            return
        if not tail.begun:
            session.page.warn(_no_transcript(view))
        else:
            count = _FOLLOWED_ROWS if follow and lines is None else lines
            views.rows(tail.last(count))
        while follow:
            await anyio.sleep(_TAIL_EVERY_S)
            views.rows(tail.more())

    with_app(session, show)


def _no_name(team: str, names: list[str]) -> Invalid:
    """Say whose logs there are."""
    return Invalid(
        "Whose logs? Name an agent.",
        remedy=f"Members of team {team}: {', '.join(names) or 'none'}.",
    )


@examples("bullpen attach alice")
def attach(session: Session, name: Name) -> None:
    """Show an agent's own terminal in this one.

    Press Ctrl-B, then D to leave it.
    """
    words = with_app(
        session,
        lambda app, team: attach_command(
            app.supervisor(team),
            team,
            name,
            instead=f"Read what it does: bullpen logs {name} -f",
            afterwards=f"Read what it did: bullpen logs {name}",
        ),
    )
    if session.json:
        session.page.value("attach/1", {"command": words})
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(
            "There is no terminal to show the agent in.",
            reason="no_terminal",
            remedy=f"Read what it does: bullpen logs {name} -f",
        )
    os.execvp(words[0], words)  # noqa: S606


def _attended(
    session: Session, spec: AgentSpec, options: PolicyOptions, *, where: str
) -> AgentSpec:
    """The spec to start: without a person at a terminal, requests do not wait for one."""
    if spec.policy.sandbox is not None and (weak := weakness()):
        session.page.warn(weak)
    if options.attended:
        return spec
    if (warning := options.warning(where=where)) and not spec.policy.allow:
        session.page.warn(warning)
    return unattended(spec, plans=options.plan_approver is None)


def _no_transcript(view: AgentView) -> str:
    if view.place is not None and is_elsewhere(view.place):
        return f"{view.name} runs on {view.place.host}; its transcript is there."
    why = "it has not started to work" if view.driver else "no agent of this name was started"
    return f"{view.name} has no transcript yet: {why}."
