"""A store that keeps teams in files, and lists in one file who changed what and when."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from anyio import to_thread

from bullpen.errors import Invalid
from bullpen.store.contract import Committed, Decide
from bullpen.store.files.store import FileStore

LIST = "audit.jsonl"


class AuditedStore(FileStore):
    """The file store, with a line in `audit.jsonl` for every change.

    The line is written after the commit: the log of the team is the record, this is a copy for
    other programs.
    """

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        done = await super().commit(team, decide, actor=actor, op=op)
        row = {"time": time.time(), "team": team, "seq": done.seq, "by": actor, "op": op}
        line = f"{json.dumps(row)}\n".encode()
        await to_thread.run_sync(_append, Path(self.home) / LIST, line)
        return done


def _append(path: Path, line: bytes) -> None:
    # One write at the end of the file: lines of several processes do not mix.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def open_audited(url: str) -> AuditedStore:
    """Open the store of a URL such as `audited:/srv/teams`. Nothing is read yet."""
    folder = url.removeprefix("audited:")
    if not os.path.isabs(folder):
        # Agents open the same URL in other directories.
        raise Invalid(f"{url!r} names no absolute path.", remedy="Write audited:/absolute/path.")
    return AuditedStore(Path(folder))
