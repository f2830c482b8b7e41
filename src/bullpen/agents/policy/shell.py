"""Shell commands, split as bash would split them: every program that would run, and its words.

Nothing here decides. The rules do, and they need to know of every simple command in a line, or
that nobody can know (`Line.opaque`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bullpen.agents.policy.options import dangerous
from bullpen.agents.policy.words import (
    BLANKS,
    Findings,
    Line,
    Part,
    Redirect,
    Spelling,
    TooMuch,
    Word,
    WordReader,
)

__all__ = ["Line", "Part", "Redirect", "Word", "dangerous", "prefix", "split"]

# Longer than what a model writes. Reading it costs time, and no rule was meant for it.
_CHARS_MAX = 200_000

# Everywhere, also in quotes: what a terminal obeys or hides, and what changes the order of letters.
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
# They run text, or change how all that follows is read.
_REWRITERS = frozenset(["eval", "source", ".", "exec", "trap", "alias", "unalias", "shopt"])
_PASSING_ON = frozenset(["command", "builtin"])
_PLAIN_SETTINGS = re.compile(r"-[eux]*o?|pipefail|errexit|nounset|xtrace")

_SEPARATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|]")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
_COPIED = re.compile(r"-|[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_DELIMITER = re.compile(r"(?P<quote>['\"]?)\\?(?P<name>[A-Za-z0-9_.+-]+)(?P=quote)")


def split(command: str) -> Line:
    """Every simple command of a command line, and whether that is certain."""
    found = Findings()
    if len(command) > _CHARS_MAX:
        return Line((), "it is too long to be read")
    if _UNFIT.search(command):
        found.doubt("it holds a control character")
    try:
        _Reader(command, found, 0).commands(None)
    except TooMuch as error:
        found.doubt(str(error))
    return Line(tuple(found.parts), found.opaque)


def prefix(part: Part) -> tuple[str, ...]:
    """The literal words at the beginning of a part, up to the first that is not."""
    words: list[str] = []
    for word in part.words:
        if not word.literal:
            break
        words.append(word.text)
    return tuple(words)


@dataclass(frozen=True, slots=True)
class _Body:
    """A here-document that is announced: what ends it, and how it is to be read."""

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
        """Read the commands of a substitution up to what closes it, or of the whole text.

        Here-documents that begin in a substitution have to end in it, as the last thing. Bash 5.2
        reads a substitution, writes it down again and reads that, and loses the `;` behind one:
        `$(ls <<E` ... `git log ; ls --output=x)` runs `git log ls --output=x`.
        """
        outside, self._bodies = self._bodies, []
        before, self._body_end = self._body_end, None
        self._bodies_outside += len(outside)
        self._list(closer)
        if self._bodies:
            self.found.doubt("a here-document has no end")
        if self._body_end is not None and self.depth > 0:
            behind = self.text[self._body_end : self.at].strip(" \t\n")
            if behind not in {"", ")"}:
                self.found.doubt("commands stand behind a here-document in a substitution")
        self._body_end = before
        self._bodies = outside
        self._bodies_outside -= len(outside)
        self._look_at_bodies()

    def _list(self, closer: str | None) -> None:
        self.enter()
        cases = 0
        while True:
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
                self.found.doubt("a bracket is closed that was not opened")
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
            char = self.text[self.at]
            if char in BLANKS:
                self.at += 1
            elif char == "#":
                newline = self.text.find("\n", self.at)
                self.at = self.end if newline < 0 else newline
            elif self.starts("\\\n"):
                self.continuation()
            else:
                return

    def _separator(self) -> None:
        operator = _SEPARATOR.match(self.text, self.at)
        if operator is None:
            raise AssertionError("only called where an operator stands")
        self.at = operator.end()
        if operator[0] in {";;", ";;&", ";&"}:
            self.found.doubt("it has the separators of a case")
        if operator[0] not in {"&&", "||"} and self.starts("\\\n"):
            self.found.doubt("a line is broken behind an operator")

    def _subshell(self) -> None:
        if self.starts("(("):
            self.found.doubt("it computes with (( ))")
        self.at += 1
        self._list(")")
        self._behind_group()

    def _reserved(self, word: str) -> None:
        if word == "{":
            self._list("}")
            self._behind_group()
            return
        self.found.doubt(f"{word} is a word of the shell's own language")
        if word == "function":
            self._blanks()
            self.word()

    def _behind_group(self) -> None:
        """Read the redirections of a group. Nothing else may stand there."""
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            if self.at >= self.end or self.text[self.at] in "\n;|)":
                break
            if self.starts("&") and not self.starts("&>"):
                break
            start = self.at
            spelled = self.word()
            if not self._redirects() or (spelled.raw and not _is_number(spelled)):
                self.found.doubt("words stand behind a bracket")
                self.at = start
                break
            self._redirect(redirects)
        if redirects:
            self.found.parts.append(Part((), tuple(redirects)))

    def _redirects(self) -> bool:
        return self.at < self.end and bool(_REDIRECT.match(self.text, self.at))

    def _simple(self) -> None:
        """Read one simple command."""
        words: list[Spelling] = []
        redirects: list[Redirect] = []
        assigns = False
        while True:
            self._blanks()
            if self.at >= self.end or self.text[self.at] in "\n;|)":
                break
            if self.starts("&") and not self.starts("&>"):
                break
            if self.starts("("):
                self.found.doubt(
                    "a bracket stands behind a word: a function, an array or a pattern"
                )
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
        found = tuple(Word(each.text, each.literal) for each in words)
        self.found.parts.append(Part(found, tuple(redirects), assigns))

    def _names_descriptor(self, spelled: Spelling) -> bool:
        """Whether a word is the descriptor of the redirection that follows at once."""
        if not self.starts("<") and not self.starts(">"):
            return False
        if _is_number(spelled):
            return True
        if spelled.text.startswith("{") and spelled.text.endswith("}") and not spelled.quoted:
            self.found.doubt("a descriptor is kept in a variable")
            return True
        return False

    def _redirect(self, redirects: list[Redirect]) -> None:
        operator = _REDIRECT.match(self.text, self.at)
        if operator is None:
            raise AssertionError("only called where a redirection stands")
        sign = operator[0]
        self.at = operator.end()
        if self.starts("\\\n"):
            self.found.doubt("a line is broken behind an operator")
        self._blanks()
        target = self.word()
        if sign in {"<&", ">&"} and not _COPIED.fullmatch(target.raw):
            # Bash expands such a target twice, quoted or not, and takes `-x` for two words.
            self.found.doubt("a descriptor is copied from something that is not plainly named")
        if not target.raw:
            self.found.doubt("a redirection has no target")
        elif sign in {"<<", "<<-"}:
            self._announce(target, tabs=sign == "<<-")
        elif sign != "<<<" and not (
            sign in {"<&", ">&"} and target.literal and _DESCRIPTOR.fullmatch(target.text)
        ):
            word = Word(target.text, target.literal)
            redirects.append(Redirect(word, writes=sign not in {"<", "<&"}))

    def _announce(self, target: Spelling, *, tabs: bool) -> None:
        plain = _DELIMITER.fullmatch(target.raw)
        if plain is None or plain["name"] != target.text:
            self.found.doubt("a here-document ends with an unusual word")
        if self.depth > 1 and (self._bodies or not target.quoted):
            self.found.doubt("a substitution has a here-document with expansions, or several")
        self._bodies.append(_Body(target.text, tabs, quoted=target.quoted))
        self._look_at_bodies()

    def _newline(self) -> None:
        """Step over a newline, and over the here-documents that were announced before it."""
        self.at += 1
        if self._bodies_outside:
            self.found.doubt("a line goes on behind a here-document")
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
            self.found.doubt("a here-document has no end")
        if body.quoted:
            return
        text = "\n".join(lines)
        if "\\\n" in text or text.endswith("\\"):
            self.found.doubt("a line of a here-document is continued")
        self.inner(text).here_body()

    def _judge(self, words: list[Spelling]) -> None:
        """Doubt what runs a program that is not named, or changes how the rest is read."""
        first = words[0]
        if not first.literal or not first.text:
            self.found.doubt("the name of the program is not written out")
        elif not first.text.isascii():
            self.found.doubt("the name of the program has letters that look like others")
        elif _RESERVED_WORD.fullmatch(first.text) and not first.quoted:
            self.found.doubt(f"{first.text} is a word of the shell's own language")
        names = [each.text for each in words] if first.text in _PASSING_ON else [first.text]
        for name in names:
            if name in _REWRITERS:
                self.found.doubt(f"{name} runs a text, or changes how the rest is read")
        settings = [each.text for each in words[1:]]
        if first.text == "set" and not all(map(_PLAIN_SETTINGS.fullmatch, settings)):
            self.found.doubt("set changes how the rest is read")
        if first.text == "enable":
            self.found.doubt("enable changes what a name stands for")


def _is_number(spelled: Spelling) -> bool:
    return spelled.text.isascii() and spelled.text.isdigit() and not spelled.quoted
