"""`bullpen docs`: the documentation, or the part of it about a command."""

from __future__ import annotations

import os
import sys
import webbrowser
from importlib.metadata import metadata
from typing import Annotated

from bullpen.by_name import load
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.commands import COMMANDS, HIDDEN
from bullpen.doors.cli.options.option import argument
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.session import Session
from bullpen.errors import NotFound

_LABEL = "Documentation"


@examples("bullpen docs", "bullpen docs spawn", "bullpen docs task add")
def docs(
    session: Session,
    command: Annotated[
        list[str] | None, argument("The command that you want to read about", "[COMMAND]")
    ] = None,
) -> None:
    """Open the documentation, or the help of a command.

    Prints the address where there is no terminal or no browser.
    """
    address = address_of(" ".join(command or ()).removeprefix("bullpen").strip())
    opened = not session.json and is_terminal(sys.stdout) and _has_browser()
    opened = opened and webbrowser.open(address)
    session.page.result("docs/1", {"url": address, "opened": opened}, address)


def address_of(command: str) -> str:
    """The address of the documentation, or of the section about a command. Raises NotFound."""
    site = site_of_documentation()
    if not command:
        return f"{site}/"
    if command not in COMMANDS or command.partition(" ")[0] in HIDDEN:
        close = load("difflib:get_close_matches")(command, COMMANDS, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise NotFound(
            f"There is no command {command!r}.{guess}", remedy="List them: bullpen --help --all"
        )
    return f"{site}/reference/cli.html#bullpen-{command.replace(' ', '-')}"


def site_of_documentation() -> str:
    """The address of the documentation of this version."""
    installed = metadata("bullpen")
    labels = dict(each.split(", ", 1) for each in installed.get_all("Project-URL") or [])
    return f"{labels[_LABEL].rstrip('/')}/{edition_of(installed['Version'])}"


def edition_of(version: str) -> str:
    """The folder of the site with the pages of a version: see .github/publish_site.sh."""
    return "dev" if "dev" in version else ".".join(version.split(".")[:2])


def _has_browser() -> bool:
    """Whether a browser can show something: one of the text would take over the terminal."""
    if sys.platform == "darwin" or os.environ.get("BROWSER"):
        return True
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
