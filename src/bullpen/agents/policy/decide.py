"""The verdict on a tool call: deny first, then plan mode, ask, allow, and at last the mode."""

from __future__ import annotations

from bullpen.agents.policy.call import Call, Rights, Ruling
from bullpen.protocol.agent import AgentFacts
from bullpen.team.policy_rules import effect_of_mode


def rights_of(
    agent: AgentFacts,
    *,
    user_home: str,
    readable: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
) -> Rights:
    """The rights of an agent as it stands now: what it was spawned with, and what was added."""
    spec, stands = agent.asked, agent.stands
    given = spec.rights
    return Rights(
        mode=agent.mode,
        cwd=spec.cwd,
        user_home=user_home,
        allow=(*given.allow, *stands.allow),
        deny=tuple(given.deny),
        ask=tuple(given.ask),
        directories=(*given.directories, *stands.directories),
        readable=readable,
        private=private,
        tools=None if spec.tools is None else tuple(spec.tools),
    )


def decide(call: Call, rights: Rights) -> Ruling:
    """What is to be done with a call."""
    effect = effect_of_mode(rights.mode, call.kind, inside=True)
    return Ruling(effect, f"the mode {rights.mode} says so")
