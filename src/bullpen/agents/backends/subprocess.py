"""The subprocess backend: agents in their own processes, which outlive their starter."""

from __future__ import annotations

import os
import subprocess

from anyio import to_thread

from bullpen.agents.backends import output_log
from bullpen.agents.backends.handover import cannot_start
from bullpen.agents.backends.warm_start.starter import WarmStart
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.system import process_owners, processes
from bullpen.protocol.agent import ProcessRecord


class Detached:
    """Starts each agent as the leader of its own session; its output goes to its log.

    With a `warm` start, agents are forked from a process that has imported what they need.
    """

    name = "subprocess"

    def __init__(self, warm: WarmStart | None = None) -> None:
        self._warm = warm
        self._started: dict[str, ProcessRecord] = {}
        self._unreaped: set[int] = set()

    async def check(self) -> None:
        """Nothing to check: processes can be started everywhere."""

    async def start(self, launch: Launch) -> ProcessRecord:
        """Start the program. Raises Unavailable."""
        # Not abandoned when cancelled: it must not leave a process that nobody knows.
        return await to_thread.run_sync(self._start, launch)

    def _start(self, launch: Launch) -> ProcessRecord:
        pid = None if self._warm is None else self._warm.start(launch)
        if pid is None:
            pid = self._start_cold(launch)
        place = ProcessRecord.new(
            backend=self.name,
            host=processes.host_name(),
            pid=pid,
            start=processes.start_of(pid),
            group=pid,
            log=launch.log,
        )
        self._started[launch.nonce] = place
        return place

    def _start_cold(self, launch: Launch) -> int:
        """Start a new process, whatever its program is. Raises Unavailable."""
        try:
            log = output_log.open_log(launch.log)
            try:
                # A list of words: no shell is involved.
                child = subprocess.Popen(  # noqa: S603
                    launch.argv,
                    cwd=launch.cwd,
                    env=launch.env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    close_fds=True,
                    start_new_session=True,
                )
            finally:
                os.close(log)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise cannot_start(launch, error) from None
        process_owners.record(child.pid, launch.nonce)
        self._unreaped.add(child.pid)
        # It is reaped by its pid, so that it may outlive this object without a warning.
        child.returncode = 0
        return child.pid

    async def alive(self, place: ProcessRecord) -> bool:
        """Whether the process or any process of its group is running."""
        runs = await to_thread.run_sync(processes.runs, place)
        if not runs:
            self._reap(place)
        return runs

    def _reap(self, place: ProcessRecord) -> None:
        """Reap a child that has ended.

        Only after its group is gone: until then, no other process can get its pid.
        """
        if place.pid in self._unreaped:
            try:
                ended, _ = os.waitpid(place.pid, os.WNOHANG)
            except ChildProcessError:
                ended = place.pid
            if ended:
                self._unreaped.discard(place.pid)

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        """Stop the process, its group, and all that carry the nonce. Raises Unavailable."""
        # Check the host first: for an agent on another host, nothing here may be touched.
        await self.alive(place)
        await processes.end(place.pid, place.start, place.group, nonce, grace_s)
        self._reap(place)
        self._started.pop(nonce, None)

    async def screen(self, place: ProcessRecord) -> str:
        return await to_thread.run_sync(output_log.tail, place.log)

    def attach(self, place: ProcessRecord) -> list[str] | None:
        """Nothing to attach to: there is only the log."""
        return None

    async def places(self) -> dict[str, ProcessRecord]:
        """The agents that this object started and that are still running.

        Agents that another process started are found by their nonces, not here.
        """
        started = list(self._started.items())
        return {nonce: place for nonce, place in started if await self.alive(place)}

    async def aclose(self) -> None:
        """Reap ended agents; the others keep running."""
        for place in list(self._started.values()):
            self._reap(place)
        self._started.clear()
        if self._warm is not None:
            self._warm.reap()
