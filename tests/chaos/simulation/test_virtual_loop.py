"""The event loop of the simulation: time that jumps, and processes that are killed or stopped."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio import to_thread

from .machine import Machine, on
from .virtual_loop import Stuck, play


def simulate(body: Callable[[Machine], Awaitable[None]]) -> Machine:
    machine = Machine(1)

    async def run() -> None:
        await body(machine)

    with on(machine):
        play(machine.loop, run(), machine.everyone)
    return machine


def test_an_hour_passes_in_a_few_steps() -> None:
    async def body(machine: Machine) -> None:
        before = machine.now, time.monotonic(), anyio.current_time(), time.time()
        await anyio.sleep(3600)
        after = machine.now, time.monotonic(), anyio.current_time(), time.time()
        assert [b - a for a, b in zip(before, after, strict=True)] == [3600] * 4

    assert simulate(body).loop.steps < 100


def test_a_clock_that_is_set_moves_no_timer() -> None:
    async def body(machine: Machine) -> None:
        machine.set_by_s += 28_800
        with anyio.move_on_after(10) as scope:
            await anyio.sleep(5)
        assert not scope.cancelled_caught

    simulate(body)


def test_nothing_of_a_killed_process_runs_again() -> None:
    did: list[str] = []

    async def main() -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 100)
                await anyio.sleep(100)
                did.append("worked")
        finally:
            did.append("cleaned up")

    async def body(machine: Machine) -> None:
        process = machine.start("ann", "nonce", main)
        await anyio.sleep(1)
        machine.kill(process)
        await anyio.sleep(1000)
        assert did == []
        assert machine.look(process.pid) is None

    simulate(body)


def test_a_stopped_process_goes_on_later() -> None:
    woke: list[float] = []

    async def main() -> None:
        await anyio.sleep(10)
        woke.append(anyio.current_time())

    async def body(machine: Machine) -> None:
        process = machine.start("ann", "nonce", main)
        await anyio.sleep(1)
        begun = machine.now
        machine.stop_for(process, 600)
        await anyio.sleep(1000)
        assert woke == [begun + 600]

    simulate(body)


def test_a_thread_is_played_in_the_loop() -> None:
    async def body(machine: Machine) -> None:
        assert await to_thread.run_sync(lambda: machine.loop.is_running())

    simulate(body)


def test_a_history_in_which_nothing_can_happen_is_noticed() -> None:
    async def body(machine: Machine) -> None:
        await anyio.Event().wait()

    with pytest.raises(Stuck):
        simulate(body)
