"""Parse the words of a git command: its options, their values and its paths. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

Words = Sequence[str | None]
"""The words of a command. None is a word that is known only when the command runs."""

_TAKE_A_VALUE = frozenset(
    ["-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source"]
)
_CHANGE_THE_TREE = ("--git-dir", "--work-tree", "--bare")


@dataclass(slots=True)
class GlobalOptions:
    """The options between `git` and its subcommand, and the words from the subcommand on.

    `where` is git's directory, or None if it is unknown. With `other_tree`, git may work on another
    tree than that directory's. `settings` are those given with -c.
    """

    where: str | None
    other_tree: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    rest: list[str | None] = field(default_factory=list)


def global_options(words: Words, where: str | None) -> GlobalOptions:
    """Parse the options between `git` and its subcommand."""
    found = GlobalOptions(where)
    at = 1
    while at < len(words):
        word = words[at]
        if word is None or not word.startswith("-"):
            break
        value: str | None = None
        if word in _TAKE_A_VALUE:
            at += 1
            value = words[at] if at < len(words) else None
        if word.startswith(_CHANGE_THE_TREE):
            found.other_tree = True
        if word == "-C":
            known = value is not None and found.where is not None
            found.where = os.path.join(found.where or "", value or "") if known else None
        elif word == "-c" and value is not None:
            key, _, setting = value.partition("=")
            found.settings[key.lower()] = setting
        at += 1
    found.rest = list(words[at:])
    return found


@dataclass(slots=True)
class Arguments:
    """The words after a subcommand.

    `after_dashes` are the words after `--`, or None if there is no `--`. With `unknown`, some words
    are known only when the command runs, or are read from a file.
    """

    letters: set[str] = field(default_factory=set)
    longs: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    after_dashes: list[str] | None = None
    unknown: bool = False

    def has(self, names: str) -> bool:
        """Whether one of these options is given; long options may be shortened."""
        return any(
            any(name.startswith(each) for each in self.longs)
            if name.startswith("--")
            else name[1:] in self.letters
            for name in names.split()
        )

    @property
    def operands(self) -> list[str]:
        """All words that are not options."""
        return [*self.plain, *(self.after_dashes or ())]


def arguments(words: Words, *, values: str = "", more_follow: bool = False) -> Arguments:
    """Parse the words after a subcommand. `values` are its options that take another word."""
    taking = values.split()
    found = Arguments(unknown=more_follow)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word is None:
            found.unknown = True
        elif word == "--":
            found.unknown = found.unknown or None in words[at:]
            found.after_dashes = [each for each in words[at:] if each is not None]
            break
        elif word.startswith("--"):
            name, equals, _ = word.partition("=")
            found.longs.append(name)
            if name.startswith("--pathspec-f"):
                found.unknown = True
            at += 1 if not equals and name in taking else 0
        elif word.startswith("-") and len(word) > 1:
            at += _combined(word[1:], taking, found.letters)
        else:
            found.plain.append(word)
    return found


def _combined(letters: str, taking: Sequence[str], found: set[str]) -> int:
    """Parse combined short options. Returns how many further words they take."""
    for at, letter in enumerate(letters):
        found.add(letter)
        if f"-{letter}" in taking:
            return 1 if at == len(letters) - 1 else 0
    return 0
