"""Find what a command line does to a tree that several agents share. Pure.

It covers every program that the line could start. Anything not known to be harmless is unknown: a
snapshot of the others' edits is taken before it runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bullpen.agents.permissions.shell import match
from bullpen.agents.permissions.shell.git_effects import (
    GitRuns,
    Lookup,
    Shared,
    Touch,
    Unknown,
    effects,
)
from bullpen.agents.permissions.shell.git_words import Words
from bullpen.agents.permissions.shell.harmless.judge import READ_FILES, first_unknown
from bullpen.agents.permissions.shell.parse import CommandLine, LinePart, Word, split

Directories = tuple[str | None, ...]
"""The directories that a command may run in. None is an unknown one."""

_NESTED_MAX = 4
# Without these, a line has only && between its commands: each runs in the directory of the last cd.
_FORKS = re.compile(r"[;\n|()`]|(?<!&)&(?!&)")
# Variables that make git use another tree, index or settings.
_OTHER_TREE = re.compile(r"\bGIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|CONFIG\w*|NAMESPACE)\+?=")
# Variables that make programs run other programs, or write files.
_CHANGES_PROGRAMS = re.compile(
    r"\b(?:GIT_\w+|LD_\w+|PATH|PS4|PROMPT_COMMAND|BASH_ENV|ENV|IFS|CDPATH|HOME|PAGER|EDITOR|VISUAL)"
    r"\+?="
)
_COMMAND_LETTER = re.compile(r"-[a-z]*c")
_BEFORE_PROGRAM = re.compile(r"[A-Za-z_]\w*=|[0-9.]+[smhd]?$")

_ADD_WORDS = frozenset(["xargs", "parallel", "find", "fd", "fdfind"])
"""Programs that add words to the command that they start."""

_PLAIN_STARTERS = frozenset(["command", "env", "nice", "nohup", "stdbuf", "time", "timeout"])
"""Programs that only start the program in their words."""

_INERT = frozenset(
    """
    : [ break cd continue declare dirs echo exit export false getopts hash kill let local mkdir popd
    printf pushd pwd read readonly return set shift sleep test times true type typeset ulimit umask
    unset wait
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Builtins that change no file, unless a word has a subscript: bash runs commands in those."""

_READ_ONLY = frozenset(
    """
    awk base64 basename cal cat cksum cmp column comm cut date df diff dirname du egrep expand
    expr fd fdfind fgrep file find fmt fold free gawk getconf grep groups head hexdump hostname id
    jq join less ls lsof man mawk md5sum more nl nproc numfmt od paste pgrep printenv ps
    readlink realpath rev rg sed seq sha1sum sha256sum sort stat strings sum tac tail tr tree tsort
    tty uname uniq uptime wc whereis which who whoami xxd yes yq
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Programs that only read, with words that are known to be harmless."""

_CHANGERS = {
    "rm": "",
    "rmdir": "",
    "unlink": "",
    "shred": "-n -s",
    "touch": "-d -r -t --date --reference",
    "truncate": "-s -r --size --reference",
    "tee": "",
    "chmod": "--reference",
    "chown": "--reference --from",
    "chgrp": "--reference",
}
"""Programs that change the files they name, with their options that take another word."""

_EDITORS = frozenset(["sed", "gsed"])
_COPIERS = {
    "cp": "-t --target-directory -S --suffix",
    "mv": "-t --target-directory -S --suffix",
    "ln": "-t --target-directory -S --suffix",
    "install": "-t --target-directory -S --suffix -m -o -g --mode --owner --group",
}


@dataclass(frozen=True, slots=True)
class Write:
    """A file that a command changes, as it is written, relative to one of these directories.

    A directory counts with everything in it, unless `names` lists what is put into it.
    """

    text: str
    wheres: Directories
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class TreeReading:
    """What a command line does. `unknown` says why it could do anything, or is None."""

    effects: list[Touch | Shared] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    unknown: str | None = None

    def doubt(self, why: str) -> None:
        """Mark the line as unknown. The first reason stays."""
        if self.unknown is None:
            self.unknown = why


def read(command: str, cwd: str, lookup: Lookup) -> TreeReading:
    """Parse a command line that runs in a directory."""
    found = TreeReading()
    if _CHANGES_PROGRAMS.search(command):
        found.doubt("it sets a variable that changes what programs do")
    other_tree = _OTHER_TREE.search(command) is not None
    _Reader(found, lookup, other_tree=other_tree).line(command, (cwd,), depth=0)
    return found


@dataclass(slots=True)
class _Reader:
    """Reads a line and the lines within it. With `other_tree`, git may work on any tree."""

    found: TreeReading
    lookup: Lookup
    other_tree: bool

    def line(self, command: str, wheres: Directories, *, depth: int) -> None:
        line = split(command)
        if line.opaque is not None:
            self.found.doubt(line.opaque)
        straight = line.opaque is None and not _FORKS.search(command)
        here = wheres if straight else _everywhere(line, wheres)
        for part in line.parts:
            for each in match.redirects(CommandLine((part,), None)):
                if each.writes:
                    self._write(each.target, here)
            if straight and _changes_directory(part):
                here = _moved(part, here)
            elif part.words:
                self._part(part, here, depth)

    def _write(self, word: Word, wheres: Directories, *names: str) -> None:
        if not word.literal and re.search(r"[$`<>(){}!]", word.text):
            self.found.doubt("it changes a file that is known only when it runs")
        elif word.text:
            self.found.writes.append(Write(word.text, wheres, names))

    def _part(self, part: LinePart, wheres: Directories, depth: int) -> None:
        words = [match.known(word, frozenset(["git"])) for word in part.words]
        name = match.program(words[0])
        if name in _INERT and not _subscripts(name, part):
            return
        if name in _READ_ONLY and first_unknown(part, files=READ_FILES) is None:
            return
        if _is_git(name):
            self._git(words, wheres, depth)
            plain = _without_directory(part)
            risk = first_unknown(plain, files=READ_FILES)
            if risk is not None and not self._is_alias(plain, wheres):
                self.found.doubt(f"git can do anything with {risk}")
        elif name in _CHANGERS or name in _COPIERS or _edits_in_place(name, words):
            self._changes(name, part.words, wheres)
        elif name in match.STARTERS:
            self._starter(name, part, words, wheres, depth)
        else:
            program = name or "a program that is known only when it runs"
            self.found.doubt(f"{program} can do anything")

    def _is_alias(self, part: LinePart, wheres: Directories) -> bool:
        """Whether a git command is an alias and nothing else; its effects are known then."""
        return len(part.words) == 2 and all(
            where is not None and self.lookup.alias(where, part.words[1].text) is not None
            for where in wheres
        )

    def _git(
        self, words: Words, wheres: Directories, depth: int, *, more_follow: bool = False
    ) -> None:
        for where in (None,) if self.other_tree else wheres:
            for effect in effects(words, where, self.lookup, more_follow=more_follow):
                if isinstance(effect, Unknown):
                    self.found.doubt(effect.why)
                elif isinstance(effect, GitRuns):
                    self.found.doubt("a git alias starts another program")
                    if depth < _NESTED_MAX:
                        self.line(effect.text, (where,), depth=depth + 1)
                elif effect not in self.found.effects:
                    self.found.effects.append(effect)

    def _changes(self, name: str, words: Sequence[Word], wheres: Directories) -> None:
        """Add the files that a program changes and names in its words."""
        operands = list(_operands(words[1:], (_CHANGERS | _COPIERS).get(name, "-e -f")))
        if name in _COPIERS:
            self._copies(name, words, operands, wheres)
            return
        if _first_is_no_file(name, words):
            operands = operands[1:]
        for word in operands:
            self._write(word, wheres)

    def _copies(
        self, name: str, words: Sequence[Word], operands: list[Word], wheres: Directories
    ) -> None:
        if name == "ln":
            self.found.doubt("it creates a link, which can lead anywhere")
        target = _target_directory(words)
        sources = operands
        if target is None and operands:
            *sources, target = operands
        if name == "mv":
            for word in sources:
                self._write(word, wheres)
        if target is not None:
            # With a pattern it is unknown which names are added: then the whole directory counts.
            onto = any(word.text in {"-T", "--no-target-directory"} for word in words)
            plain = all(word.literal for word in sources) and not onto
            names = [os.path.basename(word.text.rstrip("/")) for word in sources]
            self._write(target, wheres, *(names if plain else ()))

    def _starter(
        self, name: str, part: LinePart, words: Words, wheres: Directories, depth: int
    ) -> None:
        if depth >= _NESTED_MAX:
            self.found.doubt("its commands are nested too deeply")
            return
        if name in match.SHELLS and len(words) > 2 and _COMMAND_LETTER.fullmatch(words[1] or ""):
            text = words[2]
            if text is None:
                self.found.doubt("it has a command line that is known only when it runs")
            else:
                self.line(text, wheres, depth=depth + 1)
            return
        if name == "eval" and None not in words:
            self.line(" ".join(word or "" for word in words[1:]), wheres, depth=depth + 1)
            return
        at = _started(words) if name in _PLAIN_STARTERS else None
        if at is not None:
            self._part(LinePart(part.words[at:]), wheres, depth + 1)
            return
        self.found.doubt(f"{name} starts another program")
        for at in range(1, len(words)):
            if _is_git(match.program(words[at])):
                self._git(words[at:], wheres, depth, more_follow=name in _ADD_WORDS)
        for text in match.texts_in(words):
            self.line(text, wheres, depth=depth + 1)


def _is_git(name: str) -> bool:
    return name == "git" or name.startswith("git-")


def _subscripts(name: str, part: LinePart) -> bool:
    """Whether a builtin may find a subscript in its words and run the commands in it."""
    return name not in {"echo", "cd", "kill"} and any("[" in word.text for word in part.words[1:])


def _without_directory(part: LinePart) -> LinePart:
    """A git command without -C and its directory, which are no risk."""
    words = list(part.words)
    while len(words) > 2 and words[1].text == "-C":
        del words[1:3]
    return LinePart(tuple(words))


def _first_is_no_file(name: str, words: Sequence[Word]) -> bool:
    """Whether the first operand is not a file but a mode, an owner or a script."""
    if name in {"chmod", "chown", "chgrp"}:
        return not any(word.text.startswith("--reference") for word in words)
    scripts = ("-e", "-f", "--expression", "--file")
    return name in _EDITORS and not any(word.text.startswith(scripts) for word in words)


def _edits_in_place(name: str, words: Words) -> bool:
    """Whether a program edits files in place, with its option -i."""
    options = [word for word in words[1:] if word is not None and word.startswith("-")]
    found = any(re.match(r"-[A-Za-z]*i|--in-place", word) for word in options)
    return name in _EDITORS and found and None not in words


def _started(words: Words) -> int | None:
    """The index of the program that a plain starter starts; None if it is unclear."""
    for at, word in enumerate(words[1:], start=1):
        if word is None or word.startswith("-"):
            return None
        if not _BEFORE_PROGRAM.match(word):
            return at
    return None


def _operands(words: Sequence[Word], values: str) -> Iterator[Word]:
    taking, at, only = values.split(), 0, False
    while at < len(words):
        word = words[at]
        at += 1
        if only or not word.text.startswith("-") or word.text == "-":
            yield word
        elif word.text == "--":
            only = True
        elif word.text in taking:
            at += 1


def _target_directory(words: Sequence[Word]) -> Word | None:
    """The directory that -t names for programs that copy."""
    for at, word in enumerate(words):
        if word.text in {"-t", "--target-directory"} and at + 1 < len(words):
            return words[at + 1]
        if word.text.startswith("--target-directory="):
            return Word(word.text.partition("=")[2], word.literal)
    return None


def _changes_directory(part: LinePart) -> bool:
    return bool(part.words) and match.moves(CommandLine((part,), None))


def _everywhere(line: CommandLine, wheres: Directories) -> Directories:
    """Every directory that a part of a line may run in."""
    found = wheres
    for part in filter(_changes_directory, line.parts):
        found += _moved(part, found)
    return tuple(dict.fromkeys(found))


def _moved(part: LinePart, wheres: Directories) -> Directories:
    to = match.goes_to(part)
    if to is None or to.startswith("~"):
        return (None,)
    return tuple(None if where is None else os.path.join(where, to) for where in wheres)
