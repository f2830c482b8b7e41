"""A worker that looks at its forge every ten minutes, unless a webhook tells it to look now."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import httpx2

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.app.app import App
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connect import connect
from bullpen.runs.forge.webhooks.hints import Hints
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.team.team import Team
from bullpen.testing.forge.stage import ForgeStage
from support.doors.web_stage import TEAM, Served
from support.git.repositories import git

POLL_S = 600
SOON_S = 60.0
"""Far less than the worker waits, and enough for a busy machine."""


async def on_forge(app: App, *, cwd: Path, stage: ForgeStage, **more: object) -> Team:
    """A team that works on a forge, and looks every ten minutes."""
    clone = cwd / "clone"
    git(cwd, "clone", "--quiet", stage.clone_url, str(clone))
    await app.teams.create(TEAM)
    team = app.teams.open(TEAM)
    gate = MergeSettings.new(repository=str(clone), target="main")
    await team.merges.configure(gate, by=LEAD, voice="human")
    said = {"repository": stage.clone_url.removesuffix(".git"), "poll_s": POLL_S, **more}
    await team.forge.configure(ForgeSettings.new(**said), by=LEAD, voice="human")
    return team


@asynccontextmanager
async def hooked_worker(web: Served, stage: ForgeStage) -> AsyncIterator[list[str]]:
    """Run the worker of a team that is on a forge; yields what it tells."""
    home, told = web.bullpen_app.settings.home, list[str]()
    environ = {FORGE_TOKEN: stage.token("team")}
    connected = partial(connect, team=web.team, home=home, environ=environ)
    async with anyio.create_task_group() as group:
        group.start_soon(ForgeWorker(web.team, connected, hints=Hints(home, TEAM)).run, told.append)
        yield told
        group.cancel_scope.cancel()


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so, which is soon."""
    with anyio.fail_after(SOON_S):
        while True:
            if await what():
                return
            await anyio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Passed:
    """One request that went through a relay, and the status of its answer."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int


@dataclass
class Relay:
    """Passes requests on as they are, and keeps them."""

    to: str
    url: str = ""
    passed: list[Passed] = field(default_factory=list)

    def send(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Send a request, as the one that was passed before or as somebody changed it."""
        answer = httpx2.post(
            self.to + path, content=body, headers=headers, timeout=30, trust_env=False
        )
        return answer.status_code


@contextmanager
def relay(to: str) -> Iterator[Relay]:
    """Run a relay to an origin on a free port of this machine."""
    state = Relay(to)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Be quiet."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            own = {"host", "content-length", "accept-encoding", "connection"}
            headers = {key: val for key, val in self.headers.items() if key.lower() not in own}
            status = state.send(self.path, headers, body)
            state.passed.append(Passed(self.path, headers, body, status))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
