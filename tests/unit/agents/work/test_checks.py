"""What each kind of check finds: real commands, real files, a real repository."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.protocol.task import Check

if TYPE_CHECKING:
    from support.agents.checks_fixtures import Project


def file(path: str) -> Check:
    return Check.new(name="it", kind="file", path=path)


@pytest.mark.parametrize("path", ["out.txt", "out.*", "**/out.txt", "./out.txt"])
async def test_a_file_must_be_there_and_not_be_empty(project: Project, path: str) -> None:
    passed, words = await project.found(file(path))
    assert (passed, words) == (False, f"there is no {path} in {project.path}")
    (project.path / "out.txt").touch()
    passed, words = await project.found(file(path))
    assert not passed
    assert "is empty" in words
    (project.path / "out.txt").write_text("x")
    assert (await project.found(file(path)))[0]


async def test_one_file_that_fits_a_pattern_is_enough(project: Project) -> None:
    (project.path / "dist").mkdir()
    assert "an empty directory" in (await project.found(file("dist")))[1]
    (project.path / "dist/a.whl").touch()
    (project.path / "dist/b.whl").write_text("x")
    assert (await project.found(file("dist/*.whl")))[0]
    assert (await project.found(file("dist")))[0]
    (project.path / "a[1].txt").write_text("x")
    assert (await project.found(file("a[1].txt")))[0], "a name that looks like a pattern"


async def test_a_file_outside_the_project_counts_only_by_its_full_path(project: Project) -> None:
    outside = project.path.parent / "outside.txt"
    outside.write_text("x")
    (project.path / "link.txt").symlink_to(outside)
    (project.path / "folder").symlink_to(project.path.parent)
    for path in ("../outside.txt", "link.txt", "folder/outside.txt", "*/outside.txt", "l*"):
        passed, words = await project.found(file(path))
        assert not passed, path
        assert "outside the project" in words, path
    assert (await project.found(file(str(outside))))[0]


async def test_what_is_there_but_no_file_does_not_pass_nor_hang(project: Project) -> None:
    os.mkfifo(project.path / "pipe")
    (project.path / "loop").symlink_to("loop")
    (project.path / "gone").symlink_to("nowhere")
    for path in ("pipe", "loop", "gone"):
        with anyio.fail_after(10):
            assert not (await project.found(file(path)))[0], path


async def test_a_report_must_say_something(project: Project) -> None:
    check = Check.new(name="it", kind="report")
    assert not (await project.found(check))[0]
    assert not (await project.found(check, report=" \n"))[0]
    assert (await project.found(check, report="Done."))[0]
