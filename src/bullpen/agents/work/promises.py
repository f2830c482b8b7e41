"""Check what a task promised, in the tree that is about to be handed in.

Commands run as the checks of the task do. Only the promises of the task itself are checked here:
what another member wrote runs in the merge queue, with no more rights than that member's checks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from anyio import to_thread

from bullpen.agents.system.run_command import Workplace
from bullpen.agents.work.checks import look
from bullpen.protocol.record.promise import Promise
from bullpen.protocol.task import Check, Task
from bullpen.team.promises.rules import promises_of
from bullpen.team.promises.signatures import SOURCE_CHARS_MAX, problem


async def broken_promises(
    place: Workplace,
    task: Task,
    *,
    redact: Callable[[str], str],
    tell: Callable[[Check], object],
) -> dict[str, str]:
    """Return what is wrong with the promises of a task, by id. `tell` is as in `Proving`.

    Raises:
        Unreadable: the promises are damaged.
    """
    found: dict[str, str] = {}
    for promise in promises_of(task):
        if promise.withdrawn is not None or promise.kind == "path":
            continue
        check = Check.new(name=f"promise {promise.id}", kind="command", run=promise.run)
        tell(check)
        if promise.kind == "signature":
            missing = await to_thread.run_sync(_signature, place, promise)
            check = check.evolve(passed=missing is None, detail=missing and redact(missing))
        else:
            check = await look(place, task, check, report=None, redact=redact)
        tell(check)
        if check.passed is not True:
            found[promise.id] = f"{promise.text}\n{check.detail or ''}".strip()
    return found


def _signature(place: Workplace, promise: Promise) -> str | None:
    """Why the files do not have a promised signature; None if they have."""
    tree = place.spec.own_tree
    path = promise.path or ""
    try:
        source = _source(place.spec.cwd if tree is None else tree.path, path)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return problem(path, promise.signature or "", source)


def _source(root: str, path: str) -> str | None:
    """The text of a file; None if there is none. A link could lead anywhere, so it is no file."""
    top = os.path.realpath(root)
    name = os.path.join(top, path)
    if os.path.realpath(name) != os.path.normpath(name):
        return None
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        return opened.read(4 * SOURCE_CHARS_MAX + 4).decode("utf-8", "replace")
