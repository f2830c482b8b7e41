"""The folder of keys: what is in it, who can read it, what is remembered."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Unreadable
from bullpen.fleet.auth.keys import KeyPair, claims_of
from bullpen.fleet.auth.resolver import include_text
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from support.fleet.creds import read_creds


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def vault(tmp_path: Path, clock: Clock) -> Vault:
    made = Vault(tmp_path / "keys", now=clock)
    made.create()
    made.add_tenant("acme")
    return made


def claims_in(path: Path) -> dict[str, object]:
    return claims_of(read_creds(path.read_text(encoding="utf-8"))[0])


def account(vault: Vault, which: str = "account") -> dict[str, object]:
    found: dict[str, object] = claims_of(
        (vault.directory / "tenants" / "acme" / f"{which}.jwt").read_text()
    )
    return found


def test_nobody_else_can_read_anything(vault: Vault) -> None:
    vault.mint("acme", "web-1", Role.HOST)
    vault.remove_tenant("acme")

    for folder, folders, files in os.walk(vault.directory):
        modes = {stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) for name in files}
        assert modes <= {0o600}
        for name in [*folders, "."]:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o700


def test_files_are_private_whatever_the_mask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        vault = Vault(tmp_path / "keys")
        vault.create()
    finally:
        os.umask(before)

    assert stat.S_IMODE((vault.directory / "operator.seed").stat().st_mode) == 0o600
    assert stat.S_IMODE(vault.directory.stat().st_mode) == 0o700


def test_a_seed_that_others_can_read_is_not_used(vault: Vault) -> None:
    (vault.directory / "operator.seed").chmod(0o644)

    with pytest.raises(Unreadable, match="others can read it"):
        vault.add_tenant("beta")


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")

    with pytest.raises(Conflict):
        Vault(tmp_path).create()

    assert [each.name for each in tmp_path.iterdir()] == ["precious"]


def test_the_seeds_of_accounts_are_kept_nowhere(vault: Vault) -> None:
    tenant = vault.tenant("acme")
    seeds = [KeyPair(path.read_text()) for path in vault.directory.rglob("*.seed")]

    assert seeds
    assert not set(tenant.all_accounts) & {pair.public for pair in seeds}


def test_without_the_operator_nothing_is_minted_or_revoked(vault: Vault) -> None:
    vault.mint("acme", "web-1", Role.HOST)
    away = vault.directory.with_name("operator.seed")
    (vault.directory / "operator.seed").rename(away)

    with pytest.raises(NotFound, match=r"operator\.seed"):
        vault.mint("acme", "web-2", Role.HOST)
    with pytest.raises(NotFound, match=r"operator\.seed"):
        vault.revoke("acme", "web-1")

    tenant = vault.tenant("acme")
    assert tenant.find("web-1", 1_000_000) is not None, "what was not done is not remembered"
    assert tenant.find("web-2", 1_000_000) is None


def test_every_key_but_the_administrators_has_an_account_of_its_own(vault: Vault) -> None:
    vault.mint("acme", "web-1", Role.HOST)
    vault.mint("acme", "wall", Role.READ_ONLY)
    vault.mint("acme", "root", Role.ADMIN)

    tenant = vault.tenant("acme")
    assert set(tenant.accounts) == {"web-1", "wall"}
    assert len({tenant.account, *tenant.accounts.values()}) == 3
    assert len(account(vault)["nats"]["signing_keys"]) == 1  # type: ignore[index]


def test_teams_of_bound_keys_have_partitions_of_their_own(vault: Vault) -> None:
    vault.mint("acme", "one", Role.HOST, teams=("alpha", "beta"))
    vault.mint("acme", "two", Role.HUMAN, teams=("beta", "gamma"))

    assert vault.tenant("acme").own == {"alpha": 100, "beta": 101, "gamma": 102}


def test_a_key_says_its_name_its_role_and_its_teams(vault: Vault) -> None:
    _, path = vault.mint("acme", "web-1", Role.HOST, teams=("alpha", "My Team"), lasts_s=60)

    claims = claims_in(path)
    assert claims["name"] == "web-1"
    assert claims["exp"] == 1_000_060
    held = claims["nats"]
    assert isinstance(held, dict)
    assert held["tags"] == ["role:host", "team:alpha", "team:_4dy_20_54eam"]
    assert not {"pub", "sub", "subs"} & set(held), "the rights are those of the signing key"


def test_a_name_has_one_key_that_counts(vault: Vault, clock: Clock) -> None:
    vault.mint("acme", "web-1", Role.HOST, lasts_s=60)
    with pytest.raises(Conflict, match="web-1"):
        vault.mint("acme", "web-1", Role.HUMAN)

    clock.now += 61
    vault.mint("acme", "web-1", Role.HOST)

    states = [key.state(int(clock.now)) for key in vault.tenant("acme").keys if key.name == "web-1"]
    assert states == ["expired", "counts"]


def test_a_revoked_key_is_in_the_account_and_its_file_is_gone(vault: Vault, clock: Clock) -> None:
    key, path = vault.mint("acme", "web-1", Role.HOST)
    clock.now += 5

    vault.revoke("acme", "web-1")

    held = account(vault, "accounts/web-1")["nats"]
    assert isinstance(held, dict)
    assert held["revocations"] == {key.public: 1_000_005}
    assert "imports" not in held
    assert not path.exists()
    with pytest.raises(NotFound):
        vault.revoke("acme", "web-1")


def test_a_revocation_is_forgotten_when_the_key_would_have_expired(
    vault: Vault, clock: Clock
) -> None:
    vault.mint("acme", "web-1", Role.HOST, lasts_s=60)
    vault.revoke("acme", "web-1")
    clock.now += 61
    kept, _ = vault.mint("acme", "web-1", Role.HOST)

    vault.revoke("acme", "web-1")

    held = account(vault, "accounts/web-1")["nats"]
    assert isinstance(held, dict)
    assert [*held["revocations"]] == [kept.public]


def test_a_rotated_key_has_the_same_rights_and_lasts_as_long_again(
    vault: Vault, clock: Clock
) -> None:
    old, _ = vault.mint("acme", "web-1", Role.HUMAN, teams=("alpha",), lasts_s=100)
    clock.now += 40

    new, path = vault.rotate("acme", "web-1")

    assert (new.role, new.teams, new.expires_s) == (Role.HUMAN, ("alpha",), 1_000_140)
    assert new.public != old.public
    assert claims_in(path)["sub"] == new.public


def test_an_account_that_is_signed_twice_in_a_second_is_newer_the_second_time(
    vault: Vault,
) -> None:
    times = []
    for _ in range(3):
        vault.mint("acme", "a", Role.HOST)
        vault.revoke("acme", "a")
        times.append(account(vault, "accounts/a")["iat"])

    assert times == sorted(set(times), key=str)
    assert len(set(times)) == 3


def test_an_administrator_is_not_bound_to_teams(vault: Vault) -> None:
    with pytest.raises(Invalid):
        vault.mint("acme", "root", Role.ADMIN, teams=("alpha",))


def test_roles_of_an_older_version_are_signed_anew(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vault.sign_again() == []
    monkeypatch.setattr("bullpen.fleet.auth.roles.EXPORTED_NEWS", ("w.>", "new.>"))

    assert vault.sign_again() == ["acme"]

    assert "new.>" in json.dumps(account(vault))
    assert vault.sign_again() == []


def test_a_tenant_must_be_named_when_there_are_several(vault: Vault) -> None:
    assert vault.tenant(None).name == "acme"
    vault.add_tenant("beta")

    with pytest.raises(Invalid, match="2 tenants"):
        vault.tenant(None)
    with pytest.raises(NotFound, match="gamma"):
        vault.tenant("gamma")
    with pytest.raises(Conflict):
        vault.add_tenant("beta")


def test_a_tenant_that_was_not_made_to_the_end_can_be_made_again(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(Vault, "_remember", fails)
        with pytest.raises(OSError, match="disk full"):
            vault.add_tenant("beta")
    assert vault.tenants() == ["acme"]

    vault.add_tenant("beta")
    assert vault.tenants() == ["acme", "beta"]


def test_a_record_that_cannot_be_read_says_so(vault: Vault) -> None:
    path = vault.directory / "tenants" / "acme" / "tenant.json"
    for text in ("{", "[]", '{"v": 2}', '{"v": 1}'):
        path.write_text(text)
        with pytest.raises(Unreadable, match=r"tenant\.json"):
            vault.tenant("acme")


def test_a_folder_without_an_operator_says_how_to_make_one(tmp_path: Path) -> None:
    for act in (Vault(tmp_path).tenants, Vault(tmp_path / "no").accounts):
        with pytest.raises(NotFound) as caught:
            act()
        assert "bullpen auth init" in caught.value.remedy


def test_what_servers_include_holds_no_secret(vault: Vault, tmp_path: Path) -> None:
    vault.mint("acme", "web-1", Role.HOST)

    text = include_text(vault.directory, resolver=tmp_path / "accounts")

    for path in vault.directory.rglob("*.seed"):
        assert path.read_text() not in text
    assert vault.tenant("acme").account in text
    assert vault.tenant("acme").accounts["web-1"] in text


def test_errors_hold_no_secret(vault: Vault) -> None:
    path = vault.directory / "operator.seed"
    seed = path.read_text()
    path.write_text(seed[:-1])

    with pytest.raises(BullpenError) as caught:
        vault.add_tenant("beta")

    assert seed[:20] not in repr(caught.value) + str(caught.value)


def test_a_folder_that_is_no_vault_gets_no_lock(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Vault(tmp_path).add_tenant("red")
    assert list(tmp_path.iterdir()) == []
