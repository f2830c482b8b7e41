"""Bring a team up, and die with -9 after N commits: `up_then_die.py HOME FILE CWD N`."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import anyio

from bullpen.app.settings import Settings
from bullpen.protocol.names import LEAD
from bullpen.runs.up import bring_up
from bullpen.store.files.store import FileStore


def die_after(commits: int) -> None:
    """Let this process be killed right after it has made so many changes of any team."""
    made = 0
    commit, create = FileStore.commit, FileStore.create

    def count() -> None:
        nonlocal made
        made += 1
        if made == commits:
            os.kill(os.getpid(), signal.SIGKILL)

    async def counted_commit(self: FileStore, *args: object, **kwargs: object) -> object:
        found = await commit(self, *args, **kwargs)  # type: ignore[arg-type]
        count()
        return found

    async def counted_create(self: FileStore, *args: object, **kwargs: object) -> None:
        await create(self, *args, **kwargs)  # type: ignore[arg-type]
        count()

    FileStore.commit = counted_commit  # type: ignore[assignment, method-assign]
    FileStore.create = counted_create  # type: ignore[method-assign]


def main(home: str, file: str, cwd: str, commits: str) -> None:
    die_after(int(commits))
    settings = Settings(home=Path(home), team=None, agent=LEAD)
    anyio.run(partial(bring_up, file, cwd=cwd, attended=False, timeout_s=60, settings=settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
