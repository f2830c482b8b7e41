"""Colleagues of an agent whose subagents all have one spec."""

from __future__ import annotations

from bullpen.agents.contracts.desk import Wanted
from bullpen.protocol.agent import AgentSpec


class OneType:
    """They start nobody."""

    members = True

    def __init__(self, spec: AgentSpec) -> None:
        self.spec = spec

    async def subagent(self, wanted: Wanted) -> AgentSpec:
        return self.spec

    async def spawn(self, wanted: Wanted) -> str:
        raise NotImplementedError

    async def stop(self, name: str, *, reason: str | None) -> str:
        raise NotImplementedError

    async def set_mode(self, name: str, mode: str) -> str:
        raise NotImplementedError
