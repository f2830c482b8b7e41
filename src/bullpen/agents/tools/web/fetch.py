"""Fetch a URL: bounded in size and time, to addresses that were checked, hop by hop.

The request is made by the agent's own process, outside its sandbox. So it reaches at most what the
sandbox would let a command reach, and without a sandbox only what is on the internet.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin

import anyio

from bullpen.agents.permissions.rule_language.web_address import WebAddress
from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.sandbox.network.checked_addresses import (
    HostRefused,
    LookUp,
    PrivateHost,
    checked_addresses,
    look_up,
    refuse_unlisted,
)
from bullpen.sandbox.network.host_rules import WEB_PORTS, HostList, is_public
from bullpen.sandbox.network.proxy import UpstreamProxy

if TYPE_CHECKING:
    import httpx2

BODY_BYTES_MAX = 10_000_000
"""A page is cut here, also if it is packed smaller."""
FETCH_S = 30.0
"""How long a fetch may take, with all its redirects."""
REDIRECTS_MAX = 5

_CONNECT_S = 10.0
_HEADERS = {
    "accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.5",
    # What is unpacked here, with a bound.
    "accept-encoding": "gzip",
    "user-agent": "bullpen-agent",
}
_REDIRECTS = frozenset((301, 302, 303, 307, 308))


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came back from a URL."""

    address: WebAddress
    media_type: str
    charset: str | None
    body: bytes
    # Whether there was more.
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """The answer is a redirect to another host, which has to be asked for by itself."""

    to: WebAddress


@dataclass(frozen=True, slots=True)
class Reach:
    """The hosts that fetches may reach, and how. Tests bring their own network."""

    hosts: HostList
    upstream: UpstreamProxy | None = None
    find: LookUp = look_up
    transport: httpx2.AsyncBaseTransport | None = None
    headers: dict[str, str] = field(default_factory=dict)


async def fetch(address: WebAddress, reach: Reach) -> Fetched | Moved:
    """What is at a URL. Raises Refused, Invalid or Unavailable."""
    try:
        with anyio.fail_after(FETCH_S):
            for _ in range(REDIRECTS_MAX + 1):
                found = await _hop(address, reach)
                if not isinstance(found, Moved) or not _is_same_site(address, found.to):
                    return found
                address = found.to
    except TimeoutError:
        raise Unavailable(
            f"{address.place} did not answer within {FETCH_S:g} seconds.",
            remedy="Try again later, or use another source.",
        ) from None
    raise Unavailable(
        f"{address.place} redirected more than {REDIRECTS_MAX} times.",
        remedy="Use another URL.",
    )


def _is_same_site(here: WebAddress, there: WebAddress) -> bool:
    """Whether a redirect stays on a host, and does not go from encrypted to open."""
    ports = here.port == there.port or {here.port, there.port} <= set(WEB_PORTS)
    opens = here.scheme == "https" and there.scheme != "https"
    return here.host == there.host and ports and not opens


async def _hop(address: WebAddress, reach: Reach) -> Fetched | Moved:
    # Imported here because it is part of an extra.
    import httpx2

    try:
        async with _answer(address, reach, httpx2) as response:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                return _moved(address, response.headers["location"])
            if response.status_code != 200:
                raise Unavailable(
                    f"{address.place} answered {response.status_code} {response.reason_phrase}.",
                    remedy="Check the URL, or use another source.",
                )
            body, cut = await _body(response)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            return Fetched(address, kind, response.charset_encoding, body, cut)
    except HostRefused as error:
        raise _refused(address, error, reach) from None
    except httpx2.InvalidURL as error:
        # The library looks at a redirect although it does not follow it.
        raise _no_url(address, str(error)) from None
    except (httpx2.HTTPError, OSError) as error:
        words = str(error) or type(error).__name__
        raise Unavailable(
            f"Cannot reach {address.place}: {words}.",
            remedy="Check the URL, or use another source.",
        ) from None


def _moved(address: WebAddress, location: str) -> Moved:
    to = WebAddress.of(urljoin(str(address), quote(location, safe="/?:@!$&'()*+,;=%~-._#[]")))
    if to is None:
        raise _no_url(address, location[:200])
    return Moved(to)


def _no_url(address: WebAddress, words: str) -> Invalid:
    return Invalid(
        f"{address.place} redirects to what is not a URL of the web: {words!r}.",
        remedy="Use another URL.",
    )


def _refused(address: WebAddress, error: HostRefused, reach: Reach) -> Refused:
    if isinstance(error, PrivateHost):
        return Refused(
            f"{address.host} is this machine or in a private network, which WebFetch does not"
            " reach.",
            reason="private_address",
            remedy="Do not work around this. Use a public source.",
        )
    named = ", ".join(f"{host}:{port}" for host, port in reach.hosts.places[:10])
    return Refused(
        f"Your sandbox does not allow {address.host}:{address.port}.",
        reason="not_allowed",
        remedy=f"It allows: {named}." if named else "Do not work around this.",
    )


@asynccontextmanager
async def _answer(address: WebAddress, reach: Reach, httpx2: Any) -> AsyncIterator[httpx2.Response]:
    """The response to a request, whose body is still to be read."""
    timeout = httpx2.Timeout(FETCH_S, connect=_CONNECT_S)
    exactly = reach.hosts.names_exactly(address.host, address.port)
    proxied = reach.upstream is not None and not exactly
    settings: dict[str, Any] = {"timeout": timeout, "trust_env": False}
    if proxied and reach.upstream is not None:
        refuse_unlisted(reach.hosts, address.host, address.port)
        _refuse_private_number(address)
        settings["proxy"] = _proxy(reach.upstream, httpx2)
        hosts = [address.host]
    else:
        hosts = await checked_addresses(reach.hosts, address.host, address.port, reach.find)
    if reach.transport is not None:
        settings |= {"transport": reach.transport, "proxy": None}
    headers = {**_HEADERS, **reach.headers, "host": address.place}
    async with httpx2.AsyncClient(**settings) as client:
        for number, host in enumerate(hosts, start=1):
            request = client.build_request(
                "GET",
                f"{address.scheme}://{_bracketed(host)}:{address.port}{address.target}",
                headers=headers,
                # The certificate must be for the name, not for the address.
                extensions={"timeout": timeout.as_dict(), "sni_hostname": address.host},
            )
            try:
                response = await client.send(request, stream=True, follow_redirects=False)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if number == len(hosts):
                    raise
                continue
            try:
                yield response
            finally:
                await response.aclose()
            return
        raise OSError("the name has no address")


def _refuse_private_number(address: WebAddress) -> None:
    """Refuse an address in numbers that is private. The machine's proxy resolves names."""
    try:
        public = is_public(address.host)
    except ValueError:
        return
    if not public:
        raise PrivateHost(address.host)


def _proxy(upstream: UpstreamProxy, httpx2: Any) -> Any:
    headers = {}
    if upstream.authorization:
        headers["proxy-authorization"] = f"Basic {upstream.authorization}"
    return httpx2.Proxy(f"http://{_bracketed(upstream.host)}:{upstream.port}", headers=headers)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _body(response: httpx2.Response) -> tuple[bytes, bool]:
    """The body, unpacked, up to the bound; and whether there was more."""
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "", "gzip", "x-gzip"):
        raise Unavailable(
            f"The answer is packed as {packing[:40]!r}, which was not asked for.",
            remedy="Use another source.",
        )
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if packing.endswith("gzip") else None
    body, read = bytearray(), 0
    async for chunk in response.aiter_raw():
        read += len(chunk)
        body += chunk if unpacker is None else _unpacked(unpacker, chunk, len(body))
        if len(body) > BODY_BYTES_MAX or read > BODY_BYTES_MAX:
            return bytes(body[:BODY_BYTES_MAX]), True
    return bytes(body), False


def _unpacked(unpacker: Any, chunk: bytes, so_far: int) -> bytes:
    """The content of a chunk, but no more than fits: a few bytes can unpack to gigabytes."""
    try:
        found: bytes = unpacker.decompress(chunk, BODY_BYTES_MAX - so_far + 1)
    except zlib.error as error:
        raise Unavailable(
            f"The answer is damaged: {error}.", remedy="Use another source."
        ) from None
    return found
