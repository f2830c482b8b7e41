"""Files that only their owner can read, written whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from bullpen.errors import NotFound, Unreadable
from bullpen.store.files.disk import Disk, list_folder, read_bytes

_OTHERS = 0o077
_disk = Disk()


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can enter, and those above it that are missing.

    One that is there and that others can enter is closed to them.
    """
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)


def write(path: Path, text: str) -> None:
    """Write a file; a reader finds the old or the new one, also after a power cut."""
    make_folder(path.parent)
    _disk.replace(str(path), text.encode(), nonce=secrets.token_hex(4))
    _disk.sync_dir(str(path.parent))


def read(path: Path, *, remedy: str) -> str:
    """What a file says.

    Raises:
        NotFound: there is none; `remedy` says what to do.
        Unreadable: it is no text, or others can read it too.
    """
    try:
        text = read_bytes(str(path)).decode("utf-8")
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", remedy=remedy) from None
    except (OSError, ValueError) as error:
        raise Unreadable(str(path), type(error).__name__, remedy=remedy) from None
    if mode & _OTHERS:
        raise Unreadable(str(path), "others can read it", remedy=f"If none did: chmod 600 {path}")
    return text


def names_in(path: Path) -> list[str]:
    """The names in a folder, sorted; none if there is no such folder."""
    return sorted(list_folder(str(path)))
