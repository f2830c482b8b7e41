"""WebSearch with the search of the model's own API, as a request of its own.

The agent's conversation gets only a text. So the call passes the gate like any other, and no part
of a search has to be kept that only one API understands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.native_tools import WebSearchTool

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolResult
from bullpen.agents.drivers.native.limiter import Limiter, RequestFailed
from bullpen.agents.drivers.native.model import Ask, ModelConnection, Waits, booked
from bullpen.agents.drivers.native.model_choice import ModelChoice
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.agents.drivers.native.provider.taped import connect
from bullpen.agents.tapes.agent_tape import AgentTape
from bullpen.agents.tools.outside_text.harmless import from_outside
from bullpen.agents.tools.web.search import HITS_MAX, SEARCH_URL
from bullpen.agents.tools.web.web_tools import WEB_SEARCH, WebSearchInput
from bullpen.errors import Invalid, Unavailable

SEARCHES_MAX = 3
"""How often the API may search for one call."""

_SYSTEM = (
    "Search the web for the query. Answer with what the results say about it, in short sentences,"
    " each with the URL of its source. Add nothing of your own."
)
_TEXT_CHARS_MAX = 20_000
_URL_CHARS_MAX = 500
_TITLE_CHARS_MAX = 200


class ProviderSearch:
    """The search of one model's API."""

    def __init__(
        self,
        choice: ModelChoice,
        limiter: Limiter,
        waits: Waits,
        tape: AgentTape | None = None,
    ) -> None:
        self._choice = choice
        self._limiter = limiter
        self._waits = waits
        self._tape = tape

    def given_to(self, tools: Sequence[Tool[Desk]]) -> list[Tool[Desk]]:
        """The tools, of which WebSearch uses this search unless an endpoint is configured."""
        own = replace(WEB_SEARCH, run=self._run)
        return [own if tool is WEB_SEARCH else tool for tool in tools]

    async def _run(self, given: WebSearchInput, desk: Desk) -> str | ToolResult:
        if SEARCH_URL in desk.spec.options:
            return await WEB_SEARCH.run(given, desk)
        if given.allowed_domains and given.blocked_domains:
            raise Invalid(
                "WebSearch takes allowed_domains or blocked_domains here, not both.",
                remedy="Leave one of them out.",
            )
        # With the prices that were set for the model.
        options = ModelOptions.of(desk.spec.options)
        stream = "" if self._tape is None else self._tape.stream("search")
        connection = connect(self._tape, stream, self._choice, self._waits, options)
        await connection.open()
        try:
            response = await self._asked(given, connection, desk)
        except RequestFailed as failed:
            raise Unavailable(
                f"The search of {self._choice.host} failed: {failed.words}",
                remedy="Fetch a page that you know, or report what you could not find.",
            ) from failed
        finally:
            with anyio.CancelScope(shield=True):
                await connection.aclose()
        return from_outside(f"search for {given.query}", _told(response))

    async def _asked(
        self, given: WebSearchInput, connection: ModelConnection, desk: Desk
    ) -> ModelResponse:
        search = WebSearchTool(
            allowed_domains=given.allowed_domains or None,
            blocked_domains=given.blocked_domains or None,
            # The others refuse this setting.
            max_uses=SEARCHES_MAX if self._choice.provider.api == "anthropic" else None,
        )
        ask = Ask(system=_SYSTEM, tools=(), search=search)
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(given.query)])]
        return await booked(connection, self._limiter, messages, ask, desk, search=given.query)


def _told(response: ModelResponse) -> str:
    """What the API said, and where it looked."""
    parts = [part for part in response.parts if isinstance(part, NativeToolReturnPart)]
    sources = dict(found for part in parts for found in _sources(part.content))
    rows = [f"- [{title}]({url})" for url, title in list(sources.items())[:HITS_MAX]]
    listed = "\n".join(["Sources:", *rows]) if rows else ""
    text = (response.text or "").strip()[:_TEXT_CHARS_MAX]
    return "\n\n".join(each for each in (text, listed) if each) or "No results."


def _sources(content: Any) -> Iterator[tuple[str, str]]:
    """The URL and title of each result, in any depth of an API's answer."""
    if isinstance(content, list):
        for each in content:
            yield from _sources(each)
    elif isinstance(content, dict):
        url = content.get("url")
        if isinstance(url, str) and len(url) <= _URL_CHARS_MAX:
            title = " ".join(str(content.get("title") or url).split())
            yield url, title[:_TITLE_CHARS_MAX]
        else:
            yield from _sources(list(content.values()))
