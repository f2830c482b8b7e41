"""A home that an earlier commit wrote is read whole, left as it is, and goes on."""

from __future__ import annotations

import json
from pathlib import Path

import bullpen
from bullpen.app.settings import Settings, settings_from

from .stage import HOST, contents, copy_home

TEAMS = ["desk", "foreign", "post", "shop"]
LETTERS = 407


def settings(home: Path) -> Settings:
    return settings_from({"BULLPEN_HOME": str(home), "BULLPEN_HOST": HOST})


async def test_every_record_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    home = copy_home(tmp_path / "home")
    before = contents(home)
    async with bullpen.open_teams(settings(home)) as teams:
        assert sorted(await teams.names()) == TEAMS
        for name in TEAMS:
            team = teams.open(name)
            snapshot = await team.snapshot()
            assert snapshot.problems == ()
            stored = {path.stem for path in (home / "tasks" / name).glob("*.json")}
            assert {task.id for task in snapshot.tasks} == stored
            lines = (home / f"teams/{name}/.bullpen/events.jsonl").read_text("utf-8").splitlines()
            events = await team.events()
            assert [event.seq for event in events] == [json.loads(line)["seq"] for line in lines]
            for member in snapshot.team.roster:
                await team.mailbox.read(member.name, history=True)
        letters = (await teams.open("post").mailbox.read("ann", history=True)).entries
        assert len(letters) == LETTERS
    assert contents(home) == before


async def test_a_record_that_was_read_is_the_record_that_was_written(tmp_path: Path) -> None:
    home = copy_home(tmp_path / "home")
    async with bullpen.open_teams(settings(home)) as teams:
        for name in TEAMS:
            snapshot = await teams.open(name).snapshot()
            config = json.loads((home / f"teams/{name}/config.json").read_bytes())
            assert [member.raw for member in snapshot.team.roster] == config["members"]
            assert snapshot.team.raw == config
            for task in snapshot.tasks:
                path = home / f"tasks/{name}/{task.id}.json"
                assert task.raw == json.loads(path.read_bytes())


async def test_nothing_is_wrong_with_it(tmp_path: Path) -> None:
    home = copy_home(tmp_path / "home")
    before = contents(home)
    async with bullpen.open_app(settings(home)) as app:
        for name in TEAMS:
            assert await app.examine(name, fix=False) == []
    assert contents(home) == before


async def test_its_teams_go_on(tmp_path: Path) -> None:
    home = copy_home(tmp_path / "home")
    async with bullpen.open_teams(settings(home)) as teams:
        for name in TEAMS:
            team = teams.open(name)
            seen, known = len(await team.events()), len((await team.snapshot()).tasks)
            await team.mailbox.send(
                "ann" if name != "shop" else "team-lead", "Hi", sender="team-lead"
            )
            task = await team.tasks.add("One more", by="team-lead")
            assert await team.tasks.get(task.id) == task
            assert len((await team.snapshot()).tasks) == known + 1
            assert len(await team.events()) == seen + 2
            assert (await team.snapshot()).problems == ()
    async with bullpen.open_app(settings(home)) as app:
        assert await app.examine(None, fix=False) == []
