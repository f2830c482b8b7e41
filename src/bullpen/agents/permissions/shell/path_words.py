"""Find every path that the words of a command line could mean, or that this is impossible.

A rule that denies a file must see it however it is written: `.env`, `./.en?`, `{.env,x}` or
`$PWD/.env`. A word whose meaning is known only when it runs is a doubt.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bullpen.agents.permissions.shell import match
from bullpen.agents.permissions.shell.parse import CommandLine, LinePart, Word, split

_TEXTS_MAX = 400
_BASES_MAX = 8
_ALTERNATIVES_MAX = 64
_BRACED_CHARS_MAX = 1_000
_MARKS_MAX = 4
_NAME_BYTES_MAX = 255
_PATH_BYTES_MAX = 4095
_NESTED_MAX = 4

_VARIABLE = re.compile(r"\$\{(HOME|PWD)\}|\$(HOME|PWD)(?![A-Za-z0-9_])")
_EXPANSION = re.compile(r"[$`]|[<>]\(")
_GIT_MAGIC = re.compile(r":(?:\([a-z,:]*\)|[/!^]+)")
_RANGE = re.compile(r"-?[A-Za-z0-9]+\.\.-?[A-Za-z0-9]+(?:\.\.-?[0-9]+)?")

_OPEN_NOTHING = frozenset(
    """
    : [ basename break continue date dirname echo exit export expr false hostname id kill
    printf pwd return seq set shift sleep test true type umask uname unset wait whoami
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Programs that open none of the files in their words."""

_TEXT_OPTIONS = {
    "git": re.compile(r"-[a-zA-Z]*m|--message|--author|--grep|--format|--pretty|--since|--until"),
    "gh": re.compile(r"-[tb]|--title|--body"),
    "hub": re.compile(r"-m"),
    "curl": re.compile(r"-[sSfLkiv]*[HXAu]|--header|--request|--user-agent"),
    "docker": re.compile(r"-[te]|--tag|--env"),
    "jq": re.compile(r"--arg(?:json)?"),
}
"""Options whose value is a text, not a path."""


@dataclass(slots=True)
class NamedPaths:
    """The paths that a line could name, from which directories, and whether that is all.

    A text maps to whether it is `exact`; one that is not may match more than bash would. `doubt`
    says what is known only when it runs, or is None.
    """

    texts: dict[str, bool] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)
    doubt: str | None = None

    def unsure(self, why: str) -> None:
        """Note that a path may be missing. The first reason stays."""
        if self.doubt is None:
            self.doubt = why


def named_paths(line: CommandLine, *, cwd: str, user_home: str) -> NamedPaths:
    """Every path that a line could name."""
    found = NamedPaths(bases=[cwd])
    parts = list(_all_parts(line, found))
    moved = _find_bases(parts, found)
    reader = _Reader(found, cwd, user_home, moved, any(part.assigns for part in parts))
    for part in parts:
        if len(found.texts) > _TEXTS_MAX:
            break
        reader.part(part)
    return found


def _all_parts(line: CommandLine, found: NamedPaths, depth: int = 0) -> Iterator[LinePart]:
    """The parts of a line and of the lines within it."""
    if line.unread is not None:
        found.unsure(line.unread)
    for part in line.parts:
        yield part
        if not part.words or match.program(part.words[0].text) not in match.STARTERS:
            continue
        texts = list(match.texts_in([word.text for word in part.words[:_TEXTS_MAX]]))
        if texts and depth == _NESTED_MAX:
            found.unsure("its commands are nested too deeply")
            continue
        for text in texts:
            yield from _all_parts(split(text), found, depth + 1)


def _find_bases(parts: list[LinePart], found: NamedPaths) -> bool:
    """Find the directories that a line changes to; whether there are any."""
    moved = False
    for part in parts:
        words = part.words
        targets = [
            after.text
            for word, after in itertools.pairwise(words)
            if word.text in {"-C", "--directory", "--chdir", "--prefix"} and after.literal
        ]
        if words and words[0].text in {"cd", "pushd", "popd"}:
            to = words[-1] if len(words) > 1 else Word("~", literal=False)
            if words[0].text == "popd" or to.text.startswith("-") or _EXPANSION.search(to.text):
                found.unsure("the directory is known only when it runs")
            targets.append(to.text)
        for target in targets:
            moved = True
            fresh = [os.path.join(base, os.path.expanduser(target)) for base in found.bases]
            found.bases += [each for each in fresh if each not in found.bases]
        if len(found.bases) > _BASES_MAX:
            found.unsure("it changes the directory too often")
            del found.bases[_BASES_MAX:]
    return moved


@dataclass(slots=True)
class _Reader:
    """Reads the words of parts into paths."""

    found: NamedPaths
    cwd: str
    user_home: str
    moved: bool
    assigns: bool

    def part(self, part: LinePart) -> None:
        name = match.program(part.words[0].text) if part.words else ""
        is_text = _TEXT_OPTIONS.get(name)
        after_text = False
        for word in part.words:
            opens = name not in _OPEN_NOTHING and not (after_text and word.single)
            if not word.text.startswith(("<(", ">(")):
                self._word(word, opens=opens)
            after_text = is_text is not None and is_text.fullmatch(word.text) is not None
        for redirect in part.redirects:
            self._word(redirect.target, opens=True)

    def _word(self, word: Word, *, opens: bool) -> None:
        if word.literal:
            self._add(word.text, exact=True)
            return
        text = self._with_variables(word.text)
        if text is None or _EXPANSION.search(text):
            if opens:
                self.found.unsure("a word is known only when it runs")
            text = word.text
        alternatives = _alternatives(text)
        if alternatives is None:
            self.found.unsure("it has too many alternatives in braces")
            return
        for each in alternatives:
            start, bracket, _ = each.partition("[")
            if bracket:
                # Bash knows more sets than we do. A star matches at least as much.
                rest = each.rpartition("]")[2]
                self._add(f"{start}*{rest}", exact=False)
                self._add(f"{start}*", exact=False)
            self._add(each, exact=not bracket)

    def _with_variables(self, text: str) -> str | None:
        """The text with the values of $HOME and $PWD; None if they are unknown."""
        if text == "~+" or text.startswith("~+/"):
            text = "$PWD" + text[2:]
        if text == "~-" or text.startswith("~-/"):
            return None
        if not _VARIABLE.search(text):
            return text
        if self.assigns or (self.moved and "PWD" in text):
            return None
        values = {"HOME": self.user_home, "PWD": self.cwd}
        return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)

    def _add(self, text: str, *, exact: bool) -> None:
        for each in _readings(text):
            if len(self.found.texts) > _TEXTS_MAX:
                self.found.unsure("it names too many files")
                return
            if each and _may_exist(each):
                self.found.texts[each] = self.found.texts.get(each, False) or exact


def _readings(text: str) -> Iterator[str]:
    """What of a word can be a path: all of it, a value in it, or what follows its letters."""
    yield text
    if len(text) > _PATH_BYTES_MAX:
        # No path, and what starts in it is none either.
        text = text[-_PATH_BYTES_MAX:]
    for mark in "=@:,":
        at = text.find(mark)
        for _ in range(_MARKS_MAX):
            if at < 0:
                break
            yield text[at + 1 :]
            at = text.find(mark, at + 1)
        if at >= 0:
            yield text[text.rindex(mark) + 1 :]
    magic = _GIT_MAGIC.match(text)
    if magic:
        yield text[magic.end() :]
    if text.startswith("-") and not text.startswith("--"):
        yield from (text[at:] for at in range(2, min(len(text), 8)))
    if text.startswith("-") and "/" in text:
        yield text[text.index("/") :]


def _may_exist(text: str) -> bool:
    """Whether a file can have this name: the kernel limits its length."""
    if len(text) > _PATH_BYTES_MAX or "\0" in text:
        return False
    return all(len(name) <= _NAME_BYTES_MAX for name in text.split("/"))


def _alternatives(text: str) -> list[str] | None:
    """The words that braces expand to, and the text itself; None if there are too many."""
    done: list[str] = [text]
    waiting = [text]
    steps = 0
    while waiting:
        steps += 1
        if steps > _ALTERNATIVES_MAX or len(text) > _BRACED_CHARS_MAX:
            return None if "{" in text else done
        each = waiting.pop()
        group = _brace_group(each)
        if group is None:
            done.append(each)
            continue
        start, end, options = group
        waiting += [each[:start] + option + each[end:] for option in options]
    return done


def _brace_group(text: str) -> tuple[int, int, list[str]] | None:
    """The first group in braces that bash expands: where it is, and its alternatives."""
    open_at: list[tuple[int, list[int]]] = []
    for at, char in enumerate(text):
        if char == "{":
            open_at.append((at, []))
        elif char == "," and open_at:
            open_at[-1][1].append(at)
        elif char == "}" and open_at:
            start, commas = open_at.pop()
            inside = text[start + 1 : at]
            if commas:
                edges = [start, *commas, at]
                options = [text[a + 1 : b] for a, b in itertools.pairwise(edges)]
                return start, at + 1, options
            if _RANGE.fullmatch(inside):
                return start, at + 1, ["*"]
    return None
