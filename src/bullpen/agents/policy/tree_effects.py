"""What a command line does to a tree that several share: git's doing, files, or unknown. Pure.

Every program that the line could start counts. What is not known to be harmless is unknown, and
then a snapshot of the others' edits is the answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bullpen.agents.policy import lines
from bullpen.agents.policy.options import dangerous
from bullpen.agents.policy.shell import Line, Part, Word, split
from bullpen.agents.policy.whole_tree import Looks, Runs, Shared, Touch, Unknown, effects

_NESTED_MAX = 4
# With nothing but && between its commands, a line has gone where its last cd leads.
_FORKS = re.compile(r"[;\n|()`]|(?<!&)&(?!&)")
# Variables that lead git to another tree, index or settings.
_LEADS_AWAY = re.compile(r"\bGIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|CONFIG\w*|NAMESPACE)\+?=")
# Variables by which programs are made to run others, or to write files.
_STEERS = re.compile(
    r"\b(?:GIT_\w+|LD_\w+|PATH|PS4|PROMPT_COMMAND|BASH_ENV|ENV|IFS|CDPATH|HOME|PAGER|EDITOR|VISUAL)"
    r"\+?="
)
_COMMAND_LETTER = re.compile(r"-[a-z]*c")
_SET_IN_FRONT = re.compile(r"[A-Za-z_]\w*=|[0-9.]+[smhd]?$")

_FEEDERS = frozenset(["xargs", "parallel", "find", "fd", "fdfind"])
"""Programs that give the program which they start more words than are written."""

_PLAIN_STARTERS = frozenset(["command", "env", "nice", "nohup", "stdbuf", "time", "timeout"])
"""Programs that start exactly what their words name, and do nothing else."""

_INERT = frozenset(
    """
    : [ break cd continue declare dirs echo exit export false getopts hash kill let local popd
    printf pushd pwd read readonly return set shift sleep test times true type typeset ulimit umask
    unset wait
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""What changes no file, unless it is made to expand a subscript."""

_LOOKING = frozenset(
    """
    awk base64 basename cal cat cksum cmp column comm cut date df diff dirname du egrep expand
    expr fd fdfind fgrep file find fmt fold free gawk getconf grep groups head hexdump hostname id
    jq join less ls lsof man mawk md5sum mkdir more nl nproc numfmt od paste pgrep printenv ps
    readlink realpath rev rg sed seq sha1sum sha256sum sort stat strings sum tac tail tr tree tsort
    tty uname uniq uptime wc whereis which who whoami xxd yes yq
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""What only looks, unless one of its words is one of those that `options` knows."""

_OPERANDS = {
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
"""Programs that change the files that they name, and the options of theirs that take a word."""

_EDITORS = frozenset(["sed", "gsed"])
_COPIERS = {
    "cp": "-t --target-directory -S --suffix",
    "mv": "-t --target-directory -S --suffix",
    "ln": "-t --target-directory -S --suffix",
    "install": "-t --target-directory -S --suffix -m -o -g --mode --owner --group",
}


@dataclass(frozen=True, slots=True)
class Write:
    """A file that a command changes, as it is named, seen from one of some directories.

    If it is a directory, it is meant as a whole, unless there are `names` of what is put into it.
    """

    text: str
    wheres: tuple[str | None, ...]
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Reading:
    """What a command line does. `unknown` says why it could do anything else, or is None."""

    effects: list[Touch | Shared] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    unknown: str | None = None

    def doubt(self, why: str) -> None:
        """Note that nobody can say what it does. The first reason stays."""
        if self.unknown is None:
            self.unknown = why


def read(command: str, cwd: str, looks: Looks) -> Reading:
    """Read a command line that is to be run in a directory."""
    found = Reading()
    led = _LEADS_AWAY.search(command) is not None
    if _STEERS.search(command):
        found.doubt("a variable is set that changes what programs do")
    _Reader(found, looks, led=led).line(command, (cwd,), depth=0)
    return found


@dataclass(slots=True)
class _Reader:
    """Reads a line and those within it. `led`: git may be led to another place than it seems."""

    found: Reading
    looks: Looks
    led: bool

    def line(self, command: str, wheres: tuple[str | None, ...], *, depth: int) -> None:
        line = split(command)
        if line.opaque is not None:
            self.found.doubt(line.opaque)
        straight = line.opaque is None and not _FORKS.search(command)
        here = wheres if straight else tuple(_everywhere(line, wheres))
        for part in line.parts:
            self._files(part, here)
            if straight and lines.moves(Line((part,), None)) and part.words:
                here = _moved(part, here)
            elif part.words:
                self._part(part, here, depth)

    def _files(self, part: Part, wheres: tuple[str | None, ...]) -> None:
        for each in lines.redirects(Line((part,), None)):
            if each.writes:
                self._write(each.target, wheres)

    def _write(self, word: Word, wheres: tuple[str | None, ...], *names: str) -> None:
        if not word.literal and re.search(r"[$`<>(){}!]", word.text):
            self.found.doubt("a file that it changes is not written out")
        elif word.text:
            self.found.writes.append(Write(word.text, wheres, names))

    def _part(self, part: Part, wheres: tuple[str | None, ...], depth: int) -> None:
        words = [lines.known(word, {"git"}) for word in part.words]
        name = lines.program(words[0])
        if name in _INERT and not _subscripts(name, part):
            return
        if name in _LOOKING and dangerous(part) is None:
            return
        if _is_git(name):
            self._git(words, wheres, depth, fed=False)
            risk = dangerous(_here(part))
            if risk is not None:
                self.found.doubt(f"git can do anything with {risk}")
        elif name in _OPERANDS or name in _COPIERS or _edits_in_place(name, words):
            self._changes(name, part.words, wheres)
        elif name in lines.STARTERS:
            self._starter(name, part, words, wheres, depth)
        else:
            self.found.doubt(f"{name or 'a program that is not written out'} can do anything")

    def _git(
        self, words: Sequence[str | None], wheres: tuple[str | None, ...], depth: int, *, fed: bool
    ) -> None:
        for where in (None,) if self.led else wheres:
            for effect in effects(words, where, self.looks, fed=fed):
                if isinstance(effect, Unknown):
                    self.found.doubt(effect.why)
                elif isinstance(effect, Runs):
                    self.found.doubt("an alias of git starts another program")
                    if depth < _NESTED_MAX:
                        self.line(effect.text, (where,), depth=depth + 1)
                elif effect not in self.found.effects:
                    self.found.effects.append(effect)

    def _changes(self, name: str, words: Sequence[Word], wheres: tuple[str | None, ...]) -> None:
        """Files that a program changes which names them itself."""
        operands = list(_operands(words[1:], {**_OPERANDS, **_COPIERS}.get(name, "-e -f")))
        if name in _COPIERS:
            if name == "ln":
                self.found.doubt("a link leads somewhere else")
            as_it_is = any(word.text in {"-T", "--no-target-directory"} for word in words)
            into = _target_directory(words)
            self._copies(name, operands, into, wheres, as_it_is=as_it_is)
            return
        if _begins_with_none(name, words):
            operands = operands[1:]
        for word in operands:
            self._write(word, wheres)

    def _copies(
        self,
        name: str,
        operands: list[Word],
        into: Word | None,
        wheres: tuple[str | None, ...],
        *,
        as_it_is: bool,
    ) -> None:
        sources = operands if into is not None else operands[:-1]
        target = into if into is not None or not operands else operands[-1]
        if name == "mv":
            for word in sources:
                self._write(word, wheres)
        if target is not None:
            # Of a pattern it is not known which names come in: then the directory counts whole.
            plain = all(word.literal for word in sources) and not as_it_is
            names = [os.path.basename(word.text.rstrip("/")) for word in sources]
            self._write(target, wheres, *(names if plain else ()))

    def _starter(
        self,
        name: str,
        part: Part,
        words: Sequence[str | None],
        wheres: tuple[str | None, ...],
        depth: int,
    ) -> None:
        if depth >= _NESTED_MAX:
            self.found.doubt("its commands are nested too deep")
            return
        if name in lines.SHELLS and len(words) > 2 and _COMMAND_LETTER.fullmatch(words[1] or ""):
            text = words[2]
            if text is None:
                self.found.doubt("a command line within it is not written out")
            else:
                self.line(text, wheres, depth=depth + 1)
            return
        if name == "eval" and None not in words:
            self.line(" ".join(word or "" for word in words[1:]), wheres, depth=depth + 1)
            return
        at = _started(words) if name in _PLAIN_STARTERS else None
        if at is not None:
            self._part(Part(part.words[at:]), wheres, depth + 1)
            return
        self.found.doubt(f"{name} starts another program")
        for at in range(1, len(words)):
            if _is_git(lines.program(words[at])):
                self._git(words[at:], wheres, depth, fed=name in _FEEDERS)
        for text in lines.texts_in(words):
            self.line(text, wheres, depth=depth + 1)


def _is_git(name: str) -> bool:
    return name == "git" or name.startswith("git-")


def _subscripts(name: str, part: Part) -> bool:
    """Whether a builtin may find a subscript in its words, in which it would run commands."""
    return name not in {"echo", "cd", "kill"} and any("[" in word.text for word in part.words[1:])


def _here(part: Part) -> Part:
    """A git command without the directory that it is to go to: that alone is no risk."""
    words = list(part.words)
    while len(words) > 2 and words[1].text == "-C":
        del words[1:3]
    return Part(tuple(words))


def _begins_with_none(name: str, words: Sequence[Word]) -> bool:
    """Whether the first word that is no option is no file: a mode, an owner or a script."""
    if name in {"chmod", "chown", "chgrp"}:
        return not any(word.text.startswith("--reference") for word in words)
    scripts = ("-e", "-f", "--expression", "--file")
    return name in _EDITORS and not any(word.text.startswith(scripts) for word in words)


def _edits_in_place(name: str, words: Sequence[str | None]) -> bool:
    """Whether a program changes files where they lie, by its letter -i."""
    options = [word for word in words[1:] if word is not None and word.startswith("-")]
    found = any(re.match(r"-[A-Za-z]*i|--in-place", word) for word in options)
    return name in _EDITORS and found and None not in words


def _started(words: Sequence[str | None]) -> int | None:
    """Where the program stands that a plain starter starts; None if that is not plain."""
    for at, word in enumerate(words[1:], start=1):
        if word is None or word.startswith("-"):
            return None
        if not _SET_IN_FRONT.match(word):
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
    """What -t names for programs that copy."""
    for at, word in enumerate(words):
        if word.text in {"-t", "--target-directory"} and at + 1 < len(words):
            return words[at + 1]
        if word.text.startswith("--target-directory="):
            return Word(word.text.partition("=")[2], word.literal)
    return None


def _everywhere(line: Line, wheres: Sequence[str | None]) -> Iterator[str | None]:
    """Every directory that a part of a line may be run in."""
    found: list[str | None] = list(wheres)
    for part in line.parts:
        if lines.moves(Line((part,), None)) and part.words:
            found += _moved(part, tuple(found))
    yield from dict.fromkeys(found)


def _moved(part: Part, wheres: tuple[str | None, ...]) -> tuple[str | None, ...]:
    to = lines.goes_to(part)
    if to is None or to.startswith("~"):
        return (None,)
    return tuple(None if where is None else os.path.join(where, to) for where in wheres)
