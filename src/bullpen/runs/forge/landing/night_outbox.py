"""Makes the writes to a forge that a night needs: its branch, its pull request, its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bullpen.protocol.forge import ForgeNight, ForgeWrite
from bullpen.protocol.task import Task
from bullpen.runs.forge.outbox import Desk, Outbox
from bullpen.team.forge.bodies import night_branch
from bullpen.team.forge.nights import rules
from bullpen.team.forge.nights.bodies import night_body, night_title
from bullpen.team.forge.outbox_rules import digest_of


class NightOutbox(Outbox):
    """Makes the due writes of one night. It is handed over as `rules.as_task` makes it."""

    def __init__(self, desk: Desk, night: ForgeNight, tasks: Mapping[str, Task]) -> None:
        super().__init__(desk)
        self._night = night
        self._tasks = tasks

    async def keep_text(self, write: ForgeWrite) -> None:
        """Bring the title and the text of the pull request up to date, if they changed."""
        title, body = await self._pull_text(rules.as_task(self._night), write)
        digest = digest_of(title, body)
        if write.id is None or write.digest == digest:
            return
        await self._desk.client.edit_pull(int(write.id), title=title, body=body)
        await self._desk.team.nights.finish(self._night.n, write.n, there=write.id, digest=digest)

    def _branch(self, task: Task) -> str:
        return night_branch(self._desk.team.name, self._night.n)

    def _there(self) -> Sequence[Task]:
        found = (self._tasks.get(id_) for id_ in self._night.tasks)
        return [task for task in found if task is not None]

    async def _pull_text(self, task: Task, write: ForgeWrite) -> tuple[str, str]:
        made = {each.id: await self._made(each) for each in self._there()}
        tasks = [self._cleaned(each) for each in self._there()]
        title = night_title(self._night, tasks, self._desk.team.name)
        mark = self._mark(task, write)
        body = night_body(self._night, tasks, made, mark, self._desk.key)
        return self._desk.redactor.text(title), self._desk.redactor.text(body)

    def _answer_body(self, task: Task, write: ForgeWrite) -> str:
        by = rules.answered_by(self._night, write.key, self._tasks)
        return self._answer_of(write, by, self._mark(task, write))

    async def _done(
        self, task: Task, write: ForgeWrite, there: str | None = None, digest: str | None = None
    ) -> Task:
        return rules.as_task(
            await self._desk.team.nights.finish(self._night.n, write.n, there=there, digest=digest)
        )

    async def _dropped(self, task: Task, write: ForgeWrite) -> Task:
        return rules.as_task(await self._desk.team.nights.drop(self._night.n, write.n))

    async def _held(self, task: Task, write: ForgeWrite, why: str) -> Task:
        await self._dropped(task, write)
        said = self._desk.redactor.text(why)
        return rules.as_task(await self._desk.team.nights.hold(self._night.n, said))
