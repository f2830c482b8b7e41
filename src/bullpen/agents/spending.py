"""What one agent uses: reported by its driver, booked in the team, checked against its budgets.

A report is in the transcript before it is in the team's books, and has a number. So what a killed
process had reported and not booked is booked by the next one, and nothing is booked twice. Lost is
only a request that was under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread

from bullpen.agents.tools.tasks import TASK_TOOLS
from bullpen.agents.tools.team import TEAM_TOOLS
from bullpen.agents.transcript import NAME as TRANSCRIPT
from bullpen.agents.transcript import rows
from bullpen.protocol.agent import COORDINATION, AgentFacts, Spent, Usage
from bullpen.protocol.payloads import IdleNotification
from bullpen.team.agents import Booked, Turn
from bullpen.team.budget_rules import OverBudget, together
from bullpen.team.team import Team

_COORDINATING = frozenset(tool.name for tool in (*TASK_TOOLS, *TEAM_TOOLS))
"""An answer that only calls these does nothing but coordinate."""


class Spending:
    """The account of one launch of an agent."""

    def __init__(
        self,
        team: Team,
        agent: str,
        model: str | None,
        *,
        attempts: Mapping[str, int],
        record: Callable[..., None],
    ) -> None:
        self._agents = team.agents
        self._agent = agent
        self._model = model
        self._attempts = attempts
        self._record = record
        self._booked = Usage.new()
        self._reports: dict[int, Spent] = {}
        self._number = 0
        self._task: str | None = None
        # Set by the runner: which launch this is, and how a turn is cut short.
        self.nonce = ""
        self.cut: Callable[[], None] = lambda: None
        self.over: OverBudget | None = None

    @property
    def total(self) -> Usage:
        """All that the agent has used so far."""
        return together([self._booked, *self._reports.values()])

    async def adopt(self, facts: AgentFacts, folder: Path) -> None:
        """Go on where the launch before ended, with what that one could not book any more."""
        self._settled(facts)
        self._number = facts.reports
        if facts.launch > 1:
            found = await to_thread.run_sync(_unbooked, folder, facts)
            self._reports |= found
            self._number = max(self._number, *found, 0)
            await self._book()

    async def begin_turn(self) -> Turn:
        """Begin a turn. Raises OverBudget if nothing is left for it."""
        self.over = None
        turn = await self._agents.begin_turn(self._agent, nonce=self.nonce, task=self._in_hand)
        self._settled(turn.agent)
        self._task = turn.task
        return turn

    def used(self, usage: Usage, calls: Sequence[str]) -> None:
        """Report what one request used, and which tools its answer calls.

        It was for the task that the agent had in progress when the request was made. It was
        coordination if there was none, or if the answer does nothing but coordinate.
        """
        coordinates = bool(calls) and _COORDINATING.issuperset(calls)
        task = COORDINATION if coordinates or self._task is None else self._task
        self._number += 1
        report = Spent.new(**_amounts(usage), task=task, model=self._model)
        self._record("usage", **report.raw, number=self._number)
        self._reports[self._number] = report

    async def check(self) -> None:
        """Book what was used, then see that something is left.

        Raises:
            OverBudget: nothing is. The turn is cut short, whatever the driver does about it.
        """
        booked = await self._book()
        self._task = booked.task
        if booked.reached is not None:
            self.over = OverBudget(booked.reached)
            self.cut()
            raise self.over

    async def end_turn(self, idle: IdleNotification | None) -> None:
        """Book what is left to book, and the end of the turn with it."""
        facts = await self._agents.end_turn(
            self._agent, nonce=self.nonce, reports=dict(self._reports), idle=idle
        )
        self._settled(facts)

    async def _book(self) -> Booked:
        booked = await self._agents.spend(
            self._agent, nonce=self.nonce, reports=dict(self._reports), task=self._in_hand
        )
        self._settled(booked.agent)
        return booked

    @property
    def _in_hand(self) -> str | None:
        """The task that it took last and still has, as far as its runner knows."""
        return next(reversed(list(self._attempts)), None)

    def _settled(self, facts: AgentFacts) -> None:
        self._booked = facts.used
        self._reports = {
            number: report for number, report in self._reports.items() if number > facts.reports
        }


def _amounts(usage: Usage) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in Usage.model_fields}


def _unbooked(folder: Path, facts: AgentFacts) -> dict[int, Spent]:
    """The reports in the transcript of this agent that are not in the team's books."""
    return dict(_reports_of(rows(folder / TRANSCRIPT), facts))


def _reports_of(
    transcript: Iterable[dict[str, Any]], facts: AgentFacts
) -> Iterable[tuple[int, Spent]]:
    own = False
    for row in transcript:
        if row.get("kind") == "ready":
            # One that had the same name before it has its rows in the same transcript.
            own = row.get("born") == facts.began_ms
        number = row.get("number")
        if not own or row.get("kind") != "usage" or not isinstance(number, int):
            continue
        if number > facts.reports:
            try:
                yield number, Spent.parse(row)
            except ValueError:
                continue
