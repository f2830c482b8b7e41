"""Who leads a team, and how its run begins and ends. Each change is one commit."""

from __future__ import annotations

from bullpen.protocol.request import Voice
from bullpen.protocol.team import Finished, LeadLease, RunEnd, RunStatus, TeamFacts
from bullpen.store.contract import View
from bullpen.team.agents import rules as agent_rules
from bullpen.team.agents.turns import Turns
from bullpen.team.operation import operation


class Leading(Turns):
    """The lead of one team, and its runs."""

    @operation
    async def take_lead(self, lease: LeadLease, *, by: str, holder_gone: bool = False) -> LeadLease:
        """Take the lead lease for this process. Call it again to renew the lease.

        Raises:
            Conflict: another process leads.
        """
        now = self._clock()
        await self._change_facts(
            lambda facts, _: agent_rules.take_lead(
                facts, lease, now_ms=now, holder_gone=holder_gone
            ),
            by=by,
            op="lead.take",
        )
        return lease

    @operation
    async def drop_lead(self, nonce: str, *, by: str) -> None:
        """Give back the lead lease. Does nothing if another process holds it."""
        await self._change_facts(
            lambda facts, _: agent_rules.drop_lead(facts, nonce), by=by, op="lead.drop"
        )

    async def leader(self) -> LeadLease | None:
        """Return who leads, or led last."""
        return (await self._store.config(self._team)).facts.lead

    @operation
    async def finish(
        self, *, by: str, summary: str, override: str | None = None, voice: Voice = "agent"
    ) -> Finished:
        """Record that the goal is reached. A person may end the run so whatever is open.

        Saying the same again changes nothing.

        Raises:
            Refused: not_lead; or open_tasks while tasks are not completed, unless `override` gives
                a reason to leave them open.
        """
        now = self._clock()
        result = agent_rules.finished(by, summary, override, now, voice=voice)

        def change(facts: TeamFacts, view: View) -> TeamFacts:
            agent_rules.check_finish(
                view.team, view.tasks().values(), by=by, override=override, voice=voice
            )
            there = facts.finished
            if there is not None and there.evolve(at_ms=now) == result:
                return facts
            return facts.evolve(finished=result.raw)

        await self._change_facts(change, by=by, op="team.finish")
        return result

    @operation
    async def unfinish(self, *, by: str) -> None:
        """Reopen a finished team for a new goal. Its time starts again from zero."""
        now = self._clock()
        await self._change_facts(
            lambda facts, _: facts.evolve(finished=None, run_end=None, began_ms=now),
            by=by,
            op="team.unfinish",
        )

    @operation
    async def converse(self, conversation: bool, *, by: str) -> None:
        """Record whether a person talks with the lead, which then waits for words."""
        await self._change_facts(
            lambda facts, _: facts.evolve(conversation=conversation or None),
            by=by,
            op="team.converse",
        )

    @operation
    async def begin_run(self, *, by: str) -> None:
        """Forget how the run before ended: another one is under way."""
        await self._change_facts(lambda facts, _: facts.evolve(run_end=None), by=by, op="run.begin")

    @operation
    async def end_run(self, status: RunStatus, why: str | None, *, by: str) -> None:
        """Record how a run ended."""
        end = RunEnd.new(status=status, why=why, at_ms=self._clock())
        await self._change_facts(
            lambda facts, _: facts.evolve(run_end=end.raw), by=by, op="run.end"
        )

    async def result(self) -> Finished | None:
        """Return how the lead or a person finished, if one did."""
        return (await self._store.config(self._team)).facts.finished
