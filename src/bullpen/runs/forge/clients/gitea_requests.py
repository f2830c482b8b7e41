"""Requests to Gitea or Forgejo: whole lists, unchanged answers, and failures as our errors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import TypeAdapter, ValidationError

from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.runs.forge.clients.answers import Answer, KnownAnswers
from bullpen.runs.forge.contract import LOOK_THERE, TRY_LATER, Allowance, TryLater
from bullpen.runs.forge.looking.request_budget import RequestBudget

ANSWER_BYTES_MAX = 32 * 2**20
PAGES_MAX = 2_000
READS_MAX = 3
"""How often a list is read again because it changed while it was read."""
REQUEST_S = 60.0

_CONNECT_S = 15.0
_WORDS_MAX = 300
_WRONG_TOKEN = "Set a valid token: bullpen forge login"  # noqa: S105
_FEW_RIGHTS = "Give the token more rights: bullpen forge check"
_WRONG_ADDRESS = "Check the address of the forge in [forge]: it must be a Gitea or Forgejo."

T = TypeVar("T")
Query = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Page:
    """The content of an answer, and what its headers say about the list it is a page of."""

    content: Any
    # How many entries there are on all pages; None if it does not say.
    total: int | None
    has_next: bool | None


@dataclass(frozen=True, slots=True)
class _Said:
    """What came back from the server."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class GiteaRequests:
    """The interface of one server, by one token. The token is in no error."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        page_size: int = 50,
        transport: httpx2.AsyncBaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = urlsplit(url).netloc.rpartition("@")[2]
        self._token = token
        self._page_size = page_size
        self._monotonic = monotonic
        self._known = KnownAnswers()
        self.budget = RequestBudget()
        self._left: int | None = None
        self._resets_at: float | None = None
        self._http = httpx2.AsyncClient(
            base_url=f"{url.rstrip('/')}/api/v1",
            headers={"Authorization": f"token {token}", "Accept": "application/json"},
            timeout=httpx2.Timeout(REQUEST_S, connect=_CONNECT_S),
            transport=transport,
            # A redirect could lead the token to another host.
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"GiteaRequests({self._host!r})"

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def allowance(self) -> Allowance:
        """Return what the last answer said about the limit of requests."""
        if self._resets_at is None:
            return Allowance(self._left, None)
        return Allowance(self._left, max(0.0, self._resets_at - self._monotonic()))

    async def get(self, shape: type[T], path: str, query: Query | None = None) -> T:
        """Return what is at a path."""
        return self._shaped(shape, (await self._read(path, query or {})).content, path)

    async def all(self, shape: type[T], path: str, query: Query | None = None) -> list[T]:
        """Return all pages of a list. If it changes while it is read, it is read again."""
        for _ in range(READS_MAX):
            found = await self._pages(path, query or {})
            if found is not None:
                return [self._shaped(shape, each, path) for each in found]
            self.budget.forget()
        raise TryLater(f"The list {path} of {self._host} changed whenever it was read.")

    async def send(self, shape: type[T], method: str, path: str, body: object) -> T:
        """Write something; return what the server says it is now."""
        return self._shaped(shape, self._content(await self._ask(method, path, body), path), path)

    async def do(self, method: str, path: str, body: object = None) -> int:
        """Write something; return the status of the answer."""
        return (await self._ask(method, path, body)).status

    async def end_of(self, path: str, most: int) -> bytes:
        """Return the last bytes of a text."""
        begun: bytes | None = self.budget.known(path)
        if begun is not None:
            return begun
        tail = b""
        self.budget.take()
        headers = {"Range": f"bytes=-{most}", "Accept": "*/*"}
        try:
            async with self._http.stream("GET", path, headers=headers) as response:
                if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    # So it answers for an empty text.
                    return b""
                if not response.is_success:
                    raise self._failure(await self._said(response), "GET", path)
                async for piece in response.aiter_bytes():
                    tail = (tail + piece)[-most:]
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        self.budget.keep(path, tail)
        return tail

    async def _pages(self, path: str, query: Query) -> list[Any] | None:
        """Return all entries of a list; None if entries came or went meanwhile."""
        found: dict[str, Any] = {}
        first: int | None = None
        for page in range(1, PAGES_MAX + 1):
            answer = await self._read(path, {**query, "page": page, "limit": self._page_size})
            entries = answer.content
            if not isinstance(entries, list):
                raise self._misshapen(path, "it is not a list")
            if page > 1 and answer.total != first:
                return None
            first = answer.total
            before = len(found)
            for entry in entries:
                found.setdefault(_key(entry), entry)
            if _is_last(answer, page * self._page_size, len(found), len(entries)):
                return list(found.values())
            if entries and len(found) == before:
                # The server knows no pages here, and said that there is more than it shows.
                return list(found.values())
        raise Unavailable(
            f"The list {path} of {self._host} has more than {PAGES_MAX} pages.", remedy=TRY_LATER
        )

    async def _read(self, path: str, query: Query) -> Page:
        url = str(httpx2.URL(path, params={key: str(value) for key, value in query.items()}))
        begun: Page | None = self.budget.known(url)
        if begun is not None:
            return begun
        known = self._known.get(url)
        headers = {} if known is None else {"If-None-Match": known.etag}
        said = await self._ask("GET", url, headers=headers)
        if said.status == HTTPStatus.NOT_MODIFIED and known is not None:
            unchanged: Page = known.content
            self.budget.keep(url, unchanged)
            return unchanged
        page = Page(self._content(said, path), _total(said.headers), _has_next(said.headers))
        answer = Answer(page, said.headers.get("etag", ""))
        self._known.keep(url, answer, len(said.content))
        self.budget.keep(url, page)
        return page

    async def _ask(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] = {}
    ) -> _Said:
        self.budget.take()
        sent = {**headers}
        content = None
        if body is not None:
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            sent["Content-Type"] = "application/json"
        try:
            async with self._http.stream(method, path, content=content, headers=sent) as response:
                said = await self._said(response)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        self._note_limit(said.headers)
        if 200 <= said.status < 300 or said.status == HTTPStatus.NOT_MODIFIED:
            return said
        raise self._failure(said, method, path)

    async def _said(self, response: httpx2.Response) -> _Said:
        """Read an answer, unless it is much longer than it may be."""
        pieces = bytearray()
        async for piece in response.aiter_bytes():
            pieces += piece
            if len(pieces) > ANSWER_BYTES_MAX:
                raise Unavailable(f"An answer of {self._host} is too long.", remedy=TRY_LATER)
        return _Said(response.status_code, response.headers, bytes(pieces))

    def _content(self, said: _Said, path: str) -> Any:
        try:
            return json.loads(said.content)
        except (ValueError, RecursionError):
            raise self._misshapen(path, "it is not JSON") from None

    def _shaped(self, shape: type[T], content: Any, path: str) -> T:
        try:
            return TypeAdapter(shape).validate_python(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(each) for each in first["loc"]) or "it"
            raise self._misshapen(path, f"{place}: {first['msg']}") from None

    def _misshapen(self, path: str, why: str) -> Unavailable:
        return Unavailable(
            self._safe(f"The answer of {self._host} to {_bare(path)} cannot be read: {why}."),
            remedy=_WRONG_ADDRESS,
        )

    def _unreachable(self, error: httpx2.HTTPError) -> TryLater:
        words = str(error) or type(error).__name__
        return TryLater(self._safe(f"Cannot reach {self._host}: {_line(words)}."))

    def _failure(self, said: _Said, method: str, path: str) -> BullpenError:
        """Return the error for an answer that is not a success."""
        words = self._safe(_words(said))
        text = f"{self._host} answered {said.status} to {method} {self._safe(_bare(path))}: {words}"
        waits = _seconds(said.headers.get("retry-after"))
        if said.status == HTTPStatus.TOO_MANY_REQUESTS or said.status >= 500 or waits is not None:
            return TryLater(text, after_s=waits)
        if said.status == HTTPStatus.UNAUTHORIZED:
            message = f"{self._host} does not accept the token: {words}"
            return Refused(message, reason="forge_refused", remedy=_WRONG_TOKEN)
        if said.status == HTTPStatus.NOT_FOUND or _is_unknown_call(said):
            return NotFound(text, remedy=LOOK_THERE)
        if 300 <= said.status < 400:
            return NotFound(text, remedy="It has moved: set its new address in [forge].")
        if said.status == HTTPStatus.CONFLICT:
            return Conflict(text, remedy=LOOK_THERE)
        remedy = _FEW_RIGHTS if said.status == HTTPStatus.FORBIDDEN else ""
        return Refused(text, reason="forge_refused", remedy=remedy)

    def _note_limit(self, headers: Mapping[str, str]) -> None:
        """Keep what a proxy in front of the server says; Gitea itself has no limit."""
        left = headers.get("x-ratelimit-remaining") or headers.get("ratelimit-remaining")
        self._left = int(left) if left and left.isdigit() else None
        resets = _seconds(headers.get("ratelimit-reset") or headers.get("retry-after"))
        self._resets_at = None if resets is None else self._monotonic() + resets

    def _safe(self, text: str) -> str:
        return text.replace(self._token, "[token]") if self._token else text


def _is_last(answer: Page, asked: int, found: int, on_page: int) -> bool:
    """Whether a page is the last one.

    A server may have shorter pages than asked for, and count entries that it does not show.
    """
    if answer.has_next is not None:
        return not answer.has_next
    if answer.total is None:
        return on_page == 0
    return found >= answer.total or (on_page == 0 and asked >= answer.total)


def _key(entry: Any) -> str:
    """Return what tells an entry from others, if the list moved on between two pages."""
    if isinstance(entry, dict) and isinstance(entry.get("id"), int):
        return str(entry["id"])
    return json.dumps(entry, sort_keys=True)


def _total(headers: Mapping[str, str]) -> int | None:
    total = headers.get("x-total-count", "")
    return int(total) if total.isdigit() else None


def _has_next(headers: Mapping[str, str]) -> bool | None:
    return 'rel="next"' in headers["link"] if "link" in headers else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() and len(text) < 8 else None


def _is_unknown_call(said: _Said) -> bool:
    """Whether a version lacks a call: where others are at the same path, it answers so."""
    return said.status == HTTPStatus.METHOD_NOT_ALLOWED and not said.content.startswith(b"{")


def _words(said: _Said) -> str:
    """Return what the server said went wrong, on one line."""
    try:
        content = json.loads(said.content)
    except (ValueError, RecursionError):
        content = None
    message = content.get("message") if isinstance(content, dict) else None
    if isinstance(message, str) and message:
        return _line(message)
    try:
        return HTTPStatus(said.status).phrase
    except ValueError:
        return "no reason given"


def _line(text: str) -> str:
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return shown[:_WORDS_MAX].rstrip(".")


def _bare(path: str) -> str:
    return path.partition("?")[0]
