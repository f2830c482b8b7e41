"""Checks that an agent states in its shell: only what it may run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bullpen.agents.permissions.agent_rights import rights_of
from bullpen.agents.work.complete import (
    refuse_beyond,
    refuse_outside,
    refuse_reviews,
    refuse_without_shell,
)
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.task import Check


async def refuse_checks(agent: AgentFacts, checks: Sequence[Check], env: Mapping[str, str]) -> None:
    """Refuse checks that an agent may not state. Raises Refused (denied) and Invalid."""
    rights = rights_of(agent, user_home=env.get("HOME") or "/", private=(env["BULLPEN_HOME"],))
    refuse_reviews(checks)
    refuse_outside(checks)
    refuse_without_shell(agent.spec, checks)
    await refuse_beyond(rights, checks)
