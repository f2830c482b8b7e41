"""A queue that is killed with -9 and begun again arrives where it would have arrived.

`BULLPEN_MERGE_KILLS` says at how many moments it is killed (99999: at every one there is), and
`BULLPEN_MERGE_BRANCHES` how many branches wait (20: by 10 agents).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from bullpen.store.files.store import FileStore
from bullpen.team.team import Team
from support.git.repositories import git, only_these_settings
from support.git.yard import TEST, Yard, fill, slots

pytestmark = pytest.mark.no_loss

_RUN_S = 300.0
_SAMPLE = int(os.environ.get("BULLPEN_MERGE_KILLS", "2"))
_BRANCHES = int(os.environ.get("BULLPEN_MERGE_BRANCHES", "4"))
_AGENTS = min(10, _BRANCHES // 2)
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """Where it all ended: the target, what the trees say, and every task in the end."""

    target: str
    log: list[str]
    tasks: list[tuple[str, ...]]
    told: list[str]
    user_is_clean: bool
    backlog: str


class Scene:
    """The same line in front of the same queue, as often as it is wanted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "scene"
        self._kept = folder / "kept"

    async def make(self) -> None:
        """A line with conflicts, a red one among green ones, and a command to run after."""
        boxes = "".join(f"- [ ] number {number} (id: {number})\n" for number in range(_BRANCHES))
        files = {"n.txt": slots(_BRANCHES), "test.sh": TEST, "BACKLOG.md": boxes}
        after = f'echo "$BULLPEN_TASKS" >> {self.folder}/told'
        store = FileStore(self.folder / "home")
        yard = await Yard.make(self.folder, store, files=files, batch=3, after=after, retries=0)
        names = [f"agent{number}" for number in range(_AGENTS)]
        await yard.join(*names)
        for first in range(0, _BRANCHES, _AGENTS):
            tasks = [
                await yard.take(name, source=f"markdown:BACKLOG.md#{number}")
                for number, name in enumerate(names, first)
            ]
            for number, (name, task) in enumerate(zip(names, tasks, strict=True), first):
                # One is red; each eighth wants the place of the one before it.
                text = "BROKEN" if number == 2 else f"n{number}=1"
                await yard.finish(name, task, fill("n.txt", self.slot(number), text))
        shutil.copytree(self.folder, self._kept, symlinks=True)

    @staticmethod
    def slot(number: int) -> int:
        """Where the work of a number goes."""
        return number - 1 if number % 8 == 5 else number

    def restore(self) -> None:
        """Have it as it was made."""
        shutil.rmtree(self.folder)
        shutil.copytree(self._kept, self.folder, symlinks=True)

    def run(self, moments: int = 0) -> subprocess.CompletedProcess[str]:
        """Be the queue until it is through, or dead."""
        words = [sys.executable, str(_HERE / "queue_process.py"), str(self.folder), str(moments)]
        return subprocess.run(
            words,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            check=False,
        )

    async def outcome(self) -> Outcome:
        """Where it ended."""
        project = self.folder / "project"
        team = Team(FileStore(self.folder / "home"), "crew")
        tasks = (await team.tasks.list()).tasks
        rows: list[tuple[str, ...]] = []
        for task in tasks:
            merge = task.facts.merge
            assert merge is not None
            rows.append((task.id, task.status, merge.state, merge.landed or ""))
        told = self.folder / "told"
        lines = told.read_text().splitlines() if told.exists() else []
        return Outcome(
            git(project, "rev-parse", "main"),
            git(project, "log", "--format=%H %s", "main").splitlines(),
            rows,
            list(dict.fromkeys(" ".join(lines).split())),
            git(project, "status", "--porcelain") == "",
            (project / "BACKLOG.md").read_text(),
        )


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Known:
    """A scene, and where it ends if nobody is killed, after how many moments."""

    scene: Scene
    expected: Outcome
    moments: int


@pytest.fixture(scope="module")
async def known(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Known]:
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        only_these_settings(patch, folder)
        scene = Scene(folder)
        await scene.make()
        done = scene.run()
        assert done.returncode == 0, done.stderr
        yield Known(scene, await scene.outcome(), int(done.stdout))


async def test_killed_at_any_moment_and_begun_again_it_arrives_at_the_same(known: Known) -> None:
    scene, expected = known.scene, known.expected
    assert expected.user_is_clean
    back = [int(row[0]) - 1 for row in expected.tasks if row[2] == "returned"]
    assert back == [n for n in range(_BRANCHES) if n == 2 or scene.slot(n) != n]
    assert {row[2] for row in expected.tasks} == {"merged", "returned"}
    boxes = [line.startswith("- [ ]") for line in expected.backlog.splitlines()]
    assert [number for number, is_open in enumerate(boxes) if is_open] == back
    chance = random.Random(os.environ.get("BULLPEN_MERGE_SEED", "1"))
    for moment in _sampled(range(1, known.moments + 1), chance):
        scene.restore()
        killed = scene.run(moment)
        assert killed.returncode == -signal.SIGKILL, (moment, killed.stderr)
        again = scene.run()
        assert again.returncode == 0, (moment, again.stderr)
        assert await scene.outcome() == expected, f"killed at {moment} of {known.moments}"


def _sampled(every: range, chance: random.Random) -> list[int]:
    """Some moments of each part of the run, or all."""
    if len(every) <= _SAMPLE:
        return list(every)
    size = len(every) // _SAMPLE
    return [chance.randrange(part * size, (part + 1) * size) + 1 for part in range(_SAMPLE)]


async def test_killed_over_and_over_it_arrives_at_the_same(known: Known) -> None:
    known.scene.restore()
    chance = random.Random(3)
    for _ in range(200):
        ended = known.scene.run(chance.randrange(40, 160))
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    else:
        pytest.fail("it never came to an end")
    assert await known.scene.outcome() == known.expected


async def test_two_queues_at_once_land_everything_once(known: Known) -> None:
    scene = known.scene
    scene.restore()
    with ThreadPoolExecutor(2) as both:
        ended = list(both.map(lambda _: scene.run(), range(2)))
    # Who finds the other at work gives up, and says who that is.
    codes = sorted(done.returncode for done in ended)
    assert codes[0] == 0, [done.stderr for done in ended]
    assert codes[1] == 0 or any("is already the merge queue" in done.stderr for done in ended)
    assert scene.run().returncode == 0
    assert await scene.outcome() == known.expected
