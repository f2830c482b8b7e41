"""The key that a development server requires: minted into the home, and kept there."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import nkeys  # type: ignore[import-untyped]

from bullpen.app.server_keys import key_file
from bullpen.errors import Unreadable
from bullpen.store.files.disk import Disk, nonce
from bullpen.store.private_folder import make_private, narrow

_SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class ServerKey:
    """What servers know about their key: its public half, and a password between servers."""

    public: str
    route_password: str = field(repr=False)


def ensure_key(home: Path, ports: Sequence[int]) -> ServerKey:
    """Return the key of the servers on these ports, which is minted if there is none.

    Raises Unreadable if its file is damaged.
    """
    first = key_file(home, ports[0])
    make_private(first.parent)
    narrow(first.parent)
    if not first.exists():
        _mint(first)
    key, seed = _read(first)
    for port in ports[1:]:
        other = key_file(home, port)
        # Each of the servers can be named alone.
        if not other.exists() or other.read_text("ascii", "replace").strip() != seed:
            Disk().replace(str(other), f"{seed}\n".encode(), nonce=nonce())
    return key


def _mint(path: Path) -> None:
    """Write a new key; if another process was faster, its key stays."""
    seed = nkeys.encode_seed(secrets.token_bytes(_SEED_BYTES), nkeys.PREFIX_BYTE_USER)
    fresh = path.with_name(f".{path.name}.{nonce()}")
    try:
        Disk().write_new(str(fresh), seed + b"\n")
        with suppress(FileExistsError):
            os.link(fresh, path)
        Disk().sync_dir(str(path.parent))
    finally:
        fresh.unlink(missing_ok=True)


def _read(path: Path) -> tuple[ServerKey, str]:
    try:
        path.chmod(0o600)
        seed = path.read_text("ascii").strip()
        public = nkeys.from_seed(bytearray(seed.encode())).public_key.decode()
    except (OSError, ValueError, TypeError, nkeys.NkeysError) as error:
        # No part of the text may get into an error: it may be a seed with one wrong letter.
        raise Unreadable(
            str(path),
            f"it is not the key of a server ({type(error).__name__})",
            remedy="Remove the file, then stop and start the servers: they get a new key.",
        ) from None
    # Derived: servers that are started again one by one must all know the same password.
    password = hashlib.sha256(b"bullpen routes\n" + seed.encode()).hexdigest()
    return ServerKey(public, password), seed
