"""What the models of the native members think, and how much their server billed."""

from __future__ import annotations

import re
import shlex
import sys
import threading
import time
from pathlib import Path

from bullpen.testing.models import Call, Fault, ModelRequest, Reply, Result

WORK = Path(__file__).with_name("work.py")
STUBBORN = "mule"
"""The member whose model calls everything done and does nothing."""

YOURS = re.compile(r"claimed task: #(\d+)|Task #(\d+)[^.]* is still yours")
TRIES = 3


class Brains:
    """Models that do a task, try again what was refused, and at last say that they cannot."""

    def __init__(self, plan: Path) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._storm_until = 0.0
        self.refused = 0

    def storm(self, seconds: float) -> None:
        """Answer "too many requests" for so long."""
        with self._lock:
            self._storm_until = time.monotonic() + seconds

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        with self._lock:
            if time.monotonic() < self._storm_until:
                self.refused += 1
                return Fault.rate_limited(0.3)
        task_id, made = _since_claim(request)
        if task_id is None:
            return Reply("I wait.")
        done = [(call, result) for call, result in made if call.name == "TaskUpdate"]
        if done and not done[-1][1].error:
            return Reply("It is done.")
        if request.agent == STUBBORN:
            return Reply("Done!", (_complete(task_id),), delay_s=0.4)
        if len(done) >= TRIES:
            return Reply("I cannot do it.")
        if made and made[-1][0].name == "Bash":
            return Reply("", (_complete(task_id),))
        words = [sys.executable, "-I", "-S", str(WORK), str(self._plan), task_id]
        call = Call("Bash", {"command": shlex.join(words)})
        return Reply("I work.", (call,), delay_s=0.5 if done else 0.0)


def _complete(task_id: str) -> Call:
    return Call("TaskUpdate", {"taskId": task_id, "status": "completed"})


def _since_claim(request: ModelRequest) -> tuple[str | None, list[tuple[Call, Result]]]:
    """The task that it was given last, and what it called since, with what came of it."""
    task_id: str | None = None
    calls: list[Call] = []
    results: dict[str, Result] = {}
    ended = False
    for turn in request.turns:
        found = YOURS.findall(turn.text) if turn.role == "user" else []
        if found:
            task_id, calls, ended = found[-1][0] or found[-1][1], [], False
        calls += turn.calls
        results |= {result.id: result for result in turn.results}
        if turn.role == "assistant":
            ended = not turn.calls
    made = [(call, results[call.id]) for call in calls if call.id in results]
    # What it said last without a call was the end of that task for it.
    return (None, []) if ended else (task_id, made)
