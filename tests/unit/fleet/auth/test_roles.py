"""What the tables of rights allow, without a server."""

from __future__ import annotations

import pytest

from bullpen.fleet.auth import claims
from bullpen.fleet.auth.roles import (
    EXPORTED_NEWS,
    EXPORTED_SERVICES,
    OwnTeam,
    Role,
    RoleRights,
    rights,
    template,
)

ROLES = [role for role in Role if role is not Role.ADMIN]
ALPHA = OwnTeam("alpha", 100)


def covers(pattern: str, subject: str) -> bool:
    """Whether a subject, perhaps with wildcards, is part of a pattern."""
    wanted, given = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(given) > index
        if index >= len(given) or (given[index] in "*>" and token != "*"):
            return False
        if token != "*" and token != given[index]:
            return False
    return len(wanted) == len(given)


def all_rights() -> list[RoleRights]:
    return [rights(role, "me", teams) for role in ROLES for teams in ((), (ALPHA,))]


@pytest.mark.parametrize("held", all_rights())
def test_what_a_key_imports_is_offered(held: RoleRights) -> None:
    for subject in held.publish:
        assert any(covers(each, subject) for each in EXPORTED_SERVICES), subject
    for subject in held.hear:
        assert any(covers(each, subject) for each in EXPORTED_NEWS), subject


@pytest.mark.parametrize("held", all_rights())
def test_no_key_reaches_what_changes_streams_or_makes_consumers(held: RoleRights) -> None:
    for call in (
        "STREAM.PURGE.TEAM_00", "STREAM.DELETE.TEAM_00", "STREAM.UPDATE.TEAM_00", "STREAM.CREATE.X",
        "STREAM.MSG.DELETE.TEAM_00", "STREAM.RESTORE.X", "STREAM.SNAPSHOT.TEAM_00",
        "CONSUMER.CREATE.TEAM_00.x.t.00.alpha.u.log", "CONSUMER.MSG.NEXT.STARTS.x",
        "CONSUMER.DURABLE.CREATE.STARTS.x", "CONSUMER.DELETE.STARTS.x", "META.LEADER.STEPDOWN",
    ):  # fmt: skip
        assert not any(covers(each, f"$JS.API.{call}") for each in held.publish), call
    for subject in ("$SYS.REQ.SERVER.PING", "$JS.ACK.STARTS.x.1.1.1.1.1", "w.00.alpha.u.log"):
        assert not any(covers(each, subject) for each in held.publish), subject


@pytest.mark.parametrize("role", ROLES)
def test_a_bound_key_may_nothing_that_the_same_role_may_not(role: Role) -> None:
    everywhere, bound = rights(role, "me"), rights(role, "me", (ALPHA,))
    for subject in bound.publish:
        assert any(covers(each, subject) for each in everywhere.publish), subject
    for subject in bound.hear:
        assert any(covers(each, subject) for each in everywhere.hear), subject


@pytest.mark.parametrize("role", ROLES)
def test_a_bound_key_has_batched_reads_of_its_own_streams_only(role: Role) -> None:
    found = rights(role, "me", (ALPHA,)).publish
    batched = [each for each in found if each.startswith("$JS.API.DIRECT.GET.")]

    assert {each.split(".")[4] for each in batched} == {"TEAM_100", "PRES_100", "KV_TEAMS"}
    assert "$JS.API.DIRECT.GET.KV_TEAMS" not in batched
    assert not [each for each in batched if "KV_TEAMS" in each and ("*" in each or ">" in each)]


def test_a_host_writes_only_records_with_its_own_name() -> None:
    for teams in ((), (ALPHA,)):
        publish = rights(Role.HOST, "me", teams).publish
        for kind in ("HOSTS", "BEATS"):
            assert [each for each in publish if each.startswith(f"$KV.{kind}")] == [
                f"$KV.{kind}.host.me"
            ]
        assert not any(covers(each, "q.100.alpha.u.other.s") for each in publish)


def test_the_rights_of_a_signing_key_are_what_its_account_imports() -> None:
    held = rights(Role.HOST, "me")
    account = claims.key_account(
        "A", "me", tenant="acme", tenant_account="T", signer="S", held=held, revoked={}, now_s=1
    )["nats"]
    imported = {each["subject"] for each in account["imports"] if each["type"] == "service"}

    assert imported == set(template(held, "me")["pub"]["allow"])
    assert all(each["account"] == "T" for each in account["imports"])
    assert "exports" not in account


def test_servers_soon_forget_whom_the_answers_to_a_batched_read_go_to() -> None:
    account = claims.tenant_account("T", "acme", admin_signer="S", revoked={}, now_s=1)["nats"]
    many = [each for each in account["exports"] if each.get("response_type") == "Stream"]

    assert [each["subject"] for each in many] == ["$JS.API.DIRECT.GET.>"]
    # Longer than a client waits for the next message, much shorter than a server's two minutes.
    assert all(10e9 <= each["response_threshold"] <= 30e9 for each in many)
