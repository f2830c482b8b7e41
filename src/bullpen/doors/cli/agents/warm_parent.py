"""Fork agents that start at once. The subprocess backend starts it; people do not.

    python -P -m bullpen.doors.cli.agents.warm_parent SOCKET LOCK MODULE...

A child is `bullpen agent run`, and nothing else can be asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from anyio.lowlevel import checkpoint

from bullpen import __main__ as program
from bullpen.agents.backends.warm_start.parent import serve
from bullpen.agents.supervisor.supervisor import AGENT_PROGRAM
from bullpen.app.steady_loop import run_steadily
from bullpen.doors.cli import main as command_line
from bullpen.doors.cli.agents import agent_run

IMPORTED = (command_line, agent_run)
"""What every agent imports, besides the modules that are named."""


def _is_agent(words: Sequence[str]) -> bool:
    return tuple(words) == AGENT_PROGRAM


def _rehearse() -> None:
    """Run an empty event loop, which imports what every loop needs."""
    run_steadily(checkpoint)


def main() -> None:
    """Be the warm parent; in a child, be the agent."""
    words = serve(_is_agent, _rehearse)
    sys.argv[:] = [program.__file__, *words[4:]]
    program.main()


if __name__ == "__main__":
    main()
