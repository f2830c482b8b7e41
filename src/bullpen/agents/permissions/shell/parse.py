"""Split a command line as bash does: every program that would run, with its words.

This module makes no decisions. The rules need to know every simple command in a line, or that this
is impossible (`CommandLine.opaque`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from bullpen.agents.permissions.shell.words import (
    BLANKS,
    PARTS_MAX,
    CommandLine,
    Findings,
    LinePart,
    Redirect,
    Spelling,
    TooMuch,
    Word,
    WordReader,
)

__all__ = ["CommandLine", "LinePart", "Redirect", "Word", "prefix", "split"]

# Files that redirections open: more than anyone writes.
_OPENED_MAX = 60
# Longer than a model writes. Parsing it takes time, and no rule is meant for it.
_CHARS_MAX = 100_000

# Everywhere, even in quotes: characters that terminals obey or hide, or that reorder text.
_UNFIT = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff]"
)

_RESERVED = (
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|coproc|time"
    r"|!|\{|\}|\[\[|\]\])"
)
_RESERVED_WORD = re.compile(_RESERVED)
_RESERVED_NEXT = re.compile(_RESERVED + r"(?=[ \t\n;&|()]|\Z)")
# They run text, or change how everything after them is parsed.
_REWRITERS = frozenset(["eval", "source", ".", "exec", "trap", "alias", "unalias", "shopt"])
_PASSING_ON = frozenset(["command", "builtin"])
_PLAIN_SETTINGS = re.compile(r"-[eux]*o?|pipefail|errexit|nounset|xtrace")

_BLANKS = re.compile(rf"[{BLANKS}]+")
_NEWLINES = re.compile(r"\n+")
_SEPARATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|]")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
_COPIED = re.compile(r"-|[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_DELIMITER = re.compile(r"(?P<quote>['\"]?)\\?(?P<name>[A-Za-z0-9_.+-]+)(?P=quote)")


@lru_cache(maxsize=64)
def split(command: str) -> CommandLine:
    """Every simple command of a command line, and whether that is certain."""
    found = Findings()
    if len(command) > _CHARS_MAX:
        return CommandLine((), "it is too long", "it is too long")
    if _UNFIT.search(command):
        found.doubt("it contains a control character")
    try:
        _Reader(command, found, 0).commands(None)
    except TooMuch as error:
        found.doubt(str(error))
    return CommandLine(tuple(found.parts), found.opaque, found.unread)


def prefix(part: LinePart) -> tuple[str, ...]:
    """The literal words at the start of a part."""
    words: list[str] = []
    for word in part.words:
        if not word.literal:
            break
        words.append(word.text)
    return tuple(words)


@dataclass(frozen=True, slots=True)
class _Body:
    """A here-document whose body is still to come: its delimiter, and how to parse it."""

    end: str
    tabs: bool
    quoted: bool


class _Reader(WordReader):
    """Reads commands: lists, pipelines, groups and subshells."""

    def __init__(self, text: str, found: Findings, depth: int) -> None:
        super().__init__(text, found, depth)
        self._bodies: list[_Body] = []
        self._bodies_outside = 0
        self._body_end: int | None = None

    def inner(self, text: str) -> _Reader:
        """A reader for a text within this one."""
        return _Reader(text, self.found, self.depth + 1)

    def commands(self, closer: str | None) -> None:
        """Parse the commands of a substitution up to its closer, or of the whole text.

        A here-document in a substitution has to be the last thing in it. Bash 5.2 parses a
        substitution, prints it and parses that again, and loses the `;` after a here-document:
        `$(ls <<E` ... `git log ; ls --output=x)` runs `git log ls --output=x`.
        """
        outside, self._bodies = self._bodies, []
        before, self._body_end = self._body_end, None
        self._bodies_outside += len(outside)
        self._list(closer)
        if self._bodies:
            self.found.doubt("a here-document is not closed")
        if self._body_end is not None and self.depth > 0:
            behind = self.text[self._body_end : self.at].strip(" \t\n")
            if behind not in {"", ")"}:
                self.found.doubt("commands follow a here-document in a substitution")
        self._body_end = before
        self._bodies = outside
        self._bodies_outside -= len(outside)
        self._look_at_bodies()

    def _list(self, closer: str | None) -> None:
        self.enter()
        cases = 0
        while True:
            self._count()
            self._blanks()
            if self.at >= self.end:
                if closer:
                    self.found.doubt("a bracket is not closed")
                break
            char = self.text[self.at]
            if char == "\n":
                self._newline()
            elif char == ")":
                self.at += 1
                if closer == ")" and not cases:
                    break
                self.found.doubt("a closing bracket has no opening one")
            elif char == "(":
                self._subshell()
            elif char in ";|" or (char == "&" and not self.starts("&>")):
                self._separator()
            elif reserved := _RESERVED_NEXT.match(self.text, self.at):
                self.at = reserved.end()
                if reserved[0] == closer:
                    break
                cases += {"case": 1, "esac": -1 if cases else 0}.get(reserved[0], 0)
                self._reserved(reserved[0])
            else:
                self._simple()
        self.depth -= 1

    def _blanks(self) -> None:
        """Step over blanks, continued lines and a comment."""
        while self.at < self.end:
            blanks = _BLANKS.match(self.text, self.at)
            if blanks:
                self.at = blanks.end()
            elif self.text[self.at] == "#":
                newline = self.text.find("\n", self.at)
                self.at = self.end if newline < 0 else newline
            elif self.starts("\\\n"):
                self.continuation()
            else:
                return

    def _separator(self) -> None:
        operator = self._operator(_SEPARATOR)
        if operator in {";;", ";;&", ";&"}:
            self.found.doubt("it contains the separators of a case")
        if operator not in {"&&", "||"} and self.starts("\\\n"):
            self.found.doubt("a line is broken after an operator")

    def _operator(self, pattern: re.Pattern[str]) -> str:
        """Step over an operator. Only called where there is one."""
        operator = pattern.match(self.text, self.at)
        assert operator is not None
        self.at = operator.end()
        return operator[0]

    def _subshell(self) -> None:
        if self.starts("(("):
            self.found.doubt("it uses arithmetic with (( ))")
        self.at += 1
        self._list(")")
        self._behind_group()

    def _reserved(self, word: str) -> None:
        if word == "{":
            self._list("}")
            self._behind_group()
            return
        plain = word not in {"function", "coproc", "case", "esac", "select"}
        self.found.doubt(f"{word} is a keyword of the shell", words_read=plain)
        if word == "function":
            self._blanks()
            self.word()

    def _behind_group(self) -> None:
        """Parse the redirections of a group. Nothing else may follow it."""
        redirects: list[Redirect] = []
        while not self._command_ends():
            start = self.at
            spelled = self.word()
            if not _REDIRECT.match(self.text, self.at) or (spelled.raw and not _is_number(spelled)):
                self.found.doubt("words follow a bracket")
                self.at = start
                break
            self._redirect(redirects)
        if redirects:
            self.found.parts.append(LinePart((), tuple(redirects)))

    def _command_ends(self) -> bool:
        """Step over blanks; whether a command cannot continue there."""
        self._blanks()
        if self.at >= self.end or self.text[self.at] in "\n;|)":
            return True
        return self.starts("&") and not self.starts("&>")

    def _simple(self) -> None:
        """Read one simple command."""
        if len(self.found.parts) >= PARTS_MAX:
            raise TooMuch("it has too many commands")
        words: list[Spelling] = []
        redirects: list[Redirect] = []
        assigns = False
        while not self._command_ends():
            if self.starts("("):
                self.found.doubt("a bracket follows a word: a function, an array or a pattern")
                break
            spelled = self.word()
            if not spelled.raw or self._names_descriptor(spelled):
                self._redirect(redirects)
            elif not words and _ASSIGNMENT.match(spelled.text[: spelled.bare]):
                assigns = True
            else:
                if not words and _SUBSCRIPT.match(spelled.text[: spelled.bare]):
                    self.found.doubt("an element of an array is set")
                words.append(spelled)
        if words:
            self._judge(words)
        found = tuple(each.word for each in words)
        self.found.parts.append(LinePart(found, tuple(redirects), assigns))

    def _names_descriptor(self, spelled: Spelling) -> bool:
        """Whether a word is the descriptor of the redirection right after it."""
        if not self.starts("<") and not self.starts(">"):
            return False
        if _is_number(spelled):
            return True
        if spelled.text.startswith("{") and spelled.text.endswith("}") and not spelled.quoted:
            self.found.doubt("a descriptor is stored in a variable")
            return True
        return False

    def _redirect(self, redirects: list[Redirect]) -> None:
        sign = self._operator(_REDIRECT)
        if self.starts("\\\n"):
            self.found.doubt("a line is broken after an operator")
        self._blanks()
        target = self.word()
        if sign in {"<&", ">&"} and not _COPIED.fullmatch(target.raw):
            # Bash expands such a target twice, quoted or not, and splits `-x` into two words.
            self.found.doubt("a descriptor is copied from a target that is not literal")
        if not target.raw:
            self.found.doubt("a redirection has no target")
        elif sign in {"<<", "<<-"}:
            self._announce(target, tabs=sign == "<<-")
        elif sign != "<<<" and not (
            sign in {"<&", ">&"} and target.literal and _DESCRIPTOR.fullmatch(target.text)
        ):
            redirects.append(Redirect(target.word, writes=sign not in {"<", "<&"}))
            self.found.opened += 1
            if self.found.opened > _OPENED_MAX:
                raise TooMuch("it opens too many files")

    def _announce(self, target: Spelling, *, tabs: bool) -> None:
        plain = _DELIMITER.fullmatch(target.raw)
        if plain is None or plain["name"] != target.text:
            self.found.doubt("a here-document ends with an unusual word")
        if self.depth > 1 and (self._bodies or not target.quoted):
            self.found.doubt("a substitution has a here-document with expansions, or several")
        self._bodies.append(_Body(target.text, tabs, quoted=target.quoted))
        self._look_at_bodies()

    def _newline(self) -> None:
        """Step over newlines and the bodies of here-documents that start after the first."""
        self.at += 1
        if not self._bodies and not self._bodies_outside:
            following = _NEWLINES.match(self.text, self.at)
            self.at = following.end() if following else self.at
        if self._bodies_outside:
            self.found.doubt("a line continues after a here-document")
        bodies, self._bodies = self._bodies, []
        for body in bodies:
            self._body(body)
            self._body_end = self.at
        self._look_at_bodies()

    def _look_at_bodies(self) -> None:
        self.awaits_body = bool(self._bodies) or self._bodies_outside > 0

    def _body(self, body: _Body) -> None:
        lines: list[str] = []
        while self.at < self.end:
            newline = self.text.find("\n", self.at)
            newline = self.end if newline < 0 else newline
            line = self.text[self.at : newline]
            self.at = min(newline + 1, self.end)
            seen = line.lstrip("\t") if body.tabs else line
            if seen == body.end:
                break
            if seen.startswith(body.end):
                self.found.doubt("a line of a here-document looks like its end")
            lines.append(line)
        else:
            self.found.doubt("a here-document is not closed")
        if body.quoted:
            return
        text = "\n".join(lines)
        if "\\\n" in text or text.endswith("\\"):
            self.found.doubt("a line of a here-document is continued")
        self.inner(text).here_body()

    def _judge(self, words: list[Spelling]) -> None:
        """Mark the line as opaque if its program is unknown or changes how the rest is parsed."""
        first = words[0]
        if not first.literal or not first.text:
            self.found.doubt("the program name is not literal")
        elif not first.text.isascii():
            self.found.doubt("the program name has lookalike letters")
        elif _RESERVED_WORD.fullmatch(first.text) and not first.quoted:
            self.found.doubt(f"{first.text} is a keyword of the shell")
        texts = [each.text for each in words]
        for name in texts if first.text in _PASSING_ON else texts[:1]:
            if name in _REWRITERS:
                why = f"{name} runs text, or changes how the rest is parsed"
                self.found.doubt(why, words_read=name in {"source", "."})
        if first.text == "set" and not all(map(_PLAIN_SETTINGS.fullmatch, texts[1:])):
            self.found.doubt("set changes how the rest is parsed")
        if first.text == "enable":
            self.found.doubt("enable changes the meaning of a name")


def _is_number(spelled: Spelling) -> bool:
    return spelled.text.isascii() and spelled.text.isdigit() and not spelled.quoted
