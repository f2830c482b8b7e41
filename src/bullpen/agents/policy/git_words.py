"""The words of a git command: its options, what they take, and the paths behind them. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

GLOBAL_VALUES = frozenset(
    ["-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source"]
)
_LED_AWAY = ("--git-dir", "--work-tree", "--bare")


@dataclass(slots=True)
class Front:
    """What stands in front of the subcommand.

    `where` is None if it is not known which directory git goes to, `led` if it may work on another
    tree than that of the directory. `set` are the settings that hold for this command.
    """

    where: str | None
    led: bool = False
    set: dict[str, str] = field(default_factory=dict)
    rest: list[str | None] = field(default_factory=list)


def front(words: Sequence[str | None], where: str | None) -> Front:
    """Read what stands between `git` and its subcommand."""
    found = Front(where)
    at = 1
    while at < len(words):
        word = words[at]
        if word is None or not word.startswith("-"):
            break
        name, equals, value = word.partition("=")
        given: str | None = value if equals else None
        if word in GLOBAL_VALUES:
            at += 1
            given = words[at] if at < len(words) else None
        if name.startswith(_LED_AWAY):
            found.led = True
        if word == "-C":
            found.where = (
                None if given is None or found.where is None else os.path.join(found.where, given)
            )
        elif word == "-c" and given is not None:
            key, _, setting = given.partition("=")
            found.set[key.lower()] = setting
        at += 1
    found.rest = list(words[at:])
    return found


@dataclass(slots=True)
class Arguments:
    """What stands behind a subcommand.

    `behind` is what stands behind `--`, or None if there is no such word. `unknown`: some words are
    not written out, or are read from a file.
    """

    letters: set[str] = field(default_factory=set)
    longs: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    behind: list[str] | None = None
    unknown: bool = False

    def said(self, *names: str) -> bool:
        """Whether an option is given: a long one perhaps shortened, a letter among others."""
        for name in names:
            if not name.startswith("--"):
                if name[1:] in self.letters:
                    return True
            elif any(name.startswith(each) for each in self.longs):
                return True
        return False

    @property
    def operands(self) -> list[str]:
        """All words that are no options."""
        return [*self.plain, *(self.behind or ())]

    @property
    def paths(self) -> tuple[str, ...] | None:
        """All words that are no options, as paths; None if more paths may be meant."""
        return None if self.unknown else tuple(self.operands)


def arguments(words: Sequence[str | None], *, values: str = "", fed: bool = False) -> Arguments:
    """Read what stands behind a subcommand. `values` are its options that take another word."""
    taking = values.split()
    found = Arguments(unknown=fed)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word is None:
            found.unknown = True
        elif word == "--":
            found.unknown = found.unknown or None in words[at:]
            found.behind = [each for each in words[at:] if each is not None]
            break
        elif word.startswith("--"):
            name, equals, _ = word.partition("=")
            found.longs.append(name)
            if name.startswith("--pathspec-f"):
                found.unknown = True
            at += 1 if not equals and name in taking else 0
        elif word.startswith("-") and len(word) > 1:
            at += _cluster(word[1:], taking, found.letters)
        else:
            found.plain.append(word)
    return found


def _cluster(letters: str, taking: Sequence[str], found: set[str]) -> int:
    """Read short options; returns how many further words they take."""
    for at, letter in enumerate(letters):
        found.add(letter)
        if f"-{letter}" in taking:
            return 1 if at == len(letters) - 1 else 0
    return 0
