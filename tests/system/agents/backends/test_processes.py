"""The operating system's word: identity, liveness, carriers, and ending for good."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import anyio
import pytest

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import process_table, processes
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord
from bullpen.testing.backend_contract import runs, until

Run = Callable[..., "subprocess.Popen[str]"]

SLEEP = "print('ready', flush=True); import time; time.sleep(600)"
# The signal can come while the first line is still being printed.
LISTENS = (
    "import os, signal, time\n"
    "def bye(*_): time.sleep(1); os.write(1, b'bye\\n'); os._exit(0)\n"
    f"signal.signal(signal.SIGTERM, bye); {SLEEP}"
)
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts a program of Python, waits until it is ready, and kills it afterwards."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *, group: int | None = 0, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **env},
            process_group=group,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=60)


def identity(process: subprocess.Popen[str]) -> tuple[int, str]:
    start = processes.start_of(process.pid)
    assert start is not None
    return process.pid, start


@pytest.fixture
def without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems that only have ps."""
    monkeypatch.setattr(process_table, "_PROC", "/no-such-proc")


@pytest.mark.parametrize("system", ["native", "ps"])
class TestTheProcessTable:
    @pytest.fixture(autouse=True)
    def of(self, system: str, request: pytest.FixtureRequest) -> None:
        if system == "ps":
            request.getfixturevalue("without_proc")

    def test_a_process_is_alive_until_it_ends(self, run: Run) -> None:
        process = run(SLEEP)
        pid, start = identity(process)
        assert processes.is_alive(pid, start)
        process.kill()
        process.wait(timeout=60)
        assert not processes.is_alive(pid, start)
        assert processes.start_of(pid) is None

    def test_a_zombie_is_dead(self, run: Run) -> None:
        process = run(SLEEP)
        pid, start = identity(process)
        process.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert processes.start_of(pid) == start
        assert not processes.is_alive(pid, start)
        assert pid not in processes.group_members(pid)

    def test_the_same_pid_with_another_start_is_somebody_else(self, run: Run) -> None:
        pid, start = identity(run(SLEEP))
        assert not processes.is_alive(pid, f"{start}0")

    def test_a_group_has_its_members(self, run: Run) -> None:
        leader = run(SLEEP)
        member = run(SLEEP, group=leader.pid)
        stranger = run(SLEEP)
        found = processes.group_members(leader.pid)
        assert sorted(found) == sorted([leader.pid, member.pid])
        assert stranger.pid not in found

    def test_carriers_are_found_by_their_environment_only(self, run: Run) -> None:
        nonce = secrets.token_hex(8)
        carrier = run(SLEEP, **{NONCE: nonce})
        run(SLEEP, **{NONCE: f"{nonce}0"})
        run(SLEEP, OTHER=f"{NONCE}={nonce}"[:-1])
        run(f"' {NONCE}={nonce} '; {SLEEP}")
        assert processes.carriers(nonce) == [carrier.pid]
        assert processes.marked()[carrier.pid] == nonce
        assert processes.carriers("") == []

    def test_there_is_no_process_of_no_number(self) -> None:
        assert processes.look(0) is None
        assert processes.look(-1) is None
        assert processes.look(2**22 + 1) is None

    async def test_a_group_is_ended_with_its_leader(self, run: Run) -> None:
        leader = run(SLEEP)
        member = run(SLEEP, group=leader.pid)
        await processes.end(*identity(leader), leader.pid, "none", 10)
        assert not runs(leader.pid)
        assert not runs(member.pid)


def test_a_name_full_of_brackets_and_spaces_confuses_nobody(run: Run) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux lets a process choose its name")
    process = run(f"open('/proc/self/comm', 'w').write('a) Z 1 (b'); {SLEEP}")
    row = processes.look(process.pid)
    assert row is not None
    assert row.runs
    assert row.group == process.pid


async def test_one_that_listens_has_its_grace(run: Run) -> None:
    process = run(LISTENS)
    await processes.end(*identity(process), process.pid, "none", 60)
    assert process.communicate(timeout=60)[0] == "bye\n"


async def test_a_deaf_one_is_killed_after_its_grace(run: Run) -> None:
    process = run(DEAF)
    await processes.end(*identity(process), process.pid, "none", 1)
    assert not runs(process.pid)
    assert process.wait(60) == -signal.SIGKILL


async def test_members_of_the_group_are_known_after_their_leader_ended(run: Run) -> None:
    """The leader hears and ends at once; a deaf member without a nonce must not be forgotten."""
    leader = run(SLEEP)
    member = run(DEAF, group=leader.pid)
    pid, start = identity(leader)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processes.end, pid, start, pid, "none", 1)
        await until(lambda: not runs(pid), "the leader ends")
        leader.wait(timeout=60)
    assert not runs(member.pid)


async def test_a_group_that_nothing_proves_to_be_ours_is_left_alone(run: Run) -> None:
    stranger = run(SLEEP)
    member = run(SLEEP, group=stranger.pid)
    _, start = identity(stranger)
    await processes.end(stranger.pid, f"1{start}", stranger.pid, "none", 0)
    stranger.kill()
    stranger.wait(timeout=60)
    await processes.end(stranger.pid, f"1{start}", stranger.pid, "none", 0)
    assert runs(member.pid)


OWN_GROUP = """
import anyio, os, subprocess, sys
from bullpen.agents.system import processes

sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
target, other = subprocess.Popen(sleeper), subprocess.Popen(sleeper)
me, group = os.getpid(), os.getpgrp()
anyio.run(processes.end, me, processes.start_of(me), group, "none", 0)
anyio.run(processes.end, target.pid, processes.start_of(target.pid), group, "none", 5)
print(processes.group_members(group) == [me, other.pid])
other.kill()
"""


def test_this_process_and_its_group_are_never_ended() -> None:
    """In a group of its own, so that a failure ends nobody else."""
    done = subprocess.run(
        [sys.executable, "-c", OWN_GROUP],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )
    assert done.stdout == "True\n", done.stderr


async def test_one_empty_look_is_not_enough(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a process forks and ends while the table is read, and neither is seen."""
    nonce = secrets.token_hex(8)
    process = run(SLEEP, **{NONCE: nonce})
    look, looks = processes.carriers, [0]

    def miss_it_once(wanted: str) -> list[int]:
        looks[0] += 1
        return look(wanted) if looks[0] > 1 else []

    monkeypatch.setattr(processes, "carriers", miss_it_once)
    await processes.end(None, None, None, nonce, 0)
    assert not runs(process.pid)


async def test_a_carrier_that_forks_all_the_time_is_ended(run: Run) -> None:
    nonce = secrets.token_hex(8)
    run(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); print('ready', flush=True)\n"
        "end = time.monotonic() + 60\n"
        "while time.monotonic() < end:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid(); time.sleep(0.05)\n",
        group=None,
        **{NONCE: nonce},
    )
    with anyio.fail_after(30):
        await processes.end(None, None, None, nonce, 0)
    assert processes.carriers(nonce) == []


async def test_what_does_not_go_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing survives SIGKILL at will, so the signal is kept from it here."""
    process = run(SLEEP)
    monkeypatch.setattr(processes, "END_S", 0.2)
    monkeypatch.setattr(processes, "_signal", lambda *_: True)
    with pytest.raises(Unavailable, match=f"{process.pid} .* after SIGKILL"):
        await processes.end(*identity(process), process.pid, "none", 0.1)


async def test_what_may_not_be_signalled_was_not_told_to_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = run(SLEEP)
    monkeypatch.setattr(processes, "END_S", 0.2)
    monkeypatch.setattr(processes, "_signal", lambda *_: False)
    with pytest.raises(Unavailable, match=f"{process.pid} .* may not signal it"):
        await processes.end(*identity(process), process.pid, "none", 0.1)


@pytest.mark.parametrize(
    ("program", "told"), [(SLEEP, ["SIGTERM"]), (DEAF, ["SIGTERM", "SIGKILL"])]
)
async def test_looks_that_take_longer_than_all_deadlines_still_end_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, program: str, told: list[str]
) -> None:
    """A starved machine, or a slow /proc: each look takes longer than the grace and `END_S`."""
    process = run(program)
    table, signalled, sent = processes.table, processes._signal, []

    def slow() -> list[processes.Process]:
        time.sleep(0.7)
        return table()

    def note(row: processes.Process, number: signal.Signals) -> bool:
        sent.append(number.name)
        return signalled(row, number)

    monkeypatch.setattr(processes, "END_S", 0.3)
    monkeypatch.setattr(processes, "table", slow)
    monkeypatch.setattr(processes, "_signal", note)
    await processes.end(*identity(process), process.pid, "", 0.3)
    assert not runs(process.pid)
    assert [name for name in sent if name != "SIGCONT"] == told


async def test_grace_counts_from_the_first_signal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = run(LISTENS)
    table, looks = processes.table, [0]

    def slow_at_first() -> list[processes.Process]:
        looks[0] += 1
        if looks[0] == 1:
            time.sleep(4)
        return table()

    monkeypatch.setattr(processes, "table", slow_at_first)
    await processes.end(*identity(process), process.pid, "", 3)
    assert process.communicate(timeout=60)[0] == "bye\n"


async def test_a_signal_goes_to_the_process_that_was_looked_at(run: Run) -> None:
    process = run(SLEEP)
    row = processes.look(process.pid)
    assert row is not None
    other = processes.Process(row.pid, row.group, row.state, f"{row.start}0")
    processes._signal(other, signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)


def test_a_renamed_machine_still_knows_what_runs_on_it(run: Run) -> None:
    pid, start = identity(run(SLEEP))
    place = ProcessRecord.new(backend="subprocess", host="old-name", pid=pid, start=start)
    assert processes.runs(place)


def test_a_group_of_an_earlier_boot_is_not_this_one(run: Run) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells one boot from another")
    leader = run(SLEEP)
    member = run(SLEEP, group=leader.pid)
    pid, start = identity(leader)
    leader.kill()
    leader.wait(timeout=60)
    place = ProcessRecord.new(
        backend="subprocess", host=processes.host_name(), pid=pid, start=start, group=pid
    )
    assert runs(member.pid)
    assert processes.runs(place)
    assert not processes.runs(place.evolve(start=f"{start.partition('-')[0]}-00000000"))
