"""Rows of tools: at the socket of an agent's runner, and of programs that connect over MCP."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client

from bullpen.agents.drivers.tool_server.mcp_server import tool_server
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk
from support.doors.mcp_in_process import InProcessHouse

from .cast import ACTORS, GUEST, OTHER_TEAM, OWNER, RECEIVER, TEAM, Identity
from .expected import ALLOWED, Right
from .rows import Row, Seen, Verdict
from .scene import SPEC, Clock, RealClock, Scene, build, build_other, fresh

Door = Literal["tool socket", "MCP stdio", "MCP HTTP"]

_HELLO = {"to": RECEIVER, "message": "Hello.", "summary": "hello"}

CALLS: Mapping[str, tuple[dict[str, Any], Right | None]] = {
    "SendMessage": (_HELLO, "member"),
    "SendMessage: from another": ({**_HELLO, "from": OWNER}, "nobody"),
    "TaskCreate": ({"subject": "New", "description": "-"}, "member"),
    "TaskUpdate: claim": ({"taskId": "free", "status": "in_progress"}, "member"),
    "TaskUpdate: edit": ({"taskId": "free", "subject": "Newer"}, "member"),
    "TaskUpdate: complete": ({"taskId": "owned", "status": "completed"}, "owner"),
    "TaskUpdate: release": ({"taskId": "owned", "status": "pending"}, "owner"),
    "TaskUpdate: delete": ({"taskId": "owned", "status": "deleted"}, "owner"),
    "NotesWrite": ({"name": "plan", "text": "Text"}, "member"),
    "Promise": ({"action": "make", "taskId": "owned", "text": "-", "path": "c.py"}, "owner"),
    "Finish": ({"summary": "-", "override_reason": "-"}, "lead"),
    "ApproveRequest": ({"request_id": "asked", "approve": True}, "lead"),
    "TeamDelete": ({}, "lead"),
    "TeamCreate": ({"team_name": "gamma"}, "nobody"),
    "TeamStatus": ({}, None),
    "TaskGet": ({"taskId": "owned"}, None),
    "TaskList": ({}, None),
    "NotesRead": ({}, None),
}
"""What is called, with names for tasks and requests, and who may; None for what only reads."""

ELSEWHERE: Mapping[str, str] = {
    "SpawnTeammate": "starts a process; the rows of agents.register are its rules",
    "Task": "is SpawnTeammate by another name",
    "StopTeammate": "ends a process; the rows of agents.end are its rules",
    "SetMode": "the rows of modes.change are its rules",
    "EnterPlanMode": "is about the agent itself",
    "ExitPlanMode": "is about the agent itself",
    "ScheduleWakeup": "is about the agent itself",
    "ToolSearch": "is about the agent itself",
    "TodoWrite": "is about the agent itself",
    "AskUserQuestion": "asks a person; the row of approvals.ask_question is its rule",
    "WaitForMail": "reads the member's own mail",
}
_OF_A_RUNNER = (
    "SendMessage",
    "TaskCreate",
    "TaskUpdate",
    "NotesWrite",
    "NotesRead",
    "Promise",
    "Finish",
    "TeamStatus",
    "TaskGet",
    "TaskList",
)
_OF_MCP = (
    *(each for each in _OF_A_RUNNER if each != "Finish"),
    "ApproveRequest",
    "TeamDelete",
    "TeamCreate",
)
_WHO: Mapping[Door, tuple[Identity, ...]] = {
    "tool socket": (
        *(Identity.LEAD, Identity.OWNER, Identity.PARENT, Identity.CHILD, Identity.TEAMMATE),
    ),
    "MCP stdio": (Identity.LEAD, Identity.GUEST, Identity.READ_ONLY),
    "MCP HTTP": (
        *(Identity.LEAD, Identity.GUEST, Identity.READ_ONLY, Identity.OTHER_TEAM, Identity.NOBODY),
    ),
}


def rows(door: Door) -> list[Row]:
    """The rows of one door."""
    offered = _OF_A_RUNNER if door == "tool socket" else _OF_MCP
    return [
        Row(door, what, identity, "own name", _verdict(what, identity))
        for what in CALLS
        if what.split(":")[0] in offered
        for identity in _WHO[door]
    ]


def _verdict(what: str, identity: Identity) -> Verdict:
    right = CALLS[what][1]
    if what == "TaskUpdate: claim" and identity is Identity.OWNER:
        # It has a task in progress already.
        return "let in"
    if right is None:
        return "refused" if identity is Identity.NOBODY else "let in"
    return "done" if identity in ALLOWED[right] else "refused"


def _arguments(what: str, scene: Scene) -> dict[str, Any]:
    known = {"free": scene.free, "owned": scene.owned, "asked": scene.asked}
    return {
        key: known.get(value, value) if isinstance(value, str) else value
        for key, value in CALLS[what][0].items()
    }


async def at_tool_socket(row: Row, folder: Path) -> Seen:
    """Call a tool as the program of an agent does, in its turn."""
    clock = Clock()
    store = MemoryStore(clock=clock)
    scene = await fresh(store, clock)
    desk = RecordingDesk(scene.team, ACTORS[row.identity].name, folder, SPEC)
    async with Client(tool_server(desk, in_turn=lambda: True)) as client:
        return await _called(row, client, scene)


class McpHome:
    """A home with both teams and nobody who leads; each row has its own copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._scene: Scene | None = None
        self._copies = 0

    async def perform(self, row: Row) -> Seen:
        """Call a tool as a connected program."""
        if self._scene is None:
            async with _files(self._folder / "made") as store:
                self._scene = await build(store, RealClock(), lead_runs=False)
                await build_other(store, RealClock())
        self._copies += 1
        home = self._folder / f"home-{self._copies}"
        shutil.copytree(self._folder / "made", home)
        async with _files(home) as store:
            house = InProcessHouse(
                home, Teams(store), {"HOME": str(home), "BULLPEN_HOME": str(home)}
            )
            scene = Scene(**{**vars(self._scene), "store": store})
            if row.identity is Identity.NOBODY:
                return await _turned_away(row, house, scene)
            async with _client(house, row) as client:
                return await _called(row, client, scene)


async def _turned_away(row: Row, house: InProcessHouse, scene: Scene) -> Seen:
    """What a program with a wrong token is told."""
    call = {"name": row.what.split(":")[0], "arguments": _arguments(row.what, scene)}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    before = await _actors(scene)
    async with house.served() as url, httpx2.AsyncClient() as http:
        answer = await http.post(url, json=asked, headers={"Authorization": "Bearer wrong"})
    refused = "no token" if answer.status_code == 401 else None
    return Seen(row, refused, await _actors(scene) != before)


@asynccontextmanager
async def _client(house: InProcessHouse, row: Row) -> AsyncIterator[Client]:
    name = LEAD if row.identity is Identity.LEAD else GUEST
    tools = ("--tools", "read-only") if row.identity is Identity.READ_ONLY else ()
    if row.door == "MCP stdio":
        async with house.program("--team", TEAM, "--as", name, *tools) as client:
            yield client
        return
    team = OTHER_TEAM if row.identity is Identity.OTHER_TEAM else TEAM
    async with (
        house.served(*tools) as url,
        house.visitor(url, house.token(name, team)) as client,
    ):
        yield client


@asynccontextmanager
async def _files(home: Path) -> AsyncIterator[FileStore]:
    store = FileStore(home)
    try:
        yield store
    finally:
        await store.aclose()


async def _called(row: Row, client: Client, scene: Scene) -> Seen:
    tool = row.what.split(":")[0]
    # A program joins with its first request.
    await client.list_tools()
    before = await _actors(scene)
    result = await client.call_tool(tool, _arguments(row.what, scene))
    after = await _actors(scene)
    names = frozenset(after[len(before) :])
    return Seen(row, "error" if result.is_error else None, after != before, names)


async def _actors(scene: Scene) -> list[str]:
    if TEAM not in await scene.store.teams():
        return ["deleted"]
    return [event.actor for event in await scene.store.events(TEAM)]
