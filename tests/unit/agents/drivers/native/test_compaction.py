"""A conversation that no longer fits is summed up; the agent and its work go on (R-5.2, R-1.1)."""

from __future__ import annotations

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from bullpen.agents.drivers.native.compaction import newer_half
from support.rows import each_row


def conversation(turns: int) -> list[ModelMessage]:
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content="Go.")])]
    for number in range(turns):
        call = ToolCallPart(tool_name="Look", args={}, tool_call_id=f"c{number}")
        messages.append(ModelResponse(parts=[TextPart(content="I look."), call]))
        messages.append(
            ModelRequest(
                parts=[ToolReturnPart(tool_name="Look", content="fog", tool_call_id=f"c{number}")]
            )
        )
    messages.append(ModelResponse(parts=[TextPart(content="Done.")]))
    return messages


@each_row("turns", range(12))
def test_halving_keeps_calls_with_their_results_and_ends(turns: int) -> None:
    messages = conversation(turns)
    while messages:
        shorter = newer_half(messages)
        assert len(shorter) < len(messages)
        messages = shorter
        calls = [
            call.tool_call_id
            for message in messages
            if isinstance(message, ModelResponse)
            for call in message.tool_calls
        ]
        results = [
            part.tool_call_id
            for message in messages
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        assert calls == results
        assert not messages or isinstance(messages[0], ModelRequest)
