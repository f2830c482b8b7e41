"""Whatever is stopped or cancelled ends as soon as people are promised."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import anyio
import httpx2
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.app.app import open_app
from bullpen.app.settings import settings_from
from bullpen.protocol.names import LEAD
from bullpen.testing.driver_stage import until
from bullpen.testing.models import Fault
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace
from support.agents.tools_fixtures import Bench
from support.crews import eventually
from support.doors.web_stage import people
from support.offices import BUSY, OUTSIDE, SLEEPS, STUBBORN, Place, in_state, pid_of
from support.pace import bare_python_s
from system.agents.acp.acp_stage import desk_in, preset, started, take
from system.doors.web.test_command import DEADLINE_S, running
from unit.agents.drivers.native.test_turn import LookInput, looks, tool_that

CANCEL_S = 2.0
"""Within which a person who presses Esc sees that the turn has ended."""


@pytest.mark.parametrize("backend", OUTSIDE)
async def test_stop_ends_a_command_that_would_take_for_ever_within_two_seconds(
    place: Place, backend: str
) -> None:
    """R-2.2: teammate in a long shell command: `stop` ends its process group in 2 s."""
    step = 'tool = "Bash", input = {command = "echo $$ > pid; sleep 9999 & sleep 9999"}'
    await place.spawn("alice", BUSY.format(name="alice", step=step), backend=backend, prompt="Go")
    await eventually((place.project / "pid").exists, within_s=30)
    began = time.monotonic()
    assert (await place.supervisor.stop("alice", by=LEAD)).was_alive
    took_s = time.monotonic() - began
    assert place.processes() == []
    # Two seconds, on a machine on which a bare Python takes 20 ms.
    assert took_s < 100 * bare_python_s()


@pytest.mark.parametrize("backend", OUTSIDE)
@pytest.mark.parametrize(
    "kind", ["deaf", "in a tool", "in a stubborn tool", "waiting", "frozen", "idle"]
)
async def test_an_agent_is_gone_within_its_grace_and_five_seconds(
    place: Place, backend: str, kind: str
) -> None:
    """R-3.1: whatever it does."""
    steps = {
        "deaf": "hang = true",
        "in a tool": SLEEPS,
        "in a stubborn tool": STUBBORN,
        "waiting": "wait_mail = {seconds = 9999.0}",
        "frozen": SLEEPS,
        "idle": 'say = "nothing to do"',
    }
    script = BUSY.format(name="alice", step=steps[kind])
    await place.spawn("alice", script, backend=backend, prompt="Begin")
    if kind != "idle":
        await in_state(place, "alice", "waiting" if kind == "waiting" else "working")
    if kind == "frozen":
        os.kill(await pid_of(place, "alice"), signal.SIGSTOP)
    began = time.monotonic()
    await place.supervisor.stop("alice", by=LEAD, grace_s=2)
    assert time.monotonic() - began < 2 + 250 * bare_python_s()
    assert place.processes() == []


async def test_a_command_that_is_cancelled_ends_within_a_second(ann: Bench) -> None:
    """R-2.2, R-3.1: it ignores SIGTERM, and has a child in its group."""
    deaf = "trap '' TERM; echo $$ > pid; while true; do sleep 0.1; done"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: ann.call("Bash", command=f"sleep 600 & echo $! > child; {deaf}"))
        pids = [await ann.pid_in("pid"), await ann.pid_in("child")]
        began = time.monotonic()
        tasks.cancel_scope.cancel()
    took_s = time.monotonic() - began
    assert not any(ann.runs(pid) for pid in pids)
    # Half a second of grace; the rest grows with what else the machine does.
    assert took_s < 0.5 + 70 * bare_python_s()


async def test_a_turn_that_waits_for_the_model_is_cancelled_at_once(workplace: Workplace) -> None:
    with InProcessModels(lambda request: Fault.hanging(600)) as mock:
        async with workplace.driver(mock) as native:
            async with anyio.create_task_group() as group:
                group.start_soon(workplace.turn, native)
                await until(lambda: bool(mock.requests))
                began = time.monotonic()
                group.cancel_scope.cancel()
            assert time.monotonic() - began < CANCEL_S


async def test_a_turn_in_the_middle_of_a_tool_is_cancelled_at_once(workplace: Workplace) -> None:
    begun = anyio.Event()

    async def hangs(given: LookInput, desk: Desk) -> str:
        begun.set()
        await anyio.sleep_forever()
        return ""

    with InProcessModels(lambda request: looks("south")) as mock:
        async with workplace.driver(mock, tools=tool_that(hangs)) as native:
            async with anyio.create_task_group() as group:
                group.start_soon(workplace.turn, native)
                await begun.wait()
                began = time.monotonic()
                group.cancel_scope.cancel()
            assert time.monotonic() - began < CANCEL_S


async def test_a_program_that_shouts_does_not_hold_up_the_heartbeat(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    gaps_s: list[float] = []

    async def beat() -> None:
        while True:
            began = time.monotonic()
            await anyio.sleep(0.01)
            gaps_s.append(time.monotonic() - began)

    async with started(preset("shouts"), desk) as driver, anyio.create_task_group() as group:
        group.start_soon(beat)
        assert await take(driver, desk) == "Done."
        group.cancel_scope.cancel()
    # A heartbeat counts for 10 s.
    assert max(gaps_s) < 5.0


def test_bullpen_web_ends_at_once_with_open_streams(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    async def make() -> None:
        async with open_app(settings_from({}, home=str(tmp_path / "home"))) as app:
            await people(app, cwd=tmp_path / "work")

    anyio.run(make)
    with running(tmp_path / "home") as (process, found), httpx2.Client(timeout=10) as client:
        client.get(found["url"], follow_redirects=True)
        base = found["url"].partition("/?")[0]
        with client.stream("GET", f"{base}/events?page=overview") as stream:
            assert next(stream.iter_lines()).startswith("retry")
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 0
            assert time.monotonic() - began < 150 * bare_python_s()
