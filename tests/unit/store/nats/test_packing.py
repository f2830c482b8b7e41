"""How events are packed, and which formats of a log this version may continue."""

from __future__ import annotations

import json

import pytest

from bullpen.protocol.format_version import FORMAT
from bullpen.store.nats.log.packing import (
    PACKED_FORMAT,
    is_packed,
    known_format,
    may_append,
    pack_block,
    unpack_block,
)

LINES = [json.dumps({"v": 1, "seq": seq, "op": "message"}).encode() for seq in range(64)]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_block_gives_back_its_lines(compressed: bool) -> None:
    assert unpack_block(pack_block(LINES, compressed=compressed)) == LINES


def test_a_plain_block_is_what_every_version_wrote() -> None:
    assert pack_block(LINES, compressed=False) == b"\n".join(LINES)


def test_a_compressed_block_is_much_shorter() -> None:
    assert len(pack_block(LINES, compressed=True)) < len(b"\n".join(LINES)) / 4


@pytest.mark.parametrize("damage", [b"", b"\x78\x9c damaged", b"\x00"])
def test_a_damaged_block_is_not_taken_for_an_empty_one(damage: bytes) -> None:
    with pytest.raises(ValueError, match="decompressed"):
        unpack_block(damage)


def test_a_block_that_was_cut_off_is_damaged() -> None:
    with pytest.raises(ValueError, match="decompressed"):
        unpack_block(pack_block(LINES, compressed=True)[:-9])


@pytest.mark.parametrize(
    ("version", "packed", "writes"),
    [
        ("1.0", False, True),
        (FORMAT, False, True),
        ("1.99", False, True),
        (PACKED_FORMAT, True, True),
        ("2.99", True, True),
        ("3.0", True, False),
        ("no version", True, False),
    ],
)
def test_a_log_of_a_newer_major_format_is_not_continued(
    version: str, packed: bool, writes: bool
) -> None:
    assert (is_packed(version), may_append(version)) == (packed, writes)


def test_a_log_keeps_its_kind_of_format() -> None:
    assert known_format("1.0") == FORMAT
    assert known_format("2.5") == PACKED_FORMAT
