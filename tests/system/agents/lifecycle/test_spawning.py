"""Starting agents that are real processes: once, proved, within limits, or not at all."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.contracts.backend import Backend, Launch
from bullpen.agents.drivers.registry import check_spec
from bullpen.agents.supervisor.start import Spawned, Starter
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.errors import Invalid, Refused, StartFailed, Unavailable
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.names import LEAD
from support.agents.warm_session import warm_user
from support.agents.warm_starts import warm_home, warm_parents
from support.crews import eventually
from support.offices import (
    OUTSIDE,
    TEAM,
    Place,
    needs_tmux,
    opened,
    view,
)
from support.open_acts import open_to_agents


class TestSpawning:
    async def test_a_hundred_spawns_with_one_key_are_one_process(self, place: Place) -> None:
        """R-3.4: spawn 100 times in parallel with one key and random timeouts: one process."""
        rng = random.Random(34)
        spec = await place.spec("[agents.alice]\n")
        got: list[Spawned] = []

        async def spawn(patience_s: float) -> None:
            with anyio.move_on_after(patience_s):
                got.append(
                    await place.supervisor.spawn("alice", spec, by=LEAD, key="the-key", ready_s=60)
                )

        async with anyio.create_task_group() as group:
            for number in range(100):
                patience = 90.0 if number % 3 == 0 else rng.uniform(0.01, 2.0)
                group.start_soon(spawn, patience)
        assert {each.name for each in got} == {"alice"}
        assert len(got) >= 34
        assert len(place.processes()) == 1
        living = await place.team.agents.living()
        assert [member.name for member, _ in living] == ["alice"]

    @pytest.mark.parametrize("key", ["the-key", None])
    async def test_a_call_that_is_given_up_when_the_agent_is_ready_takes_it_from_nobody(
        self, place: Place, monkeypatch: pytest.MonkeyPatch, key: str | None
    ) -> None:
        """R-3.4: others with the same key may have got it already; without one nobody has."""
        handshake, ready = Starter._handshake, anyio.Event()

        async def slow(self: Starter, *given: Any, **named: Any) -> ProcessRecord | None:
            place = await handshake(self, *given, **named)
            ready.set()
            await anyio.sleep_forever()
            return place

        monkeypatch.setattr(Starter, "_handshake", slow)
        spec = await place.spec("[agents.alice]\n")
        async with anyio.create_task_group() as group:
            group.start_soon(
                partial(place.supervisor.spawn, "alice", spec, by=LEAD, key=key, ready_s=60)
            )
            await ready.wait()
            group.cancel_scope.cancel()
        assert len(place.processes()) == (0 if key is None else 1)

    async def test_a_start_that_is_given_up_is_never_ready_for_others(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Others with its key would get an agent that is killed the next moment."""
        end_failed, started = Starter._end_failed, anyio.Event()

        async def hangs(self: Starter, *given: Any, **named: Any) -> ProcessRecord | None:
            started.set()
            await anyio.sleep_forever()
            raise AssertionError

        async def late(self: Starter, *given: Any) -> str:
            # Long enough for the process to get ready, if it may.
            await eventually(over, within_s=60)
            return await end_failed(self, *given)

        async def over() -> bool:
            return not place.processes() or "agent.ready" in await operations()

        async def operations() -> list[str]:
            return [event.op for event in await place.team.events()]

        monkeypatch.setattr(Starter, "_handshake", hangs)
        monkeypatch.setattr(Starter, "_end_failed", late)
        spec = await place.spec("[agents.alice]\n")
        async with anyio.create_task_group() as group:
            group.start_soon(
                partial(place.supervisor.spawn, "alice", spec, by=LEAD, key="the-key", ready_s=60)
            )
            await started.wait()
            group.cancel_scope.cancel()
        assert "agent.ready" not in await operations()
        assert await place.team.agents.living() == []
        assert not place.processes()

    async def test_the_same_key_from_other_processes_is_the_same_agent(
        self, place: Place, tmp_path: Path
    ) -> None:
        code = (
            "import anyio, sys\n"
            "from bullpen.app.settings import settings_from\n"
            "from bullpen.agents.config.spec import SpawnRequest\n"
            "from bullpen.app.app import App\n"
            "import os\n"
            "async def main():\n"
            "    s = settings_from(os.environ, home=sys.argv[1], team='alpha')\n"
            "    async with App(s, os.environ) as o:\n"
            "        spec = await o.resolve(SpawnRequest(driver='scripted', cwd='/',"
            " script=sys.argv[2], claims=False))\n"
            "        made = await o.supervisor('alpha').spawn('alice', spec, by='team-lead',"
            " key='k', ready_s=60)\n"
            "        print(made.place.pid)\n"
            "anyio.run(main)\n"
        )
        script = place.script("[agents.alice]\n")
        pids: list[str] = []

        async def one() -> None:
            done = await anyio.run_process([sys.executable, "-c", code, str(place.home), script])
            pids.append(done.stdout.decode().strip())

        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(one)
        assert len(pids) == 8
        assert len(set(pids)) == 1
        assert place.processes() == [int(pids[0])]

    @pytest.mark.parametrize("backend", OUTSIDE)
    async def test_a_start_without_a_handshake_is_undone_and_shows_the_last_screen(
        self, place: Place, backend: str
    ) -> None:
        """R-9.12: a dialog that nobody sees is a failed start with the last screen attached."""
        dialog = place.folder / "dialog.sh"
        dialog.write_text("#!/bin/sh\necho 'Do you trust this folder? [y/N]'\nexec sleep 9999\n")
        dialog.chmod(0o755)
        supervisor = Supervisor(
            place.team,
            home=place.home,
            backends=place.app._backends,
            environ={**os.environ, **warm_user()},
            check=check_spec,
            program=[str(dialog)],
        )
        spec = await place.spec("[agents.alice]\n", backend=backend)
        with pytest.raises(StartFailed, match="not ready in time") as failed:
            await supervisor.spawn("alice", spec, by=LEAD, ready_s=3)
        assert "Do you trust this folder? [y/N]" in failed.value.screen
        assert [member.name for member in await place.team.roster.list()] == [LEAD]
        assert place.processes() == []
        assert place.panes() == []

    @pytest.mark.parametrize("backend", OUTSIDE)
    async def test_a_driver_that_cannot_start_is_undone_and_says_why(
        self, place: Place, backend: str
    ) -> None:
        with pytest.raises(Unavailable, match="no turns for"):
            await place.spawn("alice", "[agents.bob]\n", backend=backend)
        assert [member.name for member in await place.team.roster.list()] == [LEAD]
        assert place.processes() == []
        # The name is free again, and nothing of the first try is in the mailbox.
        await place.spawn("alice", backend=backend)
        assert (await place.team.mailbox.read("alice")).entries == ()

    @needs_tmux
    async def test_a_backend_that_is_not_there_is_an_error_and_never_another_one(
        self, tmp_path: Path
    ) -> None:
        """R-9.3: remove tmux, ask for tmux."""
        async with opened(tmp_path) as place:
            before = os.environ["PATH"]
            try:
                os.environ["PATH"] = str(tmp_path)
                with pytest.raises(Unavailable, match="tmux"):
                    await place.spawn("alice", backend="tmux")
            finally:
                os.environ["PATH"] = before
            assert [member.name for member in await place.team.roster.list()] == [LEAD]
            with pytest.raises(Invalid, match="no backend 'iterm'"):
                await place.spawn("alice", backend="iterm")

    @pytest.mark.parametrize("warm", [False, True])
    async def test_the_environment_is_the_recorded_list_and_nothing_else(
        self, tmp_path: Path, warm: bool
    ) -> None:
        """R-9.6: an explicit recorded allow-list; values are never stored."""
        given = {"SECRET_A": "one-value", "SECRET_B": "other-value"}
        with warm_home(tmp_path) as home:
            cold = {"BULLPEN_WARM_START": "off"}
            await self._environment_of_an_agent(tmp_path, {**given, **(home if warm else cold)})
            assert len(warm_parents(f"HOME={tmp_path}")) == int(warm)

    async def _environment_of_an_agent(self, tmp_path: Path, given: dict[str, str]) -> None:
        async with opened(tmp_path, **given) as place:
            script = """
            [[agents.alice.turns]]
            when = "start"
            steps = [{tool = "Bash", input = {command = "env > env.txt"}}, {say = "done"}]
            """
            await place.spawn("alice", script, prompt="Go", env=["SECRET_A"])
            found = place.project / "env.txt"
            await eventually(lambda: found.exists() and bool(found.read_text()), within_s=30)
            text = found.read_text()
            assert "SECRET_A=one-value" in text
            assert "other-value" not in text
            agent = (await place.team.agents.get("alice"))[1]
            assert "SECRET_A" in agent.spec.env
            for folder, _, names in os.walk(place.home):
                for path in (Path(folder, name) for name in names):
                    with suppress(FileNotFoundError):  # it is being replaced
                        assert b"one-value" not in path.read_bytes(), path
            with pytest.raises(Invalid, match="NOT_SET"):
                await place.spec("[agents.bob]\n", env=["NOT_SET"])

    async def test_limits_hold_before_anything_is_started(self, place: Place) -> None:
        """R-5.3: agents alive, depth and spawns a minute are checked before each spawn."""
        agents = place.team.agents
        await agents.limit(by=LEAD, agents=1)
        await place.spawn("alice")
        with pytest.raises(Refused) as refused:
            await place.spawn("bob")
        assert refused.value.reason == "agents_limit"
        await agents.limit(by=LEAD, agents=50, spawns_per_minute=2)
        await place.spawn("bob")
        with pytest.raises(Refused) as refused:
            await place.spawn("carl")
        assert refused.value.reason == "spawn_rate"
        await agents.limit(by=LEAD, spawns_per_minute=60, depth=1)
        spec = await place.spec("[agents.dora]\n")
        with pytest.raises(Refused) as refused:
            await place.supervisor.spawn("dora", spec, by="alice")
        assert refused.value.reason == "not_lead"
        await open_to_agents(place.app.teams.open(TEAM), "member.spawn")
        with pytest.raises(Refused) as refused:
            await place.supervisor.spawn("dora", spec, by="alice")
        assert refused.value.reason == "depth_limit"
        assert len(place.processes()) == 2


class HangingBackend:
    """A backend that hangs in one of its methods."""

    name = "subprocess"

    def __init__(self, hangs_in: str) -> None:
        self._hangs_in = hangs_in
        self._real = Detached()

    async def _maybe_hang(self, method: str) -> None:
        if method == self._hangs_in:
            await anyio.sleep_forever()

    async def check(self) -> None:
        await self._maybe_hang("check")

    async def start(self, launch: Launch) -> ProcessRecord:
        await self._maybe_hang("start")
        return await self._real.start(launch)

    async def alive(self, place: ProcessRecord) -> bool:
        return await self._real.alive(place)

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        await self._maybe_hang("stop")
        await self._real.stop(place, nonce, grace_s=grace_s)

    async def screen(self, place: ProcessRecord) -> str:
        await self._maybe_hang("screen")
        return await self._real.screen(place)

    def attach(self, place: ProcessRecord) -> list[str] | None:
        return None

    async def places(self) -> dict[str, ProcessRecord]:
        return {}

    async def aclose(self) -> None:
        pass


class TestDeadlines:
    """R-3.5: every call has a deadline and returns a result or a cause."""

    def supervisor(self, place: Place, hangs_in: str, program: list[str]) -> Supervisor:
        backends: Mapping[str, Backend] = {"subprocess": HangingBackend(hangs_in)}
        return Supervisor(
            place.team,
            home=place.home,
            backends=backends,
            environ=os.environ,
            check=check_spec,
            program=program,
        )

    @pytest.mark.parametrize("hangs_in", ["start", "check", "handshake", "screen"])
    async def test_a_spawn_that_hangs_answers_by_its_deadline(
        self, place: Place, hangs_in: str
    ) -> None:
        supervisor = self.supervisor(place, hangs_in, ["/bin/sleep", "9999"])
        spec = await place.spec("[agents.alice]\n")
        with pytest.raises(Unavailable), anyio.fail_after(120):
            await supervisor.spawn("alice", spec, by=LEAD, ready_s=1)
        assert place.processes() == []

    async def test_a_stop_that_hangs_answers_by_its_deadline(self, place: Place) -> None:
        await place.spawn("alice")
        supervisor = self.supervisor(place, "stop", ["/bin/true"])
        with pytest.raises(Unavailable, match="does not answer"), anyio.fail_after(120):
            await supervisor.stop("alice", by=LEAD, grace_s=0.5)

    async def test_one_that_cannot_be_stopped_does_not_keep_the_others_running(
        self, place: Place
    ) -> None:
        await place.spawn("alice")
        await place.spawn("bob")
        backends = {"subprocess": OnlyBob()}
        supervisor = Supervisor(
            place.team, home=place.home, backends=backends, environ={}, check=check_spec
        )
        with pytest.raises(Unavailable, match="does not answer"):
            await supervisor.stop_all(by=LEAD, grace_s=0.1)
        assert (await view(place, "bob")).state == "stopped"


async def test_a_mode_that_the_files_forbid_by_now_is_not_inherited(tmp_path: Path) -> None:
    """R-4.2: nothing widens silently, not through a parent that was spawned before."""
    async with opened(tmp_path, HOME=str(tmp_path / "user")) as place:
        await place.spawn("alice")
        _, facts = await place.team.agents.get("alice")
        settings = tmp_path / "user" / ".claude" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text('{"permissions": {"disableBypassPermissionsMode": "disable"}}')
        with pytest.raises(Refused) as error:
            await place.app.resolve(
                SpawnRequest(
                    driver="scripted",
                    backend="subprocess",
                    cwd=str(place.project),
                    script=place.script("[agents.bob]\n"),
                ),
                parent=("alice", facts),
            )
        assert error.value.reason == "mode_disabled"


class OnlyBob(HangingBackend):
    """A backend that cannot stop anybody but bob."""

    def __init__(self) -> None:
        super().__init__("stop")

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        if "/bob/" in (place.log or ""):
            self._hangs_in = ""
        await super().stop(place, nonce, grace_s=grace_s)
        self._hangs_in = "stop"
