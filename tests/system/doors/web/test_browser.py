"""The dashboard in a real browser: every action, live, on a phone, without scripts, by keys."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from bullpen.protocol.names import LEAD
from support.doors.web_browser import Window, chromium, needs_chromium, window
from support.doors.web_stage import HOSTILE, ask, hostile, served, work_here, write

pytestmark = [pytest.mark.anyio, needs_chromium]

PAGES = {
    "overview": "/?member=alice", "tasks": "/tasks", "messages": "/messages",
    "waiting": "/waiting", "member": "/member?name=alice", "transcript": "/transcript?name=alice",
    "changes": "/changes?member=erin", "task": "/task?id=2", "timeline": "/timeline",
    "replay": "/replay",
}  # fmt: skip
PICTURES = os.environ.get("BULLPEN_WEB_PICTURES")
"""A folder for pictures of every page at every width, dark and light."""

WIDTHS = (390, 1280, 1920)
TYPE_BLINDLY = """() => {
  const typed = (key) => new KeyboardEvent("keydown", { key, bubbles: true });
  for (const key of "bad ideas") document.body.dispatchEvent(typed(key));
  return document.querySelectorAll("[data-ask] button:disabled, .menu[open]").length;
}"""
NOTIFICATIONS = """
window.notified = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { return (this.permission = "granted"); }
  constructor(title, options) { window.notified.push(options.body); }
  addEventListener() {}
};
document.hasFocus = () => false;
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


async def test_requests_are_answered_by_one_key(tmp_path: Path, browser: Browser) -> None:
    async with served(tmp_path) as stage, window(browser, stage) as tab:
        page, keys, said = tab.page, tab.page.keyboard, tab.page.locator("#toasts")
        pending = await stage.team.approvals.pending()
        push, tags, edit, plan = (each.id for each in pending)
        await expect(page).to_have_title("(4) alpha")

        # Who types a word without looking answers nothing with its letters.
        await expect(page.locator(f'[id="now-{push}"].ready')).to_be_visible()
        assert await page.evaluate(TYPE_BLINDLY) == 0
        await expect(page.locator(f'[id="now-{push}"].ready')).to_be_visible()
        await keys.press("e")
        await page.get_by_label("Command").fill("git push --dry-run")
        await page.get_by_role("button", name="Allow as edited").click()
        await expect(said).to_contain_text("Allowed what bob asked for.")
        await expect(page).to_have_title("(3) alpha")

        # In a field, a key is a letter.
        second = page.locator(f'[id="now-{tags}"].ready')
        await page.get_by_placeholder("Write a message").press("a")
        await page.get_by_placeholder("Write a message").fill("")
        await page.locator("h1").click()
        await expect(second).to_be_visible()
        await keys.press("Shift+A")
        await second.get_by_role("button", name="Bash(git push:*)").click()

        third = page.locator(f'[id="now-{edit}"].ready')
        await expect(third.locator("tr.added")).to_have_text("2+TWO")
        await keys.press("d")
        await expect(said).to_contain_text("Denied what bob asked for.")

        fourth = page.locator(f'[id="now-{plan}"].ready')
        await expect(fourth.get_by_role("heading", name="Cache the tokens")).to_be_visible()
        await keys.press("e")
        await fourth.get_by_label("Mode after approval").select_option("acceptEdits")
        await fourth.locator(".pop button.good").click()
        await expect(page.get_by_role("alert")).to_contain_text("may have at most")
        await fourth.get_by_label("Mode after approval").select_option("default")
        await fourth.get_by_label("Message to the agent").fill("Mind the tests")
        await fourth.locator(".pop button.good").click()
        await expect(said).to_contain_text("Approved the plan of carol.")
        await expect(page).to_have_title("alpha")
        # The refusal above; a browser calls it an error.
        assert [each for each in tab.troubles if "403" not in each] == []

        answers = [await stage.team.approvals.get(each.id) for each in pending]
    assert [each.state for each in answers] == ["approved", "approved", "denied", "approved"]
    assert answers[0].raw["answer"]["updatedInput"] == {"command": "git push --dry-run"}
    assert answers[1].raw["answer"]["always"] is True
    assert answers[3].raw["answer"]["permissionMode"] == "default"


async def test_every_other_action_is_done_without_leaving_the_page(
    tmp_path: Path, browser: Browser
) -> None:
    async with served(tmp_path) as stage, window(browser, stage) as tab:
        page, said, team = tab.page, tab.page.locator("#toasts"), stage.team
        await work_here(stage)
        await sees(tab, "erin")

        await page.locator("#team").get_by_role("link", name="alice").click()
        await page.get_by_placeholder("Write a message").fill("Well done.")
        await page.get_by_placeholder("Write a message").press("Enter")
        await expect(said).to_contain_text("Sent to alice.")
        await expect(page.get_by_placeholder("Write a message")).to_have_value("")

        await page.locator("summary", has_text="New task").click()
        await page.get_by_label("Subject").fill("Sign the release")
        await page.get_by_role("button", name="Add task").click()
        await expect(page.locator("#todo")).to_contain_text("Sign the release")

        await page.locator("summary", has_text="New agent").click()
        await page.get_by_label("Name", exact=True).fill("dora")
        await page.get_by_label("What it is to do").fill("Help.")
        await page.get_by_role("button", name="Start agent").click()
        await expect(page.get_by_role("alert")).to_contain_text("needs a script")

        await page.locator("summary", has_text="Budget").click()
        await page.get_by_label("Limit of the team").fill("7.50")
        await page.get_by_role("button", name="Set budget").click()
        await expect(page.locator("#head")).to_contain_text("of $7.50")

        await page.locator("summary", has_text="Finish").click()
        await page.get_by_label("Summary").fill("It is fast.")
        await page.get_by_label("I am sure").check()
        await page.get_by_role("button", name="Finish the run").click()
        await expect(page.locator("#head")).to_contain_text("It is fast.")

        await tab.go("/task?id=5")
        await page.locator('select[name="to"]').select_option("carol")
        await page.get_by_role("button", name="Assign").click()
        await expect(said).to_contain_text("Task 5 is assigned to carol.")

        await tab.go("/member?name=erin")
        await page.get_by_role("button", name="Interrupt").click()
        await expect(said).to_contain_text("Interrupted erin.")
        await page.locator("summary", has_text="Mode").click()
        await page.get_by_label("Permission mode").select_option("plan")
        await page.get_by_role("button", name="Change mode").click()
        await expect(said).to_contain_text("The mode of erin is now plan.")
        await page.locator("summary", has_text="Stop").click()
        await page.get_by_label("I am sure").check()
        await page.get_by_label("Reason").fill("Enough")
        await page.get_by_role("button", name="Stop erin").click()
        await expect(said).to_contain_text("Stopped erin.")

        assert (await team.agents.get("erin"))[1].phase == "ended"
        assert (await team.tasks.get("5")).owner == "carol"
        mail = (await team.mailbox.read("alice")).entries
        assert "Well done." in [entry.message.text for entry in mail]
        assert [each for each in tab.troubles if "the server responded" not in each] == []


async def sees(tab: Window, name: str) -> None:
    """Wait until the dashboard has heard of a member."""
    await tab.go("/")
    await expect(tab.page.locator(f"#team-{name}")).to_be_visible()


async def test_a_comment_on_a_line_of_a_diff_goes_to_its_author(
    tmp_path: Path, browser: Browser
) -> None:
    async with served(tmp_path) as stage, window(browser, stage) as tab:
        page = tab.page
        folder = await work_here(stage)
        await sees(tab, "erin")
        await tab.go("/changes?member=erin")
        await expect(page.locator("#changed")).to_contain_text("2 files changed")
        file = page.locator('.file[data-path="lex.py"]')
        await file.locator("tr.added").click()
        await file.get_by_label("Comment, sent to erin").fill("Why capitals?")
        # A diff that changes meanwhile waits until the comment is sent.
        (folder / "lex.py").write_text("one\nTWO\nthree\nfour\n")
        await expect(page.locator("#changed")).to_contain_text("+3", timeout=20_000)
        await expect(file.get_by_label("Comment, sent to erin")).to_have_value("Why capitals?")
        await file.get_by_label("Comment, sent to erin").press("Control+Enter")
        said = page.locator("#toasts")
        await expect(said).to_contain_text("Sent your comment on lex.py, line 2 to erin.")
        await expect(file.locator("tr.added")).to_have_count(2)

        await file.locator("tr.removed").click()
        await file.get_by_role("button", name="Cancel").click()
        await expect(file.locator("tr.writes")).to_have_count(0)
        assert tab.troubles == []
        letters = (await stage.team.mailbox.read("erin")).entries
    assert [entry.message.text for entry in letters] == [
        "Comment on lex.py line 2:\n> +TWO\nWhy capitals?"
    ]


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
        # A browser that nobody looks at, and what it would show of a notification.
        await page.add_init_script(NOTIFICATIONS)
        await tab.go("/waiting")
        await expect(page.locator("#link")).to_have_text("live")
        await page.locator("#notify").click()
        await expect(page.locator("#notify")).to_have_attribute("aria-pressed", "true")
        card = page.locator('[id^="ask-"]').first
        await card.locator("summary", has_text="Edit").click()
        await card.get_by_label("Reason").fill("half a sen")
        asked = await ask(team, "carol", "make release")
        await expect(page.locator(f'[id="ask-{asked.id}"]')).to_be_visible()
        await expect(page.locator("#waits")).to_contain_text("5")
        await expect(page.locator("#heard")).to_contain_text("5 waiting")
        await expect(page).to_have_title("(5) Waiting · alpha")
        assert await page.evaluate("() => window.notified") == ["carol asks: Bash make release"]
        await expect(card.get_by_label("Reason")).to_have_value("half a sen")
        await expect(card.get_by_label("Command")).to_be_visible()

        # Answered elsewhere, it goes away here.
        await team.approvals.answer(asked.id, approve=False, by=LEAD, voice="human")
        await expect(page.locator(f'[id="ask-{asked.id}"]')).to_have_count(0)

        await other.go("/tasks")
        await expect(other.page.locator("#column-ready")).to_contain_text("Write the guide")
        await team.tasks.claim("5", by="bob")
        await expect(other.page.locator("#column-in_progress")).to_contain_text("guide")
        await expect(other.page.locator("#column-ready > li")).to_have_count(0)
        await expect(other.page.locator("svg.drawing")).to_contain_text("in progress · bob")

        await tab.go("/member?name=alice")
        call = {"kind": "tool", "name": "Bash", "input": {"command": "make bench"}}
        await write(stage.bullpen_app, "alice", {"kind": "text", "text": "It is **fast**."}, call)
        await expect(page.locator("#stream strong").last).to_have_text("fast")
        await expect(page.locator("#stream > li").last).to_contain_text("running")
        result = {"kind": "result", "name": "Bash", "text": "9 ms"}
        await write(stage.bullpen_app, "alice", result)
        await expect(page.locator("#stream > li").last).not_to_contain_text("running")
        await team.mailbox.send("alice", "Thank you", sender="bob")
        await expect(page.locator("#letters > li").first).to_contain_text("Thank you")
        assert tab.troubles == []
        assert other.troubles == []


async def test_the_graph_zooms_by_buttons_keys_and_wheel(tmp_path: Path, browser: Browser) -> None:
    async with served(tmp_path) as stage, window(browser, stage) as tab:
        await tab.go("/tasks")
        svg, canvas = tab.page.locator("svg.drawing"), tab.page.locator("[data-zooms]")

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
        await expect(tab.page.locator("svg.drawing .node.critical").first).to_be_visible()


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
        for path in (path.replace("erin", "alice") for path in PAGES.values()):
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
            assert await tab.page.locator("main [href^=javascript], main .prose a").count() == 0
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


async def test_no_page_is_wider_than_its_window_and_axe_finds_nothing_serious(
    tmp_path: Path, axe: Path, browser: Browser
) -> None:
    async with served(tmp_path) as stage, window(browser, stage, bypass_csp=True) as tab:
        await work_here(stage)
        await sees(tab, "erin")
        for name, path in PAGES.items():
            await tab.go(path)
            await tab.page.add_script_tag(path=axe)
            for number, width in enumerate(WIDTHS):
                await tab.page.set_viewport_size({"width": width, "height": 900})
                found = await tab.page.evaluate(
                    "() => [document.documentElement.scrollWidth, innerWidth]"
                )
                assert found[0] <= found[1], (name, width)
                dark = number % 2 == 0
                for scheme in ("light", "dark") if PICTURES else ("dark" if dark else "light",):
                    await tab.page.emulate_media(color_scheme=scheme)
                    await _look(tab, name, width, scheme)
        assert tab.troubles == []


async def _look(tab: Window, name: str, width: int, scheme: str) -> None:
    """Run axe over a page, and take its picture if somebody wants it."""
    if PICTURES:
        to = Path(PICTURES) / f"{name}-{width}-{scheme}.png"
        await tab.page.screenshot(path=to, full_page=True)
    found: dict[str, Any] = await tab.page.evaluate("() => axe.run()")
    serious = [
        (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == [], (name, width, scheme)
