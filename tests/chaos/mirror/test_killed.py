"""A mirror that is killed anywhere, and started again: nothing is lost, nothing is done twice."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from pathlib import Path

import anyio
import pytest

from bullpen.fleet.mirror.mirror_origin import MirrorOrigin
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.files.disk import Disk
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from bullpen.testing.faults import CountingDisk, DyingDisk
from support.fleet.homes import TEAM, Home, Killed, assert_same, delivered, new_team, settle, tapped

pytestmark = pytest.mark.no_loss

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["bullpen.testing.sample_records", "bullpen.fleet.mirror.mirror"])


class Death:
    """Ends a mirror at its n-th call to a store: before the call, or after it had its effect."""

    def __init__(self, n: int, *, after: bool) -> None:
        self._n, self._after = n, after
        self.calls = 0

    def before(self, name: str) -> None:
        self.calls += 1
        if self.calls == self._n and not self._after:
            raise Killed(name)

    def after(self, name: str) -> None:
        if self.calls == self._n and self._after:
            raise Killed(name)


def dying_home(path: Path, far: Store, death: Death) -> Home:
    """A home whose mirror dies, on either side."""
    near = FileStore(path, fsync=False)
    return Home(
        path,
        tapped(far, before=death.before, after=death.after),
        near=tapped(near, before=death.before, after=death.after),
    )


async def before_the_mirror(far: Store) -> Team:
    """A team with work and mail that waits."""
    team = await new_team(far)
    await team.tasks.add("Taken", by=LEAD)
    await team.tasks.add("Free", by=LEAD)
    await team.tasks.add("Worded", by=LEAD)
    await team.mailbox.send("ann", "Waits", sender=LEAD)
    return team


async def both_sides_change(home: Home, team: Team) -> None:
    """Something of every kind, at both sides."""
    await team.tasks.claim("1", by="bob")
    await team.mailbox.send("ann", "New", sender=LEAD)
    program = home.program
    program.update("1", owner="ann", status="in_progress")
    await home.store.events(TEAM, limit=1)  # Seen by itself, so that it is an event of its own.
    program.update("2", owner="ann", status="in_progress")
    program.update("3", subject="By a file")
    await home.store.events(TEAM, limit=1)
    program.create("Made here")
    program.send("ann", "bob", "From here")
    program.drain("ann")
    program.edit_row("ann", isActive=True)


async def check(home: Home, far: Store, team: Team) -> None:
    """All of it happened, each thing once."""
    await settle(home)
    home = Home(home.path, far)
    await assert_same(home)
    tasks = {task.subject: task for task in (await team.tasks.list()).tasks}
    assert len(tasks) == 4
    assert (tasks["Taken"].owner, tasks["Free"].owner) == ("bob", "ann")
    assert tasks["Free"].facts.attempt == 1
    assert len(await delivered(far, "bob")) == 1
    assert len(await delivered(far, "ann")) == 2
    # Once that its claim came second, and once what had come for it since.
    texts = home.program.texts("ann")
    assert len([text for text in texts if "task 1" in text]) <= 1
    assert texts.count("New") == 1
    assert (await team.roster.get("ann")).is_active is True
    await home.aclose()


async def prepared(tmp_path: Path) -> tuple[Home, MemoryStore, Team]:
    far = MemoryStore()
    team = await before_the_mirror(far)
    home = Home(tmp_path, far)
    await settle(home)
    return home, far, team


async def calls_of(tmp_path: Path) -> int:
    home, far, team = await prepared(tmp_path)
    await both_sides_change(home, team)
    death = Death(0, after=False)
    await settle(dying_home(home.path, far, death))
    return death.calls


@pytest.mark.parametrize("after", [False, True], ids=["before-a-call", "after-a-call"])
async def test_killed_at_any_call_everything_happens_once(after: bool, tmp_path: Path) -> None:
    total = await calls_of(tmp_path / "counted")
    assert total > 20
    for n in range(1, total + 1):
        home, far, team = await prepared(tmp_path / str(n))
        await both_sides_change(home, team)
        with pytest.raises(Killed):
            await settle(dying_home(home.path, far, Death(n, after=after)))
        await check(home.again(), far, team)
        await home.aclose()


@pytest.mark.parametrize("after", [False, True], ids=["before-a-call", "after-a-call"])
async def test_killed_at_any_call_while_the_home_is_made(after: bool, tmp_path: Path) -> None:
    n, killed = 0, True
    while killed:
        n += 1
        far = MemoryStore()
        await before_the_mirror(far)
        home = dying_home(tmp_path / str(n), far, Death(n, after=after))
        try:
            await settle(home)
            killed = False
        except Killed:
            again = home.again(far)
            await settle(again)
            await assert_same(again)
            assert again.program.texts("ann") == ["Waits"]
    assert n > 8


async def test_what_was_carried_before_the_end_is_not_carried_over_what_came_since(
    tmp_path: Path,
) -> None:
    """An edit of the home that was made there, then made otherwise there, stays so."""
    carried = set()
    for n in range(1, 40):
        home, far, team = await prepared(tmp_path / str(n))
        home.program.update("3", subject="By a file")
        try:
            await settle(dying_home(home.path, far, Death(n, after=True)))
        except Killed:
            origin = MirrorOrigin.of_first((await home.store.events(TEAM, limit=1))[0])
            assert origin is not None
            log = await far.events(TEAM)
            was_carried = any(origin.sent.seq_in(event) is not None for event in log)
            carried.add(was_carried)
            await team.tasks.edit("3", by=LEAD, subject="Later")
            again = home.again()
            await settle(again)
            wanted = "Later" if was_carried else "By a file"
            assert (await team.tasks.get("3")).subject == wanted
            await assert_same(again)
        await home.aclose()
    assert carried == {True, False}


async def test_a_mirror_whose_notes_are_lost_carries_nothing_twice(tmp_path: Path) -> None:
    home, _, team = await prepared(tmp_path)
    await both_sides_change(home, team)
    await settle(home)
    (home.path / ".bullpen" / "mirrors" / f"{TEAM}.json").write_text("{", encoding="utf-8")
    await team.tasks.edit("3", by=LEAD, subject="Later")
    again = home.again()
    await settle(again)
    assert (await team.tasks.get("3")).subject == "Later"
    assert again.mirror.counts.sent == 0
    await assert_same(again)


def steps_in_child(root: Path, disk: Disk) -> None:
    """What a child process does: mirror, on a disk that may kill it."""

    async def run() -> None:
        far = FileStore(root / "far", disk=disk)
        await settle(Home(root / "home", far, near=FileStore(root / "home", disk=disk)))

    anyio.run(run)


async def prepare_files(root: Path) -> None:
    far = FileStore(root / "far", fsync=False)
    team = await before_the_mirror(far)
    home = Home(root / "home", far)
    await settle(home)
    await both_sides_change(home, team)
    await home.aclose()
    await far.aclose()


async def check_files(root: Path) -> None:
    far = FileStore(root / "far", fsync=False)
    home = Home(root / "home", far)
    await check(home, far, Team(far, TEAM))
    for store in (far, home.store):
        assert [found for found in await store.checkup(TEAM, fix=True) if not found.fixed] == []
        await store.aclose()


def test_killed_with_9_at_steps_of_the_disk_everything_happens_once(tmp_path: Path) -> None:
    root = tmp_path / "prepared"
    anyio.run(prepare_files, root)
    counted = tmp_path / "counted"
    shutil.copytree(root, counted)
    disk = CountingDisk()
    steps_in_child(counted, disk)
    total = len(disk.steps)
    assert total > 100
    for n in range(1, total, max(1, total // 10)):
        killed = tmp_path / f"killed{n}"
        shutil.copytree(root, killed)
        child = FORKSERVER.Process(target=steps_in_child, args=(killed, DyingDisk(n)))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        anyio.run(check_files, killed)
