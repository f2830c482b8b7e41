"""Measure what the sandbox adds to the cost of a command.

    python benchmarks/sandbox.py --calls 40

Each kind is started in turn, so that all see the same machine: the command itself, bare bubblewrap
around it, the sandbox of an agent, and the sandbox with a network. CPU time is of this process and
its children.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from bullpen.agents.system.run_command import shell, started
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.testing.desks import RecordingDesk

_BARE = ("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev")
_COMMAND = shell("true")


async def _plain(words: list[str]) -> None:
    async with await anyio.open_process(words, stdin=subprocess.DEVNULL) as process:
        await process.wait()


async def _call(desk: RecordingDesk) -> None:
    async with started(_COMMAND, desk, lambda chunk: None) as command:
        assert await command.finished() == 0


def _desk(folder: Path, sandbox: Sandbox | None) -> RecordingDesk:
    policy = Policy.new(sandbox=None if sandbox is None else sandbox.raw)
    spec = AgentSpec.new(
        driver="scripted", backend="in-process", cwd=str(folder / "tree"), policy=policy.raw
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    return RecordingDesk(None, "ann", folder, spec, env=env)  # type: ignore[arg-type]


def _cpu_ms() -> float:
    both = map(resource.getrusage, (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    return sum(used.ru_utime + used.ru_stime for used in both) * 1e3


async def measure(calls: int) -> None:
    """Print the best and the median time and the mean CPU time of each kind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("tree/.git/hooks", "home"):
            (folder / each).mkdir(parents=True)
        (folder / "tree/.git/config").touch()
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "command alone": lambda: _plain(_COMMAND),
            "bare bubblewrap": lambda: _plain([*_BARE, "--", *_COMMAND]),
            "call without a sandbox": lambda: _call(_desk(folder, None)),
            "call in the sandbox": lambda: _call(_desk(folder, Sandbox.new())),
            "call with hosts": lambda: _call(_desk(folder, Sandbox.new(hosts=["a.org"]))),
        }
        took: dict[str, list[float]] = {kind: [] for kind in kinds}
        cpu = dict.fromkeys(kinds, 0.0)
        for number in range(calls + 1):
            for kind, act in kinds.items():
                used, begun = _cpu_ms(), time.perf_counter()
                await act()
                if number:
                    # The first one is cold.
                    took[kind].append((time.perf_counter() - begun) * 1e3)
                    cpu[kind] += _cpu_ms() - used
    for kind, times in took.items():
        said = f"{min(times):6.1f} ms at best {statistics.median(times):7.1f} ms median"
        print(f"{kind:24} {said} {cpu[kind] / calls:7.1f} ms CPU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=40)
    anyio.run(measure, parser.parse_args().calls)
