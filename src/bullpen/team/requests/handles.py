"""Finds requests by the few characters that people type: a handle is the end of an id. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bullpen.protocol.request import Request

HANDLE_LEAST = 4

_TELLING = re.compile(r"(?:perm|question)-\d+-(?P<suffix>\w+)|[a-z_]+-(?P<ms>\d+)@.*")
"""The part of an id that differs between requests of the same kind and member."""

_IDS = re.compile(r"\b(?:(?:perm|question)-\d{6,}-\w+|(?:plan_approval|shutdown)-\d{6,}@[\w@-]+)")
_IN_BRACKETS = re.compile(rf"\s*\({_IDS.pattern}\)")
_MARK = re.compile(r"-\d{6}")


def handles(requests: Iterable[Request]) -> dict[str, str]:
    """Return the shortest unique handle of each request, by id."""
    ids = [request.id for request in requests]
    return {each: _shortest(each, [other for other in ids if other != each]) for each in ids}


def short_id(request_id: str) -> str:
    """Return the handle of a request in a history, where another one may end like it."""
    return _shortest(request_id, [])


def with_short_ids(text: str) -> str:
    """Return a line for people with the handles of the requests whose ids it has."""
    return _IDS.sub(lambda found: short_id(found[0]), text) if _MARK.search(text) else text


def without_ids(text: str) -> str:
    """Return a line for people without the ids in brackets, where another place has the handle."""
    return _IN_BRACKETS.sub("", text) if _MARK.search(text) else text


def named(requests: Iterable[Request], wanted: str) -> list[Request]:
    """Return the requests that a text may mean: by whole id, else by its beginning or its end."""
    there = list(requests)
    exact = [request for request in there if request.id == wanted]
    return exact or [request for request in there if _means(wanted, request.id)]


def _means(wanted: str, request_id: str) -> bool:
    ends = (request_id, _key(request_id))
    is_one = request_id.startswith(wanted) or any(end.endswith(wanted) for end in ends)
    return len(wanted) >= HANDLE_LEAST and is_one


def _key(request_id: str) -> str:
    found = _TELLING.fullmatch(request_id)
    return (found["suffix"] or found["ms"]) if found else request_id


def _shortest(request_id: str, others: list[str]) -> str:
    key = _key(request_id)
    if key == request_id:
        # Another program made this id, so any part of it may be the distinctive one.
        return request_id
    for length in range(HANDLE_LEAST, len(key) + 1):
        if not any(_means(key[-length:], other) for other in others):
            return key[-length:]
    return request_id
