"""apply_patch: change several files with one patch, all or none.

Each file of the patch is a call of its own for the gate and for hooks: reading what is changed,
then Edit or Write with what would be in the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files.after_edit import after_edit
from bullpen.agents.tools.files.file_content import (
    FoundFile,
    encoded,
    find,
    missing,
    refuse_unread,
    remove,
    replace,
)
from bullpen.agents.tools.files.patches.patch_text import FileChange, parse, patched
from bullpen.agents.tools.files.safe_open import absolute, real_path
from bullpen.agents.tools.files.text_or_binary import kind_of_binary
from bullpen.errors import BullpenError, Invalid, Refused

_FILES_MAX = 100


class ApplyPatchInput(ToolInput):
    """Input of apply_patch."""

    input: str = Field(description="From *** Begin Patch to *** End Patch")


@dataclass(frozen=True, slots=True)
class _Step:
    """One file and what will be in it; None deletes it. `found` is the file as it is now."""

    path: str
    real: str
    found: FoundFile | None
    raw: bytes | None
    call: Call
    said: str
    # The mode of a file that is moved here.
    mode: int | None = None


async def _apply(given: ApplyPatchInput, desk: Desk) -> str:
    """Change files by a patch, all or none: *** Add File: PATH with + lines, *** Delete File: PATH,
    or *** Update File: PATH, perhaps *** Move to: PATH, with hunks: @@ LINE_ABOVE, then lines that
    begin with a space, - or +.
    """
    changes = await to_thread.run_sync(parse, given.input)
    if len(changes) > _FILES_MAX:
        raise Invalid(
            f"The patch changes {len(changes)} files, more than {_FILES_MAX}.",
            remedy="Send several patches. Nothing was changed.",
        )
    steps: list[_Step] = []
    for change in changes:
        steps += await _steps(change, desk)
    # Not cancelled in the middle: the files belong together.
    with anyio.CancelScope(shield=True):
        await to_thread.run_sync(_make, steps, desk)
    told = [await desk.called(step.call, step.said, failed=False) for step in steps]
    written = [str(step.call.input["file_path"]) for step in steps if step.raw is not None]
    return await after_edit("\n".join(["Done:", *told]), written, desk)


async def _steps(change: FileChange, desk: Desk) -> list[_Step]:
    """What is to be done for one file of the patch, once it is permitted. Raises Refused."""
    if change.kind == "add":
        content = "".join(f"{line}\n" for line in change.lines)
        return [await _written(change.path, content, desk)]
    # A patch that does not match says something about the file.
    reading = Call("Read", {"file_path": change.path}, "read")
    await _permit(reading, desk)
    found = await to_thread.run_sync(_found, change, desk)
    # Bytes that are not UTF-8 stay unchanged.
    text = found.raw.decode("utf-8", "surrogateescape")
    if change.kind == "delete":
        return [await _removed(change.path, found, desk)]
    changed = await to_thread.run_sync(patched, text, change)
    if change.move_to is not None:
        new = await _written(change.move_to, changed, desk, mode=found.mode)
        return [new, await _removed(change.path, found, desk)]
    whole = {"file_path": change.path, "old_string": _shown(text), "new_string": _shown(changed)}
    call = Call("Edit", whole, "write")
    real = await _permit(call, desk)
    if real != found.path:
        raise _moved(change.path)
    path = absolute(change.path, desk.spec.cwd)
    raw = changed.encode("utf-8", "surrogateescape")
    return [_Step(path, real, found, raw, call, f"M {change.path}")]


def _found(change: FileChange, desk: Desk) -> FoundFile:
    path = absolute(change.path, desk.spec.cwd)
    found = find(real_path(change.path, desk.spec.cwd))
    if found is None:
        raise missing(path, desk)
    if kind_of_binary(found.raw) is not None and change.hunks:
        raise Invalid(f"{path!r} is not a text file.", remedy="Nothing was changed.")
    if change.kind == "delete":
        refuse_unread(path, found, desk)
    return found


async def _written(named: str, content: str, desk: Desk, *, mode: int | None = None) -> _Step:
    """A file with new content at a path where an existing one must have been read."""
    raw = content.encode("utf-8", "surrogateescape") if mode is not None else encoded(content)
    call = Call("Write", {"file_path": named, "content": _shown(content)}, "write")
    real = await _permit(call, desk)
    path = absolute(named, desk.spec.cwd)
    found = await to_thread.run_sync(find, real)
    if found is not None:
        refuse_unread(path, found, desk)
    return _Step(path, real, found, raw, call, f"A {named}", mode)


async def _removed(named: str, found: FoundFile, desk: Desk) -> _Step:
    text = _shown(found.raw.decode("utf-8", "surrogateescape"))
    given = {"file_path": named, "old_string": text, "new_string": "", "delete": True}
    call = Call("Edit", given, "write")
    real = await _permit(call, desk)
    if real != found.path:
        raise _moved(named)
    return _Step(absolute(named, desk.spec.cwd), real, found, None, call, f"D {named}")


async def _permit(call: Call, desk: Desk) -> str:
    """Ask for permission for one file; returns its real path, which was decided about."""
    permitted: Mapping[str, Any] = await desk.permit(call)
    if dict(permitted) != dict(call.input):
        raise Refused(
            f"The call was changed where it was approved: {call}. Nothing was changed.",
            reason="changed_input",
            remedy="Make this change with Edit or Write instead.",
        )
    return await to_thread.run_sync(real_path, str(call.input["file_path"]), desk.spec.cwd)


def _shown(text: str) -> str:
    """A text that can be stored and sent: what is not UTF-8 is replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _moved(path: str) -> Refused:
    return Refused(
        f"{path!r} changed while the patch was judged: a link in its path was added or removed.",
        reason="changed",
        remedy="Look at the path again, then retry. Nothing was changed.",
    )


def _make(steps: list[_Step], desk: Desk) -> None:
    """Change all files, or none: what was changed before an error is changed back."""
    done: list[_Step] = []
    try:
        for step in steps:
            if step.raw is not None:
                replace(step.path, step.real, step.found, step.raw, desk, mode=step.mode)
            elif step.found is not None:
                remove(step.path, step.found, desk)
            done.append(step)
    except BullpenError as error:
        kept = [step.path for step in reversed(done) if not _undone(step, desk)]
        what = f"Only this was changed: {', '.join(kept)}." if kept else "Nothing was changed."
        if isinstance(error, Refused):
            raise Refused(
                f"{error.message} {what}", reason=error.reason, remedy=error.remedy
            ) from error
        raise BullpenError(f"{error.message} {what}", remedy=error.remedy) from error


def _undone(step: _Step, desk: Desk) -> bool:
    """Change a file back; returns whether that worked."""
    try:
        now = find(step.real)
        if step.found is not None:
            replace(step.path, step.real, now, step.found.raw, desk, mode=step.found.mode)
        elif now is not None:
            remove(step.path, now, desk)
    except BullpenError:
        return False
    return True


_DOCUMENTED: Tool[Desk] = documented("apply_patch", ApplyPatchInput, "write", _apply)
APPLY_PATCH = dataclasses.replace(_DOCUMENTED, asks_itself=True)
