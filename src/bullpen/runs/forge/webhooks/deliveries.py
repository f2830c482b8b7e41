"""Rules for a delivery of a webhook: whether it counts, and which numbers it names. Pure.

A delivery is only a hint to look. Nothing but numbers is taken from it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

BODY_BYTES_MAX = 1024 * 1024

Headers: TypeAlias = Mapping[str, Sequence[str]]
"""All values of each header, by its name in lower case."""

Flaw = Literal["wrong_type", "malformed", "other_repository"]

NUMBER_MAX = 2**31 - 1
_NUMBERS_MAX = 50
_SIGNATURES = {
    "x-hub-signature-256": re.compile(r"sha256=([0-9a-f]{64})"),
    "x-gitea-signature": re.compile(r"([0-9a-f]{64})"),
    "x-forgejo-signature": re.compile(r"([0-9a-f]{64})"),
}
_EVENT_NAMES = ("x-github-event", "x-gitea-event", "x-forgejo-event")
_DELIVERY_NAMES = ("x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery")
_ID = re.compile(r"[A-Za-z0-9-]{1,100}")

EVENTS = (
    "issues", "issue_comment", "pull_request", "pull_request_review",
    "pull_request_review_comment", "pull_request_review_thread", "check_run", "check_suite",
    "status", "push",
)  # fmt: skip
"""What a person chooses on GitHub."""

_KNOWN = frozenset(
    {*EVENTS, "pull_request_approved", "pull_request_rejected", "pull_request_comment"}
    | {"workflow_run", "delete"}
)
_WITH_PULLS = ("check_run", "check_suite", "workflow_run")


@dataclass(frozen=True, slots=True)
class Hint:
    """What to look at. `marks` are those of the delivery: one that was seen makes it a replay."""

    numbers: tuple[int, ...]
    # Whether to look at everything, because the delivery names no number.
    everything: bool
    marks: tuple[str, str]


def may_be_signed(headers: Headers) -> bool:
    """Return whether the headers can be those of a signed delivery, so that its body is read."""
    return bool(_claimed(headers))


def is_signed(headers: Headers, body: bytes, secret: str) -> bool:
    """Return whether every signature that a delivery has is made with the secret."""
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = _claimed(headers)
    return bool(given) and all(hmac.compare_digest(each, made) for each in given)


def _claimed(headers: Headers) -> list[str]:
    """Return the signatures; none if one of them is malformed or there twice."""
    found: list[str] = []
    for name, shape in _SIGNATURES.items():
        values = headers.get(name, ())
        if not values:
            continue
        fits = shape.fullmatch(values[0])
        if len(values) > 1 or fits is None:
            return []
        found.append(fits[1])
    return found


def hint_of(headers: Headers, body: bytes, repository: str) -> Hint | Flaw | None:
    """Return what a signed delivery hints at. None if it is about nothing of interest.

    `repository` is OWNER/NAME.
    """
    kind = _only(headers, ("content-type",)) or ""
    if kind.partition(";")[0].strip().lower() != "application/json":
        return "wrong_type"
    event, delivery = _only(headers, _EVENT_NAMES), _only(headers, _DELIVERY_NAMES)
    if event is None or delivery is None or _ID.fullmatch(delivery) is None:
        return "malformed"
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return "malformed"
    if not isinstance(said, dict):
        return "malformed"
    if event == "ping":
        return None
    if _name_of(said) != repository.casefold():
        return "other_repository"
    if event not in _KNOWN:
        return None
    numbers = _numbers(event, said)
    if numbers is None:
        return "malformed"
    # The id is not signed: the same body is a replay under any id.
    marks = _mark(delivery.encode()), _mark(body)
    return Hint(tuple(numbers), not numbers, marks)


def _only(headers: Headers, names: Sequence[str]) -> str | None:
    """Return the value of the first of these headers that is there; None if it is there twice."""
    values = next((headers[name] for name in names if headers.get(name)), ())
    return values[0] if len(values) == 1 else None


def _name_of(said: Mapping[str, Any]) -> str | None:
    place = said.get("repository")
    name = place.get("full_name") if isinstance(place, dict) else None
    return name.casefold() if isinstance(name, str) else None


def _numbers(event: str, said: Mapping[str, Any]) -> list[int] | None:
    """Return the issues and pull requests that a delivery names; None if one is no number."""
    found: list[Any] = []
    for key in ("issue", "pull_request"):
        own = said.get(key)
        if isinstance(own, dict):
            found.append(own.get("number"))
    if "number" in said:
        found.append(said["number"])
    own = said.get(event) if event in _WITH_PULLS else None
    pulls = own.get("pull_requests") if isinstance(own, dict) else None
    if isinstance(pulls, list):
        found += [each.get("number") if isinstance(each, dict) else None for each in pulls]
    if not all(is_number(each) for each in found) or len(found) > _NUMBERS_MAX:
        return None
    return sorted(set(found))


def is_number(value: object) -> bool:
    """Return whether something can be the number of an issue or pull request."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    return plain and 1 <= value <= NUMBER_MAX  # type: ignore[operator]


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
