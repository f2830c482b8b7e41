"""R-11a: everything is killed, a tree is deleted by hand, and the team goes on as it was."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.agents.system import processes
from bullpen.app.app import TMUX_SOCKET, App
from bullpen.app.settings import settings_from
from bullpen.protocol.names import LEAD
from support.crews import eventually
from support.git.repositories import commit, git, make_repository
from support.offices import Place, needs_tmux

TEAM = "night"
FILE = """
[team]
name = "night"

[workspace]
kind = "worktree"

[merge]
gate = ["test -e a.txt"]

[[member]]
name = "ann"
driver = "scripted"
script = "script.toml"
mode = "bypassPermissions"

[[member]]
name = "bob"
driver = "scripted"
backend = "tmux"
script = "script.toml"
mode = "bypassPermissions"

[[task]]
id = "anns"
subject = "Of ann"
owner = "ann"

[[task]]
id = "bobs"
subject = "Of bob"
owner = "bob"
"""
COMMITS = "git add -A && git -c user.name=b -c user.email=b@b commit -qm begun"
TURNS = """
[[agents.{name}.turns]]
when = "task"
steps = [{{tool = "Bash", input = {{command = "{command}; echo > began; sleep 9999"}}}}]

[[agents.{name}.turns]]
contains = "go on"
steps = [
  {{tool = "Bash", input = {{command = "rm -f began"}}}},
  {{tool = "TaskUpdate", input = {{taskId = "{task}", status = "completed"}}}},
]
"""
SCRIPT = TURNS.format(name="ann", task=1, command="echo half > anns.txt") + TURNS.format(
    name="bob", task=2, command=f"echo half > bobs.txt; {COMMITS}"
)
RUN_S = 90.0


class Night(Place):
    """A team that `bullpen up` brings up in a process of its own."""

    @property
    def env(self) -> dict[str, str]:
        own = {"HOME": str(self.folder), "BULLPEN_HOME": str(self.home), TMUX_SOCKET: self.socket}
        return {**os.environ, **own}

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "bullpen", *words]

    def run(self, *words: str) -> str:
        done = subprocess.run(
            self.words(*words), env=self.env, cwd=self.project, capture_output=True, text=True,
            timeout=RUN_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tree(self, name: str) -> Path:
        return self.folder / "project.bullpen" / TEAM / name

    def kill_everything(self, up: subprocess.Popen[bytes]) -> None:
        """As a machine goes down: nobody says goodbye."""
        up.kill()
        up.wait()
        for _ in range(20):
            marked = self.processes()
            for pid in marked:
                os.kill(pid, signal.SIGKILL)
            self.tmux("kill-server")
            if not marked:
                return
        raise AssertionError(f"still there: {marked}")


@needs_tmux
async def test_r_11a_a_team_goes_on_with_its_trees_after_everything_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = f"bullpen-test-{secrets.token_hex(6)}"
    settings = settings_from({"HOME": str(tmp_path)}, home=tmp_path / "home", team=TEAM)
    project = make_repository(tmp_path / "project")
    commit(project, {"TEAM.toml": FILE, "script.toml": SCRIPT})
    async with App(settings, {**os.environ, TMUX_SOCKET: socket}) as app:
        night = Night(app, tmp_path, socket)
        with (tmp_path / "up.log").open("wb") as log:
            up = subprocess.Popen(  # noqa: ASYNC220 - it outlives nothing
                night.words("up", "TEAM.toml"), env=night.env, cwd=project,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            await _goes_on(night, up)
        finally:
            up.kill()
            up.wait()
            await night.end_everything()


async def _goes_on(night: Night, up: subprocess.Popen[bytes]) -> None:
    team = night.app.teams.open(TEAM)
    trees = [night.tree(name) for name in ("ann", "bob")]
    await eventually(lambda: all((tree / "began").exists() for tree in trees), within_s=RUN_S)
    owners = {task.id: (task.owner, task.facts.attempt) for task in (await team.tasks.list()).tasks}
    assert owners == {"1": ("ann", 1), "2": ("bob", 1)}
    night.kill_everything(up)
    assert not any(processes.carriers(agent.nonce) for _, agent in await team.agents.living())
    for name in ("ann", "bob"):
        await team.mailbox.send(name, f"go on, {name}", sender=LEAD)
    shutil.rmtree(night.tree("bob"))

    told = night.run("team", "resume", TEAM)
    assert "ann is ready again" in told
    assert "bob is ready again" in told
    tasks = (await team.tasks.list()).tasks
    assert {task.id: (task.owner, task.facts.attempt) for task in tasks} == owners
    records = [task.facts.merge for task in tasks]
    assert [(each.by, each.state) for each in records if each is not None] == [
        ("ann", "merged"),
        ("bob", "merged"),
    ]
    for name in ("ann", "bob"):
        box = await team.mailbox.read(name, history=True)
        texts = [entry.message.text for entry in box.entries]
        assert texts.count(f"go on, {name}") == 1
    # What was not committed was as it was; what was deleted came from its branch.
    assert (night.project / "anns.txt").read_text() == "half\n"
    assert (night.project / "bobs.txt").read_text() == "half\n"
    assert git(night.project, "status", "--porcelain") == ""
    assert {member.name for member in await team.roster.list()} == {LEAD, "ann", "bob"}
    assert night.processes() == []
