"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from .web_stage import Served

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium here; on Debian: apt-get install chromium"
)
_WORDS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_PATIENCE_MS = 60_000
"""Only a guard against hanging: a busy machine draws a page late."""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """One browser."""
    expect.set_options(timeout=_PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(_WORDS))
        try:
            yield browser
        finally:
            await browser.close()


class Window:
    """A tab of somebody who is signed in, and what went wrong in it."""

    def __init__(self, page: Page, context: BrowserContext, stage: Served) -> None:
        self.page, self.context, self._stage = page, context, stage
        self.troubles: list[str] = []
        page.set_default_timeout(_PATIENCE_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))

    def _hear(self, message: object) -> None:
        kind = getattr(message, "type", "")
        text = str(getattr(message, "text", ""))
        if kind in ("error", "warning"):
            self.troubles.append(text)

    async def go(self, path: str) -> None:
        """Open a page of the dashboard."""
        await self.page.goto(self._stage.url + path)


@asynccontextmanager
async def window(
    browser: Browser,
    stage: Served,
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    looking: bool = False,
    bypass_csp: bool = False,
    scripts: bool = True,
) -> AsyncIterator[Window]:
    """A tab in which somebody is signed in."""
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        bypass_csp=bypass_csp,
        java_script_enabled=scripts,
    )
    try:
        found = Window(await context.new_page(), context, stage)
        token = stage.tokens.looking if looking else stage.tokens.acting
        await found.go(f"/?token={token}")
        yield found
    finally:
        await context.close()
