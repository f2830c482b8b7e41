"""What the tests of the host process share: a cell, and several machines on this one.

A machine is a name, a home and a host process of its own. The test itself is the desk: a machine
without a host process, with a connection of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.machines.host_records import wanted_labels
from bullpen.agents.supervisor.machines.over_nats import KnownHost, known_hosts
from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.start import Spawned
from bullpen.app.app import App
from bullpen.app.settings import Settings, settings_from
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.changes import Event
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import prepare
from bullpen.team.team import Team
from support.store.nats_parts import empty, endpoint_of, forget

PATIENCE_S = 60.0
_POLL_S = 0.05

QUIET = '[agents."{name}"]\n'
"""A script by which an agent does nothing at all."""


@contextmanager
def cell_of(ttl_s: int) -> Iterator[Cluster]:
    """One server on which a host is lost after so many seconds."""
    directory = Path(tempfile.mkdtemp(prefix="bullpen-cell-"))
    cluster = Cluster(directory)

    async def begin() -> None:
        await cluster.start()
        link = NatsConnection(endpoint_of(cluster))
        try:
            await prepare(await link.client(), partitions=2, beats_ttl_s=ttl_s)
        finally:
            await link.aclose()

    try:
        anyio.run(begin)
        yield cluster
    finally:
        anyio.run(cluster.stop)
        shutil.rmtree(directory, ignore_errors=True)


async def until(look: Callable[[], Any], *, seconds: float = PATIENCE_S, why: str = "") -> Any:
    """What a look brings as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        found = await seen if isinstance(seen, Awaitable) else seen
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"that did not happen in {seconds:.0f} s: {why or look}")
        await anyio.sleep(_POLL_S)


class Machine:
    """A machine: its home, its host process if that runs, and the agents on it."""

    def __init__(self, name: str, folder: Path, url: str) -> None:
        self.name = name
        self.home = folder / name
        self.home.mkdir()
        self.log = folder / f"{name}.log"
        self.env = {
            **{
                key: os.environ[key]
                for key in ("PATH", "HOME", "LANG", "PYTHONPATH")
                if key in os.environ
            },
            "BULLPEN_STORE": url,
            "BULLPEN_HOST": name,
            "BULLPEN_HOME": str(self.home),
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        """Where its host process listens."""
        return str(self.home / "host" / "socket")

    @property
    def host(self) -> subprocess.Popen[bytes]:
        """Its host process."""
        assert self.process is not None
        return self.process

    async def start(self, *options: str) -> None:
        """Start the host process and wait until it is ready."""
        # Of a file that is opened to be added to, only what comes now counts.
        before = self.log.stat().st_size if self.log.exists() else 0
        argv = [sys.executable, "-m", "bullpen", "host", "run", *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 - it is not waited for
                argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        def is_ready() -> bool:
            said = self.log.read_bytes()[before:]
            assert self.host.poll() is None, said.decode()
            return b"is ready" in said

        await until(is_ready, why=f"{self.name} is ready")

    async def ended(self) -> int:
        """Wait for the end of the host process; its exit code."""
        await until(lambda: self.host.poll() is not None, why=f"{self.name} ends")
        return int(self.host.returncode)

    async def end(self, number: signal.Signals) -> int:
        """Signal the host process and wait until it has ended."""
        self.host.send_signal(number)
        return await self.ended()

    def agents(self) -> list[int]:
        """The pids of everything on this machine but its host process."""
        own = self.host.pid if self.process is not None else None
        return [pid for pid in _of_home(self.home) if pid != own]

    def signal_agents(self, number: signal.Signals) -> None:
        """Signal everything but the host process."""
        for pid in self.agents():
            os.kill(pid, number)

    def signal_all(self, number: signal.Signals) -> None:
        """Signal everything on this machine at once, as when it stands still or breaks."""
        for pid in _of_home(self.home):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def cli(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command on this machine."""
        argv = [sys.executable, "-m", "bullpen", *args]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=120)

    async def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """The same, while the test goes on."""
        return await anyio.to_thread.run_sync(self.cli, *args)


def _of_home(home: Path) -> list[int]:
    mark = f"BULLPEN_HOME={home}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0") and not _is_dead(entry):
                    found.append(int(entry.name))
    return found


def _is_dead(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


class Stage:
    """One test: a desk, and the machines that it starts."""

    def __init__(self, cluster: Cluster, folder: Path, app: App) -> None:
        self.cluster = cluster
        self.folder = folder
        self.app = app
        self.machines: list[Machine] = []

    def machine(self, name: str) -> Machine:
        """A machine without a host process."""
        machine = Machine(name, self.folder, self.cluster.url)
        self.machines.append(machine)
        return machine

    async def host(self, name: str, *options: str) -> Machine:
        """A machine with a host process."""
        machine = self.machine(name)
        await machine.start(*options)
        return machine

    async def team(self, name: str = "crew") -> Team:
        """A new team."""
        await self.app.teams.create(name)
        return self.app.teams.open(name)

    async def spec(
        self, script: str, *, on: str | None = "any", respawn: bool = False, **more: Any
    ) -> AgentSpec:
        """What to spawn: a scripted agent that any host with those labels may run."""
        path = self.folder / f"script{len(list(self.folder.glob('script*')))}.toml"
        path.write_text(script, encoding="utf-8")
        given = {"driver": "scripted", "backend": "subprocess", "cwd": str(self.folder), **more}
        return await self.app.resolve(
            SpawnRequest(
                **given,
                script=str(path),
                on=None if on is None else wanted_labels(on),
                respawn=respawn,
            )
        )

    async def spawn(
        self,
        name: str,
        script: str = QUIET,
        *,
        team: str = "crew",
        on: str = "any",
        key: str | None = None,
        wait_s: float = PATIENCE_S,
        **more: Any,
    ) -> Spawned:
        """Spawn a scripted agent on a machine with those labels."""
        spec = await self.spec(script.replace("{name}", name), on=on, **more)
        supervisor = self.app.supervisor(team)
        return await supervisor.spawn(name, spec, by=LEAD, key=key, ready_s=wait_s)

    async def view(self, name: str, team: str = "crew") -> AgentView:
        """An agent as `ps` shows it."""
        views = await self.app.supervisor(team).agents()
        return next(view for view in views if view.name == name)

    async def events(self, team: str = "crew") -> list[Event]:
        """All that ever happened in a team."""
        return await self.app.teams.open(team).events()

    async def hosts(self) -> dict[str, KnownHost]:
        """The hosts there are."""
        link: NatsConnection = self.app.hosts.link  # type: ignore[attr-defined]
        return {host.record.name: host for host in await known_hosts(link)}

    async def where(self, name: str, team: str = "crew") -> str | None:
        """The machine where an agent runs and is ready; None if it does nowhere."""
        _, agent = await self.app.teams.open(team).agents.get(name)
        if agent.phase != "running" or agent.process is None:
            return None
        return agent.process.host

    async def where_else(self, name: str, host: str) -> str | None:
        """The same, unless it is that one."""
        found = await self.where(name)
        return None if found == host else found

    async def became(self, name: str, host: str, team: str = "crew") -> None:
        """Wait until an agent runs on a machine."""

        async def there() -> bool:
            return await self.where(name, team) == host

        await until(there, why=f"{name} runs on {host}")


@asynccontextmanager
async def staged(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """A stage on servers without teams and hosts; nothing of it runs on afterwards."""
    monkeypatch.setenv("BULLPEN_HOST", "desk")
    link = NatsConnection(endpoint_of(cluster))
    client = await link.client()
    await empty(client)
    for stream, subject in (
        ("STARTS", "start.>"),
        ("KV_HOSTS", "$KV.HOSTS.>"),
        ("KV_BEATS", "$KV.BEATS.>"),
    ):
        await forget(client, stream, subject)
    await link.aclose()
    # A socket's path can have about 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="bph-"))
    app = App(desk_settings(cluster, folder), os.environ)
    stage = Stage(cluster, folder, app)
    try:
        async with app:
            yield stage
    finally:
        for machine in stage.machines:
            machine.signal_all(signal.SIGKILL)
            if machine.process is not None:
                machine.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def desk_settings(cluster: Cluster, folder: Path) -> Settings:
    """The settings of somebody at the desk."""
    return replace(settings_from({}, home=folder / "desk"), store=cluster.url)
