"""Runs one agent in this process, from the handshake to its end."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from bullpen.agents.contracts.backend import NONCE, Launch
from bullpen.agents.drivers.make_driver import make_driver
from bullpen.agents.drivers.registry import loading_words
from bullpen.agents.runner.control import Ended
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.loop import Runner
from bullpen.agents.supervisor.colleagues import TeamColleagues
from bullpen.agents.system import orphans, process_owners, processes
from bullpen.agents.system.transcript import Transcript
from bullpen.agents.work.until_stored import until_stored
from bullpen.app.app import App, open_app
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError, Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms
from bullpen.sandbox.command import forbid_core_dumps
from bullpen.team.agents import rules as agent_rules

_READ_S = 20.0
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def run_agent(settings: Settings) -> int:
    """Run the agent that this process was started for. Returns the exit code. Raises Invalid."""
    nonce, team = os.environ.get(NONCE), settings.team
    if not nonce or team is None:
        raise Invalid(
            "`bullpen agent run` works only in a process that was started for an agent.",
            remedy="Start an agent with: bullpen spawn NAME",
        )
    forbid_core_dumps()
    orphans.adopt_orphans()
    process_owners.forget_ended()
    process_owners.record(os.getpid(), nonce)
    try:
        async with open_app(settings) as app:
            ended = await _work_outside(app, team, settings.agent, nonce, dict(os.environ))
    finally:
        await _end_leftovers(nonce)
    return 0 if ended.end in ("finished", "stopped", "suspended") else 1


async def work_inside(app: App, launch: Launch) -> None:
    """Run an agent of the in-process backend. Raises Conflict if it may not act."""
    async with _at_work(
        app, launch.team, launch.agent, launch.nonce, launch.env, in_process=True
    ) as (runner, colleagues):
        colleagues.ended((await runner.run()).end)


async def _work_outside(
    app: App, team_name: str, name: str, nonce: str, env: Mapping[str, str]
) -> Ended:
    async with (
        _at_work(app, team_name, name, nonce, env, in_process=False) as (runner, colleagues),
        anyio.create_task_group() as group,
    ):
        group.start_soon(_obey_signals, runner)
        ended = await runner.run()
        colleagues.ended(ended.end)
        group.cancel_scope.cancel()
    return ended


@asynccontextmanager
async def _at_work(
    app: App, team_name: str, name: str, nonce: str, env: Mapping[str, str], *, in_process: bool
) -> AsyncGenerator[tuple[Runner, TeamColleagues], None]:
    """A runner, and what starts teammates for it. At the end, those that are starting are cut off.

    Raises Conflict if it may not act.
    """
    async with anyio.create_task_group() as starts:
        made = await _runner(app, team_name, name, nonce, env, starts, in_process=in_process)
        runner, transcript, colleagues = made
        try:
            yield runner, colleagues
        finally:
            starts.cancel_scope.cancel()
            transcript.close()


async def _runner(
    app: App,
    team_name: str,
    name: str,
    nonce: str,
    env: Mapping[str, str],
    starts: TaskGroup,
    *,
    in_process: bool,
) -> tuple[Runner, Transcript, TeamColleagues]:
    team = app.teams.open(team_name)
    # Another program may be writing the file at this moment.
    config = await until_stored(team.agents.config, tell=lambda error: None, within_s=_READ_S)
    _, agent = agent_rules.current(config, name, nonce)
    spec = agent.spec
    folder = await app.supervisor(team_name).starter.folder(name)
    transcript = Transcript(folder)
    colleagues = TeamColleagues(
        app.supervisor(team_name),
        team,
        agent=name,
        files=app.files,
        starts=starts,
        members=agent_rules.may_spawn(config, name),
    )
    # Drivers are slow to import; meanwhile whoever waits sees what takes so long.
    begins = processes.starting_beat(name, agent, loading_words(spec.driver), now_ms())
    with suppress(BullpenError):
        await team.agents.beat(begins)
    driver = make_driver(spec, env, limits=_limits(app.settings.home, spec))
    desk = RunnerDesk(
        team,
        name,
        spec,
        nonce=nonce,
        folder=folder,
        env=env,
        transcript=transcript,
        colleagues=colleagues,
        now=now_ms,
        remembers=driver.remembers,
    )
    group = None if in_process else os.getpgrp()
    place = processes.this_process(spec.backend, group=group)
    return Runner(desk, driver, place=place, pace=app.pace), transcript, colleagues


def _limits(home: Path, spec: AgentSpec) -> Path:
    """Return the folder of the rate limiters. A guest's home belongs to another program."""
    return home / "bullpen" / "limits" if spec.is_guest else home / "limits"


async def _end_leftovers(nonce: str) -> None:
    """End what still runs below this process, while it can be found, except other launches."""
    pid = os.getpid()
    with anyio.CancelScope(shield=True), suppress(Unavailable):
        # A process that cannot be ended is named by whoever stops this agent.
        await processes.end(pid, processes.start_of(pid), None, nonce, 0)


async def _obey_signals(runner: Runner) -> None:
    with anyio.open_signal_receiver(*_ENDINGS) as received:
        async for number in received:
            # A regular stop sends an order first. Here a terminal or the machine ends, and the
            # agent continues when its team is resumed.
            runner.stop("lost", f"its process got {signal.Signals(number).name}")
