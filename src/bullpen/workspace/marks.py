"""What says whose a tree is: a mark in its git directory, a claim on its branch, and locks.

None of it is obeyed blindly, since whoever works in a tree may write there: it names owners and
what is left to do, never a command or a path to remove.
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

from pydantic import Field

from bullpen.errors import Refused, Unavailable, Unreadable
from bullpen.protocol.wire import Wire
from bullpen.protocol.workspace import WorkspaceKind
from bullpen.workspace.names import component

MARK = "bullpen.json"
LOCK_S = 60.0
"""How long somebody else may be busy with a tree or a repository before that is an error."""

Work = Literal["files", "restore", "modules", "hook", "setup"]
"""What makes a tree ready, step by step. `restore` brings files back that the index still names."""

R = TypeVar("R", bound=Wire)
_LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True)
class Who:
    """Whom a tree belongs to. `owner` names the home and the team."""

    owner: str
    team: str
    agent: str


class Mark(Wire):
    """What lies in the git directory of a tree of ours."""

    owner: str
    team: str
    agent: str
    kind: WorkspaceKind
    # Its block of ports: see `surroundings`.
    slot: int | None = None
    # What is left to do before anybody may work here.
    todo: list[Work] = Field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether somebody may work here, or already has."""
        return not self.todo

    @property
    def who(self) -> Who:
        """Whom the tree belongs to."""
        return Who(self.owner, self.team, self.agent)


class Claim(Wire):
    """What says that a branch is ours. It outlives the tree, and is there before it."""

    owner: str
    team: str
    agent: str
    path: str
    branch: str
    # The commit that the branch was made at, unless it was there before.
    start: str | None = None
    # Whether a tree on it was once ready, so that somebody may have worked there.
    worked: bool = False

    @property
    def who(self) -> Who:
        """Whom the branch belongs to."""
        return Who(self.owner, self.team, self.agent)


def mark_in(git_directory: Path) -> Mark | None:
    """The mark in a git directory; None if there is none.

    Raises:
        Unreadable: there is one that cannot be read.
    """
    return _read(git_directory / MARK, Mark)


def put_mark(git_directory: Path, mark: Mark) -> Mark:
    """Write a mark, whole or not at all; the mark."""
    write_whole(git_directory / MARK, mark.dump())
    return mark


def claim_file(common: Path, team: str, agent: str) -> Path:
    """Where the claim of an agent lies."""
    return common / "bullpen" / component(team) / f"{component(agent)}.json"


def claim_of(common: Path, team: str, agent: str) -> Claim | None:
    """The claim on an agent's branch; None if nobody made one.

    Raises:
        Unreadable: there is one that cannot be read.
    """
    return _read(claim_file(common, team, agent), Claim)


def put_claim(common: Path, claim: Claim) -> None:
    """Write a claim, whole or not at all."""
    file = claim_file(common, claim.team, claim.agent)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, claim.dump())


def drop_claim(common: Path, team: str, agent: str) -> None:
    """Remove a claim: branch and tree are gone."""
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
            remedy="Choose another name or root, or let its owner remove that tree.",
        )


@contextmanager
def locked(file: Path, what: str, *, wait_s: float = LOCK_S) -> Iterator[int]:
    """Hold a lock; yields its descriptor. Whoever inherits that holds the lock with us.

    Raises:
        Unavailable: somebody else held it all the while, or there can be no lock there.
    """
    deadline = time.monotonic() + wait_s
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise cannot_write(file, error) from None
    try:
        while not _taken(held):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Another process was busy with {what} for {wait_s:g} s.",
                    remedy="Wait until it is done, then try again.",
                )
            time.sleep(_LOOK_EVERY_S)
        yield held
    finally:
        os.close(held)


def cannot_write(file: Path, error: OSError) -> Unavailable:
    """What to say if nothing can be written somewhere."""
    return Unavailable(
        f"Nothing can be written at {file}: {error.strerror or error}.",
        remedy="Make room or give leave to write there, or choose another root for the trees.",
    )


def write_whole(file: Path, data: bytes) -> None:
    """Write a file so that it has its old content or its new one, whatever happens.

    Raises:
        Unavailable: it cannot be written.
    """
    try:
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
    except OSError as error:
        raise cannot_write(file, error) from None


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
        remedy = "See what is in that tree and keep what you need, then remove this file."
        raise Unreadable(str(file), str(error), remedy=remedy) from None
