"""The contract for agents that are tasks of this process."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from bullpen.agents.backends.in_process import InProcess
from bullpen.agents.contracts.backend import NONCE, Backend, Launch
from bullpen.agents.permissions.speaker import UNKNOWN
from bullpen.agents.system import processes
from bullpen.agents.system.run_command import running
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord
from bullpen.testing.backend_contract import BackendContract, Launcher, content, until, until_dead

CONTEXT: contextvars.ContextVar[str] = contextvars.ContextVar("CONTEXT", default="untouched")


def say(launch: Launch, text: str) -> None:
    folder = Path(launch.cwd)
    (folder / "said.new").write_text(text, encoding="utf-8")
    (folder / "said.new").rename(folder / "said")


def sleeper(env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env=env, start_new_session=True
    )


async def behave(launch: Launch) -> None:
    """What the programs of the contract do, as a task."""
    match launch.argv[0]:
        case "end":
            say(launch, "ended")
            raise RuntimeError("it broke")
        case "leave":
            helper = sleeper(launch.env)
            say(launch, str(helper.pid))
            try:
                await anyio.sleep_forever()
            finally:
                # Nobody kills it here: that is the backend's business. It is only waited for.
                asyncio.get_running_loop().run_in_executor(None, helper.wait)
        case "deaf":
            say(launch, "deaf")
            for _ in range(3):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(600)
            await asyncio.sleep(600)
        case "never":
            say(launch, "never")
            while not os.path.exists(f"{launch.cwd}/go"):  # noqa: ASYNC240
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.1)
        case "context":
            before = CONTEXT.get()
            CONTEXT.set("changed")
            say(launch, before)
        case _:
            say(launch, "waiting")
            await anyio.sleep_forever()


class TestInProcess(BackendContract):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[Backend]:
        backend = InProcess(behave)
        yield backend
        await backend.aclose()

    def argv(self, program: str) -> tuple[str, ...]:
        return (program,)

    async def test_a_task_that_never_ends_is_an_error_that_names_it(
        self, backend: Backend, start: Launcher
    ) -> None:
        one = await start.start("never")
        with pytest.raises(Unavailable, match="ann"):
            await backend.stop(one.place, one.launch.nonce, grace_s=0.2)
        assert await backend.alive(one.place)
        await anyio.Path(one.launch.cwd, "go").touch()
        await until_dead(backend, one.place)

    async def test_a_task_has_a_context_of_its_own(self, backend: Backend, start: Launcher) -> None:
        CONTEXT.set("mine")
        one = await start.start("context")
        await until_dead(backend, one.place)
        assert one.said == "mine"
        assert CONTEXT.get() == "mine"

    async def test_how_it_broke_is_in_its_log(self, backend: Backend, start: Launcher) -> None:
        one = await start.start("end")
        await until_dead(backend, one.place)
        assert "RuntimeError: it broke" in content(one.launch.log)

    async def test_the_task_of_another_process_is_its_own_to_stop(self, backend: Backend) -> None:
        with sleeper({}) as holder:
            try:
                place = ProcessRecord.new(
                    backend="in-process",
                    host=processes.host_name(),
                    pid=holder.pid,
                    start=processes.start_of(holder.pid),
                    pane="n1",
                )
                assert await backend.alive(place)
                with pytest.raises(Unavailable, match=str(holder.pid)):
                    await backend.stop(place, "n1", grace_s=1)
            finally:
                holder.kill()
        assert not await backend.alive(place)
        await backend.stop(place, "n1", grace_s=1)

    async def test_it_cannot_wait_for_its_own_end(self, tmp_path: Path) -> None:
        errors: list[str] = []

        async def stop_myself(launch: Launch) -> None:
            await asyncio.sleep(0)
            (place,) = (await backend.places()).values()
            try:
                await backend.stop(place, launch.nonce, grace_s=1)
            except Unavailable as error:
                errors.append(str(error))

        backend = InProcess(stop_myself)
        await backend.start(
            Launch("alpha", "ann", "n1", (), {}, str(tmp_path), str(tmp_path / "log"))
        )
        await until(lambda: bool(errors), "it is told")
        assert "cannot stop itself" in errors[0]
        await backend.aclose()

    async def test_closing_ends_every_task(self, start: Launcher, backend: Backend) -> None:
        one = await start.start("wait")
        await backend.aclose()
        assert not await backend.alive(one.place)
        assert processes.is_alive(os.getpid(), one.place.start or "")


async def test_what_starts_inside_an_agent_is_itself_and_nobody_else(tmp_path: Path) -> None:
    """Several agents share this process: each command is recorded for the one that runs it."""
    said: dict[str, bytes] = {}
    code = (
        "import os; from bullpen.agents.permissions.speaker import launches_above; "
        "print(launches_above([], os.environ))"
    )

    async def speak(launch: Launch) -> None:
        heard = bytearray()
        for words in ([], ["env", f"{NONCE}=of-another"]):
            async with running(
                [*words, sys.executable, "-c", code],
                cwd=launch.cwd,
                env=launch.env,
                takes=[heard.extend],
            ) as command:
                await command.finished()
        # As what nobody started for an agent, such as an orphan.
        bare = await anyio.run_process([sys.executable, "-c", code], env={})
        said[launch.agent] = bytes(heard) + bare.stdout

    backend = InProcess(speak)
    start = Launcher(backend, tmp_path)
    launches = [start.launch("speak", agent=name) for name in ("ann", "ben")]
    for launch in launches:
        await backend.start(launch)
    await until(lambda: len(said) == len(launches), "both have spoken")
    for launch in launches:
        own, other, bare = said[launch.agent].decode().splitlines()
        # This process is above all of them, and several agents run in it.
        assert own == repr([launch.nonce, UNKNOWN])
        assert other == repr([UNKNOWN])
        assert bare == repr([UNKNOWN])
    await backend.aclose()
    # When the last agent has ended, this process and what it starts are a person's again.
    after = await anyio.run_process([sys.executable, "-c", code], env={})
    assert after.stdout.decode().strip() == "[]"
