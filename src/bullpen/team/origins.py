"""Where a team came from, and how it works when nobody looks: each change in one commit."""

from __future__ import annotations

from collections.abc import Callable

from bullpen.protocol.agent import Limits, TeamFacts
from bullpen.protocol.changes import Change, PutTeam
from bullpen.protocol.unattended import Origin, Unattended
from bullpen.store.base import View
from bullpen.team.decision import Part


class Origins(Part):
    """The file that a team was made from, and what code does for it."""

    async def get(self) -> Origin | None:
        """The file it was made from; None if it was made otherwise. Raises NotFound."""
        return (await self._store.config(self._team)).facts.made_from

    async def complete(self, *, by: str) -> None:
        """Record that everybody of the file was started and every task of it added."""

        def change(facts: TeamFacts) -> TeamFacts:
            origin = facts.made_from
            return (
                facts if origin is None else facts.evolve(origin=origin.evolve(complete=True).raw)
            )

        await self._change(change, by=by, op="team.complete")

    async def rebudget(self, limits: Limits, *, by: str) -> None:
        """Let the limits be what the file says now, in place of what it said before."""

        def change(facts: TeamFacts) -> TeamFacts:
            origin = facts.made_from
            if origin is None or origin.budget == limits.raw:
                return facts
            kept = {
                key: value
                for key, value in (facts.limits or {}).items()
                if key not in origin.budget
            }
            return facts.evolve(
                limits={**kept, **limits.raw}, origin=origin.evolve(budget=limits.raw).raw
            )

        await self._change(change, by=by, op="team.limits")

    async def work_by(self, habits: Unattended, *, by: str) -> None:
        """Say what code does when nobody looks."""
        await self._change(
            lambda facts: facts.evolve(unattended=habits.raw), by=by, op="team.unattended"
        )

    async def hush(self, since_ms: int | None, *, by: str) -> None:
        """Record since when everybody is paused for quiet hours; None when these are over."""
        await self._change(lambda facts: facts.evolve(quiet_ms=since_ms), by=by, op="team.quiet")

    async def _change(self, change: Callable[[TeamFacts], TeamFacts], *, by: str, op: str) -> None:
        def decide(view: View) -> tuple[None, list[Change]]:
            before = view.team.facts
            after = change(before)
            return None, [] if after == before else [PutTeam({"bullpen": after.raw})]

        await self._settle(decide, by=by, op=op)
