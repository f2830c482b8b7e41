"""`bullpen spawn`, `stop`, `ps`, `logs` and `attach`: the agents that work in a team."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli import complete
from bullpen.cli.command import command
from bullpen.cli.policy_options import CAN_ASK, PolicyOptions
from bullpen.cli.session import Session, is_terminal, text_or_input
from bullpen.cli.spawn_options import SpawnOptions, Wait
from bullpen.errors import NotFound, Refused

if TYPE_CHECKING:
    from bullpen.agents.launching import Spawned
    from bullpen.agents.rollcall import AgentView
    from bullpen.agents.supervisor import Stopped
    from bullpen.office import Office
    from bullpen.team.snapshot import Snapshot

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The agent.", autocompletion=complete.member_names)
]

_ENDED = ("failed", "stopped", "lost")
_GRACE_S = 5.0
_ASKED_S = 60.0
_LOOK_EVERY_S = 1.0
_TAIL_EVERY_S = 0.2
_FOLLOWED_ROWS = 20


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "spawn",
        examples=(
            "bullpen spawn alice 'Write the parser'",
            "bullpen spawn bob --role reviewer --backend tmux",
            "bullpen spawn dan 'Fix it' --mode acceptEdits --allow 'Bash(git:*)'",
            "bullpen spawn eve 'Review the parser' --driver codex",
            "bullpen spawn fay 'Fix #12' --workspace worktree --setup 'npm ci'",
            "bullpen spawn carol - --key nightly < prompt.txt",
        ),
    )(spawn)
    command(
        app,
        "stop",
        examples=(
            "bullpen stop alice",
            "bullpen stop bob --ask --reason 'All is done'",
            "bullpen stop --all",
        ),
    )(stop)
    command(app, "ps", examples=("bullpen ps", "bullpen ps --watch", "bullpen ps --watch --json"))(
        ps
    )
    command(app, "logs", examples=("bullpen logs alice -f", "bullpen logs alice -n 20"))(logs)
    command(app, "attach", examples=("bullpen attach alice",))(attach)


def spawn(
    session: Session,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The new agent's name.", show_default=False)
    ],
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT",
            help="What it is told at its start; - reads it from input.",
            show_default=False,
        ),
    ] = None,
    *,
    made: SpawnOptions,
    key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Spawning again with the same key starts nothing new."),
    ] = None,
    wait: Wait = None,
    rights: PolicyOptions,
) -> None:
    """Start an agent as a teammate. It goes on when this command has ended."""
    text = None if prompt is None else text_or_input(prompt)
    asked = made.stated()
    policy = session.policy(rights.stated())

    async def start(office: Office, team: str) -> tuple[Spawned, str, bool]:
        by, parent = await session.spawns(office.teams.open(team))
        spec = await office.spec(
            **asked,
            prompt=text,
            mode=rights.mode,
            policy=policy,
            project_settings=not rights.no_project_settings,
            parent=parent,
            workspace=made.wish(team, name, parent),
        )
        if parent is None:
            spec = session.attended(spec, rights, where=name)
        supervisor = office.supervisor(team)
        supervisor.tell = session.page.warn
        spawned = await supervisor.spawn(name, spec, by=by, key=key, ready_s=wait)
        return spawned, team, spec.rights.approver == "human" and spec.start_mode in CAN_ASK

    spawned, team, asks = session.with_office(start)
    session.show_agents.spawned(spawned, which=f"-t {team}{session.elsewhere}", asks=asks)


def stop(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The agent.",
            show_default=False,
            autocompletion=complete.member_names,
        ),
    ] = None,
    *,
    everyone: Annotated[bool, typer.Option("--all", help="All agents of the team.")] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Let it finish and agree first; stop it if it does not.")
    ] = False,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0,
            help="So many seconds to end by itself. [default: 5; with --ask 60]",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
) -> None:
    """Stop an agent with all it started. Its unfinished tasks become pending again."""
    if (name is None) != everyone:
        raise typer.BadParameter("name one agent, or say --all.")
    if everyone and ask:
        raise typer.BadParameter(
            "--ask is for one agent: each may refuse, for reasons of its own. Ask one by one."
        )

    async def end(office: Office, team: str) -> list[Stopped]:
        supervisor = office.supervisor(team)
        by = session.actor
        grace_s = _GRACE_S if grace is None else grace
        if name is None:
            return await supervisor.stop_all(by=by, grace_s=grace_s, reason=reason)
        if ask:
            deadline_s = _ASKED_S if grace is None else grace
            return [await supervisor.ask_to_stop(name, by=by, deadline_s=deadline_s, reason=reason)]
        return [await supervisor.stop(name, by=by, grace_s=grace_s, reason=reason)]

    session.show_agents.stopped(session.with_office(end))


def ps(
    session: Session,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Follow every change.")] = False,
) -> None:
    """Show the agents: state, task, what each does, tokens and cost, unread mail."""
    if watch:
        session.with_office(lambda office, team: _watch(session, office, team))
    else:
        session.show_agents.agents(*session.with_office(_look))


async def _look(office: Office, team: str) -> tuple[list[AgentView], Snapshot]:
    snapshot, views = await office.supervisor(team).look()
    return views, snapshot


async def _watch(session: Session, office: Office, team: str) -> None:
    last = None
    with session.page.frames() as picture:
        while True:
            views, snapshot = await _look(office, team)
            # On a screen the ages of states go on even when nothing else does.
            if session.page.draws or (views, snapshot) != last:
                session.show_agents.change(views, snapshot, picture)
            last = views, snapshot
            await session.pause(_LOOK_EVERY_S)


def logs(
    session: Session,
    name: Name,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines.")] = False,
    lines: Annotated[
        int | None,
        typer.Option(
            "-n",
            metavar="N",
            min=0,
            help="Only the last so many. [default: all; with -f 20]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what an agent was told, said and did."""

    async def show(office: Office, team: str) -> None:
        view = await _agent(office, team, name)
        tail = session.tail(await office.supervisor(team).transcript(name))
        if session.json and not follow:
            session.page.value(tail.last(lines) if tail.begun else [])
            return
        if not tail.begun:
            session.page.warn(_no_transcript(view))
        else:
            count = _FOLLOWED_ROWS if follow and lines is None else lines
            session.show_transcript.rows(tail.last(count))
        while follow:
            await session.pause(_TAIL_EVERY_S)
            session.show_transcript.rows(tail.more())

    session.with_office(show)


def attach(session: Session, name: Name) -> None:
    """Show an agent's own terminal in this one. Leave it with Ctrl-B, then D."""

    async def find(office: Office, team: str) -> list[str]:
        view = await _agent(office, team, name)
        words = office.supervisor(team).attach(view)
        if words is None:
            raise Refused(
                f"{name!r} has no terminal to show (backend: {view.backend or 'none'}).",
                reason="nothing_to_see",
                remedy=f"Read what it does: bullpen logs {name} -f",
            )
        if view.state in _ENDED:
            raise Refused(
                f"{name!r} does not run any more ({view.state}).",
                reason="not_running",
                remedy=f"Read what it did: bullpen logs {name}",
            )
        return words

    words = session.with_office(find)
    if session.json:
        session.page.value({"command": words})
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(
            "There is no terminal to show it in.",
            reason="no_terminal",
            remedy=f"Read what it does: bullpen logs {name} -f",
        )
    os.execvp(words[0], words)  # noqa: S606


def _no_transcript(view: AgentView) -> str:
    from bullpen.agents.processes import is_elsewhere

    if view.place is not None and is_elsewhere(view.place):
        return f"{view.name} runs on {view.place.host}, and its transcript is there."
    why = "it has not begun to work" if view.driver else "no agent was started as it"
    return f"{view.name} has no transcript yet: {why}."


async def _agent(office: Office, team: str, name: str) -> AgentView:
    views = await office.supervisor(team).agents()
    for view in views:
        if view.name == name:
            return view
    raise NotFound(
        f"There is no member {name!r} in team {team!r}.",
        remedy=f"There are these members: {', '.join(view.name for view in views)}.",
    )
