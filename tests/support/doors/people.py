"""Somebody who connects programs to a team."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BULLPEN = Path(sys.executable).with_name("bullpen")

DEADLINE_S = 120


@dataclass(frozen=True)
class Person:
    """Somebody with a home and a project, who runs the real command there."""

    home: Path
    project: Path
    env: dict[str, str]

    def bullpen(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `bullpen` in the project, without a terminal."""
        return subprocess.run(
            [str(BULLPEN), *words],
            env={**self.env, **env},
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def said(self, *words: str, **env: str) -> str:
        """What `bullpen` says when it succeeds."""
        done = self.bullpen(*words, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


Install = Callable[..., str]
"""Connects a program as carol of team alpha; what was said."""
