"""What only people may do, whatever store there is, or none yet."""

from __future__ import annotations

import os

from bullpen.errors import Refused


def refuse_agents(what: str) -> None:
    """Refuse it to agents. No store is asked: servers and keys are made before there is one.

    Raises:
        Refused: this process belongs to an agent (not_a_person).
    """
    from bullpen.agents.speaker import is_of_an_agent

    if is_of_an_agent((), os.environ):
        raise Refused(
            f"An agent cannot {what}.", reason="not_a_person", remedy="Ask a person to do it."
        )
