"""Following a team, and acting in it as a person."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from bullpen.app.app import App, open_app
from bullpen.app.settings import settings_from
from bullpen.doors.actions.answer import shown_input
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.errors import Invalid, NotFound, Refused, Unavailable
from bullpen.protocol.changes import Event
from bullpen.protocol.names import EVERYBODY, LEAD
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.view.cards import TaskCard
from bullpen.view.follow import TeamFollower, _Quiet
from bullpen.view.scene import Scene

from .view_teams import Fate

WAIT_S = 10.0


@pytest.fixture
async def app(tmp_path: Path) -> AsyncGenerator[App, None]:
    async with open_app(settings_from({}, home=str(tmp_path))) as app:
        await app.teams.create("alpha", cwd=str(tmp_path))
        await app.teams.open("alpha").roster.join("ann", by=LEAD)
        yield app


async def until(scenes: AsyncGenerator[Scene, None], seq: int) -> Scene:
    with anyio.fail_after(WAIT_S):
        async for scene in scenes:
            if scene.seq >= seq:
                return scene
    raise AssertionError("It ended.")


async def test_a_change_is_a_new_scene_and_a_deleted_team_the_end(app: App) -> None:
    team = app.teams.open("alpha")
    async with aclosing(TeamFollower(team).scenes()) as scenes:
        first = await until(scenes, 1)
        assert [card.name for card in first.members] == [LEAD, "ann"]
        await team.tasks.add("Look", by=LEAD)
        second = await until(scenes, first.seq + 1)
        assert [(task.subject, task.state) for task in second.tasks] == [("Look", "ready")]
        await app.teams.delete("alpha", by=LEAD)
        with pytest.raises(NotFound), anyio.fail_after(WAIT_S):
            async for _ in scenes:
                pass


async def test_another_team_of_the_name_begins_anew(app: App) -> None:
    team = app.teams.open("alpha")
    following = TeamFollower(team)
    for _ in range(5):
        await team.tasks.add("Old", by=LEAD)
    assert len((await following.look()).tasks) == 5
    await app.teams.delete("alpha", by=LEAD)
    await app.teams.create("alpha", cwd="/")
    for _ in range(20):
        await team.tasks.add("New", by=LEAD)
    assert {task.subject for task in (await following.look()).tasks} == {"New"}


async def test_while_the_store_cannot_be_read_the_last_scene_says_so(
    app: App, tmp_path: Path
) -> None:
    team = app.teams.open("alpha")
    config = tmp_path / "teams" / "alpha" / "config.json"
    whole = config.read_bytes()
    async with aclosing(TeamFollower(team).scenes()) as scenes:
        first = await until(scenes, 1)
        config.write_bytes(b"{")
        with anyio.fail_after(WAIT_S):
            troubled = await anext(scenes)
        assert "config.json" in troubled.problems[0]
        assert troubled.members == first.members
        config.write_bytes(whole)
        with anyio.fail_after(WAIT_S):
            while (await anext(scenes)).problems:
                pass


async def test_a_team_that_cannot_be_read_at_first_is_no_empty_team(
    app: App, tmp_path: Path
) -> None:
    (tmp_path / "teams" / "alpha" / "config.json").write_bytes(b"{")
    with pytest.raises(Unavailable):
        await TeamFollower(app.teams.open("alpha")).look()


class NoLog(FileStore):
    """A store whose log must not be read."""

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        raise AssertionError("the log was read")

    async def recent_events(self, team: str) -> list[Event]:
        raise AssertionError("the log was read")


async def test_the_first_look_does_not_need_the_log(app: App, tmp_path: Path) -> None:
    team = app.teams.open("alpha")
    await team.tasks.add("Look", by=LEAD)
    await team.mailbox.send("ann", "Hello", sender=LEAD)
    scene, story = await TeamFollower(Teams(NoLog(tmp_path)).open("alpha")).first_look()
    assert [(card.name, card.unread) for card in scene.members] == [(LEAD, 0), ("ann", 1)]
    assert [task.subject for task in scene.tasks] == ["Look"]
    assert not story.has_log
    assert (story.said, story.told) == ([], [])


@pytest.mark.parametrize("seed", range(6))
async def test_the_first_look_shows_what_the_log_says_except_for_times(seed: int) -> None:
    teams = Teams(MemoryStore())
    await teams.create("alpha", cwd="/")
    team = teams.open("alpha")
    for name in ("ann", "bob"):
        await team.roster.join(name, by=LEAD)
    fate = Fate(team, seed)
    for _ in range(60):
        await fate.strike()
        first, _ = await TeamFollower(team).first_look()
        later = await TeamFollower(team).look()
        assert _timeless(first) == _timeless(later)


def _timeless(scene: Scene) -> Scene:
    # Without a heartbeat, the records alone do not say whether an agent is in a turn.
    members = tuple(
        replace(card, since_ms=None, state="idle" if card.state == "working" else card.state)
        for card in scene.members
    )
    tasks = tuple(replace(card, since_ms=None) for card in scene.tasks)
    return replace(scene, members=members, tasks=tasks, began_ms=None)


async def test_a_change_makes_only_the_cards_that_it_concerns(app: App) -> None:
    team = app.teams.open("alpha")
    following = TeamFollower(team)
    first = await team.tasks.add("First", by=LEAD)
    await team.tasks.add("Second", by=LEAD, blocked_by=[first.id])
    await team.tasks.add("Third", by=LEAD)
    before = await following.look()
    assert (await following.look()).tasks is before.tasks
    await team.mailbox.send("ann", "Hello", sender=LEAD)
    assert (await following.look()).tasks is before.tasks
    await team.tasks.claim(first.id, by=LEAD)
    await team.tasks.done(first.id, by=LEAD)
    after = await following.look()
    assert [card.state for card in after.tasks] == ["done", "ready", "ready"]
    assert _same(before.tasks, after.tasks) == ["Third"]


def _same(before: tuple[TaskCard, ...], after: tuple[TaskCard, ...]) -> list[str]:
    return [old.subject for old, new in zip(before, after, strict=True) if old is new]


class TestQuiet:
    """Every second is a tick of the clock, at 1, 2, 3 ...; work takes no time unless said."""

    def quiet(self) -> _Quiet:
        quiet = _Quiet(1.0)
        assert not quiet.was(100.0)
        quiet.begin(100.0, read=True)
        return quiet

    def test_a_wake_up_by_the_clock_needs_no_log(self) -> None:
        assert self.quiet().was(101.0)

    def test_a_wake_up_before_its_time_is_a_change(self) -> None:
        assert not self.quiet().was(100.7)

    def test_a_wake_up_after_long_work_may_be_a_change(self) -> None:
        quiet = self.quiet()
        assert quiet.was(101.0)
        quiet.begin(102.5, read=False)
        assert not quiet.was(102.5)

    def test_the_log_is_read_from_time_to_time_all_the_same(self) -> None:
        quiet, read = self.quiet(), []
        for now in range(101, 125):
            unchanged = quiet.was(float(now))
            quiet.begin(float(now), read=not unchanged)
            read += [] if unchanged else [now]
        assert read == [110, 120]


class TestActs:
    async def test_a_call_is_allowed_with_another_input(self, app: App) -> None:
        team, acts = app.teams.open("alpha"), PersonActions(app, "alpha")
        asked = await team.approvals.ask_permission("Bash", {"command": "rm -r /"}, by="ann")
        text = shown_input({"command": "ls"})
        given = await acts.approve(asked.id, digest=asked.digest, changed=text, words="Careful")
        assert given.request.state == "approved"
        assert given.request.voice == "human"
        assert (given.request.answer or {})["updatedInput"] == {"command": "ls"}
        texts = [entry.message.text for entry in (await team.mailbox.read("ann")).entries]
        assert "Careful" in texts

    @pytest.mark.parametrize(
        "text", ["{", "[]", json.dumps({"command": "[secret 1]"}), json.dumps({"nothing": 1})]
    )
    async def test_an_input_that_cannot_be_is_refused(self, app: App, text: str) -> None:
        team, acts = app.teams.open("alpha"), PersonActions(app, "alpha")
        asked = await team.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
        with pytest.raises(Invalid):
            await acts.approve(asked.id, digest=asked.digest, changed=text)
        assert (await team.approvals.get(asked.id)).state == "pending"

    async def test_another_question_than_the_one_that_was_seen_is_not_answered(
        self, app: App
    ) -> None:
        team, acts = app.teams.open("alpha"), PersonActions(app, "alpha")
        asked = await team.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
        with pytest.raises(Invalid, match="has changed"):
            await acts.deny(asked.id, digest="another", why=None)
        denied = await acts.deny(asked.id, digest=asked.digest, why="Not now")
        assert denied.request.state == "denied"
        with pytest.raises(Refused):
            await acts.approve(asked.id, digest=asked.digest)

    async def test_one_is_written_to_and_all_are(self, app: App) -> None:
        team, acts = app.teams.open("alpha"), PersonActions(app, "alpha")
        await acts.send("ann", "You")
        await acts.send(EVERYBODY, "All")
        texts = [entry.message.text for entry in (await team.mailbox.read("ann")).entries]
        assert texts == ["You", "All"]
        with pytest.raises(Invalid):
            await acts.send("ann", " \n")
        with pytest.raises(NotFound):
            await acts.send("nobody", "You")

    async def test_a_task_is_given_to_a_member(self, app: App) -> None:
        team, acts = app.teams.open("alpha"), PersonActions(app, "alpha")
        await team.tasks.add("Look", by=LEAD)
        assert (await acts.assign("1", "ann")).owner == "ann"
        with pytest.raises(NotFound):
            await acts.stop("ann")
