"""`bullpen policy`: what an agent may do, and what would happen to a call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bullpen.cli import complete
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session, text_or_input
from bullpen.errors import Invalid

if TYPE_CHECKING:
    from bullpen.agents.policy.effective import Effective

noun = Noun("See what agents may do, and why.")

ASKS = 6
"""The exit code of a check of a call that has to be asked for; no other command uses it."""
_CODES = {"allow": 0, "deny": 2, "ask": ASKS}

Agent = Annotated[
    str, typer.Argument(metavar="AGENT", help="The agent.", autocompletion=complete.member_names)
]


@command(noun.commands, "show", examples=("bullpen policy show alice",))
def show(session: Session, agent: Agent) -> None:
    """Show all that decides what an agent may do, and where it comes from."""
    session.show_policy.effective(_look(session, agent))


@command(
    noun.commands,
    "check",
    examples=(
        "bullpen policy check alice Bash 'git push origin main'",
        "bullpen policy check alice Edit src/main.py",
        """bullpen policy check alice Grep --input '{"pattern": "x", "path": "/etc"}'""",
    ),
)
def check(
    session: Session,
    agent: Agent,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool that it would use.")],
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE", help="The command, path or pattern it would use.", show_default=False
        ),
    ] = None,
    *,
    given: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="JSON", help="The whole input instead; - reads it from input."
        ),
    ] = None,
) -> None:
    """Show what would happen to a tool call of an agent, and why.

    Nothing is done, and no hook is run. Exits with 0 if it is
    allowed, 2 if it is denied, 6 if somebody would be asked.
    """
    if (value is None) == (given is None):
        raise typer.BadParameter("say what it would be used on: a VALUE, or --input.")
    whole = None if given is None else _object(text_or_input(given))
    found = _look(session, agent)
    verdict = found.verdict(tool, whole if whole is not None else value or "")
    session.show_policy.verdict(found, verdict)
    session.page.flush()
    raise typer.Exit(_CODES[verdict.outcome])


def _look(session: Session, agent: str) -> Effective:
    return session.with_office(lambda office, team: office.effective(team, agent))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Invalid(f"The input is no JSON: {error}.", remedy="Check it.") from None
    if not isinstance(value, dict):
        raise Invalid("The input of a tool is a JSON object.", remedy="Check it.")
    return value
