"""Files as the file tools find and replace them: whole, and never behind an agent's back."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from bullpen.agents.contracts.desk import TeamDesk
from bullpen.agents.tools.files.safe_open import folder_of, open_in
from bullpen.agents.tools.files.search_worker import lines_of
from bullpen.errors import BullpenError, Invalid, NotFound, Refused, Unavailable

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Larger files have to be read in parts, with other tools."""

_SIBLINGS_MAX = 10_000

_READ: WeakKeyDictionary[TeamDesk, dict[str, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it is now. `path` is its real path, with all links resolved."""

    path: str
    raw: bytes
    mode: int

    @property
    def digest(self) -> str:
        """The hash of its content."""
        return _digest(self.raw)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def known(desk: TeamDesk) -> MutableMapping[str, str]:
    """The digest of each file as the agent last read or wrote it, by real path."""
    return _READ.setdefault(desk, {})


def find(real: str) -> FoundFile | None:
    """The file at a real path, or None. Raises for anything that is not a readable file."""
    try:
        with folder_of(real) as (folder, name):
            return _find_in(folder, name, real)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot("read", real, error) from error


def _find_in(folder: int, name: str, real: str) -> FoundFile | None:
    try:
        # Do not block: a named pipe may never get a writer.
        descriptor = open_in(folder, name, os.O_RDONLY | os.O_NONBLOCK, real=real)
    except FileNotFoundError:
        return None
    try:
        return _content(real, descriptor)
    finally:
        os.close(descriptor)


def _content(path: str, descriptor: int) -> FoundFile:
    facts = os.fstat(descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise Invalid(f"{path!r} is a directory.", remedy="List it with Glob and the pattern '*'.")
    if not stat.S_ISREG(facts.st_mode):
        raise Invalid(f"{path!r} is a device, pipe or socket, not a file.", remedy="Use Bash.")
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise cannot("read", path, error) from error
    if len(raw) > FILE_BYTES_MAX:
        raise Invalid(
            f"{path!r} is larger than {FILE_BYTES_MAX} bytes, too large to read at once.",
            remedy="Use Grep, or sed, head or tail with Bash.",
        )
    return FoundFile(path, raw, stat.S_IMODE(facts.st_mode))


def cannot(verb: str, path: str, error: OSError) -> BullpenError:
    """The error for a file that the system did not let us open or change."""
    return Unavailable(
        f"Cannot {verb} {path!r}: {error.strerror or error}.",
        remedy="Check the path and its permissions.",
    )


def missing(path: str, desk: TeamDesk) -> NotFound:
    """The error for a file that does not exist, with those that have a similar name."""
    folder, name = os.path.split(path)
    while not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    hint = "" if os.path.join(folder, name) == path else f"There is no {name!r} in {folder!r}."
    try:
        with os.scandir(folder) as entries:
            there = [entry.name for entry, _ in zip(entries, range(_SIBLINGS_MAX), strict=False)]
    except OSError:
        there = []
    by_fold = {entry.casefold(): entry for entry in there}
    near = difflib.get_close_matches(name.casefold()[:255], by_fold, n=3, cutoff=0.6)
    if near:
        paths = " or ".join(repr(os.path.join(folder, by_fold[match])) for match in near)
        hint = f"{hint} Did you mean {paths}?"
    return NotFound(
        f"There is no file {path!r}.",
        remedy=hint.strip() or f"Your working directory is {desk.spec.cwd!r}; use Glob to find it.",
    )


def refuse_unread(path: str, found: FoundFile, desk: TeamDesk) -> None:
    """Refuse to overwrite a file that the agent has not read as it is now."""
    read = known(desk).get(found.path)
    if read is None:
        raise Refused(
            f"{path!r} exists and you have not read it.",
            reason="not_read",
            remedy="Read it first, then decide what to write.",
        )
    if read != found.digest:
        raise Refused(
            f"{path!r} has changed since you last read it.",
            reason="changed",
            remedy="Read it again: another member or a command changed it.",
        )


def refuse_marks(path: str, found: FoundFile, content: str, desk: TeamDesk) -> None:
    """Keep an agent that saw `[secret]` from writing that text over the secret itself."""
    old = found.raw.decode("utf-8", "replace")
    if "[secret" in content and "[secret" not in old and desk.redacted(old) != old:
        raise Refused(
            f"{path!r} holds a secret that you see as [secret]. This write would destroy it.",
            reason="secret",
            remedy="Change the other lines with Edit.",
        )


def encoded(text: str) -> bytes:
    """The bytes of a text. Raises Invalid if it has half a character."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Invalid(
            f"The text has an incomplete character at position {error.start}: {error.reason}.",
            remedy="Nothing was written. Send complete characters.",
        ) from None


def replace(
    path: str,
    real: str,
    found: FoundFile | None,
    raw: bytes,
    desk: TeamDesk,
    *,
    mode: int | None = None,
) -> None:
    """Replace the content of a file atomically, keeping its mode unless another is given.

    Raises Refused if the file is not as it was `found`, unless the agent has read it since.
    """
    try:
        kept = found.mode if mode is None and found is not None else mode
        with (
            folder_of(real, make=True) as (folder, name),
            _beside(folder, real, raw, kept) as beside,
        ):
            # Another process may have written the file in the meantime.
            now = _find_in(folder, name, real)
            if now is not None and (found is None or now.digest != found.digest):
                refuse_unread(path, now, desk)
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise cannot("write", path, error) from error
    known(desk)[real] = _digest(raw)


@contextlib.contextmanager
def _beside(folder: int, real: str, raw: bytes, mode: int | None) -> Iterator[str]:
    """Write a file beside the one that it will replace; yields its name."""
    beside = f".bullpen-{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(open_in(folder, beside, flags, real=real), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        yield beside
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)


def remove(path: str, found: FoundFile, desk: TeamDesk) -> None:
    """Delete a file. Raises Refused if it is not as it was `found`."""
    try:
        with folder_of(found.path) as (folder, name):
            now = _find_in(folder, name, found.path)
            if now is not None and now.digest != found.digest:
                refuse_unread(path, now, desk)
            os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise cannot("delete", path, error) from error
    known(desk).pop(found.path, None)


def lines_in(text: str) -> list[str]:
    """The lines as editors count them: only newlines end a line."""
    return lines_of(text.replace("\r\n", "\n"))
