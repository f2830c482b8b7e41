"""Links that answer a request: how they are signed, and what a signed link is good for. Pure.

A link holds everything that it is bound to: the team, the request, exactly what was asked, the
choice and the time until which it works. Nobody without the key can make one or change one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bullpen.protocol.request import Request
from bullpen.team.requests import rules as request_rules

Choice = Literal["allow", "deny", "open"]
"""What a link is for. `open` shows the request and lets the person choose."""

CHOICES: tuple[Choice, ...] = ("allow", "deny", "open")

NUMBER_BYTES = 10
KEY_BYTES = 32
LIFE_MS = 60 * 60 * 1000

Flaw = Literal["forged", "other_team", "expired", "no_request", "changed", "answered", "used"]
"""Why a link does not count."""

_MEANING = b"bullpen answer link 1\n"
_MAC_BYTES = 16
_MARK_BYTES = 8
_CONTENT_BYTES = 16
_TIME_BYTES = 6
_BODY_BYTES = 1 + _TIME_BYTES + NUMBER_BYTES + 2 * _MARK_BYTES + _CONTENT_BYTES
_TEXT = re.compile(r"[a-z2-7]{1,200}")


@dataclass(frozen=True, slots=True)
class AnswerLink:
    """One link. Its number makes it different from all others, so that it counts once."""

    choice: Choice
    expires_ms: int
    number: bytes
    team: bytes
    request: bytes
    content: bytes


def link_to(
    request: Request, team: str, choice: Choice, *, number: bytes, now_ms: int, life_ms: int
) -> AnswerLink:
    """A link to a request of a team. It works no longer than the request waits."""
    expires = now_ms + life_ms
    if request.deadline_ms is not None:
        expires = min(expires, request.deadline_ms)
    return AnswerLink(
        choice, expires, number, _mark("team", team), _mark("request", request.id), content(request)
    )


def signed(link: AnswerLink, key: bytes) -> str:
    """The text of a link: small letters and digits alone, which no chat reads as markup."""
    body = b"".join([
        bytes([CHOICES.index(link.choice)]),
        link.expires_ms.to_bytes(_TIME_BYTES, "big"),
        link.number,
        link.team,
        link.request,
        link.content,
    ])  # fmt: skip
    return base64.b32encode(body + _mac(body, key)).decode().rstrip("=").lower()


def verified(text: str, key: bytes) -> AnswerLink | None:
    """The link that was signed with this key; None if it was not."""
    if _TEXT.fullmatch(text) is None:
        return None
    try:
        data = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        return None
    body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
    if len(body) != _BODY_BYTES or not hmac.compare_digest(mac, _mac(body, key)):
        return None
    # The last letter has bits that mean nothing: only one way to write a link counts.
    if base64.b32encode(data).decode().rstrip("=").lower() != text or body[0] >= len(CHOICES):
        return None
    at = 1 + _TIME_BYTES
    parts = []
    for size in (NUMBER_BYTES, _MARK_BYTES, _MARK_BYTES, _CONTENT_BYTES):
        parts.append(body[at : at + size])
        at += size
    expires = int.from_bytes(body[1 : 1 + _TIME_BYTES], "big")
    return AnswerLink(CHOICES[body[0]], expires, *parts)


def request_of(link: AnswerLink, requests: Iterable[Request]) -> Request | None:
    """The request that a link is about."""
    return next((each for each in requests if _mark("request", each.id) == link.request), None)


def flaw_of(link: AnswerLink, team: str, request: Request | None, *, now_ms: int) -> Flaw | None:
    """Why a signed link does not count for this team and request as they are; None if it does."""
    if link.team != _mark("team", team):
        return "other_team"
    if now_ms >= link.expires_ms:
        return "expired"
    if request is None or _mark("request", request.id) != link.request:
        return "no_request"
    if request.state != "pending" or request.used_ms is not None:
        return "answered"
    if request_rules.is_overdue(request, now_ms):
        return "expired"
    return None if hmac.compare_digest(link.content, content(request)) else "changed"


def may_choose(link: AnswerLink, choice: str) -> bool:
    """Whether a link lets a person choose this."""
    return choice in ("allow", "deny") and link.choice in ("open", choice)


def content(request: Request) -> bytes:
    """A digest of exactly what is asked, by whom and of whom."""
    asked = [request.id, request.kind, request.sender, request.to, request.digest, request.subject]
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).digest()[:_CONTENT_BYTES]


def _mark(what: str, name: str) -> bytes:
    return hashlib.sha256(f"{what}\n{name}".encode("utf-8", "surrogatepass")).digest()[:_MARK_BYTES]


def _mac(body: bytes, key: bytes) -> bytes:
    return hmac.new(key, _MEANING + body, hashlib.sha256).digest()[:_MAC_BYTES]
