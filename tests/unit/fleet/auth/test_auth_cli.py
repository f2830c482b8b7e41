"""`bullpen auth` as people and programs use it, and the secrets that it never shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bullpen.fleet.auth.keys import claims_of
from support.fleet.auth_commands import Run
from support.fleet.creds import read_creds

Ok = Callable[..., str]


def test_a_key_is_minted_into_a_file_whose_path_is_said(ok: Ok, home: Path) -> None:
    ok("init", "--tenant", "acme")

    path = Path(ok("mint", "host", "web-1", "--for", "alpha", "--for", "beta").strip())

    assert path == home / "auth" / "tenants" / "acme" / "creds" / "web-1.creds"
    claims = claims_of(read_creds(path.read_text(encoding="utf-8"))[0])
    assert claims["nats"]["tags"] == ["role:host", "team:alpha", "team:beta"]


def test_a_team_named_the_common_way_binds_a_key_too(ok: Ok) -> None:
    ok("init", "--tenant", "acme")

    made = json.loads(ok("mint", "human", "ann", "--team", "alpha", "--json"))

    assert made["teams"] == ["alpha"], "a key that was meant for a team is never for all"


def test_a_team_in_the_environment_binds_no_key(ok: Ok, monkeypatch: pytest.MonkeyPatch) -> None:
    ok("init", "--tenant", "acme")
    monkeypatch.setenv("BULLPEN_TEAM", "alpha")

    assert json.loads(ok("mint", "human", "ann", "--json"))["teams"] == []


def test_keys_are_made_while_no_server_can_be_reached(
    ok: Ok, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_STORE", "nats://127.0.0.1:1")
    ok("init", "--tenant", "acme")

    ok("mint", "host", "web-1")


def test_keys_are_listed_with_what_became_of_them(ok: Ok) -> None:
    ok("init", "--tenant", "acme")
    ok("mint", "host", "web-1", "--expires", "30d")
    ok("mint", "read-only", "wall", "--for", "alpha")
    ok("revoke", "web-1")

    listed = {each["name"]: each for each in json.loads(ok("list", "--json"))["keys"]}

    assert set(listed) == {"admin", "web-1", "wall"}
    assert listed["web-1"]["expiresS"] - listed["web-1"]["issuedS"] == 30 * 86_400
    assert listed["web-1"]["revokedS"] is not None
    assert listed["wall"]["revokedS"] is None
    table = ok("list").splitlines()
    assert table[0].split() == ["NAME", "ROLE", "STATE", "ISSUED", "EXPIRES", "TEAMS"]
    assert "revoked" in next(line for line in table if line.startswith("web-1"))


def test_a_revocation_says_that_servers_do_not_know_it_yet(ok: Ok) -> None:
    ok("init", "--tenant", "acme")
    ok("mint", "host", "web-1")

    assert "bullpen auth push" in ok("revoke", "web-1")


def test_tenants_are_added_listed_and_removed(ok: Ok, run: Run) -> None:
    ok("init", "--tenant", "acme")
    ok("tenant", "add", "beta")
    assert ok("tenant", "list").split() == ["acme", "beta"]

    assert run("tenant", "remove", "beta").exit_code == 2
    ok("tenant", "remove", "beta", "--yes")

    assert ok("tenant", "list").split() == ["acme"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("mint", "host", "Web.1"), 2),
        (("mint", "host", "web-1", "--expires", "soon"), 2),
        (("mint", "admin", "root", "--for", "alpha"), 2),
        (("revoke", "nobody"), 3),
        (("list", "--tenant", "nobody"), 3),
        (("init", "--tenant", "acme"), 4),
        (("tenant", "add", "acme"), 4),
        (("push",), 2),
        (("push", "--store", "http://x"), 2),
        (("push", "--store", "nats://127.0.0.1:1"), 5),
        (("tls", "--host", "../x"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_what_cannot_be_done_says_why_and_what_to_do(
    ok: Ok, run: Run, words: tuple[str, ...], code: int
) -> None:
    ok("init", "--tenant", "acme")

    result = run(*words)

    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert "hint: " in result.stderr


def test_an_agent_makes_no_keys(ok: Ok, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ok("init", "--tenant", "acme")
    monkeypatch.setenv("BULLPEN_NONCE", "n")
    monkeypatch.setenv("BULLPEN_TEAM", "alpha")
    monkeypatch.setenv("BULLPEN_AGENT", "mallory")

    for words in (
        ("mint", "host", "x"), ("revoke", "admin"), ("rotate", "admin"), ("push",),
        ("init", "--tenant", "x"), ("tenant", "add", "x"), ("tenant", "remove", "acme", "--yes"),
        ("tls", "--host", "x"),
    ):  # fmt: skip
        assert run(*words).exit_code == 2, words

    monkeypatch.delenv("BULLPEN_NONCE")
    assert [each["name"] for each in json.loads(ok("list", "--json"))["keys"]] == ["admin"]


def test_certificates_are_made_where_the_keys_are(ok: Ok, home: Path) -> None:
    made = json.loads(ok("tls", "--host", "localhost", "--host", "10.0.0.7", "--json"))

    assert made["ca"] == str(home / "auth" / "tls" / "ca.pem")
    assert [each["host"] for each in made["servers"]] == ["localhost", "10.0.0.7"]
    assert "PRIVATE KEY" not in json.dumps(made)
    ok("init", "--tenant", "acme")


def test_an_upgrade_of_a_folder_without_older_keys_changes_nothing(
    ok: Callable[..., str],
) -> None:
    ok("init", "--tenant", "acme")
    ok("mint", "host", "web-1")
    before = ok("list", "--json")

    ok("upgrade")
    assert "Revoked 0 older keys." in ok("upgrade", "--finish")

    assert ok("list", "--json") == before
