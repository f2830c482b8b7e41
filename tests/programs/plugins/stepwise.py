"""A program without a terminal, and a model that answers step by step."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from bullpen.testing.models import Call, ModelRequest, Reply
from programs.real_programs import Placed
from support.doors.people import DEADLINE_S

CONNECTING_S = 0.5

Step = Reply | Callable[[], Reply]


class Steps:
    """A model that plays its steps one after another, and keeps what it was told.

    A call is repeated until the program has the tool: it may still be connecting to the server.
    """

    def __init__(self, *steps: Step) -> None:
        self._steps = steps
        self._played = 0
        self.told: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        if not request.tools:
            return Reply("A title")
        self.told.append(request.given)
        if self._played == len(self._steps):
            return Reply("Over.")
        step = self._steps[self._played]
        reply = step if isinstance(step, Reply) else step()
        if all(call.name in request.tools for call in reply.calls):
            self._played += 1
            return Reply(reply.text, [Call(call.name, call.input) for call in reply.calls])
        return Reply(
            "", [Call(call.name, call.input) for call in reply.calls], delay_s=CONNECTING_S
        )


def run(found: Placed, cwd: Path, *words: str, **env: str) -> str:
    """What the program prints."""
    done = subprocess.run(
        [*found.argv, *words],
        env={**found.env, **env},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
