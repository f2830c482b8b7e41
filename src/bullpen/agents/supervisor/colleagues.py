"""Spawn and stop teammates for an agent, within the agent's own rights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from anyio.abc import TaskGroup

from bullpen.agents.config.definitions import MODELS
from bullpen.agents.config.inherit import under
from bullpen.agents.config.spec import NO_PROJECT_SETTINGS, SpawnFiles, SpawnRequest, resolve
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.contracts.machines import RESPAWN
from bullpen.agents.drivers.native.provider.options import (
    NAMES,
    SMALL_MODEL,
    SMALL_MODEL_OPTIONS,
    STRICT_MODEL,
)
from bullpen.agents.permissions.rule_language.known_tools import missing_tools
from bullpen.agents.permissions.rule_language.rule import tool_of
from bullpen.agents.permissions.rule_language.tool_names import TOOL_KINDS, missing_tools_note
from bullpen.agents.supervisor.machines.host_records import wanted_labels
from bullpen.agents.supervisor.new_mode import change_mode, mode_told
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.supervisor.start_end import Answered
from bullpen.agents.supervisor.supervisor import Stopped, Supervisor
from bullpen.agents.system.vendors.programs import COMMAND, OWN_DRIVERS
from bullpen.agents.tapes.setting import TAPE
from bullpen.agents.tools.agent_memory import MEMORY
from bullpen.agents.tools.web.search import SEARCH_URL
from bullpen.agents.work.tree_at_spawn import inherited, isolated
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec, End
from bullpen.protocol.names import LEAD
from bullpen.team.agents.rules import Registration
from bullpen.team.requests.mode_rules import mode_after_plan
from bullpen.team.team import Team

# Options that a teammate inherits.
_INHERITED = (SMALL_MODEL_OPTIONS, STRICT_MODEL, SEARCH_URL, TAPE)


class TeamColleagues:
    """Spawns and stops teammates for one agent."""

    def __init__(
        self,
        supervisor: Supervisor,
        team: Team,
        *,
        agent: str,
        files: SpawnFiles,
        starts: TaskGroup,
        members: bool = True,
    ) -> None:
        """Teammates get ready in `starts`. Without `members`, it has only subagents that read."""
        self.members = members
        self._cut_off: End = "suspended"
        self._starts = starts
        self._supervisor = supervisor
        self._team = team
        self._agent = agent
        self._files = files

    async def spawn(self, wanted: Wanted) -> str:
        """Start a teammate, and do not wait until it is ready: a failure is told by mail.

        Its name is the key, so asking twice starts one.
        """
        _, parent = await self._team.agents.get(self._agent)
        spec = await teammate(wanted, self._files, (self._agent, parent), team=self._team.name)
        key = f"{self._agent}/{wanted.name}"
        starter = self._supervisor.starter
        made = await starter.begin(wanted.name, spec, by=self._agent, key=key)
        if made.agent.phase == "starting":
            self._starts.start_soon(self._finish, made)
        return begun(made, wanted)

    async def _finish(self, made: Registration) -> None:
        answered = Answered(lambda: self._cut_off)
        # A bug in the start of one agent must not end the one that asked for it. Mail tells it.
        with suppress(Exception):
            await self._supervisor.starter.finish(made, by=self._agent, answered=answered)

    def ended(self, how: End) -> None:
        """Note how this agent ended: a teammate that is still starting ends with it."""
        self._cut_off = "lost" if how == "lost" else "suspended"

    async def subagent(self, wanted: Wanted) -> AgentSpec:
        """The spec of a subagent, which works in the agent's name, directory and program.

        Raises Refused: own_limits if its type has a sandbox of its own; not_allowed if it does more
        than read and the agent may not spawn.
        """
        _, parent = await self._team.agents.get(self._agent)
        above = parent.spec
        request = SpawnRequest(
            driver=above.driver,
            backend=above.backend,
            cwd=above.cwd,
            role=wanted.role,
            model=_model(wanted.model, above.driver),
            prompt=wanted.prompt,
            script=above.script,
            mode=wanted.mode,
            project_settings=NO_PROJECT_SETTINGS not in above.options,
        )
        spec = await resolve(request, self._files, (self._agent, parent))
        _refuse_own_limits(spec, above)
        if not self.members:
            _refuse_work(spec)
        return spec

    async def stop(self, name: str, *, reason: str | None) -> str:
        """Stop a teammate. Only the lead and the member that spawned it may do so."""
        if name == self._agent:
            raise Refused(
                "You cannot stop yourself.", reason="not_lead", remedy="Ask the lead to stop you."
            )
        return ended(name, await self._supervisor.stop(name, by=self._agent, reason=reason))

    async def set_mode(self, name: str, mode: str) -> str:
        """Change a teammate's mode, never to a wider one than the lead's."""
        after = await change_mode(
            self._team, self._files, name, mode, by=self._agent, voice="agent"
        )
        return mode_told(name, after)


async def teammate(
    wanted: Wanted, files: SpawnFiles, parent: tuple[str, AgentFacts], *, team: str
) -> AgentSpec:
    """The spec of a teammate: its parent's, except for what was asked for. Raises as `resolve`.

    Only people choose which command is started: an agent can only have its own started again.
    """
    above = parent[1].spec
    same_driver = wanted.driver in (None, above.driver)
    if TAPE in above.options and not same_driver:
        raise Refused(
            f"The run is recorded, and the driver {wanted.driver!r} asks its model itself.",
            reason="not_recorded",
            remedy="Start the teammate without another driver.",
        )
    workspace = inherited(above, wanted.workspace, team=team, agent=wanted.name)
    request = SpawnRequest(
        driver=wanted.driver or above.driver,
        backend=wanted.backend or above.backend,
        cwd=str(Path(above.cwd, wanted.cwd)) if wanted.cwd else above.cwd,
        role=wanted.role,
        model=_model(wanted.model, wanted.driver or above.driver),
        prompt=wanted.prompt,
        script=above.script,
        command=above.options.get(COMMAND) if same_driver else None,
        mode=wanted.mode,
        project_settings=NO_PROJECT_SETTINGS not in above.options,
        env=[name for name in above.env_asked if name in files.environ],
        on=None if wanted.on is None else wanted_labels(wanted.on),
        respawn=wanted.on is not None and bool(above.options.get(RESPAWN)),
        workspace=workspace,
        isolated=isolated(workspace, wanted.workspace, team=team, agent=wanted.name),
        skills=wanted.skills,
        after_edit=above.after_edit,
        small_model=above.options.get(SMALL_MODEL) if same_driver else None,
    )
    spec = await resolve(request, files, parent)
    # What is set for its model says nothing about another one.
    keys = (*_INHERITED, *(NAMES if spec.model == above.model else ())) if same_driver else ()
    options = {key: above.options[key] for key in keys if key in above.options}
    return spec.evolve(options={**options, **spec.options})


async def like_agent(
    wanted: Wanted,
    files: SpawnFiles,
    model: tuple[str, AgentFacts],
    bounds: Sequence[tuple[str, AgentFacts]],
    *,
    team: str,
) -> AgentSpec:
    """The spec of an agent like another one, within the rights of that one and of all `bounds`.

    Like an agent that plans, it starts in plan mode. Raises as `resolve`, and Refused:
    wider_than_parent.
    """
    name, facts = model
    if facts.mode == "plan":
        wanted = replace(wanted, mode="plan")
    spec = await teammate(wanted, files, (name, _beyond_plan(facts)), team=team)
    for above, its in bounds:
        if above != name:
            spec = under(spec, _beyond_plan(its), of=above, parent_leads=above == LEAD)
    return spec


def _beyond_plan(agent: AgentFacts) -> AgentFacts:
    """The agent with the rights that it gets when its plan is approved, if it plans."""
    if agent.mode != "plan":
        return agent
    after = agent.standing.evolve(mode=mode_after_plan(agent))
    return agent.evolve(standing=after.raw)


def _refuse_own_limits(spec: AgentSpec, above: AgentSpec) -> None:
    """Refuse what only an agent of its own can have: its commands run as its agent's."""
    found = [
        *(["a sandbox"] if spec.policy.sandbox != above.policy.sandbox else []),
        *(["a memory"] if MEMORY in spec.options else []),
    ]
    if found:
        raise Refused(
            f"A subagent cannot have {', '.join(found)} of its own.",
            reason="own_limits",
            remedy="Add `name` to start a teammate, or leave that out.",
        )


def _refuse_work(spec: AgentSpec) -> None:
    """Refuse a subagent that does more than read, for an agent that may not spawn."""
    more = "every tool"
    if spec.tools is not None:
        reads = {name for name, kind in TOOL_KINDS.items() if kind == "read" or kind == "team"}
        more = ", ".join(name for name in map(tool_of, spec.tools) if name not in reads)
    if more:
        raise Refused(
            f"You may only have subagents that read, and this type has {more}.",
            reason="not_allowed",
            remedy="Use subagent_type Explore or Plan, or do it yourself.",
        )


def _model(model: str | None, driver: str) -> str | None:
    """The model that a short name such as sonnet means. Other drivers have their own names."""
    if model == "inherit":
        return None
    return MODELS.get(model, model) if model is not None and driver in OWN_DRIVERS else model


def begun(made: Registration, wanted: Wanted) -> str:
    """What the member that asked for a teammate is told before that one is ready."""
    name, spec = made.member.name, made.agent.spec
    if not made.fresh:
        return _known(name, made.agent, wanted)
    missing = missing_tools(spec)
    note = f" {missing_tools_note(missing)}" if missing else ""
    return (
        f"{name} is starting ({spec.driver}, {spec.backend}). Its prompt is its first message."
        f" You can write to it now. If it cannot be started, you get a message.{note}"
    )


async def spawned(made: Spawned, wanted: Wanted, team: Team) -> str:
    """What the member that asked for a teammate is told, also of a prompt that nobody will get."""
    if made.fresh:
        where = f"{made.driver}, {made.backend}"
        note = f" {missing_tools_note(made.missing_tools)}" if made.missing_tools else ""
        return f"{made.name} is ready ({where}). Its prompt is its first message.{note}"
    _, agent = await team.agents.get(made.name)
    return _known(made.name, agent, wanted)


def _known(name: str, agent: AgentFacts, wanted: Wanted) -> str:
    """What is said of a teammate that was there before."""
    # A definition may have put its own text before the prompt.
    known = (agent.spec.prompt or "").endswith(wanted.prompt)
    lost = "" if known else " Your new prompt was not delivered."
    if agent.phase == "ended":
        return f"{name} has ended; it was not started again.{lost} Use another name."
    then = "" if known else " Send it with SendMessage, or use another name for a second teammate."
    return f"{name} is already in the team; it was not started again.{lost}{then}"


def ended(name: str, stopped: Stopped) -> str:
    """What the member that stopped a teammate is told."""
    return f"{name} is stopped." if stopped.was_alive else f"{name} had already ended."
