"""Spawning and stopping teammates on behalf of a lead that is connected by MCP."""

from __future__ import annotations

from pathlib import Path

from bullpen.agents.colleagues import ended, spawned
from bullpen.agents.drivers.base import Wanted
from bullpen.agents.trees import WorkspaceWish
from bullpen.errors import Refused
from bullpen.office import Office
from bullpen.protocol.policy import DEFAULT_MODE, MODES
from bullpen.protocol.workspace import WorkspaceKind
from bullpen.team.policy_rules import wider_mode


class LeadColleagues:
    """What a lead without a runner may do about agents: no more than the default mode allows.

    There is no policy of the lead's own that a teammate's could be held against. So its teammates
    ask before they change anything; a person can spawn wider ones, or say so in the settings.
    """

    def __init__(self, office: Office, team: str, *, agent: str, cwd: str) -> None:
        self._office = office
        self._team = team
        self._supervisor = office.supervisor(team)
        self._agent = agent
        self._cwd = cwd

    async def spawn(self, wanted: Wanted) -> str:
        """Start a teammate. The name is the key, so that asking twice is once.

        Raises:
            Refused: too_wide for a mode beyond the default one, or whatever a spawn refuses.
        """
        mode = next((mode for mode in MODES if mode == wanted.mode), None)
        if mode is not None and wider_mode(mode, DEFAULT_MODE):
            raise Refused(
                f"A program that is connected by MCP may not start {wanted.name!r} in the mode"
                f" {mode!r}.",
                reason="too_wide",
                remedy="Leave the mode out, or have a person do it with: bullpen spawn",
            )
        spec = await self._office.spec(
            driver=wanted.driver or "native",
            backend=wanted.backend or "subprocess",
            cwd=str(Path(self._cwd, wanted.cwd or ".")),
            role=wanted.role,
            model=wanted.model,
            prompt=wanted.prompt,
            mode=wanted.mode,
            workspace=None if wanted.workspace is None else self._tree(wanted.workspace, wanted),
            skills=wanted.skills,
        )
        key = f"{self._agent}/{wanted.name}"
        return spawned(await self._supervisor.spawn(wanted.name, spec, by=self._agent, key=key))

    def _tree(self, kind: WorkspaceKind, wanted: Wanted) -> WorkspaceWish:
        return WorkspaceWish(kind=kind, team=self._team, agent=wanted.name)

    async def stop(self, name: str, *, reason: str | None) -> str:
        """Stop a teammate."""
        if name == self._agent:
            raise Refused("You cannot stop yourself.", reason="not_lead", remedy="End instead.")
        return ended(name, await self._supervisor.stop(name, by=self._agent, reason=reason))
