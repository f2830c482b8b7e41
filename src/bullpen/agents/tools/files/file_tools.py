"""Tools that read and write files. An agent cannot overwrite a file that it has not read."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.desk import Desk, TeamDesk
from bullpen.agents.contracts.tool import Attachment, Tool, ToolInput, ToolResult
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files.after_edit import after_edit
from bullpen.agents.tools.files.file_content import (
    FoundFile,
    encoded,
    find,
    known,
    lines_in,
    missing,
    refuse_marks,
    refuse_unread,
    replace,
)
from bullpen.agents.tools.files.media import shown_file
from bullpen.agents.tools.files.media_type import media_type_of
from bullpen.agents.tools.files.notebooks.cells import Notebook
from bullpen.agents.tools.files.notebooks.shown import is_notebook, shown_notebook
from bullpen.agents.tools.files.safe_open import absolute, real_path
from bullpen.agents.tools.files.search_worker import cut
from bullpen.agents.tools.files.text_or_binary import kind_of_binary
from bullpen.errors import BullpenError, Invalid

LINES_MAX = 2_000
"""How many lines Read shows; models read this number in its description."""
READ_CHARS_MAX = 100_000

FilePath = Annotated[str, Field(description="Absolute, or relative to your working directory")]


class ReadInput(ToolInput):
    """Input of Read."""

    file_path: FilePath
    offset: int | None = Field(None, ge=0, description="First line, from 1")
    limit: int | None = Field(None, ge=1, description="Number of lines")
    pages: str | None = Field(None, description="Pages of a PDF, such as 1-5")


class WriteInput(ToolInput):
    """Input of Write."""

    file_path: FilePath
    content: str = Field(description="The whole new content")


async def _read(given: ReadInput, desk: Desk) -> str | ToolResult:
    """Read a text file, with line numbers, 2000 lines unless you set a limit; or see an image or a
    PDF.
    """
    # Abandoned when cancelled: a file system that hangs must not block the agent.
    path, found = await to_thread.run_sync(_read_now, given, desk, abandon_on_cancel=True)
    if media_type_of(found.raw) is not None:
        return await shown_file(path, found.raw, given.pages, desk)
    if is_notebook(path) and given.pages is None:
        notebook = await to_thread.run_sync(_notebook_in, found)
        if notebook is not None:
            return await _cells_of(path, notebook, given, desk)
    return await to_thread.run_sync(_text_of, path, found, given)


def _read_now(given: ReadInput, desk: Desk) -> tuple[str, FoundFile]:
    path = absolute(given.file_path, desk.spec.cwd)
    real = real_path(given.file_path, desk.spec.cwd)
    found = find(real)
    if found is None:
        raise missing(path, desk)
    kind = kind_of_binary(found.raw)
    if kind is not None and media_type_of(found.raw) is None:
        raise Invalid(
            f"{path!r} is not a text file: it is {kind}, {len(found.raw)} bytes.",
            remedy="Use Bash with a program for this kind of file.",
        )
    known(desk)[found.path] = found.digest
    return path, found


def _notebook_in(found: FoundFile) -> Notebook | None:
    """The notebook in a file; None if it is damaged, which its text shows."""
    try:
        return Notebook(found.raw.decode("utf-8"))
    except (Invalid, UnicodeDecodeError):
        return None


async def _cells_of(path: str, notebook: Notebook, given: ReadInput, desk: Desk) -> ToolResult:
    text, images = await to_thread.run_sync(shown_notebook, notebook)
    shown = _numbered(path, text, given.offset or 1, given.limit or LINES_MAX)
    attachments: list[Attachment] = []
    for name, raw in images:
        if f"[{name}]" not in shown:
            continue
        try:
            attachments += (await shown_file(name, raw, None, desk)).attachments
        except BullpenError as error:
            shown += f"\n\n[{name} is not shown: {error.message}]"
    return ToolResult(shown, tuple(attachments))


def _text_of(path: str, found: FoundFile, given: ReadInput) -> str:
    if given.pages is not None:
        raise Invalid(f"{path!r} is not a PDF.", remedy="Leave out pages.")
    text = found.raw.decode("utf-8", "replace").removeprefix("\ufeff")
    shown = _numbered(path, text, given.offset or 1, given.limit or LINES_MAX)
    if text.encode("utf-8") not in found.raw:
        shown += "\n\n[Bytes that are not UTF-8 are shown as \ufffd.]"
    return shown


def _numbered(path: str, text: str, first: int, limit: int) -> str:
    lines = lines_in(text)
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


async def _write(given: WriteInput, desk: Desk) -> str:
    """Write a whole file, with its directory. Read an existing file before you overwrite it."""
    said = await to_thread.run_sync(_write_now, given, desk)
    return await after_edit(said, [given.file_path], desk)


def _write_now(given: WriteInput, desk: TeamDesk) -> str:
    path = absolute(given.file_path, desk.spec.cwd)
    real = real_path(given.file_path, desk.spec.cwd)
    raw = encoded(given.content)
    found = find(real)
    if found is not None:
        refuse_unread(path, found, desk)
        refuse_marks(path, found, given.content, desk)
    replace(path, real, found, raw, desk)
    done = "created" if found is None else "overwritten"
    return f"The file {path} was {done}: {len(lines_in(given.content))} lines."


FILE_TOOLS: tuple[Tool[Desk], ...] = (
    documented("Read", ReadInput, "read", _read),
    documented("Write", WriteInput, "write", _write),
)
