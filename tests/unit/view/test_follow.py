"""Following a team, and acting in it as a person."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from bullpen.app.app import App, open_app
from bullpen.app.settings import settings_from
from bullpen.doors.actions.answer import shown_input
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.errors import Invalid, NotFound, Refused, Unavailable
from bullpen.protocol.names import EVERYBODY, LEAD
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import Scene

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
