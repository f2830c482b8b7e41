"""The words of a bash command line, read as bash reads them, or not at all.

This reader is made to be wrong on one side only: what it is not sure of, it calls opaque. It runs
nothing, expands nothing and looks at no file.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

# Deeper than anybody writes, and far from Python's own limit. A substitution counts twice.
_NESTING_MAX = 60
# Words, quotes, signs and expansions: more than anybody writes by hand. It bounds the time.
_PIECES_MAX = 5_000

BLANKS = " \t"
_END_OF_WORD = frozenset(" \t\n;&|()")

_PLAIN = re.compile(r"[A-Za-z0-9_./,:=+@%^}\]#-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_SUM = re.compile(r"\$\(\([0-9 +*/%-]*\)\)")
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_BODY_RUN = re.compile(r"[^\\$`]+")
_BACKTICKED = re.compile(r"((?:[^`\\]|\\.)*+)`", re.DOTALL)
_BACKTICK_ESCAPE = re.compile(r"\\([$`\\])")
# The parameters that are only looked up: no subscript, no indirection, no assignment, no arithmetic
# and no `@P`, because bash can run commands in each of these.
_LOOKED_UP = re.compile(
    r"#?[A-Za-z_][A-Za-z0-9_]*(?=\})|(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*?$#])"
    r"(?:(?=\})|:?[-+?]|##?|%%?)"
)
_PARAMETER_RUN = re.compile(r"[A-Za-z0-9_./,:=+@%^ *?#-]+")


@dataclass(frozen=True, slots=True)
class Word:
    """A word. `literal`: the text is exactly what bash passes on.

    The text of any other word has its quotes removed and its expansions as they are written.
    """

    text: str
    literal: bool


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that is opened. Copies of descriptors, here-documents and here-strings open none."""

    target: Word
    writes: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command. `assigns`: variables are set in front of it, or nothing but that.

    No words and no assignment: redirections that stand alone, or behind `( )` and `{ }`.
    """

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    assigns: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A command line: every simple command in it, however deep.

    `opaque` says why it could not be read for sure, else it is None. Then `parts` is a best guess:
    good enough to deny something, never to allow it.
    """

    parts: tuple[Part, ...]
    opaque: str | None


@dataclass(slots=True)
class Findings:
    """What was found so far, by the reader of the line and by those of its here-documents."""

    parts: list[Part] = field(default_factory=list)
    opaque: str | None = None
    pieces: int = 0

    def doubt(self, why: str) -> None:
        """Note that the line cannot be read for sure. The first reason stays."""
        if self.opaque is None:
            self.opaque = why


@dataclass(slots=True)
class Spelling:
    """A word as it is written. `bare` is how many of its first characters stand unquoted."""

    text: str
    literal: bool
    quoted: bool
    bare: int
    raw: str


class TooMuch(Exception):
    """A line is nested deeper, or has more words, than is read."""


class WordReader:
    """Reads words from a place in a text. What runs within them is read by `commands`."""

    def __init__(self, text: str, found: Findings, depth: int) -> None:
        self.text = text
        self.end = len(text)
        self.at = 0
        self.found = found
        self.depth = depth
        # Whether a here-document is to come: then a newline inside a word is read by no two
        # shells alike.
        self.awaits_body = False

    def commands(self, closer: str | None) -> None:
        """Read commands up to what closes them."""
        raise NotImplementedError

    def inner(self, text: str) -> WordReader:
        """A reader for a text within this one."""
        raise NotImplementedError

    def enter(self) -> None:
        """Count one more level of brackets. It is left by counting it back."""
        self.depth += 1
        if self.depth > _NESTING_MAX:
            raise TooMuch("its commands are nested too deep")
        self._count()

    def _count(self) -> None:
        self.found.pieces += 1
        if self.found.pieces > _PIECES_MAX:
            raise TooMuch("it has too many words")

    def starts(self, text: str) -> bool:
        """Whether this is what comes next."""
        return self.text.startswith(text, self.at)

    def word(self) -> Spelling:
        """Read one word. It is empty where something else stands."""
        self._count()
        start = self.at
        pieces: list[str] = []
        literal, quoted, bare = True, False, -1
        while self.at < self.end:
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                pieces.append(plain[0])
                self.at = plain.end()
                continue
            char = self.text[self.at]
            if char in _END_OF_WORD or (char in "<>" and not self._substitutes(char)):
                break
            if char in "\\'\"":
                if self.starts("\\\n"):
                    self.continuation()
                    continue
                bare = len("".join(pieces)) if bare < 0 else bare
                text, exact = self._quoted(char)
                quoted = True
            elif char in "$`<>":
                bare = len("".join(pieces)) if bare < 0 else bare
                text, exact = self._expansion(char)
            else:
                text, exact = self._special(char, pieces)
            pieces.append(text)
            literal = literal and exact
        text = "".join(pieces)
        raw = self.text[start : self.at]
        return Spelling(text, literal, quoted, len(text) if bare < 0 else bare, raw)

    def continuation(self) -> None:
        """Step over a backslash and the newline that it hides."""
        if self.awaits_body:
            self.found.doubt("a line goes on behind a here-document")
        self.at += 2

    def here_body(self) -> None:
        """Read the substitutions in the body of a here-document, which is the whole text."""
        while self.at < self.end:
            run = _BODY_RUN.match(self.text, self.at)
            if run:
                self.at = run.end()
            elif self.text[self.at] == "\\":
                self.at += 2
            else:
                self._expansion(self.text[self.at], quoted=True)

    def _substitutes(self, char: str) -> bool:
        return self.starts(f"{char}(")

    def _special(self, char: str, pieces: list[str]) -> tuple[str, bool]:
        """A character that is neither plain nor a quote nor ends a word."""
        self._count()
        self.at += 1
        if char == "[" and not pieces and self.text[self.at : self.at + 1] in BLANKS:
            # The program of this name: no pattern without its other bracket.
            return char, True
        if char in "*?[{":
            return char, False
        if char == "~":
            before = pieces[-1][-1:] if pieces else "="
            return char, before not in "=:"
        if char == "!" and self.at < self.end and self.text[self.at] not in " \t\n=":
            self.found.doubt("an unquoted ! can stand for an older command")
        if ord(char) > 127 and unicodedata.category(char)[0] in "ZC":
            self.found.doubt("an invisible character stands outside quotes")
        return char, True

    def _quoted(self, char: str) -> tuple[str, bool]:
        self._count()
        if char == '"':
            self.at += 1
            return self._double_quoted()
        if char == "'":
            return self._single_quoted(), True
        self.at += 2
        if self.at > self.end:
            self.found.doubt("it ends in a backslash")
            self.at = self.end
            return "\\", False
        return self.text[self.at - 1], True

    def _single_quoted(self) -> str:
        close = self.text.find("'", self.at + 1)
        if close < 0:
            self.found.doubt("a quote is not closed")
            close = self.end
        text = self.text[self.at + 1 : close]
        self._newlines(text)
        self.at = min(close + 1, self.end)
        return text

    def _double_quoted(self) -> tuple[str, bool]:
        """The text up to the closing quote, the opening one has been read."""
        pieces: list[str] = []
        literal = True
        while self.at < self.end:
            run = _QUOTED_RUN.match(self.text, self.at)
            if run:
                pieces.append(run[0])
                self._newlines(run[0])
                self.at = run.end()
                continue
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return "".join(pieces), literal
            if char != "\\":
                text, exact = self._expansion(char, quoted=True)
                pieces.append(text)
                literal = literal and exact
            elif self.starts("\\\n"):
                self.continuation()
            else:
                pair = self.text[self.at : self.at + 2]
                pieces.append(pair[1:] if pair[1:] in {"$", "`", '"', "\\"} else pair)
                self.at += 2
        self.found.doubt("a quote is not closed")
        self.at = self.end
        return "".join(pieces), False

    def _newlines(self, text: str) -> None:
        if self.awaits_body and "\n" in text:
            self.found.doubt("a line goes on behind a here-document")

    def _expansion(self, char: str, *, quoted: bool = False) -> tuple[str, bool]:
        """Read what begins with `$`, a backtick, `<(` or `>(`. Never literal; as it is written."""
        start = self.at
        self.enter()
        if char == "`":
            self._backticks(quoted)
        elif char in "<>":
            self.at += 2
            self.commands(")")
        else:
            self._dollar(quoted)
        self.depth -= 1
        return self.text[start : self.at], False

    def _dollar(self, quoted: bool) -> None:
        total = _SUM.match(self.text, self.at)
        if total:
            self.at = total.end()
            return
        self.at += 1
        following = self.text[self.at : self.at + 1]
        if following == "(":
            if self.starts("(("):
                self.found.doubt("it computes with more than numbers")
            self.at += 1
            self.commands(")")
        elif following == "{":
            self.at += 1
            self._parameter(quoted)
        elif following == "[":
            self.found.doubt("it computes with $[ ]")
        elif following in {"'", '"'} and not quoted:
            self.found.doubt(f"${following} is a quote with escapes or translations of its own")
            if following == "'":
                self._escaped_quote()
        elif self.starts("\\\n"):
            self.found.doubt("a line is broken behind a $")
        else:
            name = _NAME.match(self.text, self.at)
            self.at = name.end() if name else self.at

    def _escaped_quote(self) -> None:
        self.at += 1
        while self.at < self.end and self.text[self.at] != "'":
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at = min(self.at + 1, self.end)

    def _parameter(self, quoted: bool) -> None:
        """Read up to the brace that closes `${`."""
        if self.at < self.end and self.text[self.at] in " \t\n|":
            self.found.doubt("${ } runs commands in newer shells")
            self.commands("}")
            return
        head = _LOOKED_UP.match(self.text, self.at)
        if head:
            self.at = head.end()
        else:
            self.found.doubt("a parameter is expanded in a way that can run or assign something")
        while self.at < self.end:
            run = _PARAMETER_RUN.match(self.text, self.at)
            if run:
                self.at = run.end()
                continue
            char = self.text[self.at]
            if char == "}":
                self.at += 1
                return
            if char in "$`":
                self._expansion(char, quoted=quoted)
                continue
            self.found.doubt("a parameter is expanded with quotes or signs in it")
            if char == '"' or (char in "\\'" and not quoted):
                self._quoted(char)
            else:
                self.at += 1
        self.found.doubt("${ is not closed")

    def _backticks(self, quoted: bool) -> None:
        inside = _BACKTICKED.match(self.text, self.at + 1)
        if inside is None:
            self.found.doubt("a backtick is not closed")
            self.at = self.end
            return
        text = inside[1]
        self._newlines(text)
        if "\\\n" in text or (quoted and '\\"' in text):
            self.found.doubt("backticks hold escapes that shells read in different ways")
        self.at = inside.end()
        self.inner(_BACKTICK_ESCAPE.sub(r"\1", text)).commands(None)
