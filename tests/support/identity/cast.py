"""Who takes part: the members of one team, and those who are none of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice

TEAM = "alpha"
OTHER_TEAM = "beta"
OWNER = "olga"
"""The member whose task, mail, requests and launch the others act on."""

PARENT, CHILD, TEAMMATE, GUEST, RECEIVER = "pia", "kim", "tom", "gus", "rob"
STRANGER = "zoe"


class Identity(StrEnum):
    """Who acts."""

    PERSON = "person"
    LEAD = "lead"
    OWNER = "owner"
    PARENT = "parent of the owner"
    CHILD = "child of the owner"
    TEAMMATE = "teammate"
    GUEST = "MCP guest"
    ORPHAN = "orphan of a teammate"
    HOST = "host"
    NOBODY = "no token"
    BOUND = "key of this team"
    READ_ONLY = "read-only key"
    BOUND_READ_ONLY = "read-only key of this team"
    OTHER_TEAM = "other team"
    OTHER_TENANT = "other tenant"


@dataclass(frozen=True, slots=True)
class Actor:
    """In whose name something is done, and who says so."""

    name: str
    voice: Voice = "agent"

    @property
    def nonce(self) -> str:
        """The nonce of its launch, if it is an agent."""
        return nonce_of(self.name)


ACTORS: dict[Identity, Actor] = {
    Identity.PERSON: Actor(LEAD, "human"),
    Identity.HOST: Actor(LEAD, "human"),
    Identity.LEAD: Actor(LEAD),
    Identity.OWNER: Actor(OWNER),
    Identity.PARENT: Actor(PARENT),
    Identity.CHILD: Actor(CHILD),
    Identity.TEAMMATE: Actor(TEAMMATE),
    Identity.GUEST: Actor(GUEST),
    Identity.ORPHAN: Actor(TEAMMATE),
    Identity.NOBODY: Actor(LEAD, "human"),
    Identity.BOUND: Actor(LEAD, "human"),
    Identity.READ_ONLY: Actor(LEAD, "human"),
    Identity.BOUND_READ_ONLY: Actor(LEAD, "human"),
    Identity.OTHER_TEAM: Actor(STRANGER),
    Identity.OTHER_TENANT: Actor(LEAD, "human"),
}


def nonce_of(name: str) -> str:
    """The nonce of the launch of an agent of the scene."""
    return f"nonce-{name}"
