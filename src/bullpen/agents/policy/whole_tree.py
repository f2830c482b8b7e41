"""What git commands do to edits that nobody has committed, in a tree that several share. Pure.

Nothing here decides whose edits they are. It says which a command would take along, put away or
throw away, and where in the tree; or that nobody can say.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bullpen.agents.policy.git_words import Arguments, Front, arguments, front

Kind = Literal["changed", "staged", "untracked", "ignored"]
"""What can be the matter with a path: its file differs, its index does, git does not know it."""

Common = Literal["stashes", "objects", "branch", "worktree"]
"""What all trees of a repository have in common."""

_ALIASES_MAX = 5


class Looks(Protocol):
    """What has to be looked up to read a command."""

    def alias(self, where: str, name: str) -> str | None:
        """What a name stands for in the settings of git there."""

    def is_path(self, where: str, text: str) -> bool:
        """Whether there is such a file or directory."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Edits that a command would touch: of these kinds, at these paths or everywhere (None).

    `where` is the directory that the paths are seen from, None if that is not known. `destroys`:
    what it touches is no longer there as it was; else it is only taken into a commit or the index.
    """

    command: str
    where: str | None
    kinds: frozenset[Kind]
    paths: tuple[str, ...] | None = None
    destroys: bool = True


@dataclass(frozen=True, slots=True)
class Shared:
    """Something in the repository that is not of one tree alone, and that a command removes."""

    command: str
    what: Common
    where: str | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A command of which nobody can say what it does."""

    why: str


@dataclass(frozen=True, slots=True)
class Runs:
    """Another command line that git starts, with words that are not known."""

    text: str


Effect = Touch | Shared | Unknown | Runs


@dataclass(frozen=True, slots=True)
class _Asked:
    """One git command, ready to be read."""

    name: str
    front: Front
    words: tuple[str | None, ...]
    looks: Looks
    fed: bool

    def read(self, values: str = "") -> Arguments:
        return arguments(self.words, values=values, fed=self.fed)

    @property
    def shown(self) -> str:
        said = [word or "…" for word in self.words[:3]]
        return " ".join(["git", self.name, *said])

    def touch(
        self,
        *kinds: Kind,
        paths: tuple[str, ...] | None = None,
        destroys: bool = True,
    ) -> Touch:
        led = self.front.led or self.front.where is None
        return Touch(
            self.shown, self.front.where, frozenset(kinds), None if led else paths, destroys
        )

    def shared(self, what: Common, *names: str) -> Shared:
        return Shared(self.shown, what, self.front.where, names)


def effects(
    words: Sequence[str | None], where: str | None, looks: Looks, *, fed: bool = False
) -> Iterator[Effect]:
    """What a git command does. The first word is git itself; `fed`: it is given more words."""
    yield from _effects(words, where, looks, fed=fed, depth=0)


def _effects(
    words: Sequence[str | None], where: str | None, looks: Looks, *, fed: bool, depth: int
) -> Iterator[Effect]:
    program = os.path.basename(words[0] or "")
    if program.startswith("git-"):
        words = ["git", program.removeprefix("git-"), *words[1:]]
    found = front(words, where)
    if not found.rest:
        if fed:
            yield Unknown("the command of git is not written out")
        return
    name = found.rest[0]
    if name is None:
        yield Unknown("the command of git is not written out")
        return
    asked = _Asked(name, found, tuple(found.rest[1:]), looks, fed)
    if name in _READERS:
        yield from _READERS[name](asked)
    elif name not in _HARMLESS:
        yield from _by_another_name(asked, depth)


def _by_another_name(asked: _Asked, depth: int) -> Iterator[Effect]:
    """A command that git does not have itself: an alias, or a program called `git-NAME`."""
    where = asked.front.where
    text = asked.front.set.get(f"alias.{asked.name.lower()}")
    if text is None and where is not None:
        text = asked.looks.alias(where, asked.name)
    if text is None or depth == _ALIASES_MAX:
        yield Unknown(f"nothing is known of git {asked.name}")
    elif text.startswith("!"):
        yield Runs(text[1:])
    else:
        try:
            said = shlex.split(text)
        except ValueError:
            yield Unknown(f"the alias {asked.name} cannot be read")
            return
        again = ["git", *_as_set(asked.front), *said, *asked.words]
        yield from _effects(again, where, asked.looks, fed=asked.fed, depth=depth + 1)


def _as_set(found: Front) -> list[str]:
    words = [word for key, value in found.set.items() for word in ("-c", f"{key}={value}")]
    return [*words, *(["--work-tree=."] if found.led else [])]


def _reset(asked: _Asked) -> Iterator[Effect]:
    given = asked.read()
    if given.said("--hard", "--merge", "--keep"):
        yield asked.touch("changed", "staged")
    elif not given.said("--soft"):
        # Without `--` the first word may be a commit: then the others are paths.
        first = 0 if _are_paths(asked, given.plain[:1]) else 1
        paths = given.plain[first:] if given.behind is None else given.behind
        yield asked.touch("staged", paths=None if given.unknown else tuple(paths) or None)


def _are_paths(asked: _Asked, paths: Sequence[str]) -> bool:
    where = asked.front.where
    return where is not None and all(asked.looks.is_path(where, each) for each in paths)


def _checkout(asked: _Asked) -> Iterator[Effect]:
    given = asked.read("-b -B --orphan --conflict")
    whole = asked.touch("changed", "staged")
    if given.said("-b", "-B", "-t", "-d", "--orphan", "--detach", "--track") or given.unknown:
        yield whole
    elif given.behind is not None:
        yield asked.touch("changed", "staged", paths=tuple(given.behind)) if given.behind else whole
    elif not given.plain:
        if given.said("-f", "--force", "-p", "--patch"):
            yield whole
    elif _are_paths(asked, given.plain):
        yield asked.touch("changed", "staged", paths=tuple(given.plain))
    elif len(given.plain) > 1:
        yield asked.touch("changed", "staged", paths=tuple(given.plain[1:]))
    else:
        yield whole


def _restore(asked: _Asked) -> Iterator[Effect]:
    given = asked.read("-s --source --conflict --unified --inter-hunk-context -U")
    if given.said("-S", "--staged") and not given.said("-W", "--worktree"):
        yield asked.touch("staged", paths=given.paths)
    else:
        yield asked.touch("changed", "staged", paths=given.paths)


def _clean(asked: _Asked) -> Iterator[Effect]:
    given = asked.read("-e --exclude")
    if given.said("-n", "--dry-run"):
        return
    paths = given.paths or None
    if given.said("-X"):
        yield asked.touch("ignored", paths=paths)
    elif given.said("-x"):
        yield asked.touch("untracked", "ignored", paths=paths)
    else:
        yield asked.touch("untracked", paths=paths)


_STASH_LOOKS = frozenset(["list", "show", "create", "store", "export"])


def _stash(asked: _Asked) -> Iterator[Effect]:
    first = asked.words[0] if asked.words else "push"
    if first is None:
        yield Unknown("the command of git stash is not written out")
        return
    if first in _STASH_LOOKS:
        return
    if first in {"drop", "clear"}:
        yield asked.shared("stashes")
        return
    if first in {"pop", "apply", "branch", "import", "save"}:
        yield asked.touch("changed", "staged")
        return
    rest = asked.words[1:] if first == "push" else asked.words
    given = arguments(rest, values="-m --message", fed=asked.fed)
    kinds: list[Kind] = ["changed", "staged"]
    if given.said("-u", "--include-untracked", "-a", "--all"):
        kinds.append("untracked")
    if given.said("-a", "--all"):
        kinds.append("ignored")
    yield asked.touch(*kinds, paths=given.paths or None)


def _add(asked: _Asked) -> Iterator[Effect]:
    given = asked.read()
    if given.said("-n", "--dry-run"):
        return
    everywhere = given.said(
        "-A", "--all", "-u", "--update", "--no-ignore-removal", "-i", "-p", "-e"
    )
    if not given.operands and not given.unknown and not everywhere:
        return
    kinds: list[Kind] = ["changed"]
    if not given.said("-u", "--update"):
        kinds.append("untracked")
    if given.said("-f", "--force"):
        kinds.append("ignored")
    yield asked.touch(*kinds, paths=given.paths or None, destroys=False)


_COMMIT_VALUES = (
    "-m -F -C -c -t --message --file --author --date --template --cleanup --fixup --squash"
    " --trailer --reuse-message --reedit-message"
)


def _commit(asked: _Asked) -> Iterator[Effect]:
    given = asked.read(_COMMIT_VALUES)
    if given.said("--dry-run"):
        return
    if given.said("-a", "--all", "-p", "--patch", "--interactive") or given.unknown:
        yield asked.touch("changed", "staged", destroys=False)
    elif given.operands:
        yield asked.touch("changed", "staged", "untracked", paths=given.paths, destroys=False)
        if given.said("-i", "--include"):
            yield asked.touch("staged", destroys=False)
    else:
        yield asked.touch("staged", destroys=False)


def _rm(asked: _Asked) -> Iterator[Effect]:
    given = asked.read()
    if not given.said("-n", "--dry-run"):
        yield asked.touch("changed", "staged", paths=given.paths)


def _mv(asked: _Asked) -> Iterator[Effect]:
    given = asked.read()
    if not given.said("-n", "--dry-run"):
        yield asked.touch("changed", "staged", "untracked", paths=given.paths)


def _whole(asked: _Asked) -> Iterator[Effect]:
    yield asked.touch("changed", "staged")


def _switch(asked: _Asked) -> Iterator[Effect]:
    if asked.words or asked.fed:
        yield asked.touch("changed", "staged")


def _index(asked: _Asked) -> Iterator[Effect]:
    yield asked.touch("staged")


def _unless(*looks: str) -> Callable[[_Asked], Iterator[Effect]]:
    """A command that touches everything but with one of these as its first word."""

    def read(asked: _Asked) -> Iterator[Effect]:
        first = asked.words[0] if asked.words else ""
        if first not in looks:
            yield asked.touch("changed", "staged")

    return read


def _read_tree(asked: _Asked) -> Iterator[Effect]:
    given = asked.read()
    if given.said("-u", "--reset"):
        yield asked.touch("changed", "staged")
    else:
        yield asked.touch("staged")


def _worktree(asked: _Asked) -> Iterator[Effect]:
    given = asked.read()
    if given.plain[:1] in (["remove"], ["move"]) or given.unknown:
        yield asked.shared("worktree", *given.operands[1:2])


def _branch(asked: _Asked) -> Iterator[Effect]:
    given = asked.read("-u --set-upstream-to --sort --format --contains --points-at")
    forced = given.said("-D", "-d", "-f", "-M", "-m", "-C", "--delete", "--force", "--move")
    if forced:
        yield (
            Unknown("the branch is not written out")
            if given.unknown
            else asked.shared("branch", *(f"refs/heads/{each}" for each in given.operands))
        )


def _update_ref(asked: _Asked) -> Iterator[Effect]:
    given = asked.read("-m")
    if given.unknown or given.said("--stdin") or not given.operands:
        yield Unknown("git update-ref changes refs that are not written out")
        return
    ref = given.operands[0]
    yield asked.shared("branch", ref)
    if ref == "HEAD":
        yield asked.touch("changed", "staged")


def _symbolic_ref(asked: _Asked) -> Iterator[Effect]:
    given = asked.read("-m")
    if len(given.operands) > 1 or given.unknown or given.said("-d", "--delete"):
        yield asked.touch("changed", "staged")


def _gc(asked: _Asked) -> Iterator[Effect]:
    pruned = any(key.startswith("gc.") for key in asked.front.set)
    words = [word for word in asked.words if word is not None]
    pruned = pruned or any(word.startswith("--prune=") for word in words)
    if pruned or len(words) < len(asked.words):
        yield asked.shared("objects")


def _prune(asked: _Asked) -> Iterator[Effect]:
    if not asked.read().said("-n", "--dry-run"):
        yield asked.shared("objects")


def _reflog(asked: _Asked) -> Iterator[Effect]:
    if asked.words and asked.words[0] in {"expire", "delete", "drop", None}:
        yield asked.shared("objects")


def _repack(asked: _Asked) -> Iterator[Effect]:
    if asked.read().said("-a", "-d"):
        yield asked.shared("objects")


def _apply(asked: _Asked) -> Iterator[Effect]:
    given = asked.read()
    if not given.said("--check", "--stat", "--numstat", "--summary"):
        yield Unknown("which files a patch changes is not looked at")


def _opaque(asked: _Asked) -> Iterator[Effect]:
    yield Unknown(f"git {asked.name} can run anything")


_READERS: dict[str, Callable[[_Asked], Iterator[Effect]]] = {
    "reset": _reset,
    "checkout": _checkout,
    "switch": _switch,
    "restore": _restore,
    "clean": _clean,
    "stash": _stash,
    "add": _add,
    "stage": _add,
    "commit": _commit,
    "rm": _rm,
    "mv": _mv,
    "update-index": _index,
    "read-tree": _read_tree,
    "worktree": _worktree,
    "branch": _branch,
    "update-ref": _update_ref,
    "symbolic-ref": _symbolic_ref,
    "gc": _gc,
    "prune": _prune,
    "reflog": _reflog,
    "repack": _repack,
    "apply": _apply,
    "bisect": _unless("log", "view", "visualize", "terms", "help"),
    "submodule": _unless("status", "summary", "init", "sync", "add", ""),
    "sparse-checkout": _unless("list", "check-rules"),
    **dict.fromkeys(
        ["rebase", "merge", "pull", "cherry-pick", "am", "revert", "checkout-index"], _whole
    ),
    **dict.fromkeys(["subtree", "filter-branch", "merge-recursive", "merge-ours"], _whole),
    **dict.fromkeys(["hook", "for-each-repo", "difftool", "mergetool", "fast-import"], _opaque),
}

_HARMLESS = frozenset(
    """
    annotate archive blame cat-file check-attr check-ignore check-mailmap check-ref-format
    cherry clone column commit-graph commit-tree config count-objects describe diff
    diff-files diff-index diff-tree fetch fetch-pack fmt-merge-msg for-each-ref format-patch fsck
    get-tar-commit-id grep hash-object help init interpret-trailers log ls-files
    ls-remote ls-tree mailinfo maintenance merge-base merge-tree mktag mktree
    multi-pack-index name-rev notes pack-refs patch-id push range-diff remote
    replace rerere rev-list rev-parse shortlog show show-branch show-index show-ref
    status stripspace tag unpack-objects var verify-commit verify-pack verify-tag
    version whatchanged write-tree
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
