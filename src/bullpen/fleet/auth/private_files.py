"""Files that only their owner can read, written completely or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from bullpen.errors import NotFound, Unreadable
from bullpen.store.files.disk import Disk, list_folder, read_bytes

_OTHERS = 0o077
_disk = Disk()


def make_folder(path: Path) -> None:
    """Create a folder, and those above it, that only its owner can enter, or close it to others."""
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)


def write(path: Path, text: str) -> None:
    """Write a file. A reader finds the old or the new one, even after a power cut."""
    make_folder(path.parent)
    _disk.replace(str(path), text.encode(), nonce=secrets.token_hex(4))
    _disk.sync_dir(str(path.parent))


def read(path: Path, *, remedy: str) -> str:
    """Return the content of a file.

    Raises NotFound with `remedy` if it does not exist, Unreadable if it is not text or others can
    read it.
    """
    try:
        text = read_bytes(str(path)).decode("utf-8")
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise NotFound(f"The file {path} does not exist.", remedy=remedy) from None
    except (OSError, ValueError) as error:
        raise Unreadable(str(path), type(error).__name__, remedy=remedy) from None
    if mode & _OTHERS:
        raise Unreadable(
            str(path), "others can read it", remedy=f"If nobody has read it, run: chmod 600 {path}"
        )
    return text


def read_if_any(path: Path) -> str | None:
    """Return the content of a file; None if it does not exist. Raises Unreadable."""
    return read(path, remedy="") if path.exists() else None


def names_in(path: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it does not exist."""
    return sorted(list_folder(str(path)))
