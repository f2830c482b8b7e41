"""The tools that reach the web: WebFetch and WebSearch."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Attachment, Tool, ToolInput, ToolResult
from bullpen.agents.permissions.rule_language.web_address import WebAddress
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files.media import shown_file
from bullpen.agents.tools.files.media_type import media_type_of
from bullpen.agents.tools.files.text_or_binary import kind_of_binary
from bullpen.agents.tools.outside_text.harmless import from_outside
from bullpen.agents.tools.web.fetch import Fetched, Moved, Reach, fetch
from bullpen.agents.tools.web.markdown import markdown_of
from bullpen.agents.tools.web.search import SEARCH_URL, Hit, searched
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.sandbox.network.host_rules import HostList
from bullpen.sandbox.network.proxy import UpstreamProxy

PAGE_CHARS_MAX = 50_000
"""How much of a page a model reads."""

# The models of Anthropic's API and of OpenAI's newer one.
_SEARCHES = re.compile(r"anthropic:|openai:|claude|gpt|o\d")
_HTML = frozenset(["text/html", "application/xhtml+xml"])
_LOOKS_LIKE_HTML = re.compile(rb"\s*<(!--|!doctype html|html|head|body)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([A-Za-z0-9_-]{2,40})", re.IGNORECASE)
# Others exist that take forever, or are not for text.
_CHARSETS = re.compile(
    r"(utf[-_]?(8|16|32)|ascii|latin|iso8859|cp\d|koi8|shift_jis|euc|gb|big5|mac|tis|ptcp)"
)


class WebFetchInput(ToolInput):
    """Input of WebFetch. Models that know it give a prompt, too; they read the page themselves."""

    sent_as: ClassVar[Mapping[str, Mapping[str, Any] | None]] = {"prompt": None}

    url: str = Field(description="An http or https URL")
    prompt: str | None = Field(None, description="Not used")


class WebSearchInput(ToolInput):
    """Input of WebSearch."""

    query: str = Field(min_length=2, max_length=1_000, description="What to search for")
    allowed_domains: list[str] | None = Field(None, description="Only results from these")
    blocked_domains: list[str] | None = Field(None, description="No results from these")


def hosts_of(spec: AgentSpec) -> HostList:
    """The hosts that an agent's own requests may reach: no more than its commands may."""
    sandbox = spec.policy.sandbox
    return HostList(any_public=True) if sandbox is None else HostList.of(sandbox)


def why_no_web(tool: str, spec: AgentSpec) -> str | None:
    """Why an agent does not have one of these tools, if so."""
    if tool in ("WebFetch", "WebSearch") and not hosts_of(spec):
        return "its sandbox has no network"
    if tool == "WebSearch" and SEARCH_URL not in spec.options:
        if not provider_searches(spec):
            return "its model's API has no search, and no search_url is set"
        if not hosts_of(spec).any_public:
            return "its sandbox allows only some hosts, and no search_url is set"
    return None


def provider_searches(spec: AgentSpec) -> bool:
    """Whether the API of an agent's model searches the web itself."""
    return spec.driver == "native" and (
        spec.model is None or _SEARCHES.match(spec.model) is not None
    )


async def _web_fetch(given: WebFetchInput, desk: Desk) -> str | ToolResult:
    """Fetch a web page as Markdown, or see an image or PDF of the web."""
    # The environment of this process, which no agent can change.
    reach = Reach(hosts_of(desk.spec), UpstreamProxy.of(os.environ))
    return await fetched_page(given.url, desk, reach)


async def fetched_page(url: str, desk: Desk, reach: Reach) -> str | ToolResult:
    """What a model is told of a URL. Raises Refused, Invalid or Unavailable."""
    address = WebAddress.of(url)
    if address is None:
        raise Invalid(
            f"{url[:200]!r} is not a plain URL of the web.",
            remedy="Give one that begins with http:// or https://, without a user name.",
        )
    found = await fetch(address, reach)
    if isinstance(found, Moved):
        return (
            f"{address.place} redirects to another host. Fetch this URL to go on: "
            f"{from_outside(str(address), str(found.to))}"
        )
    if media_type_of(found.body) is not None:
        return await _shown(found, desk)
    if kind := _unreadable(found):
        raise Invalid(
            f"{found.address} is not text: it is {kind}, {len(found.body):,} bytes.",
            remedy="Use another source.",
        )
    text, cut = await to_thread.run_sync(_text_of, found)
    if cut or found.cut:
        text += f"\n\n[Cut here: only the first {len(text):,} characters are shown.]"
    return from_outside(str(found.address), text)


async def _shown(found: Fetched, desk: Desk) -> ToolResult:
    if found.cut:
        raise Unavailable(
            f"{found.address} is larger than {len(found.body):,} bytes.",
            remedy="Use another source.",
        )
    shown = await shown_file(str(found.address), found.body, None, desk)
    # The text of a PDF is as foreign as that of a page.
    source = str(found.address)
    files = tuple(
        Attachment(each.name, each.media_type, each.data, from_outside(source, each.instead))
        for each in shown.attachments
    )
    return ToolResult(from_outside(source, shown.text), files)


def _unreadable(found: Fetched) -> str | None:
    """What kind of binary data it is; None for text."""
    if _charset(found).startswith(("utf-16", "utf-32")):
        return None
    return kind_of_binary(found.body)


def _text_of(found: Fetched) -> tuple[str, bool]:
    text = found.body.decode(_charset(found), "replace")
    unknown = found.media_type in ("", "text/plain", "application/octet-stream")
    if found.media_type in _HTML or (unknown and _LOOKS_LIKE_HTML.match(found.body[:2_000])):
        page = markdown_of(text, str(found.address), PAGE_CHARS_MAX)
        title = f"Title: {page.title}\n\n" if page.title else ""
        return f"{title}{page.text or '(The page has no text. It may need a browser.)'}", page.cut
    return text[:PAGE_CHARS_MAX], len(text) > PAGE_CHARS_MAX


def _charset(found: Fetched) -> str:
    told = _META_CHARSET.search(found.body[:4_000])
    for name in (found.charset, told.group(1).decode() if told else None):
        try:
            known = codecs.lookup(name or "").name
        except LookupError:
            continue
        if _CHARSETS.match(known):
            return known
    return "utf-8"


async def _web_search(given: WebSearchInput, desk: Desk) -> str:
    """Search the web; returns titles and links."""
    template = desk.spec.options.get(SEARCH_URL)
    if not isinstance(template, str):
        raise Unavailable(
            "WebSearch has nothing to search with: the model's API has no search, and no search_url"
            " is set.",
            remedy="Fetch a page that you know, or report what you could not find.",
        )
    hosts = hosts_of(desk.spec)
    hits = await searched(
        template, given.query, given.allowed_domains, given.blocked_domains, hosts
    )
    return from_outside(f"search for {given.query}", _listed(hits))


def _listed(hits: list[Hit]) -> str:
    rows = [f"- [{hit.title}]({hit.url})\n  {hit.text}".rstrip() for hit in hits]
    return "\n".join(rows) or "No results."


WEB_FETCH: Tool[Desk] = documented("WebFetch", WebFetchInput, "read", _web_fetch, deferred=True)
WEB_SEARCH: Tool[Desk] = documented("WebSearch", WebSearchInput, "read", _web_search, deferred=True)
WEB_TOOLS: tuple[Tool[Desk], ...] = (WEB_FETCH, WEB_SEARCH)
