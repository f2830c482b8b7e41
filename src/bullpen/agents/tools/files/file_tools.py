"""Tools that read and write files. An agent cannot overwrite a file that it has not read."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from typing import Annotated
from weakref import WeakKeyDictionary

from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.desk import Desk, TeamDesk
from bullpen.agents.contracts.tool import Tool, ToolInput, ToolResult
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files.media import shown_file
from bullpen.agents.tools.files.media_type import media_type_of
from bullpen.agents.tools.files.safe_open import absolute, folder_of, open_in, real_path
from bullpen.agents.tools.files.search_worker import cut, lines_of
from bullpen.agents.tools.files.text_or_binary import kind_of_binary
from bullpen.errors import BullpenError, Invalid, NotFound, Refused, Unavailable

LINES_MAX = 2_000
"""How many lines Read shows; models read this number in its description."""
READ_CHARS_MAX = 100_000
FILE_BYTES_MAX = 64 * 1024 * 1024
"""Larger files have to be read in parts, with other tools."""

_SNIPPET_LINES = 4
_SIBLINGS_MAX = 10_000

_READ: WeakKeyDictionary[TeamDesk, dict[str, str]] = WeakKeyDictionary()
"""The digest of each file as each agent last read or wrote it, by real path."""


FilePath = Annotated[
    str, Field(description="Path of the file, absolute or relative to your working directory")
]


class ReadInput(ToolInput):
    """Input of Read."""

    file_path: FilePath
    offset: int | None = Field(None, ge=0, description="First line to show, counted from 1")
    limit: int | None = Field(None, ge=1, description="Number of lines to show")
    pages: str | None = Field(None, description="Pages of a PDF to show, such as 1-5")


class WriteInput(ToolInput):
    """Input of Write."""

    file_path: FilePath
    content: str = Field(description="The whole new content of the file")


class EditInput(ToolInput):
    """Input of Edit."""

    file_path: FilePath
    old_string: str = Field(description="Text to replace, exactly as it is in the file")
    new_string: str = Field(description="Text to put in its place")
    replace_all: bool = Field(False, description="Replace every occurrence")


@dataclass(frozen=True, slots=True)
class _Found:
    """A file as it is now. `path` is its real path, with all links resolved."""

    path: str
    raw: bytes
    mode: int

    @property
    def digest(self) -> str:
        return _digest(self.raw)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _known(desk: TeamDesk) -> dict[str, str]:
    return _READ.setdefault(desk, {})


def _find(real: str) -> _Found | None:
    """The file at a real path, or None. Raises for anything that is not a readable file."""
    try:
        with folder_of(real) as (folder, name):
            return _find_in(folder, name, real)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot("read", real, error) from error


def _find_in(folder: int, name: str, real: str) -> _Found | None:
    try:
        # Do not block: a named pipe may never get a writer.
        descriptor = open_in(folder, name, os.O_RDONLY | os.O_NONBLOCK, real=real)
    except FileNotFoundError:
        return None
    try:
        return _content(real, descriptor)
    finally:
        os.close(descriptor)


def _content(path: str, descriptor: int) -> _Found:
    facts = os.fstat(descriptor)
    if stat.S_ISDIR(facts.st_mode):
        raise Invalid(f"{path!r} is a directory.", remedy="List it with Glob and the pattern '*'.")
    if not stat.S_ISREG(facts.st_mode):
        raise Invalid(f"{path!r} is a device, pipe or socket, not a file.", remedy="Use Bash.")
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _cannot("read", path, error) from error
    if len(raw) > FILE_BYTES_MAX:
        raise Invalid(
            f"{path!r} is larger than {FILE_BYTES_MAX} bytes, too large to read at once.",
            remedy="Use Grep, or sed, head or tail with Bash.",
        )
    return _Found(path, raw, stat.S_IMODE(facts.st_mode))


def _cannot(verb: str, path: str, error: OSError) -> BullpenError:
    return Unavailable(
        f"Cannot {verb} {path!r}: {error.strerror or error}.",
        remedy="Check the path and its permissions.",
    )


def _missing(path: str, desk: TeamDesk) -> NotFound:
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


async def _read(given: ReadInput, desk: Desk) -> str | ToolResult:
    """Read a text file, with line numbers, or see an image or a PDF. Shows 2000 lines unless you
    set a limit.
    """
    # Abandoned when cancelled: a file system that hangs must not block the agent.
    path, found = await to_thread.run_sync(_read_now, given, desk, abandon_on_cancel=True)
    if media_type_of(found.raw) is not None:
        return await shown_file(path, found.raw, given.pages, desk)
    return await to_thread.run_sync(_text_of, path, found, given)


def _read_now(given: ReadInput, desk: Desk) -> tuple[str, _Found]:
    path = absolute(given.file_path, desk.spec.cwd)
    real = real_path(given.file_path, desk.spec.cwd)
    found = _find(real)
    if found is None:
        raise _missing(path, desk)
    kind = kind_of_binary(found.raw)
    if kind is not None and media_type_of(found.raw) is None:
        raise Invalid(
            f"{path!r} is not a text file: it is {kind}, {len(found.raw)} bytes.",
            remedy="Use Bash with a program for this kind of file.",
        )
    _known(desk)[found.path] = found.digest
    return path, found


def _text_of(path: str, found: _Found, given: ReadInput) -> str:
    if given.pages is not None:
        raise Invalid(f"{path!r} is not a PDF.", remedy="Leave out pages.")
    text = found.raw.decode("utf-8", "replace").removeprefix("\ufeff")
    shown = _numbered(path, text, given.offset or 1, given.limit or LINES_MAX)
    if text.encode("utf-8") not in found.raw:
        shown += "\n\n[Bytes that are not UTF-8 are shown as \ufffd.]"
    return shown


def _lines(text: str) -> list[str]:
    """The lines as editors count them: only newlines end a line."""
    return lines_of(text.replace("\r\n", "\n"))


def _numbered(path: str, text: str, first: int, limit: int) -> str:
    lines = _lines(text)
    if not lines:
        return f"The file {path} is empty."
    if first > len(lines):
        raise Invalid(
            f"{path!r} has only {len(lines)} lines; the offset was {first}.",
            remedy="Give a smaller offset.",
        )
    shown: list[str] = []
    room = READ_CHARS_MAX
    for number, line in enumerate(lines[first - 1 : first - 1 + limit], start=first):
        row = f"{number:6d}\t{cut(line)}"
        room -= len(row) + 1
        if room < 0 and shown:
            break
        shown.append(row)
    last = first - 1 + len(shown)
    if last < len(lines):
        shown.append(
            f"\n[Lines {first} to {last} of {len(lines)}. Continue with offset {last + 1}.]"
        )
    return "\n".join(shown)


def _refuse_unread(path: str, found: _Found, desk: TeamDesk) -> None:
    known = _known(desk).get(found.path)
    if known is None:
        raise Refused(
            f"{path!r} exists and you have not read it.",
            reason="not_read",
            remedy="Read it first, then decide what to write.",
        )
    if known != found.digest:
        raise Refused(
            f"{path!r} has changed since you last read it.",
            reason="changed",
            remedy="Read it again: another member or a command changed it.",
        )


async def _write(given: WriteInput, desk: TeamDesk) -> str:
    """Write a whole file. Its directory is created if needed. Read an existing file before you
    overwrite it. To change part of a file, use Edit.
    """
    return await to_thread.run_sync(_write_now, given, desk)


def _write_now(given: WriteInput, desk: TeamDesk) -> str:
    path = absolute(given.file_path, desk.spec.cwd)
    real = real_path(given.file_path, desk.spec.cwd)
    raw = _encoded(given.content)
    found = _find(real)
    if found is not None:
        _refuse_unread(path, found, desk)
        _refuse_marks(path, found, given.content, desk)
    _replace(path, real, found, raw, desk)
    done = "created" if found is None else "overwritten"
    return f"The file {path} was {done}: {len(_lines(given.content))} lines."


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Invalid(
            f"The text has an incomplete character at position {error.start}: {error.reason}.",
            remedy="Nothing was written. Send complete characters.",
        ) from None


def _refuse_marks(path: str, found: _Found, content: str, desk: TeamDesk) -> None:
    """Keep an agent that saw `[secret]` from writing that text over the secret itself."""
    old = found.raw.decode("utf-8", "replace")
    if "[secret" in content and "[secret" not in old and desk.redacted(old) != old:
        raise Refused(
            f"{path!r} holds a secret that you see as [secret]. This write would destroy it.",
            reason="secret",
            remedy="Change the other lines with Edit.",
        )


def _replace(path: str, real: str, found: _Found | None, raw: bytes, desk: TeamDesk) -> None:
    """Replace the content of a file atomically, keeping its mode."""
    try:
        with folder_of(real, make=True) as (folder, name):
            _replace_in(folder, name, path, real, found, raw, desk)
    except OSError as error:
        raise _cannot("write", path, error) from error
    _known(desk)[real] = _digest(raw)


def _replace_in(
    folder: int, name: str, path: str, real: str, found: _Found | None, raw: bytes, desk: TeamDesk
) -> None:
    beside = f".bullpen-{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(open_in(folder, beside, flags, real=real), "wb") as file:
            if found is not None:
                os.fchmod(file.fileno(), found.mode)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        # Another process may have written the file in the meantime.
        now = _find_in(folder, name, real)
        if now is not None and (found is None or now.digest != found.digest):
            _refuse_unread(path, now, desk)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)


async def _edit(given: EditInput, desk: TeamDesk) -> str:
    """Replace text in a file that you have read. old_string must match the file exactly, without
    the line numbers, and occur once, unless you set replace_all.
    """
    return await to_thread.run_sync(_edit_now, given, desk)


def _edit_now(given: EditInput, desk: TeamDesk) -> str:
    path = absolute(given.file_path, desk.spec.cwd)
    real = real_path(given.file_path, desk.spec.cwd)
    if given.old_string == given.new_string:
        raise Invalid("old_string and new_string are the same.", remedy="Nothing was changed.")
    if not given.old_string:
        raise Invalid("old_string is empty.", remedy="To create a file, use Write.")
    _encoded(given.new_string)
    found = _find(real)
    if found is None:
        raise _missing(path, desk)
    _refuse_unread(path, found, desk)
    # Bytes that are not UTF-8 stay unchanged.
    text = found.raw.decode("utf-8", "surrogateescape")
    old, new = _in_its_line_endings(text, given.old_string, given.new_string)
    count = text.count(old)
    if count == 0:
        raise _no_match(path, text, given.old_string)
    if count > 1 and not given.replace_all:
        raise _several(path, text, old, count)
    first = text.index(old)
    changed = text.replace(old, new)
    _replace(path, real, found, changed.encode("utf-8", "surrogateescape"), desk)
    times = f"{count} places" if count > 1 else "1 place"
    return f"The file {path} was changed in {times}.\n{_around(changed, first, new)}"


def _in_its_line_endings(text: str, old: str, new: str) -> tuple[str, str]:
    """The old and the new text with the line endings of the file; models see only newlines."""
    windows = text.count("\r\n")
    if not windows:
        return old, new
    if windows == text.count("\n") or old not in text:
        return _windows(old), _windows(new)
    # The file has both kinds. If the old text has no newline, use the more common kind.
    if "\n" not in old and windows * 2 > text.count("\n"):
        return old, _windows(new)
    return old, new


def _windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _no_match(path: str, text: str, old: str) -> BullpenError:
    lines = _lines(text)
    wanted = [" ".join(line.split()) for line in _lines(old)]
    have = [" ".join(line.split()) for line in lines]
    near = next(
        (
            number + 1
            for number in range(len(have) - len(wanted) + 1)
            if any(wanted) and have[number : number + len(wanted)] == wanted
        ),
        None,
    )
    remedy = "Read the file again and copy the text exactly, without the line numbers."
    if near is not None:
        remedy = f"The text at line {near} differs only in white space. {remedy}"
    return Refused(f"old_string is not in {path!r} (0 matches).", reason="no_match", remedy=remedy)


def _several(path: str, text: str, old: str, count: int) -> BullpenError:
    lines: list[str] = []
    position = text.find(old)
    while position >= 0 and len(lines) < 10:
        lines.append(str(text.count("\n", 0, position) + 1))
        position = text.find(old, position + len(old))
    more = " and more" if count > len(lines) else ""
    return Refused(
        f"old_string is in {path!r} {count} times, at lines {', '.join(lines)}{more}.",
        reason="several_matches",
        remedy="Add surrounding lines until the match is unique, or set replace_all.",
    )


def _around(text: str, position: int, new: str) -> str:
    """The changed lines with some around them, as Read shows them."""
    lines = _lines(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    at = text.count("\n", 0, position)
    first = max(0, at - _SNIPPET_LINES)
    last = min(len(lines), at + min(new.count("\n"), 40) + 1 + _SNIPPET_LINES)
    return "\n".join(f"{first + i + 1:6d}\t{cut(line)}" for i, line in enumerate(lines[first:last]))


FILE_TOOLS: tuple[Tool[Desk], ...] = (
    documented("Read", ReadInput, "read", _read),
    documented("Write", WriteInput, "write", _write),
    documented("Edit", EditInput, "write", _edit),
)
