"""What a tape keeps of a model's answer."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart

from bullpen.agents.drivers.native.provider import taped


@pytest.mark.parametrize(
    "args",
    [
        {"addBlockedBy": [], "report": None, "inner": {"empty": {}, "list": [None, {}]}},
        '{"tools": []}',
        {},
    ],
)
def test_what_a_tool_is_called_with_stays_as_it_is(args: Any) -> None:
    said = ModelResponse([TextPart("Now."), ToolCallPart("TaskUpdate", args, "call-1")])
    (read,) = ModelMessagesTypeAdapter.validate_python([taped._as_json(said)])
    assert isinstance(read, ModelResponse)
    assert [call.args for call in read.tool_calls] == [args]
