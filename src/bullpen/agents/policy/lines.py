"""What rules say of a command line: every part of it counts.

To permit, each program that would run must be one that a rule names. To forbid, one of them is
enough, also where it stands behind another that starts it.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bullpen.agents.policy.rules import Rule, Words, may_be_words, same_words
from bullpen.agents.policy.shell import Line, Part, Redirect, Word, dangerous, split

Certainty = Literal["sure", "perhaps"]

SHELLS = frozenset(["ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"])

# Programs that start another one, which stands among their words.
STARTERS = SHELLS | frozenset(
    """
    builtin busybox chroot chrt command coproc doas env eval exec find fd flock gdb ionice linux32
    linux64 ltrace nice nohup nsenter parallel perf pkexec prlimit proxychains runuser script
    setarch setpriv setsid ssh stdbuf strace su sudo systemd-run taskset time timeout toybox unshare
    uv npx bunx watch xargs
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
# Of these, those that take a whole command line as one word.
_READERS = SHELLS | frozenset(["env", "parallel", "script", "ssh", "su", "runuser", "watch"])
_LINE = re.compile(r"\w.*[\s;&|`$<>()]|[\s;&|`$<>()].*\w", re.DOTALL)
# With these in it, a word that is not literal can become any word, or several.
_ANYTHING = re.compile(r"[$`{<>()!]")
_NESTED_MAX = 4
_WORDS_MAX = 300

_HARMLESS_TARGETS = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr"])


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that forbids, and whether the line surely does what it is about."""

    rule: Rule
    certainty: Certainty


def forbidden(command: str, line: Line, rules: Sequence[Rule]) -> Found | None:
    """The first rule that is about any part of a line; the sure ones come first."""
    named = {word for rule in rules if rule.words for word in rule.words.pattern}
    commands, clear = _commands(line, named)
    perhaps: Found | None = None
    for rule in rules:
        if rule.words is None or rule.words.line == command.strip():
            return Found(rule, "sure")
        if any(may_be_words(rule.words, words, guess=False) for words in commands):
            return Found(rule, "sure")
        guessed = any(may_be_words(rule.words, words, guess=True) for words in commands)
        if perhaps is None and (guessed or not clear):
            perhaps = Found(rule, "perhaps")
    return perhaps


def _commands(line: Line, named: set[str], depth: int = 0) -> tuple[list[list[str | None]], bool]:
    """The words of everything that a line could start, and whether all of it could be read."""
    found: list[list[str | None]] = []
    clear = line.opaque is None
    for part in line.parts:
        words = [known(word, named) for word in part.words]
        if not words:
            continue
        if len(words) > _WORDS_MAX:
            words, clear = words[:_WORDS_MAX], False
        found.append(words)
        if program(words[0]) not in STARTERS:
            continue
        found += [words[i:] for i in range(1, len(words))]
        for text in texts_in(words):
            if depth == _NESTED_MAX:
                clear = False
                break
            inner, read = _commands(split(text), named, depth + 1)
            found += inner
            clear = clear and read
    return found, clear


def known(word: Word, named: set[str]) -> str | None:
    """A word as far as it matters to rules with these words; None if it could be one of them."""
    text = word.text
    if word.literal or text == "{}":
        return text
    if _ANYTHING.search(text):
        return None
    pattern = os.path.basename(text)
    return None if any(fnmatch.fnmatchcase(each, pattern) for each in named) else text


def texts_in(words: Sequence[str | None]) -> Iterator[str]:
    """The words that are command lines themselves: those behind a program that reads such."""
    names = [program(word) for word in words]
    first = next((i for i, name in enumerate(names) if name in _READERS), len(words))
    for word in words[first + 1 :]:
        if word is not None and _LINE.search(word):
            yield word


def program(word: str | None) -> str:
    """The name of a program, wherever it lies."""
    return os.path.basename(word or "")


def uncovered(
    command: str, line: Line, rules: Sequence[Rule], *, stays: Iterable[Part]
) -> tuple[list[Part], list[Rule]]:
    """The parts that no rule names, and the rules that were used.

    `stays` are the parts that only go to another directory inside: they need no rule.
    """
    harmless = list(stays)
    moved = moves(line)
    missing: list[Part] = []
    used: list[Rule] = []
    for part in line.parts:
        by = next((rule for rule in rules if _covers(rule, command, part, moved=moved)), None)
        if by is not None:
            used.append(by)
        elif part not in harmless:
            missing.append(part)
    return missing, used


def moves(line: Line) -> bool:
    """Whether a line goes to another directory on its way."""
    return any(_name(part) in ("cd", "pushd", "popd", None) for part in line.parts)


def _name(part: Part) -> str | None:
    if not part.words:
        return ""
    return part.words[0].text if part.words[0].literal else None


def _covers(rule: Rule, command: str, part: Part, *, moved: bool) -> bool:
    if rule.blanket:
        return True
    if rule.words is None or part.assigns:
        return False
    if rule.words.line is not None:
        return rule.words.line == command.strip()
    words = [word.text if word.literal else None for word in part.words]
    if not words or words[0] is None or not same_words(rule.words, words):
        return False
    if moved and "/" in words[0] and not words[0].startswith("/"):
        # It is not known which program this is, after a cd.
        return False
    if moved and os.path.basename(words[0]) == "git":
        # Any directory can be a repository of its own, whose settings make git run programs.
        return False
    return dangerous(part, said=_said(rule.words)) is None


def _said(words: Words) -> int:
    """How many words a rule spells out."""
    plain = itertools.takewhile(lambda word: "*" not in word, words.pattern)
    return sum(1 for _ in plain)


def goes_to(part: Part) -> str | None:
    """The directory that a part goes to, if it does nothing else and names it plainly."""
    if part.assigns or part.redirects or len(part.words) != 2:
        return None
    first, second = part.words
    if not (first.literal and second.literal and first.text == "cd"):
        return None
    return None if not second.text or second.text.startswith("-") else second.text


def redirects(line: Line) -> Iterator[Redirect]:
    """The files that a line opens by itself, but for those that cannot matter."""
    for part in line.parts:
        for each in part.redirects:
            if not (each.target.literal and each.target.text in _HARMLESS_TARGETS):
                yield each


def path_texts(line: Line, user_home: str) -> Iterator[str]:
    """Every text in a line that could be a path."""
    for part in line.parts:
        for word in part.words:
            text = word.text
            for variable in ("${HOME}", "$HOME"):
                if not word.literal and text.startswith(variable):
                    text = user_home + text.removeprefix(variable)
            yield text
            for mark in ("=", "@", ":"):
                if mark in text:
                    yield text.split(mark, 1)[1]
            if text.startswith("-") and "/" in text:
                yield text[text.index("/") :]
