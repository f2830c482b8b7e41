"""Tools that find files and search in them."""

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

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.system.run_command import started
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files import search_worker
from bullpen.agents.tools.files.safe_open import absolute
from bullpen.errors import Invalid, NotFound, Unavailable
from bullpen.workspace.git.run_git import git_that_reads

GLOB_FILES_MAX = 100
GLOB_S = 20.0
GREP_S = 30.0
GREP_ROWS = 250

_MAGIC = re.compile(r"[*?\[{]")
_NEWLINE = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")


class GlobInput(ToolInput):
    """Input of Glob."""

    pattern: str = Field(description="Such as **/*.py or src/**/*.{ts,tsx}")
    path: str | None = Field(None, description="Directory; default: your working directory")


class GrepInput(ToolInput):
    """Input of Grep."""

    pattern: str = Field(description="A regular expression")
    path: str | None = Field(None, description="File or directory; default: as for Glob")
    glob: str | None = Field(None, description="Only files that match this, such as *.py")
    output_mode: Literal["content", "files_with_matches", "count"] = Field(
        "files_with_matches", description="Default: files_with_matches"
    )
    ignore_case: bool = Field(False, alias="-i", description="Ignore case")
    numbers: bool = Field(True, alias="-n", description="Line numbers, with content; default: true")
    after: int | None = Field(None, alias="-A", ge=0, description="Lines after a match")
    before: int | None = Field(None, alias="-B", ge=0, description="Lines before a match")
    around: int | None = Field(None, alias="-C", ge=0, description="Lines around a match")
    head_limit: int = Field(
        GREP_ROWS, ge=0, description=f"Most lines; default: {GREP_ROWS}; 0: all"
    )
    multiline: bool = Field(False, description="Matches may span lines; . matches newlines")


async def _glob(given: GlobInput, desk: Desk) -> str:
    """Find files by a path pattern, newest first."""
    start, pattern = _split(given.pattern)
    root = absolute(os.path.join(given.path or ".", start), desk.spec.cwd)
    stop = threading.Event()
    try:
        # Abandoned when cancelled; the flag makes the thread stop soon.
        return await to_thread.run_sync(
            _glob_now, root, pattern, desk, stop, abandon_on_cancel=True
        )
    finally:
        stop.set()


def _split(pattern: str) -> tuple[str, str]:
    """The fixed directory at the start of a pattern, and the rest of it."""
    if not pattern.strip():
        raise Invalid("The pattern is empty.", remedy="Use '**/*' for all files.")
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not _MAGIC.search(parts[plain]):
        plain += 1
    start = "/".join(parts[:plain])
    return (start or "/" if pattern.startswith("/") else start or "."), "/".join(parts[plain:])


def _glob_now(root: str, pattern: str, desk: Desk, stop: threading.Event) -> str:
    if not os.path.isdir(root):
        raise NotFound(
            f"{root!r} is a file." if os.path.exists(root) else f"There is no directory {root!r}.",
            remedy="Give an existing directory, or leave it out for your working directory.",
        )
    deadline = time.monotonic() + GLOB_S
    wanted = search_worker.path_pattern(pattern)
    late = False

    def stopped() -> bool:
        nonlocal late
        late = time.monotonic() > deadline
        return late or stop.is_set()

    try:
        found = sorted(
            (search_worker.newest_first(entry.path), entry.path)
            for entry in search_worker.walk(root, stopped)
            if wanted.match(search_worker.inside(entry.path, root))
        )
    except OSError as error:
        raise Unavailable(
            f"Cannot read {root!r}: {error.strerror}.", remedy="Check its permissions."
        ) from error
    rows: list[str] = []
    hidden = 0
    for _, path in found:
        if len(rows) == GLOB_FILES_MAX:
            break
        if desk.hides(path):
            hidden += 1
        else:
            rows.append(search_worker.shown_path(path, desk.spec.cwd))
    if len(found) > len(rows) + hidden:
        rows.append(f"[Only the newest {len(rows)} of {len(found)} files are shown.]")
    if late:
        rows.append(f"[Stopped after {GLOB_S:g} seconds. Give a smaller path.]")
    return ("\n".join(rows) or "No files found") + _left_out(hidden)


async def _grep(given: GrepInput, desk: Desk) -> str:
    """Search files. Those that git ignores are skipped unless you give their path."""
    path = absolute(given.path or ".", desk.spec.cwd)
    if not await to_thread.run_sync(os.path.exists, path):
        raise NotFound(f"There is no file or directory {path!r}.", remedy="Use Glob to find files.")
    if not given.multiline and _NEWLINE.search(given.pattern):
        raise Invalid("The pattern contains a newline.", remedy="Set multiline to true.")
    both = given.around or 0
    request: search_worker.Request = {
        **given.model_dump(include={"pattern", "glob", "ignore_case", "numbers", "multiline"}),
        "git": git_that_reads(),
        "path": path,
        "cwd": desk.spec.cwd,
        "mode": given.output_mode,
        "before": both if given.before is None else given.before,
        "after": both if given.after is None else given.after,
        "limit": given.head_limit,
    }
    found = await _asked(request, desk)
    hidden = await to_thread.run_sync(_hidden, found, desk)
    if hidden and given.head_limit:
        # Some results are not shown: search again for those that come after them.
        found = await _asked({**request, "limit": 0}, desk)
        hidden = await to_thread.run_sync(_hidden, found, desk)
    rows = [row for path, rows in found if path not in hidden for row in rows]
    return search_worker.bounded(rows, given.head_limit) + _left_out(len(hidden))


def _hidden(found: search_worker.Rows, desk: Desk) -> set[str]:
    return {path for path, _ in found if desk.hides(path)}


def _left_out(count: int) -> str:
    if not count:
        return ""
    files = "1 file" if count == 1 else f"{count} files"
    return f"\n[Left out {files} that you may not read.]"


async def _asked(request: search_worker.Request, desk: Desk) -> search_worker.Rows:
    """Search in a separate process: a pattern that never ends must not block this one."""
    argv = [sys.executable, "-I", "-S", search_worker.__file__, json.dumps(request)]
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
        raise Unavailable(f"The search crashed: {said}", remedy="Try grep with Bash.")
    answer = json.loads(printed)
    if "error" in answer:
        raise Invalid(
            f"{request['pattern']!r} is not a valid regular expression: {answer['error']}.",
            remedy="Escape literal characters with a backslash.",
        )
    return [(path, rows) for path, rows in answer["found"]]


SEARCH_TOOLS: tuple[Tool[Desk], ...] = (
    documented("Glob", GlobInput, "read", _glob),
    documented("Grep", GrepInput, "read", _grep),
)
