"""Links that answer: one tap answers once, and nothing else does. Each row is one trick."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import httpx2
import pytest

from bullpen.errors import Unavailable
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.runs.reach.answer_keys import UsedLinks, answer_key
from bullpen.runs.reach.answer_links import NUMBER_BYTES, link_to, signed, verified
from bullpen.runs.reach.browsers import Browsers
from support.doors.web_stage import HOSTILE, PLAN, TEAM, Served, ask, field, served
from support.reach.pushed import SubscribedBrowser

pytestmark = pytest.mark.anyio

HOUR = 3_600_000


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("stage"), in_process=True) as found:
        yield found


@pytest.fixture(autouse=True)
async def _fresh_limits(stage: Served) -> None:
    """Each test has its own tries."""
    fresh = type(stage.board.answers._bad)
    stage.board.answers._bad = fresh(30)


@dataclass(slots=True)
class Tapped:
    """A request, a link to it, and a phone without a session."""

    stage: Served
    request: Request
    phone: httpx2.AsyncClient
    token: str

    @property
    def path(self) -> str:
        return f"/answer/{self.token}"

    async def state(self) -> str:
        return (await self.stage.team.approvals.get(self.request.id)).state

    async def tap(self, choice: str = "allow", **more: Any) -> httpx2.Response:
        return await self.phone.post(self.path, data={"choice": choice}, **more)


def made(
    stage: Served,
    request: Request,
    choice: Any = "allow",
    *,
    team: str = TEAM,
    key: bytes | None = None,
    life_ms: int = HOUR,
) -> str:
    link = link_to(
        request, team, choice,
        number=secrets.token_bytes(NUMBER_BYTES), now_ms=now_ms(), life_ms=life_ms,
    )  # fmt: skip
    return signed(link, key or answer_key(stage.bullpen_app.settings.home))


@pytest.fixture
async def tapped(stage: Served) -> AsyncIterator[Tapped]:
    request = await ask(stage.team, "bob", f"git push origin {secrets.token_hex(4)}")
    async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as phone:
        yield Tapped(stage, request, phone, made(stage, request))


# ── what works ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("choice", "state"), [("allow", "approved"), ("deny", "denied")])
@pytest.mark.parametrize("opened", [False, True])
async def test_one_tap_answers_as_a_person(
    tapped: Tapped, choice: str, state: str, opened: bool
) -> None:
    tapped.token = made(tapped.stage, tapped.request, "open" if opened else choice)
    page = await tapped.phone.get(tapped.path)
    assert page.status_code == 200
    assert str(tapped.request.subject["input"]["command"]) in page.text
    assert ('value="allow"' in page.text) is (opened or choice == "allow")
    assert ('value="deny"' in page.text) is (opened or choice == "deny")
    answer = await tapped.tap(choice)
    assert answer.status_code == 200
    given = await tapped.stage.team.approvals.get(tapped.request.id)
    assert (given.state, given.voice) == (state, "human")


async def test_a_question_is_answered_in_words_or_by_an_option(stage: Served) -> None:
    questions = [
        {"question": "Which?", "header": "Q", "options": [{"label": "One"}, {"label": "Two"}]}
    ]
    for form, said in (({"words": "Neither"}, "Neither"), ({"option": "2"}, "Two")):
        request = await stage.team.approvals.ask_question(questions, by="bob")
        token = made(stage, request, "open")
        async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as phone:
            page = await phone.get(f"/answer/{token}")
            assert "Which?" in page.text
            empty = await phone.post(f"/answer/{token}", data={"choice": "allow", "words": " "})
            assert empty.status_code == 400
            answer = await phone.post(f"/answer/{token}", data={"choice": "allow", **form})
        assert answer.status_code == 200
        given = await stage.team.approvals.get(request.id)
        assert said in str(given.answer)


async def test_a_plan_is_shown_whole_and_approved(stage: Served) -> None:
    (plan,) = [each for each in await stage.team.approvals.pending() if each.kind == "plan"]
    async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as phone:
        path = f"/answer/{made(stage, plan)}"
        page = await phone.get(path)
        assert "Measure" in page.text
        assert PLAN.split("\n", 1)[0].strip("# ") in page.text
        assert (await phone.post(path, data={"choice": "allow"})).status_code == 200
    assert (await stage.team.approvals.get(plan.id)).state == "approved"


async def test_what_agents_write_is_text_on_the_page(stage: Served) -> None:
    async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as phone:
        for text in HOSTILE:
            request = await ask(stage.team, "bob", text)
            page = await phone.get(f"/answer/{made(stage, request)}")
            assert page.status_code == 200
            for bad in ("<script", "<img", "<svg onload", "<b>", "\x1b", "\u202e"):
                assert bad not in page.text.replace('<svg viewBox="', "").replace(
                    "<b>alpha</b>", ""
                ).replace("<b>bob</b>", ""), bad


async def test_a_page_loads_nothing_from_elsewhere_and_tells_nobody(tapped: Tapped) -> None:
    page = await tapped.phone.get(tapped.path)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    assert "set-cookie" not in page.headers
    assert "//" not in page.text.replace("<!doctype html>", "")
    for name in ("/answer.css", "/icon.svg"):
        assert name in page.text
        assert (await tapped.phone.get(name)).status_code == 200


# ── what does not ────────────────────────────────────────────────────────────────────────────────

Trick = Callable[[Tapped], Any]


async def _opened(at: Tapped) -> httpx2.Response:
    for _ in range(5):
        page = await at.phone.get(at.path, headers={"User-Agent": "Slackbot-LinkExpanding 1.0"})
    return page


async def _asked_for_its_head(at: Tapped) -> httpx2.Response:
    return await at.phone.head(at.path)


async def _with_a_choice_in_the_address(at: Tapped) -> httpx2.Response:
    return await at.phone.get(f"{at.path}?choice=allow")


def _method(name: str) -> Trick:
    return lambda at: at.phone.request(name, at.path, data={"choice": "allow"})


def _tap(choice: str = "allow", **more: Any) -> Trick:
    return lambda at: at.tap(choice, **more)


def _token(change: Callable[[Tapped], str]) -> Trick:
    async def trick(at: Tapped) -> httpx2.Response:
        at.token = change(at)
        return await at.tap()

    return trick


def _changed(at: Tapped) -> str:
    return made(at.stage, at.request.evolve(subject={"toolName": "Bash", "input": {}}))


def _of_nobody(at: Tapped) -> str:
    return made(at.stage, at.request.evolve(id="perm-1-nothing"))


def _flipped(at: Tapped) -> str:
    return at.token[:-3] + ("b" if at.token[-3] != "b" else "c") + at.token[-2:]


def _body(content: bytes, kind: str = "application/x-www-form-urlencoded") -> Trick:
    return lambda at: at.phone.post(at.path, content=content, headers={"Content-Type": kind})


def _header(**headers: str) -> Trick:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return _tap(headers=named)


async def _expired(at: Tapped) -> httpx2.Response:
    at.token = made(at.stage, at.request, life_ms=0)
    return await at.tap()


TRICKS: dict[str, tuple[Trick, int]] = {
    "opened, also by a chat that previews it": (_opened, 200),
    "asked for its head": (_asked_for_its_head, 200),
    "opened with the choice in the address": (_with_a_choice_in_the_address, 200),
    "PUT": (_method("PUT"), 405),
    "DELETE": (_method("DELETE"), 405),
    "PATCH": (_method("PATCH"), 405),
    "OPTIONS": (_method("OPTIONS"), 405),
    "an invented method": (_method("ALLOW"), 405),
    "made up": (_token(lambda at: "a" * 104), 403),
    "empty": (_token(lambda at: ""), 404),
    "one letter changed": (_token(_flipped), 403),
    "one letter more": (_token(lambda at: at.token + "a"), 403),
    "written in capitals": (_token(lambda at: at.token.upper()), 403),
    "a path in it": (_token(lambda at: f"../act/approve/{at.token}"), 401),
    "a path in it, written in code": (_token(lambda at: f"%2e%2e%2fanswer%2f{at.token}"), 404),
    "very long": (_token(lambda at: "a" * 20_000), 403),
    "signed with another key": (_token(lambda at: made(at.stage, at.request, key=bytes(32))), 403),
    "of another team": (_token(lambda at: made(at.stage, at.request, team="beta")), 403),
    "of a request that is not there": (_token(_of_nobody), 410),
    "of a request that has changed": (_token(_changed), 409),
    "expired": (_expired, 410),
    "a link to deny that allows": (
        _token(lambda at: made(at.stage, at.request, "deny")), 400,
    ),
    "no choice": (_body(b""), 400),
    "another choice": (_tap("always"), 400),
    "two choices, the wrong one last": (_body(b"choice=allow&choice=open"), 400),
    "a huge body": (_body(b"choice=allow&words=" + b"a" * 2_000_000), 400),
    "a thousand fields": (_body(b"&".join(b"a=b" for _ in range(1_000))), 400),
    "JSON": (_body(b'{"choice": "allow"}', "application/json"), 400),
    "plain text, which needs no leave of browsers": (_body(b"choice=allow", "text/plain"), 400),
    "another host name": (_header(Host="evil.example"), 400),
    "a host name that ends in ours": (_header(Host="127.0.0.1.evil.example"), 400),
    "a form of another site": (_header(Origin="https://evil.example"), 403),
    "a form without an origin": (_header(Origin="null"), 403),
    "a script of another site": (_header(Sec_Fetch_Site="cross-site"), 403),
    "a neighbour of our site": (_header(Sec_Fetch_Site="same-site"), 403),
}  # fmt: skip


@pytest.mark.parametrize("name", TRICKS)
async def test_nothing_but_a_tap_on_a_good_link_answers(tapped: Tapped, name: str) -> None:
    trick, status = TRICKS[name]
    good = tapped.path
    answer = await trick(tapped)
    assert answer.status_code == status
    assert await tapped.state() == "pending"
    if status != 200:
        # A plain page, which shows nothing of the request.
        assert str(tapped.request.subject["input"]["command"]) not in answer.text
    # And the good link is still good.
    assert (await tapped.phone.post(good, data={"choice": "allow"})).status_code == 200
    assert await tapped.state() == "approved"


async def test_a_link_works_once(tapped: Tapped) -> None:
    assert (await tapped.tap()).status_code == 200
    for again in (await tapped.tap(), await tapped.phone.get(tapped.path)):
        assert again.status_code == 410
        assert "used already" in again.text


async def test_of_many_taps_at_once_one_answers(tapped: Tapped) -> None:
    found: list[int] = []

    async def tap() -> None:
        found.append((await tapped.tap()).status_code)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(tap)
    assert found.count(200) == 1
    assert set(found) <= {200, 409, 410}


async def test_the_other_links_of_an_answered_request_do_nothing(tapped: Tapped) -> None:
    deny = Tapped(
        tapped.stage, tapped.request, tapped.phone, made(tapped.stage, tapped.request, "deny")
    )
    await tapped.tap()
    late = await deny.tap("deny")
    assert late.status_code == 409
    assert await tapped.state() == "approved"


async def test_a_request_that_somebody_else_answered_stays_as_it_is(tapped: Tapped) -> None:
    await tapped.stage.team.approvals.answer(
        tapped.request.id, approve=False, by=LEAD, voice="human", digest=tapped.request.digest
    )
    assert (await tapped.tap()).status_code == 409
    assert await tapped.state() == "denied"


async def test_a_used_link_stays_used_after_a_restart(tapped: Tapped, tmp_path: Path) -> None:
    await tapped.tap()
    # The record is in files of the home; nothing of it is in the server.
    used = UsedLinks(tapped.stage.bullpen_app.settings.home)
    link = verified(tapped.token, answer_key(tapped.stage.bullpen_app.settings.home))
    assert link is not None
    assert used.has(link)


async def test_a_link_stays_good_if_the_store_was_away(tapped: Tapped) -> None:
    away = mock.AsyncMock(side_effect=Unavailable("The store is away."))
    with mock.patch.object(tapped.stage.board.answers._actions, "approve", away):
        assert (await tapped.tap()).status_code == 503
    assert (await tapped.tap()).status_code == 200


async def test_a_server_to_look_at_answers_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, in_process=True, read_only=True) as stage:
        request = await ask(stage.team, "bob")
        async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as phone:
            path = f"/answer/{made(stage, request)}"
            assert (await phone.get(path)).status_code == 404
            assert (await phone.post(path, data={"choice": "allow"})).status_code == 404
        assert (await stage.team.approvals.get(request.id)).state == "pending"


async def test_who_guesses_is_stopped_and_keeps_nobody_out(tapped: Tapped) -> None:
    found = [
        (await tapped.phone.post(f"/answer/{'a' * number}", data={"choice": "allow"}))
        for number in range(1, 41)
    ]
    assert [each.status_code for each in found] == [403] * 30 + [429] * 10
    assert found[-1].headers["retry-after"] == "60"
    assert (await tapped.tap()).status_code == 200


async def test_a_good_link_is_not_opened_without_end(tapped: Tapped) -> None:
    found = [(await tapped.phone.get(tapped.path)).status_code for _ in range(25)]
    assert found == [200] * 20 + [429] * 5


async def test_a_link_gives_no_other_page(tapped: Tapped) -> None:
    for path in ("/", "/waiting", "/events?page=overview", "/static/act.js", "/push"):
        assert (await tapped.phone.get(path)).status_code == 401
    assert (await tapped.phone.post("/act/approve", data={})).status_code == 401
    assert (await tapped.phone.post("/push/subscribe", data={})).status_code == 401


# ── pushes ───────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _signed_in(
    stage: Served, *, looking: bool = False
) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as client:
        token = stage.tokens.looking if looking else stage.tokens.acting
        await client.get(f"/?token={token}")
        page = (await client.get("/task?id=1")).text
        yield client, field(page, "csrf") if 'name="csrf"' in page else ""


async def _subscribe(
    client: httpx2.AsyncClient, csrf: str, said: Any, what: str = "subscribe"
) -> int:
    form = {"csrf": csrf, "subscription": json.dumps(said)}
    answer = await client.post(f"/push/{what}", data=form, headers={"Accept": "application/json"})
    return answer.status_code


async def test_a_visitor_who_may_act_subscribes_a_browser_and_ends_that(stage: Served) -> None:
    browsers = Browsers(stage.bullpen_app.settings.home)
    browser = SubscribedBrowser("https://push.example.com/one")
    async with _signed_in(stage) as (client, csrf):
        assert (await client.get("/push")).json() == {"key": browsers.public_key()}
        for _ in range(2):
            assert await _subscribe(client, csrf, browser.described) == 200
        assert browsers.of(TEAM) == [browser.of(TEAM)]
        assert browsers.of("beta") == []
        assert await _subscribe(client, csrf, browser.described, "unsubscribe") == 200
        assert await _subscribe(client, csrf, browser.described, "nothing") == 404
    assert browsers.of(TEAM) == []


@pytest.mark.parametrize(
    "said",
    [
        None, [], "x", {},
        {"endpoint": "http://push.example.com/a"},
        {"endpoint": "file:///etc/passwd"},
        {"endpoint": "https://me:secret@push.example.com/a"},
        {"endpoint": "https://push.example.com/\n"},
        {"endpoint": "https://push.example.com/" + "a" * 2_000},
        {"keys": {"p256dh": "short", "auth": "short"}},
        {"keys": None},
    ],
)  # fmt: skip
async def test_what_is_no_subscription_is_not_kept(stage: Served, said: Any) -> None:
    whole = SubscribedBrowser().described
    async with _signed_in(stage) as (client, csrf):
        given = {**whole, **said} if isinstance(said, dict) and said else said
        assert await _subscribe(client, csrf, given) == 400
    assert Browsers(stage.bullpen_app.settings.home).of(TEAM) == []


async def test_who_may_only_look_gets_no_pushes_as_they_carry_links_that_answer(
    stage: Served,
) -> None:
    async with _signed_in(stage, looking=True) as (client, csrf):
        assert await _subscribe(client, csrf, SubscribedBrowser().described) == 403
        assert 'id="push"' not in (await client.get("/")).text


async def test_a_subscription_without_the_proof_of_the_session_is_refused(stage: Served) -> None:
    async with _signed_in(stage) as (client, _):
        assert await _subscribe(client, "wrong", SubscribedBrowser().described) == 403
        assert 'id="push"' in (await client.get("/")).text


async def test_the_service_worker_has_the_scope_of_all_pages_and_no_secret(stage: Served) -> None:
    async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as client:
        found = await client.get("/sw.js")
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/javascript")
    assert "worker-src 'self'" in found.headers["content-security-policy"]
