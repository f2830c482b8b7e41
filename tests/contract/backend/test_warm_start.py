"""The contract for agents that are forked from a warm parent, and what else holds for them."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.backends.warm_start import starter, wire
from bullpen.agents.contracts.backend import NONCE, Backend
from bullpen.agents.system import processes
from bullpen.protocol.agent import ProcessRecord
from bullpen.testing.backend_contract import (
    Launcher,
    ProcessBackendContract,
    content,
    runs,
    until,
)
from support.agents.warm_starts import CountedWarmStart, warm_start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has warm starts")

# Says what a process inherits from the one that it was forked from.
_ABOUT_ITSELF = """
import json, os, random, signal, sys, threading
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
said = dict(
    environ=dict(os.environ),
    shown=open("/proc/self/environ").read().rstrip("\\0").split("\\0"),
    descriptors=sorted(os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                       if os.path.lexists(f"/proc/self/fd/{n}")),
    stdin=os.readlink("/proc/self/fd/0"),
    random=random.random(),
    umask=status["Umask"], blocked=status["SigBlk"], caught=status["SigCgt"],
    threads=threading.active_count(),
    argv=sys.orig_argv,
)
open("said.new", "w").write(json.dumps(said)); os.rename("said.new", "said")
import time; time.sleep(600)
"""


@pytest.fixture
def warm() -> Iterator[CountedWarmStart]:
    with warm_start() as found:
        yield found


@pytest.fixture
async def backend(warm: CountedWarmStart) -> AsyncIterator[Backend]:
    backend = Detached(warm)
    yield backend
    await backend.aclose()


@pytest.fixture
async def start(backend: Backend, tmp_path: Path) -> AsyncIterator[Launcher]:
    launcher = Launcher(backend, tmp_path)
    yield launcher
    launcher.end_all()


class TestWarmStart(ProcessBackendContract):
    @pytest.fixture
    async def backend(self, warm: CountedWarmStart) -> AsyncIterator[Backend]:
        backend = Detached(warm)
        yield backend
        await backend.aclose()
        # Nothing of the contract was tested with cold starts by mistake.
        assert [each.argv for each in warm.left if each.argv != ("no-such-program",)] == []


async def test_a_child_is_what_a_new_process_would_be(
    start: Launcher, warm: CountedWarmStart, tmp_path: Path
) -> None:
    code = (sys.executable, "-c", _ABOUT_ITSELF)
    forked, other = [json.loads((await start.start(*code)).said) for _ in range(2)]
    assert len(warm.forked) == 2
    cold_start = Launcher(Detached(), tmp_path)
    cold = await cold_start.start(*code)
    fresh = json.loads(cold.said)
    nonce = forked["environ"][NONCE]
    # Without a locale, a new Python sets this one itself.
    fresh["environ"].pop("LC_CTYPE", None)
    assert sorted(forked["shown"]) == sorted(f"{k}={v}" for k, v in forked["environ"].items())
    assert forked["environ"] == {**fresh["environ"], NONCE: nonce}
    assert forked["stdin"] == "/dev/null"
    # Its log twice, and nothing that the parent has open.
    log = f"{tmp_path}/{nonce}/logs/out.log"
    assert [each for each in forked["descriptors"] if not each.startswith("/proc")] == sorted(
        ["/dev/null", log, log]
    )
    for name in ("umask", "blocked", "caught", "threads", "argv"):
        assert forked[name] == fresh[name], name
    assert forked["random"] != other["random"]
    cold_start.end_all()


async def test_the_system_shows_the_command_of_the_agent(
    start: Launcher, warm: CountedWarmStart
) -> None:
    one = await start.start("sh", "-c", "echo > said; exec sleep 600")
    await until(lambda: b"sleep" in _command(one.place), "it is the command")
    two = await start.start(sys.executable, "-c", "open('said', 'w')\nimport time; time.sleep(600)")
    assert _command(two.place).startswith(os.fsencode(sys.executable) + b"\0-c\0open")
    assert processes.carriers(two.launch.nonce) == [two.place.pid]


def _command(place: ProcessRecord) -> bytes:
    return Path(f"/proc/{place.pid}/cmdline").read_bytes()


async def test_the_parent_knows_no_variable_of_an_agent(
    start: Launcher, warm: CountedWarmStart, backend: Backend
) -> None:
    """A key that the parent had read would be in the memory of all later children."""
    secret = f"key-{os.urandom(8).hex()}"
    code = "open('said', 'w')\nimport time; time.sleep(600)"
    launch = start.launch(sys.executable, "-c", code)
    await backend.start(replace(launch, env={**launch.env, "MY_KEY": secret}))
    (parent,) = warm.parents()
    assert secret not in content(f"/proc/{parent}/environ")
    assert secret not in content(f"/proc/{parent}/cmdline")
    assert not _is_in_memory(parent, secret.encode())
    assert _is_in_memory(warm.forked[0], secret.encode())


def _is_in_memory(pid: int, text: bytes) -> bool:
    areas = [line.split() for line in Path(f"/proc/{pid}/maps").read_text("utf-8").splitlines()]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for area in areas:
            first, last = (int(each, 16) for each in area[0].split("-"))
            if area[1].startswith("rw"):
                with suppress(OSError, OverflowError):
                    memory.seek(first)
                    if text in memory.read(last - first):
                        return True
    return False


async def test_an_ended_child_is_reaped_by_its_parent(start: Launcher) -> None:
    one = await start.start(sys.executable, "-c", "open('said', 'w')")
    assert one.place.pid is not None
    pid = one.place.pid
    await until(lambda: processes.look(pid) is None, "it is reaped")


async def test_agents_outlive_a_parent_that_is_killed_and_the_next_gets_a_new_one(
    start: Launcher, warm: CountedWarmStart, backend: Backend
) -> None:
    one = await start.start(*_waits())
    (first,) = warm.parents()
    os.kill(first, signal.SIGKILL)
    await until(lambda: not runs(first), "it is killed")
    assert await backend.alive(one.place)
    two = await start.start(*_waits())
    assert warm.parents() != [first]
    assert warm.left == []
    for each in (one, two):
        await backend.stop(each.place, each.launch.nonce, grace_s=10)
        assert not await backend.alive(each.place)


def _waits() -> tuple[str, ...]:
    return sys.executable, "-c", "open('said', 'w')\nimport time; time.sleep(600)"


# Starts another agent from a warm parent, as a lead does.
_STARTS_ANOTHER = """
import os, sys; sys.path[:] = {path!r}
import anyio
from pathlib import Path
from typing import Any
from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.contracts.backend import NONCE, Launch
from bullpen.agents.system import orphans, process_owners
from support.agents.warm_starts import CountedWarmStart
orphans.adopt_orphans()
process_owners.record(os.getpid(), os.environ[NONCE])
here = os.getcwd()
env = {{NONCE: {nonce!r}, "PATH": os.environ["PATH"]}}
argv = (sys.executable, "-c", "import time; time.sleep(600)")
launch = Launch("alpha", "zoe", {nonce!r}, argv, env, here, here + "/log", modules=("json",))
warm = CountedWarmStart(Path({folder!r}))
anyio.run(Detached(warm).start, launch)
open("said.new", "w").write(str(len(warm.forked))); os.rename("said.new", "said")
import time; time.sleep(600)
"""


async def test_a_parent_and_its_agents_outlive_the_agent_that_started_it(
    start: Launcher, warm: CountedWarmStart, backend: Backend
) -> None:
    inner = start.launch(*_waits()).nonce
    code = _STARTS_ANOTHER.format(path=sys.path, nonce=inner, folder=str(warm.folder))
    cold = Detached()
    lead = start.launch(sys.executable, "-c", code)
    place = await cold.start(lead)
    said = Path(lead.cwd, "said")
    await until(lambda: said.exists() and content(said) == "1", "the other one is there")
    (parent,), (agent,) = warm.parents(), processes.carriers(inner)
    await cold.stop(place, lead.nonce, grace_s=10)
    assert runs(parent)
    assert runs(agent)
    # And the other way round: what it forked ends alone.
    row = processes.look(agent)
    assert row is not None
    await processes.end(agent, row.start, row.group, inner, 10)
    assert runs(parent)


async def test_a_parent_that_is_stopped_is_not_waited_for(
    start: Launcher, warm: CountedWarmStart, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start.start(*_waits())
    (parent,) = warm.parents()
    os.kill(parent, signal.SIGSTOP)
    await until(lambda: getattr(processes.look(parent), "state", "") == "T", "it is stopped")
    one = await start.start(*_waits())
    assert [each.nonce for each in warm.left] == [one.launch.nonce]
    os.kill(parent, signal.SIGCONT)
    # What waited in its socket comes to nothing: there is one agent.
    await start.start(*_waits())
    assert processes.carriers(one.launch.nonce) == [one.place.pid]


def _too_late(line: socket.socket) -> dict[str, Any]:
    raise TimeoutError("no answer in time")


async def test_an_answer_that_comes_too_late_starts_no_second_agent(
    start: Launcher, warm: CountedWarmStart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is read, and the child is ready, only after its starter gave up."""
    await start.start(*_waits())
    monkeypatch.setattr(wire, "receive", _too_late)
    one = await start.start(*_waits())
    monkeypatch.undo()
    assert [each.nonce for each in warm.left] == [one.launch.nonce]
    # The parent serves in order: when the next is there, the late child has been forked.
    await start.start(*_waits())
    await until(lambda: processes.carriers(one.launch.nonce) == [one.place.pid], "there is one")
    assert os.listdir(one.launch.cwd).count("said") == 1


async def test_a_child_that_is_not_told_to_go_ends(
    start: Launcher, warm: CountedWarmStart, tmp_path: Path
) -> None:
    await start.start(*_waits())
    launch = start.launch(*_waits())
    with _line(warm) as line:
        _ask(line, list(launch.argv), dict(launch.env), launch.cwd, launch.log)
        pid = wire.receive(line)["pid"]
        assert processes.carriers(launch.nonce) == [pid]
    await until(lambda: processes.look(pid) is None, "it has ended")
    assert "said" not in os.listdir(launch.cwd)


def _sockets(warm: CountedWarmStart) -> list[Path]:
    return [each for each in warm.folder.iterdir() if stat.S_ISSOCK(each.stat().st_mode)]


def _line(warm: CountedWarmStart) -> socket.socket:
    (path,) = _sockets(warm)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(30)
    line.connect(str(path))
    return line


def _ask(line: socket.socket, words: list[str], env: dict[str, str], cwd: str, log: str) -> None:
    wire.send(line, {"words": words, "env": env, "cwd": cwd, "log": log})


async def test_a_socket_that_nobody_serves_is_replaced(
    start: Launcher, warm: CountedWarmStart
) -> None:
    await start.start(*_waits())
    for pid in warm.parents():
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not warm.parents(), "the parent has ended")
    assert len(_sockets(warm)) == 1
    await start.start(*_waits())
    assert len(warm.forked) == 2


async def test_old_files_of_killed_parents_are_removed(
    start: Launcher, warm: CountedWarmStart
) -> None:
    for name in ("old", "new"):
        (warm.folder / f"{name}.lock").touch()
        (warm.folder / name).touch()
    os.utime(warm.folder / "old.lock", (0, 0))
    await start.start(*_waits())
    left = {each.name for each in warm.folder.iterdir()}
    assert {"new", "new.lock"} <= left
    assert not left & {"old", "old.lock"}


async def test_many_at_once_have_one_parent(
    backend: Backend, start: Launcher, warm: CountedWarmStart
) -> None:
    launches = [start.launch(*_waits()) for _ in range(8)]
    async with anyio.create_task_group() as group:
        for launch in launches:
            group.start_soon(backend.start, launch)
    assert len(warm.forked) == len(launches)
    assert len(warm.parents()) == 1


async def test_other_modules_variables_and_limits_have_parents_of_their_own(
    backend: Backend, start: Launcher, warm: CountedWarmStart
) -> None:
    one, two, three = (start.launch(*_waits()) for _ in range(3))
    await backend.start(one)
    await backend.start(replace(two, modules=("json", "csv")))
    await backend.start(replace(three, env={**three.env, "TZ": "Asia/Tokyo"}))
    old = os.umask(0o077)
    try:
        await backend.start(start.launch(*_waits()))
    finally:
        os.umask(old)
    assert len(warm.forked) == len(warm.parents()) == 4


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_LIBRARY_PATH"])
async def test_variables_that_count_only_at_the_start_of_a_process_are_not_lost(
    backend: Backend, start: Launcher, warm: CountedWarmStart, name: str
) -> None:
    launch = start.launch(*_waits())
    await backend.start(replace(launch, env={**launch.env, name: "/nowhere"}))
    assert warm.forked == []


async def test_an_environment_that_does_not_fit_is_not_cut(
    backend: Backend, start: Launcher, warm: CountedWarmStart
) -> None:
    code = "import os; open('said', 'w').write(str(len(os.environ['LONG'])))"
    launch = start.launch(sys.executable, "-c", code)
    await backend.start(replace(launch, env={**launch.env, "LONG": "x" * 100_000}))
    said = Path(launch.cwd, "said")
    await until(lambda: said.exists() and content(said) == "100000", "it has all of it")
    assert warm.forked == []


async def test_a_parent_whose_files_have_changed_forks_nothing(
    backend: Backend, start: Launcher, warm: CountedWarmStart, tmp_path: Path
) -> None:
    """After an upgrade, a child must not run a mixture of two versions."""
    module = warm.folder / "upgraded.py"
    module.write_text("", "utf-8")

    async def one_more() -> None:
        await backend.start(replace(start.launch(*_waits()), modules=(module.stem,)))

    await one_more()
    (first,) = warm.parents()
    await one_more()
    assert len(warm.forked) == 2
    os.utime(module, ns=(0, 0))
    await one_more()
    assert len(warm.left) == 1
    await until(lambda: not runs(first), "it has ended")
    await one_more()
    assert len(warm.forked) == 3


async def test_a_parent_that_cannot_be_started_is_not_tried_again_at_once(tmp_path: Path) -> None:
    with warm_start("support.agents.no_such_module") as warm:
        backend = Detached(warm)
        start = Launcher(backend, tmp_path)
        for _ in range(2):
            one = await start.start(*_waits())
            assert await backend.alive(one.place)
        assert len(warm.left) == 2
        (lock,) = warm.folder.glob("*.lock")
        assert content(lock).startswith("cannot ")
        start.end_all()


async def test_a_folder_that_others_can_enter_is_not_used(
    backend: Backend, start: Launcher, warm: CountedWarmStart
) -> None:
    warm.folder.chmod(0o755)
    await start.start(*_waits())
    assert warm.forked == []
    assert list(warm.folder.iterdir()) == []
    warm.folder.chmod(0o700)
    await start.start(*_waits())
    assert len(warm.forked) == 1
    assert all(stat.S_IMODE(each.stat().st_mode) & 0o077 == 0 for each in warm.folder.iterdir())


async def test_a_process_in_another_namespace_gets_nothing(
    start: Launcher, warm: CountedWarmStart, tmp_path: Path
) -> None:
    """Even if a sandbox showed the socket, which it does not."""
    await start.start(*_waits())
    (path,) = _sockets(warm)
    launch = start.launch(*_waits())
    asked = {"words": launch.argv, "env": launch.env, "cwd": launch.cwd, "log": launch.log}
    code = (
        f"import socket, sys; sys.path[:] = {sys.path!r}\n"
        "from bullpen.agents.backends.warm_start import wire\n"
        f"line = socket.socket(socket.AF_UNIX); line.settimeout(30); line.connect({str(path)!r})\n"
        f"try: wire.send(line, {asked!r}); print('heard', wire.receive(line))\n"
        "except (EOFError, ConnectionError): print('nothing')"
    )
    for words, said in (([], b"heard"), (["bwrap", "--dev-bind", "/", "/", "--"], b"nothing")):
        done = await anyio.run_process([*words, sys.executable, "-c", code], check=False)
        assert done.stdout.startswith(said), (done.stdout, done.stderr)


async def test_a_parent_ends_when_nobody_asks(
    start: Launcher, warm: CountedWarmStart, backend: Backend
) -> None:
    code = "from bullpen.agents.backends.warm_start import parent; parent.IDLE_S = 0.5"
    (warm.folder / "impatient.py").write_text(code, "utf-8")
    launch = replace(start.launch(*_waits()), modules=("impatient",))
    place = await backend.start(launch)
    await until(lambda: warm.parents() == [], "it has ended")
    assert _sockets(warm) == []
    assert await backend.alive(place)
    await backend.stop(place, launch.nonce, grace_s=10)


async def test_a_parent_that_does_not_get_on_is_not_waited_for(
    start: Launcher,
    warm: CountedWarmStart,
    backend: Backend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starter, "_STALLED_S", 0.5)
    (warm.folder / "asleep.py").write_text("import time; time.sleep(600)", "utf-8")
    launch = replace(start.launch(*_waits()), modules=("asleep",))
    with anyio.fail_after(60):
        place = await backend.start(launch)
    assert warm.forked == []
    assert processes.carriers(launch.nonce) == [place.pid]


async def test_a_library_with_a_thread_makes_agents_start_cold(
    start: Launcher, warm: CountedWarmStart, backend: Backend
) -> None:
    code = "import threading as t, time; t.Thread(target=time.sleep, args=[9], daemon=True).start()"
    (warm.folder / "threaded.py").write_text(code, "utf-8")
    launch = replace(start.launch(*_waits()), modules=("threaded",))
    assert await backend.alive(await backend.start(launch))
    assert warm.forked == []
    (lock,) = warm.folder.glob("*.lock")
    assert "thread" in content(lock)
