"""The command `bullpen web`: where it says it is, whom it lets in, and that it ends at once."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from bullpen.app.app import open_app
from bullpen.app.settings import settings_from
from support.doors.json_shapes import fitting
from support.doors.web_stage import field, people

DEADLINE_S = 30


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    work = folder / "work"
    work.mkdir()

    async def make() -> None:
        async with open_app(settings_from({}, home=str(folder / "home"))) as app:
            await people(app, cwd=work)

    anyio.run(make)
    return folder / "home"


def words(home: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "bullpen", "web", "--home", str(home), *more]


@contextmanager
def running(home: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        words(home, "--json", *more), stdout=subprocess.PIPE, text=True, env=env
    )
    watchdog = threading.Timer(DEADLINE_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, text
            text += line
        yield process, fitting(text)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait(DEADLINE_S)
        assert process.stdout is not None
        process.stdout.close()


def test_it_prints_an_address_to_act_and_ends_with_open_streams(home: Path) -> None:
    with running(home) as (process, found), httpx2.Client(timeout=10) as client:
        assert found["url"].startswith("http://127.0.0.1:")
        base = found["url"].partition("/?")[0]
        assert client.get(base).status_code == 401
        page = client.get(found["url"], follow_redirects=True)
        assert page.status_code == 200
        assert field(page.text, "csrf")
        with client.stream("GET", f"{base}/events?page=overview") as stream:
            assert next(stream.iter_lines()).startswith("retry")
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 0


def test_a_browser_that_it_opens_is_told_no_token_and_its_code_works_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "argv"
    monkeypatch.setenv("BROWSER", f"sh -c 'printf %s \"$1\" > {seen}' browser %s")
    with running(home, "--open") as (process, found), httpx2.Client(timeout=10) as client:
        until = time.monotonic() + DEADLINE_S
        while not (seen.exists() and seen.read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        page = Path(seen.read_text().removeprefix("file://"))
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        address = re.findall(r"url=([^\"]+)", page.read_text("utf-8"))[0]
        assert address.partition("token=")[2] not in (found["url"] + found["lookUrl"])
        assert field(client.get(address, follow_redirects=True).text, "csrf")
        assert httpx2.get(address).status_code == 401
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
        assert not page.exists()


def test_in_read_only_mode_it_prints_only_where_to_look(home: Path) -> None:
    with running(home, "--read-only") as (_, found), httpx2.Client(timeout=10) as client:
        assert found["url"] is None
        page = client.get(found["lookUrl"], follow_redirects=True)
        assert page.status_code == 200
        assert 'method="post"' not in page.text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--host", "0.0.0.0"), "--allow-host"),
        (("--host", "no-address"), "is not an IP address"),
        (("--team", "nobody"), "nobody"),
    ],
)
def test_it_says_what_it_cannot_do(home: Path, more: tuple[str, ...], says: str) -> None:
    done = subprocess.run(
        words(home, *more), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode in (2, 3)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
