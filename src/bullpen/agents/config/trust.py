"""The files of projects that a person trusts: they may allow things and run commands.

Trust is of content, by SHA-256. A file that is new, or that changed since a person trusted its
project, is not trusted until they trust the project again. A removed file needs nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bullpen.agents.config.settings import FileSettings, read_settings
from bullpen.agents.config.trust_scope import ProjectFile, files_to_trust
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.agents.system.project_files import file_digest, up_to_git_root
from bullpen.errors import NotFound, Refused, Unreadable
from bullpen.protocol import json_text

NAME = "trusted.json"

_IGNORE = "ignore them with --no-project-settings"

State = Literal["trusted", "untrusted", "new", "changed", "link", "outdated"]

_WHY: Mapping[State, str] = {
    "new": "new",
    "changed": "changed",
    "link": "a link to outside the project, which trust cannot cover",
}


@dataclass(slots=True)
class TrustRecord:
    """The digests of the files of each trusted directory, by real path."""

    projects: dict[str, dict[str, str]] = field(default_factory=dict)
    # Directories that were trusted before digests were recorded. They are not trusted any more.
    outdated: list[str] = field(default_factory=list)

    def state(self, file: ProjectFile) -> State:
        """Whether a file is trusted, and else why not. Raises Unreadable."""
        above = up_to_git_root(file[1])
        path = _place(file)
        if _leaves(path, above[-1]):
            return "link"
        known = [self.projects[str(each)] for each in above if str(each) in self.projects]
        if not known:
            return "outdated" if any(str(each) in self.outdated for each in above) else "untrusted"
        digests = {each[str(path)] for each in known if str(path) in each}
        if not digests:
            return "new"
        return "trusted" if _digest(file) in digests else "changed"


def read_trust(home: Path) -> TrustRecord:
    """What is trusted. Raises Unreadable."""
    path = home / NAME
    try:
        told = json_text.loads(path.read_bytes())
    except FileNotFoundError:
        return TrustRecord()
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    told = told if isinstance(told, dict) else {}
    outdated, projects = told.get("directories"), told.get("projects", {})
    if not isinstance(outdated, list) or not _are_texts(outdated):
        raise _unreadable(path, "it is not a list of directories")
    if not isinstance(projects, dict) or not all(map(_are_digests, projects.values())):
        raise _unreadable(path, "its projects are not lists of files with digests")
    return TrustRecord(projects, [each for each in outdated if each not in projects])


def trusted(home: Path) -> list[str]:
    """The real paths of the trusted directories. Raises Unreadable."""
    return list(read_trust(home).projects)


@dataclass(frozen=True, slots=True)
class NewTrust:
    """What trusting a project did: the files it covers now, each with its state before."""

    directory: Path
    covered: Mapping[Path, State]
    removed: list[Path]


def trust(home: Path, directory: Path, read: Iterable[ProjectFile] = ()) -> NewTrust:
    """Trust the files of a project as they are now.

    `read` are those that have been read, with the digests of what was read. Links to outside the
    project are not covered. Raises NotFound and Unreadable.
    """
    real = directory.resolve()
    if not real.is_dir():
        raise NotFound(f"There is no directory {directory}.", remedy="Name an existing directory.")
    known = {_place(each): each for each in read}
    files = [known.get(_place(each), each) for each in files_to_trust(real)]
    with _changing(home) as record:
        states = {_place(each): record.state(each) for each in files}
        covered = {path: state for path, state in states.items() if state != "link"}
        gone = set(map(Path, record.projects.get(str(real), {}))) - set(states)
        record.projects[str(real)] = {
            str(_place(each)): _digest(each) for each in files if _place(each) in covered
        }
        record.outdated = [each for each in record.outdated if each != str(real)]
    return NewTrust(real, covered, sorted(gone))


def distrust(home: Path, directory: Path) -> bool:
    """Stop trusting a project. False if it was not trusted."""
    real = str(directory.resolve())
    with _changing(home) as record:
        known = record.projects.pop(real, None) is not None or real in record.outdated
        record.outdated = [each for each in record.outdated if each != real]
    return known


def refuse_untrusted(
    files: Iterable[ProjectFile], home: Path, cwd: Path, *, otherwise: str = _IGNORE
) -> None:
    """Refuse files that a person has not trusted as they are. Raises Refused and Unreadable.

    `otherwise` is what can be done instead of trusting them.

    Each file is given with the folder of its project, and with the digest of its bytes if they have
    been read. A file that does not exist is refused too: say which files there are.
    """
    wanted = [_from(cwd, each) for each in files]
    if not wanted:
        return
    record = read_trust(home)
    untrusted = [(each, state) for each in wanted if (state := record.state(each)) != "trusted"]
    if untrusted:
        roots = sorted({str(up_to_git_root(each[1])[-1]) for each, _ in untrusted})
        remedy = "; ".join(f"bullpen trust {shlex.quote(root)}" for root in roots)
        remedy = f"Read them, then run: {remedy}"
        if all(state == "link" for _, state in untrusted):
            remedy = "Replace the links with the files themselves"
        raise Refused(
            _sentence(", ".join(roots), [(each[0], state) for each, state in untrusted]),
            reason="not_trusted",
            remedy=f"{remedy} - or {otherwise}.",
        )


def hooks_of_people(cwd: Path, *, user_home: Path, home: Path) -> HookSet:
    """The hooks for people's own actions: theirs, and those of trusted projects.

    An untrusted project has no hooks. A trusted one whose files changed since is refused: its hooks
    may be there to refuse things. Raises Refused, Unreadable and Invalid.
    """
    record = read_trust(home)
    found = read_settings(cwd, user_home=user_home, home=home)
    counting, changed = [], []
    for each in found.files:
        state = "trusted" if each.folder is None else record.state(each.as_project_file)
        if state == "trusted":
            counting.append(each)
        elif state != "untrusted" and each.hooks:
            changed.append(each.as_project_file)
    refuse_untrusted(changed, home, cwd)
    return HookSet.of(FileSettings(tuple(counting)).hooks)


def refuse_answers(home: Path, file: str, data: bytes) -> str | None:
    """Why a project's policy file does not answer: it changed since a person trusted it.

    A file that a person named is theirs. Raises Unreadable.
    """
    path = Path(file)
    if path.parent.name != ".bullpen" or path.parent.resolve() == home.resolve():
        return None
    digest = hashlib.sha256(data).hexdigest()
    if read_trust(home).state((path, path.parent.parent, digest)) in ("trusted", "untrusted"):
        return None
    root = shlex.quote(str(up_to_git_root(path.parent.parent)[-1]))
    return f"the policy file {file} changed since it was trusted (bullpen trust {root})"


def _sentence(root: str, untrusted: Sequence[tuple[Path, State]]) -> str:
    """What is not trusted, and why."""
    states = {state for _, state in untrusted}
    named = ", ".join(
        f"{path} ({_WHY[state]})" if state in _WHY else str(path) for path, state in untrusted
    )
    if "outdated" in states:
        return (
            f"Project {root} was trusted by an older version of Bullpen, which did not record what"
            f" its files said. They allow things or run commands: {named}."
        )
    if states <= {"new", "changed"}:
        return f"Files that allow things or run commands changed since you trusted {root}: {named}."
    return f"Project {root} is not trusted, and its files allow things or run commands: {named}."


def _from(cwd: Path, file: ProjectFile) -> ProjectFile:
    """A file whose path is relative to the directory, with its full path."""
    path, folder = cwd / file[0], cwd / file[1]
    return (path, folder) if len(file) == 2 else (path, folder, file[2])


def _place(file: ProjectFile) -> Path:
    """The path of a file from its real project folder. Links below that folder stay in it."""
    path, folder = file[0], file[1]
    if path.is_relative_to(folder):
        return Path(os.path.normpath(folder.resolve() / path.relative_to(folder)))
    return path.parent.resolve() / path.name


def _leaves(path: Path, root: Path) -> bool:
    """Whether a file of a project is in truth outside of it, by a link."""
    return path.is_relative_to(root) and not path.resolve().is_relative_to(root)


def _digest(file: ProjectFile) -> str:
    if len(file) == 3:
        return file[2]
    return file_digest(file[0])


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(each, str) for each in values)


def _are_digests(value: Any) -> bool:
    return isinstance(value, dict) and _are_texts(list(value.values()))


@contextmanager
def _changing(home: Path) -> Iterator[TrustRecord]:
    """The record, to be changed under a lock. It is written completely or not at all."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(home / f"{NAME}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before, record = read_trust(home), read_trust(home)
        yield record
        if record != before:
            told = {"directories": record.outdated, "projects": record.projects}
            _write(home / NAME, told)
    finally:
        os.close(lock)


def _write(path: Path, value: Any) -> None:
    beside = path.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(json_text.dumps(value))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _unreadable(path: Path, why: str) -> Unreadable:
    return Unreadable(str(path), why, remedy="Fix it, or remove it and trust your projects again.")
