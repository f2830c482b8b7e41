"""One connection to the API of GitHub: unchanged answers, limits of requests and errors.

Whatever goes wrong becomes an error of the contract. None of them has the token in it.
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

import anyio
import httpx2

from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused
from bullpen.runs.forge.clients.answers import Answer, KnownAnswers
from bullpen.runs.forge.contract import LOOK_THERE, Allowance, TryLater
from bullpen.runs.forge.looking.request_budget import RequestBudget

REQUEST_S = 60.0
"""How long one request may take, with its answer."""

ANSWER_BYTES_MAX = 32 * 1024 * 1024
"""More is no answer of the API."""

SECONDARY_S = 60.0
"""How long to wait after a secondary limit that does not say: what GitHub's documentation asks."""

VERSION = "2022-11-28"
_WORDS_MAX = 300
_SECONDARY = re.compile(r"secondary rate limit|abuse detection", re.IGNORECASE)
_REDIRECTS_MAX = 3
_COUNTED = frozenset({"core", "graphql"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_FEW_RIGHTS = "Give the token more rights: bullpen forge check"
_SIGN_IN_AGAIN = (
    "Create a new token for the forge that may read and write contents, issues and pull requests, "
    "then run: bullpen forge login"
)


class GitHubConnection:
    """Sends requests with one token, and keeps answers that the API may call unchanged."""

    def __init__(
        self,
        api: str,
        token: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        parts = urlsplit(api)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise Invalid(
                f"The address {api} is not encrypted, so it is not sent a token.",
                remedy="Use an address that begins with https://",
            )
        self.api = api.rstrip("/")
        self._token, self._monotonic = token, monotonic
        self._origin = (parts.scheme, parts.netloc)
        self._known = KnownAnswers()
        self.budget = RequestBudget()
        # The rights that the last refused request needs, as GitHub's answer says.
        self.needed = ""
        self._limits: dict[str, tuple[int, float]] = {}
        self._closed_until, self._closed_why = 0.0, ""
        self._http = httpx2.AsyncClient(
            timeout=REQUEST_S, follow_redirects=False, transport=transport
        )

    def __repr__(self) -> str:
        return f"GitHubConnection({self.api})"

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def allowance(self) -> Allowance:
        """Return the smaller of the limits that the last answers told; searches have their own."""
        if not self._limits:
            return Allowance(None, None)
        left, resets = min(self._limits.values())
        return Allowance(left, max(0.0, resets - self._monotonic()))

    # Requests

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Answer:
        """Read something. What is unchanged is returned again and costs nothing of the limit."""
        key = path + "?" + "&".join(f"{name}={value}" for name, value in (params or {}).items())
        begun: Answer | None = self.budget.known(key)
        if begun is not None:
            return begun
        known = self._known.get(key)
        headers = {"If-None-Match": known.etag} if known else {}
        response = await self._send("GET", self.api + path, params=params, headers=headers)
        if response.status_code == 304 and known:
            self.budget.keep(key, known)
            return known
        answer = Answer(self._json(response), response.headers.get("etag", ""))
        self._known.keep(key, answer, len(response.content))
        self.budget.keep(key, answer)
        return answer

    async def pages(
        self, path: str, size: int, params: Mapping[str, str] | None = None, *, inside: str = ""
    ) -> list[dict[str, Any]]:
        """Read all pages of a list, or of the list under a key."""
        found: list[dict[str, Any]] = []
        page = 1
        while True:
            words = {**(params or {}), "per_page": str(size), "page": str(page)}
            content = (await self.get(path, words)).content
            items = content.get(inside) if inside and isinstance(content, dict) else content
            if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
                raise TryLater(f"{self.api}{path} answered with something other than a list.")
            found += items
            # Not the links of the answer: a full page that is unchanged may have a next one now.
            if len(items) < size:
                return found
            page += 1

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Write something. It may have happened if this raises `TryLater`."""
        response = await self._send(method, self.api + path, body=body)
        return self._json(response) if response.content else None

    async def graphql(self, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Ask or change something that only the other API of GitHub has."""
        key = json.dumps([query, dict(variables)], sort_keys=True)
        begun: dict[str, Any] | None = self.budget.known(key)
        if begun is not None:
            return begun
        base = self.api.removesuffix("/v3") if self.api.endswith("/api/v3") else self.api
        body = {"query": query, "variables": variables}
        answer = self._json(await self._send("POST", f"{base}/graphql", body=body))
        if not isinstance(answer, dict):
            raise TryLater(f"{base}/graphql answered with something other than data.")
        for error in answer.get("errors") or ():
            self._raise_graphql(error)
        data = answer.get("data")
        if not isinstance(data, dict):
            raise TryLater(f"{base}/graphql answered without data.")
        self.budget.keep(key, data)
        return data

    async def tail(self, path: str, size: int) -> bytes:
        """Read the end of a text that may be long and elsewhere, such as a log."""
        kept = b""
        async with self._open("GET", self.api + path, elsewhere=True) as response:
            if response.status_code >= 400:
                await response.aread()
                self._raise(response)
            async for piece in response.aiter_bytes():
                kept = (kept + piece)[-size:]
        return kept

    async def _send(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> httpx2.Response:
        if params:
            url = str(httpx2.URL(url, params=dict(params)))
        async with self._open(method, url, headers=headers, body=body) as response:
            received = bytearray()
            async for piece in response.aiter_bytes():
                received += piece
                if len(received) > ANSWER_BYTES_MAX:
                    raise TryLater(f"{method} {urlsplit(url).path}: the answer is too long.")
            whole = httpx2.Response(
                response.status_code,
                headers=_without_coding(response.headers),
                content=bytes(received),
                request=response.request,
            )
        if whole.status_code >= 300 and whole.status_code != 304:
            self._raise(whole)
        return whole

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        elsewhere: bool = False,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request and follow where the API leads; with the token only to the API itself."""
        self._wait_is_over()
        what = f"{method} {urlsplit(url).path}"
        content = None if body is None else json.dumps(body).encode()
        try:
            with anyio.fail_after(REQUEST_S):
                for _ in range(_REDIRECTS_MAX + 1):
                    ours = urlsplit(url)[:2] == self._origin
                    sent = {**self._headers(ours, body is not None), **(headers or {})}
                    self.budget.take()
                    async with self._http.stream(
                        method, url, headers=sent, content=content
                    ) as response:
                        if ours:
                            self._count(response)
                        target = self._leads_to(response, method, elsewhere=elsewhere)
                        if target is None:
                            yield response
                            return
                        url = target
        except TimeoutError:
            raise TryLater(f"{what}: no answer from {self._host} in {REQUEST_S:.0f} s.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError) as error:
            why = self._clean(str(error)) or type(error).__name__
            raise TryLater(f"{what}: {self._host} could not be reached: {why}") from None
        raise TryLater(f"{what}: {self._host} leads in a circle.")

    def _headers(self, ours: bool, has_body: bool) -> dict[str, str]:
        headers = {"User-Agent": "bullpen", "Accept": "*/*"}
        if ours:
            headers["Authorization"] = f"Bearer {self._token}"
            headers["Accept"] = "application/vnd.github+json"
            headers["X-GitHub-Api-Version"] = VERSION
        if has_body:
            headers["Content-Type"] = "application/json"
        return headers

    def _leads_to(self, response: httpx2.Response, method: str, *, elsewhere: bool) -> str | None:
        """Return the address that an answer sends us to. A write is never turned into a read."""
        if response.status_code not in {301, 302, 307, 308}:
            return None
        target = str(response.url.join(response.headers.get("location", "")))
        leaves = urlsplit(target)[:2] != self._origin
        if leaves and not (elsewhere and _is_safe(target)):
            raise Refused(
                f"{self._host} leads to another server: {urlsplit(target).netloc}.",
                reason="forge_refused",
                remedy="Check the address of the repository in [forge].",
            )
        if method != "GET" and response.status_code not in {307, 308}:
            raise Refused(
                f"The repository moved to {self._clean(target)}.",
                reason="forge_refused",
                remedy="Change its address in [forge].",
            )
        return target

    # Limits

    def _wait_is_over(self) -> None:
        """Raise the last limit again while it lasts: more requests would make it longer."""
        left = self._closed_until - self._monotonic()
        if left > 0:
            raise TryLater(self._closed_why, after_s=left)

    def _count(self, response: httpx2.Response) -> None:
        headers = response.headers
        left, resets = headers.get("x-ratelimit-remaining"), headers.get("x-ratelimit-reset")
        kind = headers.get("x-ratelimit-resource", "core")
        if kind in _COUNTED and (counted := _number(left)) is not None:
            moment = _number(resets)
            if moment is not None:
                seconds = _seconds_until(moment, headers)
                self._limits[kind] = counted, self._monotonic() + seconds

    def _limited(self, response: httpx2.Response, words: str) -> TryLater | None:
        """Return the error if an answer says that there were too many requests."""
        headers, status = response.headers, response.status_code
        if status not in {403, 429}:
            return None
        after: float | None = _number(headers.get("retry-after"))
        resets = _number(headers.get("x-ratelimit-reset"))
        if after is None and headers.get("x-ratelimit-remaining") == "0" and resets is not None:
            after = _seconds_until(resets, headers)
        if after is None and (status == 429 or _SECONDARY.search(words)):
            after = SECONDARY_S
        if after is None:
            return None
        why = f"{self._host} limits requests: {words}"
        self._closed_until, self._closed_why = self._monotonic() + after, why
        return TryLater(why, after_s=after)

    # Errors

    def _raise(self, response: httpx2.Response) -> NoReturn:
        status, request = response.status_code, response.request
        words, codes = self._words(response)
        what = f"{request.method} {request.url.path}: {words}"
        self.needed = self._clean(response.headers.get("x-accepted-github-permissions", ""))
        limited = self._limited(response, words)
        if limited is not None:
            raise limited
        if status >= 500 or status == 408:
            raise TryLater(
                f"{self._host} failed ({status}): {what}",
                after_s=_number(response.headers.get("retry-after")),
            )
        raise self._error(status, what, words, codes)

    def _error(self, status: int, what: str, words: str, codes: set[str]) -> BullpenError:
        if status == 401:
            return Refused(
                f"{self._host} does not accept the token ({words}).",
                reason="forge_refused",
                remedy=_SIGN_IN_AGAIN,
            )
        if status in {404, 410}:
            return NotFound(
                f"{self._host} has no such thing, or hides it from the token: {what}",
                remedy=LOOK_THERE,
            )
        exists = "already_exists" in codes or re.search(r"already exists", words)
        if status == 409 or (status == 422 and exists):
            return Conflict(f"{self._host} refused: {what}", remedy=LOOK_THERE)
        return Refused(
            f"{self._host} refused ({status}): {what}",
            reason="forge_refused",
            remedy=_FEW_RIGHTS if status == 403 else LOOK_THERE,
        )

    def _raise_graphql(self, error: Any) -> NoReturn:
        kind = error.get("type") if isinstance(error, dict) else None
        words = self._clean(str(error.get("message", "")) if isinstance(error, dict) else "")
        if kind == "NOT_FOUND":
            raise NotFound(f"{self._host} has no such thing: {words}", remedy=LOOK_THERE)
        if kind in {"RATE_LIMITED", "RATE_LIMIT"}:
            left = self._limits.get("graphql")
            after = left[1] - self._monotonic() if left and left[0] == 0 else SECONDARY_S
            raise TryLater(f"{self._host} limits requests: {words}", after_s=after)
        if kind in {"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNPROCESSABLE"}:
            raise Refused(
                f"{self._host} refused: {words}", reason="forge_refused", remedy=LOOK_THERE
            )
        raise TryLater(f"{self._host} failed: {words}")

    def _words(self, response: httpx2.Response) -> tuple[str, set[str]]:
        """Return what an answer says, and the codes of its errors."""
        try:
            said = json.loads(response.content)
        except ValueError:
            return self._clean(response.reason_phrase or "no words"), set()
        if not isinstance(said, dict):
            return "no words", set()
        listed = said.get("errors")
        listed = listed if isinstance(listed, list) else []
        errors = [each for each in listed if isinstance(each, dict)]
        more = [str(each["message"]) for each in errors if each.get("message")]
        more += [each for each in listed if isinstance(each, str)]
        codes = {str(each["code"]) for each in errors if each.get("code")}
        named = [f"{each.get('field')} {each['code']}" for each in errors if each.get("code")]
        whole = "; ".join([str(said.get("message", "no words")), *(more or named)])
        return self._clean(whole), codes

    def _json(self, response: httpx2.Response) -> Any:
        try:
            return json.loads(response.content)
        except ValueError:
            request = response.request
            raise TryLater(
                f"{request.method} {request.url.path}: {self._host} did not answer with JSON."
            ) from None

    def _clean(self, words: str) -> str:
        """Return words of others as one short line without the token."""
        line = re.sub(r"[\x00-\x20\x7f-\x9f]+", " ", words).strip()
        if self._token:
            line = line.replace(self._token, "[token]")
        return line[:_WORDS_MAX]

    @property
    def _host(self) -> str:
        return self._origin[1]


def _seconds_until(moment: int, headers: Mapping[str, str]) -> float:
    """Return in how many seconds a moment comes, by the clock of the forge."""
    try:
        now = email.utils.parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        now = time.time()
    return max(1.0, moment - now)


def _number(text: str | None) -> int | None:
    is_one = text is not None and text.isascii() and text.isdigit() and len(text) < 16
    return int(text) if text is not None and is_one else None


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in _LOOPBACK


def _without_coding(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """Return the headers of content that is decoded already."""
    left_out = {"content-encoding", "content-length", "transfer-encoding"}
    return [(name, value) for name, value in headers.items() if name.lower() not in left_out]
