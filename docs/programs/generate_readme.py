"""Write `README.md`, the table of programs, from what their drivers declare."""

from __future__ import annotations

from pathlib import Path

from bullpen.agents.contracts.driver import Capabilities
from bullpen.agents.drivers.registry import capabilities_of
from bullpen.agents.system.vendors.programs import PROGRAMS
from bullpen.doors.mcp.install.clients import CLIENTS

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"

COLUMNS = (
    "driver",
    "program",
    "observed on",
    "driven by",
    "connects by MCP",
    "mail during a turn",
    "asks before",
    "after a denial",
    "plan mode",
    "usage",
    "resume",
)

INTRODUCTION = """\
# Programs

This page is generated from what the drivers declare: `python docs/programs/generate_readme.py`.
`tests/programs` runs the driver contract with the real programs and checks each against what its
driver declares.

A program can take part in a team in two ways:

- **Driven.** Bullpen starts the program (`bullpen spawn NAME --driver DRIVER`). It gets turns, mail
  and permissions like every agent.
- **Connected.** You start the program, and it connects by MCP. It has the team's tools and fetches
  its own mail ([how to connect](../howto/connect-by-mcp.md)).

"""

MEANINGS = """\

- **connects by MCP**: whether `bullpen mcp install` knows the program's settings file. You can
  connect every program that starts MCP servers; for the others, add the entry yourself:
  `bullpen mcp --team TEAM --as NAME`. [Cursor](../howto/connect-by-mcp.md) can only be connected,
  not driven.
- **mail during a turn**: `yes`: mail reaches the model during the turn. `no`: it waits for the next
  turn. Either way, it is delivered once.
- **asks before**: which calls the program asks about. `changes`: edits, and commands that write or
  use the network. `all commands`: also commands that only read. `reads`: also its tools that read
  files. The policy answers, or you do where the
  policy says so. No rule can stop a call that the program does not ask about, so rules about such
  calls are refused at spawn.
- **after a denial**: `continues`: the model is told why in the same turn. `turn ends`: it is told
  at the start of the next turn.
- **plan mode**: nothing changes until a plan is approved; Bullpen enforces this.
- **usage**: the program reports what it used, so budgets include it.
- **resume**: a restarted agent keeps its conversation.
"""


def page() -> str:
    """The whole page."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *map(row, PROGRAMS)]
    table = [f"| {' | '.join(cells)} |" for cells in lines]
    return INTRODUCTION + "\n".join(table) + "\n" + MEANINGS


def row(driver: str) -> tuple[str, ...]:
    """One row of the table."""
    program = PROGRAMS[driver]
    return (
        f"`{driver}`",
        _linked(driver, program.title),
        program.observed,
        "its own files" if driver == "claude-code" else "ACP",
        _connects(driver),
        *_declared(capabilities_of(driver)),
    )


def _linked(driver: str, title: str) -> str:
    return f"[{title}]({driver}.md)" if (FOLDER / f"{driver}.md").exists() else title


def _connects(driver: str) -> str:
    if driver == "claude":
        # This driver is the ACP adapter; the program that people start is claude-code.
        return "as `claude-code`"
    client = "claude" if driver == "claude-code" else driver
    return f"`install {client}`" if client in CLIENTS else "by hand"


def _declared(can: Capabilities) -> tuple[str, ...]:
    runs = "changes, all commands" if can.asks_to_run else "changes"
    asks = (f"{runs}, reads" if can.asks_to_read else runs) if can.permissions else "nothing"
    return (
        _said(can.mid_turn),
        asks,
        "continues" if can.goes_on else "turn ends",
        _said(can.plan_mode),
        _said(can.usage),
        _said(can.resume),
    )


def _said(can: bool) -> str:
    return "yes" if can else "no"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
