"""What becomes of an agent that meets a limit: it stops, its work is kept, somebody is told."""

from __future__ import annotations

from contextlib import suppress

import anyio
import anyio.lowlevel

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.errors import Refused
from bullpen.protocol.agent import COORDINATION, AgentFacts, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from bullpen.team.budget.rules import Reached
from bullpen.team.team import Team
from support.crews import Crew, eventually


async def facts(team: Team, name: str = "alice") -> AgentFacts:
    return (await team.agents.get(name))[1]


async def told_to_lead(team: Team) -> list[str]:
    """What the lead was told of agents that stopped or failed."""
    box = await team.mailbox.read(LEAD)
    payloads = [payload_of(entry.message.text) for entry in box.entries]
    return [
        payload.failure_reason
        for payload in payloads
        if isinstance(payload, IdleNotification) and payload.failure_reason
    ]


async def spend_for_ever(given: TurnInput, desk: Desk) -> str:
    """A turn that asks its model again and again."""
    while True:
        await desk.may_spend()
        desk.used(Usage.new(requests=1, input_tokens=100, cost_usd=0.1))


async def never_mind(given: TurnInput, desk: Desk) -> str:
    """A driver that does not care what it may."""
    while True:
        with suppress(Refused):
            await desk.may_spend()
        desk.used(Usage.new(requests=1, input_tokens=100))
        await anyio.lowlevel.checkpoint()


async def test_a_turn_is_cut_short_at_the_request_that_would_pass_the_limit(crew: Crew) -> None:
    """R-5.3: stop, keep work, tell the human: how much was used and how to raise it."""
    await crew.team.agents.limit(by=LEAD, usd=0.45)
    await crew.team.tasks.add("Work", by=LEAD)
    alice = await crew.hire("alice", spend_for_ever, claims=True)
    await eventually(lambda: alice.ended is not None)
    agent = await facts(crew.team)
    assert (agent.end, agent.usage.requests) == ("stopped", 5)
    assert agent.cause is not None
    for part in ("Team 'alpha' has used $0.50 of $0.45", "team limits alpha --usd X", "resume"):
        assert part in agent.cause
    assert (await crew.team.tasks.get("1")).status == "pending"
    (told,) = await told_to_lead(crew.team)
    assert agent.cause in told


async def test_a_driver_that_does_not_care_is_stopped_all_the_same(crew: Crew) -> None:
    """R-5.3: the limit is the runner's, not the driver's."""
    await crew.team.agents.limit(by=LEAD, tokens=250)
    alice = await crew.hire("alice", never_mind, prompt="Go")
    await eventually(lambda: alice.ended is not None)
    assert (await facts(crew.team)).end == "stopped"
    # The request that it made in spite of the refusal is in the account.
    assert (await facts(crew.team)).usage.tokens == 400


async def test_the_lead_is_told_once_of_a_limit_that_an_agent_met(crew: Crew) -> None:
    await crew.team.agents.limit(by=LEAD, usd=0.15)
    alice = await crew.hire("alice", spend_for_ever, prompt="Go")
    await eventually(lambda: alice.ended is not None)
    for number in (2, 3):
        await crew.team.agents.relaunch("alice", by=LEAD, nonce=f"launch-{number}")
        agent = await facts(crew.team)
        assert agent.met == ["team:alpha:usd:0.15"]
        await crew.team.agents.end(
            "alice",
            "stopped",
            by="alice",
            nonce=agent.nonce,
            reached=Reached("alpha", "team", "alpha", "usd", 0.2, 0.15),
        )
    assert len(await told_to_lead(crew.team)) == 1


async def test_a_running_turn_ends_when_the_time_is_over(crew: Crew) -> None:
    """R-5.3: wall clock: a turn that only waits is ended too, and what it used is kept."""

    async def waits(given: TurnInput, desk: Desk) -> str:
        desk.used(Usage.new(requests=1, input_tokens=5))
        await anyio.sleep(600)
        return "never"

    await crew.team.agents.limit(by=LEAD, wall_s=1.0)
    alice = await crew.hire("alice", waits, prompt="Go")
    await eventually(lambda: alice.ended is not None, within_s=30)
    agent = await facts(crew.team)
    assert agent.end == "stopped"
    assert "Team 'alpha' has had" in (agent.cause or "")
    assert "--seconds S" in (agent.cause or "")
    assert agent.usage.input_tokens == 5
    assert alice.told("end")[-1]["interrupted"] == "limit"


async def test_a_task_over_its_budget_is_given_back_and_its_owner_goes_on(crew: Crew) -> None:
    """R-5.3: per task: the owner gives it back with the reason and works on the others."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        (task_id,) = desk.attempts
        for _ in range(5):
            await desk.may_spend()
            desk.used(Usage.new(requests=1, input_tokens=100), calls=["Bash"])
        await desk.complete(task_id, report="It is done.")
        return ""

    await crew.team.tasks.add("Dear", by=LEAD, budget={"tokens": 250})
    await crew.team.tasks.add("Cheap", by=LEAD)
    alice = await crew.hire("alice", turn, claims=True)

    async def done() -> bool:
        return (await crew.team.tasks.get("2")).status == "completed"

    await eventually(done)
    dear = await crew.team.tasks.get("1")
    assert (dear.status, dear.owner, alice.ended) == ("pending", None, None)
    assert "Task #1 has used 300 tokens of 250" in (dear.facts.released or "")
    assert "Task #1 has used 300 tokens" in alice.turns[1]

    async def booked() -> bool:
        spent = {row.task: row.input_tokens for row in (await facts(crew.team)).account}
        return spent == {"1": 300, "2": 500}

    await eventually(booked)
    texts = [entry.message.text for entry in (await crew.team.mailbox.read(LEAD)).entries]
    assert sum("I gave task #1 back" in text for text in texts) == 1


async def test_turns_are_counted_for_the_task_and_end_with_its_budget(crew: Crew) -> None:
    async def idles(given: TurnInput, desk: Desk) -> str:
        desk.wake("go on")
        return ""

    await crew.team.tasks.add("Slow", by=LEAD, budget={"turns": 2})
    alice = await crew.hire("alice", idles, claims=True)
    await eventually(lambda: len(alice.turns) >= 3)
    task = await crew.team.tasks.get("1")
    assert (task.status, task.facts.attempt) == ("pending", 1)
    rows = {row.task: row.turns for row in (await facts(crew.team)).account}
    assert rows["1"] == 2
    assert "Task #1 has had 2 turns of 2" in alice.turns[2]


async def test_answers_that_only_write_to_the_team_are_coordination(crew: Crew) -> None:
    """R-5.4: coordination is what is done without a task, or only to talk about the work."""
    done = anyio.Event()

    async def turn(given: TurnInput, desk: Desk) -> str:
        requests: list[list[str]] = [
            [],
            ["Read"],
            ["Bash", "SendMessage"],
            ["SendMessage"],
            ["TaskUpdate", "TaskList"],
        ]
        for calls in requests:
            await desk.may_spend()
            desk.used(Usage.new(requests=1), calls=calls)
        await desk.complete("1", report="It is done.")
        done.set()
        return ""

    await crew.team.tasks.add("Work", by=LEAD)
    await crew.hire("alice", turn, claims=True)
    await done.wait()

    async def booked() -> bool:
        rows = {row.task: row.requests for row in (await facts(crew.team)).account}
        return rows == {"1": 3, COORDINATION: 2}

    await eventually(booked)
