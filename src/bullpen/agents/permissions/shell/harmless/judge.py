"""Decide whether a rule with an open end covers the words behind it.

A rule such as `Bash(git log:*)` is meant for reading history, but `git log --output=FILE` writes a
file. So for every program that Bullpen knows there is a table of harmless words. "Harmless" means
that the program runs nothing and writes nothing that the rule is not about. Everything else needs
approval, unless the rule itself names the word.

A program that is in no table is the user's own: a rule covers it with every word. An interpreter
runs any code, so a rule that names nothing else (`Bash(python:*)`) covers everything as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bullpen.agents.permissions.shell.harmless.build_table import OTHERS, PYTHON
from bullpen.agents.permissions.shell.harmless.git_table import GIT
from bullpen.agents.permissions.shell.harmless.notation import Harmless, Tables
from bullpen.agents.permissions.shell.harmless.runners import (
    NEVER,
    inner_program,
    is_runner,
    module_of,
    program_name,
)
from bullpen.agents.permissions.shell.harmless.scripts import (
    awk_script,
    sed_words,
    tar_words,
)
from bullpen.agents.permissions.shell.harmless.text_table import TEXT
from bullpen.agents.permissions.shell.words import LinePart, Word

_INTERPRETED = r"""
python, python2, python3, pypy, pypy3: -uBEIsSOqvbdPRVh -W=warning -X=name --version --help *rest
node, nodejs: -vc --test --test-only --test-name-pattern= --test-skip-pattern=
  --test-reporter=name --test-concurrency= --test-timeout= --watch --no-warnings --trace-warnings
  --check --version --enable-source-maps --experimental-strip-types --experimental-test-coverage
  *rest
deno, bun, ruby, perl, php, lua, luajit, tclsh, Rscript, julia, elixir, osascript: -vwc --version
  *rest
bash, sh, dash, zsh, ksh, mksh, ash, fish: -exun --version *rest
"""

TABLE = Tables(TEXT, GIT, PYTHON, OTHERS, _INTERPRETED)
INTERPRETERS = frozenset(
    name.strip()
    for names in re.findall(r"(?m)^(\S.*?): ", _INTERPRETED)
    for name in names.split(",")
)
_VERSIONED = re.compile(r"(python|pypy|ruby|perl|php|lua)[0-9.]+")
_NOTHING = Harmless()

SETTERS = frozenset(
    """
    export declare typeset local readonly read mapfile readarray let unset hash getopts history fc
    bind complete compgen compopt pushd popd dirs wait jobs umask
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Builtins that set variables or directories, which changes later words, or run something."""


class Files(Protocol):
    """What is known about the paths that a command names."""

    def inside(self, text: str, *, glob: bool) -> bool:
        """Whether a path is certainly in the agent's directories."""

    def writable(self, text: str, *, glob: bool) -> bool:
        """Whether it is inside, and no guarded file."""

    def exists(self, text: str) -> bool:
        """Whether there is something at this path."""


@dataclass(frozen=True, slots=True)
class SameForAll:
    """The same answer for every path: it may be read or not, and changed or not."""

    readable: bool
    changeable: bool

    def inside(self, text: str, *, glob: bool) -> bool:
        """Whether paths may be read."""
        return self.readable

    def writable(self, text: str, *, glob: bool) -> bool:
        """Whether paths may be changed."""
        return self.changeable

    def exists(self, text: str) -> bool:
        """Whether a name may be that of a file."""
        return not self.readable


NO_FILES = SameForAll(readable=False, changeable=False)
READ_FILES = SameForAll(readable=True, changeable=False)
ALL_FILES = SameForAll(readable=True, changeable=True)


def first_unknown(part: LinePart, *, said: int = 0, files: Files | None = None) -> str | None:
    """The first word of a command that is not known to be harmless; None if there is none.

    `said` is how many of the first words the rule itself names; these are not judged.
    """
    words = part.words
    if not words or said >= len(words):
        return None
    return _of_program(words, said, files or NO_FILES)


def _plain(name: str) -> str:
    """The name of an interpreter without its version."""
    versioned = _VERSIONED.fullmatch(name)
    return name if versioned is None or name in TABLE else versioned[1]


def is_interpreter(name: str) -> bool:
    """Whether the purpose of a program is to run code."""
    return _plain(name) in INTERPRETERS


def is_known(part: LinePart) -> bool:
    """Whether a program is in a table, so that its words can be judged."""
    if not part.words:
        return False
    name = _plain(program_name(part.words[0]))
    known = (
        name in TABLE or name in TABLE.with_subcommands or name in {"sed", "tar", *SETTERS, *NEVER}
    )
    return known or is_runner(part.words)


def _of_program(
    words: Sequence[Word], said: int, files: Files, *, module: bool = False
) -> str | None:
    name = program_name(words[0])
    if name in SETTERS or name in NEVER:
        return name
    if said == 1 and is_interpreter(name):
        return None
    if not module and is_runner(words):
        at = inner_program(words)
        if at is None or said <= at:
            return name
        inner = list(words[at:])
        if name == "xargs":
            # The input adds words.
            inner.append(Word("$input", literal=False))
        return _of_program(inner, said - at, files, module=module_of(words, at))
    if name == "sed":
        return sed_words(words, said)
    if name == "tar":
        return tar_words(words, said, lambda text: files.writable(text, glob=False))
    key = f"python -m {name}" if module and f"python -m {name}" in TABLE else _plain(name)
    if key not in TABLE and key not in TABLE.with_subcommands:
        return None
    return _Walk(words, said, files, key).first()


def walk_through(
    words: Sequence[Word], table: Tables, files: Files, entry: Callable[[str], str]
) -> tuple[str | None, str]:
    """The first word that is not in the entry of a command, and the name of that entry.

    `entry` chooses among the entries for one command.
    """
    walk = _Walk(words, 1, files, program_name(words[0]), table=table, entry=entry)
    return walk.first(), entry(walk.key)


def may_be_option(word: Word) -> bool:
    """Whether a word that is not literal can expand to an option, or to a file named like one."""
    if word.literal:
        return False
    return "$" in word.text or "`" in word.text or word.text[:1] in {"-", "*", "?", "[", "{", "<"}


@dataclass(slots=True)
class _Walk:
    """Goes through the words behind a program with its table."""

    words: Sequence[Word]
    said: int
    files: Files
    key: str
    at: int = 1
    operands: int = 0
    said_operands: int = 0
    only_operands: bool = False
    free: bool = False
    table: Tables = field(default_factory=lambda: TABLE)
    entry: Callable[[str], str] = str

    def first(self) -> str | None:
        spec = self._spec()
        while self.at < len(self.words) and not self.free:
            start, word = self.at, self.words[self.at]
            self.at += 1
            if spec.anything:
                return None
            fine, spec = self._word(word, spec)
            if not fine and start >= self.said:
                return word.text
        given = {word.text for word in self.words}
        return self.words[0].text if spec.needs and not spec.needs & given else None

    def _spec(self) -> Harmless:
        return self.table.get(self.entry(self.key), _NOTHING)

    def _word(self, word: Word, spec: Harmless) -> tuple[bool, Harmless]:
        """Judge one word; the words after it may have another table."""
        text = word.text
        if may_be_option(word) or (text.startswith("@") and not spec.at):
            return False, spec
        if text == "--" and not self.only_operands:
            if spec.one_dash and spec.tail is None:
                # Such programs read options behind it as well.
                return False, spec
            self.only_operands = spec.tail is None
            return True, spec.tail or spec
        if text.startswith("-") and len(text) > 1:
            # Some programs look for options behind `--` too: `pytest -- -pPLUGIN`.
            return not self.only_operands and self._option(word, spec), spec
        return self._operand(word, spec)

    def _operand(self, word: Word, spec: Harmless) -> tuple[bool, Harmless]:
        further = f"{self.key} {word.text}"
        if (
            self.operands == 0
            and not self.only_operands
            and (further in self.table or further in self.table.groups)
        ):
            self.key = further
            return word.literal, self._spec()
        if not spec.operands:
            return False, _NOTHING
        kind = spec.operands[min(self.operands, len(spec.operands) - 1)]
        self.operands += 1
        is_said = self.at <= self.said
        if kind == "rest":
            self.free = True
            return is_said or self._is("inside", word), spec
        if kind == "target" and self.said_operands and not is_said:
            # The rule names a target: another one is other code.
            return False, spec
        if kind == "copy":
            kind = "write" if self.at == len(self.words) else "any"
        self.said_operands += is_said
        return self._is(kind, word), spec

    def _option(self, word: Word, spec: Harmless) -> bool:
        text = word.text
        if any(pattern.fullmatch(text) for pattern in spec.patterns):
            return True
        if text.startswith("--") or spec.one_dash:
            name, attached, value = text.lstrip("-").partition("=")
            if text.startswith("---") or name not in spec.longs:
                return False
            return self._value(spec.longs[name], spec, value if attached else None)
        if "#" in spec.shorts and text[1:].isdigit():
            return True
        for at, letter in enumerate(text[1:], start=1):
            if letter not in spec.shorts:
                return False
            kind = spec.shorts[letter]
            if kind == "attached":
                return True
            if kind is not None:
                return self._value(kind, spec, text[at + 1 :] or None)
        return True

    def _value(self, kind: str | None, spec: Harmless, attached: str | None) -> bool:
        """Judge the value of an option. In the next word it may not look like an option."""
        if kind is None or (kind == "any" and attached is not None):
            return True
        if attached is not None:
            return self._is(kind, Word(attached, self.words[self.at - 1].literal))
        if self.at >= len(self.words):
            return kind != "devnull"
        following = self.words[self.at]
        if following.text.startswith("-") and following.text != "-":
            # The program takes it for the value, and then other words are its operands.
            return False
        if following.text.startswith("@") and not spec.at:
            return False
        if may_be_option(following) and not (kind == "text" and following.single):
            return False
        if self.at >= self.said and not self._is(kind, following):
            return False
        self.at += 1
        return True

    def _is(self, kind: str, word: Word) -> bool:
        glob = not word.literal
        if kind in {"inside", "write"}:
            return self._is_path(kind, word.text, glob=glob)
        if kind == "any" or (kind == "text" and word.single):
            return True
        return word.literal and _KINDS[kind](word.text, self.files)

    def _is_path(self, kind: str, text: str, *, glob: bool) -> bool:
        if text in {"-", "/dev/null", "/dev/stdout", "/dev/stderr"}:
            return True
        path = text.partition("::")[0] if kind == "inside" else text
        path = path.removesuffix("/...") or "."
        check = self.files.inside if kind == "inside" else self.files.writable
        return check(path, glob=glob)


_NAME = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_,:+=%*-]*")
_DOTTED = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.,:+=%*-]*")
_NUMBER = re.compile(r"[0-9.]+[smhd]?")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@-]*")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
_PACKAGE = re.compile(r"@?[A-Za-z0-9_][A-Za-z0-9_.,<>=!~^*\[\]-]*(?:[/@][A-Za-z0-9_.<>=~^*-]+)*")
_PROJECT = re.compile(r"\.(?:\[[A-Za-z0-9_,-]+\])?")
_REQUIREMENTS = re.compile(r"(?:requirements|constraints)(?:/[\w-]+|[\w.-]*)\.txt")
_WARNING = re.compile(r"[a-z]+(?::[^:]*(?::[A-Za-z]*)?)?")
_HTTP = re.compile(r"https?://[A-Za-z0-9][^\s]*|(?:localhost|127\.0\.0\.1)(?::[0-9]+)?(?:/[^\s]*)?")
_COUNT = re.compile(r"\+?[0-9]+[A-Za-z]{0,3}")
_LINES = r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$))?p|[0-9]+q"
_SED_PRINT = re.compile(rf"(?:{_LINES})(?:; *(?:{_LINES}))*")
_OUTSIDE = re.compile(r"[/~]|(?:.*/)?\.\.(?:/|$)")


def _writes_report(text: str, files: Files) -> bool:
    _, colon, path = text.partition(":")
    return not colon or path == "skip-covered" or files.writable(path, glob=False)


def _downloads(text: str, files: Files) -> bool:
    name = text.rpartition("/")[2] if text.count("/") > 2 else ""
    return bool(_HTTP.fullmatch(text)) and files.writable(name or "index.html", glob=False)


def _matching(pattern: re.Pattern[str]) -> Callable[[str, Files], bool]:
    return lambda text, files: pattern.fullmatch(text) is not None


_KINDS: dict[str, Callable[[str, Files], bool]] = {
    "none": lambda text, files: False,
    "text": lambda text, files: True,
    "plain": lambda text, files: not text.startswith(("@", "+")),
    "name": _matching(_NAME),
    "dotted": _matching(_DOTTED),
    "number": _matching(_NUMBER),
    "host": _matching(_HOST),
    "ref": _matching(_REF),
    "http": _matching(_HTTP),
    "package": lambda text, files: bool(
        _PROJECT.fullmatch(text) or (_PACKAGE.fullmatch(text) and not files.exists(text))
    ),
    "project": _matching(_PROJECT),
    "requirements": _matching(_REQUIREMENTS),
    "warning": _matching(_WARNING),
    "covreport": _writes_report,
    "download": _downloads,
    "awk": lambda text, files: awk_script(text),
    "target": lambda text, files: "=" not in text,
    "date": lambda text, files: text.startswith("+"),
    "dd": lambda text, files: (
        not text.startswith("of=") or files.writable(text.removeprefix("of="), glob=False)
    ),
    "format": lambda text, files: "%G" not in text,
    "curlformat": lambda text, files: not text.startswith("@") and "%output" not in text,
    "devnull": lambda text, files: text in {"/dev/null", "-"},
    "look": lambda text, files: text in {"GET", "HEAD", "OPTIONS"},
    "formatter": lambda text, files: text.isascii() and text.replace("-", "").isalpha(),
    "remote": lambda text, files: bool(_NAME.fullmatch(text)) and not files.exists(text),
    "repository": lambda text, files: not _OUTSIDE.match(text),
    "read": lambda text, files: text in {"-", "/dev/null"} or files.inside(text, glob=False),
    "pattern": lambda text, files: True,
    "count": _matching(_COUNT),
    "sedprint": _matching(_SED_PRINT),
    "artable": lambda text, files: text.lstrip("-") in {"t", "tv", "p"},
    "list": lambda text, files: text in {"list", "targets", "graph", "query", "commands"},
}
"""What a value or an operand must be. `inside`, `read`, `write`, `rest` and `copy` are paths."""
