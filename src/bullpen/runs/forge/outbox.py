"""Makes the writes to a forge that are recorded as due, each exactly once.

A write may have happened before a kill, so that whoever makes it looks first: for the marker in a
text, for the commit of a branch, for the state of an issue or a pull request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from anyio import to_thread

from bullpen.agents.system.secrets import Redactor
from bullpen.errors import Conflict, NotFound, Refused
from bullpen.protocol.clock import now_ms
from bullpen.protocol.forge import ForgeSettings, ForgeWork, ForgeWrite
from bullpen.protocol.task import Task
from bullpen.runs.forge.contract import ForgeClient
from bullpen.runs.forge.pushes import BranchMoved
from bullpen.team.budget.rules import account, together
from bullpen.team.forge.bodies import (
    Made,
    answer_body,
    branch_name,
    cleaned,
    pull_body,
    pull_title,
    state_comment,
)
from bullpen.team.forge.markers import Mark, find
from bullpen.team.forge.outbox_rules import digest_of, only_looked_for, work_of
from bullpen.team.forge.shown import Comment, PullRequest, Thread
from bullpen.team.forge.work_rules import is_returnable
from bullpen.team.tasks.merge_rules import must_pass, proven_on
from bullpen.team.team import Team

T = TypeVar("T")

_DECIDED_MS = 300_000


class Pusher(Protocol):
    """What moves branches of the forge. It blocks."""

    def push(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Move a branch from the commit that it is known to have; None for no branch."""
        ...

    def fetch(self, branch: str) -> str:
        """Fetch a branch and return its commit."""
        ...


@dataclass(frozen=True, slots=True)
class Desk:
    """What is needed to write to one repository of a forge."""

    team: Team
    client: ForgeClient
    pushes: Pusher
    settings: ForgeSettings
    # Where pull requests go, the login of the token, and the key of the markers.
    target: str
    login: str
    key: bytes
    redactor: Redactor
    # Runs what blocks, in a thread.
    blocking: Callable[[Callable[[], Any]], Awaitable[Any]] = to_thread.run_sync


class NotAllowedYet(Exception):
    """The forge does not allow a merge now; it may later."""


async def _nothing() -> None:
    pass


class Outbox:
    """Makes the due writes of tasks, in one pass: threads are read once."""

    def __init__(self, desk: Desk, *, landed: Callable[[], Awaitable[None]] = _nothing) -> None:
        """`landed` is called after a merge, before other tasks may begin on top of it."""
        self._desk = desk
        self._landed = landed
        # By pull request. What this pass writes itself is in the records of the writes.
        self._threads: dict[int, list[Thread]] = {}

    async def make(self, task: Task, write: ForgeWrite) -> Task:
        """Make one due write unless it was made, and record that.

        Raises:
            NotAllowedYet: it is a merge, and the forge does not allow it now.
            TryLater: the forge cannot be used now.
        """
        acts: Mapping[str, Callable[[Task, ForgeWork, ForgeWrite], Awaitable[Task]]] = {
            "push": self._push,
            "pull": self._pull,
            "state": self._state,
            "reply": self._reply,
            "answer": self._answer,
            "resolve": self._resolve,
            "merge": self._merge,
            "close_pull": self._close_pull,
            "close": self._close,
            "delete": self._delete,
        }
        return await acts[write.kind](task, work_of(task), write)

    def _mark(self, task: Task, write: ForgeWrite) -> Mark:
        repository = work_of(task).repository
        return Mark(repository, self._desk.team.name, task.id, write.kind, write.n)

    def _answer_body(self, task: Task, write: ForgeWrite) -> str:
        record = task.facts.merge
        by = None if record is None else record.by
        return self._answer_of(write, by, self._mark(task, write))

    def _answer_of(self, write: ForgeWrite, by: str | None, mark: Mark) -> str:
        # Before and after: escaping hides some secrets, and only the whole text shows others.
        text = self._desk.redactor.text(write.text or "")
        return self._desk.redactor.text(answer_body(text, by=by, mark=mark, key=self._desk.key))

    def _found(
        self, task: Task, write: ForgeWrite, texts: Iterable[tuple[str, str, T]]
    ) -> T | None:
        """Return what a write made before, from texts with their authors."""
        mark = self._mark(task, write)
        return find(texts, mark, self._desk.key, account=self._desk.login)

    async def _done(
        self, task: Task, write: ForgeWrite, there: str | None = None, digest: str | None = None
    ) -> Task:
        return await self._desk.team.forge.finish(task.id, write.n, there=there, digest=digest)

    async def _dropped(self, task: Task, write: ForgeWrite) -> Task:
        return await self._desk.team.forge.drop(task.id, write.n)

    async def _held(self, task: Task, write: ForgeWrite, why: str) -> Task:
        await self._dropped(task, write)
        return await self._desk.team.forge.hold(task.id, self._desk.redactor.text(why))

    async def _push(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        commit = write.target
        branch = work.branch or self._branch(task)
        if commit is None:
            return await self._dropped(task, write)
        head = await self._desk.client.branch_head(branch)
        if head != commit:
            if head is not None and head != work.head:
                return await self._held(
                    task, write, f"somebody else changed the branch {branch} on the forge"
                )
            try:
                await self._desk.blocking(partial(self._push_now, branch, commit, head))
            except BranchMoved as moved:
                # The git of a worker that was killed may have pushed it meanwhile.
                if await self._desk.client.branch_head(branch) != commit:
                    return await self._held(task, write, moved.message)
            except Refused as refused:
                return await self._held(task, write, refused.message)
        return await self._done(task, write, branch)

    def _push_now(self, branch: str, commit: str, expected: str | None) -> None:
        self._desk.pushes.push(branch, commit, expected=expected)

    async def _pull(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        client, branch = self._desk.client, work.branch
        if branch is None:
            return await self._dropped(task, write)
        pulls = await client.pulls_of_branch(branch)
        texts = ((each.author.login, each.body, each.number) for each in pulls)
        if (number := self._found(task, write, texts)) is not None:
            return await self._done(task, write, str(number))
        others = [each.number for each in pulls if each.is_open]
        if only_looked_for(work, write):
            return await self._dropped(task, write)
        if others:
            why = f"pull request #{others[0]} is open from {branch}, and Bullpen did not open it"
            return await self._held(task, write, why)
        title, body = await self._pull_text(task, write)
        try:
            pull = await client.open_pull(
                title=title, body=body, branch=branch, base=self._desk.target
            )
        except (Conflict, Refused) as error:
            return await self._held(task, write, f"no pull request was opened: {error.message}")
        return await self._done(task, write, str(pull.number), digest_of(title, body))

    def _branch(self, task: Task) -> str:
        return branch_name(self._desk.team.name, task.id)

    async def _pull_text(self, task: Task, write: ForgeWrite) -> tuple[str, str]:
        """Return the title and the text of the pull request."""
        shown = self._cleaned(task)
        body = pull_body(shown, await self._made(task), self._mark(task, write), self._desk.key)
        return self._desk.redactor.text(pull_title(shown)), self._desk.redactor.text(body)

    def _cleaned(self, task: Task) -> Task:
        return cleaned(task, self._desk.redactor.text)

    async def _made(self, task: Task) -> Made:
        """Return who made the work of a task, and what that used."""
        config = await self._desk.team.agents.config()
        rows = [row for row in account(config) if row.task == task.id]
        used = together(rows)
        tokens = used.input_tokens + used.output_tokens
        return Made(
            agents=[row.agent for row in rows if row.agent is not None],
            usd=used.cost_usd if used.cost_usd and not used.unpriced else None,
            tokens=tokens or None,
        )

    async def _state(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        """Comment the state on the issue; a later state replaces the text of that comment."""
        if work.issue is None:
            return await self._dropped(task, write)
        body = self._state_body(task, write)
        digest = digest_of(body)
        if write.id is not None and write.digest == digest:
            return await self._done(task, write, write.id, digest)
        there = await self._own_comment(work.issue, task, write)
        found = write.id if there is None else there.id
        if found is None:
            found = (await self._desk.client.comment(work.issue, body)).id
        elif there is None or there.body != body:
            # If somebody deleted it, that is an answer too: it is not written again.
            with suppress(NotFound):
                await self._desk.client.edit_comment(found, body)
        return await self._done(task, write, found, digest)

    async def restate(self, task: Task, write: ForgeWrite) -> Task:
        """Bring the comment with the state of a task up to date, if its text has changed."""
        if write.digest == digest_of(self._state_body(task, write)):
            return task
        return await self._state(task, work_of(task), write)

    def _state_body(self, task: Task, write: ForgeWrite) -> str:
        body = state_comment(self._cleaned(task), self._mark(task, write), self._desk.key)
        return self._desk.redactor.text(body)

    async def _own_comment(self, number: int, task: Task, write: ForgeWrite) -> Comment | None:
        comments = await self._desk.client.comments(number)
        return self._found(task, write, ((c.author.login, c.body, c) for c in comments))

    async def _reply(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        thread = await self._thread(work, write)
        if thread is None or work.pull is None:
            return await self._dropped(task, write)
        texts = ((each.author.login, each.body, each.id) for each in thread.comments)
        if (found := self._found(task, write, texts)) is not None:
            return await self._done(task, write, found)
        made = await self._desk.client.reply(work.pull, thread, self._answer_body(task, write))
        return await self._done(task, write, made.id)

    async def _resolve(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        thread = await self._thread(work, write)
        if thread is None or work.pull is None:
            return await self._dropped(task, write)
        if not thread.resolved:
            await self._desk.client.resolve(work.pull, thread)
        return await self._done(task, write)

    async def _thread(self, work: ForgeWork, write: ForgeWrite) -> Thread | None:
        if work.pull is None:
            return None
        if work.pull not in self._threads:
            self._threads[work.pull] = await self._desk.client.threads(work.pull)
        found = self._threads[work.pull]
        return next((each for each in found if each.id == write.target), None)

    async def _answer(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        if work.pull is None:
            return await self._dropped(task, write)
        found = await self._own_comment(work.pull, task, write)
        if found is None:
            body = self._answer_body(task, write)
            found = await self._desk.client.comment(work.pull, body)
        return await self._done(task, write, found.id)

    async def _merge(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        if work.pull is None or write.target is None or work.head != write.target:
            return await self._dropped(task, write)
        pull = await self._desk.client.pull(work.pull)
        commit = pull.merge_commit
        if not pull.merged:
            if not await self._may_merge(task, write, pull):
                return await self._dropped(task, write)
            if pull.blocked:
                # An account that may ignore the rules of the forge does not.
                raise NotAllowedYet("a required check or approval is missing")
            try:
                commit = await self._desk.client.merge_pull(
                    work.pull, head=write.target, method=self._desk.settings.method
                )
            except Refused as refused:
                raise NotAllowedYet(refused.message) from None
            except Conflict:
                return await self._dropped(task, write)
        await self._done(task, write, commit)
        await self._landed()
        return await self._desk.team.forge.settle(task.id, "merged", commit=commit)

    async def _may_merge(self, task: Task, write: ForgeWrite, pull: PullRequest) -> bool:
        """Return whether what was decided about a merge still holds, as far as one look tells.

        What was decided long ago, for example before a kill, is decided anew.
        """
        if not pull.is_open or pull.head != write.target or pull.base != self._desk.target:
            return False
        if work_of(task).person is not None or not is_returnable(task):
            return False
        if abs(now_ms() - write.at_ms) > _DECIDED_MS:
            return False
        settings, record = await self._desk.team.merges.settings(), task.facts.merge
        if not must_pass(task, settings):
            return True
        if record is None or record.commit != pull.head:
            return False
        there = await self._desk.client.branch_head(self._desk.target)
        return there is not None and proven_on(task, settings) == there

    async def _close_pull(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        if work.pull is not None:
            pull = await self._desk.client.pull(work.pull)
            if pull.is_open and not pull.merged:
                await self._desk.client.close_pull(work.pull)
        return await self._done(task, write)

    async def _close(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        if work.issue is not None:
            try:
                if (await self._desk.client.issue(work.issue)).is_open:
                    await self._desk.client.close_issue(work.issue)
            except NotFound:
                return await self._dropped(task, write)
        return await self._done(task, write)

    async def _delete(self, task: Task, work: ForgeWork, write: ForgeWrite) -> Task:
        """Delete the branch, unless it has commits of others or is gone."""
        if work.branch is None:
            return await self._dropped(task, write)
        head = await self._desk.client.branch_head(work.branch)
        if head is not None and head == work.head:
            try:
                await self._desk.client.delete_branch(work.branch)
            except Refused:
                return await self._dropped(task, write)
        return await self._done(task, write)
