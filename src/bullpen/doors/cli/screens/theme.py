"""The colors of the team screen."""

from __future__ import annotations

import os

from bullpen.by_name import load
from bullpen.doors.cli.session import Session
from bullpen.errors import Invalid

VARIABLE = "TEXTUAL_THEME"
"""Textual reads it when it is imported."""


def use_theme(session: Session) -> None:
    """Let the screen that is opened next have the colors that are configured. Raises Invalid."""
    theme = session.setting("theme")
    if theme is None:
        return
    os.environ[VARIABLE] = theme
    known = load("textual.theme:BUILTIN_THEMES")
    if theme not in known:
        close = load("difflib:get_close_matches")(theme, known, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise Invalid(
            f"There is no theme {theme!r}.{guess}",
            remedy=f"Run bullpen config set theme NAME with one of these: {', '.join(known)}.",
        )
