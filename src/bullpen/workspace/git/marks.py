"""Records of who owns a worktree: a mark in its git dir, a claim on its branch, and locks.

None of them is trusted blindly, because an agent can write there. They name owners and remaining
steps, never a command or a path to remove.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from bullpen.errors import Refused, Unavailable, Unreadable
from bullpen.protocol.agent import WorkspaceKind
from bullpen.protocol.record import Wire, field
from bullpen.workspace.git.ref_names import component

MARK = "bullpen.json"
LOCK_S = 60.0
"""How long another process may use a worktree or a repository before that is an error."""

Work = Literal["files", "restore", "modules", "hook", "setup"]
"""The steps that make a worktree ready. `restore` brings back files that the index still names."""

R = TypeVar("R", bound=Wire)
_LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True)
class Who:
    """Who owns a worktree. `owner` names the home and the team."""

    owner: str
    team: str
    agent: str


class _Owned(Wire):
    owner: str
    team: str
    agent: str

    @property
    def who(self) -> Who:
        """Return who owns it."""
        return Who(self.owner, self.team, self.agent)


class TreeMark(_Owned):
    """The mark in the git dir of an agent's worktree."""

    kind: WorkspaceKind
    # Its block of ports: see `slots`.
    slot: int | None = None
    # What remains to be done before anybody may work here.
    todo: list[Work] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Return whether somebody may work here, or already has."""
        return not self.todo


class BranchClaim(_Owned):
    """Records that a branch is Bullpen's. Written before the worktree exists, and outlives it."""

    path: str
    branch: str
    # The commit that the branch was created at, unless it existed before.
    start: str | None = None
    # Whether a worktree on it was ever ready, so that somebody may have worked there.
    worked: bool = False


def mark_in(git_directory: Path) -> TreeMark | None:
    """Return the mark in a git dir; None if there is none. Raises Unreadable."""
    return _read(git_directory / MARK, TreeMark)


def put_mark(git_directory: Path, mark: TreeMark) -> TreeMark:
    """Write a mark completely or not at all, and return it."""
    write_whole(git_directory / MARK, mark.dump())
    return mark


def claim_file(common: Path, team: str, agent: str) -> Path:
    """Return where the claim of an agent is."""
    return common / "bullpen" / component(team) / f"{component(agent)}.json"


def claim_of(common: Path, team: str, agent: str) -> BranchClaim | None:
    """Return the claim on an agent's branch; None if there is none. Raises Unreadable."""
    return _read(claim_file(common, team, agent), BranchClaim)


def put_claim(common: Path, claim: BranchClaim) -> None:
    """Write a claim completely or not at all."""
    file = claim_file(common, claim.team, claim.agent)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, claim.dump())


def drop_claim(common: Path, team: str, agent: str) -> None:
    """Remove a claim: branch and worktree are gone."""
    file = claim_file(common, team, agent)
    with suppress(FileNotFoundError):
        file.unlink()
    with suppress(OSError):
        file.parent.rmdir()


def refuse_others(found: Who, who: Who, what: str) -> None:
    """Refuse what belongs to somebody else (tree_taken)."""
    if found != who:
        raise Refused(
            f"{what} belongs to agent {found.agent} of team {found.team} ({found.owner}).",
            reason="tree_taken",
            remedy="Choose another name or root, or let its owner remove that worktree.",
        )


@contextmanager
def locked(file: Path, what: str, *, wait_s: float = LOCK_S) -> Iterator[int]:
    """Hold a lock; yields its descriptor. A process that inherits it also holds the lock.

    Raises:
        Unavailable: another process held it until the deadline, or it cannot be created.
    """
    deadline = time.monotonic() + wait_s
    with write_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not _taken(held):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Another process has been using {what} for {wait_s:g} s.",
                    remedy="Wait until it is done, then try again.",
                )
            time.sleep(_LOOK_EVERY_S)
        yield held
    finally:
        os.close(held)


@contextmanager
def write_errors(file: Path) -> Iterator[None]:
    """Turn an OSError into Unavailable: this file cannot be written."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"{file} cannot be written: {error.strerror or error}.",
            remedy="Free some space or allow writing there. Worktrees can have another root.",
        ) from None


@contextmanager
def read_errors(path: Path | str) -> Iterator[None]:
    """Turn an OSError into Unavailable: this path cannot be read."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be read: {error.strerror or error}.",
            remedy="Nothing was changed. Check its permissions, then try again.",
        ) from None


def write_whole(file: Path, data: bytes) -> None:
    """Write a file so that it has either its old or its new content. Raises Unavailable."""
    with write_errors(file):
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(name, file)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise


def _taken(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: Path, kind: type[R]) -> R | None:
    try:
        return kind.parse(json.loads(file.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        remedy = "Keep what you need from that worktree, then delete this file."
        raise Unreadable(str(file), str(error), remedy=remedy) from None
