"""Match rules against every part of a command line.

To allow, each program that would run must match a rule. To deny, one match is enough, even for a
program that another one starts.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from bullpen.agents.permissions.rule_language.rule import Rule, may_be_words, same_words
from bullpen.agents.permissions.rule_language.rule import Words as RuleWords
from bullpen.agents.permissions.shell.harmless.judge import (
    ALL_FILES,
    Files,
    first_unknown,
    is_known,
)
from bullpen.agents.permissions.shell.parse import CommandLine, LinePart, Redirect, Word, split

Certainty = Literal["sure", "perhaps"]
Words = Sequence[str | None]
"""The words of a command. None is a word that is known only when the command runs."""

SHELLS = frozenset(["ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"])

# Programs that start another program named in their words.
STARTERS = SHELLS | frozenset(
    """
    builtin busybox chroot chrt command coproc doas env eval exec find fd flock gdb ionice linux32
    linux64 ltrace nice nohup nsenter parallel perf pkexec prlimit proxychains runuser script
    setarch setpriv setsid ssh stdbuf strace su sudo systemd-run taskset time timeout toybox unshare
    at batch bunx bundle direnv expect hatch mise npx nix-shell pdm pipenv pipx poetry sg tmux uv
    uvx watch xargs
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
# Those of them that take a whole command line as one word.
_READERS = SHELLS | frozenset(
    ["env", "flock", "npx", "parallel", "runuser", "script", "sg", "ssh", "su", "tmux", "watch"]
)
_LETTER = re.compile(r"\w")
_LINE_SIGN = re.compile(r"[\s;&|`$<>()]")
# With these in it, a word that is not literal can expand to any word, or several.
_ANYTHING = re.compile(r"[$`{<>()!]")
_NESTED_MAX = 4
_WORDS_MAX = 300
_STARTER_WORDS_MAX = 60

_HARMLESS_TARGETS = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr"])


@dataclass(frozen=True, slots=True)
class Matched:
    """A deny rule, and whether the line certainly matches it."""

    rule: Rule
    certainty: Certainty


@dataclass(slots=True)
class _Runs:
    """The commands that a line runs, or perhaps runs. Not `clear` if there may be others."""

    certain: list[Words] = field(default_factory=list)
    possible: list[Words] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    clear: bool = True


def forbidden(command: str, line: CommandLine, rules: Sequence[Rule]) -> Matched | None:
    """The first rule that matches any part of a line; certain matches come first."""
    named = frozenset(word for rule in rules if rule.words for word in rule.words.pattern)
    command = command.strip()
    runs = _Runs()
    _find_runs(line, named, runs)
    perhaps: Matched | None = None
    for rule in rules:
        words = rule.words
        if words is None or words.line == command:
            return Matched(rule, "sure")
        starts = [each for each in runs.certain if _may_start(words, each)]
        if any(may_be_words(words, each, guess=False) for each in starts):
            return Matched(rule, "sure")
        if perhaps is None and (
            not runs.clear
            or any(may_be_words(words, each, guess=True) for each in starts)
            or any(
                _may_start(words, each) and may_be_words(words, each, guess=True)
                for each in runs.possible
            )
            or any(_mentions(text, words) for text in runs.texts)
        ):
            perhaps = Matched(rule, "perhaps")
    return perhaps


def _may_start(words: RuleWords, given: Words) -> bool:
    """Whether the first word can match: quick, and true for nearly none."""
    if not words.pattern:
        return True
    first = given[0]
    return first is None or "*" in words.pattern[0] or program(first) == program(words.pattern[0])


def _mentions(text: str, words: RuleWords) -> bool:
    """Whether a text for another program has all words of a rule, one after the other."""
    at = 0
    for wanted in words.pattern:
        if "*" in wanted:
            continue
        if wanted not in text:
            return False
        found = re.compile(rf"(?<![\w.-]){re.escape(wanted)}(?![\w-])").search(text, at)
        if found is None:
            return False
        at = found.end()
    return at > 0


def _find_runs(line: CommandLine, named: frozenset[str], runs: _Runs, depth: int = 0) -> None:
    """Find the words of every command that a line could run."""
    runs.clear = runs.clear and line.opaque is None
    for part in line.parts:
        words = [known(word, named) for word in part.words[:_WORDS_MAX]]
        if not words:
            continue
        if len(part.words) > _WORDS_MAX:
            runs.clear = False
        runs.certain.append(words)
        name = program(words[0])
        if name == "git" and any(word and "alias." in word for word in words):
            runs.clear = False
        starts = name in STARTERS
        if not starts and is_known(part) and first_unknown(part, files=ALL_FILES) is None:
            continue
        runs.texts += [word for word in words[1:] if word and _LINE_SIGN.search(word)]
        if len(words) > _STARTER_WORDS_MAX:
            words, runs.clear = words[:_STARTER_WORDS_MAX], runs.clear and not starts
        if not starts:
            runs.possible += [words[i:] for i in range(1, len(words)) if words[i] in named]
            continue
        _find_started(name, words, runs)
        for text in texts_in(words):
            if depth == _NESTED_MAX:
                runs.clear = False
                break
            _find_runs(split(text), named, runs, depth + 1)


def _find_started(name: str, words: Words, runs: _Runs) -> None:
    """Find the commands in the words of a program that starts another."""
    if (name in SHELLS and _reads_input(words)) or name in {"at", "batch", "parallel"}:
        runs.clear = False
    given = list(words)
    if name == "xargs":
        # Its input adds words to the program that it names, or is the program.
        if any(program(word) not in STARTERS and not _is_option(word) for word in words[1:]):
            given.append(None)
        elif len(words) > 1 and not all(map(_is_option, words[1:])):
            runs.clear = False
    starts = [i for i in range(1, len(given)) if given[i] is not None]
    if len(starts) < len(words) - 1:
        # One of its words is known only when it runs: it can be any program.
        runs.certain.append([None])
    runs.certain += [given[i:] for i in starts]


def _is_option(word: str | None) -> bool:
    return word is not None and (word.startswith("-") or word.isdigit() or word == "{}")


def _reads_input(words: Words) -> bool:
    """Whether a shell runs what it reads from its input: it is given neither a text nor a file."""
    options = [word for word in words[1:] if word is not None and word.startswith(("-", "+"))]
    if any(word in {"--version", "--help"} for word in options):
        return False
    if any("c" in word for word in options if not word.startswith("--")):
        return False
    if any("s" in word for word in options if not word.startswith("--")):
        return True
    return len(options) == len(words) - 1


def known(word: Word, named: frozenset[str]) -> str | None:
    """A word, for rules with these words; None if it could be one of them."""
    text = word.text
    if word.literal or text == "{}":
        return text
    if _ANYTHING.search(text):
        return None
    return None if _may_expand_to(os.path.basename(text), named) else text


@lru_cache(maxsize=1024)
def _may_expand_to(pattern: str, named: frozenset[str]) -> bool:
    return any(fnmatch.fnmatchcase(each, pattern) for each in named)


def texts_in(words: Sequence[str | None]) -> Iterator[str]:
    """Words that are themselves command lines: arguments of programs that take one."""
    names = [program(word) for word in words]
    first = next((i for i, name in enumerate(names) if name in _READERS), len(words))
    for word in words[first + 1 :]:
        if word is not None and _LINE_SIGN.search(word) and _LETTER.search(word):
            yield word


def program(word: str | None) -> str:
    """The name of a program without its directory."""
    return os.path.basename(word or "")


def uncovered(
    command: str,
    line: CommandLine,
    rules: Sequence[Rule],
    *,
    stays: Iterable[LinePart],
    files: Files | None = None,
) -> tuple[list[LinePart], list[Rule]]:
    """The parts that no rule covers, and the rules that were used. `stays` need no rule."""
    harmless = {id(part) for part in stays}
    command = command.strip()
    moved = moves(line)
    missing: list[LinePart] = []
    used: list[Rule] = []
    for part in line.parts:
        covering = (rule for rule in rules if _covers(rule, command, part, files, moved=moved))
        by = next(covering, None)
        if by is not None:
            used.append(by)
        elif id(part) not in harmless:
            missing.append(part)
    return missing, used


def moves(line: CommandLine) -> bool:
    """Whether a line changes the directory."""
    programs = [part.words[0] for part in line.parts if part.words]
    return any(not word.literal or word.text in ("cd", "pushd", "popd") for word in programs)


def _covers(rule: Rule, command: str, part: LinePart, files: Files | None, *, moved: bool) -> bool:
    if rule.blanket:
        return True
    if rule.words is not None and rule.words.line is not None:
        return rule.words.line == command
    if rule.words is None or part.assigns:
        return False
    words = [word.text if word.literal else None for word in part.words]
    if not words or words[0] is None or not same_words(rule.words, words):
        return False
    if moved and "/" in words[0] and not words[0].startswith("/"):
        # After a cd, a relative path may be any program.
        return False
    if moved and os.path.basename(words[0]) == "git":
        # Any directory can be a repository whose settings make git run programs.
        return False
    named = list(itertools.takewhile(lambda word: "*" not in word, rule.words.pattern))
    return first_unknown(part, said=len(named), files=files) is None


def goes_to(part: LinePart) -> str | None:
    """The directory that a part changes to, if it does nothing else and names it literally."""
    if part.assigns or part.redirects or len(part.words) != 2:
        return None
    first, second = part.words
    if not (first.literal and second.literal and first.text == "cd"):
        return None
    return None if not second.text or second.text.startswith("-") else second.text


def redirects(line: CommandLine) -> Iterator[Redirect]:
    """The redirections of a line, except those that cannot matter."""
    for part in line.parts:
        for each in part.redirects:
            if not (each.target.literal and each.target.text in _HARMLESS_TARGETS):
                yield each
