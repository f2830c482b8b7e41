"""Where agents are put together: store, backends, drivers and the environment they get."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from bullpen.agents import environment, processes
from bullpen.agents.backends.base import NONCE, Backend, Launch
from bullpen.agents.backends.inprocess import InProcess
from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.backends.tmux import Tmux
from bullpen.agents.checkup import examine_machine, examine_team, launches
from bullpen.agents.colleagues import TeamColleagues
from bullpen.agents.definitions import COORDINATION, apply, find, role_file
from bullpen.agents.desk import RunnerDesk
from bullpen.agents.drivers.base import Wanted
from bullpen.agents.drivers.choice import check_spec, make_driver, reads_unasked
from bullpen.agents.drivers.native.choice import choose
from bullpen.agents.drivers.programs import COMMAND
from bullpen.agents.gate import surroundings
from bullpen.agents.hosts.base import ON, RESPAWN, Hosts
from bullpen.agents.hosts.records import wanted_labels
from bullpen.agents.launching import agent_folder
from bullpen.agents.merging import remove_queue
from bullpen.agents.policy.decide import rights_of
from bullpen.agents.policy.effective import Effective, effective
from bullpen.agents.policy.rules import check_rules
from bullpen.agents.policy.width import under
from bullpen.agents.runner import Ended, Pace, Runner
from bullpen.agents.settings import KNOWN_TOOLS, FileSettings, read_settings
from bullpen.agents.supervisor import Supervisor
from bullpen.agents.tools.box import check_tools
from bullpen.agents.transcript import Transcript
from bullpen.agents.tree_keeping import TreeEnd, examine_trees, remember, remove_trees, trees_of
from bullpen.agents.trees import WorkspaceWish, beside, inherited, placed
from bullpen.agents.trust import distrust, refuse_untrusted, trust, trusted
from bullpen.app import Settings, open_hosts, open_store
from bullpen.app import doctor as examine_files
from bullpen.errors import BullpenError, Invalid, NotFound, Unreadable
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.protocol.roster import TeamConfig
from bullpen.store.base import Finding, Store
from bullpen.store.clock import now_ms
from bullpen.team import agent_rules
from bullpen.team.budget_rules import budget
from bullpen.team.teams import Teams

# The tmux server to use (ours is `bullpen`, people's own is `default`), and a session in it.
TMUX_SOCKET, TMUX_SESSION = environment.OURS[:2]

# The option of an agent for which the files of the project do not count, nor for its teammates.
NO_PROJECT_SETTINGS = "no_project_settings"

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Office:
    """The teams of one home, and what it takes to run agents for them on this machine."""

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
        """With `inside`, agents may share the process of whoever has this."""
        store = store or open_store(settings)
        self.settings = settings
        self.teams = Teams(store)
        self.hosts = hosts or open_hosts(store, settings)
        self._environ = environ
        # Every heartbeat goes over the network where the teams are not files.
        self._pace = pace or (Pace(beat_s=20.0, beat_ttl_s=60.0) if settings.store else Pace())
        self._backends: dict[str, Backend] = {
            **({"in-process": InProcess(self._work_inside)} if inside else {}),
            "subprocess": Detached(),
            "tmux": Tmux(environ.get(TMUX_SOCKET, "bullpen"), environ.get(TMUX_SESSION)),
        }
        self._supervisors: dict[str, Supervisor] = {}

    async def __aenter__(self) -> Self:
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
        """Whoever starts and stops the agents of a team."""
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
    ) -> bool:
        """Delete a team with all it knows; False if there was none. Transcripts are kept.

        Members that are dead do not keep it, whatever their records say. Its agents' trees are
        removed, with what is in them kept in snapshots; `told` is told of each, also of those that
        stay because somebody is in them.

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
            await remember(self.settings.home, trees_of(config).values())
        except NotFound:
            return False
        except Unreadable:
            # Nobody can say who is in it. What still runs is found by the doctor.
            if not force:
                raise
        deleted = await self.teams.delete(name, by=by, force=force)
        if deleted and config is not None:
            for end in await remove_trees(self.settings.home, config):
                told(end)
            with suppress(BullpenError):
                # A tree that holds nothing of anybody's is not worth a word.
                await remove_queue(config)
        return deleted

    async def examine(self, team: str | None, *, fix: bool) -> list[Finding]:
        """Look for agents that are gone, and for processes, panes and trees that they left."""
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
                # Examining the files says why. Its agents may be at work.
                complete = False
        findings += await examine_machine(
            self.settings.home, known, self._backends.values(), complete=complete, fix=fix
        )
        findings += await examine_trees(self.settings.home, configs, complete=complete, fix=fix)
        return findings

    async def spec(
        self,
        *,
        driver: str,
        backend: str,
        cwd: str,
        role: str | None = None,
        model: str | None = None,
        prompt: str | None = None,
        script: str | None = None,
        command: Sequence[str] | None = None,
        mode: str | None = None,
        policy: Policy | None = None,
        claims: bool = True,
        turns_max: int | None = None,
        budget_tokens: int | None = None,
        budget_usd: float | None = None,
        budget_wall_s: float | None = None,
        env: Sequence[str] = (),
        project_settings: bool = True,
        parent: tuple[str, AgentFacts] | None = None,
        on: Mapping[str, str] | None = None,
        respawn: bool = False,
        workspace: WorkspaceWish | None = None,
        skills: Sequence[str] = (),
        tools: Sequence[str] | None = None,
    ) -> AgentSpec:
        """What to spawn, with everything that its definition and the settings say applied.

        The model is the one asked for, else the definition's, else that of a parent with the same
        driver, else a default: ours, or that of the program. The mode is the one asked for, the
        definition's, the settings', the parent's or the default. Rules and hooks add up.
        `command` are the words that start a program of another vendor. `parent` is the agent that
        spawns it, if no person does. Without `project_settings` only the user's own files count.
        With `on` any host with these labels runs it, and with `respawn` another one after it.
        In a `workspace` of its own it is governed by what the files in `cwd` say now. Of the
        `tools` it has only these; those of the team it has always.

        Raises:
            NotFound: there is no such definition.
            Invalid: something that it says cannot be had; the text names it.
            Unreadable: a file of settings cannot be read.
            Refused: it would be wider than its parent (wider_than_parent), the project has files
                that count and is not trusted (not_trusted), they forbid it (mode_disabled), or
                the workspace cannot be had, for a reason of its own.
        """
        if workspace is not None and parent is not None:
            cwd, workspace, parent = beside(cwd, workspace, parent)
        # Of an agent for another machine, that machine has the variables.
        wanted = list(env) if on is not None else environment.check_names(env, self._environ)
        options: dict[str, Any] = {} if project_settings else {NO_PROJECT_SETTINGS: True}
        if command is not None:
            options[COMMAND] = list(command)
        if on is not None:
            options |= {ON: dict(on), RESPAWN: respawn}
        spec = AgentSpec.new(
            driver=driver,
            backend=backend,
            cwd=cwd,
            prompt=prompt,
            model=model,
            script=script,
            mode=mode,
            policy=None if policy is None else policy.raw,
            claims=claims,
            turns_max=turns_max,
            budget=budget(tokens=budget_tokens, usd=budget_usd, wall_s=budget_wall_s).raw or None,
            env=environment.names_for(driver, wanted),
            env_asked=wanted,
            options=options,
            skills=list(dict.fromkeys(skills)) or None,
            tools=None if tools is None else list(dict.fromkeys([*tools, *COORDINATION])),
        )
        check_tools(spec.tools or ())
        # All of it is decided on now and kept: files that change later change nothing.
        spec = await anyio.to_thread.run_sync(lambda: self._by_files(spec, role, policy, parent))
        model = spec.model
        if model is None and parent is not None and parent[1].asked.driver == driver:
            model = parent[1].asked.model
        if driver == "native":
            model = str(choose(model, self._environ))
        spec = spec.evolve(model=model)
        if workspace is None:
            return spec
        return await anyio.to_thread.run_sync(
            partial(placed, spec, workspace, elsewhere=on is not None)
        )

    def file_settings(self, cwd: str, *, project: bool = True) -> FileSettings:
        """What the files for work in a directory say. Raises Unreadable and Invalid."""
        user = Path(self._environ.get("HOME") or "/")
        return read_settings(Path(cwd), user_home=user, home=self.settings.home, project=project)

    async def trust(self, directory: str) -> tuple[Path, FileSettings]:
        """Trust a project, and say what its files say. The caller sees to it that a person asks.

        Raises:
            NotFound: there is no such directory.
            Unreadable, Invalid: its files cannot be used.
        """
        found = await anyio.to_thread.run_sync(self.file_settings, directory)
        return trust(self.settings.home, Path(directory)), found

    async def distrust(self, directory: str) -> bool:
        """Trust a project no more; False if it was not trusted."""
        return distrust(self.settings.home, Path(directory))

    async def trusted(self) -> list[str]:
        """The directories that are trusted."""
        return trusted(self.settings.home)

    def _by_files(
        self,
        spec: AgentSpec,
        role: str | None,
        policy: Policy | None,
        parent: tuple[str, AgentFacts] | None,
    ) -> AgentSpec:
        """The spec with its definition and the settings applied, and what its parent gives it."""
        home, user = self.settings.home, Path(self._environ.get("HOME") or "/")
        stated: frozenset[str] = frozenset()
        if policy is not None:
            check_rules([*policy.allow, *policy.deny, *policy.ask], KNOWN_TOOLS)
            stated = frozenset(policy.model_fields_set)
        found = self.file_settings(spec.cwd, project=NO_PROJECT_SETTINGS not in spec.options)
        files = found.of_project
        if role is not None:
            # Only a person names a file: an agent could not read every one.
            by_path = parent is None and role.endswith(".md")
            definition = role_file(Path(role)) if by_path else find(role, Path(spec.cwd), user)
            spec = apply(definition, spec)
            if definition.governs and definition.folder != user.resolve():
                files.append((definition.path, definition.folder))
        refuse_untrusted(files, home, Path(spec.cwd))
        spec = found.applied(spec, stated=stated, child=parent is not None)
        if parent is not None:
            name, facts = parent
            spec = under(
                spec,
                facts,
                of=name,
                parent_leads=name == LEAD,
                reads_freely=reads_unasked(spec.driver) and not reads_unasked(facts.asked.driver),
            )
            # It may have its mode from its parent, who was spawned before the files said this.
            found.refuse_mode(spec.mode)
        return spec

    async def effective(self, team_name: str, name: str) -> Effective:
        """What an agent may do now, and why. Raises NotFound."""
        team = self.teams.open(team_name)
        config = await team.agents.config()
        _, agent = agent_rules.agent_of(config, name)
        around = surroundings(
            agent_folder(self.settings.home, config, name),
            {**self._environ, "BULLPEN_HOME": str(self.settings.home)},
        )
        return effective(
            team_name,
            name,
            agent,
            rights_of(
                agent,
                user_home=around.user_home,
                readable=(around.folder,),
                private=(around.home,),
            ),
            is_lead=name == LEAD,
            depth_max=config.facts.bounds.depth,
            requests=await team.approvals.all(),
        )

    async def work(
        self, team_name: str, name: str, *, nonce: str, env: Mapping[str, str], in_process: bool
    ) -> Ended:
        """Be one agent, from the handshake to its end.

        Raises:
            Conflict: this launch may no longer act.
        """
        runner, transcript = await self._runner(
            team_name, name, nonce=nonce, env=env, in_process=in_process
        )
        try:
            if in_process:
                return await runner.run()
            async with anyio.create_task_group() as group:
                group.start_soon(_obey_signals, runner)
                ended = await runner.run()
                group.cancel_scope.cancel()
            return ended
        finally:
            transcript.close()

    async def _runner(
        self, team_name: str, name: str, *, nonce: str, env: Mapping[str, str], in_process: bool
    ) -> tuple[Runner, Transcript]:
        team = self.teams.open(team_name)
        config = await team.agents.config()
        _, agent = agent_rules.current(config, name, nonce)
        spec = agent.asked
        folder = await self.supervisor(team_name).folder(name)
        transcript = Transcript(folder)
        may_spawn = name == LEAD or agent.depth < config.facts.bounds.depth
        colleagues = TeamColleagues(
            self.supervisor(team_name), team, agent=name, make=partial(self._teammate, team_name)
        )
        desk = RunnerDesk(
            team,
            name,
            spec,
            folder=folder,
            env=env,
            transcript=transcript,
            colleagues=colleagues if may_spawn else None,
            now=now_ms,
        )
        driver = make_driver(spec, env, limits=self._limits(spec))
        group = None if in_process else os.getpgrp()
        place = processes.this_process(spec.backend, group=group)
        return Runner(desk, driver, nonce=nonce, place=place, pace=self._pace), transcript

    def _limits(self, spec: AgentSpec) -> Path:
        """Where the limiters of model keys lie. The home of a guest is another program's."""
        home = self.settings.home
        return home / "bullpen" / "limits" if spec.is_guest else home / "limits"

    async def _work_inside(self, launch: Launch) -> None:
        await self.work(
            launch.team, launch.agent, nonce=launch.nonce, env=launch.env, in_process=True
        )

    async def _teammate(self, team: str, wanted: Wanted, name: str, facts: AgentFacts) -> AgentSpec:
        """The spec of a teammate: as its parent's where nothing else was asked for."""
        parent = facts.asked
        extra = [name for name in parent.env_asked if name in self._environ]
        spec = await self.spec(
            workspace=inherited(parent, wanted.workspace, team=team, agent=wanted.name),
            skills=wanted.skills,
            project_settings=NO_PROJECT_SETTINGS not in parent.options,
            driver=wanted.driver or parent.driver,
            backend=wanted.backend or parent.backend,
            cwd=str(Path(parent.cwd, wanted.cwd)) if wanted.cwd else parent.cwd,
            role=wanted.role,
            model=wanted.model,
            parent=(name, facts),
            prompt=wanted.prompt,
            script=parent.script,
            # What is started is for people to say: an agent can only have the same started again.
            command=parent.options.get(COMMAND) if wanted.driver in (None, parent.driver) else None,
            mode=wanted.mode,
            env=extra,
            on=None if wanted.on is None else wanted_labels(wanted.on),
            respawn=wanted.on is not None and bool(parent.options.get(RESPAWN)),
        )
        options = {key: parent.options[key] for key in ("context_window",) if key in parent.options}
        return spec.evolve(options={**options, **spec.options})


def unattended(spec: AgentSpec, *, plans: bool = True) -> AgentSpec:
    """The spec where no person is there: what it would ask one is answered by policy instead.

    Without `plans` its plans wait for a person all the same, because somebody asked for that.
    """
    policy = spec.rights
    if policy.approver == "human":
        policy = policy.evolve(approver="policy")
    if plans and policy.plan_approver == "human":
        policy = policy.evolve(plan_approver="rule")
    return spec.evolve(policy=policy.raw)


async def doctor(settings: Settings, team: str | None, fix: bool) -> list[Finding]:
    """Look for damage in files and records, then for agents, processes and panes."""
    findings = await examine_files(settings, team, fix)
    async with open_office(settings) as office:
        return [*findings, *await office.examine(team, fix=fix)]


def open_office(settings: Settings) -> Office:
    """All teams in the home and the means to run their agents. Close it when done."""
    return Office(settings, os.environ)


async def run_agent(settings: Settings) -> int:
    """Be the agent that a backend started this process for. Returns the exit code.

    Raises:
        Invalid: nobody started this process as an agent.
    """
    nonce, team = os.environ.get(NONCE), settings.team
    if not nonce or team is None:
        raise Invalid(
            "This process was not started as an agent.",
            remedy="Start one with: bullpen spawn NAME",
        )
    async with open_office(settings) as office:
        ended = await office.work(
            team, settings.agent, nonce=nonce, env=dict(os.environ), in_process=False
        )
    return 0 if ended.end in ("finished", "stopped", "suspended") else 1


async def _obey_signals(runner: Runner) -> None:
    with anyio.open_signal_receiver(*_ENDINGS) as received:
        async for number in received:
            # Whoever stops an agent in order says so first; this is the end of a terminal or of
            # the machine, and it goes on when its team is resumed.
            runner.stop("lost", f"its process got {signal.Signals(number).name}")
