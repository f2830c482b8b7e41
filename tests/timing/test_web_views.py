"""A large team in a browser is painted, updated and searched as soon as people are promised.

`BULLPEN_WEB_SCALE=1` is the full size, at which the promised seconds are judged.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Coroutine
from pathlib import Path

from playwright.async_api import expect

from bullpen.doors.web.replay import Replay
from support.doors.web_browser import chromium, needs_chromium, window
from support.doors.web_stage import served
from system.doors.web.test_scale import EVENTS, FULL, follow, large, long_past, paint

PAINT_S, UPDATE_S, JUMP_S = 2.0, 0.3, 0.3
SMALL_PAGES = 20
"""What is judged at the small size: so many times the time of a small page in the same run."""


async def took(work: Coroutine[None, None, None]) -> float:
    began = time.monotonic()
    await work
    return round(time.monotonic() - began, 3)


@needs_chromium
async def test_a_large_team_is_painted_soon_and_followed_closely(tmp_path: Path) -> None:
    async with (
        served(tmp_path, make=large) as stage,
        chromium() as browser,
        window(browser, stage) as tab,
    ):
        await paint(tab, "/waiting")
        small = await took(paint(tab, "/waiting"))
        paints = {path: await took(paint(tab, path)) for path in ("/", "/tasks", "/messages")}
        await tab.go("/tasks")
        await expect(tab.page.locator("#link")).to_have_text("live")
        lags = [await took(follow(tab, stage.team, str(each * 5 + 1))) for each in range(8)]
    print(f"paint {small} {paints} s, commit to screen {sorted(lags)} s")
    assert max(paints.values()) < (PAINT_S if FULL else SMALL_PAGES * small)
    assert sorted(lags)[len(lags) // 2] < (UPDATE_S if FULL else SMALL_PAGES * small)


def test_a_jump_in_a_long_past_takes_no_longer_than_one_waits_for() -> None:
    replay = Replay(long_past())
    began = time.process_time()
    replay.prepare()
    prepared_s = time.process_time() - began
    jumps_s = []
    for number in range(20):
        gc.collect()
        began = time.process_time()
        replay.at((number * 7919 * 13) % EVENTS)
        jumps_s.append(round(time.process_time() - began, 3))
    print(f"{EVENTS} events prepared in {prepared_s:.2f} s, jumps {sorted(jumps_s)} s")
    # Less than to read the whole of it.
    assert max(jumps_s) < (JUMP_S if FULL else prepared_s)
