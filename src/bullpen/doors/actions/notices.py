"""Notify the person at this machine: by the terminal's bell, or on the desktop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from bullpen.protocol.request import Request
from bullpen.view import sentences
from bullpen.view.text import one_line

BELL = b"\a"
_TEXT_MAX = 200
_GONE_S = 2.0

_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
"""For osascript, which gets the texts as words of its own: they are never part of the script."""


class Child(Protocol):
    """A program that was started to show something."""

    def poll(self) -> int | None:
        """How it ended; None as long as it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""


class ScreenNotifier:
    """Shows notices in the ways that a person has chosen."""

    def __init__(
        self,
        ways: Sequence[str],
        *,
        ring: Callable[[], None],
        start: Callable[[Sequence[str]], Child],
        words: Callable[[str, str], list[str] | None],
    ) -> None:
        """`start` starts a program; `words` is the command that shows a title and a text."""
        self._ways = [way for way in ways if way != "off"]
        self._ring, self._start, self._words = ring, start, words
        self._children: list[Child] = []
        self._known: set[tuple[str, str]] = set()

    @property
    def is_on(self) -> bool:
        """Whether there is a way to notify."""
        return bool(self._ways)

    @property
    def problem(self) -> str | None:
        """Why one of the ways cannot be used here."""
        if "desktop" in self._ways and self._words("", "") is None:
            return "notify = desktop needs the program notify-send, which is not installed"
        return None

    def waiting(self, requests: Iterable[tuple[str, Request]]) -> None:
        """Show that requests wait for a person, given with their teams; each is shown once."""
        there = {(team, each.id): each for team, each in requests if sentences.is_for_people(each)}
        fresh = [(key, each) for key, each in there.items() if key not in self._known]
        self._known = set(there)
        if fresh:
            (team, _), first = fresh[0]
            more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
            self.show(f"Bullpen: {team} needs you", f"{sentences.waits(first)}{more}")

    def show(self, title: str, text: str) -> None:
        """Show a notice. One that cannot be shown is lost: the screen says it too."""
        self._children = [child for child in self._children if child.poll() is None]
        if "bell" in self._ways:
            self._ring()
        words = self._words(title, text) if "desktop" in self._ways else None
        if words is not None:
            with suppress(OSError):
                self._children.append(self._start(words))

    def close(self) -> None:
        """Give what was shown last a moment to appear."""
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GONE_S)


def notifier(ways: Sequence[str]) -> ScreenNotifier:
    """Notifies the person at the terminal of this process."""
    return ScreenNotifier(ways, ring=_ring, start=_started, words=desktop_words)


def desktop_words(
    title: str,
    text: str,
    platform: str = sys.platform,
    which: Callable[[str], str | None] = shutil.which,
) -> list[str] | None:
    """The command that shows a notice on this desktop; None if there is none.

    Agents write parts of the text. It is one word of the command, without control characters, and
    without the markup that some desktops draw.
    """
    title, text = (one_line(part)[:_TEXT_MAX] for part in (title, text))
    if platform == "darwin":
        program = which("osascript")
        lines = [word for line in _SCRIPT for word in ("-e", line)]
        return None if program is None else [program, *lines, title, text]
    program = which("notify-send")
    if program is None:
        return None
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return [program, "--app-name=Bullpen", "--", title, plain]


def _ring() -> None:
    """Ring the bell of the terminal. A byte of its own: a screen may be written meanwhile."""
    with suppress(OSError, ValueError, AttributeError):
        if os.isatty(sys.__stderr__.fileno()):  # type: ignore[union-attr]
            os.write(sys.__stderr__.fileno(), BELL)  # type: ignore[union-attr]


def _started(words: Sequence[str]) -> Child:
    return subprocess.Popen(  # noqa: S603
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
