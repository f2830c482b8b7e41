"""Everything a task says, as text. Pure."""

from __future__ import annotations

from collections.abc import Callable

from bullpen.doors.tui.line_view import Blocks
from bullpen.view.cards import TaskCard
from bullpen.view.task_state import state_word

_VERDICTS = {True: ("passed", "good"), False: ("failed", "bad"), None: ("not run yet", "muted")}


def task_text(card: TaskCard, name: Callable[[str], str]) -> tuple[str, Blocks]:
    """The title and the text of a task."""
    owner = f", {name(card.owner)}" if card.owner else ""
    blocks = [(card.subject, "strong"), (f"{state_word(card.state).capitalize()}{owner}", "")]
    if card.after:
        blocks.append((f"Depends on: {ids(card.after)}", "muted"))
    if card.waits_for:
        blocks.append((f"Waits for: {ids(card.waits_for)}", ""))
    for check, passed in card.checks:
        word, style = _VERDICTS[passed]
        blocks.append((f"Check {check}: {word}", style))
    blocks += [(line, "") for line in card.promises]
    if card.note:
        blocks.append((card.note, "attention"))
    if card.commit:
        blocks.append((f"Commit {card.commit}", "muted"))
    for title, text in (("", card.description), ("Report:", card.report)):
        if text:
            blocks += [(title, "strong"), (text, "")]
    return f"Task #{card.id}", blocks


def ids(tasks: tuple[str, ...]) -> str:
    return " ".join(f"#{each}" for each in tasks)
