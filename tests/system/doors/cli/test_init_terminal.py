"""`bullpen init` at a real terminal: a person types, in a tmux of their own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.runs.teamfile.read import read_team_file
from support.doors.real_terminal import piped_to, until_shown

DEADLINE_S = 40.0

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Screen:
    """A terminal in which a command runs."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self._folder, self._socket = folder, socket
        self._output = socket.with_suffix(".output")

    def start(self, words: str, **env: str) -> None:
        """Run `bullpen WORDS`, and say afterwards how it ended."""
        settings = {"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "LANG": "C.UTF-8", **env}
        # Ctrl-C is for the command, and the shell goes on.
        line = (
            f"trap : INT; {shlex.quote(sys.executable)} -m bullpen {words};"
            " echo ended with $?; exec sleep 99"
        )
        given = [f"{name}={value}" for name, value in settings.items()]
        size = ("-x", "100", "-y", "60")
        inside = ["env", "-i", "TERM=screen", *given, "sh", "-c", line]
        self._tmux("new-session", "-d", *size, "-c", str(self._folder), "--", *inside, ";",
                   *piped_to(self._output))  # fmt: skip

    def type(self, *keys: str) -> None:
        """Press keys."""
        self._tmux("send-keys", *keys)

    def until(self, telling: str) -> str:
        """What the screen shows once it shows this."""

        def tells(shown: str) -> bool:
            return re.search(telling, shown) is not None

        tells.__qualname__ = telling
        return until_shown(self._shown, self._output, tells, within_s=DEADLINE_S)

    def _shown(self) -> str:
        return self._tmux("capture-pane", "-p")

    def answer(self, question: str, answer: str = "") -> None:
        """Answer a question when it is there; Enter alone takes what is offered."""
        self.until(rf"(?s){question}.*\] > ?\s*$")
        self.type(*([answer] if answer else []), "Enter")

    def close(self) -> None:
        """End it."""
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), "-f", os.devnull, *words],
            capture_output=True, text=True, timeout=30, check=True,
        ).stdout  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository with tests."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "Makefile").write_text("test:\n\ttrue\n", encoding="utf-8")
    config = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for words in (("init", "-qb", "trunk"), ("add", "."), (*config, "commit", "-qm", "Begin")):
        subprocess.run(["git", "-C", str(folder), *words], check=True, timeout=30)
    return folder


@pytest.fixture
def screen(project: Path) -> Iterator[Screen]:
    """A terminal in the project."""
    # Short: the path of a socket has room for some 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="bp-", dir="/tmp"))
    opened = Screen(project, folder / "s")
    try:
        yield opened
    finally:
        opened.close()
        shutil.rmtree(folder)


def test_enter_all_the_way_makes_a_team_that_works_without_a_key(
    screen: Screen, project: Path
) -> None:
    screen.start("init")
    screen.answer("Which workflow")
    screen.answer("How many readers")
    screen.answer("Which command runs the tests")
    shown = screen.until("ended with 0")
    assert "branch trunk, everything is committed" in shown
    assert "none set (ANTHROPIC_API_KEY, OPENAI_API_KEY)" in shown
    assert "npm install" in shown, "it says what to get"
    assert "Checked: the team can start." in shown
    assert {member.driver for member in read_team_file(project / "TEAM.toml").members} == {
        "scripted"
    }


def test_what_is_typed_is_in_the_file(screen: Screen, project: Path) -> None:
    screen.start("init", ANTHROPIC_API_KEY="sk-not-a-key")
    screen.answer("Which workflow", "reviw")
    screen.until("did you mean 'review'")
    screen.answer("Which workflow", "2")
    screen.answer("Which agent program", "native")
    screen.answer("How many workers", "99")
    screen.until("not a number from 1 to 12")
    screen.answer("How many workers", "2")
    screen.answer("Which command runs the tests", "make check")
    screen.answer("how many US dollars", "3.50")
    shown = screen.until("ended with 0")
    file = read_team_file(project / "TEAM.toml")
    assert [member.name for member in file.teammates] == ["worker-1", "worker-2"]
    assert {member.driver for member in file.teammates} == {"native"}
    assert file.merge is not None
    assert file.merge.gate == ["make check"]
    assert file.budget.usd == 3.5
    assert "Not tested yet: the key." in shown
    assert "sk-not-a-key" not in shown


def test_the_goal_of_a_lead_is_asked_for(screen: Screen, project: Path) -> None:
    screen.start("init --members 2 --tests - --budget-usd 1", ANTHROPIC_API_KEY="sk-not-a-key")
    screen.answer("Which workflow", "debug")
    screen.answer("Which agent program", "native")
    screen.answer("What is the bug", "The total is 8 instead of 7.")
    shown = screen.until("ended with 0")
    assert "SYMPTOM: The total is 8 instead of 7." in (project / "TEAM.toml").read_text("utf-8")
    assert "EDITOR" not in shown


@pytest.mark.parametrize("keys", ["C-c", "C-d"])
def test_leaving_writes_nothing(screen: Screen, project: Path, keys: str) -> None:
    screen.start("init new")
    screen.answer("Which workflow", "backlog")
    screen.until("How many workers")
    screen.type(keys)
    screen.until("ended with [1-9]")
    assert sorted(path.name for path in project.iterdir()) == [".git", "Makefile"]


def test_files_that_are_there_are_asked_about(screen: Screen, project: Path) -> None:
    (project / "TEAM.toml").write_text("mine", encoding="utf-8")
    screen.start("init --members 1 --tests -")
    screen.answer("Which workflow")
    shown = screen.until(r"Overwrite\? \[y/N\]")
    assert "TEAM.toml" in shown
    screen.type("Enter")
    assert "bullpen init DIR" in screen.until("ended with 2")
    assert (project / "TEAM.toml").read_text(encoding="utf-8") == "mine"
    assert not (project / "roles").exists()
