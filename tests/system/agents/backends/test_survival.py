"""Agents in processes of their own: who started them may die, be cancelled, or start many at once.

R-3.2 as far as a backend can keep it, and that no secret is seen on the way.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from bullpen.agents.backends import launcher, tmux
from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.backends.tmux import Tmux
from bullpen.agents.contracts.backend import NONCE, Backend
from bullpen.agents.system import process_table, processes
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord
from bullpen.testing.backend_contract import (
    PROGRAMS,
    Launcher,
    content,
    runs,
    until,
    until_async,
    until_shown,
)

Server = Callable[..., str]

WAIT = (sys.executable, "-c", PROGRAMS["wait"])
DEAF = (sys.executable, "-c", f"print('here I am', flush=True)\n{PROGRAMS['deaf']}")
END = (sys.executable, "-c", PROGRAMS["end"])

STARTER = """
import anyio, json, sys
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.backends.{module} import {name}

async def main():
    given = json.load(sys.stdin)
    place = await {name}().start(Launch(**{{**given, "argv": tuple(given["argv"])}}))
    print(json.dumps(place.raw), flush=True)
    await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture(params=["subprocess", "tmux"])
def kind(request: pytest.FixtureRequest, tmux_folder: Path, tmux_server: object) -> str:
    return str(request.param)


@pytest.fixture
async def backend(kind: str) -> AsyncIterator[Backend]:
    backend: Backend = Detached() if kind == "subprocess" else Tmux()
    yield backend
    await backend.aclose()


@pytest.fixture
async def start(backend: Backend, tmp_path: Path) -> AsyncIterator[Launcher]:
    launches = Launcher(backend, tmp_path)
    yield launches
    launches.end_all()


@pytest.fixture
def ours(tmux_server: Callable[[str], Server]) -> Server:
    """Our own tmux server."""
    return tmux_server("bullpen")


def start_and_die(kind: str, given: str) -> ProcessRecord:
    """Start a launch from a process that is killed the moment it has told where it runs."""
    name = "Detached" if kind == "subprocess" else "Tmux"
    with subprocess.Popen(
        [sys.executable, "-c", STARTER.format(module=kind, name=name)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        starter.stdin.write(given)
        starter.stdin.close()
        told = starter.stdout.readline()
        os.killpg(starter.pid, signal.SIGKILL)
    return ProcessRecord.parse(json.loads(told))


async def test_an_agent_outlives_a_killed_starter_and_another_can_stop_it(
    kind: str, backend: Backend, start: Launcher
) -> None:
    launch = start.launch(*WAIT)
    given = json.dumps({**asdict(launch), "env": dict(launch.env)})
    place = start_and_die(kind, given)
    await until(lambda: "said" in os.listdir(launch.cwd), "the agent comes to its point")
    assert await backend.alive(place)
    await until_shown(backend, place, "here I am")
    await backend.stop(place, launch.nonce, grace_s=10)
    assert not await backend.alive(place)
    assert processes.carriers(launch.nonce) == []


async def test_ten_at_once_all_start(backend: Backend, start: Launcher) -> None:
    places: dict[str, ProcessRecord] = {}

    async def one(name: str) -> None:
        launch = start.launch(*WAIT, agent=name)
        places[launch.nonce] = await backend.start(launch)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(one, f"agent-{number}")
    assert len({place.pid for place in places.values()}) == 10
    assert all([await backend.alive(place) for place in places.values()])
    assert await backend.places() == places
    async with anyio.create_task_group() as tasks:
        for nonce, place in places.items():
            tasks.start_soon(partial(backend.stop, place, nonce, grace_s=10))
    assert not any([await backend.alive(place) for place in places.values()])


@pytest.mark.skipif(sys.platform != "linux", reason="the spy looks into /proc")
async def test_no_secret_is_seen_in_a_process_list_or_left_on_disk(
    backend: Backend, start: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-very-secret-indeed"
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    seen: list[str] = []
    done = threading.Event()

    def spy() -> None:
        while not done.is_set():
            words = {
                pid: process_table._proc_read(pid, "cmdline") for pid in process_table._proc_pids()
            }
            seen.extend(f"process {pid}" for pid in words if secret.encode() in words[pid])
            # What is there may be gone the next moment.
            with suppress(OSError):
                files = [file for file in folder.rglob("*") if file.is_file()]
                seen.extend(str(file) for file in files if secret in content(file))

    spying = threading.Thread(target=spy)
    spying.start()
    try:
        for number in range(5):
            launch = start.launch(*WAIT, agent=f"agent-{number}")
            await backend.start(replace(launch, env={**launch.env, "API_KEY": secret}))
    finally:
        done.set()
        spying.join(timeout=60)
    assert seen == []
    assert os.listdir(folder) == []


async def test_our_server_gets_none_of_our_environment(
    tmux_folder: Path, ours: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Least of all a nonce: what ends an agent would end the server, and so everybody in it."""
    monkeypatch.setenv("API_KEY", "sk-very-secret-indeed")
    monkeypatch.setenv(NONCE, "the-starters")
    start = Launcher(Tmux(), tmp_path)
    try:
        await start.start(*WAIT)
        pid = int(ours("display-message", "-p", "#{pid}"))
        assert "API_KEY" not in ours("show-environment", "-g")
        assert pid not in processes.marked()
    finally:
        start.end_all()


async def test_a_cancelled_start_leaves_nothing_behind(
    tmux_folder: Path, ours: Server, tmp_path: Path
) -> None:
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        keeper = await start.start(*WAIT, agent="keeper")
        for step in range(40):
            launch = start.launch(*DEAF)
            place = None
            with anyio.move_on_after(step * 0.002):
                place = await backend.start(launch)
            if place is not None:
                await backend.stop(place, launch.nonce, grace_s=0)

        async def only_the_keeper() -> bool:
            return ours("list-windows", "-a", "-F", "#{window_name}") == "keeper"

        await until_async(only_the_keeper, "the windows are gone")
        assert list(processes.marked().values()).count(keeper.launch.nonce) == 1
        assert not [n for n in start._nonces if n != keeper.launch.nonce and processes.carriers(n)]
    finally:
        start.end_all()


async def test_it_is_watched_and_stopped_without_its_server(
    tmux_folder: Path, ours: Server, tmp_path: Path
) -> None:
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        one = await start.start(*DEAF)
        await until_shown(backend, one.place, "here I am")
        await until(lambda: "here I am" in content(one.launch.log), "the log has it")
        server = int(ours("display-message", "-p", "#{pid}"))
        os.kill(server, signal.SIGKILL)
        await until(lambda: not runs(server), "the server is gone")
        assert await backend.alive(one.place)
        assert "here I am" in await backend.screen(one.place)
        assert await backend.places() == {}
        await backend.stop(one.place, one.launch.nonce, grace_s=0.5)
        assert not await backend.alive(one.place)
    finally:
        start.end_all()


async def test_a_pane_of_a_later_server_is_not_mistaken_for_an_agents(
    tmux_folder: Path, ours: Server, tmp_path: Path
) -> None:
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        one = await start.start(*WAIT)
        await until_shown(backend, one.place, "here I am")
        ours("kill-server")
        await until(lambda: not runs(one.place.pid or 0), "the agent is gone")
        ours("new-session", "-d", "-s", "mine", "echo stranger; sleep 600")
        assert ours("list-panes", "-a", "-F", "#{pane_id}") == one.place.pane
        shown = ("capture-pane", "-p", "-t", one.place.pane or "")
        await until(lambda: "stranger" in ours(*shown), "the stranger's pane shows something")
        assert "stranger" not in await backend.screen(one.place)
        await backend.stop(one.place, one.launch.nonce, grace_s=1)
        assert ours("list-panes", "-a", "-F", "#{pane_id} #{pane_dead}") == f"{one.place.pane} 0"
    finally:
        start.end_all()


async def test_dead_panes_do_not_pile_up(tmux_folder: Path, ours: Server, tmp_path: Path) -> None:
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        other = await start.start(*END, agent="ben")
        for _ in range(4):
            one = await start.start(*END)
            await until(lambda: not runs(one.place.pid or 0), "it ends")  # noqa: B023
        assert len(ours("list-panes", "-a", "-F", "#{pane_id}").split()) == 2
        assert set(await backend.places()) == {other.launch.nonce, one.launch.nonce}
        server = int(ours("display-message", "-p", "#{pid}"))
        for each in (one, other):
            await backend.stop(each.place, each.launch.nonce, grace_s=10)
        await until(lambda: not runs(server), "the server ends with its last pane")
    finally:
        start.end_all()


async def test_a_server_that_does_not_answer_is_an_error_in_time(
    tmux_folder: Path, ours: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    server = 0
    try:
        one = await start.start(*WAIT)
        server = int(ours("display-message", "-p", "#{pid}"))
        os.kill(server, signal.SIGSTOP)
        monkeypatch.setattr(tmux, "_CALL_S", 0.5)
        assert await backend.alive(one.place)
        with anyio.fail_after(30):
            with pytest.raises(Unavailable, match="did not respond"):
                await backend.screen(one.place)
            with pytest.raises(Unavailable, match="did not respond"):
                await backend.start(start.launch(*WAIT, agent="ben"))
            with pytest.raises(Unavailable, match="tmux"):
                await backend.stop(one.place, one.launch.nonce, grace_s=1)
        assert not await backend.alive(one.place)
    finally:
        if server:
            os.kill(server, signal.SIGCONT)
        start.end_all()


async def test_the_log_may_have_any_name(
    tmux_folder: Path, ours: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        log = tmp_path / "a b" / 'it\'s "$(id)" #{pane_id} #[x] %H é;'
        launch = replace(start.launch(*WAIT), log=str(log))
        await backend.start(launch)
        await until(lambda: "here I am" in content(log), "the log has it")
        (found,) = (await backend.places()).values()
        assert found.log == str(log)
    finally:
        start.end_all()


async def test_the_screen_is_what_was_printed(
    tmux_folder: Path, ours: Server, tmp_path: Path
) -> None:
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        long = "x" * 500
        program = f"print('{long}\\n\\033[31mrot\\033[0m é')\n{PROGRAMS['wait']}"
        one = await start.start(sys.executable, "-X", "utf8", "-c", program)
        await until_shown(backend, one.place, "here I am")
        assert await backend.screen(one.place) == f"{long}\nrot é\nhere I am"
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
        await until_shown(backend, one.place, f"{long}\nrot é\nhere I am")
    finally:
        start.end_all()


@pytest.mark.parametrize("sent", [b"", b"/\x001\x00touch", b"/\x002\x00touch\x00pwned\x00A=1"])
def test_a_launcher_whose_starter_dies_starts_nothing(tmp_path: Path, sent: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryDirectory() as folder:
        listener.bind(f"{folder}/s")
        listener.listen()
        listener.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", launcher.__file__, f"{folder}/s"],
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            text=True,
        )
        line, _ = listener.accept()
        line.sendall(sent)
        line.close()
        _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "died before" in said
    assert os.listdir(tmp_path) == []
