"""Locks that make a process the only one to do something. They name their holder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.errors import Conflict
from bullpen.workspace.git.marks import write_errors
from bullpen.workspace.git.ref_names import component


@contextmanager
def hold(common: Path, target: str) -> Iterator[None]:
    """Be the only merge queue of a target, as long as the process lives.

    Raises:
        Conflict: another process is it.
        Unavailable: the lock cannot be created.
    """
    path = common / "bullpen" / f"+merge-{component(target)}.lock"
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with only_holder(
        path, lambda holder: f"{holder} is already the merge queue of {target!r} in {common}."
    ):
        yield


@contextmanager
def only_holder(path: Path, refusal: Callable[[str], str]) -> Iterator[None]:
    """Hold the lock of a file. It is released when the process ends, however that happens.

    `refusal` says what the process that holds it already does.

    Raises:
        Conflict: another process holds it.
        Unavailable: the lock cannot be created.
    """
    with write_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise Conflict(
                refusal(f"Process {holder}"), remedy="Let it work, or stop it first."
            ) from None
        # The holder's name is only information; on a full disk the lock alone counts.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
