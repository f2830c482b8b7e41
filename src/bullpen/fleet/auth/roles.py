"""What each key may ask of the streams and hear of them, as tables. Pure.

The streams of a tenant are in an account of their own, which has only the administrator. Every
other key is in an account that imports exactly the subjects of its tables: services for what it
publishes, streams for what it hears. A server checks the subject of a request but not where the
answer goes, and answers as itself; an answer can only reach subjects of the asker's account, so it
reaches nothing that the asker could not publish to itself.

A server does not check the content of a request either. So no table has a subject of which the
content could name something else that the key may not use:

- no consumers: their content names a subject that the server delivers to in the streams' account;
- a key bound to teams has batched reads only of streams that hold nothing but one of its teams;
- `Nats-Rollup: all` empties a stream. Only the streams of teams allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

TEAM_TAG = "team:"
"""Prefix of a key's tags that name the teams it is bound to."""

ROLE_TAG = "role:"
"""Prefix of a key's tag that names its role."""


class Role(StrEnum):
    """What a key is for."""

    ADMIN = "admin"
    HOST = "host"
    HUMAN = "human"
    READ_ONLY = "read-only"


@dataclass(frozen=True, slots=True)
class OwnTeam:
    """A team that a key is bound to: its token, and the partition that holds only this team."""

    token: str
    partition: int


@dataclass(frozen=True, slots=True)
class RoleRights:
    """The subjects that a key may publish to and hear."""

    publish: tuple[str, ...]
    hear: tuple[str, ...]


EXPORTED_SERVICES: dict[str, bool] = {
    "$JS.API.DIRECT.GET.>": True,
    "$JS.API.INFO": False,
    "$JS.API.STREAM.INFO.*": False,
    "$JS.API.STREAM.MSG.GET.*": False,
    "t.>": False,
    "p.>": False,
    "q.>": False,
    "$KV.TEAMS.team.*": False,
    "$KV.HOSTS.host.*": False,
    "$KV.BEATS.host.*": False,
    "start.*.*": False,
    "took.*.*": False,
    "o.ctl.*.*.*": False,
    "o.answer.*.*": False,
}
"""What the account of the streams offers, and whether one request gets many messages."""

EXPORTED_NEWS = ("w.>", "ws.>", "wo.>")
"""What is heard from the account of the streams: news, requests, orders and their answers."""

_READS_ALL = (
    "$JS.API.INFO",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.DIRECT.GET.>",
)
_TAKES_STARTS = ("took.*.*",)


def inbox(name: str) -> str:
    """Return where answers reach a key."""
    return f"_INBOX_{name}.>"


def rights(role: Role, name: str, teams: Sequence[OwnTeam] = ()) -> RoleRights:
    """Return what a key may do; without teams, in all of its tenant. `name` is a token."""
    if role is Role.ADMIN:
        raise ValueError("an administrator has no table")
    return _bound(role, name, teams) if teams else _unbound(role, name)


def _unbound(role: Role, name: str) -> RoleRights:
    if role is Role.READ_ONLY:
        # Only what changes nothing: the barrier of a read that must be current is a write.
        return RoleRights(("$JS.API.DIRECT.GET.>",), ("w.>",))
    writes = ("t.>", "$KV.TEAMS.team.*", f"p.*.*.{name}.*", f"q.*.*.*.{name}.*")
    people = (*_READS_ALL, *writes, "start.*.*", f"o.ctl.*.{name}.*")
    answers = f"wo.answer.{name}.*"
    if role is Role.HUMAN:
        return RoleRights(people, ("w.>", answers))
    return RoleRights(
        (*people, *_TAKES_STARTS, *_host_writes(name)),
        ("w.>", "ws.>", answers, f"wo.ctl.{name}.*.*"),
    )


def _bound(role: Role, name: str, teams: Sequence[OwnTeam]) -> RoleRights:
    # Requests for agents and orders to hosts do not name a team in their subject. So a key that is
    # bound to teams can neither make nor take them.
    publish = ["$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.cell"]
    hear = [f"w.{team.partition}.{team.token}.>" for team in teams]
    for team in teams:
        publish += _reads_own(team)
        if role is not Role.READ_ONLY:
            publish += _writes_own(team, name)
    if role is Role.HOST:
        publish += _host_writes(name)
        hear.append(f"wo.ctl.{name}.*.*")
    return RoleRights(tuple(publish), tuple(hear))


def _reads_own(team: OwnTeam) -> list[str]:
    return [
        *(
            f"$JS.API.DIRECT.GET.{kind}_{team.partition}{rest}"
            for kind in ("TEAM", "PRES")
            for rest in ("", ".>")
        ),
        f"$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.team.{team.token}",
        f"$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.place.{team.token}",
    ]


def _writes_own(team: OwnTeam, name: str) -> list[str]:
    return [
        f"t.{team.partition}.{team.token}.>",
        f"q.{team.partition}.{team.token}.*.{name}.*",
        f"$KV.TEAMS.team.{team.token}",
    ]


def _host_writes(name: str) -> tuple[str, ...]:
    # The last part of an answer's subject is a secret of the asker and the host that it asked.
    return (f"$KV.HOSTS.host.{name}", f"$KV.BEATS.host.{name}", "o.answer.*.*")


def template(held: RoleRights, name: str) -> dict[str, Any]:
    """Return rights in the form that a signing key carries."""
    return {
        "pub": {"allow": list(held.publish)},
        "sub": {"allow": [inbox(name), *held.hear]},
        "subs": -1,
        "data": -1,
        "payload": -1,
    }
