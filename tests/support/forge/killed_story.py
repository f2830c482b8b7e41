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
from bullpen.protocol.forge import ForgeSettings, ForgeWork, Merger
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
# What a worker imports takes most of its start. The server has not the path of our own modules.
FORKSERVER.set_forkserver_preload(
    [
        "anyio._backends._asyncio",
        "bullpen.runs.forge.clients.gitea",
        "bullpen.runs.forge.clients.github",
        "bullpen.runs.forge.connect",
        "bullpen.runs.forge.worker",
        "bullpen.store.files.store",
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
    cases: dict[str, Case] = field(default_factory=dict)
    writes: Writes = field(init=False)

    def __post_init__(self) -> None:
        self.writes = Writes(self.folder / "writes")

    @property
    def clone(self) -> Path:
        """The repository of the team."""
        return self.folder / "clone"

    async def case(self, name: str) -> Case:
        """Open another issue."""
        self.cases[name] = Case(self, await self.stage.issue(f"Add what is {name}"))
        return self.cases[name]

    async def merge_by(self, merge: Merger) -> None:
        """Let the forge or our merge queue merge from now on."""
        settings = await self.team.forge.settings()
        assert settings is not None
        await self.team.forge.configure(settings.evolve(merge=merge), by=LEAD, voice="human")

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
                tasks = (await self.team.forge.now()).tasks
                held = [task.facts.forge and task.facts.forge.person for task in tasks]
                assert not any(held), f"a person has to look: {held} {self.told()}"
                await anyio.sleep(0.05)
            return
        raise AssertionError(f"it did not happen: {await self.team.forge.now()} {self.told()}")


@dataclass
class Case:
    """One issue on a site, and its way to the end."""

    site: Site
    issue: int

    async def found(self) -> Task | None:
        """The task of the issue, if there is one."""
        tasks = (await self.site.team.forge.now()).tasks
        mine = [task for task in tasks if task.facts.forge and task.facts.forge.issue == self.issue]
        assert len(mine) < 2, "an issue has two tasks"
        return mine[0] if mine else None

    async def task(self) -> Task:
        """The task of the issue."""
        task = await self.found()
        assert task is not None
        return task

    async def work(self) -> ForgeWork:
        """What is known of the task on the forge."""
        work = (await self.task()).facts.forge
        assert work is not None
        return work

    async def pull(self) -> int:
        """The number of its pull request."""
        pull = (await self.work()).pull
        assert pull is not None
        return pull

    async def hand_in(self) -> str:
        """Let ann do the task, and answer everything that she is asked."""
        team, clone = self.site.team, self.site.clone
        task_id, asked = (await self.task()).id, (await self.work()).asked
        attempt = (await team.tasks.claim(task_id, by="ann", also=True)).facts.attempt
        base = git(clone, "rev-parse", "main")
        git(clone, "checkout", "--quiet", "--detach", "main")
        made = commit(clone, {f"done-{task_id}.txt": f"attempt {attempt}\n"})
        git(clone, "checkout", "--quiet", "main")
        ref = task_ref(TEAM, task_id, attempt)
        git(clone, "update-ref", ref, made)
        report = "\n".join(["Done.", *(f"[{each.number}] About {each.kind}." for each in asked)])
        await team.tasks.done(
            task_id, by="ann", attempt=attempt, report=report, work=HandIn(made, base, ref)
        )
        return made

    # States to wait for

    async def is_taken(self) -> bool:
        return await self.found() is not None

    async def is_shown(self) -> bool:
        return (await self.work()).pull is not None

    async def is_back(self) -> bool:
        return (await self.task()).status == "pending"

    async def is_pushed(self) -> bool:
        task = await self.task()
        assert task.facts.merge is not None
        return (await self.work()).head == task.facts.merge.commit

    async def is_settled(self) -> bool:
        """Whether all is written, and the issue shows how it is now."""
        task, work = await self.task(), await self.work()
        is_due = any(each.state == "due" for each in work.writes)
        return not is_due and work.labelled == state_of(task)

    async def is_over(self) -> bool:
        """Whether it ended, and the forge shows that."""
        work = await self.work()
        has_end = any(each.kind == "delete" for each in work.writes)
        return work.outcome is not None and has_end and await self.is_settled()


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
