"""What other programs do to a team's files, and the processes that contend for them."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from bullpen.protocol.changes import Change, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import View
from bullpen.store.events.fold import fold
from bullpen.store.files.locks import OUR_MODE
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import message, task

TEAM = "alpha"
INBOX = "ann"


class Files:
    """A team's files in the hands of a program that knows no locks."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "teams" / TEAM
        self.tasks = home / "tasks" / TEAM
        self.config = self.root / "config.json"

    def task(self, task_id: str) -> Path:
        return self.tasks / f"{task_id}.json"

    def inbox(self, agent: str = INBOX) -> Path:
        return self.root / "inboxes" / f"{agent}.json"

    def read(self, path: Path) -> Any:
        return json.loads(path.read_bytes())

    def write(self, path: Path, record: Any) -> None:
        """Truncate the file and write it in place."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=2, ensure_ascii=False), encoding="utf-8")

    def edit(self, path: Path, change: Callable[[Any], Any]) -> None:
        """Read the file, change what it holds and write it in place."""
        record = self.read(path)
        change(record)
        self.write(path, record)

    def content(self) -> dict[str, bytes]:
        """What all programs may see of the team, but for inboxes with nothing in them."""
        paths = [self.config, *self.inbox().parent.glob("*.json"), *self.tasks.glob("*.json")]
        found = {path.name: path.read_bytes() for path in paths}
        return {name: data for name, data in found.items() if data != b"[]"}

    def locks(self) -> list[Path]:
        """Everything that blocks somebody."""
        folders = (self.root, self.root / "inboxes", self.tasks)
        names = [folder / name for folder in folders for name in os.listdir(folder)]
        return [path for path in names if path.suffix == ".lock"]

    def foreign_locks(self) -> list[Path]:
        """The locks of other programs. Ours may come and go meanwhile."""
        found = []
        for lock in self.locks():
            with suppress(FileNotFoundError):
                if stat.S_IMODE(lock.stat().st_mode) != OUR_MODE:
                    found.append(lock)
        return found


def make_older(path: Path, seconds: float) -> None:
    """Let a file look as if nobody had touched it for so long."""
    then = path.lstat().st_mtime - seconds
    os.utime(path, (then, then))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Contender:
    """One process of ours: changes at random until it is told to stop, or killed."""

    home: Path
    run: str
    seed: int
    tasks: tuple[str, ...]

    @property
    def acks(self) -> Path:
        return self.home / f"{self.run}.acks"

    @property
    def stop(self) -> Path:
        return self.home / "ours.stop"

    def __call__(self) -> None:
        anyio.run(self._contend)

    async def _contend(self) -> None:
        store = FileStore(self.home)
        dice = random.Random(self.seed)
        diary = os.open(self.acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        kinds = [self._send, self._send, self._create, self._update, self._mark]
        number = 0
        while not self.stop.exists():
            number += 1
            label, began = f"{self.run}-{number}", now_ms()
            facts = await dice.choice(kinds)(store, label, dice)
            line = json.dumps({"label": label, "began": began, "ended": now_ms(), **facts})
            os.write(diary, line.encode() + b"\n")

    async def _send(self, store: FileStore, label: str, dice: random.Random) -> dict[str, Any]:
        await store.append(TEAM, INBOX, message(label, text=label), actor=LEAD, fresh=True)
        return {"kind": "send"}

    async def _create(self, store: FileStore, label: str, dice: random.Random) -> dict[str, Any]:
        def decide(view: View) -> list[Change]:
            return [PutTask(task(str(view.next_task_id), subject=label))]

        done = await store.commit(TEAM, decide, actor=LEAD, op="create")
        (change,) = done.changes
        assert isinstance(change, PutTask)
        return {"kind": "create", "id": change.task.id}

    async def _update(self, store: FileStore, label: str, dice: random.Random) -> dict[str, Any]:
        task_id = dice.choice(self.tasks)

        def decide(view: View) -> list[Change]:
            found = view.task(task_id)
            assert found is not None
            old = found.metadata or {}
            return [PutTask(found.evolve(metadata={**old, "log": [*old["log"], label]}))]

        await store.commit(TEAM, decide, actor=LEAD, op="update")
        return {"kind": "update", "id": task_id}

    async def _mark(self, store: FileStore, label: str, dice: random.Random) -> dict[str, Any]:
        box = await store.mailbox(TEAM, INBOX)
        ids = [entry.id for entry in box.unread[:3]]
        await store.acknowledge(TEAM, INBOX, ids, "seen", actor=INBOX)
        return {"kind": "mark", "ids": ids}


class NodePeer:
    """The other program, one process at a time."""

    def __init__(self, home: Path, node_modules: Path, *, tasks: tuple[str, ...]) -> None:
        self._home, self._tasks = home, tasks
        self._env = {**os.environ, "NODE_PATH": str(node_modules)}
        self.stop = home / "node.stop"

    def start(
        self,
        run: str,
        *,
        seed: int,
        changes: int,
        only: str | None = None,
        die_at: tuple[str, int] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start it; `die_at` names the point, and the change, at which it kills itself."""
        options = {
            "home": str(self._home),
            "team": TEAM,
            "inbox": INBOX,
            "tasks": self._tasks,
            "acks": str(self._home / f"{run}.acks"),
            "run": run,
            "seed": seed,
            "changes": changes,
            "stop": str(self.stop),
            "only": only,
            "dieAt": die_at and {"point": die_at[0], "change": die_at[1]},
        }
        command = ["node", str(Path(__file__).with_name("peer.js")), json.dumps(options)]
        return subprocess.Popen(command, env=self._env)


async def assert_the_log_tells_all(store: FileStore) -> None:
    """The log, replayed, is the team as it is, what other programs did included.

    It has their mail in the order in which it was noticed, so the order is not compared.
    """
    replayed = fold(await store.events(TEAM))
    live = await store.read(TEAM)
    assert replayed.team == live.team.header
    assert replayed.members == {row.name: row.raw for row in live.team.roster}
    assert replayed.tasks == {key: each.raw for key, each in live.tasks.items()}
    for agent in {*replayed.mail, *replayed.members}:
        box = await store.mailbox(TEAM, agent, history=True)
        states = replayed.mail.get(agent, {})
        assert set(states) == {entry.id for entry in box.entries}
        hot = {entry.id: entry.state for entry in (await store.mailbox(TEAM, agent)).entries}
        assert {key: state for key, state in states.items() if state != "archived"} == hot


def acknowledged(home: Path, prefix: str) -> list[dict[str, Any]]:
    """Every whole line that the processes of one side wrote after their changes."""
    return [
        json.loads(line)
        for path in sorted(home.glob(f"{prefix}*.acks"))
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]
