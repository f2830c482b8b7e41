"""All keys on one page."""

from __future__ import annotations

from bullpen.tui.dialogs import Letter
from bullpen.tui.ink import Ink

KEYS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Pages",
        (
            ("1", "Members: who is there and what each does"),
            ("2", "Tasks: the board; g shows the graph, and the board again"),
            ("3", "Messages: who wrote what to whom; n shows notices too"),
            ("4", "Waiting: what waits for an answer"),
            ("5", "Log: what happened"),
            ("arrows", "move; also j, k, pgup, pgdn, home, end"),
            ("tab", "go to the next part of a page"),
            ("enter", "more about a member, a task, a message"),
            ("esc", "back; without a filter again"),
        ),
    ),
    (
        "Find",
        (
            ("/", "show only what has these words"),
            ("", "among messages also from:NAME and to:NAME"),
            ("n", "messages: notices on or off"),
        ),
    ),
    (
        "Do",
        (
            ("m", "write to the chosen member; M to everybody"),
            ("t", "give the chosen task to a member, or the member a task"),
            ("s", "stop the chosen agent; it asks first"),
            ("o", "show an agent's own terminal; leave it with ctrl+b d"),
        ),
    ),
    (
        "Answer, on page 4",
        (
            ("a", "approve it once, exactly as shown"),
            ("A", "approve, and allow its like from now on"),
            ("e", "change the input, then approve it"),
            ("d", "deny it, with a reason"),
            ("r", "a plan as it is written, and as Markdown again"),
        ),
    ),
    (
        "The rest",
        (
            ("ctrl+t", "the next theme; ctrl+p lists them all"),
            ("w", "another team"),
            ("?", "this page"),
            ("q", "quit; the team goes on"),
        ),
    ),
)


def help_screen(ink: Ink) -> Letter:
    """The page."""
    blocks: list[tuple[str, str]] = []
    for title, rows in KEYS:
        blocks.append((title, "strong"))
        blocks += [(f"  {keys:<8} {about}", "") for keys, about in rows]
        blocks.append(("", ""))
    return Letter(ink, "Keys", blocks)
