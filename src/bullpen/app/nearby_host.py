"""Finds the host process of this machine that serves the same store, for commands to go through.

It has a connection and has read the teams already, so a command need not load what speaks to NATS.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from pathlib import Path

from bullpen.app.server_keys import credentials_for
from bullpen.app.settings import Settings
from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.store.hosted import frames
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.socket import operator_token, socket_in

_GREETING_S = 0.5
"""A host that does not greet for so long is stopped or stuck: a command does not wait for it."""

_GREETING_BYTES_MAX = 64 * 1024


def leave_note(settings: Settings) -> None:
    """Write which servers the host of this home uses, and with which key, beside its socket."""
    path = _note_in(settings.home)
    path.touch(mode=0o600)
    path.write_bytes(_access(settings.store or "", settings))


def through_host(url: str, settings: Settings) -> HostedStore | None:
    """Return the store behind the host of this home; None if it does not serve exactly this one.

    Whoever has another key has other rights, so that is another store. The host must answer.
    """
    path = socket_in(settings.home)
    try:
        found = path.parent.stat()
        is_private = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
        if not is_private or _note_in(settings.home).read_bytes() != _access(url, settings):
            return None
        token = operator_token(str(path))
        return HostedStore(str(path), token) if _greets(path, token) else None
    except (OSError, ValueError, Unavailable):
        return None


def _note_in(home: Path) -> Path:
    return socket_in(home).parent / "serves.json"


def _access(url: str, settings: Settings) -> bytes:
    """Return what makes two ways to the servers the same: address, key and authority."""
    files = {"key": credentials_for(url, settings), "ca": settings.ca}
    digests = {
        name: hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
        for name, file in files.items()
    }
    return json_text.dumps_line({"store": url, **digests})


def _greets(path: Path, token: str) -> bool:
    """Return whether somebody answers at the socket, and takes the token for the operator's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(_GREETING_S)
        line.connect(str(path))
        line.sendall(frames.pack({"v": frames.VERSION, "token": token}))
        said = b""
        while (greeting := frames.whole(said)) is None and len(said) < _GREETING_BYTES_MAX:
            more = line.recv(_GREETING_BYTES_MAX)
            if not more:
                return False
            said += more
    return greeting == {"id": 0, "ok": {"operator": True}}
