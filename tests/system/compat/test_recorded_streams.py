"""Teams that an earlier commit wrote on a server are read whole, left as they are, and go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bullpen
from bullpen.app.settings import settings_from
from bullpen.testing.nats import running

from .stage import HOST, recorded_rows
from .streams import dump, load

TEAMS = ["desk", "post", "shop"]
LETTERS = 407


def logged(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What is on a server, but for what readers leave there to know that they are up to date."""
    messages = [row for row in rows if "subject" in row and not row["subject"].endswith(".sync")]
    return [(row["seq"], row["subject"], row["data"]) for row in messages]


async def test_recorded_streams_are_read_whole_and_go_on(tmp_path: Path) -> None:
    before = recorded_rows()
    async with running(tmp_path / "nats") as cluster:
        url = cluster.urls[0]
        await load(url, before)
        assert logged(await dump(url)) == logged(before)
        env = {"BULLPEN_HOME": str(tmp_path), "BULLPEN_HOST": HOST, "BULLPEN_STORE": url}
        settings = settings_from(env)
        async with bullpen.open_app(settings) as app:
            assert await app.examine(None, fix=False) == []
            assert sorted(await app.teams.names()) == TEAMS
            for name in TEAMS:
                await read_whole(app.teams.open(name))
            letters = await app.teams.open("post").mailbox.read("ann", history=True)
            assert len(letters.entries) == LETTERS
            assert logged(await dump(url)) == logged(before)
            for name in TEAMS:
                await go_on(app.teams.open(name))
            assert await app.examine(None, fix=False) == []


async def read_whole(team: bullpen.Team) -> None:
    snapshot = await team.snapshot()
    assert snapshot.problems == ()
    events = await team.events()
    assert [event.seq for event in events] == list(range(1, snapshot.seq + 1))
    for member in snapshot.team.roster:
        await team.mailbox.read(member.name, history=True)


async def go_on(team: bullpen.Team) -> None:
    seen = len(await team.events())
    await team.mailbox.send("team-lead", "Hi", sender="team-lead")
    task = await team.tasks.add("One more", by="team-lead")
    assert await team.tasks.get(task.id) == task
    assert len(await team.events()) == seen + 2
