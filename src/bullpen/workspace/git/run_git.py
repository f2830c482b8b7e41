"""Runs git with a deadline, without prompts, and without programs that a repository names.

Everything in Bullpen calls git through this module, from a thread: it blocks. A repository may have
been written by an agent, so that four things hold for every call:

- Settings of a repository that name a program are overridden: see `program_settings`.
- Git never starts git in a submodule: it would not pass these settings on.
- Only known protocols are used, and none by a command that only reads objects.
- Where there is a sandbox, commands that read or write files run in it: see `sandbox.git_box`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.sandbox.git_box import Box, git_box
from bullpen.workspace.git.program_settings import (
    ALWAYS,
    Setting,
    as_variables,
    is_from_repository,
    overrides,
    protocols,
    settings_in,
)

GIT_S = 120.0
"""Default time limit of a command. Checking out a large worktree takes longer."""

TREE_S = 1_800.0
"""Time limit of a command that writes a whole worktree."""

_SAID_CHARS_MAX = 2_000

# Variables that would make git work on another repository.
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
    "GIT_EXTERNAL_DIFF",
)

_READS_OBJECTS = frozenset(
    (
        *("rev-parse", "symbolic-ref", "for-each-ref", "update-ref", "merge-base", "config"),
        *("hash-object", "mktree", "commit-tree", "write-tree", "update-index", "ls-tree"),
        *("var", "version", "remote", "worktree", "init", "patch-id", "unpack-file", "tag"),
    )
)
"""Commands that use no program of any setting but those that are always overridden."""

_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
"""Missing objects are not fetched: the repository would say from where, and with which program."""

_LOOKS_AT_FILES = frozenset(
    ("status", "diff", "diff-files", "diff-index", "ls-files", "check-ignore", "check-attr")
)
_CHANGES_FILES = frozenset(
    (
        *("add", "commit", "reset", "checkout", "clean", "read-tree", "merge"),
        *("rebase", "cherry-pick", "revert"),
    )
)
_GIT_OBEYS = ("config", "config.worktree", "hooks", "commondir", "gitdir")
"""Files of a git dir that no command in the sandbox may write."""

# Options of a command that settings and .gitmodules cannot take back.
_SENDER = "--upload-pack=git-upload-pack"
_PLAIN_DIFF = ("--no-ext-diff", "--no-textconv")
_OPTIONS = {
    "status": ("--ignore-submodules=dirty",),
    "diff": ("--ignore-submodules=dirty", *_PLAIN_DIFF),
    "diff-files": ("--ignore-submodules=dirty", *_PLAIN_DIFF),
    "diff-index": ("--ignore-submodules=dirty", *_PLAIN_DIFF),
    "diff-tree": _PLAIN_DIFF,
    "log": _PLAIN_DIFF,
    "fetch": ("--no-recurse-submodules", _SENDER),
    "push": ("--no-recurse-submodules", "--receive-pack=git-receive-pack"),
    "ls-remote": (_SENDER,),
    "clone": (_SENDER,),
}

_FILTER_FAILED = re.compile(r"(?:clean|smudge) filter '(.+)' failed")


class GitFailed(Unavailable):
    """A git command failed. `said` is what it printed."""

    def __init__(self, words: Sequence[str], code: int | None, said: str, where: str) -> None:
        how = "took too long" if code is None else f"failed with {code}"
        remedy = "Fix what git reports, then try again."
        if found := _FILTER_FAILED.search(said):
            remedy = (
                f"If this repository's own settings name the filter {found[1]!r}, Bullpen does "
                "not run it: an agent may have written them. If you trust it, configure it for "
                f"all your repositories: git config --global filter.{found[1]}.clean COMMAND"
            )
        super().__init__(
            f"`git {' '.join(words[:6])}` {how} in {where}: {said[-_SAID_CHARS_MAX:].strip()}",
            remedy=remedy,
        )
        self.code = code
        self.said = said


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a git command. File names may contain invalid text: then `out` is escaped."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Return whether it succeeded."""
        return self.code == 0


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one directory.

    It inherits the descriptors in `keep`: a lock is then held until git has ended, even if the
    process that started it was killed.
    """

    where: Path
    env: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[int, ...] = ()

    def __call__(self, *words: str, given: str | None = None, seconds: float = GIT_S) -> str:
        """Return what a command prints, without the final newline. Raises GitFailed."""
        ran = self.run(*words, given=given, seconds=seconds)
        if not ran.ok:
            raise GitFailed(words, ran.code, ran.err or ran.out, str(self.where))
        return ran.out.removesuffix("\n")

    def run(self, *words: str, given: str | None = None, seconds: float = GIT_S) -> Ran:
        """Return how a command ended, successful or not.

        Raises:
            GitFailed: it took too long and was killed with everything it had started.
            Unavailable: there is no git, or no such directory.
        """
        verb, words = _with_options(words)
        env = self._environment()
        if verb in _READS_OBJECTS:
            env |= _NO_FETCH
            return self._run(_argv(words), env, given, seconds)
        listed = self._run(_argv(_LIST), env, None, GIT_S)
        if not listed.ok:
            # Git cannot read the settings, so the command would fail in the same way.
            return listed
        found = settings_in(listed.out)
        self._refuse_another_tree(found, env)
        env |= _protection(found, env, stores=verb not in _LOOKS_AT_FILES)
        with self._boxed(verb, _argv(words), env, found) as box:
            ran = self._run(box.argv, env, given, seconds, inherit=box.inherit)
        if ran.err.startswith("bwrap: "):
            raise Unavailable(
                f"The sandbox of git could not be started in {self.where}: {ran.err.strip()}",
                remedy="Try again. If it fails again, check bubblewrap: bullpen doctor",
            )
        return ran

    def lines(self, *words: str, seconds: float = GIT_S) -> list[str]:
        """Return the items that a command prints, separated by zero bytes."""
        return [item for item in self(*words, seconds=seconds).split("\0") if item]

    def with_env(self, **more: str) -> Git:
        """Return the same git with more variables."""
        return replace(self, env={**self.env, **more})

    def at(self, where: Path | str) -> Git:
        """Return the same git in another directory."""
        return replace(self, where=Path(where))

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _LEAD_AWAY}
        own = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":"}
        # Otherwise a ref says that one object stands for another, and what was checked is not what
        # is merged.
        own["GIT_NO_REPLACE_OBJECTS"] = "1"
        return {**kept, **own, "GIT_SEQUENCE_EDITOR": ":", **self.env}

    def _run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        given: str | None,
        seconds: float,
        *,
        inherit: tuple[int, ...] = (),
    ) -> Ran:
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell, our own words
                argv,
                cwd=self.where,
                env=env,
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(*self.keep, *inherit),
            )
        except OSError as error:
            missing = isinstance(error, FileNotFoundError) and self.where.is_dir()
            why = "git is not installed" if missing else error.strerror or error
            raise Unavailable(
                f"Git could not be run in {self.where}: {why}.",
                remedy="Install git, and check that the directory exists.",
            ) from None
        data = None if given is None else given.encode("utf-8", "surrogateescape")
        try:
            out, err = process.communicate(data, timeout=seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise GitFailed(
                    _words_in(argv), None, f"after {seconds:g} s", str(self.where)
                ) from None
            raise
        return Ran(process.returncode, _text(out), _text(err))

    @contextmanager
    def _boxed(
        self, verb: str, argv: list[str], env: Mapping[str, str], found: Sequence[Setting]
    ) -> Iterator[Box]:
        """Yield the command in a sandbox, if it is about files and there is a sandbox."""
        plain = Box(argv, ())
        write: list[str] = []
        if verb in _CHANGES_FILES and "GIT_DIR" not in self.env:
            write = self._places(env)
        if not (write or verb in _LOOKS_AT_FILES):
            yield plain
            return
        # The first is the worktree: there, files may have any name.
        keep = [os.path.join(place, name) for place in write[1:] for name in _GIT_OBEYS]
        # What the user configured for all repositories may fetch what it needs, as git-lfs does.
        network = bool(write) and any(_may_fetch(each) for each in found)
        with git_box(
            argv, where=str(self.where), env=env, write=write, keep=keep, network=network
        ) as box:
            yield box or plain

    def _places(self, env: Mapping[str, str]) -> list[str]:
        """Return what a command writes in this worktree: its files and its git dirs."""
        words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
        ran = self._run(_argv(("rev-parse", "--path-format=absolute", *words)), env, None, GIT_S)
        found = ran.out.removesuffix("\n").split("\n")
        return found if ran.ok and len(found) == len(words) else []

    def _refuse_another_tree(self, found: Sequence[Setting], env: Mapping[str, str]) -> None:
        """Refuse settings that make git write another directory than the worktree."""
        if "GIT_WORK_TREE" in env or not is_from_repository(found, "core.worktree"):
            return
        ran = self._run(
            _argv(("rev-parse", "--show-toplevel", "--absolute-git-dir")), env, None, GIT_S
        )
        top, _, own = ran.out.removesuffix("\n").partition("\n")
        if ran.ok and not _leads_to(Path(top, ".git"), own):
            raise Unavailable(
                f"The settings of the repository at {self.where} name another worktree: {top}.",
                remedy=f"Remove core.worktree from the settings in {own}.",
            )


_LIST = ("config", "--list", "--show-scope", "--includes", "-z")


def _argv(words: Sequence[str]) -> list[str]:
    settings = (f"core.hooksPath={os.devnull}", *ALWAYS)
    return ["git", "--no-pager", *(word for each in settings for word in ("-c", each)), *words]


def _words_in(argv: Sequence[str]) -> Sequence[str]:
    """Return the words of a command without what every command gets."""
    return argv[argv.index(ALWAYS[-1]) + 1 :]


def _with_options(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a command, and its words with the options that it always gets."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == "-c" else 1
    if at >= len(words):
        return "", words
    verb, rest = words[at], words[at + 1 :]
    named = {word.partition("=")[0] for word in rest}
    more = [each for each in _OPTIONS.get(verb, ()) if each.partition("=")[0] not in named]
    return verb, (*words[: at + 1], *more, *rest)


def _protection(
    found: Sequence[Setting], env: Mapping[str, str], *, stores: bool
) -> dict[str, str]:
    """Return the variables that keep a repository from running anything."""
    made = as_variables(overrides(found, stores=stores), env)
    if "GIT_ALLOW_PROTOCOL" not in env:
        from_user = env.get("GIT_PROTOCOL_FROM_USER") != "0"
        made["GIT_ALLOW_PROTOCOL"] = protocols(found, from_user=from_user)
    # Of the programs of a remote the first counts, so that they cannot be overridden; and an option
    # does not reach the git that fetches missing objects.
    if {"promisor", "uploadpack"} <= {each.key.rpartition(".")[2] for each in found}:
        made["GIT_ALLOW_PROTOCOL"] = "none"
    if is_from_repository(found, "core.gitproxy"):
        made["GIT_PROXY_COMMAND"] = ""
    return made


def _may_fetch(each: Setting) -> bool:
    filters = each.is_users and each.key.startswith("filter.") and bool(each.value)
    return filters or each.key.endswith(".promisor")


def _leads_to(file: Path, own: str) -> bool:
    """Return whether the `.git` of a worktree is a git dir, or names it."""
    try:
        if file.is_dir():
            return os.path.samefile(file, own)
        target = file.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        return os.path.samefile(file.parent / target, own)
    except OSError:
        return False


def git_that_reads() -> list[str]:
    """Return the words of a git that another process runs, without `Git`.

    Only for commands that read objects or list files: they use no filter, driver or transport.
    """
    return ["/usr/bin/env", *(f"{name}={value}" for name, value in _NO_FETCH.items()), *_argv(())]


def identity(name: str, email: str) -> dict[str, str]:
    """Return the variables that make somebody the author and committer."""
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
