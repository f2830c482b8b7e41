"""What each role may publish to and receive from a NATS server, as tables. Pure.

The server fills in `{{name()}}` with the name in a key, and `{{tag(team)}}` once for every team
that the key is bound to; a key without teams gets nothing from such a row.

The limits of this: a server checks the subject of a request, never the subject that the answer goes
to, and it answers as itself. So a key that may ask anything in the account that has the streams can
have an answer published on any subject there. The tables therefore stop mistakes and honest
programs, but not a hostile holder of such a key. Only the border between accounts stops that.
Tenants are separate accounts; keys of role `read-only` for a whole tenant are also in a separate
account, into which only reading is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_S = 1_000_000_000

NAME = "{{name()}}"
TEAM = "{{tag(team)}}"
TEAM_TAG = "team:"
"""Prefix of a key's tags that name the teams it is bound to."""

ROLE_TAG = "role:"
"""Prefix of a key's tag that names its role."""

INBOX = f"_INBOX_{NAME}.>"
"""Where answers reach a key, and nobody else."""


class Role(StrEnum):
    """What a key is for."""

    ADMIN = "admin"
    HOST = "host"
    HUMAN = "human"
    READ_ONLY = "read-only"


@dataclass(frozen=True, slots=True)
class RoleRights:
    """The subjects that a key may publish to and subscribe to.

    With `answers`, it may also publish one message to the reply subject of a message it received.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


NEVER_PUBLISHED = (
    *(
        f"$JS.API.STREAM.{call}.>"
        for call in ("CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE", "RESTORE", "SNAPSHOT")
    ),
    "$JS.API.STREAM.LEADER.>",
    "$JS.API.STREAM.PEER.>",
    "$JS.API.META.>",
    "$JS.API.SERVER.>",
    "$JS.API.ACCOUNT.>",
    "$JS.API.CONSUMER.DELETE.>",
    "$JS.API.CONSUMER.LEADER.>",
    "$SYS.>",
)
"""Denied to every role except `admin`, whatever a table allows."""

NEVER_SUBSCRIBED = ("$SYS.>",)

_READS_ALL = (
    "$JS.API.INFO",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.DIRECT.GET.>",
)

# Filters in the body of a request cannot be checked, so only those in the subject are allowed.
_READS_OWN = (
    f"$JS.API.DIRECT.GET.*.t.*.{TEAM}.>",
    f"$JS.API.DIRECT.GET.PRES.p.{TEAM}.>",
    f"$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.team.{TEAM}",
    "$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.cell",
    f"$JS.API.CONSUMER.CREATE.*.*.t.*.{TEAM}.>",
    f"$JS.API.CONSUMER.CREATE.PRES.*.p.{TEAM}.>",
    # A consumer that delivers waits for these before it continues.
    "$JS.FC.>",
)

_WRITES_ALL = ("t.>", "$KV.TEAMS.team.*", f"p.*.*.{NAME}.>")
_WRITES_OWN = (f"t.*.{TEAM}.>", f"$KV.TEAMS.team.{TEAM}", f"p.{TEAM}.*.{NAME}.>")

_ASKS_HOSTS = ("spawn.*", "ctl.*")
_TAKES_SPAWNS = (
    "$JS.API.CONSUMER.CREATE.SPAWN.*.spawn.*",
    "$JS.API.CONSUMER.INFO.SPAWN.*",
    "$JS.API.CONSUMER.MSG.NEXT.SPAWN.*",
    "$JS.ACK.SPAWN.>",
)
_HOST_RECORDS = (f"$KV.HOSTS.host.{NAME}", f"$KV.BEATS.host.{NAME}")
_HOST_ORDERS = (f"ctl.{NAME}",)

_NEWS_ALL = ("w.>", INBOX)
_NEWS_OWN = (f"w.*.{TEAM}.>", INBOX)

FOR_ALL_TEAMS: dict[Role, RoleRights] = {
    Role.HOST: RoleRights(
        (*_READS_ALL, *_WRITES_ALL, *_ASKS_HOSTS, *_TAKES_SPAWNS, *_HOST_RECORDS),
        (*_NEWS_ALL, "ws.>", *_HOST_ORDERS),
        answers=True,
    ),
    Role.HUMAN: RoleRights((*_READS_ALL, *_WRITES_ALL, *_ASKS_HOSTS), _NEWS_ALL),
    # Only what changes nothing: the barrier of a read that must be current is a write.
    Role.READ_ONLY: RoleRights(("$JS.API.DIRECT.GET.>",), _NEWS_ALL),
}
"""The roles of keys for all teams of a tenant."""

FOR_OWN_TEAMS: dict[Role, RoleRights] = {
    # Spawn requests and requests to hosts do not name a team in their subject. So a key that is
    # bound to teams can neither make nor take them.
    Role.HOST: RoleRights(
        (*_READS_OWN, *_WRITES_OWN, *_HOST_RECORDS), (*_NEWS_OWN, *_HOST_ORDERS), answers=True
    ),
    Role.HUMAN: RoleRights((*_READS_OWN, *_WRITES_OWN), _NEWS_OWN),
    Role.READ_ONLY: RoleRights(_READS_OWN, _NEWS_OWN),
}
"""The roles of keys that are bound to teams."""

_ANSWER_S = 300


def template(rights: RoleRights) -> dict[str, Any]:
    """Return rights in the form that a signing key carries."""
    made: dict[str, Any] = {
        "pub": {"allow": list(rights.publish), "deny": list(NEVER_PUBLISHED)},
        "sub": {"allow": list(rights.subscribe), "deny": list(NEVER_SUBSCRIBED)},
        "subs": -1,
        "data": -1,
        "payload": -1,
    }
    if rights.answers:
        made["resp"] = {"max": 1, "ttl": _ANSWER_S * _S}
    return made
