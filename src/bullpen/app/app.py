"""Puts agents together: store, backends, drivers and their environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from bullpen.agents.backends.available import AvailableBackends
from bullpen.agents.backends.in_process import InProcess
from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.backends.tmux import Tmux
from bullpen.agents.backends.warm_start.starter import OFF, WARM_START, WarmStart
from bullpen.agents.config.settings import FileSettings
from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.agents.config.trust import NewTrust, TrustRecord, distrust, read_trust, trust
from bullpen.agents.contracts.backend import Backend, Launch
from bullpen.agents.contracts.installed_parts import no_part
from bullpen.agents.contracts.machines import Hosts
from bullpen.agents.drivers.registry import check_spec
from bullpen.agents.runner.pace import Pace
from bullpen.agents.supervisor.doctor import examine_machine, examine_team, launches
from bullpen.agents.supervisor.new_mode import change_mode
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import environment
from bullpen.agents.system.processes import host_name
from bullpen.app.remote_stores import open_hosts
from bullpen.app.settings import Settings, settings_for
from bullpen.app.stores import open_store
from bullpen.by_name import load
from bullpen.errors import BullpenError, NotFound, Unreadable
from bullpen.protocol.agent import AgentFacts, AgentSpec, Workspace
from bullpen.protocol.request import Voice
from bullpen.protocol.team import IN_PROCESS, TeamConfig
from bullpen.store.contract import Finding, Store
from bullpen.store.private_folder import narrow
from bullpen.team.team import Teams

if TYPE_CHECKING:
    from bullpen.agents.work.tree_cleanup import TreeEnd

# The tmux server to use (`bullpen` by default; `default` is the user's own), and a session in it.
TMUX_SOCKET, TMUX_SESSION = environment.OURS[:2]

# Whoever starts agents removes no worktrees.
_TREES = "bullpen.agents.work.tree_cleanup"
_WARM_PARENT = "bullpen.doors.cli.agents.warm_parent"


class App:
    """The teams of one home, and what is needed to run their agents on this machine."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        pace: Pace | None = None,
        store: Store | None = None,
        hosts: Hosts | None = None,
        inside: bool = True,
    ) -> None:
        """With `inside`, agents may run in this process."""
        store = store or open_store(settings)
        self.settings = settings
        self.teams = Teams(store)
        self.hosts = hosts or open_hosts(store, settings)
        self._environ = environ
        self.files = SpawnFiles(settings.home, environ)
        # With NATS, every heartbeat goes over the network.
        self.pace = pace or (Pace(beat_s=20.0, beat_ttl_s=60.0) if settings.store else Pace())
        ours: dict[str, Backend] = {
            **({"in-process": InProcess(self._work_inside)} if inside else {}),
            "subprocess": Detached(_warm_start(environ)),
            "tmux": Tmux(environ.get(TMUX_SOCKET, "bullpen"), environ.get(TMUX_SESSION)),
        }
        self._backends = AvailableBackends(ours)
        self._supervisors: dict[str, Supervisor] = {}

    async def __aenter__(self) -> Self:
        # A home from before may be open to other users; the doctor says so if it stays open.
        narrow(self.settings.home)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            for backend in self._backends.values():
                await backend.aclose()
            await self.teams.aclose()

    def supervisor(self, team: str) -> Supervisor:
        """Return what starts and stops the agents of a team."""
        if team not in self._supervisors:
            self._supervisors[team] = Supervisor(
                self.teams.open(team),
                home=self.settings.home,
                backends=self._backends,
                environ=self._environ,
                check=partial(check_spec, environ=self._environ),
                hosts=self.hosts,
            )
        return self._supervisors[team]

    async def delete_team(
        self,
        name: str,
        *,
        by: str,
        force: bool = False,
        told: Callable[[TreeEnd], None] = lambda _: None,
        planned: Mapping[str, Workspace] = MappingProxyType({}),
    ) -> bool:
        """Delete a team and all its records; False if there was none. Transcripts are kept.

        Dead agents do not prevent it, whatever their records say. The worktrees of its agents are
        removed after a snapshot; `told` gets the result for each, also for those that stay because
        a process uses them. `planned` are worktrees of agents that may not have started.

        Raises:
            Refused: an agent is alive (members_alive), unless `force`, which stops it first.
        """
        supervisor = self.supervisor(name)
        config = None
        try:
            await supervisor.tend(by=by)
            if force:
                await supervisor.stop_all(by=by, reason="its team is deleted")
            else:
                await supervisor.sweep()
            config = await self.teams.open(name).agents.config()
            trees = {**planned, **load(f"{_TREES}:trees_of")(config)}
            await load(f"{_TREES}:remember")(self.settings.home, trees.values())
        except NotFound:
            return False
        except Unreadable:
            # Its members are unknown. The doctor finds what still runs.
            if not force:
                raise
        deleted = await self.teams.delete(name, by=by, force=force)
        if deleted and config is not None:
            for end in await load(f"{_TREES}:remove_trees")(
                self.settings.home, config, planned=planned
            ):
                told(end)
            with suppress(BullpenError):
                # The test worktree holds nobody's work, so errors do not matter.
                await load("bullpen.agents.work.merge_checks:remove_queue")(config)
        return deleted

    async def examine(self, team: str | None, *, fix: bool) -> list[Finding]:
        """Find agents that are gone, and processes, panes and worktrees that they left."""
        by = self.settings.agent
        findings: list[Finding] = []
        known: dict[str, AgentFacts] = {}
        configs: dict[str, TeamConfig] = {}
        complete = True
        for name in await self.teams.names():
            try:
                if team in (None, name):
                    findings += await examine_team(self.teams.open(name), fix=fix, by=by)
                known |= await launches(self.teams.open(name))
                configs[name] = await self.teams.open(name).agents.config()
            except NotFound:
                # Deleted since the names were read.
                continue
            except BullpenError:
                # The check of the files says why. Its agents may be running.
                complete = False
        findings += self._open_backends(known.values())
        findings += await examine_machine(
            self.settings.home, known, self._backends.values(), complete=complete, fix=fix
        )
        findings += await load(f"{_TREES}:examine_trees")(
            self.settings.home, configs, complete=complete, fix=fix
        )
        return findings

    def _open_backends(self, agents: Iterable[AgentFacts]) -> list[Finding]:
        """Make the backends that agents of this machine were started by, to look at them too."""
        places = (agent.process for agent in agents if agent.phase != "ended")
        here = {place.backend for place in places if place and place.host == host_name()}
        findings = []
        for name in sorted(here - {IN_PROCESS}):
            try:
                if name not in self._backends:
                    raise no_part("backend", name, self._backends)
            except BullpenError as error:
                findings.append(Finding("unusable", name, error.message, action=error.remedy))
        return findings

    async def resolve(
        self, request: SpawnRequest, *, parent: tuple[str, AgentFacts] | None = None
    ) -> AgentSpec:
        """Return what to spawn for a request. `parent` is the agent that asks, if any.

        Raises as `bullpen.agents.config.spec.resolve` does.
        """
        return await resolve(request, self.files, parent)

    async def trust(self, directory: str) -> tuple[NewTrust, FileSettings]:
        """Trust a project as it is now. Returns what that covers, and the settings that apply.

        Only a person may ask for this.

        Raises:
            NotFound: there is no such directory.
            Unreadable, Invalid: its files cannot be used.
        """
        found = await anyio.to_thread.run_sync(self.files.settings, directory)
        return await anyio.to_thread.run_sync(
            trust, self.settings.home, Path(directory), found.of_project
        ), found

    async def distrust(self, directory: str) -> bool:
        """Stop trusting a project; False if it was not trusted."""
        return distrust(self.settings.home, Path(directory))

    async def trusted(self) -> TrustRecord:
        """Return the trusted directories with their files."""
        return read_trust(self.settings.home)

    async def set_mode(
        self, team_name: str, name: str, mode: str, *, by: str, voice: Voice
    ) -> AgentFacts:
        """Change the mode of an agent. Raises as `bullpen.agents.supervisor.new_mode` does."""
        team = self.teams.open(team_name)
        return await change_mode(team, self.files, name, mode, by=by, voice=voice)

    async def _work_inside(self, launch: Launch) -> None:
        await load("bullpen.app.agent_work:work_inside")(self, launch)


def open_app(settings: Settings | None = None, *, home: str | Path | None = None) -> App:
    """Open the teams of a home, to run their agents. Use it with `async with`.

    The default is the home that the command line would use.
    """
    return App(settings or settings_for(home), os.environ)


def _warm_start(environ: Mapping[str, str]) -> WarmStart | None:
    return None if environ.get(WARM_START) == OFF else WarmStart(_WARM_PARENT)
