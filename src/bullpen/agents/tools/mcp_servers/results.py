"""What a server answered, as text for a model: bounded, and marked as data from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mcp_types as types

from bullpen.agents.tools.mcp_servers.schemas import Clean
from bullpen.protocol import json_text

RESULT_CHARS_MAX = 30_000
"""How much of an answer a model sees."""

_URI_CHARS_MAX = 300


def framed(server: str, text: str, clean: Clean) -> str:
    """The answer of a server in a frame that its text cannot break out of."""
    body = clean(text)
    if len(body) > RESULT_CHARS_MAX:
        cut = len(body) - RESULT_CHARS_MAX
        body = f"{body[:RESULT_CHARS_MAX]}\n[... {cut} characters of the answer are left out ...]"
    # The server decides what it says here; it is data, not instructions.
    body = body.replace("</mcp-result", "&lt;/mcp-result")
    return f'<mcp-result server="{server}">\n{body}\n</mcp-result>'


def tool_text(result: types.CallToolResult) -> str:
    """The content of a tool's result."""
    text = content_text(result.content)
    if not text and result.structured_content is not None:
        text = _json(result.structured_content)
    return text or "(no content)"


def content_text(content: Iterable[Any]) -> str:
    """Blocks of content as text. What is no text is described."""
    return "\n".join(_block(block) for block in content)


def _block(block: Any) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            what = "image" if isinstance(block, types.ImageContent) else "audio"
            return f"[{what}, {block.mime_type}, {len(block.data)} characters of base64, not shown]"
        case types.ResourceLink():
            return f"[resource {str(block.uri)[:_URI_CHARS_MAX]}: {block.name}]"
        case types.EmbeddedResource():
            return resource_text(block.resource)
    return "[content of an unknown kind, not shown]"


def resource_text(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    """The content of a resource."""
    if isinstance(resource, types.TextResourceContents):
        return resource.text
    size = len(resource.blob)
    return f"[{resource.mime_type or 'binary data'}, {size} characters of base64, not shown]"


def _json(value: Any) -> str:
    try:
        return json_text.dumps_line(value).decode("utf-8", "replace")
    except ValueError:
        return "[structured content that is nested too deeply, not shown]"
