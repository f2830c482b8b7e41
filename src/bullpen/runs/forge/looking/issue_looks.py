"""Reads the issues of a forge, and makes tasks of those that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bullpen.errors import NotFound, Refused
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.runs.forge.connection import Connection
from bullpen.team.forge import choosing
from bullpen.team.forge.bodies import branch_name
from bullpen.team.forge.shown import Issue
from bullpen.team.forge.wishes import wishes_of
from bullpen.team.forge.work_rules import repository_of
from bullpen.team.team import Team

_OTHERS_TURNS = 10
"""After how many intervals an issue that others wait for is asked for again."""


class IssueLooks:
    """What is known of the issues."""

    def __init__(
        self,
        team: Team,
        settings: ForgeSettings,
        connection: Connection,
        *,
        clock: Callable[[], float],
        tell: Callable[[str], None],
        returned: Callable[[], None] | None,
        interval_s: float,
    ) -> None:
        # Issues of tasks that are known to be closed.
        self.closed: set[int] = set()
        self._team = team
        self._settings = settings
        self._connection = connection
        self._client = connection.client
        self._clock = clock
        self._tell = tell
        self._returned = returned
        self._interval_s = interval_s
        # The open issues that the query named last, and whether others are open, with the time.
        self._listed: set[int] | None = None
        self._others: dict[int, tuple[bool, float]] = {}
        # Issues that may become tasks, with what blocks them.
        self._whole: dict[int, Issue] = {}
        # What the forge said of the last change of issues of tasks that nobody works on yet.
        self._updated: dict[int, str] = {}

    async def take(self) -> None:
        """Make tasks of the issues that fit and have none."""
        issues = await self._client.issues(choosing.query_of(self._settings))
        await self._reopen(issues)
        tasks = (await self._team.tasks.list()).tasks
        listed = {issue.number for issue in issues}
        await self._see_closed(tasks, listed)
        await self._take_again(issues, tasks)
        await self._wait_later(issues, tasks)
        issues = await self._with_blockers(issues, tasks)
        chosen = choosing.choose(
            issues, tasks, self._settings, is_open=await self._open_others(issues, tasks)
        )
        for remark in chosen.remarks:
            self._tell(remark)
        for number, why in chosen.left_out.items():
            self._tell(f"issue #{number} is no task: {why}")
        if chosen.drafts:
            taken = await self._team.forge.take(chosen.drafts)
            if taken:
                self._tell(f"{len(taken)} issues became tasks: {_named(taken)}")

    async def _reopen(self, issues: list[Issue]) -> None:
        """Let tasks go on whose issues were closed and are open again."""
        tasks = (await self._team.tasks.list()).tasks
        for task in choosing.opened_again(tasks, issues):
            work = task.facts.forge
            if work is None or work.issue is None:
                continue
            branch = branch_name(self._team.name, task.id)
            self._client.budget.lift()
            # Its old pull request is closed first. A list may be older than the closing.
            if wishes_of(task, self._settings, branch) or not await self._is_open(work.issue):
                continue
            await self._team.forge.reopen(task.id)
            self.closed.discard(work.issue)
            self._tell(f"task #{task.id} goes on: issue #{work.issue} is open again")
            if self._returned is not None:
                self._returned()

    async def _take_again(self, issues: list[Issue], tasks: Iterable[Task]) -> None:
        """Make another task of an issue whose work was merged and that is open again."""
        for number, before in choosing.merged_and_open(tasks, issues).items():
            self._client.budget.lift()
            # A list may be older than the closing.
            issue = await self._client.issue(number)
            if not issue.is_open or not choosing.fits(issue, self._settings):
                continue
            said = await self._client.comments(number)
            login = self._connection.login
            draft = choosing.draft_again(issue, before, said, self._settings, account=login)
            for task in await self._team.forge.take([draft]):
                self.closed.discard(number)
                self._tell(f"issue #{number} is open again: it is task #{task.id} now")

    async def _wait_later(self, issues: list[Issue], tasks: Iterable[Task]) -> None:
        """Let tasks wait for others that their issues name since they were taken."""
        known = [*tasks]
        pending = {
            work.issue: task
            for task in known
            if (work := task.facts.forge) is not None and task.status == "pending"
        }
        whole: list[Issue] = []
        for issue in issues:
            task = pending.get(issue.number)
            work = None if task is None else task.facts.forge
            if work is not None and issue.updated != self._updated.get(issue.number, work.updated):
                # Only by itself does it show what the forge records as blocking it.
                self._client.budget.lift()
                whole.append(await self._client.issue(issue.number))
                self._updated[issue.number] = issue.updated
            else:
                whole.append(issue)
        for task, others in choosing.later_waits(known, whole):
            named = ", ".join(f"#{each}" for each in others)
            try:
                await self._team.tasks.depend(task.id, others, by=LEAD)
            except Refused as refused:
                self._tell(f"task #{task.id} does not wait for {named}: {refused.message}")
                continue
            self._tell(f"task #{task.id} waits for {named}: its issue says so")

    async def _with_blockers(self, issues: list[Issue], tasks: Iterable[Task]) -> list[Issue]:
        """Read each issue that may become a task by itself: a list has not what blocks it."""
        sources = {task.facts.source for task in tasks}
        repository = repository_of(self._settings)
        found: list[Issue] = []
        for issue in issues:
            is_new = choosing.source_of(repository, issue.number) not in sources
            if is_new and choosing.counts(issue.author, self._settings):
                known = self._whole.get(issue.number)
                if known is None or known.updated != issue.updated:
                    # There is work to do: that is not idle.
                    self._client.budget.lift()
                    try:
                        known = await self._client.issue(issue.number)
                    except NotFound:
                        continue
                    self._whole[issue.number] = known
                issue = known
            found.append(issue)
        return found

    async def _see_closed(self, tasks: Iterable[Task], listed: set[int]) -> None:
        """Ask for the issues of tasks that were listed before and are not any more."""
        for task in tasks:
            work = task.facts.forge
            if work is None or work.issue is None or work.outcome is not None:
                continue
            if work.issue in listed:
                self.closed.discard(work.issue)
            elif self._listed is None or work.issue in self._listed:
                self._client.budget.lift()
                if not await self._is_open(work.issue):
                    self.closed.add(work.issue)
        self._listed = listed

    async def _open_others(self, issues: list[Issue], tasks: Iterable[Task]) -> dict[int, bool]:
        """Return whether the issues are open that others wait for and that are not listed."""
        listed = {issue.number for issue in issues}
        sources = {task.facts.source for task in tasks}
        repository = repository_of(self._settings)
        fresh = [
            issue
            for issue in issues
            if choosing.source_of(repository, issue.number) not in sources
            and choosing.counts(issue.author, self._settings)
        ]
        wanted = {number for issue in fresh for number in choosing.waits_in(issue)} - listed
        now, pause_s = self._clock(), _OTHERS_TURNS * self._interval_s
        for number in sorted(wanted)[:100]:
            at_s = self._others.get(number, (False, float("-inf")))[1]
            if now - at_s >= pause_s:
                self._others[number] = await self._is_open(number), now
        return {number: is_open for number, (is_open, _) in self._others.items()}

    async def _is_open(self, number: int) -> bool:
        try:
            return (await self._client.issue(number)).is_open
        except NotFound:
            return False


def _named(tasks: Iterable[Task]) -> str:
    works = [work for task in tasks if (work := task.facts.forge) is not None]
    return ", ".join(f"#{work.issue}" for work in works[:20])
