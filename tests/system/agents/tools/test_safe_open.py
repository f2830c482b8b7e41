"""File tools open the file that was decided about, whatever links are put in its way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.system.transcript import Transcript
from bullpen.agents.tools.files import safe_open
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.team.team import Team

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

ROUNDS = 2_000
GATED_ROUNDS = 200
PRECIOUS = "precious, of somebody else"


class Ground:
    """A project with a directory that turns into a link to a directory outside, and back."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.folder = self.project / "folder"
        self.outside = root / "outside"
        for place, text in ((self.folder, "inside"), (self.outside, PRECIOUS)):
            place.mkdir(parents=True)
            (place / "a.txt").write_text(text)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        program = Path(__file__).parent / "swapper.py"
        words = [sys.executable, "-I", "-S", str(program), str(self.folder), str(self.outside)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as swapper:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == "ready\n"
            try:
                yield
            finally:
                assert swapper.poll() is None
                swapper.kill()

    def assert_untouched(self) -> None:
        assert os.listdir(self.outside) == ["a.txt"]
        assert (self.outside / "a.txt").read_text() == PRECIOUS


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path.resolve())


@pytest.fixture
async def desk(ground: Ground, team: Team, tmp_path: Path) -> AsyncIterator[RunnerDesk]:
    """An agent that may change what lies in its project, and nothing else."""
    policy = Policy.new(allow=["Edit(/**)", "Read(/**)"], deny=["Read(hidden/**)"])
    spec = AgentSpec.new(
        driver="scripted",
        backend="in-process",
        cwd=str(ground.project),
        mode="dontAsk",
        policy=policy.raw,
    )
    await team.agents.register("cy", spec, by=LEAD, nonce="n")
    folder = tmp_path / "cy"
    folder.mkdir()
    transcript = Transcript(folder)
    yield RunnerDesk(
        team,
        "cy",
        spec,
        nonce="n",
        folder=folder,
        env={"BULLPEN_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
        transcript=transcript,
        colleagues=None,
        now=now_ms,
    )
    transcript.close()


async def _use(desk: Any, name: str, **given: Any) -> tuple[str, bool]:
    return await call(toolbox(desk), name, given, desk)


async def test_no_write_or_read_is_led_astray_by_a_link_that_comes_and_goes(
    ground: Ground, make_bench: Any
) -> None:
    """R-4.3: the verdict is on where a path really lies, and that is what is opened."""
    bench: Bench = make_bench("ann")
    judged = 0
    outcomes: set[bool] = set()
    with ground.swapped():
        while judged < ROUNDS:
            # Writing takes longer: it waits for the disk.
            reads = judged % 5
            path = str(ground.folder / ("a.txt" if reads else f"new-{judged}.txt"))
            real = _real(path)
            if real is None or not real.startswith(f"{ground.project}/"):
                # The gate would have said no.
                continue
            judged += 1
            safe_open.keep(path, real)
            given = {} if reads else {"content": "mine"}
            text, failed = await _use(
                bench.desk, "Read" if reads else "Write", file_path=path, **given
            )
            outcomes.add(failed)
            assert PRECIOUS not in text
    ground.assert_untouched()
    assert outcomes == {True, False}


def _real(path: str) -> str | None:
    try:
        return safe_open.look_up(path, "/")
    except Refused:
        return None


async def test_no_call_through_the_gate_is_led_astray(ground: Ground, desk: RunnerDesk) -> None:
    """R-4.3: with the real gate in front, which denies what lies outside."""
    done = 0
    with ground.swapped():
        for number in range(GATED_ROUNDS):
            path = f"folder/{'a.txt' if number % 2 else f'new-{number}.txt'}"
            if number % 2:
                text, failed = await _use(desk, "Read", file_path=path)
            else:
                text, failed = await _use(desk, "Write", file_path=path, content="mine")
            done += not failed
            assert PRECIOUS not in text
    ground.assert_untouched()
    assert done > 0


async def test_a_link_that_was_there_before_is_followed_if_it_stays_inside(
    ground: Ground, desk: RunnerDesk
) -> None:
    (ground.project / "link").symlink_to(ground.folder, target_is_directory=True)
    assert "inside" in (await _use(desk, "Read", file_path="link/a.txt"))[0]
    text, failed = await _use(
        desk, "Edit", file_path="link/a.txt", old_string="inside", new_string="x"
    )
    assert not failed, text
    assert (ground.folder / "a.txt").read_text() == "x"
    (ground.project / "away").symlink_to(ground.outside, target_is_directory=True)
    for tool, given in (("Read", {}), ("Write", {"content": "x"})):
        text, failed = await _use(desk, tool, file_path="away/a.txt", **given)
        assert failed
        assert "outside the project" in text
    ground.assert_untouched()


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_link_that_came_after_the_verdict_is_an_error(ground: Ground, what: str) -> None:
    real = str(ground.folder / "a.txt")
    if what == "folder":
        ground.folder.rename(ground.project / "stash")
        ground.folder.symlink_to(ground.outside, target_is_directory=True)
    else:
        (ground.folder / "a.txt").unlink()
        (ground.folder / "a.txt").symlink_to(ground.outside / "a.txt")
    with (
        pytest.raises(Refused, match="changed while") as caught,
        safe_open.folder_of(real) as (
            folder,
            name,
        ),
    ):
        os.close(safe_open.open_in(folder, name, os.O_RDONLY, real=real))
    assert caught.value.reason == "changed"


async def test_a_mark_in_the_place_of_a_secret_is_not_written_over_it(
    ground: Ground, desk: RunnerDesk
) -> None:
    token = f"ghp_{'aB3' * 12}"
    path = ground.project / ".env"
    path.write_text(f"TOKEN={token}\nDEBUG=1\n")
    text, _ = await _use(desk, "Read", file_path=".env")
    assert "TOKEN=[secret]" in text
    text, failed = await _use(desk, "Write", file_path=".env", content="TOKEN=[secret]\nDEBUG=0\n")
    assert failed
    assert "holds a secret" in text
    _, failed = await _use(
        desk, "Edit", file_path=".env", old_string="DEBUG=1", new_string="DEBUG=0"
    )
    assert not failed
    assert path.read_text() == f"TOKEN={token}\nDEBUG=0\n"


async def test_searches_leave_out_what_may_not_be_read(ground: Ground, desk: RunnerDesk) -> None:
    (ground.project / "hidden").mkdir()
    for number in range(3):
        (ground.project / "hidden" / f"h{number}.txt").write_text("needle in the dark\n")
        (ground.project / f"z{number}.txt").write_text("needle in sight\n")
    for mode in ("content", "files_with_matches", "count"):
        text, failed = await _use(desk, "Grep", pattern="needle", output_mode=mode)
        assert not failed, text
        assert "dark" not in text
        assert "h0.txt" not in text
        assert "z2.txt" in text
        assert "Left out 3 files that you may not read" in text
    # What is left out does not count for how much is shown.
    text, _ = await _use(desk, "Grep", pattern="needle", output_mode="content", head_limit=2)
    assert text.count("in sight") == 2
    text, _ = await _use(desk, "Glob", pattern="**/*.txt")
    assert "h0.txt" not in text
    assert "z0.txt" in text
    assert "Left out 3 files that you may not read" in text
