"""Reviews the work of a task: decides by the team's rules, asks a reviewer, records its verdict."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from anyio import to_thread

from bullpen.errors import BullpenError
from bullpen.protocol.agent import Spent
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.record.review import REVIEW_TOOL, Review
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.runs.review.reviewer import (
    Answered,
    CouldNotReview,
    ask_reviewer,
    refuse_too_long,
    review_folder,
)
from bullpen.team.tasks.reviews import rules
from bullpen.team.tasks.reviews.rules import NextStep, digest_of, next_step
from bullpen.team.tasks.reviews.verdict import ReviewMatter
from bullpen.team.team import Team
from bullpen.workspace.handover.reviewed_work import Laid, Span, lay_out


@dataclass(frozen=True, slots=True)
class TaskReview:
    """The review of one task's work for one check."""

    team: Team
    task: Task
    check: Check
    # Who completes the task, or the lead for the merge queue.
    by: str
    environ: Mapping[str, str]
    redact: Callable[[str], str]
    voice: Voice = "agent"
    # The checks that ran before, with their results.
    found: Sequence[Check] = ()
    # Whether a person is asked about work whose author is like the reviewer.
    queued: bool = False

    async def run(self, span: Span) -> Check:
        """Return the check with its result.

        Raises:
            CouldNotReview: there is no verdict. That is never an approval.
            Refused: same_reviewer, or anything that recording a review refuses.
        """
        async with review_folder() as folder:
            work = await to_thread.run_sync(lay_out, span, folder / "work")
            if not work.difference.strip():
                return self._result(True, "the work changes nothing, so there is nothing to review")
            refuse_too_long(work)
            digest = digest_of(work.difference)
            # What is known of it may be older than its last review.
            step = await self._next(await self.team.tasks.get(self.task.id), digest)
            if step.act == "review":
                config = await self.team.agents.config()
                same = rules.same_as_author(self.check, rules.author_of(self.task, config))
                if same is not None and not self.queued:
                    raise same
                if same is not None:
                    step = NextStep("ask", same.message)
                else:
                    step = await self._reviewed(work, digest)
        return await self._concluded(step, span, digest)

    async def _next(self, task: Task, digest: str) -> NextStep:
        requests = (await self.team.approvals.all()).values()
        return next_step(task, self.check, digest, requests)

    async def _reviewed(self, work: Laid, digest: str) -> NextStep:
        """Ask the reviewer, and record its verdict or that there is none."""
        left_out = await to_thread.run_sync(work.fill)
        matter = replace(await self._matter(work), left_out=left_out)
        try:
            answered = await ask_reviewer(self.check, matter, work, environ=self.environ)
        except CouldNotReview as error:
            task = await self._record(digest, None, error.used, error.why)
            step = await self._next(task, digest)
            if step.act != "ask":
                raise
            return step
        task = await self._record(digest, answered, answered.used)
        return await self._next(task, digest)

    async def _matter(self, work: Laid) -> ReviewMatter:
        try:
            notes = [(note.name, note.text) for note in (await self.team.notes.list()).notes]
        except BullpenError as error:
            notes = [("(not readable)", error.message)]
        return ReviewMatter(
            title=f"Task #{self.task.id}: {self.task.subject}",
            description=self.task.description,
            rubric=self.check.rubric,
            difference=work.difference,
            checks=self.found,
            notes=notes,
            earlier=rules.reviews_of(await self.team.tasks.get(self.task.id), self.check),
        )

    async def _record(
        self, digest: str, answered: Answered | None, used: Sequence[Spent], why: str = ""
    ) -> Task:
        said = None if answered is None else answered.words
        review = Review.new(
            check=self.check.name,
            asked=rules.asked_of(self.check),
            work=digest,
            verdict="none" if said is None else said.verdict,
            by=self.check.by or "",
            model=self.check.model,
            attempt=self.task.facts.attempt,
            at_ms=now_ms(),
            summary=self.redact(why if said is None else said.summary),
            comments=[
                each.evolve(text=self.redact(each.text)).raw
                for each in (() if said is None else said.comments)
            ],
        )
        return await self.team.reviews.record(
            self.task.id, review, used, by=self.by, voice=self.voice
        )

    async def _concluded(self, step: NextStep, span: Span, digest: str) -> Check:
        if step.act == "ask":
            words = await self._ask_person(step, span, digest)
            return self._result(False, words)
        if step.act == "wait" and step.request is not None:
            return self._result(False, rules.asked_words(step, step.request))
        return self._result(step.act == "pass", step.why)

    async def _ask_person(self, step: NextStep, span: Span, digest: str) -> str:
        look = shlex.join(["git", "-C", str(span.repository), "diff", span.base, span.commit])
        given = rules.request_input(self.task, self.check, digest, step.why, look)
        config = await self.team.agents.config()
        asker = self.by if config.member(self.by) is not None else LEAD
        request = await self.team.approvals.ask_permission(
            REVIEW_TOOL,
            given,
            by=asker,
            description=f"accept the work of task #{self.task.id}? {step.why.splitlines()[0]}",
            approver="human",
        )
        return rules.asked_words(step, request)

    def _result(self, passed: bool, words: str) -> Check:
        return self.check.evolve(passed=passed, detail=self.redact(words), at_ms=now_ms())


async def not_approved(team: Team, task_id: str, span: Span) -> list[str]:
    """Return the reviews of a task, by name, that did not approve exactly this work."""
    task = await team.tasks.get(task_id)
    requests = (await team.approvals.all()).values()
    async with review_folder() as folder:
        work = await to_thread.run_sync(lay_out, span, folder / "work")
    digest = digest_of(work.difference)
    return [
        check.name
        for check in task.facts.checks
        if check.kind == "review" and next_step(task, check, digest, requests).act != "pass"
    ]
