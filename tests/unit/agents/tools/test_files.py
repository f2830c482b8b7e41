"""Reading, writing and editing files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from bullpen.agents.tools.files import file_content, file_tools

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench


async def test_lines_are_read_with_their_numbers(ann: Bench) -> None:
    (ann.cwd / "a.txt").write_text("one\ntwo\n\nfour")
    text = await ann.ok("Read", file_path="a.txt")
    assert text == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"


async def test_two_thousand_lines_are_read_unless_asked_otherwise(ann: Bench) -> None:
    (ann.cwd / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 3001)))
    text = await ann.ok("Read", file_path=str(ann.cwd / "a.txt"))
    assert "  2000\t2000" in text
    assert "  2001\t" not in text
    assert "offset 2001" in text
    part = await ann.ok("Read", file_path="a.txt", offset=2500, limit=2)
    assert part.startswith("  2500\t2500\n  2501\t2501\n")
    assert "2502\t" not in part
    assert "3000 lines" in await ann.refused("Read", file_path="a.txt", offset=3001)


async def test_long_lines_and_long_files_are_cut_and_say_so(ann: Bench) -> None:
    (ann.cwd / "a.txt").write_text("x" * 5000 + "\n" + ("y" * 1500 + "\n") * 500)
    text = await ann.ok("Read", file_path="a.txt")
    assert "x" * 2000 + "… [3000 more characters]" in text
    assert len(text) < file_tools.READ_CHARS_MAX + 3000
    assert "of 501. Continue with offset" in text


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x7fELF\2\1\1\0", "an ELF program"),
        (b"\xff\xfeh\0i\0", "UTF-16 text"),
        (b"ab\0cd", "binary data"),
    ],
)
async def test_what_is_no_text_is_refused_by_its_kind(
    ann: Bench, content: bytes, kind: str
) -> None:
    (ann.cwd / "a.bin").write_bytes(content)
    assert kind in await ann.refused("Read", file_path="a.bin")


async def test_bytes_that_are_no_utf8_are_shown_and_told_of(ann: Bench) -> None:
    (ann.cwd / "a.txt").write_bytes(b"caf\xe9\n")
    text = await ann.ok("Read", file_path="a.txt")
    assert "caf\ufffd" in text
    assert "not UTF-8" in text
    (ann.cwd / "b.txt").write_text("really \ufffd\n", encoding="utf-8")
    assert "not UTF-8" not in await ann.ok("Read", file_path="b.txt")


async def test_a_missing_file_is_an_error_that_names_near_ones(ann: Bench) -> None:
    (ann.cwd / "readme.md").write_text("hello")
    assert "readme.md" in await ann.refused("Read", file_path="README.md")
    assert "There is no 'src'" in await ann.refused("Read", file_path="src/deep/main.py")


async def test_directories_pipes_and_empty_files_are_told_apart(ann: Bench) -> None:
    os.mkfifo(ann.cwd / "pipe")
    (ann.cwd / "empty").touch()
    assert "is a directory" in await ann.refused("Read", file_path=".")
    assert "pipe" in await ann.refused("Read", file_path="pipe")
    assert "is empty" in await ann.ok("Read", file_path="empty")


async def test_a_new_file_is_written_with_its_directories(ann: Bench) -> None:
    await ann.ok("Write", file_path="src/deep/a.py", content="print(1)\n")
    assert (ann.cwd / "src/deep/a.py").read_text() == "print(1)\n"
    assert stat.S_IMODE((ann.cwd / "src/deep/a.py").stat().st_mode) & 0o600 == 0o600


async def test_a_file_that_was_not_read_is_not_overwritten(ann: Bench) -> None:
    (ann.cwd / "a.txt").write_text("precious")
    assert "not_read" in await ann.refused("Write", file_path="a.txt", content="new")
    assert (ann.cwd / "a.txt").read_text() == "precious"
    await ann.ok("Read", file_path="a.txt")
    await ann.ok("Write", file_path="a.txt", content="new")
    await ann.ok("Write", file_path="a.txt", content="newer")
    assert (ann.cwd / "a.txt").read_text() == "newer"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(
    ann: Bench, bob: Bench
) -> None:
    path = ann.cwd / "a.txt"
    path.write_text("first!")
    await ann.ok("Read", file_path="a.txt")
    facts = path.stat()
    await bob.ok("Read", file_path="a.txt")
    await bob.ok("Write", file_path="a.txt", content="second")
    # Neither the size nor the time gives it away.
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert "changed" in await ann.refused("Write", file_path="a.txt", content="third")
    assert "changed" in await ann.refused(
        "Edit", file_path="a.txt", old_string="second", new_string="x"
    )
    assert path.read_text() == "second"


async def test_touching_a_file_is_no_change(ann: Bench) -> None:
    (ann.cwd / "a.txt").write_text("same")
    await ann.ok("Read", file_path="a.txt")
    os.utime(ann.cwd / "a.txt", (1, 1))
    await ann.ok("Write", file_path="a.txt", content="new")


async def test_a_file_that_appears_during_the_write_is_not_overwritten(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def somebody_is_quicker(descriptor: int) -> None:
        (ann.cwd / "a.txt").write_text("theirs")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", somebody_is_quicker)
    assert "not_read" in await ann.refused("Write", file_path="a.txt", content="mine")
    assert (ann.cwd / "a.txt").read_text() == "theirs"
    assert [path.name for path in ann.cwd.iterdir()] == ["a.txt"]


async def test_writing_keeps_mode_and_link_and_leaves_nothing_beside(ann: Bench) -> None:
    (ann.cwd / "run.sh").write_text("old")
    (ann.cwd / "run.sh").chmod(0o755)
    (ann.cwd / "link").symlink_to("run.sh")
    await ann.ok("Read", file_path="link")
    await ann.ok("Write", file_path="link", content="new")
    await ann.ok("Edit", file_path="run.sh", old_string="new", new_string="newer")
    assert (ann.cwd / "link").is_symlink()
    assert (ann.cwd / "run.sh").read_text() == "newer"
    assert stat.S_IMODE((ann.cwd / "run.sh").stat().st_mode) == 0o755
    assert sorted(path.name for path in ann.cwd.iterdir()) == ["link", "run.sh"]


async def test_half_a_character_is_refused_and_writes_nothing(ann: Bench) -> None:
    assert "incomplete character" in await ann.refused("Write", file_path="a.txt", content="\ud83d")
    assert not (ann.cwd / "a.txt").exists()


async def test_an_edit_replaces_the_only_match_and_shows_it(ann: Bench) -> None:
    (ann.cwd / "a.py").write_text("a = 1\nb = 2\nc = 3\n")
    assert "not_read" in await ann.refused(
        "Edit", file_path="a.py", old_string="b = 2", new_string="b = 5"
    )
    await ann.ok("Read", file_path="a.py")
    text = await ann.ok("Edit", file_path="a.py", old_string="b = 2", new_string="b = 5")
    assert "     2\tb = 5" in text
    assert (ann.cwd / "a.py").read_text() == "a = 1\nb = 5\nc = 3\n"


async def test_an_edit_without_a_single_match_changes_nothing_and_says_how_many(
    ann: Bench,
) -> None:
    (ann.cwd / "a.py").write_text("x = 1\nx = 1\n    y = 2\n")
    await ann.ok("Read", file_path="a.py")
    several = await ann.refused("Edit", file_path="a.py", old_string="x = 1", new_string="z")
    assert "2 times, at lines 1, 2" in several
    none = await ann.refused("Edit", file_path="a.py", old_string="q", new_string="z")
    assert "0 matches" in none
    near = await ann.refused("Edit", file_path="a.py", old_string="\ty = 2", new_string="z")
    assert "line 3" in near
    assert "same" in await ann.refused("Edit", file_path="a.py", old_string="y", new_string="y")
    assert "empty" in await ann.refused("Edit", file_path="a.py", old_string="", new_string="y")
    assert (ann.cwd / "a.py").read_text() == "x = 1\nx = 1\n    y = 2\n"
    await ann.ok("Edit", file_path="a.py", old_string="x = 1", new_string="z", replace_all=True)
    assert (ann.cwd / "a.py").read_text() == "z\nz\n    y = 2\n"


async def test_an_edit_keeps_line_endings_and_foreign_bytes(ann: Bench) -> None:
    (ann.cwd / "a.txt").write_bytes(b"one\r\ntwo \xe9\r\nthree\r\n")
    await ann.ok("Read", file_path="a.txt")
    await ann.ok("Edit", file_path="a.txt", old_string="three", new_string="3\n4")
    await ann.ok("Edit", file_path="a.txt", old_string="3\n4\n", new_string="5\n")
    assert (ann.cwd / "a.txt").read_bytes() == b"one\r\ntwo \xe9\r\n5\r\n"


async def test_a_file_too_large_to_read_at_once_is_refused(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_content, "FILE_BYTES_MAX", 10)
    (ann.cwd / "a.txt").write_text("x" * 11)
    assert "too large to read at once" in await ann.refused("Read", file_path="a.txt")
    (ann.cwd / "a.txt").write_text("x" * 10)
    await ann.ok("Read", file_path="a.txt")
