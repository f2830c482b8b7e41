"""Following a team for everybody who looks: what is sent, that nobody is kept, and how it ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.doors.web.app import dashboard
from bullpen.errors import NotFound, Unavailable
from bullpen.protocol.changes import Event
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team
from support.doors.web_stage import TEAM, Served, dashboard_of, hire, served

pytestmark = pytest.mark.anyio


async def small(app: App, *, cwd: Path) -> Team:
    await app.teams.create(TEAM)
    team = app.teams.open(TEAM)
    await hire(team, "alice", cwd=str(cwd))
    await team.tasks.add("First", by=LEAD)
    await team.tasks.add("Second", by=LEAD)
    return team


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Served]:
    with anyio.fail_after(30):
        async with served(tmp_path, make=small, in_process=True) as found:
            yield found


@asynccontextmanager
async def updates(stage: Served, page: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    headers = {"Authorization": f"Bearer {stage.tokens.acting}"}
    async with (
        httpx2.AsyncClient(base_url=stage.url, headers=headers, timeout=10) as client,
        client.stream("GET", f"/events?page={page}") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")

        async def told() -> AsyncIterator[dict[str, Any]]:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])

        yield told()


class SlowLog(FileStore):
    """A store whose log is read when somebody says so."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, fsync=False)
        self.go_on = anyio.Event()
        self.breaks = False

    async def recent_events(self, team: str) -> list[Event]:
        await self.go_on.wait()
        if self.breaks:
            raise Unavailable("The disk is gone.", remedy="Bring it back.")
        return await super().recent_events(team)


@pytest.mark.parametrize("breaks", [False, True], ids=["read", "unreadable"])
async def test_the_dashboard_is_there_before_the_log_is_read(tmp_path: Path, breaks: bool) -> None:
    store = SlowLog(tmp_path / "home")
    settings = settings_from({"HOME": str(tmp_path)}, home=tmp_path / "home")
    async with App(settings, {}, store=store) as app:
        team = await small(app, cwd=tmp_path)
        with anyio.fail_after(30):
            await _asked_early(app, team, store, breaks=breaks)


async def _asked_early(app: App, team: Team, store: SlowLog, *, breaks: bool) -> None:
    async with dashboard_of(app, team, None) as stage:
        headers = {"Authorization": f"Bearer {stage.tokens.acting}"}
        client = httpx2.AsyncClient(base_url=stage.url, headers=headers, timeout=10)
        async with client, anyio.create_task_group() as group:
            answers: list[httpx2.Response] = []

            async def ask(path: str) -> None:
                answers.append(await client.get(path))

            for path in ("/tasks", "/replay"):
                group.start_soon(ask, path)
            assert (await client.get("/static/drawing.css")).status_code == 200
            assert answers == []
            store.breaks = breaks
            store.go_on.set()
        assert {answer.status_code for answer in answers} == {503 if breaks else 200}
        shown = "The disk is gone." if breaks else "Second"
        assert all(shown in answer.text for answer in answers)


async def test_a_team_that_is_not_there_has_no_dashboard(tmp_path: Path) -> None:
    settings = settings_from({"HOME": str(tmp_path)}, home=tmp_path / "home")
    async with App(settings, {}) as app:
        with pytest.raises(NotFound):
            await dashboard(app, "nobody")


async def test_after_the_whole_page_only_what_changed_is_sent(stage: Served) -> None:
    async with updates(stage, "tasks") as told:
        whole = await anext(told)
        assert {"head", "task-1", "task-2", "graph"} <= set(whole["set"])
        assert whole["order"]["column-ready"] == ["task-1", "task-2"]
        await stage.team.tasks.claim("1", by="alice")
        change = await anext(told)
    assert "task-1" in change["set"]
    assert "task-2" not in change["set"]
    assert change["order"] == {"column-in_progress": ["task-1"], "column-ready": ["task-2"]}
    assert change["gone"] == []


async def test_what_does_not_show_on_a_page_is_not_sent_to_it(stage: Served) -> None:
    async with updates(stage, "waiting") as told:
        await anext(told)
        await stage.team.mailbox.send("alice", "Hello", sender=LEAD)
        await stage.team.approvals.ask_plan("Do it", by="alice", approver="human")
        change = await anext(told)
    assert {name.partition("-")[0] for name in change["set"]} == {"ask", "waits", "no"}


async def test_who_leaves_is_not_kept(stage: Served) -> None:
    for _ in range(3):
        async with updates(stage, "overview") as told:
            await anext(told)
            assert stage.board.live.streams == 1
        with anyio.fail_after(5):
            while stage.board.live.streams:  # noqa: ASYNC110
                await anyio.sleep(0.01)


async def test_when_the_team_is_deleted_pages_say_so(stage: Served) -> None:
    async with updates(stage, "overview") as told:
        await anext(told)
        await stage.bullpen_app.teams.delete(TEAM, by=LEAD, force=True)
        over = await anext(told)
        while "over" not in over:
            over = await anext(told)
        assert TEAM in over["over"]
    headers = {"Authorization": f"Bearer {stage.tokens.acting}"}
    async with httpx2.AsyncClient(base_url=stage.url, headers=headers) as client:
        page = await client.get("/")
    assert page.status_code == 404
    assert TEAM in page.text


async def test_a_board_shows_fifty_of_a_state_and_all_on_demand(stage: Served) -> None:
    for number in range(60):
        await stage.team.tasks.add(f"More {number}", by=LEAD)
    headers = {"Authorization": f"Bearer {stage.tokens.acting}"}
    async with httpx2.AsyncClient(base_url=stage.url, headers=headers) as client:
        with anyio.fail_after(5):
            while "Show all 62" not in (page := (await client.get("/tasks")).text):
                await anyio.lowlevel.checkpoint()
        assert page.count('class="card ') == 50
        whole = (await client.get("/tasks?all=ready")).text
        assert whole.count('class="card ') == 62


async def test_old_messages_are_paged(stage: Served) -> None:
    for number in range(210):
        await stage.team.mailbox.send("alice", f"Letter {number}.", sender=LEAD)
    headers = {"Authorization": f"Bearer {stage.tokens.acting}"}
    async with httpx2.AsyncClient(base_url=stage.url, headers=headers) as client:
        with anyio.fail_after(5):
            while "Letter 209." not in (page := (await client.get("/messages")).text):
                await anyio.lowlevel.checkpoint()
        assert "Letter 10." in page
        assert "Letter 9." not in page
        older = page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
        page = (await client.get(older)).text
        assert "Letter 9." in page
        assert "Letter 10." not in page
        found = (await client.get("/messages?text=letter+42.")).text
        assert found.count('class="letter') == 1
