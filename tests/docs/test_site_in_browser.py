"""The site in a real browser: nothing is cut on a laptop or a phone, and nothing is fetched."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.runs.reading import blocks

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.pages,
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium here; on Debian: apt-get install chromium"
    ),
]
WIDTHS = (1280, 390)
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

# What reaches beyond the window, unless it is in a box that scrolls and that is in the window.
_CUT = """() => {
  const width = document.documentElement.clientWidth;
  const found = [];
  const page = document.scrollingElement.scrollWidth;
  if (page > width) found.push(`the page is ${page} wide`);
  const scrolls = (part) => {
    for (let up = part; up !== document.body; up = up.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(up).overflowX))
        return up.getBoundingClientRect().right <= width + 1;
    }
    return false;
  };
  for (const part of document.querySelectorAll("article *")) {
    const box = part.getBoundingClientRect();
    const end = Math.round(box.right);
    if (box.width > 1 && box.right > width + 1 && !scrolls(part))
      found.push(`${part.tagName} ends at ${end}: ${part.textContent.slice(0, 60)}`);
  }
  return found;
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing of a request."""

    def log_error(self, *args: object) -> None:
        """Say nothing of an error."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900})
    yield context.new_page()
    context.close()


def test_nothing_is_cut_and_nothing_is_fetched_from_elsewhere(
    page: Page, address: str, site: Path
) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    # No page needs these before somebody searches or changes the version.
    page.route("**/{search*.js,search_index.json,versions.json}", lambda route: route.abort())
    cut = {}
    widths = WIDTHS
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        page.goto(address + name, wait_until="domcontentloaded")
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            if found := page.evaluate(_CUT):
                cut[name, width] = found[:3]
        # The next page begins as wide as this one ended.
        widths = (widths[1], widths[0])
    assert cut == {}
    assert len(requested) > 80
    assert [url for url in requested if not url.startswith((address, "data:"))] == []


def test_a_measured_page_that_is_too_wide_is_found(page: Page) -> None:
    page.set_content("<article><div style='overflow-x:auto'><p style='width:3000px'>a</p></div>")
    assert page.evaluate(_CUT) == []
    page.set_content("<article style='overflow:hidden'><p style='width:3000px'>far away</p>")
    (found,) = page.evaluate(_CUT)
    assert found.startswith("P ends at") and "far away" in found


def test_search_finds_a_page(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("merge queue")
    result = page.locator(".md-search-result__link").filter(has_text="Merge queue").first
    expect(result).to_be_visible(timeout=30_000)
    result.click()
    expect(page).to_have_url(re.compile(r"merge"))


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_colours_follow_the_system_until_a_reader_chooses(
    browser: Browser, address: str, system: str
) -> None:
    schemes = {"light": "default", "dark": "slate"}
    context = browser.new_context(color_scheme="dark" if system == "dark" else "light")
    try:
        page = context.new_page()
        page.goto(address)
        body = page.locator("body")
        expect(body).to_have_attribute("data-md-color-scheme", schemes[system])
        page.get_by_title("Switch to light mode").click()
        expect(body).to_have_attribute("data-md-color-scheme", schemes["light"])
        page.get_by_title("Switch to dark mode").click()
        expect(body).to_have_attribute("data-md-color-scheme", schemes["dark"])
    finally:
        context.close()


def test_commands_are_copied_without_their_prompts(browser: Browser, address: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    try:
        page = context.new_page()
        page.goto(address)
        block = page.locator("div.language-console").first
        block.hover()
        block.get_by_title("Copy to clipboard").click()
        expect(page.get_by_text("Copied to clipboard")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
    finally:
        context.close()
    shown = blocks("docs/index.md", "console")[0].splitlines()
    assert copied.splitlines() == [line[2:] for line in shown if line.startswith("$ ")]
