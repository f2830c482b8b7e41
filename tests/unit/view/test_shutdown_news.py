"""The news tell what a member answers when it is asked to end."""

from __future__ import annotations

import pytest

from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.view.news import news


@pytest.mark.parametrize(
    ("approve", "feedback", "line"),
    [
        (True, None, "ann agrees to end"),
        (False, "busy with #3", "ann goes on working (busy with #3)"),
    ],
)
async def test_both_answers_are_news(approve: bool, feedback: str | None, line: str) -> None:
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("ann", by=LEAD)
        request = await team.approvals.ask_shutdown("ann", by=LEAD)
        await team.approvals.answer(request.id, approve=approve, by="ann", feedback=feedback)
        told = [line for event in await team.events() for line in news(event)]
    assert told == ["team-lead asks ann to end", line]


async def test_no_answer_is_news_too() -> None:
    clock = iter(range(1_000_000, 9_000_000, 100_000))
    async with Teams(MemoryStore(), clock=lambda: next(clock)) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("ann", by=LEAD)
        await team.approvals.ask_shutdown("ann", by=LEAD, deadline_s=1)
        await team.approvals.expire()
        told = news((await team.events())[-1])
    assert told == ["ann did not say whether it ends (No answer by the deadline.)"]
