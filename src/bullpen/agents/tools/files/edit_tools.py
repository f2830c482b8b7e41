"""Tools that change parts of a file. All edits of a call are made, or none."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.desk import Desk, TeamDesk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files.after_edit import after_edit
from bullpen.agents.tools.files.file_content import (
    encoded,
    find,
    lines_in,
    missing,
    refuse_unread,
    replace,
)
from bullpen.agents.tools.files.file_tools import FilePath
from bullpen.agents.tools.files.notebooks.shown import is_notebook
from bullpen.agents.tools.files.safe_open import absolute, real_path
from bullpen.agents.tools.files.search_worker import cut
from bullpen.errors import Invalid, Refused

_SNIPPET_LINES = 4


class EditStep(ToolInput):
    """One replacement."""

    old_string: str = Field(description="Text to replace, exactly as in the file")
    new_string: str = Field(description="Text in its place")
    replace_all: bool = Field(False, description="Replace every occurrence")


class EditInput(EditStep):
    """Input of Edit."""

    file_path: FilePath


class MultiEditInput(ToolInput):
    """Input of MultiEdit."""

    file_path: FilePath
    edits: list[EditStep] = Field(
        min_length=1, max_length=200, description="Made in order, each on the result of the others"
    )


async def _edit(given: EditInput, desk: Desk) -> str:
    """Replace text in a file that you have read. old_string must occur once, without the line
    numbers, unless you set replace_all.
    """
    said = await to_thread.run_sync(_edit_now, given.file_path, [given], desk)
    return await after_edit(said, [given.file_path], desk)


async def _multi_edit(given: MultiEditInput, desk: Desk) -> str:
    """Make several edits of one file at once, all or none."""
    said = await to_thread.run_sync(_edit_now, given.file_path, given.edits, desk)
    return await after_edit(said, [given.file_path], desk)


def _edit_now(named: str, steps: Sequence[EditStep], desk: TeamDesk) -> str:
    path, real = absolute(named, desk.spec.cwd), real_path(named, desk.spec.cwd)
    for step in steps:
        if step.old_string == step.new_string:
            raise Invalid("old_string and new_string are the same.", remedy="Nothing was changed.")
        if not step.old_string:
            raise Invalid("old_string is empty.", remedy="To create a file, use Write.")
        encoded(step.new_string)
    found = find(real)
    if found is None:
        raise missing(path, desk)
    refuse_unread(path, found, desk)
    # Bytes that are not UTF-8 stay unchanged.
    text = found.raw.decode("utf-8", "surrogateescape")
    places, first, new = 0, 0, ""
    for number, step in enumerate(steps, start=1):
        try:
            text, count, first, new = _edited(path, text, step)
        except Refused as error:
            raise _in_step(error, number, len(steps)) from None
        places += count
    replace(path, real, found, text.encode("utf-8", "surrogateescape"), desk)
    times = f"{places} places" if places > 1 else "1 place"
    return f"The file {path} was changed in {times}.\n{_around(text, first, new)}"


def _edited(path: str, text: str, step: EditStep) -> tuple[str, int, int, str]:
    """The text after an edit, in how many places, the first of them, and what is there now."""
    old, new = _in_its_line_endings(text, step.old_string, step.new_string)
    count = text.count(old)
    if count == 0:
        raise _no_match(path, text, step.old_string)
    if count > 1 and not step.replace_all:
        raise _several(path, text, old, count)
    return text.replace(old, new), count, text.index(old), new


def _in_step(error: Refused, number: int, steps: int) -> Refused:
    if steps == 1:
        return error
    return Refused(
        f"Edit {number} of {steps}: {error.message} Nothing was changed.",
        reason=error.reason,
        remedy=error.remedy,
    )


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


def _no_match(path: str, text: str, old: str) -> Refused:
    lines = lines_in(text)
    wanted = [" ".join(line.split()) for line in lines_in(old)]
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
    if is_notebook(path):
        remedy = "Read shows the cells of a notebook, not its file. Use NotebookEdit."
    elif near is not None:
        remedy = f"The text at line {near} differs only in white space. {remedy}"
    return Refused(f"old_string is not in {path!r} (0 matches).", reason="no_match", remedy=remedy)


def _several(path: str, text: str, old: str, count: int) -> Refused:
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
    lines = lines_in(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    at = text.count("\n", 0, position)
    first = max(0, at - _SNIPPET_LINES)
    last = min(len(lines), at + min(new.count("\n"), 40) + 1 + _SNIPPET_LINES)
    return "\n".join(f"{first + i + 1:6d}\t{cut(line)}" for i, line in enumerate(lines[first:last]))


EDIT: Tool[Desk] = documented("Edit", EditInput, "write", _edit)
MULTI_EDIT: Tool[Desk] = documented("MultiEdit", MultiEditInput, "write", _multi_edit)
