"""The conversation on disk: what is new is appended, and no crash loses what was stored before."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.usage import RequestUsage

from bullpen.agents.drivers.native import conversation
from bullpen.agents.drivers.native.conversation import History, load, save
from bullpen.errors import Unavailable


def said(*parts: Any, tokens: int = 10) -> ModelResponse:
    return ModelResponse(parts=list(parts), usage=RequestUsage(input_tokens=tokens))


def turn(history: History, number: int) -> None:
    history.commit([f"question {number}"], [f"m{number}"], said(TextPart(f"answer {number}")))


def long_history(turns: int) -> History:
    history = History()
    for number in range(turns):
        turn(history, number)
    return history


def told(history: History) -> str:
    """Everything that the model would be given, and what else counts."""
    messages = ModelMessagesTypeAdapter.dump_json(history.with_prompts([]))
    rest = json.dumps([list(history.ids), history.tokens, history.loaded])
    return messages.decode() + rest


def again(folder: Path) -> History:
    history, trouble = load(folder)
    assert trouble is None
    return history


def test_a_request_adds_one_line_however_long_the_conversation_is(tmp_path: Path) -> None:
    sizes = []
    for turns in (10, 1_000):
        folder = tmp_path / str(turns)
        history = long_history(turns)
        save(folder, history, str)
        before = (folder / conversation.FILE).read_bytes()
        turn(history, turns)
        save(folder, history, str)
        after = (folder / conversation.FILE).read_bytes()
        assert after.startswith(before)
        assert after.count(b"\n") == 2
        sizes.append(len(after) - len(before))
    assert max(sizes) < min(sizes) + 100


def test_what_is_loaded_is_what_was_saved_last(tmp_path: Path) -> None:
    history = History()
    call = ToolCallPart("look", {"where": "north"}, tool_call_id="c1")
    for number in range(5):
        turn(history, number)
        save(tmp_path, history, str)
        assert told(again(tmp_path)) == told(history)
    history.loaded.append("WebSearch")
    history.commit(["look"], ["m9"], said(call, tokens=77))
    history.answer(call, "a wall", error=False)
    save(tmp_path, history, str)
    assert told(again(tmp_path)) == told(history)
    history.commit([], [], said(TextPart("I see a wall.")))
    save(tmp_path, history, str)
    assert told(again(tmp_path)) == told(history)
    assert (tmp_path / conversation.FILE).read_bytes().count(b"\n") == 7


@pytest.mark.parametrize("how", ["replace", "shorten", "cut_back", "restore"])
def test_an_earlier_message_that_changed_writes_the_file_anew(tmp_path: Path, how: str) -> None:
    history = long_history(3)
    before = history.copy()
    for number in (3, 4):
        turn(history, number)
        save(tmp_path, history, str)
    match how:
        case "replace":
            history.replace([], [])
            turn(history, 6)
        case "shorten":
            history.shorten(list(history.messages[2:]), 5)
        case "cut_back":
            history.cut_back()
        case _:
            history.restore(before)
    save(tmp_path, history, str)
    assert told(again(tmp_path)) == told(history)
    assert (tmp_path / conversation.FILE).read_bytes().count(b"\n") == 1


def test_a_line_cut_short_at_any_byte_leaves_the_conversation_before_it(tmp_path: Path) -> None:
    history = long_history(2)
    save(tmp_path, history, str)
    path = tmp_path / conversation.FILE
    whole, before = path.stat().st_size, told(history)
    turn(history, 2)
    save(tmp_path, history, str)
    data = path.read_bytes()
    for end in range(whole, len(data)):
        path.write_bytes(data[:end])
        assert told(again(tmp_path)) == before
    # As a lost block leaves it.
    path.write_bytes(data[:whole] + bytes(len(data) - whole))
    assert told(again(tmp_path)) == before
    history = again(tmp_path)
    turn(history, 5)
    save(tmp_path, history, str)
    assert told(again(tmp_path)) == told(history)


def test_a_file_of_the_first_format_is_continued(tmp_path: Path) -> None:
    history = long_history(2)
    save(tmp_path, history, str)
    path = tmp_path / conversation.FILE
    path.write_bytes(path.read_bytes().replace(b'"format": 2', b'"format": 1'))
    found = again(tmp_path)
    assert told(found) == told(history)
    for number in (2, 3):
        turn(found, number)
        save(tmp_path, found, str)
        assert told(again(tmp_path)) == told(found)


def test_a_damaged_line_in_the_middle_is_moved_aside_and_said(tmp_path: Path) -> None:
    history = History()
    for number in range(4):
        turn(history, number)
        save(tmp_path, history, str)
    path = tmp_path / conversation.FILE
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"{", *lines[2:]]))
    found, trouble = load(tmp_path)
    assert found.messages == []
    assert trouble is not None
    assert "line 2 is damaged" in trouble


def test_after_a_full_disk_the_next_save_has_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = long_history(2)
    save(tmp_path, history, str)
    turn(history, 2)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable):
            save(tmp_path, history, str)
    assert history.unsaved
    save(tmp_path, history, str)
    assert told(again(tmp_path)) == told(history)
    assert (tmp_path / conversation.FILE).read_bytes().count(b"\n") == 1


def test_a_file_that_somebody_removed_or_changed_is_written_anew(tmp_path: Path) -> None:
    history = long_history(2)
    save(tmp_path, history, str)
    path = tmp_path / conversation.FILE
    for meddle in (path.unlink, lambda: path.write_bytes(b"{}\n")):
        meddle()
        turn(history, 7)
        save(tmp_path, history, str)
        assert told(again(tmp_path)) == told(history)


def test_tool_results_that_are_stored_twice_do_not_fill_the_disk(tmp_path: Path) -> None:
    history = History()
    for number in range(30):
        call = ToolCallPart("look", {}, tool_call_id=f"c{number}")
        history.commit(["look"], [], said(call))
        history.answer(call, "x" * 20_000, error=False)
        save(tmp_path, history, str)
        history.commit([], [], said(TextPart("ok")))
        save(tmp_path, history, str)
    size = (tmp_path / conversation.FILE).stat().st_size
    assert size < 2.5 * 30 * 20_000
    assert told(again(tmp_path)) == told(history)


def test_a_secret_in_a_new_line_is_redacted(tmp_path: Path) -> None:
    history = long_history(1)
    save(tmp_path, history, str)
    history.commit(["the key is hunter2"], [], said(TextPart("hunter2")))
    save(tmp_path, history, lambda text: text.replace("hunter2", "[hidden]"))
    data = (tmp_path / conversation.FILE).read_bytes()
    assert b"hunter2" not in data
    assert data.count(b"[hidden]") == 2
