"""The rehearsal of a request: nothing is sent, and what is built once is there afterwards."""

from __future__ import annotations

import threading

import pytest

from bullpen.agents.drivers.native.provider import rehearsal
from bullpen.agents.drivers.native.sent_schema import sent_schema
from bullpen.agents.tools.toolbox import TOOLS


@pytest.mark.parametrize("name", ["anthropic", "chat"])
def test_a_rehearsal_gets_its_answer_and_starts_no_thread(name: str) -> None:
    """The network of this test is closed: a request that was sent would fail."""
    before = threading.active_count()
    getattr(rehearsal, name)()
    assert threading.active_count() == before


def test_the_schema_of_a_tool_is_made_once_and_nobody_can_change_it_for_others() -> None:
    first = sent_schema(TOOLS[0].input)
    first["properties"].clear()
    assert sent_schema(TOOLS[0].input)["properties"]
