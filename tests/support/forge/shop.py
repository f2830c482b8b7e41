"""A team with a forge in memory: its worker can be killed and started again, and time is ours."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bullpen.agents.system.secrets import Redactor
from bullpen.protocol.forge import ForgeSettings, ForgeWork
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check, Step, Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connection import Connection
from bullpen.runs.forge.landing.proofs import Proofs
from bullpen.runs.forge.webhooks.hints import Hints
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.store.memory import MemoryStore
from bullpen.team.forge.bodies import branch_name
from bullpen.team.tasks.merge_rules import HandIn, proof_words, proven_on
from bullpen.team.team import Team, Teams

from .memory_forge import TEAM, URL, Killed, MemoryClient, MemoryForge, MemoryPushes

KEY = b"k" * 64
MINUTE_S = 60.0


async def _at_once(act: Callable[[], object]) -> object:
    """Nothing blocks in memory, so that no thread is needed."""
    return act()


@dataclass
class Shop:
    """A team `alpha` with the member `ann`, and the forge that it uses."""

    forge: MemoryForge
    team: Team
    worker: ForgeWorker
    told: list[str] = field(default_factory=list)
    now_s: float = 0.0
    commits: itertools.count[int] = field(default_factory=lambda: itertools.count(0xABC000))
    # How often the worker was started again.
    restarts: int = 0
    hints: Hints | None = None
    # What the worker wants tested.
    proofs: Proofs = field(default_factory=Proofs)
    # The files that the work of each task changed, and the commits that the forge's target has.
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    # What joins the forge's target with ours, or why that is not possible.
    joins: tuple[str | None, str | None] = (None, None)

    def _join(self) -> tuple[str | None, str | None]:
        found, self.joins = self.joins, (None, None)
        return found

    @classmethod
    async def open(cls, **settings: object) -> Shop:
        """A team that has a forge."""
        teams = Teams(MemoryStore())
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("ann", by=LEAD)

        said = {"repository": URL, "kind": "gitea", "target": "main", **settings}
        await team.forge.configure(ForgeSettings.new(**said), by=LEAD, voice="human")
        forge = MemoryForge()
        shop = cls(forge, team, None)  # type: ignore[arg-type]
        shop.start()
        return shop

    def start(self) -> None:
        """Start a worker that knows nothing of the one before."""

        async def connect(_: ForgeSettings) -> Connection:
            return Connection(
                client=MemoryClient(self.forge),
                pushes=MemoryPushes(self.forge),
                login=TEAM.login,
                target="main",
                key=KEY,
                redactor=Redactor({"FORGE_TOKEN": "s3cr3t-token-of-the-worker"}),
                blocking=_at_once,
                files_of=lambda task: frozenset(self.files.get(task.id, ())),
                on_target=lambda commits: frozenset(
                    name for name, commit in commits.items() if commit in self.there
                ),
                join_target=self._join,
            )

        self.proofs = Proofs()
        self.worker = ForgeWorker(
            self.team,
            connect,
            clock=lambda: self.now_s,
            hints=self.hints,
            proofs=self.proofs,
        )
        self.worker._tell = self.told.append

    async def step(self, minutes: int = 1) -> None:
        """Let the worker look and write, a minute at a time."""
        for _ in range(minutes):
            self.now_s += MINUTE_S
            try:
                await self.worker.step()
            except Killed:
                self.restarts += 1
                self.start()

    async def set_gate(self, run: str = "true") -> None:
        """Give the team a merge gate, which `test` plays."""
        gate = [Check.new(name="t", kind="command", run=run).raw]
        settings = MergeSettings.new(repository="/project", target="main", gate=gate)
        await self.team.merges.configure(settings, by=LEAD, voice="human")

    async def test(self) -> list[tuple[str, str]]:
        """Let the queue test what is wanted; return the tasks, and the commits of the target."""
        tested = []
        settings = await self.team.merges.settings()
        assert settings is not None
        for task in await self.team.merges.line():
            record, asked = task.facts.merge, self.proofs.wanted().get(task.id)
            assert record is not None
            passed = proven_on(task, settings)
            if asked is None or passed == asked.onto or not (asked.anew or passed is None):
                continue
            step = Step.new(
                at_ms=next(self.commits), what="tested", onto=asked.onto, commit="e" * 40,
                passed=True, detail=proof_words(task, settings),
            )  # fmt: skip
            await self.team.merges.note({task.id: [step]}, {task.id: record.attempt})
            tested.append((task.id, asked.onto))
        return tested

    async def tasks(self) -> list[Task]:
        """All tasks."""
        return (await self.team.tasks.list()).tasks

    async def work(self, task_id: str) -> ForgeWork:
        """What is known of a task on the forge."""
        work = (await self.team.tasks.get(task_id)).facts.forge
        assert work is not None
        return work

    async def hand_in(self, task_id: str, report: str = "Done.") -> str:
        """Let ann do a task and hand in a new commit."""
        task = await self.team.tasks.claim(task_id, by="ann")
        commit = f"{next(self.commits):040x}"
        work = HandIn(commit, "0" * 40, f"refs/bullpen/alpha/+tasks/{task_id}/1")
        await self.team.tasks.done(
            task_id, by="ann", attempt=task.facts.attempt, report=report, work=work
        )
        return commit

    async def land(self, task_id: str, report: str = "Done.", *files: str) -> str:
        """Let ann hand in a task, and let the merge queue merge it; return its commit."""
        self.files[task_id] = files or (f"done-{task_id}.txt",)
        await self.hand_in(task_id, report)
        record = (await self.team.tasks.get(task_id)).facts.merge
        assert record is not None
        commit = f"{next(self.commits):040x}"
        attempts = {task_id: record.attempt}
        await self.team.merges.about_to_land({task_id: commit}, attempts, {})
        at_ms = next(self.commits)
        step = Step.new(at_ms=at_ms, what="merged", batch=[task_id], commit=commit)
        await self.team.merges.landed(attempts, [step], tell=False)
        return commit

    async def until(self, what: Callable[[], Awaitable[bool]], minutes: int = 60) -> None:
        """Step until something is true."""
        for _ in range(minutes):
            if await what():
                return
            await self.step()
        raise AssertionError(f"it did not happen: {self.told}")

    async def to_pull(self, task_id: str) -> int:
        """Hand in a task's work and wait for its pull request; return the number."""
        await self.hand_in(task_id)
        await self.step(2)
        number = (await self.work(task_id)).pull
        assert number is not None, self.told
        return number

    def branch(self, task_id: str) -> str:
        """The branch of a task on the forge."""
        return branch_name("alpha", task_id)
