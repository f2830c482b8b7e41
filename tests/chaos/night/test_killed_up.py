"""`bullpen up` again after kill -9: nothing twice, nothing missing, and it ends the same."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from bullpen.protocol.names import LEAD
from support.crews import eventually
from support.offices import Place
from support.runs.unattended_team import Night, git_environment, tasks

# A sample in CI; all places at which one can die with BULLPEN_KILLED_UP=1.
POINTS = range(1, 40) if os.environ.get("BULLPEN_KILLED_UP") else (1, 5, 12)


@pytest.fixture
async def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Night]:
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    found = Night(tmp_path)
    found.make_repository()
    yield found
    async with found.opened() as (app, _):
        place = Place(app, tmp_path, f"bullpen-test-{secrets.token_hex(6)}")
        await place.end_everything()


def killed(night: Night, commits: int) -> int:
    """Bring the team up in a process that dies after so many commits; its exit code."""
    program = Path(__file__).with_name("up_then_die.py")
    home = str(night.folder / "home")
    done = subprocess.run(
        [sys.executable, str(program), home, str(night.file), str(night.project), str(commits)],
        cwd=night.project, capture_output=True, text=True, timeout=90, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.parametrize("commits", POINTS)
async def test_a_team_that_was_left_half_made_is_finished_by_the_next_up(
    night: Night, commits: int
) -> None:
    night.write(tasks("alpha", "beta", more={"beta": 'blocked_by = ["t1"]\n'}), members=["ann"])
    (night.folder / "BACKLOG.md").write_text("- [ ] gamma\n", "utf-8")
    text = night.file.read_text("utf-8")
    night.file.write_text(f'{text}[[backlog]]\nmarkdown = "BACKLOG.md"\n', "utf-8")
    await anyio.to_thread.run_sync(killed, night, commits)

    outcome = await night.up()
    assert (outcome.status, outcome.tasks) == ("done", {"completed": 3}), (outcome, night.news)
    async with night.opened() as (_, team):
        found = [(task.subject, task.facts.source) for task in (await team.tasks.list()).tasks]
        config = await team.agents.config()
        members = [member.name for member in config.roster]
    assert [subject for subject, _ in found] == ["alpha", "beta", "gamma"], "each once"
    assert len({source for _, source in found}) == 3
    assert members == [LEAD, "ann"]
    assert sorted(night.git("ls-tree", "--name-only", "main").split()) == [
        "README", "done-1.txt", "done-2.txt", "done-3.txt",
    ]  # fmt: skip
    assert night.git("log", "--format=%s", "main").splitlines().count("alpha") == 1


async def test_a_backlog_is_read_again_and_new_entries_are_done_too(night: Night) -> None:
    night.write(tasks("alpha"), members=["ann"])
    backlog = night.folder / "BACKLOG.md"
    backlog.write_text("- [ ] beta\n", "utf-8")
    text = night.file.read_text("utf-8")
    night.file.write_text(f'{text}[[backlog]]\nmarkdown = "BACKLOG.md"\nevery_s = 5\n', "utf-8")

    async def write_more() -> None:
        await eventually(lambda: any("took task #1" in line for line in night.news))
        backlog.write_text("- [ ] beta\n- [ ] gamma\n", "utf-8")

    async with anyio.create_task_group() as group:
        group.start_soon(write_more)
        outcome = await night.up()
    assert (outcome.status, outcome.tasks) == ("done", {"completed": 3}), night.news

    # A source that cannot be read later is told, and ends nothing.
    backlog.unlink()
    night.news.clear()
    assert (await night.up()).status == "done"
    assert any("there is no such file" in line for line in night.news), night.news
