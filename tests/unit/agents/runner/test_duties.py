"""What the runner sees to between turns: tasks, reminders, limits, the lead and its goal."""

from __future__ import annotations

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.errors import Conflict, Refused, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.team.agents.turns import Turns
from bullpen.view.news import news
from support.crews import QUICK, Crew, eventually


async def test_an_idle_agent_takes_a_ready_task_by_itself(crew: Crew) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        for task_id, attempt in list(desk.attempts.items()):
            await desk.team.tasks.done(task_id, by=desk.agent, attempt=attempt)
            del desk.attempts[task_id]
        return "done"

    alice = await crew.hire("alice", turn, claims=True)
    await crew.team.tasks.add("One", by=LEAD, description="the first")
    await crew.team.tasks.add("Two", by=LEAD, blocked_by=["1"])

    async def completed() -> bool:
        return all(t.status == "completed" for t in (await crew.team.tasks.list()).tasks)

    await eventually(completed)
    assert "You have claimed task: #1 One\n\nthe first" in alice.turns[0]


async def test_an_agent_that_ends_its_turn_with_an_open_task_is_reminded_then_gives_it_back(
    crew: Crew,
) -> None:
    """R-7.2: going idle while owning an open task triggers a nudge, then the task is free."""
    alice = await crew.hire("alice", claims=True)
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: len(alice.turns) == 4)
    assert sum("still yours" in text for text in alice.turns) == 3
    assert ["last reminder" in text for text in alice.turns] == [False, False, False, True]

    async def is_free() -> bool:
        task = await crew.team.tasks.get("1")
        return task.status == "pending" and task.owner is None

    await eventually(is_free)
    await anyio.sleep(0.3)
    assert len(alice.turns) == 4
    box = await crew.team.mailbox.read(LEAD)
    assert any("gave task #1 back" in entry.message.text for entry in box.entries)
    assert (alice.desk.activity.state, alice.desk.activity.detail) == ("idle", None)
    shown = [line for event in await crew.team.events() for line in news(event)]
    assert [line for line in shown if line.startswith("reminded")] == [
        f"reminded alice of #1 ({times} of 3)" for times in (1, 2, 3)
    ]


async def test_a_reminder_is_given_although_it_cannot_be_shown(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(*_: object, **__: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(Turns, "remind", cannot)
    alice = await crew.hire("alice", claims=True)
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: sum("still yours" in text for text in alice.turns) == 3)


async def test_only_open_tasks_of_its_own_are_shown_as_reminded(crew: Crew) -> None:
    alice, team = await crew.hire("alice"), crew.team
    for subject in ("One", "Two", "Three"):
        await team.tasks.add(subject, by=LEAD)
    await team.tasks.assign("1", "alice", by=LEAD)
    await team.tasks.done("2", by=LEAD)
    nonce = alice.desk.nonce
    await team.agents.remind("alice", ["1", "2", "3", "9"], nonce=nonce, times=1, most=3)
    # She may begin or end a turn meanwhile.
    told = [news(event) for event in await team.events() if event.op == "task.remind"]
    assert told == [["reminded alice of #1 (1 of 3)"]]
    reminded = (await team.tasks.get("1")).facts.reminded
    assert reminded is not None and (reminded.by, reminded.attempt) == ("alice", 0)
    assert (await team.tasks.get("3")).facts.reminded is None
    with pytest.raises(Conflict):
        await team.agents.remind("alice", ["1"], nonce="older", times=1, most=3)


async def test_an_idle_agent_owes_only_tasks_that_are_still_its_own(crew: Crew) -> None:
    async def asks(given: TurnInput, desk: Desk) -> str:
        desk.wrote("bob", "A question")
        return "I asked bob."

    alice = await crew.hire("alice", asks, claims=True)
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: alice.desk.activity.detail == "still has task #1")
    since = alice.desk.activity.since_ms
    await crew.team.tasks.delete("1", by=LEAD)
    await eventually(lambda: alice.desk.activity.detail is None)
    assert (alice.desk.activity.state, alice.desk.activity.since_ms) == ("idle", since)


async def test_an_agent_that_asked_somebody_is_not_reminded_at_once(crew: Crew) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.wrote("bob", "how?")
        return "I asked bob"

    alice = await crew.hire("alice", turn, claims=True)
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: len(alice.turns) == 1)
    await anyio.sleep(0.5)
    assert len(alice.turns) == 1


async def test_the_limit_on_turns_stops_an_agent_and_keeps_its_work(crew: Crew) -> None:
    """R-5.3: checked before each turn; at the limit: stop, keep work."""
    await crew.team.agents.limit(by=LEAD, turns=3)

    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.wake("and again")
        return ""

    alice = await crew.hire("alice", turn, prompt="Go")
    await eventually(lambda: alice.ended is not None)
    assert len(alice.turns) == 3
    assert alice.ended is not None
    assert alice.ended.end == "stopped"
    assert "3 turns" in (alice.ended.cause or "")


async def test_a_lead_ends_when_it_has_finished(crew: Crew) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        await desk.team.agents.finish(by=desk.agent, summary="There it is")
        return "finished"

    lead = await crew.hire(LEAD, turn, options={"until_done": True}, prompt="The goal")
    await eventually(lambda: lead.ended is not None)
    assert (await crew.team.agents.result()) is not None


async def test_a_person_may_finish_with_open_tasks_and_an_agent_may_not(crew: Crew) -> None:
    await crew.team.tasks.add("Open", by=LEAD)
    with pytest.raises(Refused) as refused:
        await crew.team.agents.finish(by="alice", summary="Done")
    assert refused.value.reason == "not_lead"
    done = await crew.team.agents.finish(by="bob", summary="Enough", voice="human")
    assert (done.voice, done.override) == ("human", None)
    assert await crew.team.agents.result() == done


async def test_only_one_process_leads_and_another_can_take_over(crew: Crew) -> None:
    """R-11a: lead is a role that is claimed with a lease."""
    from bullpen.errors import Conflict
    from bullpen.protocol.team import LeadLease

    agents, now = crew.team.agents, crew._clock()
    first = LeadLease.new(nonce="first", until_ms=now + 60_000, host="h", pid=1, start="s")
    second = LeadLease.new(nonce="second", until_ms=now + 60_000, host="h", pid=2, start="s")
    await agents.take_lead(first, by=LEAD)
    with pytest.raises(Conflict, match="Process 1 on h leads"):
        await agents.take_lead(second, by=LEAD)
    await agents.take_lead(second, by=LEAD, holder_gone=True)
    with pytest.raises(Conflict):
        await agents.take_lead(first, by=LEAD)
    await agents.drop_lead("first", by=LEAD)
    assert (await agents.leader()) == second


async def test_a_heartbeat_tells_the_tool_and_what_was_done_last(crew: Crew) -> None:
    go_on = anyio.Event()

    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.doing("Read", "a.py")
        desk.doing("Bash", "make test")
        await go_on.wait()
        return ""

    await crew.hire("alice", turn, prompt="Go", pace=QUICK)

    async def told() -> bool:
        beat = (await crew.team.agents.presence())["alice"]
        return (beat.state, beat.tool, beat.actions) == (
            "working",
            "Bash",
            ["Read a.py", "Bash make test"],
        )

    await eventually(told)
    go_on.set()
