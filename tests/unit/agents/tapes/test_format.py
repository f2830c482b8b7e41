"""A tape comes from anywhere: it is read with bounds, and damage is named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bullpen.agents.tapes import format as tapes
from bullpen.agents.tapes.departures import calls_left
from bullpen.agents.tapes.files import TapeFile, create, read_tape
from bullpen.agents.tapes.format import (
    Header,
    PersonAct,
    TapedCall,
    act_line,
    call_line,
    end_line,
    header_line,
    parsed,
)
from bullpen.agents.tapes.requests import Asked, Piece
from bullpen.agents.tapes.setting import TapeSetting
from bullpen.errors import Conflict, Invalid, NotFound, Unavailable
from support.rows import each_row

HEADER = Header("t", "Do it", lead={"mode": "plan"}, attended=True)
ASKED = Asked("Be brief.", {"Read": "1"}, 1, (Piece("text", "Go"),))
CALL = TapedCall(
    "ann", "main", 1, ASKED, "anthropic:m", 1000, 5, 9, begins=True, said={"parts": []}
)
ACT = PersonAct("send", 7, to="ann", text="Stop")
WHOLE = header_line(HEADER) + call_line(CALL, None) + act_line(ACT) + end_line("done")


def test_a_tape_is_read_as_it_was_written() -> None:
    tape = parsed(WHOLE.encode(), name="x.tape")
    assert tape.header == HEADER
    assert tape.calls == (CALL,)
    assert tape.acts == (ACT,)
    assert tape.status == "done"
    assert tape.agents == {"ann"}


def test_what_is_as_before_is_not_written_again() -> None:
    again = call_line(CALL, ASKED)
    assert "Be brief" not in again
    second = again.replace('"number":1', '"number":2')
    tape = parsed((header_line(HEADER) + call_line(CALL, None) + second).encode(), name="x")
    assert tape.calls[1].asked.system == "Be brief."


def test_a_line_that_was_cut_by_a_kill_is_left_out() -> None:
    tape = parsed((WHOLE + '{"kind":"call","age').encode(), name="x.tape")
    assert len(tape.calls) == 1


@each_row(
    ("raw", "why"),
    [
        ("", "not a tape"),
        ('{"kind":"call"}\n', "not a tape"),
        (header_line(HEADER).replace('"format":1', '"format":9'), "format 9"),
        (header_line(HEADER) + "nonsense\n", "Line 2"),
        (header_line(HEADER) + "[]\n", "Line 2"),
        (header_line(HEADER) + '{"kind":"call","agent":7}\n', "Line 2"),
        (header_line(HEADER) + '{"kind":"person","act":"send","at_ms":-1}\n', "Line 2"),
        (header_line(HEADER).replace('"team":"t"', '"team":[]'), "Line 1"),
        (header_line(HEADER) + '{"kind":"x","y":' + "[" * 200 + "]" * 200 + "}\n", "too deeply"),
        (header_line(HEADER) + "[" * 100_000 + "\n", "Line 2"),
    ],
)
def test_damage_is_named(raw: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        parsed(raw.encode(), name="x.tape")


def test_a_tape_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "LINE_BYTES_MAX", 100)
    with pytest.raises(Invalid, match="more than 100 bytes"):
        parsed(WHOLE.encode(), name="x.tape")
    monkeypatch.setattr(tapes, "LINES_MAX", 2)
    with pytest.raises(Invalid, match="too long"):
        parsed(WHOLE.encode(), name="x.tape")


def test_lines_of_a_newer_version_are_left_out() -> None:
    assert parsed((WHOLE + '{"kind":"new"}\n').encode(), name="x").status == "done"


def test_a_call_that_was_not_made_is_where_the_run_leaves_the_tape() -> None:
    tape = parsed(WHOLE.encode(), name="x")
    left = calls_left(tape, parsed(header_line(HEADER).encode(), name="y"))
    assert left is not None
    assert (left.agent, left.number) == ("ann", 1)
    assert calls_left(tape, tape) is None


def test_a_tape_that_an_agent_replaced_is_not_written_to(tmp_path: Path) -> None:
    path, other = tmp_path / "run.tape", tmp_path / "other"
    found = create(path, HEADER)
    setting = TapeSetting(str(path), found.st_dev, found.st_ino, 0, "/p", "/h")
    TapeFile(setting).append(call_line(CALL, None))
    assert read_tape(path).calls == (CALL,)
    with pytest.raises(Conflict):
        create(path, HEADER)
    other.write_text("precious", encoding="utf-8")
    path.unlink()
    path.symlink_to(other)
    with pytest.raises(Unavailable):
        TapeFile(setting)
    path.unlink()
    path.write_text("", encoding="utf-8")
    with pytest.raises(Unavailable, match="replaced"):
        TapeFile(setting)
    assert other.read_text(encoding="utf-8") == "precious"


def test_only_files_are_tapes(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_tape(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unavailable, match="not a file"):
        read_tape(tmp_path / "pipe")
    assert json.loads(WHOLE.splitlines()[0])["kind"] == "header"
