"""All of Bullpen's streams in a directory, and back.

A backup is a directory with one file per stream and a manifest, which is written last: without it
there is no backup. What lives in memory only (presence, heartbeats) is kept in its form alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anyio import CancelScope, to_thread
from nats.aio.client import Client

from bullpen.errors import Conflict, NotFound, Unavailable, Unreadable
from bullpen.fleet.servers.snapshots import put_back, take
from bullpen.protocol import jsontext
from bullpen.store.nats import subjects
from bullpen.store.nats.wire import ApiError, api

MANIFEST = "manifest.json"

_VERSION = 1
_ANSWER_S = 30.0
_READ_BYTES = 1024 * 1024
_OURS = re.compile(r"TEAM_\d\d|KV_TEAMS|KV_HOSTS|KV_BEATS|PRES|SPAWN")
_COUNTED = ("messages", "first_seq", "last_seq")
_NO_STREAM = 10059
_PROBE = "BULLPEN_RESTORE_PROBE"
_OTHER = "Use another backup."


@dataclass(frozen=True, slots=True)
class Kept:
    """One stream of a backup. Without `file`, only its form is kept."""

    name: str
    config: dict[str, Any]
    state: dict[str, Any]
    file: str | None = None
    size: int = 0
    sha256: str = ""

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return int(self.state.get("messages", 0))

    @property
    def replicas(self) -> int:
        """How many copies of it there were."""
        return int(self.config.get("num_replicas", 1))


@dataclass(frozen=True, slots=True)
class Backup:
    """What a directory holds."""

    directory: Path
    made: str
    streams: tuple[Kept, ...]


async def back_up(nc: Client, directory: Path) -> Backup:
    """Write all of Bullpen's streams into a new directory, while the teams go on.

    Each stream is as it was at one moment; the directory of teams is taken first, so that every
    team it names is in the rest.

    Raises:
        Conflict: there is something in the directory.
        NotFound: the servers hold no teams.
        Unavailable: a stream could not be read whole. There is no manifest then.
    """
    names = await _names(nc)
    if subjects.DIRECTORY_STREAM not in names:
        raise NotFound(
            "These servers hold no streams of Bullpen.",
            remedy="Name the servers that do with --store.",
        )
    _make_empty(directory)
    names.sort(key=lambda name: (name != subjects.DIRECTORY_STREAM, name))
    streams = [await _kept(nc, name, directory) for name in names]
    made = Backup(directory, datetime.now(UTC).isoformat(timespec="seconds"), tuple(streams))
    await to_thread.run_sync(_write, made)
    return made


async def checked(directory: Path) -> Backup:
    """The backup in a directory, after every byte of it was looked at.

    Raises:
        NotFound: there is none.
        Unreadable: it is damaged; the text names the file.
    """
    found = _read(directory)
    for kept in found.streams:
        if kept.file is not None:
            await to_thread.run_sync(_check, directory / kept.file, kept)
    return found


async def restore(nc: Client, found: Backup, *, replicas: int | None = None) -> None:
    """Make the streams of a checked backup on servers that hold no teams.

    With `replicas`, streams have that many copies instead of as many as they had. If one stream
    fails, those that were made before are removed again.

    Raises:
        Conflict: the servers hold something that this would hide.
        Unavailable: a stream could not be made, or does not hold what it held.
    """
    held = await _names(nc)
    await _refuse_used(nc, held)
    await _refuse_too_few(nc, replicas or max(kept.replicas for kept in found.streams))
    for name in held:
        await _deleted(nc, name)
    made = []
    try:
        for kept in found.streams:
            made.append(kept.name)
            config = {**kept.config, "num_replicas": replicas or kept.replicas}
            if kept.file is None:
                await _created(nc, config)
                continue
            state = await put_back(nc, config, kept.state, found.directory / kept.file)
            _refuse_other(kept, state)
    except BaseException:
        with CancelScope(shield=True):
            for name in made:
                await _deleted(nc, name)
        raise


async def _names(nc: Client) -> list[str]:
    found: list[str] = []
    while True:
        answer = await api(nc, "STREAM.NAMES", {"offset": len(found)}, timeout_s=_ANSWER_S)
        page = answer.get("streams") or []
        found += page
        if not page or len(found) >= int(answer.get("total", 0)):
            return [name for name in found if _OURS.fullmatch(name)]


async def _kept(nc: Client, name: str, directory: Path) -> Kept:
    info = await api(nc, f"STREAM.INFO.{name}", None, timeout_s=_ANSWER_S)
    if info["config"].get("storage") == "memory":
        return Kept(name, info["config"], state={})
    file = f"{name}.snapshot"
    taken = await take(nc, name, directory / file)
    return Kept(name, taken.config, taken.state, file, taken.size, taken.sha256)


async def _refuse_used(nc: Client, names: Iterable[str]) -> None:
    for name in names:
        body = {"subjects_filter": ">"}
        info = await api(nc, f"STREAM.INFO.{name}", body, timeout_s=_ANSWER_S)
        held = set(info["state"].get("subjects") or ())
        # What `server start` writes into new servers, and what hosts say, is no loss.
        if info["config"].get("storage") != "memory" and held - {subjects.CELL_KEY}:
            raise Conflict(
                f"These servers hold {info['state']['messages']} messages in stream {name}.",
                remedy="Restore into new servers: bullpen server start --dir DIR --port 0",
            )


async def _refuse_too_few(nc: Client, replicas: int) -> None:
    """Refuse before anything is changed, if there are too few servers for that many copies."""
    probe = {
        "name": _PROBE,
        "subjects": [f"{_PROBE}.>"],
        "storage": "memory",
        "num_replicas": replicas,
    }
    try:
        await api(nc, f"STREAM.CREATE.{_PROBE}", probe, timeout_s=_ANSWER_S)
    except ApiError as error:
        raise Unavailable(
            f"These servers cannot keep {replicas} copies of a stream: {error}.",
            remedy="Give --replicas, or bring up the servers that are missing.",
        ) from None
    await _deleted(nc, _PROBE)


async def _created(nc: Client, config: Mapping[str, Any]) -> None:
    try:
        await api(nc, f"STREAM.CREATE.{config['name']}", config, timeout_s=_ANSWER_S)
    except ApiError as error:
        raise Unavailable(
            f"The server did not make stream {config['name']}: {error}.",
            remedy="See whether the servers are well: bullpen server status",
        ) from None


async def _deleted(nc: Client, name: str) -> None:
    try:
        await api(nc, f"STREAM.DELETE.{name}", None, timeout_s=_ANSWER_S)
    except ApiError as error:
        if error.err_code != _NO_STREAM:
            raise Unavailable(
                f"The server did not remove stream {name}: {error}.",
                remedy="Restore into new servers.",
            ) from None


def _refuse_other(kept: Kept, state: Mapping[str, Any]) -> None:
    """Refuse a stream that does not hold what it held."""
    if kept.messages == 0 and not state.get("messages"):
        # An empty stream counts its first message differently before and after.
        return
    if int(state.get("last_seq") or 0) > int(kept.state.get("last_seq") or 0):
        # It was written to while it was being backed up: the counts are of a moment before.
        return
    for what in _COUNTED:
        if state.get(what) != kept.state.get(what):
            raise Unavailable(
                f"Stream {kept.name} came back with {what} {state.get(what)}, and had"
                f" {kept.state.get(what)}.",
                remedy=_OTHER,
            )


def _make_empty(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise Conflict(
                f"There is something in {directory} already.",
                remedy="Name a directory that is new or empty.",
            )
        directory.chmod(0o700)
    except OSError as error:
        raise Unavailable(
            f"Cannot write to {directory}: {error.strerror}.", remedy="Name another directory."
        ) from error


def _write(made: Backup) -> None:
    path = made.directory / MANIFEST
    rows = [asdict(kept) for kept in made.streams]
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    beside = path.with_suffix(".new")
    with open(os.open(beside, flags, 0o600), "wb") as file:
        file.write(jsontext.dumps({"v": _VERSION, "made": made.made, "streams": rows}))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    entries = os.open(made.directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(entries)
    finally:
        os.close(entries)


def _read(directory: Path) -> Backup:
    path = directory / MANIFEST
    try:
        told = jsontext.loads(path.read_bytes())
        if told["v"] != _VERSION:
            raise ValueError(f"it is of version {told['v']}, and this program knows {_VERSION}")
        streams = tuple(Kept(**row) for row in told["streams"])
        for kept in streams:
            if kept.file not in (None, f"{kept.name}.snapshot"):
                raise ValueError(f"it names the file {kept.file!r}")
        return Backup(directory, str(told["made"]), streams)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"There is no whole backup in {directory}.",
            remedy=f"Name a directory that holds a {MANIFEST}.",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreadable(str(path), str(error), remedy=_OTHER) from error


def _check(path: Path, kept: Kept) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                digest.update(data)
                size += len(data)
    except OSError as error:
        raise Unreadable(str(path), str(error.strerror), remedy=_OTHER) from error
    if size != kept.size or digest.hexdigest() != kept.sha256:
        why = f"it is not what was written for stream {kept.name}"
        raise Unreadable(str(path), why, remedy=_OTHER)
