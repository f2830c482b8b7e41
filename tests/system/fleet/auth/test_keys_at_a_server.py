"""Which keys a running server takes, and when it takes them no more."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from bullpen.errors import Unavailable
from bullpen.fleet.auth import claims
from bullpen.fleet.auth.keys import KeyPair, Kind, creds_text, signed
from bullpen.fleet.auth.keys import claims_of as read_claims
from bullpen.fleet.auth.resolver import push
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from support.fleet.auth_stage import (
    OWN,
    RIVAL,
    TENANT,
    Caller,
    KeyedCluster,
    Stage,
    connected,
    fill,
    until,
)
from support.fleet.creds import read_creds

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path) as made:
        yield made


@asynccontextmanager
async def serving(directory: Path, nodes: int = 1) -> AsyncIterator[Stage]:
    vault = Vault(directory / "keys")
    vault.create()
    for tenant in (TENANT, RIVAL):
        vault.add_tenant(tenant)
        vault.mint(tenant, "machine", Role.HOST)
        vault.mint(tenant, "guest", Role.HOST, teams=("alpha",))
        vault.mint(tenant, "wall", Role.READ_ONLY)
    async with KeyedCluster(directory / "servers", vault.directory, nodes) as cluster:
        assert isinstance(cluster, KeyedCluster)
        stage = Stage(cluster.url, vault, cluster)
        await fill(stage, TENANT)
        yield stage


async def taken(stage: Stage, creds: Path | None, name: str = "machine") -> bool:
    """Whether the server lets somebody in; if not, it must have said so."""
    try:
        async with connected(stage.url, creds, name=name) as caller:
            await caller.nc.flush()
            return True
    except nats.errors.Error as error:
        if not any(word in str(error).lower() for word in ("authorization", "authentication")):
            raise
        return False


def forged(stage: Stage, name: str, signer: KeyPair | None, edit: Edit = lambda _: None) -> Path:
    """Credentials like those of a key, changed, and signed by somebody; or not signed anew."""
    token, user = read_creds(stage.creds(name).read_text())
    body = read_claims(token)
    edit(body)
    if signer is None:
        head, _, signature = token.split(".")
        changed = base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")
        token = f"{head}.{changed}.{signature}"
    else:
        token = signed(body, signer)
    path = stage.vault.directory / f"forged-{time.monotonic_ns()}.creds"
    path.write_text(creds_text(token, user))
    return path


def signer_of(stage: Stage, role: str, tenant: str = TENANT) -> KeyPair:
    folder = stage.vault.directory / "tenants" / tenant / "signing"
    return KeyPair((folder / f"{role}.seed").read_text())


async def test_only_keys_that_were_signed_for_this_account_are_taken(stage: Stage) -> None:
    host = signer_of(stage, "keys")
    theirs = signer_of(stage, "keys", RIVAL)
    other_user = KeyPair.generate(Kind.USER)
    token, _ = read_creds(stage.creds("machine").read_text())
    swapped = stage.vault.directory / "swapped.creds"
    swapped.write_text(creds_text(token, other_user))

    def more_teams(body: dict[str, Any]) -> None:
        body["nats"]["tags"] = ["team:gamma"]

    def expired(body: dict[str, Any]) -> None:
        body["exp"] = int(time.time()) - 10

    def later(body: dict[str, Any]) -> None:
        body["nbf"] = int(time.time()) + 3600

    def everything(body: dict[str, Any]) -> None:
        body["nats"].update(
            pub={"allow": [">"]}, sub={"allow": [">"]}, subs=-1, data=-1, payload=-1
        )

    def of_rival(body: dict[str, Any]) -> None:
        body["nats"]["issuer_account"] = stage.vault.tenant(RIVAL).accounts["machine"]

    assert await taken(stage, stage.creds("machine"))
    assert await taken(stage, forged(stage, "machine", host)), "the forger can forge"
    refused = {
        "nobody": None,
        "a changed tag": forged(stage, "guest", None, more_teams),
        "a key of another tenant's signer": forged(stage, "machine", theirs),
        "a key of ours for another tenant": forged(stage, "machine", host, of_rival),
        "a signer that nobody knows": forged(stage, "machine", KeyPair.generate(Kind.ACCOUNT)),
        "a user that signs itself": forged(stage, "machine", KeyPair.generate(Kind.USER)),
        "the seed of somebody else": swapped,
        "an expired key": forged(stage, "machine", host, expired),
        "a key for later": forged(stage, "machine", host, later),
        "rights that the role does not have": forged(stage, "machine", host, everything),
    }
    for why, creds in refused.items():
        assert not await taken(stage, creds), why


async def test_a_key_that_names_other_teams_still_has_only_those_of_its_account(
    stage: Stage,
) -> None:
    def other_teams(body: dict[str, Any]) -> None:
        body["nats"]["tags"] = ["role:admin", "team:gamma"]

    creds = forged(stage, "guest", signer_of(stage, "keys"), other_teams)
    async with connected(stage.url, creds, name="guest") as guest:
        await guest.stored(f"{OWN}.log")
        for subject in ("t.00.gamma.u2.log", "$JS.API.DIRECT.GET.TEAM_00", "$KV.TEAMS.team.gamma"):
            await guest.nc.publish(subject, b"x")
            await guest.refused("publish", subject)
        await guest.nc.subscribe("w.00.gamma.>")
        await guest.refused("subscription", "w.00.gamma.>")


async def test_a_key_whose_time_is_over_is_cut_off(stage: Stage) -> None:
    end = int(time.time()) + 2

    def soon(body: dict[str, Any]) -> None:
        body["exp"] = end

    creds = forged(stage, "machine", signer_of(stage, "keys"), soon)
    async with connected(stage.url, creds, name="machine") as caller:
        await caller.stored(f"{OWN}.log")
        await until(lambda: caller.nc.is_closed, caller)
    # In the second of its end a server may let it in, to cut it off at once.
    await until(lambda: time.time() > end + 1)
    assert not await taken(stage, creds)


@pytest.mark.parametrize("name", ["machine", "guest", "wall"])
async def test_a_revoked_key_is_cut_off_and_not_taken_again(stage: Stage, name: str) -> None:
    creds = stage.creds(name)
    kept = stage.vault.directory / "kept.creds"
    kept.write_bytes(creds.read_bytes())
    async with stage.connected(name) as live, stage.connected("admin") as admin:
        await live.ask(f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.h.1")

        stage.vault.revoke(TENANT, name)
        done = await push(stage.vault, stage.url)

        assert len(done.servers) == 1
        await until(lambda: live.nc.is_closed, live)
        assert not admin.nc.is_closed
        await admin.ask("$JS.API.INFO")
    assert not await taken(stage, kept, name)
    assert not creds.exists()


@pytest.mark.parametrize("how", ["expires", "is rotated"])
async def test_a_live_connection_ends_with_its_key_and_says_why(stage: Stage, how: str) -> None:
    lasts_s = 3 if how == "expires" else None
    _, path = stage.vault.mint(TENANT, "shorty", Role.HUMAN, lasts_s=lasts_s)
    await push(stage.vault, stage.url)
    kept = stage.vault.directory / "shorty.creds"
    kept.write_bytes(path.read_bytes())
    link = NatsConnection(Endpoint.parse(stage.url, creds=str(kept)))
    try:
        client = await link.client()
        if how != "expires":
            stage.vault.rotate(TENANT, "shorty")
            await push(stage.vault, stage.url)
        await until(lambda: client.is_closed, how)

        for _ in range(2):
            with pytest.raises(Unavailable, match=r"expired at|revoked or replaced"):
                await link.client()
        # A new file is taken up without a new start.
        if how != "expires":
            kept.write_bytes(path.read_bytes())
            assert (await link.client()).is_connected
    finally:
        await link.aclose()


async def test_a_rotated_key_is_taken_and_the_old_one_is_not(stage: Stage) -> None:
    old = stage.vault.directory / "old.creds"
    old.write_bytes(stage.creds("guest").read_bytes())

    key, path = stage.vault.rotate(TENANT, "guest")
    await push(stage.vault, stage.url)

    assert (key.teams, path) == (("alpha",), stage.creds("guest"))
    assert not await taken(stage, old, "guest")
    async with stage.connected("guest") as guest:
        await guest.stored(f"{OWN}.log")


async def test_revocations_in_the_same_second_all_hold(stage: Stage) -> None:
    kept = {}
    for name in ("machine", "guest"):
        kept[name] = stage.vault.directory / f"kept-{name}.creds"
        kept[name].write_bytes(stage.creds(name).read_bytes())
        stage.vault.revoke(TENANT, name)
        await push(stage.vault, stage.url)

    for name, creds in kept.items():
        assert not await taken(stage, creds, name), name


async def test_a_revocation_holds_after_a_restart_with_the_old_configuration(
    stage: Stage,
) -> None:
    kept = stage.vault.directory / "kept.creds"
    kept.write_bytes(stage.creds("machine").read_bytes())
    before = stage.vault.directory.with_name("keys-before")
    shutil.copytree(stage.vault.directory, before)
    stage.vault.revoke(TENANT, "machine")
    await push(stage.vault, stage.url)

    stage.cluster._keys = before
    await stage.cluster.restart(0)
    await stage.cluster.wait_ready()

    assert not await taken(stage, kept)
    assert await taken(stage, stage.creds("guest"), "guest")


async def test_the_keys_of_a_removed_tenant_are_cut_off_and_not_taken_again(
    stage: Stage,
) -> None:
    kept = stage.vault.directory / "kept.creds"
    kept.write_bytes(stage.creds("machine", RIVAL).read_bytes())
    reading = stage.vault.directory / "reading.creds"
    reading.write_bytes(stage.creds("wall", RIVAL).read_bytes())
    async with stage.connected("machine", RIVAL) as live, stage.connected("machine") as ours:
        stage.vault.remove_tenant(RIVAL)
        await push(stage.vault, stage.url)

        await until(lambda: live.nc.is_closed, live)
        await ours.stored(f"{OWN}.log")
    assert not await taken(stage, kept)
    assert not await taken(stage, reading, "wall")


async def test_a_tenant_that_is_added_later_is_taken_once_servers_are_told(stage: Stage) -> None:
    path = stage.vault.add_tenant("late")
    assert not await taken(stage, path, "admin")

    await push(stage.vault, stage.url)

    assert await taken(stage, path, "admin")


async def test_who_tells_servers_about_accounts_can_do_nothing_else(stage: Stage) -> None:
    async with connected(stage.url, stage.vault.push_creds, name=claims.PUSH_NAME) as caller:
        await caller.ask("$SYS.REQ.SERVER.PING")
        for subject in (f"{OWN}.log", "$SYS.REQ.SERVER.X.RELOAD", "$JS.API.STREAM.PURGE.TEAM_00"):
            await caller.nc.publish(subject, b"")
            await caller.refused("publish", subject)
        await caller.nc.subscribe("$SYS.>")
        await caller.refused("subscription", "$SYS.>")


async def test_servers_of_another_operator_are_not_told(stage: Stage, tmp_path: Path) -> None:
    stranger = Vault(tmp_path / "other-keys")
    stranger.create()
    stranger.add_tenant(TENANT)

    with pytest.raises(Unavailable):
        await push(stranger, stage.url)


async def test_all_three_servers_of_a_cluster_are_told_also_one_that_was_down(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, nodes=3) as stage:
        kept = stage.vault.directory / "kept.creds"
        kept.write_bytes(stage.creds("machine").read_bytes())
        async with _at(stage, 2, "machine") as live:
            stage.vault.revoke(TENANT, "machine")
            assert len((await push(stage.vault, stage.cluster.urls[0])).servers) == 3
            await until(lambda: live.nc.is_closed, live)

        guest = stage.vault.directory / "guest.creds"
        guest.write_bytes(stage.creds("guest").read_bytes())
        stage.cluster.kill(2)
        stage.vault.revoke(TENANT, "guest")
        with pytest.raises(Unavailable, match="2 of 3 servers have the current keys"):
            await push(stage.vault, stage.cluster.urls[0])
        await stage.cluster.restart(2)
        await stage.cluster.wait_ready()

        for creds, name in ((kept, "machine"), (guest, "guest")):
            for url in stage.cluster.urls:
                await until_refused(url, creds, name)


async def until_refused(url: str, creds: Path, name: str) -> None:
    """A server that was down learns from the others within moments of meeting them."""
    deadline = time.monotonic() + 60
    while True:
        try:
            async with connected(url, creds, name=name):
                assert time.monotonic() < deadline, url
        except nats.errors.Error:
            return


@asynccontextmanager
async def _at(stage: Stage, index: int, name: str) -> AsyncIterator[Caller]:
    async with connected(stage.cluster.urls[index], stage.creds(name), name=name) as caller:
        yield caller


def test_a_forged_body_is_the_same_but_for_what_was_changed() -> None:
    """The tests above prove nothing if the forger breaks more than it means to."""
    signer, user = KeyPair.generate(Kind.ACCOUNT), KeyPair.generate(Kind.USER)
    body = claims.user(
        user.public, "x", role=Role.HOST, account="A", teams=["a"], expires_s=None, now_s=1
    )
    again = read_claims(signed(read_claims(signed(body, signer)), signer))
    assert json.loads(json.dumps(again)) == read_claims(signed(body, signer))
