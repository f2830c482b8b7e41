"""Running git: with a deadline, without questions, and without what a repository could run.

Everything in this package calls git through here and from a thread: it blocks.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bullpen.errors import Unavailable

GIT_S = 120.0
"""How long a command may take that says nothing about it; checking out a big tree takes longer."""

TREE_S = 1_800.0
"""How long a command may take that writes a whole tree."""

_SAID_CHARS_MAX = 2_000

# Variables that would make git work on another repository than the one it is started in.
_LEAD_AWAY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
)

# What we run ourselves never runs what a repository's files name: an agent may have written them.
_NOTHING_ELSE = (
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "advice.detachedHead=false",
    # We work in git dirs too, also when we are run in an agent's shell, where this is set.
    "-c",
    "safe.bareRepository=all",
)


class GitFailed(Unavailable):
    """A git command failed. `said` is what it printed."""

    def __init__(self, words: Sequence[str], code: int | None, said: str, where: str) -> None:
        how = "took too long" if code is None else f"failed with {code}"
        super().__init__(
            f"`git {' '.join(words[:6])}` {how} in {where}: {said[-_SAID_CHARS_MAX:].strip()}",
            remedy="See to what git says, then try again.",
        )
        self.code = code
        self.said = said


@dataclass(frozen=True, slots=True)
class Ran:
    """How a git command ended. Names of files may hold what no text can: then `out` is escaped."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.code == 0


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one directory. `hooks` lets it run the hooks of the user's repository.

    It inherits the descriptors in `keep`: a lock is then held until git has ended, even if whoever
    started it was killed.
    """

    where: Path
    env: Mapping[str, str] = field(default_factory=dict)
    hooks: bool = False
    keep: tuple[int, ...] = ()

    def __call__(self, *words: str, given: str | None = None, seconds: float = GIT_S) -> str:
        """What a command prints, without the newline at its end.

        Raises:
            GitFailed: it did not succeed, or took too long.
        """
        ran = self.run(*words, given=given, seconds=seconds)
        if not ran.ok:
            raise GitFailed(words, ran.code, ran.err or ran.out, str(self.where))
        return ran.out.removesuffix("\n")

    def run(self, *words: str, given: str | None = None, seconds: float = GIT_S) -> Ran:
        """How a command ended, however that was.

        Raises:
            GitFailed: it took too long, and was ended with all that it had started.
            Unavailable: there is no git, or no such directory.
        """
        own = () if self.hooks else _NOTHING_ELSE
        argv = ["git", "--no-pager", *own, *words]
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell, our own words
                argv,
                cwd=self.where,
                env=self._environment(),
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=self.keep,
            )
        except OSError as error:
            raise Unavailable(
                f"git cannot be run in {self.where}: {error.strerror or error}.",
                remedy="Install git, and see that the directory is there.",
            ) from None
        data = None if given is None else given.encode("utf-8", "surrogateescape")
        try:
            out, err = process.communicate(data, timeout=seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise GitFailed(words, None, f"after {seconds:g} s", str(self.where)) from None
            raise
        return Ran(process.returncode, _text(out), _text(err))

    def lines(self, *words: str, seconds: float = GIT_S) -> list[str]:
        """What a command prints that ends each item with a zero byte."""
        return [item for item in self(*words, seconds=seconds).split("\0") if item]

    def with_env(self, **more: str) -> Git:
        """The same, with some more variables."""
        return replace(self, env={**self.env, **more})

    def at(self, where: Path | str) -> Git:
        """The same in another directory."""
        return replace(self, where=Path(where))

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _LEAD_AWAY}
        return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", **self.env}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
