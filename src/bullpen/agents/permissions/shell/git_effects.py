"""Find what git commands do to uncommitted edits in a tree that several agents share. Pure.

It lists the commands that commit, stash or discard edits, with the paths they name, not whose edits
these are. Any other command that can write is unknown: the edits of others are saved before it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from bullpen.agents.permissions.shell.git_words import (
    Arguments,
    GlobalOptions,
    Words,
    arguments,
    global_options,
)

Kind = Literal["changed", "staged", "untracked", "ignored"]
"""How a path differs from the last commit: in its file, in the index, or because it is new."""

Common = Literal["stashes", "objects", "branch", "worktree"]
"""What all worktrees of a repository share."""

_ALIASES_MAX = 5


class Lookup(Protocol):
    """Looks up what the words of a command do not say."""

    def alias(self, where: str, name: str) -> str | None:
        """The command that this alias stands for in git's settings there."""

    def is_path(self, where: str, text: str) -> bool:
        """Whether this file or directory exists."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Edits that a command would touch: of these kinds, at these paths or everywhere (None).

    `where` is the directory that the paths are relative to, or None if it is unknown. A command
    that `destroys` edits removes them from the tree; any other only adds them to a commit.
    """

    command: str
    where: str | None
    kinds: frozenset[Kind]
    paths: tuple[str, ...] | None = None
    destroys: bool = True


@dataclass(frozen=True, slots=True)
class Shared:
    """Something that a command removes and that all worktrees of the repository share."""

    command: str
    what: Common
    where: str | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A command that could do anything."""

    why: str


@dataclass(frozen=True, slots=True)
class GitRuns:
    """Another command line that git runs, with words that are unknown."""

    text: str


Effect = Touch | Shared | Unknown | GitRuns


@dataclass(frozen=True, slots=True)
class _Rule:
    """The edits that a command touches, by its options.

    `more` are options with the kinds that they add. With one of `nothing` it changes nothing, and
    with one of `whole` it changes more than the paths it names. `values` take another word.
    """

    kinds: tuple[Kind, ...] = ("changed", "staged")
    more: tuple[tuple[str, tuple[Kind, ...]], ...] = ()
    nothing: str = ""
    whole: str = ""
    values: str = ""
    # Without an operand and without one of these options, it does nothing.
    needs: str | None = None
    # Whether it touches only the paths it names.
    named: bool = True
    destroys: bool = True


_ADD = _Rule(
    ("changed", "untracked"),
    more=(("-f --force", ("ignored",)),),
    nothing="-n --dry-run",
    needs="-A --all -u --update --no-ignore-removal -i -p -e",
    destroys=False,
)
_RULES: dict[str, _Rule] = {
    "reset": _Rule(
        ("staged",),
        more=(("--hard --merge --keep", ("changed",)),),
        nothing="--soft",
        whole="--hard --merge --keep",
    ),
    "checkout": _Rule(
        whole="-b -B -t -d --orphan --detach --track",
        values="-b -B --orphan --conflict",
        needs="-f --force -p --patch",
    ),
    "switch": _Rule(needs="", named=False),
    "restore": _Rule(values="-s --source --conflict --unified --inter-hunk-context -U"),
    "clean": _Rule(
        ("untracked",),
        more=(("-x -X", ("ignored",)),),
        nothing="-n --dry-run",
        values="-e --exclude",
    ),
    "stash": _Rule(
        more=(("-u --include-untracked", ("untracked",)), ("-a --all", ("untracked", "ignored"))),
        values="-m --message",
    ),
    "add": _ADD,
    "stage": _ADD,
    "commit": _Rule(
        ("staged",),
        more=(("-a --all -p --patch --interactive", ("changed",)),),
        nothing="--dry-run",
        whole="-a --all -p --patch --interactive -i --include",
        values="-m -F -C -c -t --message --file --author --date --template --cleanup --fixup"
        " --squash --trailer --reuse-message --reedit-message",
        destroys=False,
    ),
    "rm": _Rule(nothing="-n --dry-run"),
    "mv": _Rule(("changed", "staged", "untracked"), nothing="-n --dry-run"),
    **dict.fromkeys(["rebase", "merge", "pull", "cherry-pick", "am", "revert"], _Rule(named=False)),
}

_STASH_READS = frozenset(["list", "show", "create", "store", "export"])
_STASH_WRITES = frozenset(["pop", "apply", "branch", "import", "save"])

_OPAQUE = frozenset(
    """
    apply bisect checkout-index difftool fast-import filter-branch for-each-repo hook merge-file
    merge-index merge-octopus merge-one-file merge-ours merge-recursive merge-resolve merge-subtree
    mergetool read-tree sparse-checkout submodule subtree symbolic-ref update-index
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Git's own commands that can write anything. No alias can replace them."""

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


@dataclass(frozen=True, slots=True)
class _GitCommand:
    """One git command. With `more_follow`, another program adds words to it."""

    name: str
    options: GlobalOptions
    words: tuple[str | None, ...]
    lookup: Lookup
    more_follow: bool

    def arguments(self, values: str = "", *, start: int = 0) -> Arguments:
        return arguments(self.words[start:], values=values, more_follow=self.more_follow)

    @property
    def shown(self) -> str:
        return " ".join(["git", self.name, *(word or "…" for word in self.words[:3])])

    def touch(
        self, *kinds: Kind, paths: tuple[str, ...] | None = None, destroys: bool = True
    ) -> Touch:
        where = self.options.where
        known = where is not None and not self.options.other_tree
        return Touch(self.shown, where, frozenset(kinds), paths if known else None, destroys)

    def shared(self, what: Common, *names: str) -> Shared:
        return Shared(self.shown, what, self.options.where, names)


def effects(
    words: Words, where: str | None, lookup: Lookup, *, more_follow: bool = False, depth: int = 0
) -> Iterator[Effect]:
    """What a git command does. The first word is git itself; `depth` counts aliases."""
    program = os.path.basename(words[0] or "")
    if program.startswith("git-"):
        words = ["git", program.removeprefix("git-"), *words[1:]]
    options = global_options(words, where)
    name = options.rest[0] if options.rest else None
    if name is None:
        if options.rest or more_follow:
            yield Unknown("the git subcommand is known only when it runs")
        return
    command = _GitCommand(name, options, tuple(options.rest[1:]), lookup, more_follow)
    if name in _SPECIAL:
        yield from _SPECIAL[name](command)
    elif name in _RULES:
        yield from _by_rule(command, command.arguments(_RULES[name].values))
    elif name in _OPAQUE:
        yield Unknown(f"git {name} can change anything")
    elif name not in _HARMLESS:
        yield from _by_alias(command, depth)


def _by_alias(command: _GitCommand, depth: int) -> Iterator[Effect]:
    """What an alias does. Any other command is a program called `git-NAME`."""
    options = command.options
    text = options.settings.get(f"alias.{command.name.lower()}")
    if text is None and options.where is not None:
        text = command.lookup.alias(options.where, command.name)
    if text is None or depth == _ALIASES_MAX:
        yield Unknown(f"git {command.name} is unknown")
    elif text.startswith("!"):
        yield GitRuns(text[1:])
    else:
        try:
            meant = shlex.split(text)
        except ValueError:
            yield Unknown(f"the git alias {command.name} cannot be parsed")
            return
        settings = [f"{key}={value}" for key, value in options.settings.items()]
        given = [word for setting in settings for word in ("-c", setting)]
        given += ["--work-tree=."] if options.other_tree else []
        yield from effects(
            ["git", *given, *meant, *command.words],
            options.where,
            command.lookup,
            more_follow=command.more_follow,
            depth=depth + 1,
        )


def _by_rule(command: _GitCommand, given: Arguments) -> Iterator[Effect]:
    """What a command of the table does, with the paths that it names."""
    rule = _RULES[command.name]
    if given.has(rule.nothing):
        return
    paths: tuple[str, ...] | None = None
    if not (given.unknown or given.has(rule.whole)):
        bare = not given.plain and given.after_dashes is None
        if bare and rule.needs is not None and not given.has(rule.needs):
            return
        paths = (_paths(command, given) or None) if rule.named else None
    kinds = {*rule.kinds}
    for names, more in rule.more:
        if given.has(names):
            kinds.update(more)
    if command.name == "commit" and paths is not None:
        kinds.update(("changed", "untracked"))
    yield command.touch(*kinds, paths=paths, destroys=rule.destroys)


def _paths(command: _GitCommand, given: Arguments) -> tuple[str, ...]:
    """The paths that a command names; empty if it may mean all paths."""
    if command.name not in {"checkout", "reset"}:
        return tuple(given.operands)
    if given.after_dashes is not None:
        return tuple(given.after_dashes)
    # Without `--`, the first word may be a commit. Then the others are paths.
    checked = given.plain if command.name == "checkout" else given.plain[:1]
    where = command.options.where
    if where is not None and all(command.lookup.is_path(where, each) for each in checked):
        return tuple(given.plain)
    return tuple(given.plain[1:])


def _stash(command: _GitCommand) -> Iterator[Effect]:
    first = command.words[0] if command.words else "push"
    if first is None:
        yield Unknown("the git stash subcommand is known only when it runs")
    elif first in {"drop", "clear"}:
        yield command.shared("stashes")
    elif first in _STASH_WRITES:
        yield command.touch("changed", "staged")
    elif first not in _STASH_READS:
        start = 1 if first == "push" else 0
        yield from _by_rule(command, command.arguments(_RULES["stash"].values, start=start))


def _worktree(command: _GitCommand) -> Iterator[Effect]:
    given = command.arguments()
    if given.plain[:1] in (["remove"], ["move"]) or given.unknown:
        yield command.shared("worktree", *given.operands[1:2])


def _branch(command: _GitCommand) -> Iterator[Effect]:
    given = command.arguments("-u --set-upstream-to --sort --format --contains --points-at")
    if not given.has("-D -d -f -M -m -C --delete --force --move"):
        return
    if given.unknown:
        yield Unknown("the name of the branch is known only when it runs")
    else:
        yield command.shared("branch", *(f"refs/heads/{each}" for each in given.operands))


def _update_ref(command: _GitCommand) -> Iterator[Effect]:
    given = command.arguments("-m")
    if given.unknown or given.has("--stdin") or not given.operands:
        yield Unknown("git update-ref can change any ref")
        return
    ref = given.operands[0]
    yield command.shared("branch", ref)
    if ref == "HEAD":
        yield command.touch("changed", "staged")


def _objects(command: _GitCommand) -> Iterator[Effect]:
    """The removal of objects; the plain forms of these commands remove none."""
    first = command.words[0] if command.words else ""
    if command.name == "gc":
        settings = command.options.settings
        removes = bool(command.words) or any(key.startswith("gc.") for key in settings)
    elif command.name == "reflog":
        removes = first in {"expire", "delete", "drop", None}
    else:
        removes = command.name == "repack" or not command.arguments().has("-n --dry-run")
    if removes:
        yield command.shared("objects")


_SPECIAL: dict[str, Callable[[_GitCommand], Iterator[Effect]]] = {
    "stash": _stash,
    "worktree": _worktree,
    "branch": _branch,
    "update-ref": _update_ref,
    **dict.fromkeys(["gc", "prune", "reflog", "repack"], _objects),
}
