"""How a server ends: with its input, by a signal, soon, and with nothing left behind."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.agents.system import processes
from bullpen.doors.mcp.member_tools import WAIT_S_MAX

if TYPE_CHECKING:
    from support.doors.mcp_house import House

HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)
WAIT = (
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"WaitForMail",'
    f'"arguments":{{"timeout_seconds":{WAIT_S_MAX}}}}}}}\n'
)
START_S = 120
SOON_S = WAIT_S_MAX / 2
"""Half of what the call would wait: whoever waits for the call to end is later than that."""


@pytest.mark.parametrize("how", ["eof", "SIGINT", "SIGTERM", "SIGHUP"])
async def test_a_server_ends_soon_while_a_call_waits(house: House, how: str) -> None:
    async with await anyio.open_process(
        house.words("mcp", "--team", "alpha", "--as", "ann"), env=house.env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        await process.stdin.send(HELLO.encode())
        with anyio.fail_after(START_S):
            assert json.loads(await process.stdout.receive())["id"] == 1
        await process.stdin.send(WAIT.encode())
        with anyio.fail_after(SOON_S):
            if how == "eof":
                await process.stdin.aclose()
            else:
                process.send_signal(getattr(signal, how))
            assert await process.wait() == 0
        assert b"".join([part async for part in process.stderr]) == b""
    gone = (await house.team.agents.presence())["ann"]
    assert (gone.state, gone.detail) == ("stopped", "its program ended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_server_over_http_ends_soon_while_a_call_waits(
    house: House, number: signal.Signals
) -> None:
    process = await anyio.open_process(house.words("mcp", "--http", "--json"), env=house.env)
    assert process.stdout is not None
    with anyio.fail_after(START_S):
        url = json.loads(await process.stdout.receive())["url"]
    waiting = anyio.Event()

    async def wait() -> None:
        try:
            async with house.visitor(url, house.token("ann")) as client:
                await client.call_tool("TaskList", {})
                waiting.set()
                await client.call_tool("WaitForMail", {"timeout_seconds": 50})
        except Exception:
            # It is cut off, in whatever words.
            return

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await waiting.wait()
        with anyio.fail_after(SOON_S):
            process.send_signal(number)
            assert await process.wait() == 0
        group.cancel_scope.cancel()
    await process.aclose()
    assert (await house.team.agents.presence())["ann"].state == "stopped"


async def test_a_server_ends_when_its_program_is_killed(house: House) -> None:
    """The program dies with -9; nobody tells the server but the end of its input."""
    code = (
        "import subprocess, sys\n"
        "server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"server.stdin.write({HELLO.encode()!r}); server.stdin.flush()\n"
        "server.stdout.readline()\n"
        "print(server.pid, flush=True)\n"
        "server.wait()\n"
    )
    words = [sys.executable, "-c", code, *house.words("mcp", "--team", "alpha", "--as", "ann")]
    async with await anyio.open_process(words, env=house.env) as program:
        assert program.stdout is not None
        with anyio.fail_after(START_S):
            pid = int(await program.stdout.receive())
        start = processes.start_of(pid)
        assert start is not None
        program.kill()
        await program.wait()
    with anyio.fail_after(SOON_S):
        while processes.is_alive(pid, start):  # noqa: ASYNC110 - no event tells of its end
            await anyio.sleep(0.05)
    assert (await house.team.agents.presence())["ann"].state == "stopped"


async def test_what_is_printed_does_not_get_into_the_protocol(house: House) -> None:
    """A stray print of a library would break the client; it goes to standard error."""
    code = (
        "import sys, threading, time\n"
        "from bullpen.doors.cli.main import main\n"
        "def shout():\n"
        "    for _ in range(200):\n"
        "        print('stray', flush=True); time.sleep(0.02)\n"
        "sys.argv = ['bullpen', 'mcp', '--team', 'alpha', '--as', 'ann']\n"
        "import bullpen.doors.mcp.stdio as stdio\n"
        "streams = stdio.standard_streams\n"
        "async def diverted(*args, **more):\n"
        "    found = await streams(*args, **more)\n"
        "    threading.Thread(target=shout, daemon=True).start()\n"
        "    return found\n"
        "stdio.standard_streams = diverted\n"
        "main()\n"
    )
    with anyio.fail_after(START_S):
        done = await anyio.run_process(
            [sys.executable, "-c", code], input=HELLO.encode(), env=house.env, check=False
        )
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["id"] == 1
    assert b"stray" in done.stderr


async def test_without_the_library_it_says_what_to_install(house: House) -> None:
    code = (
        "import sys, importlib.util as util\n"
        "real = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'mcp' else real(name, *rest)\n"
        "sys.argv = ['bullpen', 'mcp', '--team', 'alpha', '--as', 'ann']\n"
        "from bullpen.doors.cli.main import main\n"
        "main()\n"
    )
    with anyio.fail_after(START_S):
        done = await anyio.run_process(
            [sys.executable, "-c", code], input=b"", env=house.env, check=False
        )
    assert done.returncode == 5
    assert b"pip install 'bullpen[mcp]'" in done.stderr
