"""MCP servers as real programs, over stdio and HTTP: started, called, and ended with the agent."""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

from bullpen.agents.drivers.native.server_tools import ServerTools, open_servers
from bullpen.agents.tools.mcp_servers import servers
from bullpen.agents.tools.mcp_servers.definition import definition_of
from bullpen.agents.tools.mcp_servers.login import log_in
from bullpen.agents.tools.mcp_servers.oauth import TokenFile
from bullpen.agents.tools.toolbox import answer
from bullpen.errors import Refused, Unavailable
from bullpen.protocol.policy import Policy, Sandbox
from support.agents import oauth_program, weather_program

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

PROGRAM = str(Path(weather_program.__file__))
OAUTH = str(Path(oauth_program.__file__))
DEADLINE_S = 60.0


def program(how: str, **env: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [PROGRAM, how], "env": env}


@asynccontextmanager
async def running(bench: Bench, **given: Any) -> AsyncIterator[ServerTools]:
    spec = bench.desk.spec.evolve(mcp_servers=given)
    with anyio.fail_after(DEADLINE_S):
        made = await open_servers(spec, bench.desk)
    assert made is not None
    try:
        yield made
    finally:
        with anyio.fail_after(DEADLINE_S, shield=True):
            await made.aclose()


async def call(made: ServerTools, bench: Bench, name: str, /, **given: Any) -> tuple[str, bool]:
    with anyio.fail_after(DEADLINE_S):
        return await answer(made.tools, f"mcp__sky__{name}", given, bench.desk)


async def test_a_program_is_called_and_ends_with_the_agent(ann: Bench) -> None:
    async with running(ann, sky=program("stdio", PID_FILE=str(ann.cwd / "pid"))) as made:
        text, failed = await call(made, ann, "forecast", city="Oslo")
        assert not failed and "rain in Oslo" in text
        pid = await ann.pid_in("pid")
        assert ann.runs(pid)
    await ann.until(lambda: not ann.runs(pid))


async def test_a_program_that_does_not_want_to_end_is_killed_with_its_children(ann: Bench) -> None:
    async with running(ann, sky=program("stubborn", PID_FILE=str(ann.cwd / "pid"))) as made:
        assert not (await call(made, ann, "forecast", city="Oslo"))[1]
        group = await ann.pid_in("pid")
        assert len(_group(group)) == 2
    await ann.until(lambda: not _group(group))


def _group(group: int) -> list[str]:
    shown = subprocess.run(
        ["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in shown.stdout.splitlines())
    return [stat for number, stat in rows if int(number) == group and not stat.startswith("Z")]


async def test_a_program_gets_a_short_list_of_variables_and_its_own(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_RUNNER", "1")
    ann.desk.env = {**ann.desk.env, "THE_KEY": "key-of-the-user-77"}
    async with running(ann, sky=program("stdio", WEATHER_KEY="${THE_KEY}")) as made:
        names = (await call(made, ann, "environment"))[0]
        assert "WEATHER_KEY" in names and "PATH" in names
        for hidden in ("SECRET_OF_THE_RUNNER", "THE_KEY ", "COLOUR", "BULLPEN_HOME"):
            assert hidden not in names.replace("WEATHER_KEY ", "")
        assert "key-of-the-user-77" in (await call(made, ann, "secret"))[0]


async def test_a_program_that_crashes_is_said_and_started_again(ann: Bench) -> None:
    async with running(ann, sky=program("stdio")) as made:
        text, failed = await call(made, ann, "crash")
        assert failed and "ended during the call" in text
        assert not (await call(made, ann, "forecast", city="Rome"))[1]


async def test_what_a_program_prints_besides_messages_does_no_harm(ann: Bench) -> None:
    async with running(ann, sky=program("chatty")) as made:
        assert not (await call(made, ann, "forecast", city="Rome"))[1]


async def test_a_program_that_fails_to_start_is_said_with_its_last_words(ann: Bench) -> None:
    async with running(ann, sky=program("dies")) as made:
        assert not made.tools
        assert "the disk is full" in made.failed[0]


async def test_a_silent_program_is_given_up_and_ended(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "START_S", 6.0)
    async with running(ann, sky=program("silent", PID_FILE=str(ann.cwd / "pid"))) as made:
        assert "did not answer within 6 seconds" in made.failed[0]
        pid = await ann.pid_in("pid")
        await ann.until(lambda: not ann.runs(pid))


async def test_a_flood_without_an_end_of_line_fills_no_memory(ann: Bench) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with running(ann, sky=program("flood")) as made:
        assert len(made.failed) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


async def test_a_program_runs_in_the_sandbox_of_its_agent(ann: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    prefix = [os.path.dirname(PROGRAM), sys.prefix, sys.base_prefix]
    closed = Sandbox.new(read=prefix)
    ann.desk.spec = ann.desk.spec.evolve(policy=Policy.new(sandbox=closed.raw).raw)
    async with running(ann, sky=program("stdio")) as made:
        assert not made.failed, made.failed
        inside = await call(made, ann, "write", path=str(ann.cwd / "inside.txt"))
        assert not inside[1], inside
        text, failed = await call(made, ann, "write", path=str(outside / "escaped.txt"))
        assert failed, text
    assert (ann.cwd / "inside.txt").exists()
    assert not (outside / "escaped.txt").exists()


@asynccontextmanager
async def serving(path: str = PROGRAM, *words: str) -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await anyio.open_process(
        [sys.executable, path, *(word.format(port) for word in words or ("http", "{}"))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with anyio.fail_after(DEADLINE_S):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await anyio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.wait()


async def test_a_server_over_http_is_called_with_its_headers(ann: Bench) -> None:
    ann.desk.env = {**ann.desk.env, "THE_KEY": "key-of-the-user-77"}
    async with serving() as url:
        sky = {"type": "http", "url": url, "headers": {"X-Weather-Key": "${THE_KEY}"}}
        async with running(ann, sky=sky) as made:
            assert not made.failed, made.failed
            text, failed = await call(made, ann, "forecast", city="Oslo")
            assert not failed and "rain in Oslo" in text
            assert "key-of-the-user-77" in (await call(made, ann, "header"))[0]
            text, failed = await call(made, ann, "crash")
            assert failed


async def follow(url: str) -> None:
    """Do what a browser does with the address."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        assert "logged in" in (await browser.get(url)).text


async def test_a_person_logs_in_once_and_agents_renew_the_tokens(
    ann: Bench, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    ann.desk.env = {**ann.desk.env, "BULLPEN_HOME": str(home)}
    async with serving(OAUTH, "{}", "3") as url:
        closed = {"type": "http", "url": url}
        async with running(ann, sky=closed) as made:
            assert "bullpen mcp login sky" in made.failed[0], made.failed
        tokens = TokenFile(home, url)
        with anyio.fail_after(DEADLINE_S):
            definition = definition_of("sky", closed)
            assert await log_in(definition, home=home, env={}, show=follow)
        assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(tokens.path.parent.stat().st_mode) == 0o700
        async with running(ann, sky=closed) as made:
            assert not made.failed, made.failed
            first = tokens.path.read_bytes()
            assert "only for those" in (await call(made, ann, "whisper"))[0]
            # Longer than the tokens last.
            await anyio.sleep(4)
            assert "only for those" in (await call(made, ann, "whisper"))[0]
            assert tokens.path.read_bytes() != first
        await anyio.sleep(4)
        async with running(ann, sky=closed) as made:
            assert not made.failed, "expired tokens are renewed after a restart too"


async def test_a_login_that_is_not_needed_or_not_possible_is_said(tmp_path: Path) -> None:
    async with serving() as url:
        definition = definition_of("sky", {"url": url})
        with anyio.fail_after(DEADLINE_S):
            assert not await log_in(definition, home=tmp_path, env={}, show=follow)
    with pytest.raises(Refused, match="is a program"):
        await log_in(definition_of("sky", program("stdio")), home=tmp_path, env={}, show=follow)
    gone = definition_of("sky", {"url": "http://127.0.0.1:9/mcp"})
    with pytest.raises(Unavailable, match="Cannot log in"):
        await log_in(gone, home=tmp_path, env={}, show=follow)


async def test_a_server_that_is_not_there_is_said(ann: Bench) -> None:
    async with running(ann, sky={"url": "http://127.0.0.1:9/mcp"}) as made:
        assert "did not start" in made.failed[0] and not made.tools
