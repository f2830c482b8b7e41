"""A queue in a process of its own that ends itself with kill -9 at a certain moment.

Moments are what Python tells of itself: a program is started, a file opened to be written, renamed
or removed. Arguments: the folder of the scenery, and how many moments it lives (0: all of them).
It prints how many there were.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.work.merge_checks import check_runner
from bullpen.runs.teamfile.backlog.boxes import box_of
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team
from bullpen.workspace.merge_queue.queue import Queue
from support.git.yard import OWNER, TEAM

_WRITES = os.O_WRONLY | os.O_RDWR
_moments = 0


def _count(most: int, folder: str) -> None:
    def hook(event: str, args: tuple[Any, ...]) -> None:
        global _moments
        if event == "open":
            name, _, flags = args
            writes = isinstance(flags, int) and bool(flags & _WRITES)
            if not writes or not isinstance(name, str) or not name.startswith(folder):
                return
        elif event not in {"subprocess.Popen", "os.rename", "os.remove", "os.link", "os.rmdir"}:
            return
        _moments += 1
        if _moments == most:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


async def _drain(folder: Path) -> None:
    home = folder / "home"
    team = Team(FileStore(home), TEAM)
    settings = await team.merges.settings()
    assert settings is not None
    run = check_runner(team, home=home, environ=os.environ)
    boxes = partial(box_of, settings.repository, settings.repository)
    queue = Queue(team, settings, run=run, folder=folder / "queue", owner=OWNER, boxes=boxes)
    while (stepped := await queue.step()) is not None:
        if stepped.held:
            sys.exit(f"held: {stepped.held}")


if __name__ == "__main__":
    _count(int(sys.argv[2]), sys.argv[1])
    anyio.run(_drain, Path(sys.argv[1]))
    print(_moments)
