"""Rows of operations: performed on a fresh team each, in Python and at the socket of a host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from unittest import mock

from bullpen.errors import NotFound
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.tokens import OPERATOR, TokenIdentity
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams, operations
from support.store.hosting import TOKENS, hosting

from .acts import ACTS, Act, Through
from .cast import (
    ACTORS,
    CHILD,
    OTHER_TEAM,
    OWNER,
    PARENT,
    STRANGER,
    TEAM,
    TEAMMATE,
    Actor,
    Identity,
)
from .expected import ALLOWED, AT_A_HOST, OF_THE_OWNER_AT_A_HOST, OPERATIONS
from .rows import Row, Seen, Verdict, Way, tried
from .scene import Clock, Scene, fresh

_MEMBERS = (
    Identity.PERSON,
    Identity.LEAD,
    Identity.OWNER,
    Identity.PARENT,
    Identity.CHILD,
    Identity.TEAMMATE,
    Identity.GUEST,
)
_WITH_TOKEN: Mapping[Identity, TokenIdentity] = {
    Identity.HOST: OPERATOR,
    Identity.LEAD: TokenIdentity(TEAM, LEAD),
    Identity.OWNER: TokenIdentity(TEAM, OWNER),
    Identity.PARENT: TokenIdentity(TEAM, PARENT),
    Identity.CHILD: TokenIdentity(TEAM, CHILD),
    Identity.TEAMMATE: TokenIdentity(TEAM, TEAMMATE),
    Identity.OTHER_TEAM: TokenIdentity(OTHER_TEAM, STRANGER),
}
_AGENTS = (
    Identity.LEAD,
    Identity.PARENT,
    Identity.CHILD,
    Identity.TEAMMATE,
    Identity.OTHER_TEAM,
)


def in_python(what: str) -> list[Row]:
    """The rows of the library. It believes its caller who it is, and asks who may do what."""
    right = OPERATIONS[what]
    identities = _MEMBERS if _names_its_actor(what) else (Identity.PERSON,)
    return [
        Row("Python", what, identity, "own name", _verdict(identity in ALLOWED[right]))
        for identity in identities
        # A person is no launch.
        if right != "itself" or identity is not Identity.PERSON
    ]


def at_host(what: str) -> list[Row]:
    """The rows of the socket of a host. It knows who has which token."""
    allowed = ALLOWED[AT_A_HOST.get(what, OPERATIONS[what])]
    right = OPERATIONS[what]
    rows = [
        Row("host socket", what, identity, "own name", _verdict(identity in allowed))
        for identity in (*_WITH_TOKEN, Identity.ORPHAN, Identity.NOBODY)
        if right not in ("itself", "asker") or identity is not Identity.HOST
    ]
    for identity in _AGENTS:
        for way in ("as the owner", "as a person"):
            for_owner = right == "itself" and way == "as the owner"
            verdict: Verdict = (
                "own name only" if identity in allowed and not for_owner else "refused"
            )
            if way == "as the owner" and identity in OF_THE_OWNER_AT_A_HOST.get(what, ()):
                verdict = "done"
            rows.append(Row("host socket", what, identity, way, verdict))
    return rows


def _verdict(allowed: bool) -> Verdict:
    return "done" if allowed else "refused"


def _names_its_actor(what: str) -> bool:
    operation = operations()[what.split(":")[0]]
    return operation.actor is not None or OPERATIONS[what] == "itself"


async def perform(row: Row) -> Seen:
    """Try a row on a fresh team."""
    act, clock = ACTS[row.what], Clock()
    store = MemoryStore(clock=clock)
    scene = await fresh(store, clock, lead_runs=act.lead_runs)
    who = _actor(row.identity, row.way)
    await prepared(act, scene, who)
    async with _door(row, store, clock) as reached:
        return await done_by(row, act, scene, Through(Teams(reached, clock=clock), TEAM), who)


def _actor(identity: Identity, way: Way) -> Actor:
    if way == "as the owner":
        return Actor(OWNER)
    return ACTORS[Identity.PERSON] if way == "as a person" else ACTORS[identity]


async def prepared(act: Act, scene: Scene, who: Actor) -> None:
    """Prepare what an act needs, as far as this actor can need it."""
    if act.prepare is None:
        return
    if (await scene.team.agents.config()).member(who.name) is None:
        # Whoever is in no team has no mail and no launch in it.
        who = Actor(OWNER)
    elif act.needs_launch and ACTORS[Identity.GUEST] == who:
        return
    await act.prepare(scene, who)


@asynccontextmanager
async def _door(row: Row, store: Store, clock: Clock) -> AsyncIterator[Store]:
    if row.door == "Python":
        yield store
        return
    tokens = {identity.value: token for identity, token in _WITH_TOKEN.items()}
    async with (
        hosting(store, clock=clock) as path,
        aclosing(HostedStore(path, row.identity.value)) as reached,
    ):
        # The door looks tokens up when somebody comes.
        with mock.patch.dict(TOKENS, tokens, clear=True):
            yield reached


async def done_by(row: Row, act: Act, scene: Scene, at: Through, who: Actor) -> Seen:
    """Perform an act; whether it was refused, and what it changed."""
    before = await state_of(scene)
    refused = await tried(lambda: act.run(scene, at, who))
    after = await state_of(scene)
    names = frozenset(actor for actor in after[1][len(before[1]) :])
    done = after != before or (act.quiet and refused is None)
    return Seen(row, refused, done, names)


async def state_of(scene: Scene) -> tuple[list[str], list[str], dict[str, str]]:
    """The teams, who changed this one, and its heartbeats."""
    try:
        log = [event.actor for event in await scene.log()]
        beats = {name: str(beat) for name, beat in (await scene.team.agents.presence()).items()}
    except NotFound:
        log, beats = [], {}
    return await scene.teams.names(), log, beats
