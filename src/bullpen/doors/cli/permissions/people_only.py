"""Refusing agents what only people may do."""

from __future__ import annotations

import os

import anyio

from bullpen.agents.permissions.speaker import is_of_an_agent
from bullpen.doors.actions.identity import ActingIdentity
from bullpen.doors.cli.session import Session
from bullpen.errors import Refused


def refuse_agents(session: Session, what: str) -> None:
    """Refuse it to the agents of any team that can be read.

    Raises:
        Refused: this process belongs to an agent (not_a_person).
    """
    anyio.run(ActingIdentity(session.settings).refuse_agents, what)


def refuse_agent_process(what: str) -> None:
    """Refuse it to agents without reading a store: servers and keys exist before there is one.

    Raises:
        Refused: this process belongs to an agent (not_a_person).
    """
    if is_of_an_agent((), os.environ):
        raise Refused(
            f"An agent cannot {what}.", reason="not_a_person", remedy="Ask a person to do it."
        )
