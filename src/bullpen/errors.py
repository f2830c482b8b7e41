"""Every error Bullpen raises on purpose: one base, one remedy each.

A message says what happened and to what; `remedy` says what to do next. Doors map these classes
to exit codes, tool errors or status codes in one place each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BullpenError(Exception):
    """Base of all errors raised on purpose."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()


class NotFound(BullpenError):
    """No such team, member, task, message or request."""


class Conflict(BullpenError):
    """Somebody else was first: it exists already, or it changed since it was read."""


class Refused(BullpenError):
    """A rule said no. `reason` is a stable word that programs may branch on."""

    def __init__(self, message: str, *, reason: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


class Invalid(Refused):
    """The input is not acceptable: a bad name, a bad id, a field of the wrong form."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message, reason="invalid", remedy=remedy)


class Unavailable(BullpenError):
    """Something could not be reached or had: a store, a program. Never "nothing there"."""


class StartFailed(Unavailable):
    """A program was started and did not get ready. `screen` is the last that it showed."""

    def __init__(self, message: str, *, screen: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.screen = screen


class Unreadable(Unavailable):
    """A file is there but is not what it should be. `path` names it."""

    def __init__(self, path: str, why: str, *, remedy: str = "Run: bullpen doctor --fix") -> None:
        super().__init__(f"Cannot read {path}: {why}.", remedy=remedy)
        self.path = path
        self.why = why


@contextmanager
def one_error() -> Iterator[None]:
    """Raise the first error of several tasks as itself: callers know our errors, not groups."""
    try:
        yield
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
