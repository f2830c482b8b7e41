"""The nights of a team on a forge, in its records. Each step is one commit.

`bullpen.runs.forge` talks to the forge; this module keeps the record. Agents may do none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bullpen.protocol.changes import Change, Deliver, PutTask, PutTeam
from bullpen.protocol.forge import ForgeFix, ForgeNight, ForgeOutcome
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.team.forge import work_rules
from bullpen.team.forge.nights import rules
from bullpen.team.forge.nights.way_back import Fix
from bullpen.team.forge.outbox_rules import Wish
from bullpen.team.mail.operations import assignment
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.tasks.drafts import Draft, drafted

_TOO_OFTEN = "the forge asked for changes too often"


class Nights(TeamPart):
    """The pull requests that hold what our queue merged in a night."""

    async def all(self) -> list[ForgeNight]:
        """Return the nights that are remembered, oldest first."""
        return rules.nights_of((await self._store.config(self._team)).facts)

    @operation
    async def gather(self, there: Sequence[str] = ()) -> ForgeNight | None:
        """Put what our queue merged into the night that is open, or into a new one.

        `there` are tasks whose work the forge's target has already. Returns the open night.
        """
        now = self._clock()

        def decide(view: View) -> tuple[ForgeNight | None, list[Change]]:
            facts = view.team.facts
            before = rules.open_night(rules.nights_of(facts))
            if facts.forge is None or facts.forge.pull_request != "night":
                return before, []
            found = rules.gathered(
                view.tasks(), rules.nights_of(facts), facts.forge, there=there, now_ms=now
            )
            if found is None:
                return before, []
            changes: list[Change] = [PutTask(task) for task in found.tasks]
            changes.append(self._put(view, found.nights))
            return rules.open_night(found.nights), changes

        return await self._settle(decide, by=LEAD, op="forge.gather")

    @operation
    async def begin(self, n: int, wishes: Sequence[Wish]) -> ForgeNight:
        """Record writes that are about to be made.

        Raises:
            Refused: not_on_forge or too_many_writes.
        """
        now = self._clock()
        return await self._change(
            n, lambda night: rules.begun(night, wishes, now_ms=now), op="forge.begin"
        )

    @operation
    async def finish(
        self, n: int, write: int, *, there: str | None = None, digest: str | None = None
    ) -> ForgeNight:
        """Record that a write was made. Once it has a pull request, its tasks say which.

        Raises:
            Refused: not_on_forge or no_such_write.
        """
        now = self._clock()

        def decide(view: View) -> tuple[ForgeNight, list[Change]]:
            nights = rules.nights_of(view.team.facts)
            before = rules.numbered(nights, n)
            after = rules.finished(before, write, there=there, digest=digest, now_ms=now)
            changes: list[Change] = [PutTask(task) for task in rules.shown_in(after, view.tasks())]
            if after != before:
                changes.append(self._put(view, rules.replaced(nights, after)))
            return after, changes

        return await self._settle(decide, by=LEAD, op="forge.finish")

    @operation
    async def drop(self, n: int, write: int) -> ForgeNight:
        """Record that a due write is not made and is not wanted any more.

        Raises:
            Refused: not_on_forge or no_such_write.
        """
        now = self._clock()
        return await self._change(
            n, lambda night: rules.dropped(night, write, now_ms=now), op="forge.drop"
        )

    @operation
    async def join(self, n: int, commit: str) -> ForgeNight:
        """Record the commit that joins the forge's target with ours: the branch gets it too.

        Raises:
            Refused: not_on_forge.
        """
        now = self._clock()
        return await self._change(
            n, lambda night: night.evolve(joined=commit, joined_ms=now), op="forge.gather"
        )

    @operation
    async def ask(self, n: int, fixes: Sequence[Fix], *, head: str | None) -> list[Task]:
        """Make tasks of what the forge asks for; their owners are told in the same commit.

        What was acted on before, or is about another head, does nothing. Without a round left, a
        person is asked instead.

        Raises:
            Refused: not_on_forge.
        """
        now, ids = self._clock(), [self._new_id() for _ in fixes]

        def decide(view: View) -> tuple[list[Task], list[Change]]:
            facts = view.team.facts
            night = rules.numbered(rules.nights_of(facts), n)
            if night.work.outcome is not None or head != night.work.head:
                return [], []
            wanted = [fix for fix in fixes if rules.unheard(night, fix.asked)]
            if not wanted:
                return [], []
            if not rules.rounds_left(night, facts.forge) or not rules.has_room(night, wanted):
                held = rules.held(night, _TOO_OFTEN)
                return [], [self._put(view, rules.replaced(rules.nights_of(facts), held))]
            drafts = [_draft(view, fix) for fix in wanted]
            created, _ = drafted(view, drafts)
            changes: list[Change] = [PutTask(task) for task in created]
            for task, message_id in zip(created, ids, strict=False):
                if task.owner is not None:
                    told = assignment(
                        task, team=view.team, sender=LEAD, message_id=message_id, now_ms=now
                    )
                    changes.append(Deliver(task.owner, told, fresh=True))
            rows = [
                ForgeFix.new(asked=asked, task=task.id, job=fix.jobs.get(asked.heard))
                for fix, task in zip(wanted, created, strict=True)
                for asked in rules.unheard(night, fix.asked)
            ]
            after = rules.asked_for(night, rows)
            changes.append(self._put(view, rules.replaced(rules.nights_of(facts), after)))
            return created, changes

        return await self._settle(decide, by=LEAD, op="task.add")

    @operation
    async def hold(self, n: int, why: str) -> ForgeNight:
        """Ask a person to look at the pull request of a night.

        Raises:
            Refused: not_on_forge.
        """
        return await self._change(n, lambda night: rules.held(night, why), op="forge.ask")

    @operation
    async def resume(
        self, n: int, *, by: str, voice: Voice = "agent", head: str | None = None
    ) -> ForgeNight:
        """Let a night that was held for a person go on, with new rounds.

        Raises:
            Refused: not_a_person, not_on_forge or already_resolved.
        """
        work_rules.refuse_configuring(voice)
        return await self._change(
            n, lambda night: rules.resumed(night, head=head), op="forge.resume", by=by
        )

    @operation
    async def settle(
        self, n: int, outcome: ForgeOutcome, *, commit: str | None = None
    ) -> ForgeNight:
        """Record how a night ended on the forge, once. Merged work ends with it.

        Raises:
            Refused: not_on_forge.
        """
        now = self._clock()

        def decide(view: View) -> tuple[ForgeNight, list[Change]]:
            nights, tasks = rules.nights_of(view.team.facts), view.tasks()
            before = rules.numbered(nights, n)
            found = rules.settled(before, tasks, outcome, commit=commit, now_ms=now)
            if found is None:
                return before, []
            after, changed = found
            changes: list[Change] = [PutTask(task) for task in changed]
            return after, [*changes, self._put(view, rules.replaced(nights, after))]

        return await self._settle(decide, by=LEAD, op="forge.settle")

    async def _change(
        self, n: int, rule: Callable[[ForgeNight], ForgeNight], *, op: str, by: str = LEAD
    ) -> ForgeNight:
        def decide(view: View) -> tuple[ForgeNight, list[Change]]:
            nights = rules.nights_of(view.team.facts)
            before = rules.numbered(nights, n)
            after = rule(before)
            changed = after != before
            changes = [self._put(view, rules.replaced(nights, after))] if changed else []
            return after, [*changes]

        return await self._settle(decide, by=by, op=op)

    @staticmethod
    def _put(view: View, nights: Sequence[ForgeNight]) -> PutTeam:
        return PutTeam({"bullpen": view.team.facts.evolve(nights=[*nights]).raw})


def _draft(view: View, fix: Fix) -> Draft:
    """Return the task of a fix. It is nobody's if its owner left."""
    there = fix.owner is not None and view.team.member(fix.owner) is not None
    return Draft(
        fix.subject, fix.description, owner=fix.owner if there else None, checks=[*fix.checks]
    )
