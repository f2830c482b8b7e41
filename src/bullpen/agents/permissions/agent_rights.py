"""The present rights of an agent, from its record."""

from __future__ import annotations

from bullpen.agents.contracts.call import CommandEnvironment, Rights
from bullpen.protocol.agent import AgentFacts


def rights_of(
    agent: AgentFacts,
    *,
    user_home: str,
    readable: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
    memory: tuple[str, ...] = (),
    commands: CommandEnvironment | None = None,
) -> Rights:
    """The present rights of an agent: those it was spawned with, and those that were added."""
    spec, stands = agent.spec, agent.standing
    given = spec.policy
    return Rights(
        mode=agent.mode,
        cwd=spec.cwd,
        user_home=user_home,
        allow=(*given.allow, *stands.allow),
        deny=(*given.deny, *(spec.disallowed_tools or ())),
        ask=tuple(given.ask),
        directories=(*given.directories, *stands.directories),
        readable=readable,
        private=private,
        memory=memory,
        tools=None if spec.tools is None else tuple(spec.tools),
        commands=commands,
    )
