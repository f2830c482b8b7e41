"""Looking for what proves a task done: each kind of check, and what it finds.

Whatever has to be run is run as the commands of the agent are: in its directory, with its
environment, in its sandbox. A check that cannot be made has failed.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import anyio
from anyio import to_thread

from bullpen.agents.tools.commands import Workplace, shell, started
from bullpen.errors import BullpenError
from bullpen.protocol.task import Check, Task
from bullpen.store.clock import now_ms

TIMEOUT_S = 600.0
"""How long a check may take that says nothing about it."""

DETAIL_CHARS_MAX = 4_000
"""So much is kept of what a check found: the end of it."""

_GIT_S = 60.0
_GRACE_S = 1.0
_TAIL_BYTES = 64 * 1024
_MATCHES_MAX = 10_000
_IDS_MAX = 20
_OBJECT_ID = re.compile(r"\b[0-9a-f]{40,64}\b")
_COMMIT_ID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{7,40}(?![0-9A-Za-z])")


@dataclass(frozen=True, slots=True)
class _Found:
    """What a check came to, in words."""

    passed: bool
    words: str


class _Tail:
    """The end of what a command prints; of the rest only how long it was."""

    def __init__(self) -> None:
        self._kept = b""
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > 2 * _TAIL_BYTES:
            self._left_out += len(self._kept) - _TAIL_BYTES
            self._kept = self._kept[-_TAIL_BYTES:]

    def text(self) -> str:
        text = self._kept.decode("utf-8", "replace").rstrip()
        return f"[... {self._left_out} bytes before this ...]\n{text}" if self._left_out else text


async def look(
    place: Workplace,
    task: Task,
    check: Check,
    *,
    report: str | None,
    redact: Callable[[str], str],
) -> Check:
    """The check with what it finds now. Cancelling it ends at once whatever it runs."""
    try:
        found = await _looked(place, task, check, report)
    except (BullpenError, OSError, ValueError) as error:
        found = _Found(False, str(error))
    # Names of files can hold what no record can.
    words = found.words.encode("utf-8", "replace").decode("utf-8")
    # Redacted before it is cut: half a secret would not be known for one.
    return check.evolve(passed=found.passed, detail=_end(redact(words)), at_ms=now_ms())


def _end(text: str) -> str:
    if len(text) <= DETAIL_CHARS_MAX:
        return text
    # The first line says how it ended; the end of the output says why.
    first, _, rest = text.partition("\n")
    kept = rest[-(DETAIL_CHARS_MAX - len(first[:200]) - 8) :]
    return f"{first[:200]}\n[...]\n{kept}"


async def _looked(place: Workplace, task: Task, check: Check, report: str | None) -> _Found:
    match check.kind:
        case "command":
            return await _command(place, check)
        case "file":
            return await _file(place, check)
        case "commit":
            return await _commit(place, task, check, report)
        case "report":
            given = bool((report or "").strip())
            return _Found(given, "it was given" if given else "no report was given")


async def _command(place: Workplace, check: Check) -> _Found:
    if not (check.run or "").strip():
        return _Found(False, "it does not say what to run")
    limit_s = check.timeout_s or TIMEOUT_S
    code, text = await _run(place, shell(check.run or ""), limit_s)
    if code is None:
        how = f"it took longer than {limit_s:g} s and was ended"
    elif code < 0:
        how = f"it was ended by signal {-code}"
    else:
        how = f"exit code {code}"
    return _Found(code == 0, f"{how}\n{text}".rstrip())


async def _run(place: Workplace, argv: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """How a command ended and the end of what it printed; None if it had to be ended."""
    tail = _Tail()
    code: int | None = None
    async with started(argv, place, tail.add) as running:
        with anyio.move_on_after(limit_s):
            code = await running.finished()
        # What it left in the background goes too: nobody would ever end it.
        await running.end(_GRACE_S)
    return code, tail.text()


async def _file(place: Workplace, check: Check) -> _Found:
    path = check.path or ""
    if not path.strip() or "\0" in path:
        return _Found(False, "it does not say which file")
    with anyio.move_on_after(check.timeout_s or TIMEOUT_S):
        return await to_thread.run_sync(_file_found, place.spec.cwd, path, abandon_on_cancel=True)
    return _Found(False, "looking for it took too long")


def _file_found(cwd: str, path: str) -> _Found:
    """Whether something that is not empty has that name or fits that pattern."""
    root = os.path.realpath(cwd)
    if not os.path.isdir(root):
        return _Found(False, f"there is no directory {cwd}")
    # A name may hold what looks like a pattern.
    if os.path.lexists(os.path.join(root, path)):
        names = [path]
    else:
        matches = glob.iglob(path, root_dir=root, recursive=True, include_hidden=True)
        names = list(islice(matches, _MATCHES_MAX))
    problems = []
    for name in names:
        problem = _problem(root, name, anywhere=os.path.isabs(path))
        if problem is None:
            return _Found(True, f"{name} is there")
        problems.append(problem)
    return _Found(False, problems[0] if problems else f"there is no {path} in {cwd}")


def _problem(root: str, name: str, *, anywhere: bool) -> str | None:
    """What is wrong with a file that was found."""
    real = os.path.realpath(os.path.join(root, name))
    if not anywhere and os.path.commonpath([root, real]) != root:
        return f"{name} lies outside the project, at {real}"
    try:
        if os.path.isdir(real):
            return None if os.listdir(real) else f"{name} is an empty directory"
        if not os.path.isfile(real):
            return f"{name} is there, but is no file"
        return None if os.path.getsize(real) else f"{name} is empty"
    except OSError as error:
        return f"{name} cannot be looked at: {error.strerror}"


async def _commit(place: Workplace, task: Task, check: Check, report: str | None) -> _Found:
    """Whether a commit that the check or the report names is on a branch, and of this attempt."""
    code, said = await _git(place, "rev-parse", "--git-dir")
    if code != 0:
        return _Found(False, f"{place.spec.cwd} is no git repository\n{said}".rstrip())
    if check.ref is not None:
        return await _commit_found(place, task, check.ref, asked_for=True)
    named = list(dict.fromkeys(_COMMIT_ID.findall((report or "").lower())))
    if not named:
        return _Found(False, "the report names no commit: give its id there")
    found = [await _commit_found(place, task, each) for each in named[:_IDS_MAX]]
    return next((each for each in found if each.passed), found[0])


async def _commit_found(
    place: Workplace, task: Task, ref: str, *, asked_for: bool = False
) -> _Found:
    wanted = f"{ref}^{{commit}}"
    code, said = await _git(place, "rev-parse", "--verify", "--end-of-options", wanted)
    commit = _OBJECT_ID.search(said)
    if code != 0 or commit is None:
        return _Found(False, f"there is no commit {ref}")
    short = commit[0][:12]
    if not await _on_a_branch(place, commit[0]):
        return _Found(False, f"commit {short} is on no branch")
    claimed_ms = task.facts.claimed_ms
    if claimed_ms is None or (asked_for and commit[0].startswith(ref.lower())):
        # Nobody claimed it, or it is this very commit that is asked for, whenever it was made.
        return _Found(True, f"commit {short} is there")
    code, said = await _git(place, "rev-list", "--max-count=1", "--timestamp", commit[0])
    made = re.search(rf"^(\d+) {commit[0]}$", said, re.MULTILINE)
    # Git knows whole seconds only.
    if code != 0 or made is None or int(made[1]) < claimed_ms // 1000:
        return _Found(False, f"commit {short} was made before the task was claimed")
    return _Found(True, f"commit {short} was made in this attempt")


async def _on_a_branch(place: Workplace, commit: str) -> bool:
    """Whether a commit is on what is checked out, which may be no branch, or on any branch."""
    if (await _git(place, "merge-base", "--is-ancestor", commit, "HEAD"))[0] == 0:
        return True
    heads = ("refs/heads", "refs/remotes")
    code, found = await _git(place, "for-each-ref", "--count=1", f"--contains={commit}", *heads)
    return code == 0 and bool(found)


async def _git(place: Workplace, *words: str) -> tuple[int | None, str]:
    # Only commands that run nothing of what a repository's settings name.
    code, text = await _run(place, ["git", "--no-pager", *words], _GIT_S)
    return code, text.strip()
