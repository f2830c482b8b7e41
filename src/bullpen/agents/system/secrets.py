"""Find secrets and redact them from text.

Secrets are found by value, in the forms in which programs print them, and by the known shapes of
tokens. This keeps secrets out of files and screens against accidents and careless models. It does
not stop a model that disguises them on purpose; only the sandbox does.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO, cast
from urllib.parse import quote, quote_plus, unquote, urlsplit

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system.environment import beyond_ours
from bullpen.agents.system.token_shapes import open_from, without_tokens

VALUE_CHARS_MIN = 6
"""Shorter values are too likely to be part of other text."""

_HELD_MAX = 16_384
_BASE64_LINE = 76
_BASE64_MIN = 8
_SECRET_WORDS = frozenset(
    [
        "KEY",
        "KEYS",
        "TOKEN",
        "TOKENS",
        "SECRET",
        "SECRETS",
        "PASSWORD",
        "PASSWORDS",
        "PASSWD",
        "PASS",
        "PASSPHRASE",
        "PWD",
        "CREDENTIAL",
        "CREDENTIALS",
        "CRED",
        "CREDS",
        "AUTH",
        "COOKIE",
        "COOKIES",
        "DSN",
        "SIGNATURE",
        "SALT",
        "PAT",
    ]
)
_SECRET_ENDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
_NOT_SECRET = frozenset(("PWD", "OLDPWD", "SSH_AUTH_SOCK"))
_MARK = r"\[secret(?: [^\]\s]+)?\]"
# Values that are settings and not secrets: a word, a number, a flag.
_PLAIN = re.compile(r"[A-Za-z]+(?:[-_. ][A-Za-z]+)*|[\d.,:]+")


def names_a_secret(name: str) -> bool:
    """Whether the name of a variable suggests a secret."""
    if name in _NOT_SECRET:
        return False
    words = re.split(r"[^A-Z0-9]+", name.upper())
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in words)


class Redactor:
    """Redacts the secrets of one environment, and everything that looks like a key.

    `asked` are the variables that an agent was given by name. Their values count as secrets,
    whatever their names, unless they are plain words, numbers or paths.
    """

    def __init__(self, env: Mapping[str, str], asked: Iterable[str] = ()) -> None:
        named = frozenset(asked)
        marks: dict[str, str] = {}
        for name, value in env.items():
            for secret in _secrets_of(name, value, asked=name in named):
                for form in _forms(secret):
                    marks.setdefault(form, f"[secret {name}]")
        # The longest first, so that no part of one remains.
        self._forms = sorted(marks, key=len, reverse=True)
        self._marks = marks

    def text(self, text: str) -> str:
        """The text without secrets; the same object if it has none."""
        return without_tokens(self._without_values(text))

    def value(self, value: Any) -> Any:
        """A JSON value without secrets in any of its texts."""
        return with_texts(value, self.text)

    def stream(self) -> Redacting:
        """A redactor for a text that comes in pieces."""
        return Redacting(self)

    def _without_values(self, text: str) -> str:
        found = [form for form in self._forms if form in text]
        if not found:
            return text
        pattern = "|".join([_MARK, *map(re.escape, found)])
        changed = re.sub(pattern, lambda match: self._marks.get(match[0], match[0]), text)
        return text if changed == text else changed

    def _value_begun(self, text: str) -> int:
        """The position near the end of a text where a value may start and continue later."""
        first = len(text)
        for form in self._forms:
            at = text.find(form[0], max(0, len(text) - len(form) + 1))
            while 0 <= at < first and not form.startswith(text[at:]):
                at = text.find(form[0], at + 1)
            if 0 <= at < first:
                first = at
        return first


def redactor_of(env: Mapping[str, str]) -> Redactor:
    """The redactor of a launch, from its whole environment."""
    return Redactor(env, beyond_ours(env))


def redact_output(env: Mapping[str, str]) -> None:
    """Redact everything that this process prints from now on, tracebacks too."""
    redactor = redactor_of(env)
    sys.stdout = cast("TextIO", RedactedFile(sys.stdout, redactor)) if sys.stdout else None
    sys.stderr = cast("TextIO", RedactedFile(sys.stderr, redactor)) if sys.stderr else None


class Redacting:
    """Redacts a text that comes in pieces. A possible start of a secret is held back."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """Add a piece; returns the text that can be shown now."""
        whole = self._redactor._without_values(self._held + text)
        cut = min(self._redactor._value_begun(whole), open_from(whole[-_HELD_MAX:], of=len(whole)))
        if len(whole) - cut > _HELD_MAX:
            cut = len(whole)
        self._held = whole[cut:]
        return without_tokens(whole[:cut])

    def rest(self) -> str:
        """The text that was held back, at the end."""
        held, self._held = self._held, ""
        return self._redactor.text(held)


class RedactedFile:
    """A text file, such as the standard output, that redacts secrets."""

    def __init__(self, file: TextIO, redactor: Redactor) -> None:
        self._file = file
        self._pieces = redactor.stream()

    def write(self, text: str) -> int:
        """Write what can be shown now."""
        self._file.write(self._pieces.feed(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write everything."""
        self._file.write(self._pieces.rest())
        self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {with_texts(key, change): with_texts(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(each, change) for each in value]
    return value


def _secrets_of(name: str, value: str, *, asked: bool) -> Iterator[str]:
    if name == NONCE:
        # It proves which agent a process belongs to.
        yield value
    elif names_a_secret(name):
        # The path of an existing file leads to a secret, but is not one.
        if not (value.startswith("/") and os.path.exists(value)):
            yield value
    elif asked and not _PLAIN.fullmatch(value) and not value.startswith(("/", "~", "./")):
        yield value
    yield from _passwords(value)


def _passwords(value: str) -> Iterator[str]:
    """The passwords in URLs."""
    if "://" not in value or "@" not in value:
        return
    try:
        parts = urlsplit(value)
        password = parts.password or ""
    except ValueError:
        return
    yield from (password, unquote(password))


def _forms(value: str) -> Iterator[str]:
    """The forms in which a value is printed, except short ones, which would match too much."""
    if len(value) < VALUE_CHARS_MIN:
        return
    yield value
    yield from (quote(value, safe=""), quote(value), quote_plus(value))
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (value.replace("'", "'\\''"), value.replace("'", "'\"'\"'"))
    yield re.sub(r"([^A-Za-z0-9_@%+=:,./-])", r"\\\1", value)
    raw = value.encode("utf-8", "surrogateescape")
    yield from (html.escape(value), raw.hex(), raw.hex().upper())
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield from _certain(encode(b"\0" * before + raw).decode(), before, len(raw))


def _certain(encoded: str, before: int, size: int) -> Iterator[str]:
    """The part of a base64 value that does not depend on the bytes around it, and its lines."""
    first = (0, 2, 3)[before]
    last = (before + size) * 8 // 6
    certain = encoded[first:last]
    if len(certain) >= _BASE64_MIN:
        yield certain
    if before == 0 and len(certain) > _BASE64_LINE:
        lines = (certain[at : at + _BASE64_LINE] for at in range(0, len(certain), _BASE64_LINE))
        yield from (line for line in lines if len(line) >= _BASE64_MIN)
