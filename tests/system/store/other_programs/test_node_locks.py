"""A Node program with proper-lockfile and our processes contend for one inbox and one task list."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.errors import Unreadable
from bullpen.protocol.changes import Change, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import View
from bullpen.store.files.disk import Disk
from bullpen.store.files.locks import OUR_MODE, FileLocks
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import config, message, put, task
from support.store.peers import (
    INBOX,
    TEAM,
    Contender,
    Files,
    NodePeer,
    acknowledged,
    assert_the_log_tells_all,
    make_older,
    now_ms,
)

pytestmark = [pytest.mark.no_loss, pytest.mark.node]

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["bullpen.store.files.store", "bullpen.testing.sample_records"])

# How many changes each side makes: the whole number, 2,000, takes up to 80 s on a busy machine.
CHANGES = int(os.environ.get("BULLPEN_FOREIGN_CHANGES") or 700)
OUR_PROCESSES = 3
SHARED = tuple(str(number) for number in range(1, 6))
DEADLINE_S = 150
STALE_S = 10.0


@dataclass
class Outage:
    """From the death of a Node process until somebody broke the locks that it held."""

    begin: int
    locks: dict[Path, tuple[int, int]]
    end: int = sys.maxsize

    @property
    def is_over(self) -> bool:
        return self.end != sys.maxsize

    def look(self) -> None:
        if not self.is_over and all(_mark(lock) != was for lock, was in self.locks.items()):
            self.end = now_ms()


def _mark(lock: Path) -> tuple[int, int]:
    """What tells a lock from the next one of that name."""
    try:
        found = lock.stat()
    except FileNotFoundError:
        return (0, 0)
    return (found.st_ino, found.st_mtime_ns)


@dataclass
class Contest:
    """Both sides at work until each has its number of acknowledged changes."""

    home: Path
    peer: NodePeer
    target: int
    dice: random.Random
    deaths: list[str]
    children: list[BaseProcess] = field(default_factory=list)
    node: subprocess.Popen[bytes] | None = None
    runs: int = 0
    kills: int = 0
    outages: list[Outage] = field(default_factory=list)

    def go(self) -> None:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not all([self._ours_are_done(), self._node_is_done()]):
                assert time.monotonic() < deadline, "the contest does not come to an end"
                self._kill_one_of_ours()
                for outage in self.outages:
                    outage.look()
                time.sleep(self.dice.uniform(0.1, 0.4))
        finally:
            for child in self.children:
                child.kill()
                child.join()
            if self.node:
                self.node.kill()
                self.node.wait()

    def _ours_are_done(self) -> bool:
        stop = self.home / "ours.stop"
        if not stop.exists() and len(changes(self.home, "ours")) >= self.target:
            stop.touch()
        alive = [child for child in self.children if child.is_alive()]
        for child in self.children:
            assert child.is_alive() or child.exitcode in (0, -signal.SIGKILL), child.exitcode
        self.children = alive
        if stop.exists():
            return not alive
        while len(self.children) < OUR_PROCESSES:
            self._start_one_of_ours()
        return False

    def _start_one_of_ours(self) -> None:
        self.runs += 1
        body = Contender(self.home, f"ours{self.runs}", self.dice.getrandbits(32), SHARED)
        child = FORKSERVER.Process(target=body)
        child.start()
        self.children.append(child)

    def _kill_one_of_ours(self) -> None:
        if self.children and not (self.home / "ours.stop").exists():
            child = self.dice.choice(self.children)
            child.kill()
            child.join()
            self.kills += 1

    def _node_is_done(self) -> bool:
        if self.node is not None:
            code = self.node.poll()
            if code is None:
                return False
            assert code in (0, -signal.SIGKILL)
            if code:
                self._note_the_outage()
        left = self.target - len(changes(self.home, "node"))
        if left <= 0:
            return True
        self.runs += 1
        due = (
            (self.deaths.pop(0), self.dice.randint(self.target // 20, self.target // 7))
            if self.deaths
            else None
        )
        seed = self.dice.getrandbits(32)
        self.node = self.peer.start(f"node{self.runs}", seed=seed, changes=left, die_at=due)
        return False

    def _note_the_outage(self) -> None:
        """A killed Node leaves its lock, and everybody waits. Only the first is waited out."""
        known = {lock for outage in self.outages for lock in outage.locks if not outage.is_over}
        locks = [lock for lock in Files(self.home).foreign_locks() if lock not in known]
        if self.outages:
            for lock in locks:
                make_older(lock, STALE_S - 1)
        self.outages.append(Outage(now_ms() - 1_000, {lock: _mark(lock) for lock in locks}))

    def undisturbed(self, side: str) -> list[dict[str, Any]]:
        """What one side wrote down about times when no dead Node process was in the way."""
        return [
            ack
            for ack in acknowledged(self.home, side)
            if not any(ack["began"] < out.end and out.begin < ack["ended"] for out in self.outages)
        ]

    def turns(self) -> int:
        """How often one side's change came after one of the other's: whether they did contend."""
        acks = [
            (ack["ended"], side) for side in ("ours", "node") for ack in changes(self.home, side)
        ]
        sides = [side for _, side in sorted(acks)]
        return sum(one != other for one, other in itertools.pairwise(sides))


def changes(home: Path, side: str) -> list[dict[str, Any]]:
    """The acknowledged changes of one side that the other could lose."""
    acks = acknowledged(home, side)
    return [ack for ack in acks if ack["kind"] in ("send", "create", "update")]


class Reader(threading.Thread):
    """Opens the inbox all the while, without any lock."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path, self._over = path, threading.Event()
        self.whole, self.torn = 0, 0

    def run(self) -> None:
        while not self._over.wait(0.002):
            try:
                assert isinstance(json.loads(self._path.read_bytes()), list)
                self.whole += 1
            except ValueError:
                self.torn += 1

    def finish(self) -> None:
        self._over.set()
        self.join()


async def prepare(home: Path) -> None:
    store = FileStore(home)
    await store.create(TEAM, config(TEAM), actor=LEAD)
    await put(store, *(PutTask(task(each, metadata={"log": []})) for each in SHARED))
    await store.append(TEAM, INBOX, message("first"), actor=LEAD)
    await store.aclose()


async def check_that_nothing_is_lost(home: Path) -> None:
    store = FileStore(home)
    assert [f for f in await store.checkup(TEAM, fix=True) if not f.fixed] == []
    state = await store.read(TEAM)
    assert state.problems == ()
    box = await store.mailbox(TEAM, INBOX, history=True)
    assert box.problems == ()
    acks = acknowledged(home, "")
    check_mail(acks, [(e.id, e.message.text, e.state) for e in box.entries])
    check_tasks(acks, {key: each.raw for key, each in state.tasks.items()})
    await assert_the_log_tells_all(store)
    await store.aclose()


def check_mail(acks: list[dict[str, Any]], entries: list[tuple[str, str, str]]) -> None:
    texts = Counter(text for _, text, _ in entries)
    assert [text for text, times in texts.items() if times > 1] == []
    assert [a["label"] for a in acks if a["kind"] == "send" and a["label"] not in texts] == []
    seen = {key for key, _, state in entries if state == "seen"}
    marked = {key for ack in acks if ack["kind"] == "mark" for key in ack["ids"]}
    assert marked - seen == set()


def check_tasks(acks: list[dict[str, Any]], tasks: dict[str, dict[str, Any]]) -> None:
    created = [ack for ack in acks if ack["kind"] == "create"]
    assert len({ack["id"] for ack in created}) == len(created)
    assert [ack for ack in created if tasks[ack["id"]]["subject"] != ack["label"]] == []
    subjects = Counter(raw["subject"] for raw in tasks.values())
    assert [subject for subject, times in subjects.items() if times > 1] == []
    logs = {task_id: Counter(tasks[task_id]["metadata"]["log"]) for task_id in SHARED}
    assert [label for log in logs.values() for label, times in log.items() if times > 1] == []
    updated = [ack for ack in acks if ack["kind"] == "update"]
    assert [ack for ack in updated if logs[ack["id"]][ack["label"]] != 1] == []


def contend(home: Path, node_modules: Path, *, target: int, deaths: list[str]) -> Contest:
    anyio.run(prepare, home)
    peer = NodePeer(home, node_modules, tasks=SHARED)
    dice = random.Random(os.environ.get("BULLPEN_SEED", "bullpen"))
    contest = Contest(home, peer, target, dice, deaths)
    reader = Reader(Files(home).inbox())
    reader.start()
    try:
        contest.go()
    finally:
        reader.finish()
    assert reader.whole > 100
    assert reader.torn == 0
    return contest


DEATHS = ["locked", "written", "staged", "idle"]


def out_of_step(home: Path, contest: Contest) -> list[str]:
    """What was not as it should be in how the contest went; a machine that stalls can do that."""
    slowest = max(ack["ended"] - ack["began"] for ack in contest.undisturbed("ours"))
    refused = [ack for ack in contest.undisturbed("node") if ack["kind"] == "refused"]
    counts = [len(changes(home, side)) for side in ("ours", "node")]
    first = contest.outages[0]
    expected = {
        f"changes {counts}": min(counts) >= contest.target,
        f"{contest.kills} kills": contest.kills > contest.target / 100,
        f"{contest.turns()} turns": contest.turns() > contest.target / 10,
        "Node died without a lock": all(outage.locks for outage in contest.outages[:3]),
        # Nobody breaks the lock that was left to itself before its time.
        "a lock broken early": first.end - first.begin > (STALE_S - 1) * 1_000,
        # Killed as often as that, ours are in nobody's way. The real program gives up after 0.9 s.
        f"{slowest} ms for a change of ours": slowest < 2_000,
        f"Node refused {len(refused)} times": len(refused) <= contest.target / 50,
    }
    return [what for what, holds in expected.items() if not holds]


def test_nothing_is_lost_between_node_and_us_with_kills_on_both_sides(
    tmp_path: Path, node_modules: Path
) -> None:
    for attempt in ("first", "second"):
        home = tmp_path / attempt
        home.mkdir()
        contest = contend(home, node_modules, target=CHANGES, deaths=[*DEATHS])
        # These hold every time; how the contest went may be out of step once.
        anyio.run(check_that_nothing_is_lost, home)
        assert Files(home).locks() == []
        if not (wrong := out_of_step(home, contest)):
            return
    pytest.fail(f"twice out of step: {wrong}")


@pytest.fixture
def peer(tmp_path: Path, node_modules: Path) -> NodePeer:
    return NodePeer(tmp_path, node_modules, tasks=SHARED)


def finish(node: subprocess.Popen[bytes], code: int = 0) -> None:
    assert node.wait(60) == code


def wait_for_a_word(home: Path) -> None:
    deadline = time.monotonic() + 60
    while not acknowledged(home, "node"):
        assert time.monotonic() < deadline, "the other program says nothing"
        time.sleep(0.01)


async def test_node_is_kept_out_of_an_inbox_that_we_hold(
    tmp_path: Path, store: FileStore, files: Files, peer: NodePeer
) -> None:
    await store.append(TEAM, INBOX, message("m1"), actor=LEAD)
    with FileLocks(Disk(), str(tmp_path / "spares"), 1.0).held([str(files.inbox())]):
        node = peer.start("node", seed=1, changes=1, only="send")
        wait_for_a_word(tmp_path)
        assert len(files.read(files.inbox())) == 1
    finish(node)
    kinds = [ack["kind"] for ack in acknowledged(tmp_path, "node")]
    assert kinds[0] == "refused" and kinds[-1] == "send"
    assert len(files.read(files.inbox())) == 2


async def test_node_takes_over_what_a_process_of_ours_left_ten_seconds_ago(
    tmp_path: Path, store: FileStore, files: Files, peer: NodePeer
) -> None:
    """So even a team that none of ours ever touches again is not blocked for good."""
    await store.append(TEAM, INBOX, message("m1"), actor=LEAD)
    lock = files.inbox().with_name("ann.json.lock")
    lock.mkdir(mode=OUR_MODE)
    make_older(lock, STALE_S + 1)
    finish(peer.start("node", seed=1, changes=1, only="send"))
    assert [ack["kind"] for ack in acknowledged(tmp_path, "node")] == ["send"]
    assert files.locks() == []


async def test_both_may_make_the_same_inbox_and_the_same_task_list(
    tmp_path: Path, store: FileStore, files: Files, peer: NodePeer
) -> None:
    (files.tasks / ".lock").unlink()
    node = peer.start("node", seed=1, changes=40, only="send")
    for number in range(40):
        await store.append(TEAM, INBOX, message(f"m{number}"), actor=LEAD)
    finish(node)
    assert len((await store.mailbox(TEAM, INBOX)).entries) == 80
    node = peer.start("node2", seed=1, changes=20, only="create")
    for _ in range(20):
        await store.commit(TEAM, new_task, actor=LEAD, op="create")
    finish(node)
    assert list((await store.read(TEAM)).tasks) == [str(number) for number in range(1, 41)]
    await assert_the_log_tells_all(store)


def new_task(view: View) -> list[Change]:
    return [PutTask(task(str(view.next_task_id)))]


async def test_a_task_that_node_died_over_is_reported_and_restored_from_the_log(
    store: FileStore, files: Files, peer: NodePeer
) -> None:
    """Killed between truncating a file and writing it, which the real program does in place."""
    await put(store, *(PutTask(task(each, metadata={"log": []})) for each in SHARED))
    finish(peer.start("node1", seed=1, changes=5, only="update"))
    known = (await store.read(TEAM)).tasks
    await store.events(TEAM)
    finish(
        peer.start("node2", seed=1, changes=5, only="update", die_at=("truncated", 1)),
        -signal.SIGKILL,
    )
    (lock,) = files.foreign_locks()
    torn = lock.with_suffix("")
    assert torn.read_bytes() == b""
    make_older(lock, STALE_S + 1)
    findings = await store.checkup(TEAM, fix=False)
    assert {(f.kind, f.where) for f in findings} == {
        ("orphan_lock", str(lock)),
        ("unreadable", str(torn)),
    }
    state = await store.read(TEAM)
    assert [problem.where for problem in state.problems] == [str(torn)]
    assert dict(state.tasks) == {key: each for key, each in known.items() if key != torn.stem}
    with pytest.raises(Unreadable) as raised:
        await put(store, PutTask(task(torn.stem)))
    assert raised.value.path == str(torn)
    assert all(f.fixed for f in await store.checkup(TEAM, fix=True))
    assert (await store.read(TEAM)).tasks == known
    assert files.locks() == []
    await assert_the_log_tells_all(store)
