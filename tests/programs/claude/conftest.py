"""A real Claude Code that leads, and our own members beside it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from programs.joined import Joined, ours
from programs.real_lead import NEWEST, RealLead, real_lead
from programs.real_programs import program


@pytest.fixture
def lead(tmp_path: Path) -> Iterator[RealLead]:
    """A lead of the newest version, not started yet."""
    with real_lead(tmp_path, program(f"claude-code-{NEWEST}").argv) as lead:
        yield lead


@pytest.fixture
def join(lead: RealLead) -> Iterator[Callable[..., Joined]]:
    """Have members of ours join the lead's team; nothing of them is left at the end."""
    started: list[Joined] = []

    def start(name: str, *words: str, env: Mapping[str, str] | None = None) -> Joined:
        started.append(Joined(lead, name, *words, env=env))
        return started[-1]

    yield start
    for joined in started:
        joined.process.kill()
        joined.process.wait()
    for pid in ours(lead):
        os.kill(pid, signal.SIGKILL)
