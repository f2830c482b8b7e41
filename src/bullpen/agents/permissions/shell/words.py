"""Parse the words of a bash command line exactly as bash does, or not at all.

The parser errs on one side only: anything uncertain is opaque. It runs nothing, expands nothing and
reads no files.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

# Deeper than anyone writes, and far below Python's limit. A substitution counts twice.
_NESTING_MAX = 60
# Words, quotes, signs and expansions: more than anyone writes. It limits the time.
_PIECES_MAX = 1_000
# Simple commands in one line, likewise.
PARTS_MAX = 100

BLANKS = " \t"
# In quotes, these become any number of words.
_SEVERAL = ("$@", "${@", "[@]")
_END_OF_WORD = frozenset(" \t\n;&|()")

_PLAIN = re.compile(r"[A-Za-z0-9_./,:=+@%^}\]#-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_SUM = re.compile(r"\$\(\([0-9 +*/%-]*\)\)")
_ESCAPED_QUOTE = re.compile(r"(?:[^'\\]|\\.)*+'", re.DOTALL)
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
    """A word. If `literal`, bash passes on exactly this text; if not, it has unread expansions.

    A `single` word stays one word: its expansions are in double quotes.
    """

    text: str
    literal: bool
    single: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that is opened. Copied descriptors, here-documents and here-strings open none."""

    target: Word
    writes: bool


@dataclass(frozen=True, slots=True)
class LinePart:
    """One simple command. `assigns` means that it starts with assignments, or has only those.

    Without words and assignments, it is redirections alone, or after `( )` and `{ }`.
    """

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    assigns: bool = False


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line: every simple command in it, however deep.

    `opaque` says why it could not be parsed with certainty, or is None. For an opaque line, `parts`
    is a best guess: good enough to deny something, never to allow it. `unread` is None if only
    keywords such as `for` and `if` made it opaque: then `parts` have all of its words.
    """

    parts: tuple[LinePart, ...]
    opaque: str | None
    unread: str | None = None


@dataclass(slots=True)
class Findings:
    """What was found so far, by the parser of the line and those of its here-documents."""

    parts: list[LinePart] = field(default_factory=list)
    opaque: str | None = None
    unread: str | None = None
    pieces: int = 0
    opened: int = 0

    def doubt(self, why: str, *, words_read: bool = False) -> None:
        """Mark the line as opaque, perhaps with all its words read. The first reason stays."""
        if self.opaque is None:
            self.opaque = why
        if self.unread is None and not words_read:
            self.unread = why


@dataclass(slots=True)
class Spelling:
    """A word as it is written. `bare` is how many of its first characters are unquoted."""

    text: str
    literal: bool
    quoted: bool
    bare: int
    raw: str
    single: bool = True

    @property
    def word(self) -> Word:
        """The word as bash reads it."""
        return Word(self.text, self.literal, self.single)


class TooMuch(Exception):
    """A line is nested too deep or has too many words."""


class WordReader:
    """Parses words from a position in a text. `commands` parses what runs inside them."""

    def __init__(self, text: str, found: Findings, depth: int) -> None:
        self.text = text
        self.end = len(text)
        self.at = 0
        self.found = found
        self.depth = depth
        # Whether a here-document follows: then shells differ about a newline inside a word.
        self.awaits_body = False

    def commands(self, closer: str | None) -> None:
        """Parse commands up to their closer."""
        raise NotImplementedError

    def inner(self, text: str) -> WordReader:
        """A parser for a text inside this one."""
        raise NotImplementedError

    def enter(self) -> None:
        """Count one more level of nesting."""
        self.depth += 1
        if self.depth > _NESTING_MAX:
            raise TooMuch("its commands are nested too deeply")
        self._count()

    def _count(self) -> None:
        self.found.pieces += 1
        if self.found.pieces > _PIECES_MAX:
            raise TooMuch("it has too many words")

    def starts(self, text: str) -> bool:
        """Whether the rest of the text starts with this."""
        return self.text.startswith(text, self.at)

    def word(self) -> Spelling:
        """Parse one word. It is empty if something else comes next."""
        self._count()
        start = self.at
        pieces: list[str] = []
        literal, quoted, single, bare = True, False, True, -1
        while self.at < self.end:
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                pieces.append(plain[0])
                self.at = plain.end()
                continue
            char = self.text[self.at]
            if char in _END_OF_WORD or (char in "<>" and not self.starts(f"{char}(")):
                break
            if char in "\\'\"":
                if self.starts("\\\n"):
                    self.continuation()
                    continue
                bare = len("".join(pieces)) if bare < 0 else bare
                text, exact = self._quoted(char)
                quoted = True
                single = single and (exact or not any(each in text for each in _SEVERAL))
            elif char in "$`<>":
                bare = len("".join(pieces)) if bare < 0 else bare
                text, exact = self._expansion(char)
                single = False
            else:
                text, exact = self._special(char, pieces)
                single = single and exact
            pieces.append(text)
            literal = literal and exact
        text = "".join(pieces)
        raw = self.text[start : self.at]
        return Spelling(text, literal, quoted, len(text) if bare < 0 else bare, raw, single)

    def continuation(self) -> None:
        """Step over a backslash and the newline after it."""
        if self.awaits_body:
            self.found.doubt("a line continues after a here-document")
        self._count()
        self.at += 2

    def here_body(self) -> None:
        """Parse the substitutions in the body of a here-document, which is the whole text."""
        while self.at < self.end:
            run = _BODY_RUN.match(self.text, self.at)
            if run:
                self.at = run.end()
            elif self.text[self.at] == "\\":
                self._count()
                self.at += 2
            else:
                self._expansion(self.text[self.at], quoted=True)

    def _special(self, char: str, pieces: list[str]) -> tuple[str, bool]:
        """Parse a character that is not plain, not a quote and not the end of a word."""
        self._count()
        self.at += 1
        if char == "[" and not pieces and self.text[self.at : self.at + 1] in BLANKS:
            # The program `[`: not a pattern without its other bracket.
            return char, True
        if char in "*?[{":
            return char, False
        if char == "~":
            before = pieces[-1][-1:] if pieces else "="
            return char, before not in "=:"
        if char == "!" and self.at < self.end and self.text[self.at] not in " \t\n=":
            self.found.doubt("an unquoted ! can mean an earlier command")
        if ord(char) > 127 and unicodedata.category(char)[0] in "ZC":
            self.found.doubt("an invisible character is outside quotes")
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
        """The text up to the closing quote, after the opening one."""
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
                self._count()
                pair = self.text[self.at : self.at + 2]
                pieces.append(pair[1:] if pair[1:] in {"$", "`", '"', "\\"} else pair)
                self.at += 2
        self.found.doubt("a quote is not closed")
        self.at = self.end
        return "".join(pieces), False

    def _newlines(self, text: str) -> None:
        if self.awaits_body and "\n" in text:
            self.found.doubt("a line continues after a here-document")

    def _expansion(self, char: str, *, quoted: bool = False) -> tuple[str, bool]:
        """Parse an expansion: `$`, a backtick, `<(` or `>(`. Returns its text as written."""
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
                self.found.doubt("its arithmetic has more than numbers")
            self.at += 1
            self.commands(")")
        elif following == "{":
            self.at += 1
            self._parameter(quoted)
        elif following == "[":
            self.found.doubt("it uses arithmetic with $[ ]")
        elif following in {"'", '"'} and not quoted:
            self.found.doubt(f"${following} is a quote with escapes or translations")
            if following == "'":
                quote = _ESCAPED_QUOTE.match(self.text, self.at + 1)
                self.at = quote.end() if quote else self.end
        elif self.starts("\\\n"):
            self.found.doubt("a line is broken after a $")
        else:
            name = _NAME.match(self.text, self.at)
            self.at = name.end() if name else self.at

    def _parameter(self, quoted: bool) -> None:
        """Parse up to the brace that closes `${`."""
        if self.at < self.end and self.text[self.at] in " \t\n|":
            self.found.doubt("${ } runs commands in newer shells")
            self.commands("}")
            return
        head = _LOOKED_UP.match(self.text, self.at)
        if head:
            self.at = head.end()
        else:
            self.found.doubt("a parameter expansion can run or assign something")
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
            self._count()
            self.found.doubt("a parameter expansion contains quotes or signs")
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
            self.found.doubt("backticks contain escapes that shells read differently")
        self.at = inside.end()
        self.inner(_BACKTICK_ESCAPE.sub(r"\1", text)).commands(None)
