"""What every backend promises: one test for each promise. Subclass it to check a backend.

class TestMyBackend(ProcessBackendContract):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[Backend]:
        backend = MyBackend()
        yield backend
        await backend.aclose()

`BackendContract` is for backends of any kind. `ProcessBackendContract` adds the promises of those
that run a program in its own process.
"""

from __future__ import annotations

import ast
import json
import os
import secrets
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.backend import NONCE, Backend, Launch
from bullpen.agents.permissions.speaker import UNKNOWN
from bullpen.agents.system import processes
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord

WAIT_S = 60.0
"""How long a test waits for something; the machine may be slow and busy."""


_SAY = "import os; open('said.new', 'w').write({}); os.rename('said.new', 'said')\n"
_HELPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
_STOPPED = "import os, signal, time; os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)"

# Says for whom it speaks: the launches above it, nearest first.
_SPEAKS = (
    "import os, sys; sys.path[:] = {path!r}\n"
    "from bullpen.agents.permissions.speaker import launches_above\n"
    "print(launches_above([], os.environ))"
)
# Starts another agent, as a lead does, and asks for whom it and its own commands speak. It begins
# as every runner does: it records whose process it is.
_STARTS_ANOTHER = """
import anyio, json, os, subprocess, sys, time
from pathlib import Path
from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.contracts.backend import NONCE, Launch
from bullpen.agents.system import process_owners
process_owners.record(os.getpid(), os.environ[NONCE])
speaks = [sys.executable, "-c", {speaks!r}]
ask = lambda env: subprocess.run(speaks, env=env, capture_output=True, text=True).stdout.strip()
out = "subprocess.run(" + repr(speaks) + ", env={{}}, stdout=open('inner.new', 'w'))"
inner = "import os, subprocess, time; " + out + "; os.rename('inner.new', 'inner')"
argv = (sys.executable, "-c", inner)
env = {{NONCE: "inner", "PATH": os.environ["PATH"]}}
here = os.getcwd()
anyio.run(Detached().start, Launch("alpha", "zoe", "inner", argv, env, here, here + "/inner.log"))
deadline = time.monotonic() + 60
while not os.path.exists("inner") and time.monotonic() < deadline: time.sleep(0.05)
said = dict(
    plain=ask(dict(os.environ)),
    bare=ask({{}}),
    forged=ask({{**os.environ, NONCE: "inner"}}),
    inner=Path("inner").read_text().strip(),
)
open("said.new", "w").write(json.dumps(said)); os.rename("said.new", "said")
time.sleep(600)
"""

# Each writes to the file `said` when it is ready.
PROGRAMS = {
    "wait": "print('here I am', flush=True)\n"
    + _SAY.format("'waiting'")
    + "import time; time.sleep(600)",
    "deaf": "import signal\n"
    "for name in ('SIGTERM', 'SIGHUP', 'SIGINT'): signal.signal(getattr(signal, name), "
    "signal.SIG_IGN)\n" + _SAY.format("'deaf'") + "import time; time.sleep(600)",
    "end": "print('it broke', flush=True)\n" + _SAY.format("'ended'") + "raise SystemExit(3)",
    "leave": "import subprocess, sys\n"
    f"helper = subprocess.Popen([sys.executable, '-c', {_HELPER!r}], start_new_session=True)\n"
    + _SAY.format("str(helper.pid)")
    + "import time; time.sleep(600)",
    # Ends at once and leaves a process behind in its group.
    "abandon": "import os, signal, subprocess, sys\n"
    "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    f"helper = subprocess.Popen([sys.executable, '-c', {_HELPER!r}])\n"
    + _SAY.format("str(helper.pid)"),
    # Its child in its group has stopped itself: it receives nothing until it is continued.
    "stopped": "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {_STOPPED!r}])\n"
    + _SAY.format("str(child.pid)")
    + "import time; time.sleep(600)",
}


async def until(true: Callable[[], bool], what: str) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, f"not in {WAIT_S:.0f} s: {what}"
        await anyio.sleep(0.02)


async def until_async(true: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something asynchronous is true."""
    with anyio.move_on_after(WAIT_S):
        while not await true():  # noqa: ASYNC110
            await anyio.sleep(0.02)
        return
    pytest.fail(f"not in {WAIT_S:.0f} s: {what}")


async def until_dead(backend: Backend, place: ProcessRecord) -> None:
    """Wait until a backend reports that something is not alive."""

    async def dead() -> bool:
        return not await backend.alive(place)

    await until_async(dead, f"process {place.pid} is dead")


async def until_shown(backend: Backend, place: ProcessRecord, text: str) -> None:
    """Wait until a text is on the screen of an agent."""

    async def shown() -> bool:
        return text in await backend.screen(place)

    await until_async(shown, f"{text!r} is on the screen")


def content(path: str | Path) -> str:
    """Return the text of a file."""
    return Path(path).read_text(encoding="utf-8")


def runs(pid: int) -> bool:
    """Return whether a process with that pid runs."""
    row = processes.look(pid)
    return row is not None and row.runs


@dataclass(frozen=True, slots=True)
class Started:
    """A launch that is ready, and what it wrote."""

    launch: Launch
    place: ProcessRecord
    said: str


class Launcher:
    """Starts the programs of the contract, and ends whatever a test leaves behind."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend, self._folder = backend, folder
        self._nonces: list[str] = []

    def launch(self, *argv: str, agent: str = "ann") -> Launch:
        """Return a launch of that program in its own directory."""
        nonce = secrets.token_hex(8)
        self._nonces.append(nonce)
        cwd = self._folder / nonce
        cwd.mkdir()
        env = {NONCE: nonce, "PATH": os.environ["PATH"], "GREETING": "two words; $(no) #{no}\n"}
        log = str(cwd / "logs" / "out.log")
        return Launch("alpha", agent, nonce, argv, env, str(cwd), log, modules=("json",))

    async def start(self, *argv: str, agent: str = "ann") -> Started:
        """Start that program and wait until it writes something."""
        launch = self.launch(*argv, agent=agent)
        place = await self._backend.start(launch)
        said = Path(launch.cwd, "said")
        await until(said.exists, f"{argv[-1][:40]} comes to its point")
        return Started(launch, place, content(said))

    def end_all(self) -> None:
        """Kill everything that has a nonce of this test."""
        for nonce in self._nonces:
            for pid in processes.carriers(nonce):
                if pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)


class BackendContract:
    """Every promise that any backend can keep. A subclass has a fixture `backend`."""

    @pytest.fixture
    async def start(self, backend: Backend, tmp_path: Path) -> AsyncIterator[Launcher]:
        launcher = Launcher(backend, tmp_path)
        try:
            yield launcher
        finally:
            launcher.end_all()

    @pytest.fixture
    def bystander(self) -> Iterator[int]:
        """Start a process in this session, with its own nonce."""
        with subprocess.Popen(
            [sys.executable, "-c", _HELPER], env={**os.environ, NONCE: secrets.token_hex(8)}
        ) as process:
            try:
                yield process.pid
            finally:
                process.kill()

    def argv(self, program: str) -> tuple[str, ...]:
        """Return the command that makes this backend run a program of the contract."""
        return sys.executable, "-c", PROGRAMS[program]

    # Starting

    async def test_it_can_be_used_here(self, backend: Backend) -> None:
        await backend.check()

    async def test_what_was_started_is_alive_and_its_record_says_where(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        assert await backend.alive(one.place)
        assert one.place.backend == backend.name
        assert one.place.host == processes.host_name()
        assert one.place.pid is not None
        assert one.place.start is not None
        assert processes.is_alive(one.place.pid, one.place.start)
        assert one.place.log == one.launch.log

    async def test_a_record_that_was_stored_and_read_again_is_as_good(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        again = ProcessRecord.parse(dict(one.place.raw))
        assert await backend.alive(again)
        await backend.stop(again, one.launch.nonce, grace_s=10)
        assert not await backend.alive(again)

    async def test_several_run_beside_each_other(self, backend: Backend, start: Launcher) -> None:
        names = ["ann", "ben", "cid"]
        all_of_them = [await start.start(*self.argv("wait"), agent=name) for name in names]
        assert [await backend.alive(one.place) for one in all_of_them] == [True, True, True]

    # Ending

    async def test_what_ended_by_itself_is_not_alive(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("end"))
        await until_dead(backend, one.place)

    async def test_a_stop_returns_when_it_is_gone(self, backend: Backend, start: Launcher) -> None:
        one = await start.start(*self.argv("wait"))
        with anyio.fail_after(WAIT_S):
            await backend.stop(one.place, one.launch.nonce, grace_s=10 * WAIT_S)
        assert not await backend.alive(one.place)

    async def test_a_deaf_one_is_ended_after_its_grace(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("deaf"))
        with anyio.fail_after(WAIT_S):
            await backend.stop(one.place, one.launch.nonce, grace_s=1)
        assert not await backend.alive(one.place)

    async def test_helpers_that_left_its_group_end_with_it(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("leave"))
        assert runs(int(one.said))
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
        assert not runs(int(one.said))
        assert processes.carriers(one.launch.nonce) == []

    async def test_stopping_twice_is_fine(self, backend: Backend, start: Launcher) -> None:
        one = await start.start(*self.argv("wait"))
        for _ in range(2):
            await backend.stop(one.place, one.launch.nonce, grace_s=10)

    async def test_stopping_what_ended_by_itself_is_fine(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("end"))
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
        assert not await backend.alive(one.place)

    async def test_a_stop_touches_nothing_else(
        self, backend: Backend, start: Launcher, bystander: int
    ) -> None:
        one = await start.start(*self.argv("wait"))
        other = await start.start(*self.argv("leave"), agent="ben")
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
        assert await backend.alive(other.place)
        assert runs(int(other.said))
        assert runs(bystander)

    # Inspecting

    async def test_its_screen_outlives_it(self, backend: Backend, start: Launcher) -> None:
        one = await start.start(*self.argv("end"))
        await until_shown(backend, one.place, "it broke")
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
        await until_shown(backend, one.place, "it broke")

    async def test_what_showed_nothing_has_an_empty_screen(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("deaf"))
        assert await backend.screen(one.place) == ""

    async def test_everything_that_runs_is_listed_and_nothing_else(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        other = await start.start(*self.argv("wait"), agent="ben")
        both = {one.launch.nonce: one.place, other.launch.nonce: other.place}
        assert await backend.places() == both
        await backend.stop(other.place, other.launch.nonce, grace_s=10)
        assert await backend.places() == {one.launch.nonce: one.place}
        assert await backend.alive(one.place)

    async def test_what_ran_on_another_machine_is_not_called_dead(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        elsewhere = one.place.evolve(host="elsewhere", start="12345-00000000")
        with pytest.raises(Unavailable, match="elsewhere"):
            await backend.alive(elsewhere)
        with pytest.raises(Unavailable, match="elsewhere"):
            await backend.stop(elsewhere, one.launch.nonce, grace_s=1)
        assert await backend.alive(one.place)


class ProcessBackendContract(BackendContract):
    """The promises of a backend that runs a program in its own process."""

    own_variables: frozenset[str] = frozenset()
    """What the place itself adds to the environment, such as the kind of its terminal."""

    async def test_what_starts_inside_an_agent_is_itself_and_nobody_else(
        self, backend: Backend, start: Launcher
    ) -> None:
        """In both directions: the one that was started, and the one that started it."""
        program = _STARTS_ANOTHER.format(speaks=_SPEAKS.format(path=sys.path))
        code = f"import sys; sys.path[:] = {sys.path!r}\n{program}"
        one = await start.start(sys.executable, "-c", code)
        said = {key: ast.literal_eval(text) for key, text in json.loads(one.said).items()}
        own = one.launch.nonce
        assert (said["plain"][0], said["bare"][0]) == (own, own), said
        # A nonce that it took from another only makes it nobody.
        assert said["forged"][0] == UNKNOWN, said
        assert said["inner"][0] == "inner", said

    async def test_the_environment_is_exactly_the_one_given(
        self, backend: Backend, start: Launcher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BULLPEN_TEST_SECRET", "inherited")
        launch = start.launch("sh", "-c", "env -0 > got.new; mv got.new got; exec sleep 600")
        await backend.start(launch)
        got = Path(launch.cwd, "got")
        await until(got.exists, "the environment is written")
        entries = content(got).rstrip("\0").split("\0")
        found = dict(entry.split("=", 1) for entry in entries)
        # A shell sets these itself.
        for name in {"PWD", "OLDPWD", "SHLVL", "_", *self.own_variables}:
            found.pop(name, None)
        assert found == dict(launch.env)

    async def test_no_shell_reads_the_words(self, backend: Backend, start: Launcher) -> None:
        said = "import sys; " + _SAY.format("repr(sys.argv[1:])")
        odd = ["a b", ";", "x;", "$(touch pwned)", "`id`", "n\nl", "'\"", "", "#{pane_id}", "%d"]
        odd += ["~", "*", "-x", "--", "\\;", "é", "> out", "&& false"]
        one = await start.start(sys.executable, "-c", f"{said}import time; time.sleep(600)", *odd)
        assert one.said == repr(odd)
        assert "pwned" not in os.listdir(one.launch.cwd)

    async def test_it_runs_in_its_directory(self, backend: Backend, start: Launcher) -> None:
        said = _SAY.format("os.getcwd()")
        one = await start.start(sys.executable, "-c", f"{said}import time; time.sleep(600)")
        assert os.stat(one.said) == os.stat(one.launch.cwd)

    async def test_it_leads_a_group_of_its_own(self, backend: Backend, start: Launcher) -> None:
        one = await start.start(*self.argv("wait"))
        assert one.place.pid is not None
        assert one.place.group == one.place.pid == os.getpgid(one.place.pid)
        assert os.getsid(one.place.pid) == one.place.pid

    async def test_what_it_prints_is_in_its_log_for_its_user_alone(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        log = Path(one.launch.log)
        await until(lambda: "here I am" in content(log), "the log has it")
        assert stat.S_IMODE(os.stat(log).st_mode) == 0o600

    async def test_a_broken_pipe_ends_it_as_it_ends_any_program(
        self, backend: Backend, start: Launcher
    ) -> None:
        if sys.platform != "linux":
            pytest.skip("only Linux tells which signals a process ignores")
        program = "grep SigIgn /proc/self/status > said.new; mv said.new said; exec sleep 600"
        one = await start.start("sh", "-c", program)
        ignored = int(one.said.split()[1], 16)
        assert not ignored & (1 << (signal.SIGPIPE - 1))

    @pytest.mark.parametrize("missing", ["program", "directory"])
    async def test_a_start_that_cannot_be_fails_with_the_cause(
        self, backend: Backend, start: Launcher, missing: str
    ) -> None:
        launch = replace(start.launch(*self.argv("wait")), cwd="/no-such-directory")
        if missing == "program":
            launch = start.launch("no-such-program")
        with pytest.raises(Unavailable, match="cannot be started") as caught:
            await backend.start(launch)
        assert f"no-such-{missing}" in str(caught.value)
        assert "No such file or directory" in str(caught.value)
        assert caught.value.remedy
        assert processes.carriers(launch.nonce) == []
        assert await backend.places() == {}

    async def test_one_that_was_killed_is_not_alive(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        assert one.place.pid is not None
        os.kill(one.place.pid, signal.SIGKILL)
        with anyio.fail_after(10):
            await until_dead(backend, one.place)

    async def test_what_is_stopped_goes_on_to_hear_that_it_shall_end(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("stopped"))
        child = int(one.said)
        await until(lambda: getattr(processes.look(child), "state", "") == "T", "it is stopped")
        with anyio.fail_after(WAIT_S):
            await backend.stop(one.place, one.launch.nonce, grace_s=10 * WAIT_S)
        assert not runs(child)
        assert not await backend.alive(one.place)

    async def test_what_stays_behind_in_its_group_counts_and_is_ended(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("abandon"))
        assert one.place.pid is not None
        pid = one.place.pid
        await until(lambda: not runs(pid), "the first process ends")
        assert await backend.alive(one.place)
        await backend.stop(one.place, one.launch.nonce, grace_s=1)
        assert not runs(int(one.said))
        assert not await backend.alive(one.place)

    async def test_a_pid_that_was_given_out_again_is_left_alone(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start(*self.argv("wait"))
        assert one.place.start is not None
        forged = one.place.evolve(start=f"1{one.place.start}")
        assert not await backend.alive(forged)
        await backend.stop(forged, "another-nonce", grace_s=1)
        assert await backend.alive(one.place)
