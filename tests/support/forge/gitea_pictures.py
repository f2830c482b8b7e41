"""Pictures of Gitea's own pages, in Chromium. They need its front end: gitea_build.py --pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio

from support.doors.web_browser import chromium

from .gitea_server import GiteaServer

PAGE_S = 60.0


async def take_pictures(
    server: GiteaServer,
    pages: Mapping[str, str],
    to: Path,
    *,
    login: str | None = None,
    width: int = 1280,
) -> list[str]:
    """Write NAME.png for each page, given as NAME: PATH; return what the pages complained about.

    With `login`, as that account sees them.
    """
    troubles: list[str] = []
    await anyio.Path(to).mkdir(parents=True, exist_ok=True)
    async with chromium() as browser:
        page = await browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(PAGE_S * 1000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        if login is not None:
            await page.goto(f"{server.url}/user/login")
            await page.fill("#user_name", login)
            await page.fill("#password", login * 2)
            await page.press("#password", "Enter")
            await page.wait_for_url(lambda url: "/user/login" not in url)
        for name, path in pages.items():
            answer = await page.goto(f"{server.url}{path}", wait_until="load")
            if answer is None or not answer.ok:
                troubles.append(f"{path}: {None if answer is None else answer.status}")
            await page.screenshot(path=to / f"{name}.png", full_page=True)
    return troubles
