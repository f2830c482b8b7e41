"""Backs up all of Bullpen's streams to a directory, and restores them.

A backup is a directory with one file per stream and a manifest, which is written last: without it
there is no backup. For streams in memory (presence, heartbeats), only the configuration is saved.
"""

from __future__ import annotations

import hashlib
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
from bullpen.protocol import json_text
from bullpen.store.files.disk import Disk, nonce
from bullpen.store.nats.client import subjects
from bullpen.store.nats.client.api_requests import ApiError, api

MANIFEST = "manifest.json"

_VERSION = 1
_ANSWER_S = 30.0
_OURS = re.compile(r"TEAM_\d\d+|KV_TEAMS|KV_HOSTS|KV_BEATS|PRES(_\d+)?|SPAWN|STARTS|ORDERS")
_COUNTED = ("messages", "first_seq", "last_seq")
_TRIES = 20
_NO_STREAM = 10059
_PROBE = "BULLPEN_RESTORE_PROBE"
_OTHER = "Use another backup."


@dataclass(frozen=True, slots=True)
class BackupPart:
    """One stream of a backup. Without `file`, only its configuration is saved."""

    name: str
    config: dict[str, Any]
    state: dict[str, Any]
    file: str | None = None
    size: int = 0
    sha256: str = ""

    @property
    def messages(self) -> int:
        """Return how many messages it has."""
        return int(self.state.get("messages", 0))

    @property
    def replicas(self) -> int:
        """Return how many copies of it there were."""
        return int(self.config.get("num_replicas", 1))


@dataclass(frozen=True, slots=True)
class Backup:
    """The content of a backup directory."""

    directory: Path
    made: str
    streams: tuple[BackupPart, ...]


async def back_up(nc: Client, directory: Path) -> Backup:
    """Write all of Bullpen's streams into a new directory, while the teams continue.

    Each stream is as it was at one moment; the directory of teams is saved first, so that every
    team it names is in the rest. Raises Conflict if the directory is not empty, NotFound if the
    servers have no teams, and Unavailable if a stream could not be read: there is no manifest then.
    """
    names = await _names(nc)
    if subjects.DIRECTORY_STREAM not in names:
        raise NotFound(
            "The servers have no streams of Bullpen.",
            remedy="Name the servers that do with --store.",
        )
    _make_empty(directory)
    names.sort(key=lambda name: (name != subjects.DIRECTORY_STREAM, name))
    streams = [await _kept(nc, name, directory) for name in names]
    made = Backup(directory, datetime.now(UTC).isoformat(timespec="seconds"), tuple(streams))
    await to_thread.run_sync(_write, made)
    return made


async def checked(directory: Path) -> Backup:
    """Return the backup in a directory, after checking every byte. Raises NotFound, Unreadable."""
    found = _read(directory)
    for kept in found.streams:
        if kept.file is not None:
            await to_thread.run_sync(_check, directory / kept.file, kept)
    return found


async def restore(nc: Client, found: Backup, *, replicas: int | None = None) -> None:
    """Create the streams of a checked backup on servers that have no teams.

    With `replicas`, streams have that many copies instead of the original number. If one stream
    fails, those created before are removed again. Raises Conflict if the servers have something
    that this would hide, Unavailable if a stream could not be created or differs from the backup.
    """
    held = await _names(nc)
    await _refuse_used(nc, held)
    await _refuse_too_few(nc, replicas or max(kept.replicas for kept in found.streams))
    made = []
    try:
        for kept in found.streams:
            # One at a time: a server that has lost its last stream removes its directory, perhaps
            # while it makes the next.
            if kept.name in held:
                await _deleted(nc, kept.name)
            made.append(kept.name)
            config = {**kept.config, "num_replicas": replicas or kept.replicas}
            if kept.file is None:
                await _created(nc, config)
                continue
            state = await put_back(nc, config, kept.state, found.directory / kept.file)
            _refuse_other(kept, state)
        for name in set(held).difference(made):
            await _deleted(nc, name)
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


async def _kept(nc: Client, name: str, directory: Path) -> BackupPart:
    info = await api(nc, f"STREAM.INFO.{name}", None, timeout_s=_ANSWER_S)
    if info["config"].get("storage") == "memory":
        return BackupPart(name, info["config"], state={})
    path = directory / f"{name}.snapshot"
    for _ in range(_TRIES):
        taken = await take(nc, name, path)
        info = await api(nc, f"STREAM.INFO.{name}", None, timeout_s=_ANSWER_S)
        # What a newer message replaced meanwhile may be missing from the snapshot, as is the newer
        # message: such a snapshot never was the stream.
        if _is_whole(taken.state, info["state"]):
            return BackupPart(name, taken.config, taken.state, path.name, taken.size, taken.sha256)
        path.unlink()
    raise Unavailable(
        f"Stream {name} was changed too fast: {_TRIES} snapshots of it were not whole.",
        remedy="Back up when fewer agents work.",
    )


async def _refuse_used(nc: Client, names: Iterable[str]) -> None:
    for name in names:
        body = {"subjects_filter": ">"}
        info = await api(nc, f"STREAM.INFO.{name}", body, timeout_s=_ANSWER_S)
        held = set(info["state"].get("subjects") or ())
        # What `server start` writes to new servers, and what hosts write, can be lost.
        if info["config"].get("storage") != "memory" and held - {subjects.CELL_KEY}:
            raise Conflict(
                f"The servers already have {info['state']['messages']} messages in stream {name}.",
                remedy="Restore to new servers: bullpen server start --dir DIR --port 0",
            )


async def _refuse_too_few(nc: Client, replicas: int) -> None:
    """Refuse, before anything is changed, if there are too few servers for that many copies."""
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
            f"The servers cannot keep {replicas} copies of a stream: {error}.",
            remedy="Use --replicas, or start the missing servers.",
        ) from None
    await _deleted(nc, _PROBE)


async def _created(nc: Client, config: Mapping[str, Any]) -> None:
    try:
        await api(nc, f"STREAM.CREATE.{config['name']}", config, timeout_s=_ANSWER_S)
    except ApiError as error:
        raise Unavailable(
            f"The server did not create stream {config['name']}: {error}.",
            remedy="Check the servers: bullpen server status",
        ) from None


async def _deleted(nc: Client, name: str) -> None:
    try:
        await api(nc, f"STREAM.DELETE.{name}", None, timeout_s=_ANSWER_S)
    except ApiError as error:
        if error.err_code != _NO_STREAM:
            raise Unavailable(
                f"The server did not remove stream {name}: {error}.",
                remedy="Restore to new servers.",
            ) from None


def _refuse_other(kept: BackupPart, state: Mapping[str, Any]) -> None:
    """Refuse a stream that differs from the backup, but for what was written during it."""
    if kept.messages == 0 and not state.get("messages"):
        # An empty stream counts its first message differently before and after.
        return
    if _is_whole(kept.state, state):
        return
    raise Unavailable(
        f"Stream {kept.name} was restored with {_said(state)}, but had {_said(kept.state)}.",
        remedy=_OTHER,
    )


def _is_whole(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether nothing was removed from a stream between two moments."""
    (had, first, last), (has, now_first, now_last) = _counts(before), _counts(after)
    written = now_last - last
    return written >= 0 and has == had + written and (had == 0 or now_first == first)


def _counts(state: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return how many messages a stream has, and the sequences of the first and the last."""
    messages, first, last = (int(state.get(what) or 0) for what in _COUNTED)
    return messages, first, last


def _said(state: Mapping[str, Any]) -> str:
    messages, first, last = _counts(state)
    return f"{messages} messages ({first} to {last})"


def _make_empty(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise Conflict(
                f"{directory} is not empty.",
                remedy="Choose a new or empty directory.",
            )
        directory.chmod(0o700)
    except OSError as error:
        raise Unavailable(
            f"Cannot write to {directory}: {error.strerror}.", remedy="Choose another directory."
        ) from error


def _write(made: Backup) -> None:
    rows = [asdict(kept) for kept in made.streams]
    data = json_text.dumps({"v": _VERSION, "made": made.made, "streams": rows})
    disk = Disk()
    disk.replace(str(made.directory / MANIFEST), data, nonce=nonce())
    disk.sync_dir(str(made.directory))


def _read(directory: Path) -> Backup:
    path = directory / MANIFEST
    try:
        told = json_text.loads(path.read_bytes())
        if told["v"] != _VERSION:
            raise ValueError(f"its version is {told['v']}, but this program supports {_VERSION}")
        streams = tuple(BackupPart(**row) for row in told["streams"])
        for kept in streams:
            if kept.file not in (None, f"{kept.name}.snapshot"):
                raise ValueError(f"it names the file {kept.file!r}")
        return Backup(directory, str(told["made"]), streams)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"{directory} has no complete backup.",
            remedy=f"Name a directory with a {MANIFEST}.",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreadable(str(path), str(error), remedy=_OTHER) from error


def _check(path: Path, kept: BackupPart) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise Unreadable(str(path), str(error.strerror), remedy=_OTHER) from error
    if (size, digest) != (kept.size, kept.sha256):
        why = f"it is not what was written for stream {kept.name}"
        raise Unreadable(str(path), why, remedy=_OTHER)
