"""A team on a forge whose worker is killed and started again, and what happens there meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.protocol.forge import ForgeSettings, ForgeWork
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.store.files.store import FileStore
from bullpen.team.forge.bodies import state_of
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams
from bullpen.testing.forge.stage import ForgeStage
from bullpen.workspace.git.ref_names import task_ref
from support.git.repositories import commit, git

from .killed_worker import TEAM, Death, Writes, work

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    [
        "support.forge.killed_worker",
        "bullpen.runs.forge.clients.github",
        "bullpen.runs.forge.clients.gitea",
    ]
)
UNTIL_S = 300.0
"""How long a state may be waited for."""


@dataclass
class Site:
    """A team with a clone on a forge, and the process that works for it."""

    team: Team
    stage: ForgeStage
    folder: Path
    death: Death | None
    environ: dict[str, str]
    process: ForkServerProcess | None = None
    restarts: int = 0
    writes: Writes = field(init=False)

    def __post_init__(self) -> None:
        self.writes = Writes(self.folder / "writes")

    @property
    def clone(self) -> Path:
        """The repository of the team."""
        return self.folder / "clone"

    def start(self) -> None:
        """Start a worker. After the one kill that was asked for, nothing kills it any more."""
        is_over = self.death is not None and isinstance(self.death.when, int) and self.restarts > 0
        death = None if is_over else self.death
        self.process = FORKSERVER.Process(target=work, args=(self.folder, self.environ, death))
        self.process.start()

    def care(self) -> None:
        """Start another worker if the last one was killed."""
        assert self.process is not None
        if self.process.is_alive():
            return
        assert self.process.exitcode == -signal.SIGKILL, f"it ended by itself: {self.told()}"
        self.restarts += 1
        self.start()

    def stop(self) -> None:
        """Kill the worker for good."""
        if self.process is not None:
            self.process.kill()
            self.process.join()

    def told(self) -> str:
        """What the workers said and wrote."""
        told = self.folder / "told"
        words = told.read_text("utf-8") if told.exists() else ""
        return f"{words}\n{self.writes.rows()}"

    async def until(self, what: Callable[[], Awaitable[bool]]) -> None:
        """Let workers work until something is true."""
        with anyio.move_on_after(UNTIL_S):
            while not await what():
                self.care()
                task = await self.task()
                held = task and task.facts.forge and task.facts.forge.person
                assert not held, f"a person has to look: {held} {self.told()}"
                await anyio.sleep(0.05)
            return
        raise AssertionError(f"it did not happen: {await self.task()} {self.told()}")

    async def task(self) -> Task | None:
        """The task of the issue, if there is one."""
        return next(iter((await self.team.tasks.list()).tasks), None)

    async def work(self) -> ForgeWork:
        """What is known of the task on the forge."""
        task = await self.team.tasks.get("1")
        assert task.facts.forge is not None
        return task.facts.forge

    async def hand_in(self) -> str:
        """Let ann do the task, and answer everything that she is asked."""
        asked = (await self.work()).asked
        task = await self.team.tasks.claim("1", by="ann")
        attempt = task.facts.attempt
        base = git(self.clone, "rev-parse", "main")
        git(self.clone, "checkout", "--quiet", "--detach", "main")
        made = commit(self.clone, {"done.txt": f"attempt {attempt}\n"})
        git(self.clone, "checkout", "--quiet", "main")
        ref = task_ref(TEAM, "1", attempt)
        git(self.clone, "update-ref", ref, made)
        report = "\n".join(["Done.", *(f"[{each.number}] About {each.kind}." for each in asked)])
        await self.team.tasks.done(
            "1", by="ann", attempt=attempt, report=report, work=HandIn(made, base, ref)
        )
        return made

    # States to wait for

    async def is_taken(self) -> bool:
        return await self.task() is not None

    async def is_shown(self) -> bool:
        return (await self.work()).pull is not None

    async def is_back(self) -> bool:
        return (await self.team.tasks.get("1")).status == "pending"

    async def is_pushed(self) -> bool:
        return (await self.work()).head == git(self.clone, "rev-parse", task_ref(TEAM, "1", 2))

    async def is_over(self) -> bool:
        """Whether it ended, and the forge shows that."""
        task, work = await self.team.tasks.get("1"), await self.work()
        is_due = any(each.state == "due" for each in work.writes)
        has_end = any(each.kind == "delete" for each in work.writes)
        is_shown = work.labelled == state_of(task)
        return work.outcome is not None and has_end and is_shown and not is_due


async def site_of(
    stage: ForgeStage, folder: Path, url: str, death: Death | None, **settings: object
) -> Site:
    """A team with a clone of the repository on a stage."""
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    git(folder, "clone", "--quiet", stage.clone_url, "clone")
    teams = Teams(FileStore(folder / "home", fsync=False))
    await teams.create(TEAM)
    team = teams.open(TEAM)
    await team.roster.join("ann", by=LEAD)
    gate = MergeSettings.new(repository=str(folder / "clone"), target="main")
    await team.merges.configure(gate, by=LEAD, voice="human")
    said = {"repository": url, "poll_s": 1, **settings}
    await team.forge.configure(ForgeSettings.new(**said), by=LEAD, voice="human")
    environ = {**os.environ, FORGE_TOKEN: stage.token("team")}
    return Site(team, stage, folder, death, environ)
