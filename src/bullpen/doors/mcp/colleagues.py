"""Spawn and stop teammates for a lead that is connected through MCP."""

from __future__ import annotations

from pathlib import Path

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.supervisor.colleagues import ended, spawned
from bullpen.agents.supervisor.new_mode import mode_told
from bullpen.agents.work.tree_at_spawn import WorkspaceRequest, isolated
from bullpen.app.app import App
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import DEFAULT_MODE, MODES
from bullpen.team.requests.mode_rules import wider_mode


class LeadColleagues:
    """Lets a lead without a runner spawn agents, but only with the rights of the default mode.

    The lead has no policy that could limit its teammates. So they ask before they change anything.
    A person can spawn agents with more rights, or allow more in the settings.
    """

    members = True

    def __init__(self, app: App, team: str, *, agent: str, cwd: str) -> None:
        self._app = app
        self._team = team
        self._supervisor = app.supervisor(team)
        self._agent = agent
        self._cwd = cwd

    async def spawn(self, wanted: Wanted) -> str:
        """Start a teammate. Asking twice for the same name starts one teammate.

        Raises:
            Refused: too_wide if the mode allows more than the default; or as a spawn does.
        """
        mode = next((mode for mode in MODES if mode == wanted.mode), None)
        if mode is not None and wider_mode(mode, DEFAULT_MODE):
            raise Refused(
                f"A program connected through MCP may not start {wanted.name!r} in the mode"
                f" {mode!r}.",
                reason="too_wide",
                remedy="Leave the mode out, or ask a person to run `bullpen spawn`.",
            )
        spec = await self._app.resolve(self._request(wanted))
        key = f"{self._agent}/{wanted.name}"
        made = await self._supervisor.spawn(wanted.name, spec, by=self._agent, key=key)
        return await spawned(made, wanted, self._app.teams.open(self._team))

    def _request(self, wanted: Wanted) -> SpawnRequest:
        kind = wanted.workspace
        return SpawnRequest(
            cwd=str(Path(self._cwd, wanted.cwd or ".")),
            driver=wanted.driver or "native",
            backend=wanted.backend or "subprocess",
            role=wanted.role,
            model=wanted.model,
            prompt=wanted.prompt,
            mode=wanted.mode,
            workspace=kind and WorkspaceRequest(kind=kind, team=self._team, agent=wanted.name),
            isolated=isolated(None, kind, team=self._team, agent=wanted.name),
            skills=wanted.skills,
        )

    async def subagent(self, wanted: Wanted) -> AgentSpec:
        """Refuse: a program that is connected has its own subagents."""
        raise Refused(
            "A program connected through MCP has no subagents here.",
            reason="no_subagents",
            remedy="Use your program's own, or start a teammate.",
        )

    async def stop(self, name: str, *, reason: str | None) -> str:
        """Stop a teammate."""
        if name == self._agent:
            raise Refused(
                "You cannot stop yourself.", reason="not_lead", remedy="End your program instead."
            )
        return ended(name, await self._supervisor.stop(name, by=self._agent, reason=reason))

    async def set_mode(self, name: str, mode: str) -> str:
        """Change a teammate's mode, never to a wider one than the default."""
        after = await self._app.set_mode(self._team, name, mode, by=self._agent, voice="agent")
        return mode_told(name, after)
