"""What each role may say to a NATS server and hear from it, as tables. Pure.

The server fills in `{{name()}}` from the name in a key, and `{{tag(team)}}` once for every team
that the key is bound to; a key without teams gets nothing from such a row.

How far this goes. A server checks the subject of a request, never the subject that the answer is
to go to, and it gives its answers as itself. So whoever may ask anything in the account that has
the streams can have an answer put on any subject there: what the tables leave out stops mistakes
and honest programs, not a hostile holder of such a key. What stops that one is the border between
accounts. Tenants are accounts of their own; the keys of role `read-only` for a whole tenant are in
an account of their own too, into which only reading is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_S = 1_000_000_000

NAME = "{{name()}}"
TEAM = "{{tag(team)}}"
TEAM_TAG = "team:"
"""What the tags of a key begin with that say which teams it is bound to."""

ROLE_TAG = "role:"
"""What the tag of a key begins with that says what it is for."""

INBOX = f"_INBOX_{NAME}.>"
"""Where answers reach a key, and nobody else."""


class Role(StrEnum):
    """What a key is for."""

    ADMIN = "admin"
    HOST = "host"
    HUMAN = "human"
    READ_ONLY = "read-only"


@dataclass(frozen=True, slots=True)
class Rights:
    """The subjects that a key may publish to and subscribe to.

    With `answers`, it may also publish one message to where a message it got wants its answer.
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
"""Denied to every role but `admin`, whatever a table allows."""

NEVER_SUBSCRIBED = ("$SYS.>",)

_READS_ALL = (
    "$JS.API.INFO",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.DIRECT.GET.>",
)

# Filters in the body of a request cannot be checked, so only those in the subject are offered.
_READS_OWN = (
    f"$JS.API.DIRECT.GET.*.t.*.{TEAM}.>",
    f"$JS.API.DIRECT.GET.PRES.p.{TEAM}.>",
    f"$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.team.{TEAM}",
    "$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.cell",
    f"$JS.API.CONSUMER.CREATE.*.*.t.*.{TEAM}.>",
    f"$JS.API.CONSUMER.CREATE.PRES.*.p.{TEAM}.>",
    # A consumer that delivers waits for these before it goes on.
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

FOR_ALL_TEAMS: dict[Role, Rights] = {
    Role.HOST: Rights(
        (*_READS_ALL, *_WRITES_ALL, *_ASKS_HOSTS, *_TAKES_SPAWNS, *_HOST_RECORDS),
        (*_NEWS_ALL, "ws.>", *_HOST_ORDERS),
        answers=True,
    ),
    Role.HUMAN: Rights((*_READS_ALL, *_WRITES_ALL, *_ASKS_HOSTS), _NEWS_ALL),
    # Only what does not change anything: the barrier of a read that must be fresh is a write.
    Role.READ_ONLY: Rights(("$JS.API.DIRECT.GET.>",), _NEWS_ALL),
}
"""The roles of keys that are for every team of a tenant."""

FOR_OWN_TEAMS: dict[Role, Rights] = {
    # Requests to spawn and to hosts do not name a team in their subject. So a key that is bound
    # to teams neither makes nor takes them.
    Role.HOST: Rights(
        (*_READS_OWN, *_WRITES_OWN, *_HOST_RECORDS), (*_NEWS_OWN, *_HOST_ORDERS), answers=True
    ),
    Role.HUMAN: Rights((*_READS_OWN, *_WRITES_OWN), _NEWS_OWN),
    Role.READ_ONLY: Rights(_READS_OWN, _NEWS_OWN),
}
"""The roles of keys that are bound to teams."""

_ANSWER_S = 300


def template(rights: Rights) -> dict[str, Any]:
    """Rights as a signing key carries them."""
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
