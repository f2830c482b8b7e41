"""Decide whether a command line only reads files of the project.

Such a line needs no rule: it shows an agent no more than its Read, Glob and Grep tools do. Every
part must be in the table, its program must be one of the system, and every path must be one that
the Read tool may read unasked. In doubt, a line is not in the set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bullpen.agents.contracts.call import CommandEnvironment
from bullpen.agents.permissions.reading.program_search import is_system_program
from bullpen.agents.permissions.reading.quiet_repository import follows_submodules, is_quiet
from bullpen.agents.permissions.reading.reading_table import (
    BUILTINS,
    FILTERS,
    READING,
    SUBMODULES_READ,
    entry_for,
    reads_below,
)
from bullpen.agents.permissions.rule_language.paths import globbed, real_path
from bullpen.agents.permissions.shell import match
from bullpen.agents.permissions.shell.harmless.judge import walk_through
from bullpen.agents.permissions.shell.parse import CommandLine, LinePart, Redirect, Word

_WORDS_MAX = 200
_FILES_MAX = 300
# A pattern whose matches are known: no sets, no braces, nothing that bash computes.
_PATTERN = re.compile(r"[^\[\]{}()$`~!<>\\'\"]*")
_INPUT_KEYS = frozenset(["command", "description", "timeout"])
_LEADS_BASH = re.compile(r"BASH_.*|ENV|SHELLOPTS|CDPATH|GLOBIGNORE|IFS|PS4|PROMPT_COMMAND")
_LEADS_PROGRAMS = frozenset(
    """
    DYLD_INSERT_LIBRARIES GREP_OPTIONS LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD LS_OPTIONS MAGIC
    POSIXLY_CORRECT RIPGREP_CONFIG_PATH
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_GIT_HARMLESS = re.compile(r"GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)")


@dataclass(frozen=True, slots=True)
class ReadingRights:
    """What a line may read: `may_read` says it of a path, `hides` that files below are denied."""

    cwd: str
    user_home: str
    roots: tuple[str, ...]
    environment: CommandEnvironment
    may_read: Callable[[str], bool]
    hides: Callable[[], bool]


def takes_only(given: Iterable[str]) -> bool:
    """Whether the input of a call has only fields that change nothing about what is read."""
    return set(given) <= _INPUT_KEYS


def reads_only(command: str, line: CommandLine, rights: ReadingRights) -> bool:
    """Whether a line does nothing but read files that may be read unasked."""
    if line.opaque is not None or not line.parts or "<<" in command:
        return False
    if _misled(rights.environment):
        return False
    parts = list(line.parts)
    bases = [rights.cwd]
    to = match.goes_to(parts[0])
    if to is not None and len(parts) > 1:
        bases.append(os.path.join(rights.cwd, to))
        if not _is_folder(bases[1], rights):
            return False
        parts = parts[1:]
    judge = _Parts(rights, tuple(bases))
    return all(judge.reads(part) for part in parts)


def filters_only(command: str, part: LinePart, rights: ReadingRights) -> bool:
    """Whether a part reads only its input, so that it may stand behind any other command."""
    if "<<" in command or _misled(rights.environment) or not part.words:
        return False
    name = part.words[0].text
    judge = _Parts(replace(rights, may_read=lambda _path: False), (rights.cwd,))
    if name in {"echo", "true", "false", "pwd"}:
        return judge.reads(part)
    recursive = reads_below(name, [word.text for word in part.words[1:]])
    return name in FILTERS and not recursive and judge.reads(part)


def _misled(environment: CommandEnvironment) -> bool:
    """Whether a variable changes what bash or a program does."""
    return any(
        _LEADS_BASH.fullmatch(name) or name in _LEADS_PROGRAMS or name.startswith("BASH_FUNC")
        for name in environment.variables
    )


def _is_folder(path: str, rights: ReadingRights) -> bool:
    return "~" not in path and rights.may_read(path) and os.path.isdir(path)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Judges the parts of a line that may run in one of these directories."""

    rights: ReadingRights
    bases: tuple[str, ...]

    def reads(self, part: LinePart) -> bool:
        """Whether a part only reads."""
        if part.assigns or len(part.words) > _WORDS_MAX:
            return False
        if not all(self._opens(each.target, writes=each.writes) for each in _opened(part)):
            return False
        return not part.words or all(self._reads_in(part, base) for base in self.bases)

    def _opens(self, target: Word, *, writes: bool) -> bool:
        return not writes and target.literal and self.inside(target.text, glob=False)

    def _reads_in(self, part: LinePart, base: str) -> bool:
        words = _expanded(part.words, base)
        if words is None:
            return False
        texts = [word.text for word in words[1:]]
        unknown, key = walk_through(words, READING, self, partial(entry_for, words=texts))
        if unknown is not None or key not in READING or "/" in words[0].text:
            return False
        if (key == "git" and not texts) or not self._finds(words[0].text):
            return False
        if key == "diff" and any(os.path.isdir(os.path.join(base, text)) for text in texts):
            # It follows the links in a directory.
            return False
        if reads_below(key, texts) and (not self.rights.may_read(base) or self.rights.hides()):
            return False
        return words[0].text != "git" or self._is_quiet(base, key, texts)

    def _finds(self, name: str) -> bool:
        if name in BUILTINS:
            return True
        return is_system_program(name, self.rights.environment.path, self.rights.roots)

    def _is_quiet(self, base: str, key: str, texts: Sequence[str]) -> bool:
        rights = self.rights
        strange = any(
            name.startswith("GIT_") and not _GIT_HARMLESS.fullmatch(name)
            for name in rights.environment.variables
        )
        home = real_path(rights.user_home)
        if strange or any(home == root or home.startswith(f"{root}/") for root in rights.roots):
            return False
        given = [text for text in texts if text.startswith("--ignore-submodules")]
        into = key in SUBMODULES_READ and given != ["--ignore-submodules"]
        return is_quiet(base, submodules=into) and not follows_submodules(rights.user_home)

    def inside(self, text: str, *, glob: bool) -> bool:
        """Whether a path may be read, in every directory that the line may be in."""
        if glob or not text or text.startswith("~"):
            return False
        return all(self.rights.may_read(os.path.join(base, text)) for base in self.bases)

    def writable(self, text: str, *, glob: bool) -> bool:
        """Nothing is written."""
        return False

    def exists(self, text: str) -> bool:
        """Every name may be that of a file."""
        return True


def _opened(part: LinePart) -> list[Redirect]:
    return list(match.redirects(CommandLine((part,), None, None)))


def _expanded(words: Sequence[Word], base: str) -> list[Word] | None:
    """The words as the program gets them; None if they are not known."""
    made: list[Word] = []
    if any(sign in base for sign in "*?["):
        return list(words) if all(word.literal for word in words) else None
    for word in words:
        if word.literal:
            made.append(word)
            continue
        text = word.text
        if not _PATTERN.fullmatch(text) or ".." in text.split("/") or not made:
            return None
        found = globbed(os.path.join(base, text))
        if found is None or len(made) + len(found) > _FILES_MAX:
            return None
        prefix = "" if text.startswith("/") else base.rstrip("/") + "/"
        if not all(each.startswith(prefix) for each in found):
            return None
        names = [each.removeprefix(prefix) for each in found] or [text]
        made += [Word(name, literal=True) for name in sorted(names)]
    return made
