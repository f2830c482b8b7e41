"""The demo does what it says, wherever its agents run, and leaves nothing behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from bullpen.agents.system import processes
from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.runs import demo
from bullpen.runs.watch.outcome import Outcome, Progress

LONGEST_S = 300
"""Only guards against hanging: in how many seconds the demo is over is judged in tests/timing."""
COMMITS = [
    "bullpen demo: Start the project",
    "ada: Count lines, words and characters",
    "ada: Count a last line without a newline",
    "ben: Test the counting",
    "ada: Add the command line",
    "ada: Say in one line which file cannot be read",
    "cy: Write the manual",
    "ben: Test the command line",
]
FILES = [
    "MANUAL.md",
    "README.md",
    "check",
    "count",
    "test_count.py",
    "test_main.py",
    "wordcount.py",
]


@dataclass(frozen=True)
class Panes:
    """What runs on the tmux server that the agents of a test get."""

    socket: str

    def is_there(self) -> bool:
        """Whether there is such a server at all."""
        return self._tmux("list-sessions").returncode == 0

    def end(self) -> None:
        self._tmux("kill-server")
        # tmux leaves the socket of a server that has ended.
        folder = Path(os.environ.get("TMUX_TMPDIR", "/tmp"), f"tmux-{os.getuid()}")
        (folder / self.socket).unlink(missing_ok=True)

    def _tmux(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["tmux", "-L", self.socket, *words], capture_output=True, text=True, timeout=60
        )


@pytest.fixture
def panes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Panes]:
    found = Panes(f"bullpen-demo-test-{secrets.token_hex(4)}")
    monkeypatch.setenv("BULLPEN_TMUX_SOCKET", found.socket)
    monkeypatch.delenv("BULLPEN_TMUX_SESSION", raising=False)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def hostile_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose git signs, has hooks that refuse, and is somewhere else at the moment."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "post-commit"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (hooks / name).chmod(0o755)
    user = tmp_path / "user"
    user.mkdir()
    (user / ".gitconfig").write_text(
        f"[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n"
        f"[core]\n\thooksPath = {hooks}\n[init]\n\tdefaultBranch = trunk\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody else")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "somebody@example.invalid")


def git(folder: Path, *words: str) -> list[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


async def play(folder: Path, backend: str) -> tuple[Outcome, list[Progress]]:
    settings = Settings(home=folder / "home", team=None, agent="team-lead")
    seen: list[Progress] = []
    demo.prepare(folder / "project")
    with anyio.fail_after(LONGEST_S):
        outcome = await demo.play(
            settings, backend=backend, folder=folder / "project", watch=seen.append
        )
    return outcome, seen


async def agents_of(home: Path) -> list[AgentFacts]:
    """The agents of the demo as its team knows them."""
    teams = open_teams(Settings(home=home, team=None, agent="team-lead"))
    try:
        config = await teams.open("demo").agents.config()
    finally:
        await teams.aclose()
    return [member.agent for member in config.roster if member.agent is not None]


@pytest.mark.usefixtures("hostile_git")
@pytest.mark.parametrize("backend", ["in-process", "tmux"])
async def test_the_team_builds_the_program(backend: str, tmp_path: Path, panes: Panes) -> None:
    outcome, seen = await play(tmp_path, backend)
    assert (outcome.status, outcome.code, outcome.cause) == ("done", 0, None)
    assert outcome.tasks == {"completed": 9}
    project = tmp_path / "project"
    assert git(project, "log", "--reverse", "--topo-order", "--format=%an: %s") == COMMITS
    assert git(project, "ls-files") == FILES
    assert git(project, "status", "--porcelain") == []
    assert git(project, "tag", "--points-at", "HEAD") == ["v1.0"]
    tested = await anyio.run_process(["sh", "check"], cwd=project)
    assert b"Ran 9 tests" in tested.stderr

    news = [line for progress in seen for line in progress.news]
    for told in (
        "cy to team-lead: Bytes or characters?",
        "ben to ada: 1 of 5 tests fails",
        "ada to ben: Fixed the last line",
        "cy to ada: Review: a missing file is a traceback",
        "ben reports: All 9 tests pass; I tagged v1.0.",
    ):
        assert told in news
    busy = [sum(view.state in ("working", "waiting") for view in each.agents) for each in seen]
    assert max(busy) >= 3
    # No model was asked, so nothing may look as if one had been paid.
    assert (outcome.usage.input_tokens, outcome.usage.cost_usd) == (0, 0)
    assert "no model was asked" in outcome.summary

    agents = await agents_of(tmp_path / "home")
    assert len(agents) == 4
    assert [processes.carriers(agent.nonce) for agent in agents] == [[]] * 4
    assert not panes.is_there()


def started(tmp_path: Path) -> subprocess.Popen[str]:
    """`bullpen demo` with a folder for temporary files that it has to itself."""
    (tmp_path / "temporary").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "bullpen", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def agents_when(run: subprocess.Popen[str], until: str, temporary: Path) -> list[AgentFacts]:
    """The agents at the moment when a line says that something happened."""
    assert run.stdout is not None
    said: list[str] = []
    for line in run.stdout:
        said.append(line)
        if until in line:
            (folder,) = temporary.iterdir()
            return anyio.run(agents_of, folder / "home")
    raise AssertionError("".join(said))


def still_there(agents: list[AgentFacts]) -> list[str]:
    """What is left of agents: processes, and panes on whatever server they were."""
    left = []
    for agent in agents:
        place = agent.process
        assert place is not None
        assert place.server is not None
        if processes.runs(place) or processes.carriers(agent.nonce):
            left.append(f"process {place.pid}")
        shown = subprocess.run(
            ["tmux", "-S", place.server, "list-panes", "-a", "-F", "#{@bullpen_nonce}"],
            capture_output=True,
            text=True,
        )
        if agent.nonce in shown.stdout.split():
            left.append(f"pane {place.pane}")
    return left


def test_the_command_succeeds_and_leaves_nothing_behind(tmp_path: Path, panes: Panes) -> None:
    with started(tmp_path) as run:
        agents = agents_when(run, "cy took task", tmp_path / "temporary")
        said, _ = run.communicate(timeout=LONGEST_S)
    assert run.returncode == 0, said
    assert len(agents) == 4
    assert still_there(agents) == []
    assert not panes.is_there()
    assert list((tmp_path / "temporary").iterdir()) == []
    assert "What the team made:" in said
    assert "ben: Test the command line" in said


def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, panes: Panes) -> None:
    with started(tmp_path) as run:
        agents = agents_when(run, "ben took task", tmp_path / "temporary")
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=LONGEST_S)
    assert run.returncode == 130, said
    assert len(agents) == 4
    assert still_there(agents) == []
    assert not panes.is_there()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="git is not installed") as caught:
        demo.prepare(tmp_path / "project")
    assert "Install git" in caught.value.remedy


def test_a_git_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\necho no room >&2\nexit 1\n", encoding="utf-8")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(Unavailable, match=r"`git init .*` failed with 1 in .*: no room"):
        demo.prepare(tmp_path / "project")
