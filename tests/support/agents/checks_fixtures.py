"""Teams whose tasks state what proves them done."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from bullpen.agents.work.checks import look
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.task import Check, Task
from support.crew_fixtures import crew, place

__all__ = ["crew", "place"]
_AUTHOR = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")


def plain(text: str) -> str:
    return text


@dataclass
class Project:
    """A directory in which checks are made, and making them there."""

    path: Path

    @property
    def spec(self) -> AgentSpec:
        return AgentSpec.new(driver="none", backend="none", cwd=str(self.path))

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "COLOUR": "green"}

    def git(self, *words: str, when: str | None = None) -> str:
        """Run git here, as somebody, perhaps at another time."""
        env = {**self.env, **({"GIT_COMMITTER_DATE": when} if when else {})}
        done = subprocess.run(
            ["git", *_AUTHOR, *words],
            cwd=self.path,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, message: str = "Work", *, when: str | None = None) -> str:
        """Make a commit; its id."""
        if not (self.path / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main")
        self.git("commit", "--quiet", "--allow-empty", "-m", message, when=when)
        return self.git("rev-parse", "HEAD")

    async def found(
        self, check: Check, *, report: str | None = None, claimed_ms: int | None = None
    ) -> tuple[bool, str]:
        """Whether a check passes here, and what it says."""
        task = Task.new(id="1", subject="s", description="").with_facts(
            attempt=1, claimed_ms=claimed_ms, checks=[check.raw]
        )
        result = await look(self, task, check, report=report, redact=plain)
        assert result.passed is not None
        return result.passed, result.detail or ""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    path = tmp_path / "project"
    path.mkdir(exist_ok=True)
    return Project(path)
