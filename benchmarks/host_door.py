"""Measure what an agent's call costs through the socket of its host: sending, and claiming a task.

    python benchmarks/host_door.py [--calls N] [--before PATH_TO_SRC_OF_ANOTHER_COMMIT]

Each side is two processes: a host over a store of files without fsync, and an agent. With --before,
both commits take turns in one run, so that noise affects them equally.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SRC = Path(__file__).parents[1] / "src"
TARGET = 1.2


async def host(folder: Path) -> None:
    """Serve a team with two agents until the end of the input."""
    from bullpen.protocol.agent import AgentSpec, ProcessRecord
    from bullpen.protocol.names import LEAD
    from bullpen.store.files.store import FileStore
    from bullpen.store.hosted.server import HostServer
    from bullpen.store.hosted.tokens import TokenIdentity
    from bullpen.team.team import Teams

    store = FileStore(folder / "home", fsync=False)
    more: dict[str, Any] = {}
    try:
        from bullpen.fleet.host.agent_operations import AgentOperations

        async def anything(*_: object) -> None: ...

        more["operate"] = AgentOperations(store, judge=anything, place=anything)
    except ImportError:
        pass  # The commit before.
    await Teams(store).create("alpha")
    team = Teams(store).open("alpha")
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/")
    place = ProcessRecord.new(backend="subprocess", host="here", pid=1, start="1")
    for name in ("ann", "bob"):
        await team.agents.register(name, spec, by=LEAD, nonce=f"nonce-{name}")
        await team.agents.ready(name, nonce=f"nonce-{name}", place=place)
    for number in range(20):
        await team.tasks.add(f"Task {number}", by=LEAD)
    tokens = {"ann": TokenIdentity("alpha", "ann")}
    async with HostServer(store, str(folder / "d" / "s"), tokens.get, **more):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    await store.aclose()


async def agent(folder: Path) -> None:
    """Time one call for each line of the input: send or claim."""
    from bullpen.store.hosted.client import HostedStore
    from bullpen.team.team import Team

    store = HostedStore(str(folder / "d" / "s"), "ann")
    team = Team(store, "alpha")
    while True:
        line = (await asyncio.to_thread(sys.stdin.readline)).strip()
        if not line:
            break
        begin = time.perf_counter()
        if line == "send":
            sent = await team.mailbox.send("bob", "Hello.", sender="ann")
            took = time.perf_counter() - begin
            assert sent.id
        else:
            await team.tasks.claim("1", by="ann")
            took = time.perf_counter() - begin
            await team.tasks.release("1", by="ann")
        print(took, flush=True)
    await store.aclose()


class Side:
    """A host and an agent of one commit."""

    def __init__(self, src: Path, folder: Path) -> None:
        folder.mkdir()
        self._host = self._started(src, "host", folder)
        assert self._host.stdout is not None
        assert self._host.stdout.readline() == "ready\n"
        self._agent = self._started(src, "agent", folder)

    @staticmethod
    def _started(src: Path, part: str, folder: Path) -> subprocess.Popen[str]:
        argv = [sys.executable, __file__, "--part", part, "--folder", str(folder)]
        env = {**os.environ, "PYTHONPATH": str(src)}
        return subprocess.Popen(
            argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def time(self, call: str) -> float:
        """The milliseconds of one call."""
        assert self._agent.stdin is not None and self._agent.stdout is not None
        self._agent.stdin.write(f"{call}\n")
        self._agent.stdin.flush()
        return float(self._agent.stdout.readline()) * 1000

    def end(self) -> None:
        """End both processes."""
        for process in (self._agent, self._host):
            process.communicate(timeout=30)


def measure(sides: dict[str, Side], calls: int) -> dict[str, dict[str, dict[str, float]]]:
    """The best and the median of each call on each side, in turns."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for call in ("send", "claim"):
        times: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(-20, calls):
            for name, side in sides.items():
                took = side.time(call)
                if number >= 0:
                    times[name].append(took)
        found[call] = {
            name: {"best_ms": min(each), "median_ms": statistics.median(each)}
            for name, each in times.items()
        }
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--calls", type=int, default=500)
    options.add_argument("--before", type=Path)
    options.add_argument("--json", action="store_true")
    options.add_argument("--part", choices=["host", "agent"], help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part is not None:
        asyncio.run((host if given.part == "host" else agent)(given.folder))
        return
    with tempfile.TemporaryDirectory(prefix="bp-") as folder:
        sources = {"now": SRC} if given.before is None else {"before": given.before, "now": SRC}
        sides = {name: Side(src, Path(folder) / name) for name, src in sources.items()}
        found = measure(sides, given.calls)
        for side in sides.values():
            side.end()
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for call, by_side in found.items():
        for name, row in by_side.items():
            best, median = row["best_ms"], row["median_ms"]
            print(f"{call:6} {name:7} best {best:.2f} ms, median {median:.2f} ms")
        if "before" in by_side:
            now, before = by_side["now"], by_side["before"]
            ratios = [now[key] / before[key] for key in ("best_ms", "median_ms")]
            print(
                f"{call:6} ratio   best {ratios[0]:.2f}, median {ratios[1]:.2f} (at most {TARGET})"
            )


if __name__ == "__main__":
    main()
