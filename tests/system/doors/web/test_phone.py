"""A phone: a browser is subscribed, gets a push, and answers by the link in it with one tap."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from bullpen.runs.reach.browsers import Browsers
from bullpen.runs.reach.courier import ProcessCourier
from bullpen.runs.reach.person_notices import PersonNotices
from bullpen.runs.reach.request_links import RequestLinks
from bullpen.runs.reach.targets import Target
from bullpen.view.notable_events import happenings
from support.doors.web_browser import chromium, needs_chromium
from support.doors.web_stage import TEAM, Served, ask, served
from support.reach.pushed import SubscribedBrowser
from support.reach.receivers import Receiver, created, receiver

pytestmark = [pytest.mark.anyio, needs_chromium]

PICTURES = os.environ.get("BULLPEN_WEB_PICTURES")
"""A folder for pictures of what a phone shows."""

PHONE = {"width": 390, "height": 844}

# Chromium would ask its vendor's service for an endpoint. Its keys and ours are the same here.
SUBSCRIBES = """
const described = %s;
PushManager.prototype.subscribe = async function (options) {
  window.subscribedWith = [...new Uint8Array(options.applicationServerKey)].length;
  window.isSubscribed = true;
  const unsubscribe = async () => { window.isSubscribed = false; return true; };
  return { ...described, toJSON: () => described, unsubscribe };
};
PushManager.prototype.getSubscription = async function () {
  return window.isSubscribed ? this.subscribe({ applicationServerKey: new Uint8Array(65) }) : null;
};
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@asynccontextmanager
async def phone(browser: Browser, *, dark: bool = False) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(
        viewport=PHONE,  # type: ignore[arg-type]
        has_touch=True,
        is_mobile=True,
        device_scale_factor=2,
        color_scheme="dark" if dark else "light",
    )
    try:
        yield context
    finally:
        await context.close()


async def picture(page: Page, name: str) -> None:
    if PICTURES:
        await page.screenshot(path=f"{PICTURES}/{name}.png")


async def pushed(stage: Served, service: Receiver, browser: SubscribedBrowser) -> dict[str, Any]:
    """What a browser gets about the newest event, by way of a run's notices."""
    home = stage.bullpen_app.settings.home
    environ = {**os.environ, **service.environ}
    told: list[str] = []
    notices = PersonNotices(
        stage.team,
        kept=home / "reach.json",
        links=RequestLinks(stage.team, home, lambda: stage.url),
        browsers=Browsers(home),
        courier=ProcessCourier(environ),
        environ=environ,
        redacted=lambda text: text,
        tell=told.append,
    )
    async with notices.opened([Target()]):
        last = await stage.team.last_seq()
        for event in await stage.team.events(after=last - 1):
            for happening in happenings(TEAM, event):
                notices.hear(happening)
        await notices.drain(within_s=60)
    assert told == []
    return browser.read(service.to("push.example.com")[-1].body)


async def test_a_phone_is_subscribed_and_answers_from_a_push_with_one_tap(
    tmp_path: Path, browser: Browser
) -> None:
    mine = SubscribedBrowser()
    async with served(tmp_path) as stage, receiver(tmp_path) as service, phone(browser) as context:
        service.respond = created
        await context.grant_permissions(["notifications"], origin=stage.url)
        await context.add_init_script(SUBSCRIBES % json.dumps(mine.described))
        page = await context.new_page()
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "console", lambda said: troubles.append(said.text) if said.type == "error" else None
        )
        await page.goto(f"{stage.url}/?token={stage.tokens.acting}")
        await page.get_by_role("button", name="Push to this device").tap()
        said = page.locator("#toasts")
        await expect(said).to_contain_text("gets a notice when something waits", timeout=15_000)
        await expect(page.locator("#push")).to_have_attribute("aria-pressed", "true")
        assert await page.evaluate("window.subscribedWith") == 65
        scope = "navigator.serviceWorker.ready.then((worker) => worker.scope)"
        assert await page.evaluate(scope) == f"{stage.url}/"
        assert Browsers(stage.bullpen_app.settings.home).of(TEAM) == [mine.of(TEAM)]
        await picture(page, "phone-dashboard")

        request = await ask(stage.team, "bob", "git push origin main --follow-tags")
        got = await pushed(stage, service, mine)
        assert got["title"] == "Bullpen: alpha needs you"
        await _shown_by_the_worker(page, stage, got)

        # The link is opened where nobody is signed in.
        async with phone(browser) as elsewhere:
            tab = await elsewhere.new_page()
            await tab.goto(got["link"])
            await expect(tab.locator(".exactly")).to_contain_text(
                "git push origin main --follow-tags"
            )
            wide = "document.documentElement.scrollWidth > window.innerWidth"
            assert not await tab.evaluate(wide)
            await _is_easy_to_tap(tab)
            await picture(tab, "phone-answer")
            await tab.get_by_role("button", name="Allow").tap()
            await expect(tab.get_by_role("heading", name="Allowed")).to_be_visible()
            await picture(tab, "phone-allowed")
            await tab.goto(got["actions"]["deny"])
            await expect(tab.get_by_role("heading")).to_have_text("This was answered already")
            await picture(tab, "phone-late")
        given = await stage.team.approvals.get(request.id)
        assert (given.state, given.voice) == ("approved", "human")
        assert troubles == []

        await page.get_by_role("button", name="Pushing to this device").tap()
        await expect(said).to_contain_text("gets no notices any more")
        assert Browsers(stage.bullpen_app.settings.home).of(TEAM) == []


async def _is_easy_to_tap(tab: Page) -> None:
    """Both buttons are in view without scrolling, and as large as a thumb needs."""
    for name in ("Allow", "Deny"):
        box = await tab.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["height"] >= 48
        assert box["width"] >= 120
        assert box["y"] + box["height"] <= PHONE["height"]


async def _shown_by_the_worker(page: Page, stage: Served, got: dict[str, Any]) -> None:
    """Our service worker shows the push, with its two buttons."""
    session = await page.context.new_cdp_session(page)
    registrations: list[dict[str, Any]] = []
    there = anyio.Event()

    def registered(event: dict[str, Any]) -> None:
        registrations.extend(event["registrations"])
        there.set()

    session.on("ServiceWorker.workerRegistrationUpdated", registered)
    await session.send("ServiceWorker.enable")
    with anyio.fail_after(10):
        await there.wait()
    await session.send(
        "ServiceWorker.deliverPushMessage",
        {
            "origin": stage.url,
            "registrationId": registrations[-1]["registrationId"],
            "data": json.dumps(got),
        },
    )
    look = """async () => {
      const worker = await navigator.serviceWorker.ready;
      return (await worker.getNotifications()).map((each) => ({
        title: each.title, body: each.body, tag: each.tag, link: each.data.link,
        actions: each.actions.map((action) => action.title),
      }));
    }"""
    found: list[dict[str, Any]] = []
    with anyio.fail_after(10):
        while not found:
            found = await page.evaluate(look)
            await anyio.sleep(0.05)
    assert found == [
        {
            "title": got["title"], "body": got["words"], "tag": got["tag"], "link": got["link"],
            "actions": ["Allow", "Deny"],
        }
    ]  # fmt: skip


async def test_a_phone_shows_changes_and_plans_in_the_dark_without_scripts(
    tmp_path: Path, browser: Browser
) -> None:
    async with served(tmp_path) as stage, phone(browser, dark=True) as context:
        home = stage.bullpen_app.settings.home
        links = RequestLinks(stage.team, home, lambda: stage.url)
        page = await context.new_page()
        events = await stage.team.events(after=0)
        asked = [each for event in events for each in happenings(TEAM, event) if each.request]
        for number, happening in enumerate(asked):
            made = await links.of(happening, life_ms=3_600_000)
            assert made is not None
            await page.goto(made[-1].address)
            await expect(page.locator(".exactly")).to_be_visible()
            assert await page.evaluate("document.scripts.length") == 0
            await picture(page, f"phone-dark-{number}")
        await page.goto(f"{stage.url}/answer/{'a' * 104}")
        await expect(page.get_by_role("heading")).to_have_text("This link is not valid")
        await picture(page, "phone-dark-forged")
