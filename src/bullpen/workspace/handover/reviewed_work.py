"""The work that a reviewer looks at: as a commit, as a difference, and as a directory of its own.

The difference is made in a new repository that only borrows the objects: attributes and settings
that the author may have written cannot hide a part of it. Everything here blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.guarded_paths import guarded
from bullpen.workspace.git.repository import common_dir, repository_at
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed, identity

DIFFERENCE_CHARS_MAX = 300_000
"""The longest difference that is reviewed. A longer one would not be read with care."""

_MESSAGE_CHARS_MAX = 10_000
_INDEX = "bullpen-review-index"
_US = identity("bullpen", "bullpen@localhost")
_PLAIN = ("--no-color", "--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/",
          "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none")  # fmt: skip

_OBEYED = frozenset(("git", "settings", "program", "editor", "hooks", "startup"))
"""The kinds of guarded paths that a reviewer's program could obey."""

INSTRUCTIONS = frozenset(
    (
        *("agents.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md", "goose.md"),
        *(".goosehints", ".cursorrules", "copilot-instructions.md", "agents.override.md"),
    )
)
"""Names of files that programs read as instructions, in lower case."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some work: everything between two commits of a repository."""

    repository: Path
    base: str
    commit: str


@dataclass(frozen=True, slots=True)
class Laid:
    """Work that is ready for a reviewer: its difference, and its directory once it is filled."""

    folder: Path
    span: Span
    difference: str
    fill: Callable[[], list[str]]


def work_in(tree: Path, base: Callable[[Git, str], str]) -> Span:
    """Return everything in a worktree that is not ignored, committed or not.

    Nothing in the worktree is changed, its index neither. `base` says from which commit the work
    goes on, given the head.

    Raises:
        Refused: it is no worktree of git (no_repository), or it has no commit (no_commits).
        Unavailable: git fails.
    """
    found = repository_at(tree)
    git, head, tree = Git(found.top), found.head, found.top
    index = found.own / _INDEX
    ours = git.with_env(GIT_INDEX_FILE=str(index))
    try:
        # An index of its own: flags in the other one could hide changes.
        ours("read-tree", head, seconds=TREE_S)
        added = ours.run("add", "--all", "--sparse", seconds=TREE_S)
        if not added.ok:
            raise GitFailed(["add", "--all"], added.code, added.err, str(tree))
        made = ours("write-tree")
    finally:
        for left in (index, index.with_name(f"{_INDEX}.lock")):
            with suppress(OSError):
                left.unlink()
    commit = head
    if made != git("rev-parse", f"{head}^{{tree}}"):
        words = ("commit-tree", made, "-p", head, "-m", "work to review")
        commit = git.with_env(**_US)(*words)
    return Span(tree, base(git, head), commit)


def span_of(repository: Path, text: str) -> Span:
    """Return the work that a range such as main..HEAD names; one commit stands for itself alone.

    Raises:
        Invalid: there is no such range.
    """
    git = Git(repository)
    first, dots, last = text.partition("..")
    symmetric = last.startswith(".")
    last = last.lstrip(".") or "HEAD"
    if not dots:
        first, last = f"{text}^", text
    ends: list[str] = []
    # The last one first: of a commit that does not exist, the error does not name the parent.
    for each in (last, first or "HEAD"):
        found = git.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{each}^{{commit}}"
        )
        if not found.ok:
            raise Invalid(
                f"There is no commit {each!r} in {repository}.",
                remedy="Name a range such as main..HEAD, or one commit that has a parent.",
            )
        ends.insert(0, found.out.strip())
    if symmetric:
        ends[0] = git("merge-base", *ends)
    return Span(repository, ends[0], ends[1])


def messages_in(span: Span) -> str:
    """Return the messages of the commits of some work, the oldest first, but not all of many."""
    words = ("rev-list", "--reverse", "--no-commit-header", "--format=%B", "--max-count=50")
    said = Git(span.repository)(*words, f"{span.base}..{span.commit}")
    return said[:_MESSAGE_CHARS_MAX].strip()


def lay_out(span: Span, folder: Path) -> Laid:
    """Make a repository for a reviewer in a new folder, without files yet; return the difference.

    Raises:
        Unavailable: git fails.
    """
    source = Git(span.repository)
    form = source("rev-parse", "--show-object-format")
    folder.mkdir(mode=0o700)
    git = Git(folder)
    git("init", "--quiet", f"--object-format={form}", "--initial-branch=review", "--template=")
    borrowed = [common_dir(span.repository) / "objects"]
    info = folder / ".git" / "objects" / "info"
    try:
        info.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{each}\n" for each in borrowed)
        (info / "alternates").write_bytes(os.fsencode(lines))
    except OSError as error:
        raise Unavailable(
            f"{info} cannot be written: {error.strerror}.", remedy="Check the free disk space."
        ) from None
    words = ("diff-tree", "-r", "-p", "-U5", *_PLAIN, span.base, span.commit)
    difference = git.with_env(GIT_GRAFT_FILE=os.devnull)(*words, seconds=TREE_S)
    return Laid(folder, span, difference, lambda: _fill(git, span))


def shown_difference(span: Span) -> str:
    """Return the difference as a forge shows it: with renames, and three lines around a change.

    Raises:
        Unavailable: git fails.
    """
    words = ("diff-tree", "-r", "-p", "-U3", *_PLAIN, "--find-renames", span.base, span.commit)
    git = Git(span.repository).with_env(GIT_GRAFT_FILE=os.devnull)
    return git("-c", "core.quotePath=false", *words, seconds=TREE_S)


def _fill(git: Git, span: Span) -> list[str]:
    """Check out the work, but for what a program would obey. Returns the paths of that.

    Files of settings are left out; instructions to models are there as they were before the work.
    """
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", span.base, span.commit)
    changed = set(git.lines(*words, seconds=TREE_S))
    quiet = git.with_env(GIT_LFS_SKIP_SMUDGE="1")
    quiet("checkout", "--quiet", "--detach", span.commit, seconds=TREE_S)
    rows = git.lines("ls-tree", "-r", "-z", "--name-only", "HEAD", seconds=TREE_S)
    removed = [path for path in rows if guarded(path) in _OBEYED]
    before = [path for path in changed if Path(path).name.lower() in INSTRUCTIONS]
    for path in (*removed, *before):
        file = git.where / path
        with suppress(OSError):
            file.unlink()
            # Folders that are empty now go too.
            for above in file.relative_to(git.where).parents[:-1]:
                (git.where / above).rmdir()
    there = set(git.lines("ls-tree", "-r", "-z", "--name-only", span.base, seconds=TREE_S))
    old = [path for path in before if path in there and path not in removed]
    if old:
        quiet("--literal-pathspecs", "checkout", "--quiet", span.base, "--", *old, seconds=TREE_S)
    return sorted(changed.intersection([*removed, *before]))
