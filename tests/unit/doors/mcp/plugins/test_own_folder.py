"""A folder that Bullpen wrote is removed whole, and nothing of others with it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bullpen.doors.mcp.plugins.own_folder import LIST, remove, write, written
from bullpen.errors import NotFound, Refused

FILES = {"one.json": "{}\n", "deep/er/two.md": "Two\n"}


def test_what_was_written_is_known_and_removed_with_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "ours"
    assert written(folder) is None
    write(folder, FILES)
    assert sorted(written(folder) or ()) == sorted(FILES)
    assert (folder / "deep/er/two.md").read_text("utf-8") == "Two\n"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert remove(folder) == []
    assert not folder.exists()
    with pytest.raises(NotFound):
        remove(folder)


def test_writing_again_removes_what_is_no_longer_part_of_it(tmp_path: Path) -> None:
    write(tmp_path / "ours", FILES)
    write(tmp_path / "ours", {"one.json": "[]\n"})
    assert sorted(os.listdir(tmp_path / "ours")) == ["one.json", LIST]
    assert (tmp_path / "ours/one.json").read_text("utf-8") == "[]\n"


def test_a_file_that_somebody_added_stays(tmp_path: Path) -> None:
    write(tmp_path / "ours", FILES)
    mine = tmp_path / "ours/deep/mine.md"
    mine.write_text("Mine\n", encoding="utf-8")
    assert remove(tmp_path / "ours") == [str(mine)]
    assert mine.read_text("utf-8") == "Mine\n"
    assert not (tmp_path / "ours/deep/er").exists()


@pytest.mark.parametrize("found", ["file", "folder", "link", "list of something else"])
def test_what_is_not_ours_is_neither_written_nor_removed(tmp_path: Path, found: str) -> None:
    folder, elsewhere = tmp_path / "ours", tmp_path / "elsewhere"
    if found == "file":
        folder.write_text("mine", encoding="utf-8")
    elif found == "link":
        write(elsewhere, FILES)
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        (folder / "mine").write_text("mine", encoding="utf-8")
        if found == "list of something else":
            (folder / LIST).write_text("7", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    for act in (lambda: write(folder, FILES), lambda: remove(folder)):
        with pytest.raises(Refused, match="did not write it"):
            act()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_of_somebody_else_in_our_folder_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "ours", {"one.json": "{}\n"})
    mine = tmp_path / "ours/new.json"
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(Refused, match=r"new\.json exists"):
        write(tmp_path / "ours", {"new.json": "ours"})
    assert mine.read_text("utf-8") == "mine"


def test_a_list_that_leads_out_of_the_folder_removes_nothing_there(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    write(tmp_path / "ours", FILES)
    names = f'["../mine", "{mine}", "one.json"]'
    (tmp_path / "ours" / LIST).write_text(names, encoding="utf-8")
    remove(tmp_path / "ours")
    assert mine.exists()
    assert not (tmp_path / "ours/one.json").exists()
