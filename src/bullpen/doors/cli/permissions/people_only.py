"""Refusing agents the commands that only people may type."""

from __future__ import annotations

import os

import anyio

from bullpen.agents.permissions.speaker import is_of_an_agent
from bullpen.doors.cli.commands import BEFORE_ANY_TEAM
from bullpen.doors.cli.session import Session
from bullpen.errors import Refused


def refuse_agents(session: Session, path: str) -> None:
    """Refuse a command, such as `team delete`, to the agents of any team that can be read.

    Raises:
        Refused: this process belongs to an agent (not_a_person).
    """
    if path.partition(" ")[0] in BEFORE_ANY_TEAM:
        if is_of_an_agent((), os.environ):
            raise _not_for_agents(path)
        return
    try:
        anyio.run(session.identity.refuse_agents, f"run `bullpen {path}`")
    except Refused as error:
        raise _not_for_agents(path) if error.reason == "not_a_person" else error from None


def _not_for_agents(path: str) -> Refused:
    return Refused(
        f"An agent cannot run `bullpen {path}`.",
        reason="not_a_person",
        remedy="Ask the lead or a person to do it.",
    )
