"""One more agent starts when the machine has room for it, whoever starts it (R-9.10)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.supervisor import admission, roster_view
from bullpen.agents.supervisor.admission import Admission, RoomWait
from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.agents.system.footprint import footprints
from bullpen.errors import BullpenError, StartFailed, Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.team.budget.machine_rules import MB
from support.crews import eventually
from support.offices import Place, view

BALLAST_MB = 800

HOLDS_MEMORY = """
[[agents.{name}.turns]]
when = "start"
steps = [{{ tool = "Bash", input = {{ command = '''{command}''' }} }}]
"""


def holding(megabytes: int) -> str:
    """A command that holds so much memory, for longer than any test runs."""
    return (
        f'{sys.executable} -c "held = bytes([1]) * {megabytes * MB}; import time; time.sleep(600)"'
    )


# They are found though nothing in their environment says whose they are.
SERVERS = "for i in $(seq 300); do env -i sleep 120 & done; wait"


def used_by(place: Place, nonce: str) -> tuple[int, int]:
    size = footprints(home_mark(place.home)).get(nonce)
    return (0, 0) if size is None else (size.bytes, size.processes)


async def with_command(place: Place, name: str, command: str) -> str:
    """Spawn an agent whose first turn runs a command that does not end; returns its nonce."""
    await place.spawn(name, HOLDS_MEMORY.format(name=name, command=command), prompt="Begin")
    return await place.nonce(name)


async def waits_for_room(place: Place, name: str) -> str:
    """What an agent that waits for room is shown to wait for."""
    found = ""

    async def is_so() -> bool:
        nonlocal found
        views = [each for each in await place.supervisor.agents() if each.name == name]
        found = (views[0].detail or "") if views else ""
        return found.startswith("waits for room: ")

    await eventually(is_so)
    assert (await view(place, name)).state == "starting"
    return found


async def test_r_9_10_at_a_limit_of_2_gb_the_next_spawn_queues_until_one_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-9.10: limit 2 GB: the next spawn queues. Real processes that hold real memory."""
    # However long they wait, nobody takes them for dead.
    monkeypatch.setattr(roster_view, "_STARTING_S", 0.0)
    await place.team.agents.limit(by=LEAD, memory_mb=2_000)
    for name in ("ann", "bob"):
        nonce = await with_command(place, name, holding(BALLAST_MB))
        await eventually(lambda nonce=nonce: used_by(place, nonce)[0] > BALLAST_MB * MB)  # type: ignore[misc]
    lines: list[str] = []
    order: list[str] = []
    failed: list[BullpenError] = []

    async def spawn(name: str, room_s: float) -> None:
        supervisor = place.app.supervisor("alpha")
        room = RoomWait(room_s, lambda waits: lines.append(str(waits)))
        try:
            spec = await place.spec(f"[agents.{name}]\n")
            await supervisor.spawn(name, spec, by=LEAD, room=room)
        except StartFailed as error:
            failed.append(error)
        else:
            order.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(spawn, "cid", 60.0)
        shown = await waits_for_room(place, "cid")
        assert re.search(r"use 1\.[6-9] of 2\.0 GB", shown)
        group.start_soon(spawn, "dan", 3.0)
        assert "cid of team alpha comes first" in await waits_for_room(place, "dan")
        # Nothing of those who wait runs.
        assert len(footprints(home_mark(place.home))) == 2
        assert await place.supervisor.tend(by=LEAD) == []
        await eventually(lambda: bool(failed), within_s=45)
        assert order == []
        await place.supervisor.stop("ann", by=LEAD, grace_s=1.0)
    assert order == ["cid"]
    assert lines[0].startswith("cid waits for room: the agents on this machine use 1.")
    (error,) = failed
    assert "There is no room for 'dan' after 3 s" in error.message
    names = {member.name for member, _ in await place.team.agents.living()}
    assert names == {"bob", "cid"}


async def test_r_9_10_300_tool_servers_of_one_agent_are_counted_and_the_next_is_refused(
    place: Place,
) -> None:
    """R-9.10: 300 tool servers brought machines down: processes are counted, whoever has them."""
    await place.team.agents.limit(by=LEAD, processes=300)
    nonce = await with_command(place, "ann", SERVERS)
    await eventually(lambda: used_by(place, nonce)[1] >= 300)
    supervisor = place.supervisor
    with pytest.raises(StartFailed, match=r"run 3\d\d of 300 processes") as refused:
        await supervisor.spawn(
            "bob", await place.spec("[agents.bob]\n"), by=LEAD, room=RoomWait(0.5)
        )
    assert "bullpen team limits --processes N" in refused.value.remedy
    assert [member.name for member, _ in await place.team.agents.living()] == ["ann"]
    await place.supervisor.stop("ann", by=LEAD, grace_s=1.0)
    await supervisor.spawn("bob", await place.spec("[agents.bob]\n"), by=LEAD, room=RoomWait(20.0))


async def test_an_agent_that_waits_for_room_and_is_stopped_is_not_started_later(
    place: Place,
) -> None:
    await place.team.agents.limit(by=LEAD, processes=2)
    nonce = await with_command(place, "ann", "sleep 600 & sleep 600 & wait")
    await eventually(lambda: used_by(place, nonce)[1] > 2)
    failed: list[BullpenError] = []

    async def spawn() -> None:
        try:
            await place.supervisor.spawn("bob", await place.spec("[agents.bob]\n"), by=LEAD)
        except StartFailed as error:
            failed.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(spawn)
        await waits_for_room(place, "bob")
        await place.supervisor.stop("bob", by=LEAD, grace_s=1.0)
        await eventually(lambda: bool(failed))
    assert "was ended" in failed[0].message
    assert len(footprints(home_mark(place.home))) == 1


class TestTheLine:
    """The line itself, with stand-ins that carry the nonce of a launch and nothing else."""

    @pytest.fixture
    def stand_ins(self) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        started: dict[str, subprocess.Popen[bytes]] = {}
        yield started
        for process in started.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    async def registered(self, place: Place, name: str, **fields: Any) -> AgentFacts:
        spec = await place.spec(f"[agents.{name}]\n", **fields)
        nonce = f"{home_mark(place.home)}-{os.urandom(8).hex()}"
        made = await place.team.agents.register(name, spec, by=LEAD, nonce=nonce)
        return made.agent

    def start(self, agent: AgentFacts, *words: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "BULLPEN_NONCE": agent.nonce}
        return subprocess.Popen(words or ["sleep", "60"], env=env, start_new_session=True)

    async def test_those_let_in_count_before_they_have_started(self, place: Place) -> None:
        await place.team.agents.limit(by=LEAD, processes=3)
        door = Admission(place.team, place.home)
        agents = [await self.registered(place, f"agent{each}") for each in range(4)]
        for number, agent in enumerate(agents[:3]):
            await door.admit(f"agent{number}", agent, RoomWait(0))
        with pytest.raises(Unavailable, match="run 3 of 3 processes"):
            await door.admit("agent3", agents[3], RoomWait(0))
        await door.release(agents[0])
        await door.admit("agent3", agents[3], RoomWait(0))

    async def test_memory_that_those_let_in_will_take_is_not_given_twice(
        self, place: Place
    ) -> None:
        await place.team.agents.limit(by=LEAD, memory_mb=250)
        door = Admission(place.team, place.home)
        ann, bob, cid = [await self.registered(place, name) for name in ("ann", "bob", "cid")]
        await door.admit("ann", ann, RoomWait(0))
        await door.admit("bob", bob, RoomWait(0))
        with pytest.raises(Unavailable, match=r"use 0\.20 of 0\.25 GB"):
            await door.admit("cid", cid, RoomWait(0))

    async def test_what_stays_free_of_the_machine_is_kept_without_any_limit(
        self, place: Place
    ) -> None:
        agent = await self.registered(place, "ann")
        short = Admission(place.team, place.home, free=lambda: (300 * MB, 16_000 * MB))
        with pytest.raises(Unavailable, match=r"0\.26 GB must stay free"):
            await short.admit("ann", agent, RoomWait(0))
        enough = Admission(place.team, place.home, free=lambda: (400 * MB, 16_000 * MB))
        await enough.admit("ann", agent, RoomWait(0))

    async def test_a_limit_under_which_nobody_fits_is_said_at_once(self, place: Place) -> None:
        await place.team.agents.limit(by=LEAD, memory_mb=50)
        agent = await self.registered(place, "ann")
        with anyio.fail_after(45), pytest.raises(Unavailable, match="no room for 'ann': the"):
            await Admission(place.team, place.home).admit("ann", agent, RoomWait(600))

    async def test_who_was_let_in_and_ended_gives_its_room_back(
        self, place: Place, stand_ins: dict[str, subprocess.Popen[bytes]]
    ) -> None:
        await place.team.agents.limit(by=LEAD, processes=1)
        door = Admission(place.team, place.home)
        ann, bob = [await self.registered(place, name) for name in ("ann", "bob")]
        await door.admit("ann", ann, RoomWait(0))
        stand_ins["ann"] = self.start(ann)
        with pytest.raises(Unavailable):
            await door.admit("bob", bob, RoomWait(0))
        stand_ins["ann"].kill()
        stand_ins["ann"].wait()
        await door.admit("bob", bob, RoomWait(0))

    async def test_what_a_killed_starter_left_in_the_line_is_in_nobodys_way(
        self, place: Place, tmp_path: Path
    ) -> None:
        """kill -9 of a process that waits, and of one that let an agent in and did not start it."""
        await place.team.agents.limit(by=LEAD, processes=1)
        door = Admission(place.team, place.home)
        ann, bob, cid = [await self.registered(place, name) for name in ("ann", "bob", "cid")]
        script = tmp_path / "starter.py"
        script.write_text(STARTER, "utf-8")
        words = [sys.executable, str(script), str(place.home), "ann", "bob"]
        async with await anyio.open_process(words, stderr=None) as starter:
            assert starter.stdout is not None
            said = ""
            with anyio.fail_after(30):
                while "bob waits for room" not in said:
                    said += (await starter.stdout.receive()).decode()
            assert said.startswith("in\n")
            with pytest.raises(Unavailable, match="bob of team alpha comes first"):
                await door.admit("cid", cid, RoomWait(0))
            starter.kill()
        await door.admit("cid", cid, RoomWait(0))
        del ann, bob

    async def test_one_with_stricter_limits_is_in_nobody_elses_way(self, place: Place) -> None:
        await place.app.teams.create("beta", cwd=str(place.project))
        beta = place.app.teams.open("beta")
        await place.team.agents.limit(by=LEAD, processes=1)
        ann, bob = [await self.registered(place, name) for name in ("ann", "bob")]
        door = Admission(place.team, place.home)
        await door.admit("ann", ann, RoomWait(0))
        spec = await place.spec("[agents.cid]\n")
        nonce = f"{home_mark(place.home)}-{os.urandom(8).hex()}"
        cid = (await beta.agents.register("cid", spec, by=LEAD, nonce=nonce)).agent
        async with anyio.create_task_group() as group:
            with anyio.move_on_after(60) as waiting:
                group.start_soon(door.admit, "bob", bob)
                await waits_for_room(place, "bob")
                await Admission(beta, place.home).admit("cid", cid, RoomWait(0))
                waiting.cancel()
            group.cancel_scope.cancel()

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    @pytest.mark.parametrize(
        "command",
        [
            # In a session of its own, with its parent still there; and the other way round.
            "env -i setsid sleep 61 & wait",
            "(env -i sleep 61 &); exec sleep 60",
        ],
    )
    async def test_what_nothing_says_of_whose_it_is_counts(
        self, place: Place, stand_ins: dict[str, subprocess.Popen[bytes]], command: str
    ) -> None:
        ann = await self.registered(place, "ann")
        stand_ins["ann"] = self.start(ann, "sh", "-c", command)
        found: list[int] = []

        def sleeps() -> bool:
            found[:] = [row.pid for row in processes.table() if _says(row.pid, "sleep\0" + "61")]
            return bool(found)

        await eventually(sleeps)
        try:
            await eventually(lambda: len(processes.carriers(ann.nonce)) == 1)
            assert used_by(place, ann.nonce)[1] == 2
        finally:
            for pid in found:
                os.kill(pid, signal.SIGKILL)

    async def test_an_agent_inside_a_process_takes_no_place(self, place: Place) -> None:
        await place.team.agents.limit(by=LEAD, processes=1)
        door = Admission(place.team, place.home)
        ann, bob = [
            await self.registered(place, name, backend="in-process") for name in ("ann", "bob")
        ]
        await door.admit("ann", ann, RoomWait(0))
        await door.admit("bob", bob, RoomWait(0))

    async def test_an_agent_counts_as_those_like_it_once_it_is_let_in(
        self,
        place: Place,
        stand_ins: dict[str, subprocess.Popen[bytes]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(admission, "GROWS_S", 0.0)
        await place.team.agents.limit(by=LEAD, processes=8)
        door = Admission(place.team, place.home)
        ann, bob, cid = [await self.registered(place, name) for name in ("ann", "bob", "cid")]
        await door.admit("ann", ann, RoomWait(0))
        stand_ins["ann"] = self.start(ann, "sh", "-c", "sleep 60 & sleep 60 & sleep 60 & wait")
        await eventually(lambda: used_by(place, ann.nonce)[1] == 4)
        await door.admit("bob", bob, RoomWait(0))
        with pytest.raises(Unavailable, match="run 8 of 8 processes, and one more needs about 4"):
            await door.admit("cid", cid, RoomWait(0))


def _says(pid: int, words: str) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0") == words.encode()
    except OSError:
        return False


STARTER = """
import sys
from pathlib import Path

import anyio

from bullpen.agents.supervisor.admission import Admission, RoomWait
from bullpen.app.settings import settings_from
from bullpen.app.app import App


async def main(home, first, second):
    settings = settings_from({"HOME": home}, home=Path(home), team="alpha")
    async with App(settings, {}) as app:
        team = app.teams.open("alpha")
        door = Admission(team, Path(home))
        await door.admit(first, (await team.agents.get(first))[1], RoomWait(5))
        print("in", flush=True)
        agent = (await team.agents.get(second))[1]
        await door.admit(second, agent, RoomWait(60, lambda it: print(it, flush=True)))


anyio.run(main, *sys.argv[1:])
"""
