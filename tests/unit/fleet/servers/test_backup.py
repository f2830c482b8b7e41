"""Backup and restore: what comes back is what was there, and damage is named."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

from bullpen.errors import NotFound, Unavailable, Unreadable
from bullpen.fleet.servers import backup as module
from bullpen.fleet.servers.backup import MANIFEST, checked


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A backup that looks whole, made without a server."""
    directory = tmp_path / "backup"
    directory.mkdir()
    data = b"some bytes" * 1000
    (directory / "TEAM_00.snapshot").write_bytes(data)
    kept = module.BackupPart(
        "TEAM_00",
        {"name": "TEAM_00"},
        {"messages": 1},
        "TEAM_00.snapshot",
        len(data),
        hashlib.sha256(data).hexdigest(),
    )
    module._write(module.Backup(directory, "2026-11-15T00:00:00+00:00", (kept,)))
    return directory


async def test_a_whole_backup_is_readable_by_its_owner_only(saved: Path) -> None:
    assert [kept.name for kept in (await checked(saved)).streams] == ["TEAM_00"]
    assert stat.S_IMODE((saved / MANIFEST).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "gone"])
async def test_a_damaged_file_is_named(saved: Path, damage: str) -> None:
    path = saved / "TEAM_00.snapshot"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[5000] ^= 1
    elif damage == "cut":
        del data[-1]
    elif damage == "longer":
        data.append(0)
    path.write_bytes(data)
    if damage == "gone":
        path.unlink()
    with pytest.raises(Unreadable) as caught:
        await checked(saved)
    assert caught.value.path == str(path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"v": 2, "made": "", "streams": []}', '{"v": 1, "made": ""}']
)
async def test_a_damaged_manifest_is_named(saved: Path, text: str) -> None:
    (saved / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable, match=MANIFEST):
        await checked(saved)


async def test_a_manifest_cannot_point_out_of_its_directory(saved: Path) -> None:
    path = saved / MANIFEST
    path.write_text(path.read_text("utf-8").replace("TEAM_00.snap", "../x.snap"), encoding="utf-8")
    with pytest.raises(Unreadable, match=MANIFEST):
        await checked(saved)


async def test_without_a_manifest_there_is_no_backup(saved: Path) -> None:
    (saved / MANIFEST).unlink()
    with pytest.raises(NotFound):
        await checked(saved)


@pytest.mark.parametrize(
    ("restored", "is_whole"),
    [
        ((4, 10, 13), True),
        ((6, 10, 15), True),
        ((3, 10, 13), False),
        ((4, 10, 15), False),
        ((4, 11, 13), False),
        ((2, 10, 11), False),
    ],
    ids=["same", "written to", "short", "torn", "other first", "older"],
)
def test_a_stream_may_only_have_more_at_its_end_than_was_counted(
    restored: tuple[int, int, int], is_whole: bool
) -> None:
    counted = dict(zip(module._COUNTED, (4, 10, 13), strict=True))
    assert module._is_whole(counted, dict(zip(module._COUNTED, restored, strict=True))) is is_whole


def test_a_stream_that_was_not_counted_is_refused() -> None:
    kept = module.BackupPart("TEAM_00", {}, {"messages": 4}, "TEAM_00.snapshot")
    with pytest.raises(Unavailable, match="TEAM_00"):
        module._refuse_other(kept, {"messages": 4, "first_seq": 10, "last_seq": 13})
