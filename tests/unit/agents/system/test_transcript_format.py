"""A transcript says its format in its first line, and one of a newer major is not written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bullpen.agents.system.transcript import Transcript, rows
from bullpen.errors import Unavailable
from bullpen.protocol.format_version import FORMAT


def test_only_the_first_line_of_a_transcript_has_the_format(tmp_path: Path) -> None:
    for _ in range(2):
        transcript = Transcript(tmp_path)
        transcript.record("begin", text="x")
        transcript.close()
    assert [row.get("format") for row in rows(transcript.path)] == [FORMAT, None]


@pytest.mark.parametrize("version", [None, "1.0", "1.99"])
def test_a_transcript_of_the_same_major_goes_on(tmp_path: Path, version: str | None) -> None:
    first = {"kind": "begin"} if version is None else {"kind": "begin", "format": version}
    (tmp_path / "transcript.jsonl").write_text(json.dumps(first) + "\n")
    transcript = Transcript(tmp_path)
    transcript.record("end")
    transcript.close()
    assert [row["kind"] for row in rows(transcript.path)] == ["begin", "end"]


def test_a_transcript_of_a_newer_major_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_text('{"kind": "begin", "format": "2.0"}\n')
    with pytest.raises(Unavailable, match=r"format 2\.0"):
        Transcript(tmp_path)
    assert path.read_text() == '{"kind": "begin", "format": "2.0"}\n'
