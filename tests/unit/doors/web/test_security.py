"""Who may see and do what: without the token, from another site, by another name, nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from bullpen.team.team import Team
from support.doors.web_stage import HOSTILE, Served, field, hostile, served

pytestmark = pytest.mark.anyio

PAGES = (
    "/", "/tasks", "/messages", "/waiting", "/timeline", "/replay", "/replay/at?at=3",
    "/member?name=alice", "/transcript?name=alice", "/changes?member=alice", "/changes?task=1",
    "/task?id=1", "/static/act.js", "/static/icon.svg",
    "/events?page=overview", "/static/live.js", "/none",
)  # fmt: skip


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("stage"), in_process=True) as found:
        yield found


def browser(stage: Served, **more: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=stage.url, timeout=10, headers=more)


@asynccontextmanager
async def signed_in(stage: Served, *, looking: bool = False) -> AsyncIterator[httpx2.AsyncClient]:
    async with browser(stage) as client:
        token = stage.tokens.looking if looking else stage.tokens.acting
        answer = await client.get(f"/?token={token}")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        yield client


async def test_without_a_token_or_with_a_wrong_one_nothing_is_shown(stage: Served) -> None:
    async with browser(stage) as client:
        for page in PAGES:
            answer = await client.get(page)
            assert answer.status_code == 401, page
            assert "alice" not in answer.text
        assert (await client.get("/?token=wrong")).status_code == 401
        assert (await client.get("/?token=")).status_code == 401
        bearer = {"Authorization": "Bearer wrong"}
        assert (await client.get("/", headers=bearer)).status_code == 401
        stolen = {"Cookie": f"bullpen-{stage.port}={stage.tokens.acting}"}
        assert (await client.get("/", headers=stolen)).status_code == 401
        assert (await client.post("/act/send", data={"to": "alice"})).status_code == 401


async def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(
    stage: Served,
) -> None:
    async with browser(stage) as client:
        answer = await client.get(f"/?token={stage.tokens.acting}")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert str(stage.tokens.acting).lower() not in cookie
        page = await client.get("/")
        assert page.status_code == 200
        assert "alice" in page.text


async def test_a_code_signs_in_one_browser_and_is_no_token(stage: Served) -> None:
    code = stage.tokens.code()
    async with browser(stage) as thief:
        assert (
            await thief.get("/", headers={"Authorization": f"Bearer {code}"})
        ).status_code == 401
    async with browser(stage) as client:
        assert (await client.get(f"/?token={code}")).status_code == 303
        page = await client.get("/task?id=1")
        assert 'name="csrf"' in page.text
    async with browser(stage) as late:
        assert (await late.get(f"/?token={code}")).status_code == 401


async def test_no_page_has_a_token_in_it(stage: Served) -> None:
    async with signed_in(stage) as client:
        for page in PAGES:
            if page.startswith("/events"):
                continue
            answer = await client.get(page)
            assert answer.status_code == (404 if page == "/none" else 200), page
            text = answer.text
            assert str(stage.tokens.acting) not in text, page
            assert stage.tokens.looking not in text, page


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "localhost@evil.example", "", "[::2]:80"]
)
async def test_a_foreign_host_name_is_refused_before_anything_else(
    stage: Served, host: str
) -> None:
    async with signed_in(stage) as client:
        answer = await client.get("/", headers={"Host": host})
        assert answer.status_code == 400
        assert "alice" not in answer.text


async def test_names_of_this_machine_are_answered_on_any_port(stage: Served) -> None:
    bearer = {"Authorization": f"Bearer {stage.tokens.acting}"}
    async with browser(stage) as client:
        for host in ("localhost:9", "127.0.0.1", "[::1]:80", "LOCALHOST:8700"):
            assert (await client.get("/", headers={"Host": host, **bearer})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_a_form_or_a_stream_from_another_site_is_refused(
    stage: Served, headers: dict[str, str]
) -> None:
    async with signed_in(stage) as client:
        csrf = field((await client.get("/")).text, "csrf")
        form = {"to": "alice", "text": "hello", "csrf": csrf}
        assert (await client.post("/act/send", data=form, headers=headers)).status_code == 403
        stream = await client.get("/events?page=overview", headers=headers)
        assert stream.status_code == 403
    assert "hello" not in await mail(stage.team, "alice")


async def test_a_form_needs_the_proof_of_its_own_session(stage: Served) -> None:
    async with signed_in(stage) as client, signed_in(stage) as other:
        foreign = field((await other.get("/")).text, "csrf")
        for csrf in ({}, {"csrf": ""}, {"csrf": "guess"}, {"csrf": foreign}, {"csrf": "ü"}):
            answer = await client.post("/act/send", data={"to": "alice", "text": "hello", **csrf})
            assert answer.status_code == 403
            assert "another session" in answer.text
        own = field((await client.get("/")).text, "csrf")
        form = {"to": "alice", "text": "hello", "csrf": own}
        headers = {"Origin": stage.url, "Sec-Fetch-Site": "same-origin"}
        assert (await client.post("/act/send", data=form, headers=headers)).status_code == 303
    assert (await mail(stage.team, "alice")).count("hello") == 1


async def test_who_may_only_look_gets_no_form_and_no_answer_to_one(stage: Served) -> None:
    waiting = (await stage.team.approvals.pending())[0]
    async with signed_in(stage, looking=True) as client:
        for page in PAGES:
            if not page.startswith("/events"):
                assert 'method="post"' not in (await client.get(page)).text, page
        form = {"id": waiting.id, "digest": waiting.digest or "", "csrf": ""}
        for act in (*stage.board._acts_by_name, "none"):
            assert (await client.post(f"/act/{act}", data=form)).status_code == 403
    assert (await stage.team.approvals.get(waiting.id)).state == "pending"


async def test_in_read_only_mode_there_is_no_token_to_act_with(tmp_path: Path) -> None:
    async with served(tmp_path, read_only=True, in_process=True) as stage:
        assert stage.tokens.acting is None
        async with signed_in(stage, looking=True) as client:
            assert (await client.get("/")).status_code == 200
            assert (await client.post("/act/send", data={})).status_code == 403


async def test_a_code_of_a_read_only_server_lets_look_only(tmp_path: Path) -> None:
    async with served(tmp_path, read_only=True, in_process=True) as stage, browser(stage) as client:
        assert (await client.get(f"/?token={stage.tokens.code()}")).status_code == 303
        assert 'name="csrf"' not in (await client.get("/task?id=1")).text


async def test_every_answer_forbids_scripts_frames_caches_and_referrers(stage: Served) -> None:
    async with signed_in(stage) as client, browser(stage) as nobody:
        for page in PAGES:
            if page.startswith("/events"):
                continue
            for answer in (await client.get(page), await nobody.get(page)):
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "script-src 'self'" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["referrer-policy"] == "same-origin"
                # What the policy forbids is not there to begin with.
                assert " style=" not in answer.text
                assert "onclick" not in answer.text


async def test_a_form_leads_back_to_pages_of_ours_alone(stage: Served) -> None:
    async with signed_in(stage) as client:
        csrf = field((await client.get("/")).text, "csrf")
        for back, leads in (
            ("//evil.example/", "/"),
            ("https://evil.example/", "/"),
            ("/\\evil.example", "/"),
            ("/a\r\nSet-Cookie: x=y", "/"),
            ("/task?id=1", "/task?id=1"),
        ):
            form = {"to": "bob", "text": "hi", "csrf": csrf, "back": back}
            answer = await client.post("/act/send", data=form)
            assert answer.headers["location"] == leads


async def test_a_form_that_is_too_long_or_no_form_is_refused(stage: Served) -> None:
    async with signed_in(stage) as client:
        csrf = field((await client.get("/")).text, "csrf")
        long = {"to": "bob", "text": "x" * (1024 * 1024 + 1), "csrf": csrf}
        assert (await client.post("/act/send", data=long)).status_code == 400
        as_json = await client.post("/act/send", json={"to": "bob", "csrf": csrf})
        assert as_json.status_code == 400


async def test_whatever_teammates_write_is_shown_as_text(tmp_path: Path) -> None:
    async with served(tmp_path, make=hostile, in_process=True) as stage, signed_in(stage) as client:
        for page in (*PAGES, "/task?id=2", f"/messages?text={quote(HOSTILE[0])}"):
            if page.startswith("/events"):
                continue
            text = (await client.get(page)).text
            if page.startswith(("/static", "/replay/at")):
                continue
            assert "<script>window" not in text, page
            assert "<img" not in text, page
            assert "<svg onload" not in text, page
            assert "<b>bold" not in text, page
            assert "49<b>" not in text.replace("&lt;b&gt;", "<b>"), page
            for steering in "\u202e\x1b\x00":
                assert steering not in text, page
        board = (await client.get("/tasks")).text
        assert "&lt;script&gt;window.hacked = 1&lt;/script&gt;" in board


async def test_a_stream_cannot_be_broken_out_of(tmp_path: Path) -> None:
    async with served(tmp_path, make=hostile, in_process=True) as stage, signed_in(stage) as client:
        for page in ("overview", "tasks", "messages", "waiting", "member&name=alice"):
            async with client.stream("GET", f"/events?page={page}") as answer:
                lines = answer.aiter_lines()
                first = [await anext(lines) for _ in range(4)]
            assert first[0].startswith("retry:")
            assert first[2].startswith('data: {"set":{"head":"<div')
            assert first[3] == ""
            assert "<b>gone" not in first[2]


async def mail(team: Team, name: str) -> list[str]:
    return [entry.message.text for entry in (await team.mailbox.read(name)).entries]
