"""The door at which a driven program finds the team's tools, used by the SDK's own client."""

from __future__ import annotations

import os
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from bullpen.agents.drivers.tool_server.mcp_server import tool_server
from bullpen.agents.drivers.tool_server.relay import KEY, SOCKET
from bullpen.agents.drivers.tool_server.tool_socket import ToolSocket
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.testing.desks import RecordingDesk


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    for name in ("ann", "bob"):
        await team.roster.join(name, by=LEAD)
    return team


@pytest.fixture
def desk(team: Team, tmp_path: Path) -> RecordingDesk:
    spec = AgentSpec.new(driver="acp", backend="in-process", cwd=str(tmp_path))
    return RecordingDesk(team, "ann", tmp_path, spec)


@pytest.fixture
async def door(desk: RecordingDesk) -> AsyncIterator[ToolSocket]:
    door = ToolSocket(tool_server(desk, in_turn=lambda: True))
    await door.open()
    yield door
    await door.aclose()


def client(door: ToolSocket, **env: str) -> Client:
    command, *args = door.command
    given = {"PATH": os.environ["PATH"], **door.env, **env}
    return Client(StdioServerParameters(command=command, args=args, env=given))


async def test_a_program_finds_the_tools_of_the_team_and_none_to_work_with(
    door: ToolSocket,
) -> None:
    async with client(door) as program:
        names = {tool.name for tool in (await program.list_tools()).tools}
    assert {"SendMessage", "TaskCreate", "TaskList", "TaskUpdate", "TeamStatus"} <= names
    assert not names & {"Bash", "Write", "Read", "Edit", "Finish"}


async def test_whatever_it_says_it_is_it_acts_as_its_own_agent(
    door: ToolSocket, team: Team
) -> None:
    async with client(door) as program:
        sent = await program.call_tool("SendMessage", {"to": "bob", "message": "Hello."})
        assert not sent.is_error
        forged = await program.call_tool(
            "SendMessage", {"to": "bob", "message": "Hello.", "from": "team-lead"}
        )
    assert forged.is_error
    box = await team.mailbox.read("bob")
    assert [(entry.message.sender, entry.message.text) for entry in box.entries] == [
        ("ann", "Hello.")
    ]


async def test_without_a_turn_no_tool_is_called(desk: RecordingDesk, team: Team) -> None:
    door = ToolSocket(tool_server(desk, in_turn=lambda: False))
    await door.open()
    try:
        async with client(door) as program:
            assert (await program.list_tools()).tools
            sent = await program.call_tool("SendMessage", {"to": "bob", "message": "Hello."})
    finally:
        await door.aclose()
    assert sent.is_error
    assert "you have no turn" in str(sent.content[0])
    assert (await team.mailbox.read("bob")).entries == ()
    assert any(kind == "trouble" for kind, _ in desk.records)


async def test_an_error_of_a_tool_is_told_as_one(door: ToolSocket) -> None:
    async with client(door) as program:
        failed = await program.call_tool("TaskGet", {"taskId": "99"})
    assert failed.is_error
    assert "99" in str(failed.content[0])


async def test_without_the_key_nobody_is_answered(door: ToolSocket) -> None:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(10)
    path = door.env[SOCKET]

    def ask() -> bytes:
        with line:
            line.connect(path)
            line.sendall(b"wrong\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            return line.recv(100)

    with anyio.fail_after(20):
        assert await anyio.to_thread.run_sync(ask) == b""


async def test_nobody_else_can_open_the_socket_and_nothing_of_it_is_left(door: ToolSocket) -> None:
    folder = Path(door.env[SOCKET]).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await door.aclose()
    assert not folder.exists()


async def test_the_relay_says_what_is_wrong_with_it(door: ToolSocket) -> None:
    env = {"PATH": os.environ["PATH"]}
    words = [sys.executable, "-m", "bullpen.agents.drivers.tool_server.relay"]
    lost = await anyio.run_process(words, env=env, check=False)
    assert (lost.returncode, KEY in lost.stderr.decode()) == (2, True)
    gone = {**env, SOCKET: "/nowhere/s", KEY: "k"}
    deaf = await anyio.run_process(words, env=gone, check=False)
    assert (deaf.returncode, "/nowhere/s" in deaf.stderr.decode()) == (1, True)


async def test_two_programs_of_an_agent_are_answered_at_once(door: ToolSocket, team: Team) -> None:
    async def add(subject: str) -> None:
        async with client(door) as program:
            await program.call_tool("TaskCreate", {"subject": subject, "description": "x"})

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(add, f"Task {number}")
    subjects = {task.subject for task in (await team.tasks.list()).tasks}
    assert subjects == {"Task 0", "Task 1", "Task 2"}


async def test_the_door_of_a_runner_that_was_killed_is_removed_by_the_next(
    door: ToolSocket, desk: RecordingDesk
) -> None:
    deserted = Path(tempfile.mkdtemp(prefix="bullpen-door-"))
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.bind(str(deserted / "s"))
    line.close()
    another = ToolSocket(tool_server(desk, in_turn=lambda: True))
    await another.open()
    try:
        with pytest.raises(FileNotFoundError):
            os.stat(deserted)
        # That of a runner that lives stays.
        async with client(door) as program:
            assert (await program.list_tools()).tools
    finally:
        await another.aclose()
