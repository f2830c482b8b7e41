"""Homes with mirrors in them, and a program that knows only the files there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, cast

from bullpen.fleet.mirror.mirror import TeamMirror
from bullpen.fleet.mirror.residents import Residents
from bullpen.protocol.changes import Deliver
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team
from bullpen.testing.sample_records import config

TEAM = "alpha"
AGENT = {
    "spec": {"driver": "scripted", "backend": "subprocess", "cwd": "/"},
    "nonce": "n",
    "sinceMs": 1,
}
"""What the row of an agent of ours has."""


class Program:
    """Another program at work in a home: it reads and writes files as Claude Code does."""

    def __init__(self, home: Path, team: str = TEAM) -> None:
        self.inboxes = home / "teams" / team / "inboxes"
        self.tasks = home / "tasks" / team
        self.config = home / "teams" / team / "config.json"

    def send(self, sender: str, to: str, text: str, **fields: Any) -> None:
        """Append a message, without an id unless one is given."""
        path = self._inbox(to)
        row = {"from": sender, "text": text, "timestamp": "2026-01-01T00:00:00.000Z"}
        with locked(path):
            self._replace(path, [*read(path), {**row, **fields, "read": False}])

    def drain(self, name: str) -> list[str]:
        """Take all messages out of an inbox; their texts."""
        path = self._inbox(name)
        with locked(path):
            rows = read(path)
            self._replace(path, [])
        return [row["text"] for row in rows]

    def mark_read(self, name: str) -> None:
        """Mark all messages of an inbox, as older versions do."""
        path = self._inbox(name)
        with locked(path):
            self._replace(path, [{**row, "read": True} for row in read(path)])

    def texts(self, name: str) -> list[str]:
        """What is in an inbox."""
        path = self.inboxes / f"{name}.json"
        return [row["text"] for row in read(path)] if path.exists() else []

    def create(self, subject: str, **fields: Any) -> str:
        """Make a task with the next number that this home knows of."""
        with locked(self.tasks / ".lock"):
            numbers = [int(path.stem) for path in self.tasks.glob("*.json")]
            mark = self.tasks / ".highwatermark"
            numbers.append(int(mark.read_text(encoding="utf-8")) if mark.exists() else 0)
            task_id = str(max(numbers) + 1)
            raw = {"id": task_id, "subject": subject, "description": "", "status": "pending"}
            self._write(self._task(task_id), {**raw, "blocks": [], "blockedBy": [], **fields})
        return task_id

    def update(self, task_id: str, **fields: Any) -> None:
        """Change a task in place; a field that is None is removed."""
        path = self._task(task_id)
        with locked(path):
            raw = {**read(path), **fields}
            self._write(path, {key: value for key, value in raw.items() if value is not None})

    def delete(self, task_id: str) -> None:
        """Remove a task."""
        with locked(self.tasks / ".lock"), locked(self._task(task_id)):
            mark = self.tasks / ".highwatermark"
            mark.write_text(str(max(int(path.stem) for path in self.tasks.glob("*.json"))))
            self._task(task_id).unlink()

    def task(self, task_id: str) -> dict[str, Any]:
        """A task as this program sees it."""
        found: dict[str, Any] = read(self._task(task_id))
        return found

    def join(self, name: str, **fields: Any) -> None:
        """Add a member's row."""
        with locked(self.config):
            raw = read(self.config)
            raw["members"].append({"agentId": f"{name}@{TEAM}", "name": name, **fields})
            self._write(self.config, raw)

    def leave(self, name: str) -> None:
        """Remove a member's row."""
        with locked(self.config):
            raw = read(self.config)
            raw["members"] = [row for row in raw["members"] if row["name"] != name]
            self._write(self.config, raw)

    def edit_row(self, name: str, **fields: Any) -> None:
        """Change a member's row."""
        with locked(self.config):
            raw = read(self.config)
            for row in raw["members"]:
                if row["name"] == name:
                    row.update(fields)
            self._write(self.config, raw)

    def row(self, name: str) -> dict[str, Any] | None:
        """A member's row."""
        rows = read(self.config)["members"]
        return next((row for row in rows if row["name"] == name), None)

    def _inbox(self, name: str) -> Path:
        path = self.inboxes / f"{name}.json"
        if not path.exists():
            path.write_text("[]", encoding="utf-8")
        return path

    def _task(self, task_id: str) -> Path:
        return self.tasks / f"{task_id}.json"

    @staticmethod
    def _write(path: Path, value: Any) -> None:
        path.write_text(json.dumps(value, indent=2), encoding="utf-8")

    def _replace(self, path: Path, value: Any) -> None:
        beside = path.with_name(f"{path.name}.tmp.1")
        self._write(beside, value)
        os.replace(beside, path)


def read(path: Path) -> Any:
    """The JSON in a file."""
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file as the real program does."""
    lock = Path(f"{path}.lock")
    deadline = time.monotonic() + 10
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    try:
        yield
    finally:
        lock.rmdir()


class Killed(BaseException):
    """A process that ends at once, as far as a mirror can tell."""


class Tapped:
    """A store that runs something before and after each call that waits, with the call's name."""

    def __init__(
        self, store: Store, before: Callable[[str], None], after: Callable[[str], None]
    ) -> None:
        self._store, self._before, self._after = store, before, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name == "watch":
            return self._watch

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._before(name)
            answer = await found(*args, **kwargs)
            self._after(name)
            return answer

        return call

    async def _watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[int, None]:
        async with aclosing(self._store.watch(*args, **kwargs)) as changes:
            async for seq in changes:
                self._before("watch")
                yield seq


def tapped(
    store: Store,
    *,
    before: Callable[[str], None] = lambda name: None,
    after: Callable[[str], None] = lambda name: None,
) -> Store:
    """A store with something before or after its calls."""
    return cast("Store", Tapped(store, before, after))


class Home:
    """A home with a mirror in it."""

    def __init__(self, path: Path, far: Store, *members: str, near: Store | None = None) -> None:
        self.path, self.far, self.members = path, far, members
        self.store = near or FileStore(path, fsync=False)
        self.program = Program(path)
        self.mirror = TeamMirror(self.store, far, TEAM, home=path, members=members)

    def again(self, far: Store | None = None) -> Home:
        """The same home in the hands of a new process."""
        return Home(self.path, far or self.far, *self.members)

    async def aclose(self) -> None:
        await self.store.aclose()


async def settle(*homes: Home) -> None:
    """Let mirrors carry until nothing is left to carry."""
    for _ in range(200):
        moved = [await home.mirror.step() for home in homes]
        if not any(moved):
            return
    raise AssertionError("the mirrors never come to rest")


async def new_team(far: Store, **fields: Any) -> Team:
    """A team of a lead, ann and bob, for whom no program of ours runs."""
    await far.create(TEAM, config(TEAM, **fields), actor=LEAD)
    return Team(far, TEAM)


async def assert_same(home: Home, *, mail: bool = True) -> None:
    """The home shows the team as it is, and every message of its residents once."""
    there, here = await home.far.read(TEAM), await home.store.read(TEAM)
    shown = Residents(home.members, ()).config(there.team)
    assert {row.name: row.raw for row in here.team.roster} == {
        row.name: row.raw for row in shown.roster
    }
    assert dict(here.tasks) == dict(there.tasks)
    assert dict(here.requests) == dict(there.requests)
    if mail:
        for member in there.team.roster:
            assert await delivered(home.store, member.name) == await delivered(
                home.far, member.name
            )


async def delivered(store: Store, name: str) -> list[str]:
    """Every message that ever came into a mailbox, by its log, but for the mirror's own notices.

    Sorted: what is sent at two places at a time has no order.
    """
    found = [
        change.message.id
        for event in await store.events(TEAM)
        for change in event.changes
        if isinstance(change, Deliver) and change.to == name and change.message.sender != "bullpen"
    ]
    assert len(found) == len(set(found)), f"a message came twice to {name}"
    return sorted(found)
