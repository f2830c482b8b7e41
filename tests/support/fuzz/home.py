"""A valid home with something of everything in it, and the way back to it after each case."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import anyio

from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.protocol.task import Check
from bullpen.store.contract import StoreLimits
from bullpen.store.files.disk import Disk
from bullpen.store.files.log import digests, event_log
from bullpen.store.files.mail.inbox_file import Shadow
from bullpen.store.files.store import FileStore
from bullpen.team.promises.rules import PromiseDraft
from bullpen.team.team import Team, Teams

from .values import ESCAPED

TEAM = "alpha"
MEMBERS = (LEAD, "ann", "bob", "cyd", "QA Lead!")
TASK_IDS = ("1", "2", "3", "4", "5", "6")
LIMITS = StoreLimits(lock_wait_s=0.5, seen_kept=2)
"""Small, so that a case can meet an archive, and a lock that nobody frees costs little time."""

_OLD_S = 3600
"""How old every file looks. A file that does not parse and is younger than 2 s is read again."""

STEERING = "\x1b[31m\x9b1m\r\x07[bold]x[/] \u202e"
"""A text that would do something to a terminal or a table, if it were shown as it is."""

_BEGAN_MS = 1_794_700_000_000
_LONG_S = 1e9


class Stamp(NamedTuple):
    """What changes whenever somebody writes a file or puts another in its place."""

    ino: int
    size: int
    mtime_ns: int
    mode: int


def _stamp(path: str) -> Stamp:
    found = os.lstat(path)
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)


def tree(root: str) -> dict[str, Stamp]:
    """Everything below a folder by its path from there, folders with a slash at their end."""
    found: dict[str, Stamp] = {}
    todo = [""]
    while todo:
        below = todo.pop()
        with os.scandir(os.path.join(root, below)) as entries:
            for entry in entries:
                path = below + entry.name
                if entry.is_dir(follow_symlinks=False):
                    found[path + "/"] = Stamp(0, 0, 0, 0)
                    todo.append(path + "/")
                else:
                    found[path] = _stamp(entry.path)
    return found


class Sandbox:
    """A home, and beside it a canary: what must never change."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.home = root / "home"
        self.canary = root / "canary"
        self._old_ns = (time.time_ns() // 1_000_000_000 - _OLD_S) * 1_000_000_000
        anyio.run(_fill, self.home)
        _fill_canary(self.home, self.canary)
        found = sorted(tree(str(self.home)).items())
        self.folders = [path for path, _ in found if path.endswith("/")]
        self._modes = {path: stamp.mode for path, stamp in found if not path.endswith("/")}
        self.base = {path: (self.home / path).read_bytes() for path in self._modes}
        self._stamps: dict[str, Stamp] = {}
        self._states: dict[str, bytes] = {}
        self._outside = self._canary_now()
        self.restore()

    def at(self, path: str) -> str:
        """Where a file of the home lies."""
        return f"{self._root}/home/{path}"

    def restore(self) -> None:
        """Make the home what it was, at the price of what changed."""
        now = tree(str(self.home))
        for path in sorted(now, key=len, reverse=True):
            if path.endswith("/"):
                if path not in self.folders:
                    _remove(self.at(path))
            elif self._stamps.get(path) != now[path]:
                _remove(self.at(path))
                del now[path]
        for folder in self.folders:
            if folder not in now:
                os.mkdir(self.at(folder), mode=0o700)
        for path, data in self.base.items():
            if path not in now and not path.endswith(".state"):
                self._write(path, data)
        for path in self.base:
            if path.endswith(".state"):
                self._write_state(path, there=path in now)

    def _write(self, path: str, data: bytes) -> None:
        whole = self.at(path)
        with open(whole, "wb") as file:
            file.write(data)
        os.chmod(whole, stat.S_IMODE(self._modes[path]))
        os.utime(whole, ns=(self._old_ns, self._old_ns))
        self._stamps[path] = _stamp(whole)

    def _write_state(self, path: str, *, there: bool) -> None:
        """The note about an inbox names inodes, which restored files have no longer.

        The sizes stay as noted: where another program wrote the inbox, the note is still false.
        """
        stem = Path(path).stem
        inbox = self._stamps[f"teams/{TEAM}/inboxes/{stem}.json"]
        shadow = self._stamps[f"teams/{TEAM}/.bullpen/mail/{stem}.shadow"]
        noted = Shadow.decode(self.base[path])
        assert noted is not None
        data = replace(
            noted,
            inbox=noted.inbox._replace(ino=inbox.ino, mtime_ns=inbox.mtime_ns),
            shadow=noted.shadow._replace(ino=shadow.ino, mtime_ns=shadow.mtime_ns),
        ).encode()
        if not there or self._states.get(path) != data:
            self._write(path, data)
            self._states[path] = data

    def age(self, path: str) -> None:
        """Make a file look older than the others, so that it is not taken for one of them."""
        older_ns = self._old_ns - 1_000_000_000
        os.utime(self.at(path), ns=(older_ns, older_ns), follow_symlinks=False)

    def changed(self, part: str = "") -> list[str]:
        """The files of the valid home that are gone, replaced or written to."""
        return [
            path
            for path, stamp in self._stamps.items()
            if part in path and not (os.path.lexists(self.at(path)) and self._is(path, stamp))
        ]

    def _is(self, path: str, stamp: Stamp) -> bool:
        return _stamp(self.at(path)) == stamp

    def escapes(self) -> list[str]:
        """What changed outside the home, in words."""
        now = self._canary_now()
        names = sorted(now.keys() ^ self._outside.keys())
        altered = sorted(
            name for name in now.keys() & self._outside.keys() if now[name] != self._outside[name]
        )
        return [f"made or removed: {name}" for name in names] + [f"changed: {n}" for n in altered]

    def _canary_now(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = dict.fromkeys(os.listdir(self._root), ())
        if os.path.lexists(ESCAPED):
            found[ESCAPED] = ()
        for path, stamp in tree(f"{self._root}/canary").items():
            if path.endswith("/"):
                found[f"canary/{path}"] = ()
            else:
                with open(f"{self._root}/canary/{path}", "rb") as file:
                    found[f"canary/{path}"] = (stamp, file.read())
        return found


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _fill_canary(home: Path, canary: Path) -> None:
    """Good records, so that whoever follows a link to them is tempted to go on."""
    canary.mkdir()
    (canary / "folder").mkdir()
    own = home / f"teams/{TEAM}/.bullpen"
    for name, source in {
        "config.json": home / f"teams/{TEAM}/config.json",
        "inbox.json": home / f"teams/{TEAM}/inboxes/ann.json",
        "task.json": home / f"tasks/{TEAM}/3.json",
        "head": own / "head",
        "events.jsonl": own / "events.jsonl",
        "archive.jsonl": own / "archive/ann.jsonl",
        "folder/precious.txt": home / f"tasks/{TEAM}/.highwatermark",
    }.items():
        shutil.copy(source, canary / name)


def _ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


def _ticks() -> Callable[[], int]:
    """A clock that gives the same times in every run, so that the files are the same too."""
    times = itertools.count(_BEGAN_MS, 1000)
    return lambda: next(times)


async def _fill(home: Path) -> None:
    """Two teams: one with something of everything, and one that no case touches."""
    clock = _ticks()
    store = FileStore(home, limits=LIMITS, fsync=False, clock=clock)
    teams = Teams(store, new_id=_ids(), clock=clock)
    for name in (TEAM, "beta"):
        await teams.create(name, description=f"Fuzzed {STEERING}", cwd="/somewhere")
        team = teams.open(name)
        for member in MEMBERS[1:4]:
            await team.roster.join(member, by=LEAD, prompt="Work.", cwd="/somewhere")
    await teams.open("beta").tasks.add("Nobody touches this", by=LEAD)
    team = teams.open(TEAM)
    await _fill_tasks(team)
    await _fill_mail(team)
    await team.notes.write("plan", f"# Plan {STEERING}\n", over=0, by=LEAD)
    await team.promises.make("5", PromiseDraft("Only I", "path", "src/*.py"), by="bob")
    for agent in MEMBERS[1:3]:
        beat = Presence.new(agent=agent, state="working", since_ms=1, beat_ms=clock())
        await store.beat(TEAM, beat)
    _write_ledger(home)
    await team.mailbox.send("bob", "After the ledger was written.", sender="ann")
    _write_as_another_program(home)
    await team.events()
    assert await store.checkup(TEAM, fix=False) == []
    await store.aclose()


async def _fill_tasks(team: Team) -> None:
    await team.tasks.add("Plan", by=LEAD, description="A plan.", metadata={"x": [1, {"y": None}]})
    await team.tasks.add("Build", by=LEAD, blocked_by=["1"], active_form="Building")
    await team.tasks.add(f"Test {STEERING}", by=LEAD, description=STEERING, blocked_by=["2", "1"])
    await team.tasks.add("Read", by=LEAD, owner="ann")
    await team.tasks.add("Check", by=LEAD, checks=[Check.new(name="report", kind="report")])
    await team.tasks.add("Ship", by=LEAD, blocked_by=["4"])
    await team.tasks.add("Gone", by=LEAD)
    await team.tasks.delete("7", by=LEAD)
    await team.tasks.claim("4", by="ann")
    await team.tasks.done("4", by="ann")
    await team.tasks.claim("5", by="bob", lease_s=_LONG_S)


async def _fill_mail(team: Team) -> None:
    for number in range(7):
        await team.mailbox.send("ann", f"Message {number} ☃", sender=LEAD, summary="A number")
    unread = (await team.mailbox.read("ann")).unread
    await team.mailbox.mark("ann", [entry.id for entry in unread[:6]], "seen")
    await team.mailbox.broadcast(f"To all {STEERING}", sender="bob", summary=STEERING)
    waiting = (await team.mailbox.read("bob")).entries
    for number in range(2):
        await team.mailbox.send("bob", f"Another {number}", sender="ann")
    waiting = (await team.mailbox.read("bob")).entries
    await team.mailbox.mark("bob", [waiting[0].id], "injected")
    plan = await team.approvals.ask_plan("First this, then that.", by="ann")
    await team.approvals.answer(plan.id, approve=True, by=LEAD, digest=plan.digest)
    await team.approvals.ask_shutdown("bob", by=LEAD, reason="Done", deadline_s=_LONG_S)
    await team.approvals.ask_permission("Bash", {"command": "ls"}, by="cyd", deadline_s=_LONG_S)


def _write_ledger(home: Path) -> None:
    own = home / f"teams/{TEAM}/.bullpen"
    known = digests.Digests()
    known.follow(str(own / "events.jsonl"), event_log.size_of(str(own / "events.jsonl")))
    digests.save(known, str(own / "ledger.json"), Disk(fsync=False), nonce="fuzz")


def _write_as_another_program(home: Path) -> None:
    """Fields that Bullpen does not know, a name it would not give, a message without an id."""
    config_path = home / f"teams/{TEAM}/config.json"
    config = json.loads(config_path.read_bytes())
    config["x-unknown"] = {"kept": [1, 2, 3]}
    row = {"name": MEMBERS[4], "agentId": "qa", "agentType": STEERING, "color": STEERING}
    config["members"].append({**row, "x-unknown": True})
    config_path.write_text(json.dumps(config, indent=2), "utf-8")
    task_path = home / f"tasks/{TEAM}/6.json"
    task_path.write_text(json.dumps(json.loads(task_path.read_bytes()) | {"x": 1.5}), "utf-8")
    inbox_path = home / f"teams/{TEAM}/inboxes/cyd.json"
    rows = json.loads(inbox_path.read_bytes())
    rows.append({"from": "elsewhere", "text": "Half an emoji: \ud83d", "read": True})
    inbox_path.write_text(json.dumps(rows, indent=2), "utf-8")
