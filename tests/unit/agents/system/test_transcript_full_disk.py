"""A transcript on a disk that is full for a moment."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bullpen.agents.system import transcript
from bullpen.agents.system.transcript import Transcript, rows


class FullDisk:
    """Takes so many bytes, then nothing until there is room again."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self._write(descriptor, data[: self.room])
        self.room -= taken
        return taken


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    full = FullDisk(1_000_000_000)
    monkeypatch.setattr(os, "write", full.write)
    return full


def kinds(folder: Path) -> list[str]:
    return [row["kind"] for row in rows(folder / transcript.NAME)]


@pytest.mark.parametrize("room", [0, 1, 30, 79])
def test_what_the_disk_did_not_take_is_written_before_the_next_line(
    tmp_path: Path, disk: FullDisk, room: int
) -> None:
    written = Transcript(tmp_path)
    written.record("turn", text="Begin")
    disk.room = room
    written.record("usage", number=1)
    written.record("end", text="The end")
    disk.room = 1_000_000_000
    written.record("turn", text="Next")
    assert kinds(tmp_path) == ["turn", "usage", "end", "turn"]


def test_what_is_kept_is_bounded_and_says_what_is_missing(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "_KEPT_BYTES_MAX", 2_000)
    written = Transcript(tmp_path)
    disk.room = 0
    for number in range(100):
        written.record("text", text=f"{number:0100d}")
    assert len(written._kept) < 20
    disk.room = 1_000_000_000
    written.record("end", text="The end")
    last = list(rows(tmp_path / transcript.NAME))
    assert "end" in [row["kind"] for row in last[-2:]]
    assert "lines are missing here" in last[-1]["text"]


def test_another_error_of_the_disk_is_told(tmp_path: Path, disk: FullDisk) -> None:
    written = Transcript(tmp_path)
    written.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        written.record("turn", text="Begin")
