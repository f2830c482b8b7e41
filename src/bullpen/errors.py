"""The errors that Bullpen raises on purpose. All have one base class and say what to do next.

`message` says what failed and why. `remedy` says what to do next. Each door maps these classes to
exit codes, tool errors or status codes in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BullpenError(Exception):
    """Base class of all errors that Bullpen raises on purpose."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        if not self.remedy:
            return self.message
        # What others said in the message may end without a full stop.
        end = "" if self.message.endswith((".", "!", "?", ":", "…")) else "."
        return f"{self.message}{end} {self.remedy}"


class NotFound(BullpenError):
    """The team, member, task, message or request does not exist."""


class Conflict(BullpenError):
    """The thing already exists, or it changed after it was read."""


class Refused(BullpenError):
    """A rule refused the operation. `reason` is a stable word that programs can branch on."""

    def __init__(self, message: str, *, reason: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


class Invalid(Refused):
    """The input is invalid: a bad name, a bad id or a malformed field."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message, reason="invalid", remedy=remedy)


class Unavailable(BullpenError):
    """A store or program could not be reached. It never means that something does not exist."""


class StartFailed(Unavailable):
    """A program was started but did not become ready. `screen` is the last output it showed."""

    def __init__(self, message: str, *, screen: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.screen = screen


class Unreadable(Unavailable):
    """A file exists but its content is not valid. `path` names the file."""

    def __init__(self, path: str, why: str, *, remedy: str = "Run: bullpen doctor --fix") -> None:
        super().__init__(f"Cannot read {path}: {why}.", remedy=remedy)
        self.path = path
        self.why = why


@contextmanager
def one_error() -> Iterator[None]:
    """Raise the first error of several tasks alone: callers do not expect error groups."""
    try:
        yield
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
