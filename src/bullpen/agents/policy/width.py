"""Never wider than the parent: what an agent may give to another that it spawns."""

from __future__ import annotations

from bullpen.protocol.agent import AgentFacts, AgentSpec


def under(spec: AgentSpec, parent: AgentFacts, *, of: str, parent_leads: bool) -> AgentSpec:
    """The spec as a child of this parent: with what it inherits, if it is not wider.

    `of` is the parent's name.

    Raises:
        Refused: wider_than_parent; the text names everything that is.
    """
    return spec
