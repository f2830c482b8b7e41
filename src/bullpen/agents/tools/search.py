"""Tools that look for files and in files."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from typing import Literal

import anyio
from anyio import to_thread
from pydantic import Field

from bullpen.agents.drivers.base import Desk
from bullpen.agents.tools import looking
from bullpen.agents.tools.base import Tool, ToolInput
from bullpen.agents.tools.commands import started
from bullpen.agents.tools.opening import absolute
from bullpen.errors import Invalid, NotFound, Unavailable

GLOB_FILES_MAX = 100
GLOB_S = 20.0
GREP_S = 30.0
GREP_ROWS = 250

_MAGIC = re.compile(r"[*?\[{]")
_NEWLINE = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")


class GlobInput(ToolInput):
    """Input of Glob."""

    pattern: str = Field(description="For example **/*.py or src/**/*.{ts,tsx}")
    path: str | None = Field(None, description="Where to look; your working directory if left out")


class GrepInput(ToolInput):
    """Input of Grep."""

    pattern: str = Field(description="A regular expression")
    path: str | None = Field(None, description="File or directory; your working directory if not")
    glob: str | None = Field(None, description="Only files like this, for example *.py")
    output_mode: Literal["content", "files_with_matches", "count"] = Field(
        "files_with_matches", description="Matching lines, names of files, or numbers of lines"
    )
    ignore_case: bool = Field(False, alias="-i", description="Upper and lower case are the same")
    numbers: bool = Field(True, alias="-n", description="Show line numbers with content")
    after: int | None = Field(None, alias="-A", ge=0, description="Lines to show after a match")
    before: int | None = Field(None, alias="-B", ge=0, description="Lines to show before a match")
    around: int | None = Field(None, alias="-C", ge=0, description="Lines to show on both sides")
    head_limit: int = Field(
        GREP_ROWS, ge=0, description="Show only so many lines or entries; 0 is all"
    )
    multiline: bool = Field(False, description="A match may span lines, and . matches newlines")


async def _glob(given: GlobInput, desk: Desk) -> str:
    start, pattern = _split(given.pattern)
    root = absolute(os.path.join(given.path or ".", start), desk.spec.cwd)
    stop = threading.Event()
    try:
        # Left behind when cancelled; the flag ends it soon.
        return await to_thread.run_sync(
            _glob_now, root, pattern, desk, stop, abandon_on_cancel=True
        )
    finally:
        stop.set()


def _split(pattern: str) -> tuple[str, str]:
    """The directory that a pattern surely lies in, and the rest of it."""
    if not pattern.strip():
        raise Invalid("The pattern is empty.", remedy="All files are '**/*'.")
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not _MAGIC.search(parts[plain]):
        plain += 1
    start = "/".join(parts[:plain])
    return (start or "/" if pattern.startswith("/") else start or "."), "/".join(parts[plain:])


def _glob_now(root: str, pattern: str, desk: Desk, stop: threading.Event) -> str:
    if not os.path.isdir(root):
        raise _no_place(root)
    deadline = time.monotonic() + GLOB_S
    wanted = looking.path_pattern(pattern)
    late = False

    def stopped() -> bool:
        nonlocal late
        late = time.monotonic() > deadline
        return late or stop.is_set()

    try:
        found = sorted(
            (looking.newest_first(entry.path), entry.path)
            for entry in looking.walk(root, stopped)
            if wanted.match(looking.inside(entry.path, root))
        )
    except OSError as error:
        raise Unavailable(
            f"Cannot look into {root!r}: {error.strerror}.", remedy="Check its permissions."
        ) from error
    rows: list[str] = []
    hidden = 0
    for _, path in found:
        if len(rows) == GLOB_FILES_MAX:
            break
        if desk.hides(path):
            hidden += 1
        else:
            rows.append(looking.shown_path(path, desk.spec.cwd))
    if len(found) > len(rows) + hidden:
        rows.append(f"[Only the newest {len(rows)} of {len(found)} files are shown.]")
    if late:
        rows.append(f"[Not all was looked at within {GLOB_S:g} seconds: give a smaller path.]")
    return ("\n".join(rows) or "No files found") + _left_out(hidden)


def _no_place(path: str) -> NotFound:
    return NotFound(
        f"There is no directory {path!r}." if not os.path.exists(path) else f"{path!r} is a file.",
        remedy="Give a directory that exists, or none for your working directory.",
    )


async def _grep(given: GrepInput, desk: Desk) -> str:
    path = absolute(given.path or ".", desk.spec.cwd)
    if not await to_thread.run_sync(os.path.exists, path):
        raise NotFound(f"There is no {path!r}.", remedy="Use Glob to find what there is.")
    if not given.multiline and _NEWLINE.search(given.pattern):
        raise Invalid("The pattern has a newline in it.", remedy="Set multiline to true.")
    both = given.around or 0
    request: looking.Request = {
        "pattern": given.pattern,
        "path": path,
        "cwd": desk.spec.cwd,
        "glob": given.glob,
        "mode": given.output_mode,
        "ignore_case": given.ignore_case,
        "numbers": given.numbers,
        "before": both if given.before is None else given.before,
        "after": both if given.after is None else given.after,
        "limit": given.head_limit,
        "multiline": given.multiline,
    }
    found = await _asked(request, desk)
    hidden = await to_thread.run_sync(_hidden, found, desk)
    if hidden and given.head_limit:
        # Some of what was asked for is not shown: look for what comes after it.
        found = await _asked({**request, "limit": 0}, desk)
        hidden = await to_thread.run_sync(_hidden, found, desk)
    rows = [row for path, rows in found if path not in hidden for row in rows]
    return looking.bounded(rows, given.head_limit) + _left_out(len(hidden))


def _hidden(found: looking.Rows, desk: Desk) -> set[str]:
    return {path for path, _ in found if desk.hides(path)}


def _left_out(count: int) -> str:
    if not count:
        return ""
    files = "1 file" if count == 1 else f"{count} files"
    return f"\n[{files} that you may not read left out.]"


async def _asked(request: looking.Request, desk: Desk) -> looking.Rows:
    """Look in a process of its own: a pattern that takes for ever must not stop this one."""
    argv = [sys.executable, "-I", "-S", looking.__file__, json.dumps(request)]
    printed = bytearray()
    code: int | None = None
    async with started(argv, desk, printed.extend, ours=True) as running:
        with anyio.move_on_after(GREP_S):
            code = await running.finished()
        if code is None:
            await running.end(0)
    if code is None:
        raise Unavailable(
            f"The search took longer than {GREP_S:g} seconds.",
            remedy="Give a simpler pattern, a smaller path or a glob.",
        )
    if code != 0:
        said = printed.decode("utf-8", "replace").strip()[-400:]
        raise Unavailable(f"The search broke off: {said}", remedy="Try grep with Bash.")
    answer = json.loads(printed)
    if "error" in answer:
        raise Invalid(
            f"The pattern {request['pattern']!r} is no regular expression: {answer['error']}.",
            remedy="Escape what is meant literally with a backslash.",
        )
    return [(path, rows) for path, rows in answer["found"]]


SEARCH_TOOLS: tuple[Tool, ...] = (
    Tool(
        "Glob",
        "Find files by a pattern of their paths, newest first. ** stands for any directories.",
        GlobInput,
        "read",
        _glob,
    ),
    Tool(
        "Grep",
        "Look in files for a regular expression. In a git tree, ignored files are left out unless "
        "you give their path.",
        GrepInput,
        "read",
        _grep,
    ),
)
