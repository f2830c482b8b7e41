"""`bullpen policy`: what an agent may do, and what would happen to a call."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from bullpen.app.effective_rights import Effective, effective_of
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.permissions.policy_view import PolicyViews
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.errors import Invalid

ASKS = 6
"""The exit code for a call that needs approval; no other command uses it."""
_CODES = {"allow": 0, "deny": 2, "ask": ASKS}

Agent = Annotated[str, argument("The agent", "AGENT", complete=completion.member_names)]


@examples("bullpen policy show alice")
def show(session: Session, agent: Agent) -> None:
    """Show an agent's policy and where it comes from."""
    PolicyViews(session.page).effective(_look(session, agent))


@examples(
    "bullpen policy check alice Bash 'git push origin main'",
    "bullpen policy check alice Edit src/main.py",
    """bullpen policy check alice Grep --input '{"pattern": "x", "path": "/etc"}'""",
)
def check(
    session: Session,
    agent: Agent,
    tool: Annotated[str, argument("Name of the tool", "TOOL")],
    value: Annotated[str | None, argument("The command, path or pattern", "VALUE")] = None,
    *,
    given: Annotated[
        str | None, option("The whole input instead; - reads standard input", "JSON", "--input")
    ] = None,
) -> None:
    """Show what would happen to a tool call, and why.

    Runs neither the call nor any hook.

    Exit codes: 0 if the call is allowed, 2 if it is denied, 6 if it needs approval.
    """
    if (value is None) == (given is None):
        raise typer.BadParameter("pass a VALUE or --input.")
    whole = None if given is None else _object(text_or_input(given))
    found = _look(session, agent)
    verdict = found.verdict(tool, whole if whole is not None else value or "")
    PolicyViews(session.page).verdict(found, verdict)
    session.page.flush()
    raise typer.Exit(_CODES[verdict.outcome])


def _look(session: Session, agent: str) -> Effective:
    return with_app(session, lambda app, team: effective_of(app, team, agent))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Invalid(f"The input is not JSON: {error}.", remedy="Pass a JSON object.") from None
    if not isinstance(value, dict):
        raise Invalid("The input of a tool must be a JSON object.", remedy="Pass a JSON object.")
    return value
