"""How commands declare options and arguments, and the panels that their help shows them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

PROGRAM = "Agent program"
PLACE = "Where it works"
PERMISSIONS = "Permissions"
LIMITS = "Limits"

Complete = Callable[[typer.Context], list[tuple[str, str]]]
"""Returns the words that a shell offers, each with a note."""


def option(
    text: str,
    metavar: str | None = None,
    *names: str,
    panel: str | None = None,
    complete: Complete | None = None,
    **limits: Any,
) -> Any:
    """An option that takes a value, or that can be turned on and off."""
    return typer.Option(
        *names,
        metavar=metavar,
        help=text,
        rich_help_panel=panel,
        autocompletion=complete,
        **limits,
    )


def flag(text: str, *names: str, panel: str | None = None) -> Any:
    """An option without a value."""
    return typer.Option(*names, help=text, rich_help_panel=panel)


def argument(text: str, metavar: str, *, complete: Complete | None = None) -> Any:
    """A word of the command line that is not an option."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete)
