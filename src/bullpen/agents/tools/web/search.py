"""Search the web with a configured endpoint that answers as SearxNG does, in JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from bullpen.agents.permissions.rule_language.web_address import WebAddress
from bullpen.agents.tools.web.fetch import Moved, Reach, fetch
from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.sandbox.network.host_rules import HostList, HostRule
from bullpen.sandbox.network.proxy import UpstreamProxy

SEARCH_URL = "search_url"
"""The option of a spec that names the endpoint: a URL with `{query}` in its path or query."""

HITS_MAX = 10

_QUERY = "{query}"
_TITLE_CHARS_MAX = 200
_TEXT_CHARS_MAX = 400


@dataclass(frozen=True, slots=True)
class Hit:
    """A result of a search."""

    title: str
    url: str
    text: str


def check_search_url(template: object) -> None:
    """Refuse a search_url that cannot be used. Raises Invalid."""
    if not isinstance(template, str) or _query_address(template, "x") is None:
        raise Invalid(
            f"search_url is {template!r}, not a URL with {_QUERY} after its host.",
            remedy="Write https://search.example.org/search?format=json&q={query}",
        )


def _query_address(template: str, query: str) -> WebAddress | None:
    empty = WebAddress.of(template.replace(_QUERY, ""))
    found = WebAddress.of(template.replace(_QUERY, quote(query, safe="")))
    # What a model writes must not change the host.
    if _QUERY not in template or empty is None or found is None:
        return None
    return found if replace(empty, target="") == replace(found, target="") else None


async def searched(
    template: str,
    query: str,
    allowed: Sequence[str] | None,
    blocked: Sequence[str] | None,
    hosts: HostList,
    *,
    reach: Reach | None = None,
) -> list[Hit]:
    """The first results for a query. Raises Refused, Invalid or Unavailable."""
    address = _query_address(template, query)
    if address is None:
        check_search_url(template)
        raise Invalid("The query is too long.", remedy="Search with fewer words.")
    if not hosts.allows(address.host, address.port):
        raise Refused(
            f"Your sandbox does not allow the search at {address.place}.",
            reason="not_allowed",
            remedy="Do not work around this. Report what you could not find.",
        )
    if reach is None:
        # Whoever set the URL meant this host, also one of this machine.
        exactly = HostList((HostRule(address.host, address.port),))
        reach = Reach(exactly, UpstreamProxy.of(os.environ), headers={"accept": "application/json"})
    found = await fetch(address, reach)
    if isinstance(found, Moved):
        raise Unavailable(
            f"The search at {address.place} redirects to {found.to.place}.",
            remedy="Tell your user to set that address as search_url.",
        )
    hits = [
        hit
        for each in _results(found.body, address)
        if (hit := _hit(each)) is not None
        and (not allowed or _is_of(hit.url, allowed))
        and not (blocked and _is_of(hit.url, blocked))
    ]
    return hits[:HITS_MAX]


def _results(body: bytes, address: WebAddress) -> list[Any]:
    try:
        found = json.loads(body)["results"]
        if not isinstance(found, list):
            raise TypeError("results is not a list")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unavailable(
            f"The search at {address.place} did not answer with JSON results as SearxNG does.",
            remedy="Tell your user to enable its JSON format.",
        ) from None
    return found


def _hit(each: Any) -> Hit | None:
    if not isinstance(each, dict) or WebAddress.of(each.get("url")) is None:
        return None
    title, text = str(each.get("title") or ""), str(each.get("content") or "")
    flat = [" ".join(words.split()) for words in (title, text)]
    return Hit(flat[0][:_TITLE_CHARS_MAX], str(each["url"]), flat[1][:_TEXT_CHARS_MAX])


def _is_of(url: str, domains: Sequence[str]) -> bool:
    """Whether a URL is of one of these domains, or of one below."""
    address = WebAddress.of(url)
    names = [domain.strip().lower().removeprefix("*.").strip(".") for domain in domains]
    return address is not None and any(
        name and f".{address.host}".endswith(f".{name}") for name in names
    )
