"""Runs that are recorded on tapes, and replayed: a small project, and a model that is scripted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.tapes.files import read_tape
from bullpen.agents.tapes.format import Tape
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.protocol.names import LEAD
from bullpen.runs.goal import Goal, pursue
from bullpen.runs.tapes.recording import TapeRequest
from bullpen.runs.tapes.replay import Replayed, ReplayRequest, replay
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.up import StartRequest, follow
from bullpen.runs.watch.outcome import Outcome
from bullpen.testing.models import MockModels, ModelRequest, Playbook
from bullpen.testing.models.shapes import Fault, Reply

KEY = "sk-ant-api03-" + "n0t4r3a1k3y" * 6
LONGEST_S = 240.0

Brain = Callable[[ModelRequest], Reply | Fault]


@dataclass(frozen=True)
class Taping:
    """A project in a folder, where runs are recorded and replayed."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def tape(self) -> Path:
        return self.folder / "run.tape"

    def make(self, files: Mapping[str, str]) -> None:
        """Create the project, a git repository with one commit."""
        for name, text in files.items():
            file = self.project / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("config", "user.name", "Una")
        self._git("config", "user.email", "una@example.org")
        self.commit()

    def commit(self) -> None:
        """Commit what is in the project."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "-m", "Change")

    def _git(self, *words: str) -> None:
        git = ("git", "-C", str(self.project), *words)
        subprocess.run(git, check=True, capture_output=True)

    def environ(self, models: MockModels | None = None) -> dict[str, str]:
        """An environment with the key of the mock, or without any."""
        keys = (
            {} if models is None else {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": models.url}
        )
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "BULLPEN_WARM_START": "off",
            **keys,
        }

    async def record(
        self, brain: Brain | Playbook, goal: str = "Do it", *, lead: SpawnRequest | None = None
    ) -> Outcome:
        """Run a goal and record it."""
        with MockModels(brain) as models:
            environ = self.environ(models)
            spawn = lead or SpawnRequest(cwd=str(self.project), backend="in-process")
            tape = TapeRequest(self.tape, environ)
            wanted = Goal(goal, spawn, team="taped", attended=False, timeout_s=LONGEST_S, tape=tape)
            async with App(self._settings(), environ) as app:
                return await pursue(app, wanted)

    async def record_file(self, brain: Brain | Playbook, file: Path) -> Outcome:
        """Bring a team up from its file and record it."""
        with MockModels(brain) as models:
            environ = self.environ(models)
            tape = TapeRequest(self.tape, environ)
            read = read_team_file(file)
            wanted = StartRequest(
                read, str(self.project), attended=False, timeout_s=LONGEST_S, tape=tape
            )
            async with App(self._settings(), environ) as app:
                return await follow(app, wanted)

    async def replay(
        self,
        tape: Path | None = None,
        *,
        team_file: Path | None = None,
        trust: bool = True,
        timeout_s: float = LONGEST_S,
    ) -> Replayed:
        """Replay a tape; by default the one that was recorded."""
        request = ReplayRequest(tape or self.tape, self.project, self.environ(), trust=trust)
        return await replay(replace(request, team_file=team_file, timeout_s=timeout_s))

    def taped(self) -> Tape:
        """What is on the tape that was recorded."""
        return read_tape(self.tape)

    def _settings(self) -> Settings:
        return Settings(home=self.folder / "home", team=None, agent=LEAD)


def told(replayed: Replayed) -> str:
    """Where a replay left its tape, for the report of a test."""
    left = replayed.departure
    return "" if left is None else "\n".join([left.sentence, *left.lines])
