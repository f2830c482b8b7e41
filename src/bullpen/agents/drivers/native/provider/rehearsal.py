"""Rehearse a request to a model, without a network: libraries then have ready what they build once.

A warm parent does this before it forks agents, which would otherwise each do it again.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import anyio
import httpx2
from pydantic_ai.messages import ModelRequest

from bullpen.agents.drivers.native.model import Ask, ModelConnection
from bullpen.agents.drivers.native.model_choice import (
    ANTHROPIC_DEFAULT,
    OPENAI_DEFAULT,
    ModelChoice,
)
from bullpen.agents.drivers.native.provider.http_watch import WatchedConnection
from bullpen.agents.system.vendors.model_providers import PROVIDERS
from bullpen.agents.tools.toolbox import TOOLS

_NOWHERE = "http://127.0.0.1:9"

_MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": ANTHROPIC_DEFAULT,
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
_OF_ANTHROPIC: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": _MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
)

_CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": OPENAI_DEFAULT}
_OF_CHAT: tuple[dict[str, Any], ...] = (
    {
        **_CHUNK,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Yes."}}],
    },
    {
        **_CHUNK,
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
)


class _Recited(WatchedConnection):
    """A connection on which every request gets the same answer, from nowhere."""

    def __init__(self, body: bytes) -> None:
        super().__init__(silence_s=1.0)
        answer = httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})
        self.client = httpx2.AsyncClient(
            transport=httpx2.MockTransport(lambda _: answer),
            event_hooks=self.client.event_hooks,
        )


def anthropic() -> None:
    """Rehearse a request to Anthropic."""
    events = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in _OF_ANTHROPIC]
    anyio.run(partial(_request, "anthropic", ANTHROPIC_DEFAULT, "".join(events)))


def chat() -> None:
    """Rehearse a request to Chat Completions."""
    events = [f"data: {json.dumps(each)}\n\n" for each in _OF_CHAT]
    body = "".join([*events, "data: [DONE]\n\n"])
    anyio.run(partial(_request, "openai-chat", OPENAI_DEFAULT, body))


async def _request(prefix: str, model: str, body: str) -> None:
    choice = ModelChoice(PROVIDERS[prefix], model, "no-key", "NO_KEY", _NOWHERE)
    connection = ModelConnection(choice, http=_Recited(body.encode()))
    asked = [ModelRequest.user_text_prompt("Are you ready?")]
    await connection.request(asked, Ask("Be brief.", TOOLS), used=lambda *_, **__: None)
    _ = connection.context_window
    await connection.aclose()
