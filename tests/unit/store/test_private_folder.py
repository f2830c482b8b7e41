"""The home and what is created in it is for one user."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.app.app import open_app
from bullpen.store.files.disk import Disk
from bullpen.store.private_folder import make_private, narrow, open_to_others


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_new_directory_on_the_way_is_private(tmp_path: Path) -> None:
    make_private(tmp_path / "a/b/c")
    make_private(tmp_path / "a/b/c")
    Disk().ensure_dir(str(tmp_path / "d/e"))
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c", "d", "d/e")] == [0o700] * 5


async def test_a_new_home_is_private(tmp_path: Path) -> None:
    home = tmp_path / "new/home"
    async with open_app(home=home) as app:
        await app.teams.create("alpha", cwd=str(tmp_path))
    wide = [str(path) for path in [home, *home.rglob("*")] if path.is_dir() and mode(path) & 0o077]
    assert wide == []


async def test_a_home_that_others_may_enter_is_closed_to_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    assert open_to_others(home) == 0o755
    async with open_app(home=home):
        assert mode(home) == 0o700
    assert narrow(home) and open_to_others(home) is None
    assert narrow(tmp_path / "missing")
