"""Being the only queue of a target: a lock in the repository, whose holder is named in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Conflict
from bullpen.workspace.marks import cannot_write
from bullpen.workspace.names import component


@dataclass(frozen=True, slots=True)
class Held:
    """The lock, held."""

    descriptor: int


@contextmanager
def hold(common: Path, target: str) -> Iterator[Held]:
    """Hold the lock of a target. It ends with the process, however that ends.

    Raises:
        Conflict: another process holds it.
        Unavailable: there can be no lock there.
    """
    path = common / "bullpen" / f"+merge-{component(target)}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise Conflict(
                f"Process {holder} is already the merge queue of {target!r} in {common}.",
                remedy="Let it work, or stop it first.",
            ) from None
        # Who it is helps others to understand; on a full disk it is the lock alone that counts.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield Held(descriptor)
    finally:
        os.close(descriptor)
