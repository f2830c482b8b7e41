"""The lead is told which tasks a teammate left, however it ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, End, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import RequestState
from bullpen.team.tasks import guarded_rules
from bullpen.team.team import Team

PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")
QUESTION = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}
LEFT = "It left 2 tasks, pending and nobody's now: #1, #2. See TaskList."


async def hired(team: Team, name: str = "ann", **fields: Any) -> None:
    spec = AgentSpec.new(driver="told", backend="in-process", cwd="/", **fields)
    await team.agents.register(name, spec, by=LEAD, nonce=f"{name}-1")
    await team.agents.ready(name, nonce=f"{name}-1", place=PLACE)


async def with_tasks(team: Team) -> None:
    await hired(team)
    await team.tasks.add("One", by=LEAD, owner="ann")
    await team.tasks.add("Two", by=LEAD)
    await team.tasks.claim("2", by="ann")


async def told(team: Team) -> list[str]:
    return [entry.message.text for entry in (await team.mailbox.read(LEAD)).entries]


async def end(team: Team, how: End, cause: str) -> None:
    await team.agents.end("ann", how, by=LEAD, nonce="ann-1", cause=cause)


@pytest.mark.parametrize(
    ("how", "cause"),
    [("stopped", "the lead stopped it"), ("finished", "agreed to the shutdown")],
)
async def test_an_agent_that_ends_in_order_says_which_tasks_it_left(
    team: Team, how: End, cause: str
) -> None:
    await with_tasks(team)
    await end(team, how, cause)
    assert await told(team) == [f"ann has ended ({how}: {cause}). {LEFT}"]
    tasks = (await team.tasks.list()).tasks
    assert [(task.status, task.owner) for task in tasks] == [("pending", None)] * 2
    # The tasks and the message are one commit.
    assert (await team.events())[-1].op == "agent.end"


@pytest.mark.parametrize("how", ["failed", "lost"])
async def test_an_agent_that_fails_says_so_in_the_same_message(team: Team, how: End) -> None:
    await with_tasks(team)
    await end(team, how, "it fell silent")
    (text,) = await told(team)
    assert json.loads(text)["failureReason"] == f"ann is {how}: it fell silent. {LEFT}"


async def test_who_leaves_nothing_is_not_reported_when_it_ends_in_order(team: Team) -> None:
    await hired(team)
    await end(team, "stopped", "enough")
    assert await told(team) == []


async def test_a_suspended_agent_keeps_its_tasks_and_says_nothing(team: Team) -> None:
    await with_tasks(team)
    await end(team, "suspended", "the team is stopped")
    assert await told(team) == []


async def test_a_lead_that_has_ended_is_told_nothing(team: Team) -> None:
    await hired(team, LEAD)
    await with_tasks(team)
    await team.agents.end(LEAD, "stopped", by=LEAD, nonce=f"{LEAD}-1", cause="enough")
    await end(team, "stopped", "the run is over")
    assert await told(team) == []


async def test_a_member_that_leaves_by_itself_says_which_tasks_it_left(team: Team) -> None:
    await team.tasks.add("One", by=LEAD)
    await team.tasks.claim("1", by="alice")
    await team.roster.remove("alice", by="alice")
    (text,) = await told(team)
    left = "It left 1 task, pending and nobody's now: #1. See TaskList."
    assert text == f"alice has ended (left the team). {left}"


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("stopped", "expired"), ("failed", "expired"), ("finished", "expired"),
        # These may use the answer when they go on.
        ("suspended", "pending"), ("lost", "pending"),
    ],
)  # fmt: skip
async def test_nobody_can_answer_an_agent_that_has_ended(
    team: Team, how: End, state: RequestState
) -> None:
    await hired(team)
    await hired(team, "cleo")
    asked = [
        await team.approvals.ask_permission("Bash", {"command": "make"}, by="ann"),
        await team.approvals.ask_question([QUESTION], by="ann"),
    ]
    others = [
        await team.approvals.ask_permission("Bash", {"command": "make"}, by="cleo"),
        await team.approvals.ask_permission(guarded_rules.TOOL, {"paths": []}, by="ann"),
    ]
    await end(team, how, "it was told to")
    found = await team.approvals.all()
    assert [found[request.id].state for request in asked] == [state] * 2
    assert [found[request.id].state for request in others] == ["pending"] * 2


async def test_an_agent_that_has_ended_asks_nothing_more(team: Team) -> None:
    await hired(team)
    await end(team, "stopped", "a person stopped it")
    with pytest.raises(Refused, match="has ended and cannot ask"):
        await team.approvals.ask_permission("Bash", {"command": "make"}, by="ann")
    with pytest.raises(Refused, match="has ended and cannot ask"):
        await team.approvals.ask_question([QUESTION], by="ann")
    assert await team.approvals.all() == {}
