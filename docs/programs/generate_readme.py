"""Writes `README.md`, the table of programs, from what their drivers declare."""

from __future__ import annotations

from pathlib import Path

from bullpen.agents.drivers.base import Capabilities
from bullpen.agents.drivers.choice import capabilities_of
from bullpen.agents.drivers.programs import PROGRAMS
from bullpen.mcp.clients import CLIENTS

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"

COLUMNS = (
    "driver",
    "program",
    "observed on",
    "driven by",
    "connects by MCP",
    "mail in mid-turn",
    "asks before",
    "after a refusal",
    "plan mode",
    "usage",
    "resume",
)

INTRODUCTION = """\
# Programs

Made from what the drivers declare: `python docs/programs/generate_readme.py`. `tests/programs` runs
the contract of drivers with the real programs and holds each to what it declares.

A program takes part in a team in one of two ways. Bullpen starts and drives it
(`bullpen spawn NAME --driver DRIVER`): it gets turns, mail and permissions as every agent does. Or
you start it, and it connects by MCP: it has the team's tools, and asks for its mail itself
([how](../howto/connect-by-mcp.md)).

"""

MEANINGS = """\

- **connects by MCP**: whether `bullpen mcp install` knows its file. Every program that starts MCP
  servers can be connected; of the others you write the entry yourself: `bullpen mcp --team TEAM
  --as NAME`. [Cursor](../howto/connect-by-mcp.md) can only be connected, not driven.
- **mail in mid-turn**: it reaches the model during the turn; else with the next turn. Either way
  once.
- **asks before**: what waits for the policy, and for you where that says so. What is not asked for
  no rule can stop, so rules about it are refused at spawn.
- **after a refusal**: `goes on`: the model is told why in the same turn. `turn ends`: it is told at
  the start of the next one.
- **plan mode**: until a plan is approved nothing is changed; Bullpen enforces it.
- **usage**: it says what it used, so budgets count it. **resume**: a restarted agent keeps its
  conversation.
"""


def page() -> str:
    """The whole page."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *map(row, PROGRAMS)]
    table = [f"| {' | '.join(cells)} |" for cells in lines]
    return INTRODUCTION + "\n".join(table) + "\n" + MEANINGS


def row(driver: str) -> tuple[str, ...]:
    """What the table says of one program."""
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
        # An adapter for ACP; the program of that name, which people start, is claude-code.
        return "as `claude-code`"
    client = "claude" if driver == "claude-code" else driver
    return f"`install {client}`" if client in CLIENTS else "by hand"


def _declared(can: Capabilities) -> tuple[str, ...]:
    asks = ("changes, reads" if can.asks_to_read else "changes") if can.permissions else "nothing"
    return (
        _said(can.mid_turn),
        asks,
        "goes on" if can.goes_on else "turn ends",
        _said(can.plan_mode),
        _said(can.usage),
        _said(can.resume),
    )


def _said(can: bool) -> str:
    return "yes" if can else "no"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
