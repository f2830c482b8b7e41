"""Random states of repositories through stop, delete, resume and doctor: every byte is recoverable.

`BULLPEN_WORKSPACE_STATES=500` is the full run. A state is made again with
`BULLPEN_WORKSPACE_SEED=N BULLPEN_WORKSPACE_STATES=1`.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import anyio
import pytest

from support.git.repositories import only_these_settings

from .play import Play, said
from .scenery import Scene, make_template

pytestmark = pytest.mark.no_loss

_STATES = int(os.environ.get("BULLPEN_WORKSPACE_STATES", "4"))
_SEED = int(os.environ.get("BULLPEN_WORKSPACE_SEED", "0"))
_STATE_S = 600.0


def test_r_8b_nothing_is_lost_and_the_users_own_is_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_these_settings(monkeypatch, tmp_path)
    template = make_template(tmp_path)
    failed = []
    for seed in range(_SEED, _SEED + _STATES):
        folder = tmp_path / f"s{seed}"
        play = Play(Scene(template, folder), random.Random(seed))

        async def run(play: Play = play) -> None:
            with anyio.fail_after(_STATE_S):
                async with play.scene.app:
                    await play.run()

        try:
            anyio.run(run)
        except Exception as error:
            failed.append(f"seed {seed}: {', '.join(play.notes)}\n{said(error)}")
            print(failed[-1].encode("ascii", "backslashreplace").decode(), flush=True)
            if os.environ.get("BULLPEN_WORKSPACE_STATES") == "1":
                raise
        finally:
            for each in folder.rglob("private"):
                if each.is_dir() and not each.is_symlink():
                    each.chmod(0o700)
            shutil.rmtree(folder)
    assert not failed, "\n\n".join(failed)
