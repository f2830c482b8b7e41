"""The real store with the keys of each role: what a role is for, it can do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from bullpen.doors.cli.main import app
from bullpen.fleet.auth.resolver import push
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.connect import connected
from bullpen.store.nats.client.streams import prepare
from support.fleet.auth_stage import TENANT, KeyedCluster

As = Callable[..., Any]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    directory = tmp_path_factory.mktemp("auth")
    vault = Vault(directory / "keys")
    vault.create()
    admin = vault.add_tenant(TENANT)
    for name, role, teams in (
        ("machine", Role.HOST, ()),
        ("guest", Role.HOST, ("Alpha",)),
        ("ann", Role.HUMAN, ()),
        ("bob", Role.HUMAN, ("Alpha",)),
        ("pane", Role.READ_ONLY, ("Alpha",)),
        ("wall", Role.READ_ONLY, ()),
    ):
        vault.mint(TENANT, name, role, teams=teams)
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            KeyedCluster(directory / "servers", vault.directory)
        ) as cluster,
    ):

        async def make_streams() -> None:
            async with connected(cluster.url, creds=str(admin)) as nc:
                await prepare(nc, partitions=2)
            await push(vault, cluster.url)

        portal.call(make_streams)
        yield cluster.url, admin.parent


@pytest.fixture
def says(
    keys: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """What a command answers to the holder of a key; None if it fails."""
    url, folder = keys
    for name in ("BULLPEN_TEAM", "BULLPEN_AGENT", "BULLPEN_NONCE", "BULLPEN_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BULLPEN_STORE", url)

    def said(who: str, *words: str, refused: bool = False) -> Any:
        monkeypatch.setenv("BULLPEN_CREDS", str(folder / f"{who}.creds"))
        result = CliRunner().invoke(app, [*words, "--json"])
        return json.loads(result.stdout) if (result.exit_code == 0) is not refused else None

    return said


def test_hosts_and_people_share_a_team_and_a_reader_sees_it(says: As) -> None:
    assert says("guest", "team", "create", "Alpha") or says("guest", "team", "show", "Alpha")
    assert says("machine", "task", "add", "from the host", "-t", "Alpha")
    assert says("guest", "task", "add", "from the guest", "-t", "Alpha")
    assert says("ann", "task", "add", "from Ann", "-t", "Alpha")
    assert says("bob", "task", "add", "from Bob", "-t", "Alpha")
    assert says("bob", "send", "team-lead", "hello", "-t", "Alpha")

    for who in ("machine", "guest", "ann", "bob", "pane", "wall"):
        assert len(says(who, "task", "list", "-t", "Alpha")["tasks"]) == 4, who
        assert "hello" in json.dumps(says(who, "inbox", "-t", "Alpha")), who


def test_a_bound_key_sees_no_other_team(says: As) -> None:
    assert says("machine", "team", "create", "Gamma")

    assert "Gamma" in json.dumps(says("ann", "team", "list"))
    for who in ("guest", "bob", "pane"):
        assert "Gamma" not in json.dumps(says(who, "team", "list"))


def test_whoever_may_only_read_is_told_that_nothing_was_written(says: As) -> None:
    # Another worker may have played the test that creates the first one.
    for team in ("Alpha", "Delta"):
        assert says("machine", "team", "create", team) or says("machine", "team", "show", team)
    for who in ("pane", "wall"):
        team = "Alpha" if who == "pane" else "Delta"
        refused = says(who, "task", "add", "mine", "-t", team, refused=True)
        assert refused["error"]["reason"] == "not_permitted", who
    assert says("machine", "task", "list", "-t", "Delta")["tasks"] == []
