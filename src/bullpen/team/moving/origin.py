"""Where a team came from and how it runs unattended. Each change is one commit."""

from __future__ import annotations

from bullpen.protocol.team import Limits, Origin, Retention, TeamFacts, Unattended
from bullpen.store.contract import View
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart


class Origins(TeamPart):
    """The team file that a team was created from, and its settings for unattended work."""

    async def get(self) -> Origin | None:
        """Return the team file it was created from, or None. Raises NotFound."""
        return (await self._store.config(self._team)).facts.origin

    @operation
    async def complete(self, *, by: str) -> None:
        """Record that every member and task of the team file was added."""

        def change(facts: TeamFacts, _: View) -> TeamFacts:
            origin = facts.origin
            return (
                facts if origin is None else facts.evolve(origin=origin.evolve(complete=True).raw)
            )

        await self._change_facts(change, by=by, op="team.complete")

    @operation
    async def rebudget(self, limits: Limits, *, by: str) -> None:
        """Replace the limits that came from the team file with its current ones."""

        def change(facts: TeamFacts, _: View) -> TeamFacts:
            origin = facts.origin
            if origin is None or origin.budget == limits.raw:
                return facts
            kept = {
                key: value for key, value in facts.limits.raw.items() if key not in origin.budget
            }
            return facts.evolve(
                limits={**kept, **limits.raw}, origin=origin.evolve(budget=limits.raw).raw
            )

        await self._change_facts(change, by=by, op="team.limits")

    @operation
    async def work_by(
        self, habits: Unattended, *, retention: Retention | None = None, by: str
    ) -> None:
        """Set what Bullpen does unattended, and how much of the log it keeps."""
        kept = None if retention is None else retention.raw
        await self._change_facts(
            lambda facts, _: facts.evolve(unattended=habits.raw, retention=kept),
            by=by,
            op="team.unattended",
        )

    @operation
    async def hush(self, since_ms: int | None, *, by: str) -> None:
        """Record when everybody was paused for quiet hours; None when quiet hours are over."""
        await self._change_facts(
            lambda facts, _: facts.evolve(quiet_ms=since_ms), by=by, op="team.quiet"
        )
