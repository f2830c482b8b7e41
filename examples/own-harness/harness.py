"""An agent of your own, on the files of a team alone: docs/protocol.md is all that it knows."""

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOME, TEAM, ME = Path(os.environ["BULLPEN_HOME"]), sys.argv[1], sys.argv[2]
TASKS, INBOXES = HOME / "tasks" / TEAM, HOME / "teams" / TEAM / "inboxes"


@contextmanager
def changed(path: Path, begin: str = "") -> Iterator[Any]:
    """A JSON file that is read, changed and written under its lock."""
    lock, deadline = Path(f"{path}.lock"), time.monotonic() + 10
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                sys.exit(f"{lock} is held by another program")
            time.sleep(0.05)
    try:
        value = json.loads(path.read_bytes() if path.exists() else begin)
        yield value
        Path(f"{path}.tmp.{os.getpid()}").write_bytes(json.dumps(value, indent=2).encode())
        os.replace(f"{path}.tmp.{os.getpid()}", path)
    finally:
        lock.rmdir()


def ready() -> list[Path]:
    """The tasks that somebody could begin now."""
    tasks = {path: json.loads(path.read_bytes()) for path in sorted(TASKS.glob("[0-9]*.json"))}
    left = {task["id"] for task in tasks.values() if task["status"] != "completed"}
    return [
        path
        for path, task in tasks.items()
        if task["status"] == "pending" and "owner" not in task and not left & {*task["blockedBy"]}
    ]


while found := ready():
    with changed(found[0]) as task:
        if mine := task["status"] == "pending" and "owner" not in task:
            task.update(status="in_progress", owner=ME)
    if mine:
        # Here you would think, and work.
        Path(f"{task['id']}.txt").write_bytes(f"{task['subject']}: yes\n".encode())
        with changed(found[0]) as task:
            task["status"] = "completed"
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        with changed(INBOXES / "team-lead.json", begin="[]") as inbox:
            said = {"from": ME, "text": f"Done: {task['subject']}", "timestamp": now}
            inbox.append({**said, "msgV": 1, "msg_id": uuid.uuid4().hex, "read": False})
