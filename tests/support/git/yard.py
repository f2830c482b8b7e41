"""Scenery: a repository, a team whose members have trees of their own, and its merge queue."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bullpen.agents.work.merge_checks import check_runner
from bullpen.protocol.agent import Workspace
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check, Merge, Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.teamfile.backlog.boxes import box_of
from bullpen.store.contract import Store
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team, Teams
from bullpen.workspace.handover.hand_in import Handed, begin, hand_in
from bullpen.workspace.merge_queue.queue import Queue, RunCheck, Stepped
from bullpen.workspace.trees.tree import plan, prepare

from .repositories import commit, git, make_repository

TEAM = "crew"
OWNER = "tests of crew"

# A test of the files: nothing is broken, and nowhere do two sides stand.
GATE = "sh test.sh"
TEST = """\
#!/bin/sh
grep -nE 'BROKEN|<<<<<<<|>>>>>>>' *.txt && exit 1
exit 0
"""

Edit = Callable[[Path], object] | Mapping[str, str]


def check(run: str, **more: Any) -> Check:
    """A command that must succeed."""
    return Check.new(name=run, kind="command", run=run, **more)


Q = TypeVar("Q", bound=Queue)


@dataclass
class Yard:
    """A team at work on a repository. Its work is made here, by code, as agents would."""

    team: Team
    project: Path
    settings: MergeSettings
    home: Path
    trees: dict[str, Workspace] = field(default_factory=dict)
    seen: list[Stepped] = field(default_factory=list)

    @classmethod
    async def make(
        cls, folder: Path, store: Store, *, files: Mapping[str, str] | None = None, **settings: Any
    ) -> Yard:
        """A new repository with a new team."""
        project = make_repository(
            folder / "project", files or {"numbers.txt": "# numbers\n", "test.sh": TEST}
        )
        teams = Teams(store)
        await teams.create(TEAM, cwd=str(project))
        gate = [check(settings.pop("gate", GATE)).raw]
        said = MergeSettings.new(repository=str(project), target="main", gate=gate, **settings)
        yard = cls(teams.open(TEAM), project, said, folder / "home")
        await yard.team.merges.configure(said, by=LEAD, voice="human")
        return yard

    async def join(self, *names: str, **options: Any) -> None:
        """Members with trees of their own."""
        for name in names:
            await self.team.roster.join(name, by=LEAD)
            kind = options.pop("kind", "worktree")
            self.trees[name] = plan(kind, self.project, team=TEAM, agent=name, **options)
            prepare(self.trees[name], team=TEAM, agent=name, owner=OWNER)

    def tree(self, name: str) -> Path:
        """The tree of a member."""
        return Path(self.trees[name].path)

    async def take(
        self, name: str, subject: str = "work", *, source: str | None = None, **fields: Any
    ) -> Task:
        """A new task, perhaps of a backlog, that a member has claimed, its tree brought to it."""
        if source is None:
            task = await self.team.tasks.add(subject, by=LEAD, **fields)
        else:
            drafts = [Draft(subject, source=source, **fields)]
            task = (await self.team.tasks.add_many(drafts, by=LEAD))[0]
        return (await self.retake(name, task.id))[0]

    async def retake(self, name: str, task_id: str) -> tuple[Task, str | None]:
        """A task that a member has claimed, and what it was told of its tree."""
        task = await self.team.tasks.claim(task_id, by=name)
        return task, begin(self.trees[name], task, self.settings, team=TEAM, agent=name)

    async def finish(self, name: str, task: Task, edit: Edit | None = None) -> Handed | None:
        """Complete a task of a member's with what it does to its tree."""
        self.edit(name, edit)
        handed = hand_in(self.trees[name], task, team=TEAM, agent=name)
        work = None if handed is None else handed.work
        found = [check.evolve(passed=True) for check in task.facts.checks]
        await self.team.tasks.done(
            task.id, by=name, attempt=task.facts.attempt, found=found, work=work
        )
        return handed

    def edit(self, name: str, edit: Edit | None) -> None:
        """Let a member do something to its tree."""
        if callable(edit):
            edit(self.tree(name))
        for path, text in (edit or {}).items() if not callable(edit) else ():
            file = self.tree(name) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")

    async def work(self, name: str, edit: Edit, subject: str = "work", **fields: Any) -> str:
        """A task from its beginning to the queue; its id."""
        task = await self.take(name, subject, **fields)
        await self.finish(name, task, edit)
        return task.id

    def queue(self, *, run: RunCheck | None = None, **settings: Any) -> Queue:
        """The queue, perhaps with other settings."""
        return self.queue_of(Queue, run=run, **settings)

    def queue_of(self, kind: type[Q], *, run: RunCheck | None = None, **settings: Any) -> Q:
        """A queue of some kind, perhaps with other settings."""
        return kind(
            self.team,
            self.settings.evolve(**settings),
            run=run or check_runner(self.team, home=self.home, environ=os.environ),
            folder=self.project.parent / "queue",
            owner=OWNER,
            boxes=partial(box_of, str(self.project), str(self.project)),
        )

    async def drain(
        self, queue: Queue, each: Callable[[Stepped], object] | None = None
    ) -> list[Stepped]:
        """Let the queue work until nothing waits."""
        steps: list[Stepped] = []
        for _ in range(100):
            stepped = await queue.step()
            if stepped is None:
                return steps
            assert stepped.merged or stepped.returned, stepped
            steps.append(stepped)
            if each is not None:
                each(stepped)
        raise AssertionError("the queue has no end")

    async def record(self, task_id: str) -> Merge:
        """What is known of the work of a task."""
        found = (await self.team.tasks.get(task_id)).facts.merge
        assert found is not None
        return found

    @property
    def target(self) -> str:
        """Where the target is."""
        return git(self.project, "rev-parse", "refs/heads/main")

    def log(self, *words: str) -> list[str]:
        """The subjects on the target, the oldest first."""
        return git(
            self.project, "log", "--reverse", "--topo-order", "--format=%s", *words, "main"
        ).splitlines()

    def at_target(self, path: str) -> str:
        """A file as it is on the target."""
        return git(self.project, "show", f"main:{path}")

    def user_commits(self, files: Mapping[str, str], message: str = "mine") -> str:
        """The user commits something to the target in their own tree."""
        return commit(self.project, files, message)

    def refs(self) -> dict[str, str]:
        """Our refs and what they keep."""
        out = git(self.project, "for-each-ref", "--format=%(refname) %(objectname)", "refs/bullpen")
        return dict(line.split(" ") for line in out.splitlines())


def add_line(name: str, text: str) -> Callable[[Path], None]:
    """An edit that puts a line at the end of a file."""

    def edit(tree: Path) -> None:
        with open(tree / name, "a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    return edit


def run(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command, however it ends."""
    return subprocess.run(words, cwd=where, capture_output=True, text=True, timeout=60, check=False)


def slots(count: int) -> str:
    """A file with places for numbers, so far from each other that they do not touch."""
    return "".join(f"# {number}\ns{number}=0\n# -\n# -\n" for number in range(count))


def fill(name: str, slot: int, text: str) -> Callable[[Path], None]:
    """An edit that writes a number into one of the places."""

    def edit(tree: Path) -> None:
        lines = (tree / name).read_text("utf-8").splitlines()
        lines[4 * slot + 1] = text
        (tree / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")

    return edit
