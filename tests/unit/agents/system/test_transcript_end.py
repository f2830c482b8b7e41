"""The end of a transcript is found without reading all of it: it may be months long."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.system import transcript
from bullpen.agents.system.transcript import own_rows, rows
from support.rows import each_row

BORN = 7


def write(path: Path, written: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in written), "utf-8")
    return path


def slowly(path: Path, kinds: tuple[str, ...], until_kind: str) -> list[dict[str, Any]]:
    """The same, found from the beginning."""
    processes: list[tuple[bool, list[dict[str, Any]]]] = []
    for row in rows(path):
        if row.get("kind") == "ready":
            processes.append((row["born"] == BORN, []))
        elif processes and row.get("kind") in kinds:
            processes[-1][1].append(row)
    found: list[dict[str, Any]] = []
    for own, written in reversed(processes):
        if not own:
            break
        found = [*written, *found]
        if any(row["kind"] == until_kind for row in written):
            break
    return found


@each_row("seed", range(50))
def test_what_is_found_from_the_end_is_what_is_found_from_the_beginning(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(transcript, "_BLOCK_BYTES", chance.choice((1, 7, 64, 4096)))
    kinds = ("ready", "turn", "end", "usage", "said")
    written = [
        {"kind": chance.choice(kinds), "number": number, "text": "é" * chance.randrange(30)}
        for number in range(chance.randrange(40))
    ]
    born = 0
    for row in written:
        if row["kind"] == "ready":
            # An agent with this name was spawned again; the last one may be another.
            born = max(born, chance.choice((0, BORN, BORN + (chance.random() < 0.1))))
            row["born"] = born
    path = write(tmp_path / "t", written)
    with path.open("ab") as file:
        file.write(chance.choice((b"", b"\n\n", b'{"kind": "en', b"\xff\n")))
    found = own_rows(
        path, born_ms=BORN, kinds=("turn", "end"), until=lambda row: row["kind"] == "turn"
    )
    assert found == slowly(path, ("turn", "end"), "turn")


def test_only_the_last_process_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = [{"kind": "ready", "born": BORN}, *({"kind": "turn", "number": n} for n in range(100))]
    path = write(tmp_path / "t", one * 100)
    read: list[bytes] = []
    parse = transcript.row_of

    def counted(line: bytes) -> dict[str, Any]:
        read.append(line)
        return parse(line)

    monkeypatch.setattr(transcript, "row_of", counted)
    found = own_rows(path, born_ms=BORN, kinds=("turn",), until=lambda row: True)
    assert len(found) == 100
    assert len(read) == len(one)
