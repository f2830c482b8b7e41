"""Waiting for a team's files: nothing is missed, nobody wakes for nothing, and it costs little."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.store import FileStore
from bullpen.store.files.watch import inotify
from bullpen.store.files.watch import watch as watching
from bullpen.testing.sample_records import config, heartbeat, member, message, put, task
from bullpen.testing.store_contract import last_message, looking, wakes_within

QUIET_S = 0.3
"""How long nothing has to happen: some times as long as a watch takes to look by itself here."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    store = FileStore(tmp_path, fsync=False)
    await store.create("alpha", config(), actor=LEAD)
    await store.append("alpha", "ann", message("m0"), actor=LEAD)
    yield store
    await store.aclose()


@pytest.fixture
def paths(tmp_path: Path) -> TeamPaths:
    return TeamPaths(str(tmp_path), "alpha")


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    """Let the kernel refuse one of the calls."""

    def refused(*args: object) -> int:
        ctypes.set_errno(code)
        return -1

    assert inotify._calls is not None
    monkeypatch.setattr(inotify, "_calls", inotify._calls._replace(**{call: refused}))


@pytest.fixture(params=["kernel", "no queues left", "no watches left", "another system"])
def bell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every way in which a watch can learn of a change. Without the kernel it looks often here."""
    way: str = request.param
    monkeypatch.setattr(watching._Poll, "look_s", 0.02)
    monkeypatch.setattr(watching, "_POLL_FILES_S", 0.1)
    monkeypatch.setattr(watching._Notify, "look_s", 0.1)
    if way == "no queues left":
        refuse(monkeypatch, "init", errno.EMFILE)
    elif way == "no watches left":
        refuse(monkeypatch, "add", errno.ENOSPC)
    elif way == "another system":
        monkeypatch.setattr(watching, "_notifier_for", watching._Notify)
    return way


async def begun(changes: AsyncGenerator[int, None]) -> AsyncGenerator[int, None]:
    with anyio.fail_after(10):
        await anext(changes)
    return changes


def write_in_place(path: str, records: object) -> None:
    """As old versions of the real program do."""
    Path(path).write_text(json.dumps(records), encoding="utf-8")


async def task_ids(store: FileStore) -> list[str]:
    return list((await store.read("alpha")).tasks)


def append_to(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def queue_limit() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# Nothing is missed, whoever tells of it


@pytest.mark.parametrize("agent", [None, "ann"])
async def test_what_others_write_in_place_wakes(
    store: FileStore, paths: TeamPaths, bell: str, agent: str | None
) -> None:
    await put(store, PutTask(task("1")))
    written: list[tuple[str, object]] = [
        (paths.inbox("ann"), [message("m9").raw]),
        (paths.task("1"), task("1", status="completed").raw),
    ]
    if agent is None:
        written.append((paths.config, config(description="changed").raw))
    for path, records in written:
        async with aclosing(await begun(store.watch("alpha", agent=agent))) as changes:
            write_in_place(path, records)
            assert await wakes_within(changes, 10), path


@pytest.mark.parametrize("agent", [None, "ann"])
async def test_an_inbox_that_others_replace_wakes_each_time(
    store: FileStore, paths: TeamPaths, agent: str | None
) -> None:
    changes = store.watch("alpha", agent=agent)
    async with looking(changes, lambda: last_message(store, "ann")) as shows:
        await shows("m0")
        for number in range(4):
            fresh = f"{paths.inboxes}/fresh.json.tmp.{number}"
            write_in_place(fresh, [message(f"n{number}").raw])
            os.replace(fresh, paths.inbox("ann"))
            await shows(f"n{number}")


@pytest.mark.parametrize("agent", [None, "bob"])
async def test_a_first_message_wakes(
    store: FileStore, paths: TeamPaths, bell: str, agent: str | None
) -> None:
    assert "bob.json" not in os.listdir(paths.inboxes)
    changes = store.watch("alpha", agent=agent)
    async with looking(changes, lambda: last_message(store, "bob")) as shows:
        await shows(None)
        await store.append("alpha", "bob", message("m1"), actor=LEAD)
        await shows("m1")


@pytest.mark.parametrize("agent", [None, "ann"])
async def test_a_task_list_that_others_make_later_wakes(
    store: FileStore, paths: TeamPaths, bell: str, agent: str | None
) -> None:
    os.unlink(paths.tasks_lock_file)
    os.rmdir(paths.tasks)
    async with looking(store.watch("alpha", agent=agent), lambda: task_ids(store)) as shows:
        await shows([])
        os.mkdir(paths.tasks)
        await anyio.sleep(0.05)  # Time to take notice of the folder alone, or not.
        write_in_place(paths.task("1"), task("1").raw)
        await shows(["1"])


@pytest.mark.parametrize("agent", [None, "ann"])
async def test_a_team_that_is_made_anew_is_followed(store: FileStore, agent: str | None) -> None:
    async with looking(store.watch("alpha", agent=agent), lambda: task_ids(store)) as shows:
        await put(store, PutTask(task("7")))
        await shows(["7"])
        # No await lets the watch look in between.
        store._delete("alpha", LEAD)
        store._create("alpha", config(), LEAD)
        await shows([])
        for number in ("1", "2"):
            await put(store, PutTask(task(number)))
            await shows([*("1" if number == "2" else ""), number])


@pytest.mark.parametrize("agent", [None, "ann"])
async def test_what_changes_while_the_watcher_is_busy_wakes_it_afterwards(
    store: FileStore, agent: str | None
) -> None:
    sent = "m0"

    async def look() -> str | None:
        nonlocal sent
        found = await last_message(store, "ann")
        if found != "b9":
            sent = f"b{int(sent[1:]) + 1 if sent != 'm0' else 0}"
            await store.append("alpha", "ann", message(sent), actor=LEAD)
        return found

    async with looking(store.watch("alpha", agent=agent), look) as shows:
        await shows("b9")


async def test_a_queue_that_overflowed_wakes(store: FileStore, paths: TeamPaths) -> None:
    limit = queue_limit()
    locks = [f"{paths.inboxes}/{name}.lock" for name in ("one", "other")]
    for lock in locks:
        os.mkdir(lock)
    async with aclosing(await begun(store.watch("alpha"))) as changes:
        # Locks are no change, and two notices that are alike count once.
        for number in range(limit + 10):
            os.utime(locks[number % 2])
        assert await wakes_within(changes, 10)


@pytest.mark.parametrize("agent", [None, "ann"])
async def test_a_look_of_its_own_finds_what_nobody_told_of(
    store: FileStore, paths: TeamPaths, monkeypatch: pytest.MonkeyPatch, agent: str | None
) -> None:
    monkeypatch.setattr(watching._Kernel, "look_s", 0.05)
    monkeypatch.setattr(inotify.Inotify, "add", lambda self, path, mask: None)
    async with aclosing(await begun(store.watch("alpha", agent=agent))) as changes:
        # From another machine.
        if agent is None:
            write_in_place(paths.config, config(description="changed").raw)
        else:
            write_in_place(paths.inbox(agent), [message("m9").raw])
        assert await wakes_within(changes, 10)


async def test_a_commit_of_a_killed_process_wakes_who_can_finish_it(
    store: FileStore, paths: TeamPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching._Kernel, "look_s", 0.05)
    async with aclosing(await begun(store.watch("alpha", agent="ann"))) as changes:
        append_to(paths.events, b'{"seq": 3')
        assert await wakes_within(changes, 10)


# Nobody is woken for nothing


async def test_turns_of_others_do_not_wake_an_agent(store: FileStore, bell: str) -> None:
    """Each turn writes the roster twice: with fifty agents that would be a storm."""
    await store.append("alpha", "ann", message("m1"), actor=LEAD)
    async with aclosing(await begun(store.watch("alpha", agent="ann"))) as changes:
        for active in (True, False):
            await put(store, PutMember(member("bob").evolve(is_active=active)))
        assert not await wakes_within(changes, QUIET_S)


@pytest.mark.parametrize("agent", [None, "ann"])
async def test_heartbeats_wake_nobody(store: FileStore, bell: str, agent: str | None) -> None:
    async with aclosing(await begun(store.watch("alpha", agent=agent))) as changes:
        for number in range(3):  # The first one makes the folder.
            await store.beat("alpha", heartbeat("bob", beat_ms=number))
        assert not await wakes_within(changes, QUIET_S)


async def test_the_files_of_one_commit_wake_once_or_twice(store: FileStore) -> None:
    changes: list[Change] = [PutTask(task(str(number))) for number in range(1, 31)]
    changes += [Deliver(name, message(f"of {name}")) for name in ("ann", "bob", LEAD)]
    woken = 0
    async with (
        aclosing(await begun(store.watch("alpha"))) as watch,
        anyio.create_task_group() as group,
    ):
        group.start_soon(put, store, *changes)
        with anyio.fail_after(20):
            while (seq := await anext(watch)) < 3:
                woken += 1
    assert seq == 3
    assert woken <= 1


# It costs little


async def test_waiting_needs_no_thread_and_closes_what_it_opened(store: FileStore) -> None:
    await store.read("alpha")
    files, threads = open_files(), threading.active_count()
    for _ in range(3):
        changes = await begun(store.watch("alpha", agent="ann"))
        assert not await wakes_within(changes, 0.05)  # Which ends it by cancelling.
    async with aclosing(await begun(store.watch("alpha"))):
        # A thread of another test may end meanwhile; none may begin.
        assert threading.active_count() <= threads
        assert open_files() == files + 1
    assert open_files() == files


async def test_every_change_of_a_mailbox_shows_however_soon_it_is_read_again(
    store: FileStore, paths: TeamPaths
) -> None:
    path, touched = paths.inbox("ann"), time.time_ns() + 10**12
    for number in range(10):
        write_in_place(path, [message(f"n{number}").raw])
        # As if the clock stood still: nothing but the content tells one from the other.
        os.utime(path, ns=(touched, touched))
        assert await last_message(store, "ann") == f"n{number}"


async def test_a_message_that_was_injected_shows_in_a_mailbox_that_was_read_before(
    store: FileStore, paths: TeamPaths
) -> None:
    age(paths.inbox("ann"))
    assert [entry.state for entry in (await store.mailbox("alpha", "ann")).entries] == ["stored"]
    await store.acknowledge("alpha", "ann", ["m0"], "injected", actor="ann")
    assert [entry.state for entry in (await store.mailbox("alpha", "ann")).entries] == ["injected"]


def age(path: str) -> None:
    """Make a file look as if nobody had touched it for a while."""
    os.utime(path, (1_000_000_000, 1_000_000_000))
