"""MCP servers as real programs, over stdio and HTTP: started, called, and ended with the agent."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from bullpen.agents.drivers.native.server_tools import ServerTools, open_servers
from bullpen.agents.tools.mcp_servers import servers
from bullpen.agents.tools.toolbox import answer
from bullpen.protocol.policy import Policy, Sandbox
from support.agents import weather_program

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

PROGRAM = str(Path(weather_program.__file__))
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
    monkeypatch.setattr(servers, "START_S", 2.0)
    async with running(ann, sky=program("silent", PID_FILE=str(ann.cwd / "pid"))) as made:
        assert "did not answer within 2 seconds" in made.failed[0]
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
async def serving() -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await anyio.open_process(
        [sys.executable, PROGRAM, "http", str(port)],
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


async def test_a_server_that_is_not_there_is_said(ann: Bench) -> None:
    async with running(ann, sky={"url": "http://127.0.0.1:9/mcp"}) as made:
        assert "did not start" in made.failed[0] and not made.tools
