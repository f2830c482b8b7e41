"""The tables of rights: what they say, whatever a server makes of it."""

from __future__ import annotations

import pytest

from bullpen.errors import Invalid
from bullpen.fleet.auth.claims import READERS_SHARE
from bullpen.fleet.auth.key_records import check_name, check_teams, seconds_of
from bullpen.fleet.auth.roles import (
    FOR_ALL_TEAMS,
    FOR_OWN_TEAMS,
    INBOX,
    NAME,
    NEVER_PUBLISHED,
    TEAM,
    Role,
    RoleRights,
    template,
)
from bullpen.store.nats.client import subjects

EVERY = [
    *(pytest.param(rights, id=role) for role, rights in FOR_ALL_TEAMS.items()),
    *(pytest.param(rights, id=f"{role} of teams") for role, rights in FOR_OWN_TEAMS.items()),
]


def covers(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    for at, token in enumerate(wanted):
        if token == ">":
            return len(given) > at
        if at >= len(given) or token not in ("*", given[at]):
            return False
    return len(wanted) == len(given)


def may(patterns: tuple[str, ...], subject: str) -> bool:
    filled = (each.replace(NAME, "me").replace(TEAM, "alpha") for each in patterns)
    return any(covers(each, subject) for each in filled)


@pytest.mark.parametrize("rights", EVERY)
def test_everybody_hears_its_own_inbox_and_no_other(rights: RoleRights) -> None:
    assert INBOX in rights.subscribe
    assert may(rights.subscribe, "_INBOX_me.a.b")
    for inbox in ("_INBOX_you.a", "_INBOX.a", "_INBOX_me-too.a"):
        assert not may(rights.subscribe, inbox)
        assert not may(rights.publish, inbox)


@pytest.mark.parametrize("rights", EVERY)
def test_nobody_may_change_streams(rights: RoleRights) -> None:
    made = template(rights)
    for call in (
        "STREAM.PURGE.TEAM_00", "STREAM.DELETE.TEAM_00", "STREAM.UPDATE.TEAM_00",
        "STREAM.CREATE.X", "STREAM.MSG.DELETE.TEAM_00", "STREAM.RESTORE.X",
        "STREAM.SNAPSHOT.TEAM_00", "CONSUMER.DELETE.SPAWN.pool-any",
    ):  # fmt: skip
        assert not may(rights.publish, f"$JS.API.{call}")
        assert may(tuple(made["pub"]["deny"]), f"$JS.API.{call}")
    assert "$SYS.>" in made["pub"]["deny"]
    assert "$SYS.>" in made["sub"]["deny"]


@pytest.mark.parametrize("rights", EVERY)
def test_what_is_always_denied_takes_nothing_that_is_allowed(rights: RoleRights) -> None:
    for allowed in rights.publish:
        assert not any(covers(denied, allowed) for denied in NEVER_PUBLISHED)


@pytest.mark.parametrize("role", Role)
def test_a_bound_role_may_nothing_that_the_same_role_for_all_teams_may_not(role: Role) -> None:
    if role is Role.ADMIN:
        return
    everywhere, bound = FOR_ALL_TEAMS[role], FOR_OWN_TEAMS[role]
    # Whoever is bound reads by consumers instead of by batches.
    reading = ("$JS.API.CONSUMER.CREATE.", "$JS.FC.")
    for pattern in bound.publish:
        if not pattern.startswith(reading):
            subject = pattern.replace(NAME, "me").replace(TEAM, "alpha").replace("*", "x")
            assert may(everywhere.publish, subject.replace(">", "y")), pattern
    assert not (bound.answers and not everywhere.answers)


@pytest.mark.parametrize("role", FOR_OWN_TEAMS)
def test_a_bound_role_names_a_team_itself_or_the_cell_in_all_it_may_say(role: Role) -> None:
    for pattern in FOR_OWN_TEAMS[role].publish:
        own = TEAM in pattern or NAME in pattern
        assert own or pattern in ("$JS.FC.>", f"$JS.API.DIRECT.GET.KV_TEAMS.{subjects.CELL_KEY}")


@pytest.mark.parametrize("rights", [FOR_ALL_TEAMS[Role.READ_ONLY], FOR_OWN_TEAMS[Role.READ_ONLY]])
def test_who_is_read_only_publishes_nothing_but_questions(rights: RoleRights) -> None:
    asked = ("$JS.API.DIRECT.GET.", "$JS.API.CONSUMER.CREATE.", "$JS.FC.")
    assert all(each.startswith(asked) for each in rights.publish)
    assert not rights.answers


def test_nothing_that_writes_is_shared_with_readers() -> None:
    assert all(subject.startswith(("$JS.API.DIRECT.GET.", "w.")) for subject, _ in READERS_SHARE)


def test_the_tables_know_the_subjects_of_the_store() -> None:
    place = subjects.Address("alpha", 3, "u")
    for rights in (FOR_ALL_TEAMS[Role.HOST], FOR_OWN_TEAMS[Role.HOST]):
        for subject in (place.log, place.sync, place.history, subjects.team_key("alpha")):
            assert may(rights.publish, subject), subject
        assert may(rights.publish, place.presence_of("me", "s1"))
        assert not may(rights.publish, place.presence_of("you", "s1"))
        assert may(rights.subscribe, place.news)
        stored = f"$JS.API.DIRECT.GET.{place.stream}.{place.log}"
        assert may(rights.publish, stored)
    other = subjects.Address("alpha-2", 3, "u")
    assert not may(FOR_OWN_TEAMS[Role.HOST].publish, other.log)


@pytest.mark.parametrize("name", ["web-1", "a", "0", "a" * 63])
def test_a_name_that_is_one_token_is_taken(name: str) -> None:
    assert check_name(name, kind="key") == name == subjects.token(name)


@pytest.mark.parametrize(
    "name", ["", "*", ">", "a.b", "a b", "-a", "A", "a_b", "ä", "a" * 64, "a\n", "{{name()}}"]
)
def test_a_name_that_could_stand_for_others_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        check_name(name, kind="key")


def test_teams_are_named_once_each_and_not_by_nothing() -> None:
    assert check_teams(["b", "a", "b"]) == ("b", "a")
    with pytest.raises(Invalid):
        check_teams([""])


@pytest.mark.parametrize(("span", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("90m", 5_400)])
def test_spans_of_time_are_read(span: str, seconds: int) -> None:
    assert seconds_of(span) == seconds


@pytest.mark.parametrize("span", ["", "30", "d", "-1d", "0d", "1.5h", "1w", "30 d", "1000000d"])
def test_what_is_no_span_of_time_is_refused(span: str) -> None:
    with pytest.raises(Invalid):
        seconds_of(span)
