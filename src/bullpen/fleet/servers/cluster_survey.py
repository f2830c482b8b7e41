"""Asks all servers of a cluster and puts their answers side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
        """Return how many of the messages ever stored are not in this copy."""
        return self.last_seq - self.messages


@dataclass(frozen=True, slots=True)
class StreamForm:
    """The intended configuration of a stream."""

    replicas: int
    storage: str
    ages: bool
    """Whether messages leave it by age or by being taken: each copy does so by itself."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What one server says. A server that does not answer is down: `error` says how."""

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
        """Return whether it answered."""
        return not self.error


Round = Sequence[ServerReport]


async def survey(
    monitors: Sequence[tuple[str, str]], *, rounds: int = ROUNDS, pause_s: float = PAUSE_S
) -> list[Round]:
    """Ask all servers, given by name and monitoring address, several times.

    Once is not enough while others write: copies are asked one after another, so they differ
    although they are the same.
    """
    taken: list[Round] = []
    for number in range(rounds):
        if number:
            await asyncio.sleep(pause_s)
        taken.append(await asyncio.gather(*(_told(name, url) for name, url in monitors)))
    return taken


async def _told(name: str, url: str) -> ServerReport:
    try:
        varz = await ask(url, "/varz")
        health = await ask(url, "/healthz")
        jsz = await ask(url, "/jsz?accounts=1&streams=1&config=1")
    except Unavailable as error:
        return ServerReport(url, name, error=error.message)
    return read(url, varz, health, jsz)


def read(
    url: str, varz: Mapping[str, Any], health: Mapping[str, Any], jsz: Mapping[str, Any]
) -> ServerReport:
    """Return what a server says, from its answers to /varz, /healthz and /jsz."""
    meta = jsz.get("meta_cluster") or {}
    streams = streams_of(jsz)
    return ServerReport(
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
