"""Promises: commitments of a member that others build on, each with a check.

A promise is a fact of the task it was made for, in `metadata.bullpen.promises`. Who relies on one
is a fact of the task that builds on it, in `metadata.bullpen.relies`.
"""

from __future__ import annotations

from typing import Literal

from bullpen.protocol.record import Wire, field

PromiseKind = Literal["signature", "path", "command"]
"""What proves a promise: the signature of a function in a file, that only the promising task edits
some paths, or a command that succeeds.
"""

PROMISES_MAX = 20
"""The most promises a task can make that are not withdrawn."""

RELIES_MAX = 50
"""The most promises a task can rely on."""


class Promise(Wire):
    """A commitment, and what proves it."""

    # The task that it was made for, a dot, and its number: 3.1.
    id: str = field(min_length=1)
    by: str
    text: str
    kind: PromiseKind
    at_ms: int
    # The file with the signature, the paths that only this task edits, or what a command is about.
    path: str | None = None
    signature: str | None = None
    run: str | None = None
    # Counts its changes; who relied on an earlier one must look again.
    version: int = field(default=1, ge=1)
    # Why it no longer holds, if it was withdrawn.
    withdrawn: str | None = None
    # What was found when it was last handed in broken.
    broken: str | None = None


class Reliance(Wire):
    """That a task builds on a promise, as it was when the task's owner said so."""

    promise: str
    version: int = field(ge=1)
    by: str
    at_ms: int
