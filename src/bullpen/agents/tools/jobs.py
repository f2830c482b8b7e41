"""Background jobs: commands that run beside an agent's turns and are killed when it stops."""

from __future__ import annotations

import asyncio
import codecs
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.system.run_command import Output, shell, started
from bullpen.agents.tools.documented_tool import documented
from bullpen.errors import BullpenError, NotFound, Unavailable
from bullpen.team.lookup import among

_READ_BYTES_MAX = 30_000
_STARTED_WITHIN_S = 30.0
_ENDED_WITHIN_S = 5.0


@dataclass(eq=False, slots=True)
class Job:
    """A command in the background. `ended` says how it ended; None while it runs."""

    id: str
    command: str
    path: Path
    task: asyncio.Task[None] | None = None
    ended: str | None = None
    # How far the agent has read its output.
    read: int = 0


_JOBS: WeakKeyDictionary[Desk, dict[str, Job]] = WeakKeyDictionary()


async def start_job(command: str, desk: Desk) -> str:
    """Start a command in the background and say where its output goes."""
    job_id = f"bash_{secrets.token_hex(3)}"
    started_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    job = Job(job_id, command, desk.folder / "output" / f"{job_id}.txt")
    # The job outlives this call, so it runs as its own asyncio task, which `end_jobs` cancels.
    job.task = asyncio.create_task(_follow(job, desk, started_up), name=f"job {job_id}")
    _JOBS.setdefault(desk, {})[job_id] = job
    try:
        await asyncio.wait(
            {job.task, started_up},
            timeout=_STARTED_WITHIN_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        if not started_up.done():
            del _JOBS[desk][job_id]
            job.task.cancel()
    if not started_up.done():
        await _refuse(job.task)
    return (
        f"Command running in the background with ID {job_id}. Its output goes to {job.path}. "
        "You get a note when it ends. BashOutput shows new output. KillShell stops it."
    )


async def start_work(label: str, work: Callable[[], Awaitable[str]], desk: Desk) -> str:
    """Let a subagent work in the background and say where its answer goes."""
    job_id = f"task_{secrets.token_hex(3)}"
    job = Job(job_id, label, desk.folder / "output" / f"{job_id}.txt")
    try:
        output = Output(job.path, desk, whole=True)
    except OSError as error:
        raise Unavailable(
            f"Cannot write the answer to {str(job.path)!r}: {error.strerror}.",
            remedy="Free disk space there, or run it in the foreground.",
        ) from error

    async def follow() -> None:
        with output:
            try:
                text, ended = await work(), "has answered"
            except BullpenError as error:
                text, ended = str(error), "failed"
            except Exception as error:
                # Nobody else would hear of it.
                text, ended = f"It crashed, because of a bug: {error!r}.", "failed"
                desk.record("trouble", text=f"Subagent {job_id}: {text}")
            output.add(text.encode("utf-8", "replace"))
        job.ended = ended
        desk.wake(f"Subagent {job_id} {ended}; output: {job.path}\nIt was for: {label}")

    job.task = asyncio.create_task(follow(), name=f"job {job_id}")
    _JOBS.setdefault(desk, {})[job_id] = job
    return (
        f"Subagent running in the background with ID {job_id}. You get a note when it answers. "
        "BashOutput shows its answer. KillShell stops it."
    )


async def _refuse(task: asyncio.Task[None]) -> NoReturn:
    """Raise the reason why a job could not be started."""
    await asyncio.wait({task}, timeout=_ENDED_WITHIN_S)
    if task.done() and not task.cancelled():
        task.result()
    raise Unavailable(
        f"The command did not start within {_STARTED_WITHIN_S:g} seconds.",
        remedy="The machine may be busy. Try again later.",
    )


async def _follow(job: Job, desk: Desk, started_up: asyncio.Future[None]) -> None:
    """Run a job to its end, then wake its agent. A killed job does not wake it."""
    try:
        opened = Output(job.path, desk, whole=True)
    except OSError as error:
        raise Unavailable(
            f"Cannot write the output to {str(job.path)!r}: {error.strerror}.",
            remedy="Free disk space there, or run the command in the foreground.",
        ) from error
    with opened as output:
        async with started(shell(job.command), desk, output.add) as running:
            started_up.set_result(None)
            code = await running.finished()
    job.ended = f"ended with exit code {code}"
    desk.wake(f"Background job {job.id} {job.ended}; output: {job.path}\nCommand: {job.command}")


async def end_jobs(desk: Desk) -> list[Job]:
    """Kill all jobs of an agent, with everything in their process groups; returns these jobs."""
    running = [job for job in _JOBS.get(desk, {}).values() if job.ended is None]
    await _cancelled(running)
    return running


async def _cancelled(jobs: list[Job]) -> None:
    tasks = [job.task for job in jobs if job.task is not None]
    for job in jobs:
        job.ended = "was killed"
    for task in tasks:
        task.cancel()
    if tasks:
        with anyio.CancelScope(shield=True):
            await asyncio.wait(tasks, timeout=_ENDED_WITHIN_S)


def _job(desk: Desk, job_id: str) -> Job:
    jobs = _JOBS.get(desk, {})
    if job_id not in jobs:
        raise NotFound(
            f"There is no background job {job_id!r}.",
            remedy=among(job_id, jobs, what="background jobs"),
        )
    return jobs[job_id]


class BashOutputInput(ToolInput):
    """Input of BashOutput."""

    bash_id: str = Field(description="Its id")


class KillShellInput(ToolInput):
    """Input of KillShell."""

    shell_id: str = Field(description="Its id")


async def _output(given: BashOutputInput, desk: Desk) -> str:
    """Show the new output of a background job, and whether it still runs."""
    job = _job(desk, given.bash_id)
    state = "is running" if job.ended is None else job.ended
    text, skipped = await to_thread.run_sync(_news, job)
    note = f"\n[... {skipped} bytes skipped; full output: {job.path} ...]" if skipped else ""
    return f"Job {job.id} {state}.{note}\n{text or '(no new output)'}"


def _news(job: Job) -> tuple[str, int]:
    """The new output of a job since the last call: its end, and how many bytes were skipped."""
    with open(job.path, "rb") as file:
        size = file.seek(0, 2)
        skipped = max(0, size - job.read - _READ_BYTES_MAX)
        file.seek(job.read + skipped)
        raw = file.read(_READ_BYTES_MAX)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw, final=job.ended is not None)
    # An incomplete character is left for the next call.
    job.read += skipped + len(raw) - len(decoder.getstate()[0])
    return text, skipped


async def _kill(given: KillShellInput, desk: Desk) -> str:
    """Kill a background job and everything it started."""
    job = _job(desk, given.shell_id)
    if job.ended is not None:
        return f"Job {job.id} already {job.ended}."
    await _cancelled([job])
    return f"Job {job.id} was killed. Its output: {job.path}"


JOB_TOOLS: tuple[Tool[Desk], ...] = (
    documented("BashOutput", BashOutputInput, "read", _output),
    documented("KillShell", KillShellInput, "read", _kill),
)
