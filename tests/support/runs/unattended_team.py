"""Teams without a lead for tests: a real repository, a team file, scripts, a home of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.up import StartRequest, bring_up
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.runs.watch.until import DONE, Until
from bullpen.team.team import Team
from support.agents.warm_session import warm_user

TEAM = "night"

WORKS = """
[[agents.{name}.turns]]
when = "task"
repeat = true
steps = [
  {{tool = "Bash", input = {{command = "echo {{agent}} > done-{{task}}.txt"}}}},
  {{usage = {{input_tokens = 100, output_tokens = 10, cost_usd = 0.01}}}},
  {{tool = "TaskUpdate", input = {{taskId = "{{task}}", status = "completed"}}}},
  {{say = "It is done."}},
]
[[agents.{name}.turns]]
repeat = true
steps = [{{say = "Nothing."}}]
"""
"""A script of one member that does each task it gets: a file of its own, then completed."""

HEADS = """
[team]
name = "night"
[workspace]
kind = "worktree"
[merge]
gate = ["test ! -e broken.txt"]
"""

Environment = Mapping[str, str]


def git_environment() -> dict[str, str]:
    """An environment in which nobody's own settings of git count."""
    who = {"NAME": "u", "EMAIL": "u@example.invalid"}
    people = {
        f"GIT_{role}_{key}": val for role in ("AUTHOR", "COMMITTER") for key, val in who.items()
    }
    return {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", **people}


@dataclass
class Night:
    """A folder with a repository, a team file and a home; what happened in it."""

    folder: Path
    news: list[str] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def file(self) -> Path:
        return self.folder / "TEAM.toml"

    @property
    def settings(self) -> Settings:
        return Settings(home=self.folder / "home", team=None, agent=LEAD)

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.project, capture_output=True, text=True, timeout=60,
            check=True, env={**os.environ, **git_environment()},
        )  # fmt: skip
        return done.stdout

    def make_repository(self) -> None:
        self.project.mkdir()
        self.git("init", "--quiet", "--initial-branch=main", ".")
        (self.project / "README").write_text("A project.\n", "utf-8")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message=begin")

    def write(
        self,
        tasks: str,
        *,
        members: Sequence[str] = ("ann", "bob"),
        backend: str = "in-process",
        heads: str = HEADS,
        more: str = "",
        script: str | None = None,
    ) -> None:
        """Write the team file, and a script for all members."""
        table = 'driver = "scripted"\nscript = "script.toml"\nmode = "bypassPermissions"\n'
        rows = "".join(
            f'[[member]]\nname = "{name}"\nbackend = "{backend}"\n{table}' for name in members
        )
        self.file.write_text(f"{heads}{more}{rows}{tasks}", "utf-8")
        text = "".join(WORKS.format(name=name) for name in members) if script is None else script
        (self.folder / "script.toml").write_text(text, "utf-8")

    def request(self, *, until: Until = DONE, timeout_s: float = 60.0) -> StartRequest:
        return StartRequest(
            read_team_file(self.file),
            str(self.project),
            attended=False,
            timeout_s=timeout_s,
            until=until,
        )

    def watch(self, progress: Progress) -> None:
        self.news += progress.news
        self.progress.append(progress)

    async def up(self, *, until: Until = DONE, timeout_s: float = 60.0) -> Outcome:
        return await bring_up(
            self.file,
            cwd=str(self.project),
            attended=False,
            timeout_s=timeout_s,
            until=until,
            settings=self.settings,
            watch=self.watch,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[App, Team]]:
        async with App(self.settings, os.environ) as app:
            yield app, app.teams.open(TEAM)

    async def ops(self) -> list[str]:
        async with self.opened() as (_, team):
            return [event.op for event in await team.events()]

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start a command without a terminal: a session of its own, nothing to read from."""
        return subprocess.Popen(
            [sys.executable, "-m", "bullpen", *words],
            cwd=self.project,
            env={
                **{key: val for key, val in os.environ.items() if not key.startswith("BULLPEN_")},
                **git_environment(),
                **warm_user(),
                "BULLPEN_HOME": str(self.folder / "home"),
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def typed(self, *words: str, seconds: float = 90.0, **env: str) -> tuple[int, str, str]:
        """Type a command and wait for its end: its code, what it printed, what it complained."""
        process = self.start(*words, **env)
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
            process.wait()
        return process.returncode, out, err


def tasks(*subjects: str, more: Mapping[str, str] | None = None) -> str:
    """Tables of tasks with these subjects; their ids are t1, t2 and so on."""
    return "".join(
        f'[[task]]\nid = "t{number}"\nsubject = "{subject}"\n{(more or {}).get(subject, "")}'
        for number, subject in enumerate(subjects, 1)
    )
