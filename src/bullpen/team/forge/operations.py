"""A team's work on a forge, in its records. Each step is one commit.

`bullpen.runs.forge` talks to the forge; this module keeps the record. Agents may do none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bullpen.protocol.changes import Change, Deliver, PutTask
from bullpen.protocol.forge import ForgeNight, ForgeOutcome, ForgeSettings, ForgeWrite
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamFacts
from bullpen.store.contract import View
from bullpen.team.forge import choosing, outbox_rules, work_rules
from bullpen.team.forge.choosing import IssueDraft
from bullpen.team.forge.nights.rules import nights_of
from bullpen.team.forge.outbox_rules import Wish, work_of
from bullpen.team.forge.work_rules import Heard
from bullpen.team.lookup import owner_of, task_of
from bullpen.team.mail.operations import new_message
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.promises.wake import end_with
from bullpen.team.tasks.drafts import drafted


@dataclass(frozen=True, slots=True)
class OnForge:
    """What a team has on a forge, as of one moment: its settings, and its tasks that are there."""

    settings: ForgeSettings | None
    tasks: list[Task]
    # All tasks, and the nights.
    every: Mapping[str, Task] = field(default_factory=dict)
    nights: Sequence[ForgeNight] = ()


class Forge(TeamPart):
    """The issues and pull requests of one team."""

    @operation
    async def configure(
        self, settings: ForgeSettings | None, *, by: str, voice: Voice = "agent"
    ) -> ForgeSettings | None:
        """Set which forge the team uses and how; None for none. `voice` says who acts.

        Raises:
            Refused: not_a_person.
        """
        work_rules.refuse_configuring(voice)

        def change(facts: TeamFacts, _: View) -> TeamFacts:
            return facts if facts.forge == settings else facts.evolve(forge=settings)

        await self._change_facts(change, by=by, op="forge.configure")
        return settings

    async def settings(self) -> ForgeSettings | None:
        """How the team uses a forge; None if it uses none.

        Raises:
            ValueError: the settings are damaged.
        """
        return _settings((await self._store.config(self._team)).facts)

    async def now(self) -> OnForge:
        """Return the settings and the tasks that have work on the forge, in id order."""
        view = await self._store.read(self._team)
        tasks = [task for task in view.tasks.values() if task.facts.forge is not None]
        facts = view.team.facts
        return OnForge(_settings(facts), tasks, dict(view.tasks), nights_of(facts))

    @operation
    async def take(self, drafts: Sequence[IssueDraft]) -> list[Task]:
        """Add a task for each issue that has none. Returns the new tasks."""

        def decide(view: View) -> tuple[list[Task], list[Change]]:
            fresh = choosing.to_add(view.tasks().values(), drafts)
            created, blockers = drafted(view, choosing.as_tasks(view.tasks().values(), fresh))
            added = [
                task.with_facts(forge=choosing.first_record(draft))
                for task, draft in zip(created, fresh, strict=True)
            ]
            return added, [PutTask(task) for task in (*added, *blockers)]

        return await self._settle(decide, by=LEAD, op="forge.take")

    @operation
    async def begin(self, task_id: str, wishes: Sequence[Wish]) -> list[ForgeWrite]:
        """Record writes that are about to be made. Returns each one's record, due or done before.

        Make only those that are due, and look for their markers first. A task that came from no
        issue gets its record with its first write.

        Raises:
            Refused: not_on_forge or too_many_writes.
        """
        now = self._clock()

        def decide(view: View) -> tuple[list[ForgeWrite], list[Change]]:
            task = task_of(view, task_id)
            before = work_rules.work_or_new(task, view.team.facts.forge)
            work = outbox_rules.begun(before, wishes, now_ms=now)
            found = [outbox_rules.write_of(work, wish.kind, wish.key) for wish in wishes]
            writes = [each for each in found if each is not None]
            changed = [] if work == before else [PutTask(task.with_facts(forge=work))]
            return writes, [*changed]

        return await self._settle(decide, by=LEAD, op="forge.begin")

    @operation
    async def finish(
        self, task_id: str, n: int, *, there: str | None = None, digest: str | None = None
    ) -> Task:
        """Record that a write was made. `there` is the branch pushed to, or the id of what is new.

        A pushed commit becomes the head of the work, and what its owner was asked is then answered.

        Raises:
            Refused: not_on_forge or no_such_write.
        """
        now = self._clock()
        return await self._put(
            task_id,
            lambda task: work_rules.finished(task, n, there=there, digest=digest, now_ms=now),
            op="forge.finish",
        )

    @operation
    async def drop(self, task_id: str, n: int) -> Task:
        """Record that a due write is not made and is not wanted any more.

        Raises:
            Refused: not_on_forge or no_such_write.
        """
        now = self._clock()

        def rule(task: Task) -> Task:
            return task.with_facts(forge=outbox_rules.dropped(work_of(task), n, now_ms=now))

        return await self._put(task_id, rule, op="forge.drop")

    @operation
    async def label(self, task_id: str, state: str) -> Task:
        """Record which state the labels of the issue show."""
        return await self._put(
            task_id,
            lambda task: task.with_facts(forge=work_of(task).evolve(labelled=state)),
            op="forge.label",
        )

    @operation
    async def give_back(self, task_id: str, heard: Heard) -> Task:
        """Return work to its owner, who is told in the same commit; or hold it for a person.

        What was acted on before, or is about another head, does nothing. Without a round left, a
        person is asked instead.

        Raises:
            Refused: not_on_forge.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = task_of(view, task_id)
            work = work_of(task)
            fresh = work_rules.unheard(work, heard)
            if not fresh or not work_rules.is_returnable(task):
                return task, []
            rounds = work_rules.rounds_of(view.team.facts.forge)
            if not work_rules.may_return(task, work, fresh, rounds):
                after = work_rules.held(task, work_rules.too_often(work), fresh)
                return after, [] if after == task else [PutTask(after)]
            record = task.facts.merge
            owner = None if record is None else record.by
            there = owner is not None and view.team.member(owner) is not None
            back = work_rules.returned(
                task, heard, fresh, owner=owner if there else None, now_ms=now
            )
            changes: list[Change] = [PutTask(back)]
            if owner is not None and there:
                text = work_rules.told(back, heard)
                changes.append(self._message(view, owner, text, message_id, now))
            return back, changes

        return await self._settle(decide, by=LEAD, op="forge.return")

    @operation
    async def hold(self, task_id: str, why: str | None, heard: Heard | None = None) -> Task:
        """Ask a person to look at the work of a task on the forge.

        Without `why`, nobody has to look any more because CI was silent.

        Raises:
            Refused: not_on_forge.
        """

        def rule(task: Task) -> Task:
            if why is None:
                return work_rules.heard_of_ci(task)
            fresh = [] if heard is None else work_rules.unheard(work_of(task), heard)
            return work_rules.held(task, why, fresh)

        return await self._put(task_id, rule, op="forge.ask")

    @operation
    async def resume(
        self, task_id: str, *, by: str, voice: Voice = "agent", head: str | None = None
    ) -> Task:
        """Let work that was held for a person go on, with new rounds.

        With `head`, what others pushed to its branch counts as its head.

        Raises:
            Refused: not_a_person or not_on_forge.
        """
        work_rules.refuse_configuring(voice)
        return await self._put(
            task_id, lambda task: work_rules.resumed(task, head=head), op="forge.resume", by=by
        )

    @operation
    async def reopen(self, task_id: str) -> Task:
        """Let a task go on that ended because its issue was closed: the issue is open again.

        Raises:
            Refused: not_on_forge.
        """
        return await self._put(task_id, work_rules.reopened, op="forge.reopen")

    @operation
    async def settle(
        self,
        task_id: str,
        outcome: ForgeOutcome,
        *,
        commit: str | None = None,
        why: str | None = None,
    ) -> Task:
        """Record how the work of a task ended on the forge, once. Its owner is told if it works.

        Merged work completes the task. Otherwise the task is given up, unless it was done before.

        Raises:
            Refused: not_on_forge.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = task_of(view, task_id)
            after = work_rules.settled(task, outcome, commit=commit, why=why, now_ms=now)
            if after is None:
                return task, []
            changes: list[Change] = [PutTask(after)]
            owner = owner_of(task, view.team.name)
            works = task.status == "in_progress" and owner is not None
            if works and owner is not None and view.team.member(owner) is not None:
                text = work_rules.ended_text(after, outcome, why)
                changes.append(self._message(view, owner, text, message_id, now))
            if after.facts.given_up is not None:
                reason = after.facts.given_up
                changes[:1] = end_with(view, after, reason, by=LEAD, now_ms=now)
            return after, changes

        return await self._settle(decide, by=LEAD, op="forge.settle")

    @staticmethod
    def _message(view: View, to: str, text: str, message_id: str, now_ms: int) -> Deliver:
        message = new_message(
            text, team=view.team, sender=LEAD, message_id=message_id, now_ms=now_ms
        )
        return Deliver(to, message, fresh=True)

    async def _put(
        self, task_id: str, rule: Callable[[Task], Task], *, op: str, by: str = LEAD
    ) -> Task:
        def decide(view: View) -> tuple[Task, list[Change]]:
            task = task_of(view, task_id)
            after = rule(task)
            return after, [] if after == task else [PutTask(after)]

        return await self._settle(decide, by=by, op=op)


def _settings(facts: TeamFacts) -> ForgeSettings | None:
    if facts.forge is None and facts.has("forge"):
        return ForgeSettings.parse(facts.raw["forge"])
    return facts.forge
