"""Agents in processes of their own: a home, a script, a private tmux server, and no leftovers."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.doctor import launches
from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.app.app import TMUX_SOCKET, App
from bullpen.app.settings import settings_from
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team

from .agents.warm_session import warm_user
from .crews import eventually

TEAM = "alpha"

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
OUTSIDE = ["subprocess", pytest.param("tmux", marks=needs_tmux)]
"""The backends whose agents have processes of their own."""


BUSY = """
[[agents.{name}.turns]]
when = "start"
steps = [{{ {step} }}]
"""
SLEEPS = 'tool = "Bash", input = {command = "sleep 9999"}'
STUBBORN = 'tool = "Bash", input = {command = "trap \'\' TERM INT HUP; while :; do sleep 1; done"}'


class Place:
    """A home with one team, and whatever runs for it."""

    def __init__(self, app: App, folder: Path, socket: str) -> None:
        self.app = app
        self.folder = folder
        self.socket = socket
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)

    @property
    def home(self) -> Path:
        return self.app.settings.home

    @property
    def team(self) -> Team:
        return self.app.teams.open(TEAM)

    @property
    def supervisor(self) -> Supervisor:
        return self.app.supervisor(TEAM)

    def script(self, text: str) -> str:
        path = self.folder / f"script-{secrets.token_hex(4)}.toml"
        path.write_text(text, "utf-8")
        return str(path)

    async def spec(self, text: str, **fields: Any) -> AgentSpec:
        """What to spawn: an agent that plays a script with this text, or that `script` names."""
        free = {"mode": "bypassPermissions", "claims": False}
        fields = {"driver": "scripted", "backend": "subprocess", **free, **fields}
        fields.setdefault("script", self.script(text))
        parent = fields.pop("parent", None)
        return await self.app.resolve(SpawnRequest(cwd=str(self.project), **fields), parent=parent)

    async def spawn(
        self, name: str, text: str = "", *, key: str | None = None, **fields: Any
    ) -> Spawned:
        spec = await self.spec(text or f"[agents.{name}]\n", **fields)
        return await self.supervisor.spawn(name, spec, by=LEAD, key=key, ready_s=60)

    async def nonce(self, name: str) -> str:
        return (await self.team.agents.get(name))[1].nonce

    def processes(self) -> list[int]:
        """Every process of any launch of this home."""
        mark = f"{home_mark(self.home)}-"
        return [pid for pid, nonce in processes.marked().items() if nonce.startswith(mark)]

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self.socket, *words], capture_output=True, text=True, check=False
        )
        return done.stdout

    def panes(self) -> list[str]:
        return self.tmux("list-panes", "-a", "-F", "#{pane_id}").split()

    async def end_everything(self) -> None:
        for team in await self.app.teams.names():
            for nonce in await launches(self.app.teams.open(team)):
                await processes.end(None, None, None, nonce, 0)
        for pid, nonce in processes.marked().items():
            if nonce.startswith(f"{home_mark(self.home)}-") and pid != os.getpid():
                await processes.end(None, None, None, nonce, 0)
        sockets = Path(os.environ.get("TMUX_TMPDIR", "/tmp"), f"tmux-{os.getuid()}")
        # Without its socket there never was a server to kill.
        if (sockets / self.socket).exists():
            self.tmux("kill-server")
            (sockets / self.socket).unlink(missing_ok=True)


@asynccontextmanager
async def opened(folder: Path, **environ: str) -> AsyncIterator[Place]:
    """An app with a team, of a user who has nothing; whatever runs in it is gone at the end."""
    socket = f"bullpen-test-{secrets.token_hex(6)}"
    user = {} if "HOME" in environ else warm_user()
    env: Mapping[str, str] = {**os.environ, TMUX_SOCKET: socket, **user, **environ}
    settings = settings_from({"HOME": str(folder)}, home=folder / "home", team=TEAM)
    async with App(settings, env) as app:
        place = Place(app, folder, socket)
        try:
            if TEAM not in await app.teams.names():
                await app.teams.create(TEAM, cwd=str(place.project))
            yield place
        finally:
            await place.end_everything()


async def view(place: Place, name: str) -> AgentView:
    return next(each for each in await place.supervisor.agents() if each.name == name)


async def in_state(place: Place, name: str, state: str, *, within_s: float = 30.0) -> AgentView:
    async def is_so() -> bool:
        return (await view(place, name)).state == state

    await eventually(is_so, within_s=within_s)
    return await view(place, name)


async def pid_of(place: Place, name: str) -> int:
    where = (await place.team.agents.get(name))[1].process
    assert where is not None
    assert where.pid is not None
    return where.pid


async def kill(place: Place, name: str) -> None:
    """kill -9, and wait until the system has noticed."""
    where = (await place.team.agents.get(name))[1].process
    assert where is not None
    assert where.pid is not None
    assert where.start is not None
    pid, start = where.pid, where.start
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not processes.is_alive(pid, start))
