"""A mirror at work: it follows both sides, waits for one that is away, and is alone in its home."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from bullpen.errors import Conflict, NotFound, Unavailable
from bullpen.fleet.mirror.keep_mirrored import Running, Status
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Mailbox, Store
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from support.fleet.homes import TEAM, Home, assert_same, new_team, settle, tapped

LONG_S = 20.0


class Line:
    """The way to a store, which can be cut."""

    def __init__(self, store: Store) -> None:
        self.cut = False
        self.store = tapped(store, before=self._pass)

    def _pass(self, name: str) -> None:
        if self.cut:
            raise Unavailable("The line is cut.", remedy="Wait.")


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(LONG_S):
        while not condition():  # noqa: ASYNC110 - files and lists ring no bell
            await anyio.sleep(0.01)


async def until_read(team: Team, name: str, condition: Callable[[Mailbox], bool]) -> None:
    with anyio.fail_after(LONG_S):
        while not condition(await team.mailbox.read(name)):  # noqa: ASYNC110
            await anyio.sleep(0.01)


@asynccontextmanager
async def running(home: Home) -> AsyncIterator[list[Status]]:
    """A mirror that runs meanwhile, and what it told."""
    told: list[Status] = []
    run = Running(home.mirror, home.store, home.far, tell=told.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.run)
        await until(lambda: bool(told))
        yield told
        tasks.cancel_scope.cancel()


async def test_a_running_mirror_follows_both_sides(tmp_path: Path) -> None:
    far = MemoryStore()
    team = await new_team(far)
    home = Home(tmp_path, far)
    async with running(home) as told:
        await until(lambda: told[-1].state == "in step" and home.program.config.exists())
        await team.mailbox.send("ann", "Hello", sender=LEAD)
        await until(lambda: home.program.texts("ann") == ["Hello"])
        home.program.send("ann", "bob", "Hello too")
        await until_read(team, "bob", lambda box: len(box.entries) == 1)
        await until(lambda: told[-1].sent == 1)
        assert told[-1].taken >= 1
    await assert_same(home)


async def test_what_was_done_while_the_team_was_away_is_sent_when_it_is_back(
    tmp_path: Path,
) -> None:
    far = MemoryStore()
    team = await new_team(far)
    line = Line(far)
    home = Home(tmp_path, line.store)
    async with running(home) as told:
        await until(lambda: told[-1].state == "in step")
        line.cut = True
        home.program.send("ann", "bob", "Written meanwhile")
        await until(lambda: told[-1].state == "away")
        assert "line is cut" in told[-1].problem
        assert home.program.texts("bob") == ["Written meanwhile"]
        tries = len(told)
        await until(lambda: len(told) > tries + 1)
        age = told[-1].contact_age_ms
        assert age is not None
        assert age > 0
        line.cut = False
        await until(lambda: told[-1].state == "in step" and told[-1].sent == 1)
    assert len((await team.mailbox.read("bob")).entries) == 1


async def test_a_commit_that_failed_after_it_happened_is_not_repeated(tmp_path: Path) -> None:
    far = MemoryStore()
    team = await new_team(far)
    await team.tasks.add("Work", by=LEAD)
    lost = [False]

    def lose_the_answer(name: str) -> None:
        if name == "commit" and lost[0]:
            lost[0] = False
            raise Unavailable("No answer came.", remedy="Try again.")

    home = Home(tmp_path, tapped(far, after=lose_the_answer))
    await settle(home)
    home.program.update("1", subject="By a file")
    lost[0] = True
    with pytest.raises(Unavailable):
        await home.mirror.step()
    await team.tasks.edit("1", by=LEAD, subject="Later")
    await settle(home)
    assert (await team.tasks.get("1")).subject == "Later"


async def test_a_store_that_forgets_for_a_moment_takes_nothing_back(tmp_path: Path) -> None:
    """A replica that is behind must not make a home delete what it has just sent."""
    far = MemoryStore()
    await new_team(far)
    stale = [await far.read(TEAM)]
    behind = [False]
    store = tapped(far)
    read = far.read

    async def read_behind(team: str) -> object:
        return stale[0] if behind[0] else await read(team)

    far.read = read_behind  # type: ignore[method-assign,assignment]
    home = Home(tmp_path, store)
    await settle(home)
    home.program.create("Made here")
    behind[0] = True
    with pytest.raises(Unavailable):
        await home.mirror.step()
    assert home.program.task("1")["subject"] == "Made here"
    behind[0] = False
    await settle(home)
    await assert_same(home)


async def test_a_mirror_waits_for_a_team_that_cannot_be_reached_yet(tmp_path: Path) -> None:
    far = MemoryStore()
    await new_team(far)
    line = Line(far)
    line.cut = True
    home = Home(tmp_path, line.store)
    async with running(home) as told:
        await until(lambda: told[-1].state == "away")
        assert told[-1].contact_age_ms is None
        line.cut = False
        await until(lambda: told[-1].state == "in step")
    await assert_same(home)


async def test_a_home_has_one_mirror_of_a_team_at_a_time(tmp_path: Path) -> None:
    far = MemoryStore()
    await new_team(far)
    home = Home(tmp_path, far)
    async with running(home):
        other = home.again()
        with anyio.fail_after(LONG_S), pytest.raises(Conflict, match="already"):
            await Running(other.mirror, other.store, far, tell=lambda _: None).run()
    async with running(home.again()) as told:
        await until(lambda: told[-1].state == "in step")


async def test_a_mirror_ends_when_the_team_is_deleted_and_leaves_its_files(tmp_path: Path) -> None:
    far = MemoryStore()
    await new_team(far)
    home = Home(tmp_path, far)
    ended: list[NotFound] = []

    async def run() -> None:
        try:
            await Running(home.mirror, home.store, far, tell=told.append).run()
        except NotFound as error:
            ended.append(error)

    told: list[Status] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await until(lambda: bool(told) and told[-1].state == "in step")
        await far.delete(TEAM, actor=LEAD)
        await until(lambda: bool(ended))
    assert home.program.config.exists()


async def test_a_team_that_is_nowhere_is_said_to_be(tmp_path: Path) -> None:
    home = Home(tmp_path, MemoryStore())
    with pytest.raises(NotFound, match="no team"):
        await Running(home.mirror, home.store, home.far, tell=lambda _: None).run()


async def test_two_running_mirrors_bring_a_message_from_home_to_home(tmp_path: Path) -> None:
    far = MemoryStore()
    team = await new_team(far)
    anns, bobs = Home(tmp_path / "anns", far, "ann"), Home(tmp_path / "bobs", far, "bob")
    async with running(anns) as one, running(bobs) as two:
        await until(lambda: one[-1].state == "in step" and two[-1].state == "in step")
        for number in range(10):
            anns.program.send("ann", "bob", f"Question {number}")
            await until(lambda: bool(bobs.program.texts("bob")))
            assert bobs.program.drain("bob") == [f"Question {number}"]
            bobs.program.send("bob", "ann", f"Answer {number}")
            await until(lambda: bool(anns.program.texts("ann")))
            assert anns.program.drain("ann") == [f"Answer {number}"]
        for name in ("ann", "bob"):
            await until_read(team, name, lambda box: not box.unread)


@pytest.mark.parametrize("notes", ["", "[]", '{"near": -1, "far": 0, "members": []}'])
async def test_notes_that_are_none_are_passed_over(notes: str, tmp_path: Path) -> None:
    far = MemoryStore()
    team = Team(far, TEAM)
    await new_team(far)
    home = Home(tmp_path, far)
    await settle(home)
    (tmp_path / ".bullpen" / "mirrors" / f"{TEAM}.json").write_text(notes, encoding="utf-8")
    await team.mailbox.send("ann", "Hello", sender=LEAD)
    again = home.again()
    await settle(again)
    assert again.program.texts("ann") == ["Hello"]
