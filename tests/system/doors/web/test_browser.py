"""The dashboard in a real browser: every action, live, on a phone, without scripts, by keys."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from bullpen.agents.system.processes import host_name
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.names import LEAD
from support.doors.web_browser import chromium, needs_chromium, window
from support.doors.web_stage import HOSTILE, ask, hire, hostile, served, write

pytestmark = [pytest.mark.anyio, needs_chromium]

PAGES = {
    "overview": "/", "tasks": "/tasks", "messages": "/messages", "waiting": "/waiting",
    "member": "/member?name=alice", "task": "/task?id=2", "timeline": "/timeline",
    "replay": "/replay",
}  # fmt: skip
PICTURES = os.environ.get("BULLPEN_WEB_PICTURES")
"""A folder for pictures of every page at every width, dark and light. With it, all is looked at."""

LOOKS = (
    [(width, dark) for width in (390, 1280, 1920) for dark in (False, True)]
    if PICTURES
    else [(390, True), (1280, False)]
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


async def test_every_action_is_done_with_forms_of_the_pages(
    tmp_path: Path, browser: Browser
) -> None:
    async with served(tmp_path) as stage:
        gone = ProcessRecord.new(backend="subprocess", host=host_name(), pid=2**22, start="1-1")
        await hire(stage.team, "dave", place=gone)
        asked = {each.subject.get("plan") or str(each.subject["input"]): each.id
                 for each in await stage.team.approvals.pending()}  # fmt: skip
        push, tags, edit, plan = asked.values()
        async with window(browser, stage) as tab:
            page = tab.page
            await page.get_by_role("link", name="Waiting").click()

            first = page.locator(f'[id="ask-{push}"]')
            await first.get_by_text("Edit the input first").click()
            await first.get_by_label("Input as JSON").fill('{"command": "git push --dry-run"}')
            await first.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("Approved what bob asked for.")).to_be_visible()

            second = page.locator(f'[id="ask-{tags}"]')
            await second.get_by_label("Always").check()
            await second.get_by_role("button", name="Approve").click()
            await expect(second).to_have_count(0)

            third = page.locator(f'[id="ask-{edit}"]')
            await expect(third.get_by_text("+TWO")).to_be_visible()
            await third.get_by_label("Reason").fill("Not in capitals")
            await third.get_by_role("button", name="Deny").click()
            await expect(page.get_by_text("Denied what bob asked for.")).to_be_visible()

            fourth = page.locator(f'[id="ask-{plan}"]')
            await fourth.get_by_label("Mode after approval").select_option("acceptEdits")
            await fourth.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("alert")).to_contain_text("may have at most")
            await page.get_by_role("link", name="Go back").click()
            await fourth.get_by_label("Mode after approval").select_option("default")
            await fourth.get_by_label("Message to the agent").fill("Mind the tests")
            await fourth.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("No requests are waiting.")).to_be_visible()

            await page.get_by_role("link", name="Overview").click()
            await page.locator('select[name="to"]').select_option("@team")
            await page.get_by_label("Message", exact=True).fill("Well done.")
            await page.get_by_role("button", name="Send").click()
            await expect(page.get_by_text("Sent to @team.")).to_be_visible()

            await page.get_by_role("link", name="Tasks", exact=True).click()
            await page.locator("svg").get_by_role("link", name="Write the guide").click()
            await page.locator('select[name="to"]').select_option("carol")
            await page.get_by_role("button", name="Assign").click()
            await expect(page.get_by_text("Task 5 is assigned to carol.")).to_be_visible()

            await tab.go("/member?name=dave")
            await page.get_by_label("I am sure").check()
            await page.get_by_label("Reason").fill("Enough")
            await page.get_by_role("button", name="Stop dave").click()
            await expect(page.get_by_text("Stopped dave.")).to_be_visible()
            # The refusal above; a browser calls it an error.
            assert [each for each in tab.troubles if "403" not in each] == []

        answers = {each: await stage.team.approvals.get(each) for each in asked.values()}
        assert [answers[each].state for each in (push, tags, edit, plan)] == [
            "approved", "approved", "denied", "approved",
        ]  # fmt: skip
        assert answers[push].raw["answer"]["updatedInput"] == {"command": "git push --dry-run"}
        assert answers[tags].raw["answer"]["always"] is True
        assert answers[edit].raw["answer"]["feedback"] == "Not in capitals"
        assert (await stage.team.tasks.get("5")).owner == "carol"
        assert (await stage.team.agents.get("dave"))[1].phase == "ended"
        mail = (await stage.team.mailbox.read("bob")).entries
        assert "Well done." in [entry.message.text for entry in mail]


async def test_an_open_page_follows_the_team_and_keeps_what_somebody_writes(
    tmp_path: Path,
    browser: Browser,
) -> None:
    async with (
        served(tmp_path) as stage,
        window(browser, stage, width=390) as tab,
        window(browser, stage) as other,
    ):
        page, team = tab.page, stage.team
        await tab.go("/waiting")
        await expect(page.locator("#link")).to_have_text("live")
        card = page.locator('[id^="ask-"]').first
        await card.get_by_text("Edit the input first").click()
        await card.get_by_label("Reason").fill("half a sen")
        asked = await ask(team, "carol", "make release")
        await expect(page.locator(f'[id="ask-{asked.id}"]')).to_be_visible()
        await expect(page.locator("#waits")).to_contain_text("5")
        await expect(page.locator("#heard")).to_contain_text("5 waiting")
        await expect(card.get_by_label("Reason")).to_have_value("half a sen")
        await expect(card.get_by_label("Input as JSON")).to_be_visible()

        # Answered elsewhere, it goes away here.
        await team.approvals.answer(asked.id, approve=False, by=LEAD, voice="human")
        await expect(page.locator(f'[id="ask-{asked.id}"]')).to_have_count(0)

        await other.go("/tasks")
        await expect(other.page.locator("#column-ready")).to_contain_text("Write the guide")
        await team.tasks.claim("5", by="bob")
        await expect(other.page.locator("#column-in_progress")).to_contain_text("guide")
        await expect(other.page.locator("#column-ready > li")).to_have_count(0)
        await expect(other.page.locator("svg")).to_contain_text("in progress · bob")

        await tab.go("/member?name=alice")
        await write(stage.bullpen_app, "alice", {"kind": "text", "text": "And now it is fast."})
        await expect(page.locator("#rows")).to_contain_text("And now it is fast.")
        await team.mailbox.send("alice", "Thank you", sender="bob")
        await expect(page.locator("#letters > li").first).to_contain_text("Thank you")
        assert tab.troubles == []
        assert other.troubles == []


async def test_the_graph_zooms_by_buttons_keys_and_wheel(tmp_path: Path, browser: Browser) -> None:
    async with served(tmp_path) as stage, window(browser, stage) as tab:
        await tab.go("/tasks")
        svg, canvas = tab.page.locator("svg"), tab.page.locator("[data-zooms]")

        async def width() -> int:
            return int(str(await svg.get_attribute("width")))

        at_first = await width()
        await tab.page.get_by_role("button", name="Zoom in").click()
        assert await width() == round(at_first * 1.25)
        await canvas.focus()
        await tab.page.keyboard.press("-")
        assert await width() == at_first
        await canvas.hover()
        await tab.page.keyboard.down("Control")
        await tab.page.mouse.wheel(0, -100)
        await tab.page.keyboard.up("Control")
        await expect(svg).to_have_attribute("width", str(round(at_first * 1.1)))
        # An update draws the graph anew, as large as it was made.
        await stage.team.tasks.claim("5", by="bob")
        await expect(svg).to_contain_text("in progress · bob")
        assert await width() == round(at_first * 1.1)
        await expect(tab.page.locator("svg .node.critical").first).to_be_visible()


async def test_a_finished_team_is_replayed_with_a_scrubber(
    tmp_path: Path, browser: Browser
) -> None:
    async with served(tmp_path) as stage, window(browser, stage) as tab:
        page = tab.page
        events = await stage.team.events()
        first = next(event.seq for event in events if event.op == "task.add")
        await tab.go("/replay")
        await expect(page.locator("#at")).to_have_text(str(len(events)))
        await page.locator("#scrub").fill(str(first))
        await expect(page.locator("#at")).to_have_text(str(first))
        await expect(page.locator(".card")).to_have_count(1)
        await expect(page.locator("#head")).to_contain_text("0 of 1 task done")
        await page.get_by_role("link", name="Next").click()
        await expect(page.locator(".card")).to_have_count(2)
        await page.get_by_role("link", name="Previous").click()
        await expect(page.locator(".card")).to_have_count(1)
        await page.get_by_role("button", name="Play").click()
        await expect(page.locator("#at")).to_have_text(str(len(events)))
        await expect(page.locator(".card")).to_have_count(5)
        assert tab.troubles == []
        # A moment has an address, which shows the same when it is opened.
        await tab.go(f"/replay?at={first}")
        await expect(page.locator(".card")).to_have_count(1)


async def test_without_scripts_pages_show_and_forms_work(tmp_path: Path, browser: Browser) -> None:
    async with served(tmp_path) as stage:
        async with window(browser, stage, scripts=False) as tab:
            await tab.go("/waiting")
            await tab.page.get_by_role("button", name="Deny").first.click()
            await expect(tab.page.get_by_text("Denied what bob asked for.")).to_be_visible()
            await tab.go("/replay?at=8")
            await tab.page.get_by_role("link", name="Next").click()
            await expect(tab.page.locator("#at")).to_have_text("9")
        async with window(browser, stage, looking=True) as tab:
            await expect(tab.page.get_by_text("read only")).to_be_visible()
            await tab.go("/waiting")
            await expect(tab.page.get_by_text("git push --tags").first).to_be_visible()
            await expect(tab.page.get_by_role("button", name="Approve")).to_have_count(0)


async def test_nothing_that_teammates_write_runs(tmp_path: Path, browser: Browser) -> None:
    async with (
        served(tmp_path, make=hostile) as stage,
        window(browser, stage) as tab,
    ):
        for path in PAGES.values():
            await tab.go(path)
            if path != "/replay":
                await expect(tab.page.locator("#link")).to_have_text("live")
            # Also what comes by the stream, when the page is open.
            await stage.team.tasks.edit("3", by=LEAD, subject=HOSTILE[3] + path)
            await stage.team.mailbox.send("alice", HOSTILE[1] + path, sender=LEAD)
            if path in ("/tasks", "/messages"):
                await expect(tab.page.get_by_text(path).first).to_be_attached()
            hacked = await tab.page.locator("html").evaluate("() => window.hacked")
            assert hacked is None, path
            assert await tab.page.locator("main img, main script, main b b").count() == 0
        assert tab.troubles == []


async def test_no_page_is_wider_than_its_window(tmp_path: Path, browser: Browser) -> None:
    async with served(tmp_path) as stage:
        for width, dark in LOOKS:
            async with window(browser, stage, width=width, dark=dark) as tab:
                for name, path in PAGES.items():
                    await tab.go(path)
                    found = await tab.page.locator("html").evaluate(
                        "html => [html.scrollWidth, html.clientWidth]"
                    )
                    assert found[0] <= found[1], (name, width)
                    if PICTURES:
                        to = Path(PICTURES) / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                        await tab.page.screenshot(path=to, full_page=True)
                assert tab.troubles == []


async def test_the_chosen_colours_stay_chosen(tmp_path: Path, browser: Browser) -> None:
    async with (
        served(tmp_path) as stage,
        window(browser, stage, dark=True) as tab,
    ):
        html = tab.page.locator("html")
        await tab.page.get_by_role("button", name="Theme").click()
        await expect(html).to_have_attribute("data-theme", "light")
        await tab.go("/tasks")
        await expect(html).to_have_attribute("data-theme", "light")
        # Everything can be reached by keyboard, beginning with the way past the links.
        await tab.page.keyboard.press("Tab")
        await expect(tab.page.locator(".skip")).to_be_focused()
        await tab.page.keyboard.press("Enter")
        await expect(tab.page.locator("main")).to_be_focused()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of axe-core, from npm or from where `BULLPEN_AXE` says."""
    given = os.environ.get("BULLPEN_AXE")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("axe")
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "axe-core@4.14.0"]
    try:
        subprocess.run(words, cwd=folder, check=True, timeout=120, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"axe-core cannot be installed by npm: {error}")
    return folder / "node_modules" / "axe-core" / "axe.min.js"


async def test_axe_finds_nothing_serious(tmp_path: Path, axe: Path, browser: Browser) -> None:
    async with served(tmp_path) as stage:
        for number, (width, dark) in enumerate(LOOKS):
            async with window(browser, stage, width=width, dark=dark, bypass_csp=True) as tab:
                # Without pictures each page is looked at once, every other one on a phone.
                for name in list(PAGES) if PICTURES else list(PAGES)[number::2]:
                    await tab.go(PAGES[name])
                    await tab.page.add_script_tag(path=axe)
                    found: dict[str, Any] = await tab.page.evaluate("() => axe.run()")
                    serious = [
                        (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
                        for each in found["violations"]
                        if each["impact"] in ("serious", "critical")
                    ]
                    assert serious == [], (name, width)
