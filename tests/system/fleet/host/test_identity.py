"""An agent on a host is nobody but itself, and only as long as its launch lasts."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agents.supervisor.machines.over_nats import NatsHosts
from bullpen.errors import Invalid, Refused
from bullpen.fleet.host.daemon import Host
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.store.hosted.client import HostedStore
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from support.fleet.host_parts import Machine, Stage, cell_of, desk_settings, staged, until


@pytest.fixture(scope="module")
def cell() -> Iterator[Cluster]:
    with cell_of(12) as cluster:
        yield cluster


@pytest.fixture
async def stage(cell: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(cell, monkeypatch) as made:
        yield made


SHOWS_ITS_ENVIRONMENT = """
[[agents.{name}.turns]]
when = "start"
steps = [
  {tool = "Bash", input = {command = "env; env > /dev/stderr"}},
  {tool = "SendMessage", input = {to = "team-lead", summary = "Done", message = "I saw it."}},
]
"""


def environment_of(pid: int) -> dict[str, str]:
    rows = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(row.split("=", 1) for row in rows if row)


def command_line_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def token_on(host: Machine) -> str:
    (pid,) = host.agents()
    return environment_of(pid)["BULLPEN_HOST_TOKEN"]


async def refusal(host: Machine, token: str) -> str | None:
    """Why a host lets nobody in with a token; None if it does."""
    async with aclosing(HostedStore(host.socket, token)) as store:
        try:
            await store.teams()
        except Refused as error:
            return error.reason
    return None


async def test_an_agent_is_given_the_socket_and_neither_servers_nor_credentials(
    stage: Stage,
) -> None:
    await stage.team()
    host = await stage.host("only")
    await stage.spawn("alice")
    (pid,) = host.agents()
    env = environment_of(pid)
    assert env["BULLPEN_STORE"] == f"host:{host.socket}"
    assert not [name for name, value in env.items() if "nats://" in value]
    assert not {"BULLPEN_CREDS", "BULLPEN_CA"} & set(env)


async def test_an_agent_that_is_started_beside_a_host_goes_through_it_too(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only")
    script = stage.folder / "beside.toml"
    script.write_text("[agents.alice]\n", encoding="utf-8")
    words = ("--driver", "scripted", "--script", str(script), "--mode", "dontAsk")
    spawned = await host.run("spawn", "alice", "-t", "crew", *words)
    assert spawned.returncode == 0, spawned.stderr
    (pid,) = host.agents()
    env = environment_of(pid)
    assert env["BULLPEN_STORE"] == f"host:{host.socket}"
    assert not [name for name, value in env.items() if "nats://" in value]


async def test_with_a_persons_key_and_no_host_no_agent_is_started(tmp_path: Path) -> None:
    link = NatsConnection(Endpoint(("nats://127.0.0.1:1",)))
    hosts = NatsHosts(link, {"BULLPEN_STORE": "nats://127.0.0.1:1"}, home=tmp_path)
    assert await hosts.admit("crew", "alice") == {"BULLPEN_STORE": "nats://127.0.0.1:1"}
    link.endpoint = replace(link.endpoint, creds=tmp_path / "ann.creds")
    with pytest.raises(Refused) as refused:
        await hosts.admit("crew", "alice")
    assert refused.value.reason == "no_host"


async def test_an_agent_reaches_its_own_team_in_its_own_name_alone(stage: Stage) -> None:
    for team in ("crew", "others"):
        await stage.team(team)
    host = await stage.host("only")
    await stage.spawn("alice")
    token = token_on(host)
    await stage.spawn("bob")
    async with aclosing(HostedStore(host.socket, token)) as store:
        assert await store.teams() == ["crew"]
        with pytest.raises(Refused, match="others"):
            await store.read("others")
        forged = Message.new(sender="bob", text="I am bob", timestamp="2026-01-01T00:00:00Z")
        with pytest.raises(Refused, match="cannot write records itself"):
            await store.append("crew", LEAD, forged, actor="bob")
        with pytest.raises(Refused, match="did not spawn"):
            await store.ask("admit", team="crew", agent="bob")
        with pytest.raises(Refused, match="others"):
            await store.ask("admit", team="others", agent="bob")


async def test_not_even_a_lead_gets_the_secret_of_an_agent_that_runs(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only")
    await stage.spawn(LEAD, '[agents."team-lead"]\n')
    token = token_on(host)
    await stage.spawn("bob")
    async with aclosing(HostedStore(host.socket, token)) as store:
        with pytest.raises(Refused, match="not about to start"):
            await store.ask("admit", team="crew", agent="bob")


async def test_the_secret_of_an_agent_is_in_no_command_line_log_event_or_transcript(
    stage: Stage,
) -> None:
    team = await stage.team()
    host = await stage.host("only")
    await stage.spawn("alice", SHOWS_ITS_ENVIRONMENT, prompt="Go", mode="bypassPermissions")
    token = token_on(host)

    async def told() -> bool:
        box = await team.mailbox.read(LEAD)
        return any("I saw it" in entry.message.text for entry in box.entries)

    await until(told, why="alice has shown its environment")
    lines = [command_line_of(pid) for pid in (*host.agents(), host.host.pid)]
    assert not [line for line in lines if token.encode() in line]
    files = [path for path in (host.home, host.log) for path in _files(path)]
    assert [path.name for path in files if path.name == "transcript.jsonl"]
    assert not [path for path in files if token.encode() in path.read_bytes()]
    assert token not in json.dumps([event.encode() for event in await stage.events()])


async def test_the_secret_of_an_agent_dies_with_its_launch(stage: Stage) -> None:
    await stage.team()
    host = await stage.host("only")
    await stage.spawn("alice")
    first = token_on(host)
    assert await refusal(host, first) is None
    await stage.app.supervisor("crew").stop("alice", by=LEAD)

    async def is_void() -> bool:
        return await refusal(host, first) == "unknown_token"

    await until(is_void, why="the secret is void")
    await stage.app.supervisor("crew").resume(by=LEAD, names=["alice"])
    second = token_on(host)
    assert second != first
    assert await refusal(host, second) is None
    assert await refusal(host, first) == "unknown_token"


async def test_credentials_of_another_host_are_refused_at_once(
    cell: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_HOST", "mine")
    claims = base64.urlsafe_b64encode(b'{"name":"theirs","nats":{}}').decode().rstrip("=")
    creds = tmp_path / "host.creds"
    creds.write_text(f"-----BEGIN NATS USER JWT-----\ne30.{claims}.x\n", encoding="utf-8")
    settings = replace(desk_settings(cell, tmp_path), creds=str(creds))
    with pytest.raises(Invalid, match="'theirs', but this host is 'mine'"):
        await Host(settings, {"BULLPEN_CREDS": str(creds)}).run()


async def test_a_second_host_process_of_one_home_is_refused_and_harms_nothing(
    stage: Stage,
) -> None:
    await stage.team()
    host = await stage.host("only")
    operator = (host.home / "host" / "operator.token").read_text()
    second = await host.run("host", "run")
    assert second.returncode != 0
    assert "already has a host process" in second.stderr
    assert await refusal(host, operator) is None
    assert await host.end(signal.SIGINT) == 0


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
