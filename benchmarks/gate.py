"""Measure what the gate adds to the cost of a tool call.

    python benchmarks/gate.py --calls 200 --tasks 100

Each call is made twice in turn: through a desk that permits everything at once, and through the
desk of a real runner on a team in files, which reads the agent's record from the store, checks its
rules and paths, and (for calls that change something) earlier denials. The difference is the cost
of the policy; a model request takes seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.system.transcript import Transcript
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team, Teams
from bullpen.testing.desks import RecordingDesk

_RULES = [f"Bash(tool-{number}:*)" for number in range(50)]
_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Read a small file": ("Read", {"file_path": "small.txt"}),
    "Write a small file": ("Write", {"file_path": "new.txt", "content": "x\n"}),
    "Bash true, behind 50 rules": ("Bash", {"command": "true && true"}),
}


def _spec(folder: Path) -> AgentSpec:
    policy = Policy.new(allow=[*_RULES, "Bash(true)"], deny=["Read(.env)", "Bash(rm:*)"])
    return AgentSpec.new(
        driver="scripted",
        backend="in-process",
        cwd=str(folder),
        mode="acceptEdits",
        policy=policy.raw,
    )


async def _desks(team: Team, folder: Path, home: Path) -> dict[str, Desk]:
    spec = _spec(folder)
    nonce = "benchmark"
    await team.agents.register("ann", spec, by=LEAD, nonce=nonce)
    env: Mapping[str, str] = {"PATH": os.environ["PATH"], "BULLPEN_HOME": str(home), "HOME": "/"}
    own = home / "agents" / "ann"
    own.mkdir(parents=True)
    gated = RunnerDesk(
        team,
        "ann",
        spec,
        nonce=nonce,
        folder=own,
        env=env,
        transcript=Transcript(own),
        colleagues=None,
        now=now_ms,
    )
    gated.planning.mode = "acceptEdits"
    return {"bare": RecordingDesk(team, "ann", own, spec, env=env), "gated": gated}


async def _timed(desk: Desk, tool: str, raw: dict[str, Any]) -> float:
    begun = time.perf_counter()
    text, failed = await call(toolbox(desk), tool, raw, desk)
    took = time.perf_counter() - begun
    if failed:
        raise SystemExit(f"{tool} failed: {text}")
    return took * 1000


def _prepare(folder: Path) -> None:
    folder.mkdir()
    (folder / "small.txt").write_text("hello\n" * 20)


async def _measure(calls: int, tasks: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bullpen-gate-") as place:
        folder, home = Path(place, "project"), Path(place, "home")
        _prepare(folder)
        async with Teams(FileStore(home)) as teams:
            await teams.create("alpha", cwd=str(folder))
            team = teams.open("alpha")
            await team.tasks.add_many([Draft(f"Task {each}") for each in range(tasks)], by=LEAD)
            desks = await _desks(team, folder, home)
            print(f"{calls} calls each, {tasks} tasks in the team, milliseconds p50 / p99")
            for title, (tool, raw) in _CALLS.items():
                took: dict[str, list[float]] = {name: [] for name in desks}
                for _ in range(calls):
                    for name, desk in desks.items():
                        (folder / "new.txt").unlink(missing_ok=True)
                        took[name].append(await _timed(desk, tool, raw))
                bare, gated = (statistics.quantiles(took[name], n=100) for name in desks)
                print(
                    f"{title:<28} bare {bare[49]:6.2f} / {bare[98]:6.2f}"
                    f"   gated {gated[49]:6.2f} / {gated[98]:6.2f}"
                    f"   more {gated[49] - bare[49]:6.2f}"
                )


def main() -> None:
    """Measure, and print one line per kind of call."""
    parser = argparse.ArgumentParser(
        description="Measure what the gate adds to the cost of a tool call."
    )
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=100)
    given = parser.parse_args()
    anyio.run(_measure, given.calls, given.tasks)


if __name__ == "__main__":
    main()
