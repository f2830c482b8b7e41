"""What one agent was told about its team, so that a turn can start with what changed since."""

from __future__ import annotations

from bullpen.agents.mail.briefing import Briefing, changes_since
from bullpen.team.snapshot import Snapshot
from bullpen.team.team import Team


class ToldBriefings:
    """The briefings of one launch. Whenever it is not certain what was told, all is told again.

    It is kept in memory only: a new process starts with the whole briefing.
    """

    def __init__(self, team: Team, agent: str) -> None:
        self._team = team
        self._agent = agent
        # What the conversation contains for sure, and what is being told in this turn.
        self._told: Briefing | None = None
        self._telling: Briefing | None = None

    def of_turn(self, snapshot: Snapshot, *, keeps: bool) -> tuple[str, bool]:
        """The briefing of a new turn, and whether it is whole.

        With `keeps`, the driver keeps its conversation, or asks for the whole briefing itself.
        """
        told, now = self._told, Briefing.of(snapshot, self._agent)
        # Unknown until the turn succeeds.
        self._told, self._telling = None, now
        news = changes_since(told, now) if keeps and told is not None else None
        return (now.whole(), True) if news is None else (news, False)

    async def whole(self) -> str:
        """The whole briefing as of now, for a conversation that lost what it was told."""
        self._telling = Briefing.of(await self._team.snapshot(), self._agent)
        return self._telling.whole()

    def turn_over(self, *, succeeded: bool) -> None:
        """Remember what the turn told, if it was in a request that succeeded."""
        self._told, self._telling = self._telling if succeeded else None, None
