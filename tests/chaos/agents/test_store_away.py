"""The store is away for a moment when a turn ends: the report comes all the same."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.errors import Unavailable
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from bullpen.store.contract import StoreLimits
from bullpen.store.files.store import FileStore
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Team, Teams
from chaos.night.nights import small_disk
from support.crews import Crew, Hired, eventually, new_team
from support.store.nats_parts import endpoint_of

SCRIPT = """\
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "SpawnTeammate", input = {name = "ann", prompt = "You count."}},
  {say = "ann counts."},
]

[[agents.team-lead.turns]]
when = "mail"
from = "ann"
contains = "FORTY-TWO"
steps = [{tool = "Finish", input = {summary = "It is 42."}}]

[[agents.ann.turns]]
when = "start"
steps = [
  {tool = "Bash", input = {command = "touch started; while [ ! -e go-on ]; do sleep 0.1; done"}},
  {say = "The answer is FORTY-TWO."},
]
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_run_whose_disk_is_full_when_a_turn_ends_is_done(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "script.toml").write_text(SCRIPT)
    with small_disk(tmp_path / "disk", 16) as fill:
        home = tmp_path / "disk" / "home"
        output = tmp_path / "run.log"
        command = [sys.executable, "-m", "bullpen", "run", "Count", "--driver", "scripted"]
        command += ["--script", "script.toml", "--timeout", "180", "--mode", "bypassPermissions"]
        with output.open("wb") as file:
            run = subprocess.Popen(
                command,
                cwd=work,
                env={**os.environ, "HOME": str(tmp_path), "BULLPEN_HOME": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + 90
            while not (work / "started").exists():
                assert run.poll() is None, output.read_text()
                assert time.monotonic() < deadline, output.read_text()
                time.sleep(0.1)
            free = fill()
            (work / "go-on").touch()
            time.sleep(6)
            free()
            assert run.wait(120) == 0, output.read_text()
        finally:
            run.kill()
        assert "It is 42." in output.read_text()


async def test_a_turn_ends_while_a_stopped_command_holds_the_teams_lock(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    limits = StoreLimits(lock_wait_s=0.3)
    async with Teams(FileStore(tmp_path / "home", fsync=False, limits=limits)) as teams:
        team = await new_team(teams)
        async with anyio.create_task_group() as group:
            head = next((tmp_path / "home").rglob(".bullpen/head"))
            descriptor = os.open(head, os.O_RDWR)

            async def turn(given: TurnInput, desk: Desk) -> str:
                # As a command does on which somebody pressed Ctrl-Z.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                return "The answer is 42."

            alice = await Crew(team, folder, group).hire("alice", turn)
            await team.mailbox.send("alice", "Work", sender=LEAD)
            await eventually(lambda: len(alice.told("trouble")) >= 3)
            os.close(descriptor)

            await reported_once(team, alice)
            group.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["paused", "killed"])
async def test_a_turn_ends_while_the_only_server_is_away(tmp_path: Path, how: str) -> None:
    async with Cluster(tmp_path / "servers") as cluster:
        store = NatsStore(endpoint_of(cluster), limits=StoreLimits(lock_wait_s=1))
        await prepare(await store.link.client())
        async with Teams(store) as teams, anyio.create_task_group() as group:
            team = await new_team(teams)

            async def turn(given: TurnInput, desk: Desk) -> str:
                if how == "paused":
                    cluster.pause(0)
                else:
                    cluster.kill(0)
                return "The answer is 42."

            alice = await Crew(team, tmp_path, group).hire("alice", turn)
            await team.mailbox.send("alice", "Work", sender=LEAD)
            await eventually(lambda: len(alice.told("trouble")) >= 3, within_s=60)
            if how == "paused":
                cluster.go_on(0)
            else:
                await cluster.restart(0)
            await reported_once(team, alice)
            group.cancel_scope.cancel()


async def reported_once(team: Team, alice: Hired) -> None:
    """Wait until the lead has the report of alice, who took one turn for it and rests."""

    async def told() -> bool:
        try:
            entries = (await team.mailbox.read(LEAD)).entries
        except Unavailable:
            return False
        payloads = [payload_of(entry.message.text) for entry in entries]
        idle = [each for each in payloads if isinstance(each, IdleNotification)]
        return [each.result for each in idle] == ["The answer is 42."]

    await eventually(told, within_s=60)
    assert len(alice.turns) == 1
    assert not (await team.agents.get("alice"))[0].is_active
