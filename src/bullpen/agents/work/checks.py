"""Run the checks of a task.

Commands run as the agent's own commands do: in its directory, with its environment, in its sandbox.
A check that cannot be run has failed.
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

from bullpen.agents.system.run_command import Workplace, shell, started
from bullpen.errors import BullpenError
from bullpen.protocol.clock import now_ms
from bullpen.protocol.task import Check, Task
from bullpen.workspace.git.run_git import git_that_reads

TIMEOUT_S = 600.0
"""The timeout of a check that does not set one."""

DETAIL_CHARS_MAX = 4_000
"""How many characters of a result are kept, from its end."""

_GIT_S = 60.0
_GRACE_S = 1.0
_TAIL_BYTES = 64 * 1024
_MATCHES_MAX = 10_000
_IDS_MAX = 20
_OBJECT_ID = re.compile(r"\b[0-9a-f]{40,64}\b")
_COMMIT_ID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{7,40}(?![0-9A-Za-z])")


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a check, in words."""

    passed: bool
    words: str


class _Tail:
    """The end of a command's output, and the number of bytes before it."""

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
        return (
            f"[... {self._left_out} earlier bytes skipped ...]\n{text}" if self._left_out else text
        )


async def look(
    place: Workplace,
    task: Task,
    check: Check,
    *,
    report: str | None,
    redact: Callable[[str], str],
) -> Check:
    """Run a check and return it with its result. Cancelling kills its command at once."""
    try:
        found = await _looked(place, task, check, report)
    except (BullpenError, OSError, ValueError) as error:
        found = _Found(False, str(error))
    # File names can contain characters that a record cannot.
    words = found.words.encode("utf-8", "replace").decode("utf-8")
    # Redacted before it is cut: half a secret would not be recognized.
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
            return _Found(given, "the report was given" if given else "no report was given")
        case "review":
            return _Found(False, "nobody could review the work here")


async def _command(place: Workplace, check: Check) -> _Found:
    if not (check.run or "").strip():
        return _Found(False, "the check has no command")
    limit_s = check.timeout_s or TIMEOUT_S
    code, text = await _run(place, shell(check.run or ""), limit_s)
    if code is None:
        how = f"it timed out after {limit_s:g} s and was killed"
    elif code < 0:
        how = f"it was killed by signal {-code}"
    else:
        how = f"exit code {code}"
    return _Found(code == 0, f"{how}\n{text}".rstrip())


async def _run(place: Workplace, argv: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """The exit code and the end of the output; the code is None after a timeout."""
    tail = _Tail()
    code: int | None = None
    async with started(argv, place, tail.add) as running:
        with anyio.move_on_after(limit_s):
            code = await running.finished()
        # Kill its background processes too: nothing else would.
        await running.end(_GRACE_S)
    return code, tail.text()


async def _file(place: Workplace, check: Check) -> _Found:
    path = check.path or ""
    if not path.strip() or "\0" in path:
        return _Found(False, "the check names no file")
    with anyio.move_on_after(check.timeout_s or TIMEOUT_S):
        return await to_thread.run_sync(_file_found, place.spec.cwd, path, abandon_on_cancel=True)
    return _Found(False, "the search for the file timed out")


def _file_found(cwd: str, path: str) -> _Found:
    """Whether a file with that name or pattern exists and is not empty."""
    root = os.path.realpath(cwd)
    if not os.path.isdir(root):
        return _Found(False, f"there is no directory {cwd}")
    # A file name may look like a pattern.
    if os.path.lexists(os.path.join(root, path)):
        names = [path]
    else:
        matches = glob.iglob(path, root_dir=root, recursive=True, include_hidden=True)
        names = list(islice(matches, _MATCHES_MAX))
    problems = []
    for name in names:
        problem = _problem(root, name, anywhere=os.path.isabs(path))
        if problem is None:
            return _Found(True, f"{name} exists")
        problems.append(problem)
    return _Found(False, problems[0] if problems else f"there is no {path} in {cwd}")


def _problem(root: str, name: str, *, anywhere: bool) -> str | None:
    """What is wrong with a matching file, or None."""
    real = os.path.realpath(os.path.join(root, name))
    if not anywhere and os.path.commonpath([root, real]) != root:
        return f"{name} is outside the project, at {real}"
    try:
        if os.path.isdir(real):
            return None if os.listdir(real) else f"{name} is an empty directory"
        if not os.path.isfile(real):
            return f"{name} exists, but is not a file"
        return None if os.path.getsize(real) else f"{name} is empty"
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"


async def _commit(place: Workplace, task: Task, check: Check, report: str | None) -> _Found:
    """Whether a commit named by the check or the report is on a branch and of this attempt."""
    code, said = await _git(place, "rev-parse", "--git-dir")
    if code != 0:
        return _Found(False, f"{place.spec.cwd} is not a git repository\n{said}".rstrip())
    if check.ref is not None:
        return await _commit_found(place, task, check.ref, asked_for=True)
    named = list(dict.fromkeys(_COMMIT_ID.findall((report or "").lower())))
    if not named:
        return _Found(False, "the report names no commit: put its id into the report")
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
        return _Found(False, f"commit {short} is not on any branch")
    claimed_ms = task.facts.claimed_ms
    if claimed_ms is None or (asked_for and commit[0].startswith(ref.lower())):
        # The task was never claimed, or the check names this very commit, whenever it was made.
        return _Found(True, f"commit {short} exists")
    code, said = await _git(place, "rev-list", "--max-count=1", "--timestamp", commit[0])
    made = re.search(rf"^(\d+) {commit[0]}$", said, re.MULTILINE)
    # Git stores whole seconds.
    if code != 0 or made is None or int(made[1]) < claimed_ms // 1000:
        return _Found(False, f"commit {short} was made before the task was claimed")
    return _Found(True, f"commit {short} was made in this attempt")


async def _on_a_branch(place: Workplace, commit: str) -> bool:
    """Whether a commit is on any branch, or on a detached HEAD."""
    if (await _git(place, "merge-base", "--is-ancestor", commit, "HEAD"))[0] == 0:
        return True
    heads = ("refs/heads", "refs/remotes")
    code, found = await _git(place, "for-each-ref", "--count=1", f"--contains={commit}", *heads)
    return code == 0 and bool(found)


async def _git(place: Workplace, *words: str) -> tuple[int | None, str]:
    code, text = await _run(place, [*git_that_reads(), *words], _GIT_S)
    return code, text.strip()
