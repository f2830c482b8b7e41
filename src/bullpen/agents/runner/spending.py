"""Record what one agent uses, and check it against its budgets.

A report has a number and is in the transcript before it is in the team's record. So the next
process records what a killed one could not, and nothing counts twice. Only a request that was under
way is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from anyio import to_thread

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.agents.system.transcript import own_rows
from bullpen.agents.tools.planning.note_tools import NOTE_TOOLS
from bullpen.agents.tools.task_tools import TASK_TOOLS
from bullpen.agents.tools.team_tools import TEAM_TOOLS
from bullpen.errors import Conflict
from bullpen.protocol.agent import COORDINATION, AgentFacts, Spent, Usage
from bullpen.protocol.payloads import IdleNotification
from bullpen.team.agents.turns import AgentTurn, Booked
from bullpen.team.budget.rules import OverBudget, about_tokens, together

ToldKind = Literal["digest", "mail", "reminder"]

_COORDINATING = {tool.name for tool in (*TASK_TOOLS, *NOTE_TOOLS)}
_COORDINATING |= {tool.name for tool in TEAM_TOOLS}
"""An answer that only calls these tools is coordination."""


class Spending:
    """The usage of one launch of an agent."""

    def __init__(self, desk: Desk, *, nonce: str, cut_turn: Callable[[], None]) -> None:
        self._agents = desk.team.agents
        self._agent = desk.agent
        self._model = desk.spec.model
        self._attempts = desk.attempts
        self._record = desk.record
        self._nonce = nonce
        self._cut_turn = cut_turn
        self._booked = Usage.new()
        self._is_adopted = False
        self._reports: dict[int, Spent] = {}
        self._number = 0
        # The number of the last turn that began.
        self._turn = 0
        self._task: str | None = None
        # The tokens that the next report adds, by kind.
        self._told: dict[ToldKind, int] = {}
        self.over: OverBudget | None = None

    @property
    def total(self) -> Usage | None:
        """Everything that the agent has used so far; None until what it used before is known."""
        return together([self._booked, *self._reports.values()]) if self._is_adopted else None

    async def adopt(self, facts: AgentFacts, folder: Path) -> None:
        """Continue after an earlier launch, with the reports that it could not record."""
        self._settled(facts)
        self._number = facts.reports
        self._turn = facts.usage.turns
        if facts.launch > 1:
            found = await to_thread.run_sync(_unbooked, folder, facts)
            self._reports |= found
            self._number = max(self._number, *found, 0)
            await self._book()
        self._is_adopted = True

    async def begin_turn(self) -> AgentTurn:
        """Start a turn; asking again for the same one is fine.

        Raises OverBudget if the budget is used up.
        """
        self.over = None
        number = self._turn + 1
        turn = await self._agents.begin_turn(
            self._agent, nonce=self._nonce, task=self._in_hand, number=number
        )
        self._turn = number
        self._settled(turn.agent)
        self._task = turn.task
        return turn

    def told(self, kind: ToldKind, *texts: str) -> None:
        """Count what the model is told with its next request."""
        self._told[kind] = self._told.get(kind, 0) + sum(map(about_tokens, texts))

    def turn_over(self) -> None:
        """Forget what no request took along."""
        self._told.clear()

    def used(self, usage: Usage, calls: Sequence[str], model: str | None = None) -> None:
        """Report the usage of one request, which tools its answer calls, and another model's name.

        It is charged to the task that was in progress when the request was made. Without one, or if
        the answer only coordinates, it is coordination.
        """
        coordinates = bool(calls) and _COORDINATING.issuperset(calls)
        task = COORDINATION if coordinates or self._task is None else self._task
        self._number += 1
        amounts = {name: getattr(usage, name) for name in Usage.field_keys()}
        amounts |= {f"{kind}_tokens": tokens for kind, tokens in self._told.items()}
        self._told.clear()
        report = Spent.new(**amounts, task=task, model=model or self._model)
        self._record("usage", **report.raw, number=self._number)
        self._reports[self._number] = report

    async def check(self) -> None:
        """Record the usage, then check the budgets.

        Raises OverBudget if one is used up. The turn is cut short, whatever the driver does about
        it.
        """
        booked = await self._book()
        self._task = booked.task
        if booked.reached is not None:
            self.over = OverBudget(booked.reached)
            self._cut_turn()
            raise self.over

    async def end_turn(self, number: int, idle: IdleNotification | None) -> None:
        """Record the remaining usage and the end of the turn; asking again is fine."""
        facts = await self._agents.end_turn(
            self._agent, nonce=self._nonce, reports=dict(self._reports), idle=idle, number=number
        )
        self._settled(facts)

    async def before_the_end(self) -> None:
        """Record what was used since, if this launch may still: no turn's end does it."""
        if self._reports:
            with suppress(Conflict):
                await self._book()

    async def _book(self) -> Booked:
        booked = await self._agents.spend(
            self._agent, nonce=self._nonce, reports=dict(self._reports), task=self._in_hand
        )
        self._settled(booked.agent)
        return booked

    @property
    def _in_hand(self) -> str | None:
        """The task that it claimed last and still has, as far as its runner knows."""
        return next(reversed(list(self._attempts)), None)

    def _settled(self, facts: AgentFacts) -> None:
        self._booked = facts.usage
        self._reports = {
            number: report for number, report in self._reports.items() if number > facts.reports
        }


def _unbooked(folder: Path, facts: AgentFacts) -> dict[int, Spent]:
    """The reports in an agent's transcript that are not in the team's record."""

    def is_booked(row: dict[str, Any]) -> bool:
        # What was used before the end of a turn is booked with it.
        booked = facts.reports if row["kind"] == "usage" else facts.turn_ended
        number = row.get("number")
        return isinstance(number, int) and number <= booked

    found = {}
    written = own_rows(
        folder / TRANSCRIPT, born_ms=facts.began_ms, kinds=("usage", "end"), until=is_booked
    )
    for row in written:
        number = row.get("number") if row["kind"] == "usage" else None
        if isinstance(number, int) and number > facts.reports:
            with suppress(ValueError):
                found[number] = Spent.parse(row)
    return found
