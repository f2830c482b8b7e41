"""What the servers of a cluster say of themselves, put side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from bullpen.errors import Unavailable
from bullpen.fleet.servers.monitor import ask, streams_of

ROUNDS = 3
PAUSE_S = 1.0

StreamKey = tuple[str, str]
"""An account and the name of a stream in it."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One server's copy of a stream."""

    messages: int
    first_seq: int
    last_seq: int
    leader: str

    @property
    def gone(self) -> int:
        """How many of the messages that ever were are not in this copy."""
        return self.last_seq - self.messages


@dataclass(frozen=True, slots=True)
class StreamForm:
    """What a stream is meant to be."""

    replicas: int
    storage: str
    ages: bool
    """Whether messages leave it by time or by being taken: each copy does so for itself."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one server says. Down is one that says nothing: `error` says how that showed."""

    url: str
    name: str
    error: str = ""
    version: str = ""
    ill: str = ""
    sync_always: bool = False
    meta_leader: str = ""
    cluster_size: int = 1
    replicas: Mapping[StreamKey, Replica] = field(default_factory=dict)
    forms: Mapping[StreamKey, StreamForm] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        """Whether it answered."""
        return not self.error


Round = Sequence[Told]


async def survey(
    monitors: Sequence[tuple[str, str]], *, rounds: int = ROUNDS, pause_s: float = PAUSE_S
) -> list[Round]:
    """Ask all servers, given by name and monitoring address, several times.

    Once is not enough while others write: copies are asked one after another, so that they
    differ although they are the same.
    """
    taken: list[Round] = []
    for number in range(rounds):
        if number:
            await anyio.sleep(pause_s)
        taken.append(await _round(monitors))
    return taken


async def _round(monitors: Sequence[tuple[str, str]]) -> Round:
    told: dict[int, Told] = {}

    async def one(index: int, name: str, url: str) -> None:
        told[index] = await _told(name, url)

    async with anyio.create_task_group() as group:
        for index, (name, url) in enumerate(monitors):
            group.start_soon(one, index, name, url)
    return [told[index] for index in range(len(monitors))]


async def _told(name: str, url: str) -> Told:
    try:
        varz = await ask(url, "/varz")
        health = await ask(url, "/healthz")
        jsz = await ask(url, "/jsz?accounts=1&streams=1&config=1")
    except Unavailable as error:
        return Told(url, name, error=error.message)
    return read(url, varz, health, jsz)


def read(
    url: str, varz: Mapping[str, Any], health: Mapping[str, Any], jsz: Mapping[str, Any]
) -> Told:
    """What a server says, from its answers to /varz, /healthz and /jsz."""
    meta = jsz.get("meta_cluster") or {}
    streams = streams_of(jsz)
    return Told(
        url=url,
        name=str(varz.get("server_name") or varz.get("server_id") or url),
        version=str(varz.get("version") or ""),
        ill=""
        if health.get("status") == "ok"
        else str(health.get("error") or health.get("status")),
        sync_always=bool((jsz.get("config") or {}).get("sync_always")),
        meta_leader=str(meta.get("leader") or ""),
        cluster_size=int(meta.get("cluster_size") or 1),
        replicas={key: _replica(detail) for key, detail in streams.items()},
        forms={key: _form(detail["config"]) for key, detail in streams.items()},
    )


def _replica(detail: Mapping[str, Any]) -> Replica:
    state = detail.get("state") or {}
    return Replica(
        messages=int(state.get("messages", 0)),
        first_seq=int(state.get("first_seq", 0)),
        last_seq=int(state.get("last_seq", 0)),
        leader=str((detail.get("cluster") or {}).get("leader") or ""),
    )


def _form(config: Mapping[str, Any]) -> StreamForm:
    return StreamForm(
        replicas=int(config.get("num_replicas", 1)),
        storage=str(config.get("storage", "")),
        ages=bool(config.get("max_age")) or config.get("retention") != "limits",
    )
