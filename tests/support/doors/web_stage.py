"""A team to look at in a browser, a dashboard of it that listens, and hostile text."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from starlette.types import ASGIApp

from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.processes import host_name
from bullpen.app.app import App, open_app
from bullpen.app.settings import settings_from
from bullpen.doors.http_server import HttpServer, http_config
from bullpen.doors.web.app import Dashboard, dashboard
from bullpen.doors.web.security import LOOPBACK, AccessCheck, WebTokens
from bullpen.doors.web.serve import listening
from bullpen.protocol.agent import AgentSpec, ProcessRecord, Spent
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.team.team import Team
from support.connections import running

TEAM = "alpha"
IN_PROCESS_PORT = 8700
"""The port of a dashboard that has none."""
ELSEWHERE = ProcessRecord.new(backend="subprocess", host="build-7", pid=4711)
PUSH = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "git push:*"}],
    "behavior": "allow",
    "destination": "session",
}
AUTHOR = ("-c", "user.name=U", "-c", "user.email=u@example.com")
PLAN = """\
# Cache the tokens

1. Measure `lex()` with the *large* file.
2. Keep the tokens of a file by its time and size.

| file | why |
| --- | --- |
| `src/lex.py` | reads each file **twice** |

```sh
pytest -q tests/lex
```
"""
HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "'-window.hacked-'",
    "</textarea></pre></title></svg><svg onload='window.hacked = 1'>",
    "{{ 7 * 7 }}{% raw %}<b>bold</b>",
    "javascript:window.hacked=1//",
    "data: x\n\ndata: {\"set\":{\"head\":\"<b>gone</b>\"}}\n\n",
    "\u202egnihtemos \x1b[31mred\x00",
    "&lt;i&gt;&amp;",
)  # fmt: skip
"""What teammates may write. Shown as text it changes nothing on a page."""


async def hire(team: Team, name: str, *, place: ProcessRecord = ELSEWHERE, **fields: Any) -> str:
    """Make an agent a member, as a spawn does; the nonce of its launch."""
    spec = {"driver": "scripted", "backend": "subprocess", "cwd": "/", **fields}
    await team.agents.register(name, AgentSpec.new(**spec), by=LEAD, nonce=f"nonce-{name}")
    await team.agents.ready(name, nonce=f"nonce-{name}", place=place)
    return f"nonce-{name}"


async def work_here(stage: Served, name: str = "erin") -> Path:
    """Make an agent a member that works in a repository here, and has changed a file there."""
    folder = stage.bullpen_app.settings.home.parent / "repository"
    folder.mkdir()
    (folder / "lex.py").write_text("one\ntwo\nthree\n")
    for words in (["init", "-q"], ["add", "."], [*AUTHOR, "commit", "-qm", "Begin"]):
        await anyio.run_process(["git", "-C", str(folder), *words])
    (folder / "lex.py").write_text("one\nTWO\nthree\n")
    (folder / "new.py").write_text("fresh = True\n")
    gone = ProcessRecord.new(backend="subprocess", host=host_name(), pid=2**22, start="1-1")
    await hire(stage.team, name, place=gone, cwd=str(folder))
    return folder


async def ask(team: Team, name: str, command: str = "git push origin main") -> Request:
    """Ask for permission of a command, as an agent's gate does."""
    return await team.approvals.ask_permission(
        "Bash",
        {"command": command},
        by=name,
        description=f"Bash {command} (the mode default asks before anything is run)",
        suggestions=(PUSH,),
        approver="human",
        deadline_s=600,
    )


async def people(bullpen_app: App, *, cwd: Path) -> Team:
    """A team with members, tasks, mail, spend, a transcript, and three questions."""
    await bullpen_app.teams.create(TEAM, description="Make the parser fast")
    team = bullpen_app.teams.open(TEAM)
    for number, name in enumerate(("alice", "bob", "carol")):
        nonce = await hire(team, name, cwd=str(cwd), model="small-1")
        await team.agents.begin_turn(name, nonce=nonce)
        spent = Spent.new(requests=1, input_tokens=900, output_tokens=80, cost_usd=0.12 + number)
        await team.agents.end_turn(name, nonce=nonce, reports={1: spent}, idle=None)
    await team.agents.begin_turn("alice", nonce="nonce-alice")
    before: list[str] = []
    for subject in ("Measure the parser", "Read the file once", "Cache the tokens", "Release it"):
        task = await team.tasks.add(
            subject, by=LEAD, blocked_by=before[-1:], description="As said."
        )
        before.append(task.id)
    await team.tasks.claim("1", by="alice")
    await team.tasks.done("1", by="alice")
    await team.tasks.claim("2", by="alice")
    await team.tasks.add("Write the guide", by=LEAD)
    await team.mailbox.send("bob", "The parser reads the file twice.", sender="alice")
    await team.mailbox.broadcast("We ship on Friday.", sender=LEAD)
    await ask(team, "bob")
    await ask(team, "bob", "git push --tags")
    (cwd / "notes.txt").write_text("one\ntwo\nthree\n")
    change = {"file_path": "notes.txt", "old_string": "two", "new_string": "TWO"}
    await team.approvals.ask_permission(
        "Edit", change, by="bob", description="it edits", approver="human", deadline_s=600
    )
    await team.approvals.ask_plan(PLAN, by="carol", approver="human")
    await write(bullpen_app, "alice", *_work_of_alice(cwd))
    return team


def _work_of_alice(cwd: Path) -> Iterator[dict[str, Any]]:
    """What she reads, says and does, row by row."""
    yield {"kind": "turn", "number": 1, "text": "A new task."}
    yield {
        "kind": "text",
        "text": "I look at the parser.\n\n- It reads the file **twice**.\n- `lex()` is slow.",
    }
    yield {"kind": "tool", "name": "Read", "input": {"file_path": f"{cwd}/src/lex.py"}}
    yield {
        "kind": "result",
        "name": "Read",
        "text": "     1\tdef lex(text):\n     2\t    return list(text)",
    }
    change = {"old_string": "return list(text)", "new_string": "return iter(text)"}
    yield {"kind": "tool", "name": "Edit", "input": {"file_path": f"{cwd}/src/lex.py", **change}}
    yield {
        "kind": "result",
        "name": "Edit",
        "text": "Changed in 1 place.\n     2\treturn iter(text)",
    }
    yield {"kind": "tool", "name": "Bash", "input": {"command": "pytest -q"}}
    yield {"kind": "result", "name": "Bash", "text": "............\n12 passed in 0.31s"}
    yield {"kind": "tool", "name": "Bash", "input": {"command": "make deploy"}}
    yield {"kind": "denied", "tool": "Bash", "detail": "make deploy", "why": "not before Friday"}
    yield {"kind": "result", "name": "Bash", "text": "You may not do this.", "error": True}
    yield {"kind": "text", "text": "All tests pass. I cache the tokens next."}


async def hostile(bullpen_app: App, *, cwd: Path) -> Team:
    """A team whose members write what would harm a page that believed them."""
    await bullpen_app.teams.create(TEAM, description=HOSTILE[0])
    team = bullpen_app.teams.open(TEAM)
    await hire(team, "alice", cwd=str(cwd), model=HOSTILE[1])
    for text in HOSTILE:
        await team.tasks.add(text, by=LEAD, description=text)
        await team.mailbox.send("alice", text, sender=LEAD)
        await ask(team, "alice", text)
        await write(bullpen_app, "alice", {"kind": "text", "text": text}, {"kind": text, "x": text})
    change = {"file_path": HOSTILE[1], "content": "\n".join(HOSTILE)}
    await team.approvals.ask_permission("Write", change, by="alice", approver="human")
    await team.approvals.ask_plan(HOSTILE[3], by="alice", approver="human")
    await team.tasks.give_up("1", by=LEAD, reason=HOSTILE[1])
    await team.tasks.claim("2", by="alice")
    return team


async def write(bullpen_app: App, name: str, *rows: dict[str, Any]) -> None:
    """Add rows to the transcript of a member."""
    config = await bullpen_app.teams.open(TEAM).agents.config()
    folder = agent_folder(bullpen_app.settings.home, config, name)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "transcript.jsonl").open("a") as file:
        for row in rows:
            file.write(json.dumps({"time": "2026-11-15T12:00:00.000Z", **row}) + "\n")


@dataclass(slots=True)
class Served:
    """A dashboard that listens."""

    bullpen_app: App
    team: Team
    board: Dashboard
    tokens: WebTokens
    app: ASGIApp
    port: int

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def served(
    home: Path, *, read_only: bool = False, make: Any = people, in_process: bool = False
) -> AsyncIterator[Served]:
    """A team and its dashboard, on a port of its own or for clients of this process alone."""
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    async with open_app(settings_from({"HOME": str(home)}, home=home / "home")) as bullpen_app:
        team = await make(bullpen_app, cwd=work)
        with ExitStack() as stack:
            taken = None if in_process else stack.enter_context(listening("127.0.0.1", 0))
            async with dashboard_of(bullpen_app, team, taken, read_only=read_only) as found:
                yield found


@asynccontextmanager
async def dashboard_of(
    bullpen_app: App, team: Team, taken: socket.socket | None, *, read_only: bool = False
) -> AsyncIterator[Served]:
    """The dashboard of a team that there is, at a socket or in this process."""
    board = await dashboard(bullpen_app, team.name)
    tokens = WebTokens(read_only=read_only)
    port = IN_PROCESS_PORT if taken is None else taken.getsockname()[1]
    app = AccessCheck(
        board.app(),
        tokens,
        hosts=LOOPBACK,
        port=port,
        public=board.public_app(read_only=read_only),
    )
    config = http_config(app, lifespan="off")
    async with anyio.create_task_group() as group:
        group.start_soon(board.run)
        async with running(HttpServer(config), "127.0.0.1", taken):
            try:
                yield Served(bullpen_app, team, board, tokens, app, port)
            finally:
                board.live.end("The test is over.")
        group.cancel_scope.cancel()


def field(page: str, name: str) -> str:
    """The value of the first hidden field of that name on a page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, f"no field {name}"
    return found[1]
