"""The parts of the claude-code driver: its record, its hook, its memory, its start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.drivers.claude_code import conversation_log, memory
from bullpen.agents.drivers.claude_code.calls import is_ours, kind_of
from bullpen.agents.drivers.claude_code.driver import ClaudeCodeDriver
from bullpen.errors import Unavailable
from bullpen.protocol.names import LEAD
from bullpen.testing.desks import RecordingDesk


def said(at: str, key: str, text: str, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 1}
    content = [{"type": "text", "text": text}]
    message = {"id": key, "model": "claude-x", "content": content, "usage": usage}
    return {"type": "assistant", "timestamp": at, "message": message, **more}


def test_rows_count_by_their_times_and_blocks_of_one_answer_belong_together() -> None:
    rows = [
        said("3", "b", "late"),
        said("2", "a", "early"),
        said("2", "a", "and more"),
        said("1", "z", "of another turn"),
        said("4", "c", "API Error", isApiErrorMessage=True),
        said("5", "d", "of a helper", isSidechain=True),
    ]
    found = conversation_log.answers(rows, "2")
    assert [(each.id, each.text) for each in found] == [("a", "early\n\nand more"), ("b", "late")]
    assert [each.usage.requests for each in found] == [1, 1]
    assert conversation_log.failure(rows, "2") == "API Error"
    assert conversation_log.failure(rows, "5") is None


def test_half_a_row_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    line = json.dumps(said("1", "a", "text"))
    path.write_text(line[:20])
    tail = conversation_log.ClaudeTail(path)
    tail.read()
    assert tail.rows == []
    path.write_text(f"{line}\nno JSON\n")
    tail.read()
    assert [row["timestamp"] for row in tail.rows] == ["1"]


def test_a_tool_that_is_not_known_could_do_anything() -> None:
    assert [kind_of(name) for name in ("Read", "Write", "Bash", "mcp__x__y")] == [
        "read",
        "write",
        "run",
        "run",
    ]
    assert is_ours("mcp__bullpen__TaskList") and not is_ours("mcp__bullpenx__TaskList")


def test_a_damaged_memory_is_told_and_a_new_conversation_begins(tmp_path: Path) -> None:
    kept = memory.ClaudeMemory()
    kept.saw(("one",))
    memory.save(tmp_path, kept)
    assert memory.load(tmp_path) == (kept, None)
    (tmp_path / memory.FILE).write_text("{")
    anew, damage = memory.load(tmp_path)
    assert anew.session != kept.session and anew.seen == {}
    assert damage is not None and "new conversation" in damage


async def test_a_program_that_is_missing_is_named(desk: RecordingDesk) -> None:
    spec = desk.spec.evolve(options={"command": ["no-such-claude"]})
    with pytest.raises(Unavailable, match="no-such-claude"):
        await ClaudeCodeDriver(spec, desk.env).start(desk)


async def test_it_does_not_lead(desk: RecordingDesk) -> None:
    desk.agent = LEAD
    with pytest.raises(Unavailable, match="cannot be used for the lead"):
        await ClaudeCodeDriver(desk.spec, desk.env).start(desk)
