"""A backend that runs agents at a lower priority than everything else."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

from anyio import to_thread

from bullpen.agents.backends import output_log
from bullpen.agents.backends.handover import cannot_start
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.system import processes
from bullpen.protocol.agent import ProcessRecord


class Gentle:
    """Runs each agent in its own process, at a lower priority."""

    name = "gentle"

    def __init__(self) -> None:
        self._started: dict[str, ProcessRecord] = {}
        self._children: list[subprocess.Popen[bytes]] = []

    async def check(self) -> None:
        """Nothing is missing. If your backend may lack something, raise Unavailable."""

    async def start(self, launch: Launch) -> ProcessRecord:
        # In a thread, which keeps running when the caller is cancelled: otherwise a process could
        # be started that nobody knows about.
        return await to_thread.run_sync(self._start, launch)

    def _start(self, launch: Launch) -> ProcessRecord:
        log = output_log.open_log(launch.log)
        try:
            child = subprocess.Popen(  # noqa: S603
                launch.argv,  # a list of arguments, never a shell command line
                cwd=launch.cwd,
                env=dict(launch.env),  # the whole environment; nothing is inherited
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # its own process group; it outlives this process
            )
        except OSError as error:
            raise cannot_start(launch, error) from None
        finally:
            os.close(log)
        os.setpriority(os.PRIO_PGRP, child.pid, 10)
        self._children.append(child)
        place = ProcessRecord.new(
            backend=self.name,
            host=processes.host_name(),
            pid=child.pid,
            start=processes.start_of(child.pid),  # pid and start time identify a process
            group=child.pid,
            log=launch.log,
        )
        self._started[launch.nonce] = place
        return place

    async def alive(self, place: ProcessRecord) -> bool:
        return await to_thread.run_sync(processes.runs, place)

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        await self.alive(place)  # raises if it runs on another machine
        await processes.end(place.pid, place.start, place.group, nonce, grace_s)
        self._started.pop(nonce, None)

    async def screen(self, place: ProcessRecord) -> str:
        return await to_thread.run_sync(output_log.tail, place.log)

    def attach(self, place: ProcessRecord) -> list[str] | None:
        return None  # there is only the log to look at

    async def places(self) -> dict[str, ProcessRecord]:
        started = list(self._started.items())
        return {nonce: place for nonce, place in started if await self.alive(place)}

    async def aclose(self) -> None:
        for child in self._children:  # agents keep running; reap those that have ended
            with suppress(subprocess.TimeoutExpired):
                await to_thread.run_sync(child.wait, 0.1)
