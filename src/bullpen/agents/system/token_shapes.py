"""Recognize keys and tokens by their shapes."""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

_HERE = "[secret]"

# In JSON, a line break is a backslash and a letter; neither belongs to the next token.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_CHAR = r"[A-Za-z0-9_-]"
_VALUE = r"[A-Za-z0-9+/_=~.-]"
_VALUE_CHARS = string.ascii_letters + string.digits + "+/_=~.-"
_TOKEN_CHARS = string.ascii_letters + string.digits + "_-"
_NAME_CHARS_MAX = 64
_PEM_BODY = r"(?:[A-Za-z0-9+/=\s]|\\[nr])"


class _Shape(NamedTuple):
    """One kind of token: how it starts, and its pattern. The text in group 1 is kept."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _shape(hints: tuple[str, ...], body: str) -> _Shape:
    return _Shape(hints, re.compile(_START + body))


_PEM = "-----BEGIN "
_SHAPES = (
    _shape(("sk-ant-",), rf"sk-ant-{_CHAR}{{8,}}"),
    _shape(("sk_live_", "sk_test_"), r"sk_(?:live|test)_[A-Za-z0-9]{16,}"),
    _shape(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}"),
    _shape(("github_pat_",), r"github_pat_[A-Za-z0-9_]{20,}"),
    _shape(("glpat-",), rf"glpat-{_CHAR}{{16,}}"),
    # Ours: of MCP members, hosts, the web page, the tools of a driven program, and people.
    _shape(("bp_", "bph_", "bpw_", "bpt_", "bpp_"), rf"bp[hwtp]?_{_CHAR}{{20,}}"),
    # Seeds of NATS keys: S, the kind of key, and 56 more characters of base32.
    _shape(
        ("SUA", "SAA", "SOA", "SNA", "SCA", "SXA"),
        r"S[UAONCX]A[A-P][A-Z2-7]{54}(?![A-Za-z0-9])",
    ),
    _shape(("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _shape(("xapp-",), r"xapp-[A-Za-z0-9-]{20,}"),
    _shape(("AKIA", "ASIA"), r"A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
    # Keys of Amazon Bedrock, for long and for short.
    _shape(("ABSK",), r"ABSK[A-Za-z0-9+/=]{40,}"),
    _shape(("bedrock-api-key-",), r"bedrock-api-key-[A-Za-z0-9+/=_-]{40,}"),
    _shape(("AIza",), rf"AIza{_CHAR}{{30,}}"),
    _shape(("npm_",), r"npm_[A-Za-z0-9]{30,}"),
    _shape(("pypi-",), rf"pypi-AgE{_CHAR}{{30,}}"),
    _shape(("hf_",), r"hf_[A-Za-z0-9]{30,}"),
    _shape(("gsk_",), r"gsk_[A-Za-z0-9]{40,}"),
    _shape(("xai-",), r"xai-[A-Za-z0-9]{40,}"),
    _shape(("sk-or-",), r"sk-or-v1-[A-Za-z0-9]{32,}"),
    _shape(("r8_",), r"r8_[A-Za-z0-9]{30,}"),
    _shape(("pplx-",), r"pplx-[A-Za-z0-9]{40,}"),
    _shape(("ya29.",), rf"ya29\.{_CHAR}{{20,}}"),
    _shape(("SG.",), rf"SG\.{_CHAR}{{16,}}\.{_CHAR}{{32,}}"),
    _shape(("SK",), r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape(("dop_v1_", "doo_v1_", "dor_v1_"), r"do[opr]_v1_[a-f0-9]{40,}"),
    _shape(("hvs.", "hvb."), rf"hv[sb]\.{_CHAR}{{24,}}"),
    _shape(("dp.",), r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{40,}"),
    _shape(("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _shape(("tskey-",), r"tskey-[a-z]+-[A-Za-z0-9-]{16,}"),
    _shape(("sbp_", "sb_secret_"), rf"(?:sbp_|sb_secret_){_CHAR}{{20,}}"),
    _shape(("lin_api_",), r"lin_api_[A-Za-z0-9]{30,}"),
    _shape(("figd_",), rf"figd_{_CHAR}{{30,}}"),
    _shape(("dapi",), r"dapi[a-f0-9]{32}(?![A-Za-z0-9])"),
    _shape(("eyJ",), rf"eyJ{_CHAR}{{8,}}+\.{_CHAR}{{8,}}+\.{_CHAR}{{4,}}"),
    _Shape(
        (_PEM,),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?:\s|\\[nr])*+"
            r"(?:[A-Za-z-]+: [^\n\\]*(?:\n|\\n)(?:\s|\\[nr])*+)*+"
            rf"[A-Za-z0-9+/=]{{40,}}{_PEM_BODY}*+(?:-----END [A-Z0-9 ]+-----)?"
        ),
    ),
)
# Ordinary text can start like this, so the rest has to look random.
_KEY = _shape(("sk-",), rf"(sk-)({_CHAR}{{20,}})")

# The password in a URL, which ordinary examples have too: it has to look random.
_URL = "://"
_PASSWORD = re.compile(r"(://[^\s:/@\"'<>]{0,200}+:)([^\s:/@\"'<>]{6,200}+)(?=@)")
_OPEN_URL = re.compile(r":(?:/(?:/[^\s/@\"'<>]{0,400}+)?)?\Z")

# Words before a secret, in upper or lower case, and the pattern after them.
_AFTER_HEADER = re.compile(
    r"([\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?i:bearer|basic|token)\s{1,3})?)([A-Za-z0-9._~+/=-]{8,})"
)
_AFTER_BEARER = re.compile(r"(\s{1,3})([A-Za-z0-9._~+/=-]{20,})")
_AFTER_NAME = re.compile(
    rf"([A-Za-z0-9_]{{0,{_NAME_CHARS_MAX}}}[\"']?\s{{0,3}}(?:=>|[=:])\s{{0,3}}[\"']?)({_VALUE}{{12,}})"
)
_HEADER, _BEARER = "authorization", "bearer"
_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "private_key",
    "credential",
    "accountkey",
    "accesskey",
    "cookie",
    "bullpen_nonce",
)

_BEGINNINGS = (*(hint for shape in (*_SHAPES, _KEY) for hint in shape.hints),)
_WORDS = (_HEADER, _BEARER, *_NAMES)
_LONGEST = max(map(len, (*_BEGINNINGS, *_WORDS)))
_OPEN_TOKEN = re.compile(rf"{_START}[A-Za-z0-9_.-]+\Z")
_OPEN_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]*(?:-{0,5}\Z|-----"
    rf"(?:[A-Za-z-]+: [^\n\\]*|{_PEM_BODY})*+"
    r"(?:\\?\Z|-{1,5}\Z|-----E?N?D?\Z|-----END [A-Z0-9 ]*-{0,5}\Z))"
)
_OPEN_WORD = re.compile(
    r"[A-Za-z0-9_-]+[\"']?\s{0,3}"
    rf"(?:(?:=>?|:)\s{{0,3}}[\"']?)?(?:(?i:bearer|basic|token)\s{{0,3}})?{_VALUE}*\Z"
)


def without_tokens(text: str) -> str:
    """The text without anything shaped like a key; the same object if there is nothing."""
    before = text
    for hints, pattern in _SHAPES:
        if any(hint in text for hint in hints):
            text = pattern.sub(_HERE, text)
    if "sk-" in text:
        text = _KEY.pattern.sub(_if_random, text)
    if _URL in text:
        text = _PASSWORD.sub(_if_random, text)
    text = _without_named(text)
    # A removed token may have hidden another one right after it.
    return before if text == before else without_tokens(text)


def _without_named(text: str) -> str:
    """The text without secrets that follow a word such as "token"."""
    small = _small(text)
    found: list[tuple[int, int]] = []
    for word in _WORDS:
        follows, sure = {
            _HEADER: (_AFTER_HEADER, True),
            _BEARER: (_AFTER_BEARER, False),
        }.get(word, (_AFTER_NAME, False))
        for at in _places(small, word):
            match = follows.match(text, at + len(word))
            if match is not None and (sure or looks_random(match[2])):
                found.append(match.span(2))
    parts: list[str] = []
    done = 0
    for first, last in sorted(found):
        if first >= done:
            parts += [text[done:first], _HERE]
        done = max(done, last)
    return "".join([*parts, text[done:]]) if found else text


def _small(text: str) -> str:
    """The text in lower case, with the same length."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(char.lower() if char.isascii() else char for char in text)


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def open_from(end: str, *, of: int) -> int:
    """The position near the end of a text where a token may start that continues after it."""
    first = min(_begun(end), _partly(end))
    return of - len(end) + first


def _begun(end: str) -> int:
    """The position of a token whose start is complete but which may continue."""
    pem = end.rfind(_PEM)
    if pem >= 0 and _OPEN_PEM.match(end, pem):
        return pem
    run = len(end) - len(end.rstrip(_VALUE_CHARS))
    near = max(0, len(end) - run - _NAME_CHARS_MAX - 2 * _LONGEST)
    tail = end[near:]
    small = _small(tail)
    places = [
        *((near + at, _OPEN_TOKEN) for word in _BEGINNINGS for at in _places(tail, word)),
        *((near + at, _OPEN_WORD) for word in _WORDS for at in _places(small, word)),
        *((near + at, _OPEN_URL) for at in _places(tail, ":")),
    ]
    for at, pattern in sorted(places, key=lambda place: place[0]):
        if pattern.match(end, at):
            # A word may be part of a token, which then is held back as a whole.
            return len(end[:at].rstrip(_TOKEN_CHARS)) if pattern is _OPEN_WORD else at
    return len(end)


def _partly(end: str) -> int:
    """The position where an incomplete start of a token may be."""
    tail = end[-_LONGEST:]
    small = _small(tail)
    for start in range(len(tail)):
        before = tail[start - 1] if start else " "
        # A token is separate; a word may be part of a name, such as MY_TOKEN or myToken.
        alone = not (before.isalnum() or before in "_-") or tail[max(0, start - 2)] == "\\"
        part = alone or not before.isalnum() or tail[start].isupper()
        if (alone and any(word.startswith(tail[start:]) for word in _BEGINNINGS)) or (
            part and any(word.startswith(small[start:]) for word in _WORDS)
        ):
            return len(end) - len(tail) + start
    return len(end)


def _if_random(match: re.Match[str]) -> str:
    kept = "" if match[1] == "sk-" else match[1]
    return f"{kept}{_HERE}" if looks_random(match[2]) else match[0]


def looks_random(text: str) -> bool:
    """Whether a text looks random: digits and letters alternate too often for a word."""
    kinds: list[Callable[[str], bool]] = [str.isdigit, str.isupper, str.islower]
    classes = [next((n for n, is_so in enumerate(kinds) if is_so(char)), 3) for char in text[:200]]
    changes = sum(a != b for a, b in itertools.pairwise(classes))
    return changes >= 5 and 0 in classes and len(set(text)) >= 8
