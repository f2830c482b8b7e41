"""Agents in processes of their own, without a terminal, that outlive the one who started them."""

from __future__ import annotations

import os
import subprocess

from anyio import to_thread

from bullpen.agents import processes
from bullpen.agents.backends import logs
from bullpen.agents.backends.base import Launch
from bullpen.agents.backends.handover import cannot_start
from bullpen.protocol.agent import ProcessRecord


class Detached:
    """Starts each agent as the leader of a session of its own; what it prints goes to its log."""

    def __init__(self) -> None:
        self._started: dict[str, ProcessRecord] = {}
        self._unreaped: set[int] = set()

    @property
    def name(self) -> str:
        """What people call it."""
        return "subprocess"

    async def check(self) -> None:
        """Processes can be started everywhere."""

    async def start(self, launch: Launch) -> ProcessRecord:
        """Start the program.

        Raises:
            Unavailable: there is no such program or directory, or the system refused.
        """
        # Not given up when cancelled: a process that nobody knows of must not come out of it.
        return await to_thread.run_sync(self._start, launch)

    def _start(self, launch: Launch) -> ProcessRecord:
        try:
            log = logs.open_log(launch.log)
            try:
                # Words, never a line: no shell is involved.
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
        self._unreaped.add(child.pid)
        # It is waited for by its pid alone, so that it may outlive this object without a warning.
        child.returncode = 0
        place = ProcessRecord.new(
            backend=self.name,
            host=processes.host_name(),
            pid=child.pid,
            start=processes.start_of(child.pid),
            group=child.pid,
            log=launch.log,
        )
        self._started[launch.nonce] = place
        return place

    async def alive(self, place: ProcessRecord) -> bool:
        """Whether the process or any of its group still runs."""
        runs = await to_thread.run_sync(processes.runs, place)
        if not runs:
            self._reap(place)
        return runs

    def _reap(self, place: ProcessRecord) -> None:
        """Let the system forget an ended child of ours.

        Only once its group is gone: as long as it is there, nobody else can get its number.
        """
        if place.pid in self._unreaped:
            try:
                ended, _ = os.waitpid(place.pid, os.WNOHANG)
            except ChildProcessError:
                ended = place.pid
            if ended:
                self._unreaped.discard(place.pid)

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        """End the process, its group, and what carries the nonce.

        Raises:
            Unavailable: something still runs 5 seconds after the grace, or it is elsewhere.
        """
        # Asked first for where it is: on another machine nothing here may be touched.
        await self.alive(place)
        await processes.end(place.pid, place.start, place.group, nonce, grace_s)
        self._reap(place)
        self._started.pop(nonce, None)

    async def screen(self, place: ProcessRecord) -> str:
        """The last lines it printed."""
        return await to_thread.run_sync(logs.tail, place.log)

    def attach(self, place: ProcessRecord) -> list[str] | None:
        """There is nothing to see but the log."""
        return None

    async def places(self) -> dict[str, ProcessRecord]:
        """What was started here and still runs.

        Processes that somebody else started are found by their nonces, not here.
        """
        started = list(self._started.items())
        return {nonce: place for nonce, place in started if await self.alive(place)}

    async def aclose(self) -> None:
        """The agents go on; what has ended is waited for."""
        for place in list(self._started.values()):
            self._reap(place)
        self._started.clear()
