"""The runner: what begins a turn, what a turn is given, what becomes of it."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed, TurnInput
from bullpen.agents.hooks.lifecycle import AgentHooks
from bullpen.agents.runner.control import Ended
from bullpen.agents.runner.pace import Pace
from bullpen.agents.runner.spending import Spending
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Refused, Unavailable, Unreadable
from bullpen.protocol.agent import AgentFacts, Failure
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, IdleNotification, payload_of
from bullpen.protocol.presence import Presence
from bullpen.protocol.team import TeamConfig
from bullpen.team.agents.operations import Agents
from bullpen.team.agents.turns import AgentTurn
from bullpen.team.team import Team
from support.crews import Crew, Hired, eventually


async def notices(team: Team) -> list[IdleNotification]:
    """What the lead was told about ended turns."""
    box = await team.mailbox.read(LEAD)
    payloads = (payload_of(entry.message.text) for entry in box.entries)
    return [payload for payload in payloads if isinstance(payload, IdleNotification)]


async def order(team: Team, to: str, action: str, *, sender: str = LEAD) -> None:
    text = Control.new(action=action, sender=sender).text()
    await team.mailbox.send(to, text, sender=sender)


async def state(team: Team, name: str) -> tuple[str, str | None]:
    beat = (await team.agents.presence())[name]
    return beat.state, beat.detail


async def test_the_prompt_is_the_first_message_and_begins_the_first_turn(crew: Crew) -> None:
    alice = await crew.hire("alice", prompt="Look at the parser")
    await eventually(lambda: len(alice.turns) == 1)
    assert "Look at the parser" in alice.turns[0]
    assert 'teammate_id="team-lead"' in alice.turns[0]


async def test_the_prompt_comes_before_mail_that_was_sent_while_the_agent_was_starting(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Agents.ready

    async def after_mail(agents: Agents, name: str, **fields: Any) -> AgentFacts:
        await crew.team.mailbox.send(name, "And look at the lexer", sender=LEAD)
        return await ready(agents, name, **fields)

    monkeypatch.setattr(Agents, "ready", after_mail)
    alice = await crew.hire("alice", prompt="Look at the parser")
    await eventually(lambda: len(alice.turns) == 1)
    text = alice.turns[0]
    assert text.index("Look at the parser") < text.index("And look at the lexer")


async def test_a_team_that_cannot_be_read_at_the_very_beginning_ends_nobody(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tries again, and goes to work as soon as it can."""
    troubles = [Unreadable("config.json", "it is not JSON")]

    async def cannot_read_first(hooks: AgentHooks) -> None:
        if troubles:
            raise troubles.pop()

    monkeypatch.setattr(AgentHooks, "started", cannot_read_first)
    alice = await crew.hire("alice", prompt="Look at the parser", pace=Pace(retry_s=0.1))
    await eventually(lambda: len(alice.turns) == 1)
    assert "it is not JSON" in alice.told("trouble")[0]["text"]


async def test_a_turn_begins_with_who_one_is_and_how_the_team_is(crew: Crew) -> None:
    """R-1.1: a context that knows nothing any more knows its team again on its next turn."""
    await crew.hire("bob")
    alice = await crew.hire("alice")
    await crew.team.tasks.add("Write the parser", by=LEAD, owner="alice")
    await crew.team.tasks.add("Review it", by=LEAD, blocked_by=["1"], owner="bob")
    await crew.team.approvals.ask_plan("My plan", by="alice")
    await eventually(lambda: len(alice.turns) >= 1)

    async def bob_rests() -> bool:
        views = (await crew.team.snapshot()).members
        return [view.state for view in views if view.member.name == "bob"] == ["idle"]

    await eventually(bob_rests)
    await crew.team.mailbox.send("alice", "What do you do?", sender="bob")
    await eventually(lambda: "What do you do?" in alice.turns[-1])
    told = alice.turns[-1]
    for part in (
        "You are alice, a teammate in team alpha",
        "- team-lead, team-lead",
        "- bob, general-purpose: idle",
        "- #1 Write the parser (pending; alice)",
        "- #2 Review it (pending; bob; after #1)",
        "Unread messages for you: 1",
        "plan request",
    ):
        assert part in told


async def test_mail_is_seen_when_the_turn_that_held_it_succeeded(crew: Crew) -> None:
    """R-2.1b: stored, injected and seen are three facts, each stamped when it is one."""
    in_turn, go_on = anyio.Event(), anyio.Event()

    async def turn(given: TurnInput, desk: Desk) -> str:
        in_turn.set()
        await go_on.wait()
        return ""

    await crew.hire("alice", turn)
    sent = await crew.team.mailbox.send("alice", "Hello", sender=LEAD)

    async def how_far() -> str:
        box = await crew.team.mailbox.read("alice", history=True)
        return next(entry.state for entry in box.entries if entry.id == sent.id)

    with anyio.fail_after(10):
        await in_turn.wait()
    assert await how_far() == "injected"
    go_on.set()

    async def is_seen() -> bool:
        return await how_far() == "seen"

    await eventually(is_seen)


async def test_a_failed_turn_gives_its_mail_again_and_tells_the_lead_why(crew: Crew) -> None:
    """R-3.7: the failure reaches the lead with its cause and what there was of a result."""
    tries: list[str] = []

    async def turn(given: TurnInput, desk: Desk) -> str:
        tries.append(given.text)
        if len(tries) == 1:
            raise TurnFailed("The model is overloaded.", partial="half an answer")
        return "whole"

    await crew.hire("alice", turn)
    await crew.team.mailbox.send("alice", "Explain", sender=LEAD)
    await eventually(lambda: len(tries) == 2)
    assert all("Explain" in text for text in tries)
    first = (await notices(crew.team))[0]
    assert first.idle_reason == "failed"
    assert first.failure_reason == "The model is overloaded."
    assert first.result == "half an answer"


@pytest.mark.parametrize(("failure", "for_good"), [("credit", True), ("overload", False)])
async def test_why_a_models_api_failed_an_agent_is_in_its_record(
    crew: Crew, failure: Failure, for_good: bool
) -> None:
    tries = 0

    async def turn(given: TurnInput, desk: Desk) -> str:
        nonlocal tries
        tries += 1
        raise TurnFailed("It says no.", failure=failure, for_good=for_good)

    alice = await crew.hire("alice", turn, claims=True)
    await crew.team.tasks.add("Write", by=LEAD)
    await eventually(lambda: alice.ended is not None)
    _, facts = await crew.team.agents.get("alice")
    assert (facts.end, facts.failure) == ("failed", failure)
    assert (tries == 1) is for_good, "what cannot pass is not tried again"
    assert (await crew.team.tasks.get("1")).owner is None


async def test_a_bug_in_a_driver_is_a_failed_turn_and_not_a_dead_agent(crew: Crew) -> None:
    tries = 0

    async def turn(given: TurnInput, desk: Desk) -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise KeyError("oops")
        return "fine"

    await crew.hire("alice", turn, prompt="Go")
    await eventually(lambda: tries == 2)
    assert (await notices(crew.team))[0].failure_reason == "KeyError: 'oops'"


async def test_the_final_text_reaches_the_lead_whole_though_nothing_was_sent(crew: Crew) -> None:
    """R-2.4: a teammate that never calls send; the lead still has the full text."""
    report = "line of the report\n" * 20_000

    async def turn(given: TurnInput, desk: Desk) -> str:
        return report

    lead = await crew.hire(LEAD)
    alice = await crew.hire("alice", turn, prompt="Report")
    await eventually(lambda: any("line of the report" in text for text in lead.turns))
    assert (await notices(crew.team))[0].result == report
    assert lead.turns[-1].count("line of the report") == 20_000
    assert alice.told("end")[0]["text"] == report


async def test_the_idle_notice_says_whom_one_wrote_to(crew: Crew) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.wrote("bob", "secret plan")
        desk.wrote(LEAD, "a question")
        return "done"

    await crew.hire("alice", turn, prompt="Go")

    async def told() -> bool:
        return [each.summary for each in await notices(crew.team)] == ["[to bob] secret plan"]

    await eventually(told)


async def test_mail_reaches_a_turn_that_is_under_way_once(crew: Crew) -> None:
    """R-2.2: a normal message is in context at the next tool boundary."""
    in_turn, sent = anyio.Event(), anyio.Event()
    taken: list[str] = []

    async def turn(given: TurnInput, desk: Desk) -> str:
        if "Go" not in given.text:
            return ""
        in_turn.set()
        await sent.wait()
        mail = await desk.take_mail()
        assert mail is not None
        taken.append(mail.text)
        assert await desk.take_mail() is None
        await desk.seen(mail.ids)
        return ""

    alice = await crew.hire("alice", turn, prompt="Go")
    with anyio.fail_after(10):
        await in_turn.wait()
    await crew.team.mailbox.send("alice", "Use the other library", sender=LEAD)
    sent.set()
    await eventually(lambda: len(alice.told("end")) == 1)
    await anyio.sleep(0.3)
    assert len(taken) == 1
    assert "Use the other library" in taken[0]
    assert len(alice.turns) == 1
    waited = [row["waited_ms"] for row in alice.told("mail")]
    assert len(waited) == 2
    assert all(0 <= ms < 10_000 for row in waited for ms in row)


@pytest.mark.parametrize("action", ["stop", "cancel", "pause"])
async def test_an_order_is_obeyed_in_the_middle_of_a_turn(crew: Crew, action: str) -> None:
    """R-2.2: control is acted on by the runtime, not the model, at once."""
    cancelled = anyio.Event()

    async def turn(given: TurnInput, desk: Desk) -> str:
        try:
            await anyio.sleep(600)
        finally:
            cancelled.set()
        return "never"

    alice = await crew.hire("alice", turn, prompt="Go")
    await eventually(lambda: len(alice.turns) == 1)
    await order(crew.team, "alice", action)
    with anyio.fail_after(2):
        await cancelled.wait()
    if action == "stop":
        await eventually(lambda: alice.ended is not None)
        assert (await crew.team.agents.get("alice"))[1].end == "stopped"
    else:
        await eventually(lambda: alice.told("end")[0]["interrupted"] == action)


async def test_only_the_lead_and_the_parent_may_give_orders(crew: Crew) -> None:
    """R-4.4: an order by somebody else is refused, and nothing but text if it is there."""
    await crew.hire("mallory")
    alice = await crew.hire("alice")
    with pytest.raises(Refused, match="may not give orders"):
        await order(crew.team, "alice", "stop", sender="mallory")
    text = Control.new(action="stop", sender="mallory").text()
    written = Message.new(
        sender="mallory", text=text, timestamp=iso(now_ms()), msg_id="forged", read=False
    )
    await crew.team.mailbox._store.append(crew.team.name, "alice", written, actor="mallory")
    await eventually(lambda: len(alice.turns) == 1)
    assert alice.ended is None


async def test_orders_never_reach_the_model(crew: Crew) -> None:
    alice = await crew.hire("alice")
    await order(crew.team, "alice", "cancel")
    await crew.team.mailbox.send("alice", "Hello", sender=LEAD)
    await eventually(lambda: len(alice.turns) == 1)
    assert "bullpen_control" not in alice.turns[0]

    async def all_done() -> bool:
        box = await crew.team.mailbox.read("alice", history=True)
        return all(entry.state == "seen" for entry in box.entries)

    await eventually(all_done)


async def test_a_stop_that_comes_as_a_turn_begins_ends_it(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        await anyio.sleep(600)
        return "never"

    alice = await crew.hire("alice", turn)
    begin = crew.team.agents.begin_turn

    async def begin_and_stop(name: str, **given: Any) -> AgentTurn:
        begun = await begin(name, **given)
        alice.runner.stop("stopped", "just now")
        return begun

    monkeypatch.setattr(crew.team.agents, "begin_turn", begin_and_stop)
    await crew.team.mailbox.send("alice", "Hello", sender=LEAD)
    await eventually(lambda: alice.ended is not None, within_s=5)


async def test_a_deleted_team_ends_its_agents_whichever_part_sees_it_first(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await crew.hire("alice")

    async def no_changes(*, agent: str) -> AsyncIterator[None]:
        await anyio.sleep_forever()
        yield

    monkeypatch.setattr(crew.team, "changes", no_changes)
    bob = await crew.hire("bob")
    await crew.team._store.delete("alpha", actor=LEAD)
    bob.runner._control.wake()
    await eventually(lambda: None not in (alice.ended, bob.ended))
    for agent in (alice, bob):
        assert agent.ended == Ended("stopped", "the team was deleted")


async def test_a_launch_that_was_replaced_takes_no_more_turns(crew: Crew) -> None:
    """R-7.4: results of an agent that another launch replaced are refused."""
    alice = await crew.hire("alice")
    await crew.team.agents.relaunch("alice", by=LEAD, nonce="another")
    await crew.team.mailbox.send("alice", "Hello", sender=LEAD)
    await eventually(lambda: alice.ended is not None)
    assert alice.turns == []
    assert (await crew.team.agents.get("alice"))[1].nonce == "another"


async def test_a_turn_that_never_ends_is_ended(crew: Crew) -> None:
    """R-3.5: every wait has a deadline."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        await anyio.sleep_forever()
        return ""

    pace = Pace(turn_s=0.2, retry_s=60)
    await crew.hire("alice", turn, pace=pace, prompt="Go")

    async def told() -> bool:
        found = await notices(crew.team)
        return bool(found) and "longer than" in (found[0].failure_reason or "")

    await eventually(told)


async def test_a_turn_that_is_ended_while_the_store_is_away_is_over_for_everybody(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks whether a budget is why, and the answer to that may be lost."""

    async def away(self: Spending) -> None:
        raise Unavailable("The store does not answer.", remedy="Wait.")

    async def turn(given: TurnInput, desk: Desk) -> str:
        monkeypatch.setattr(Spending, "check", away)
        await anyio.sleep_forever()
        return ""

    alice = await crew.hire("alice", turn, pace=Pace(turn_s=0.2, retry_s=60), prompt="Go")
    await eventually(lambda: len(alice.told("end")) == 1)

    async def rests() -> bool:
        return not (await crew.team.agents.get("alice"))[0].is_active

    await eventually(rests)


async def test_a_shutdown_that_was_agreed_to_ends_the_agent_after_its_turn(crew: Crew) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.leave("asked to end")
        return "bye"

    alice = await crew.hire("alice", turn, prompt="Go")
    await eventually(lambda: alice.ended is not None)
    assert (await crew.team.agents.get("alice"))[1].end == "finished"


async def test_a_program_that_talks_on_after_it_agreed_to_a_shutdown_is_cut_short(
    crew: Crew,
) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.leave("asked to end")
        await anyio.sleep_forever()
        return ""

    alice = await crew.hire("alice", turn, prompt="Go")
    await eventually(lambda: alice.ended is not None)
    assert (await crew.team.agents.get("alice"))[1].end == "finished"
    assert alice.told("end")[0].get("failure") is None


async def test_what_a_cancelled_turn_used_is_kept_with_the_agent(
    crew: Crew, tmp_path: Path
) -> None:
    from bullpen.protocol.agent import Usage

    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.used(Usage.new(requests=1, cost_usd=0.25))
        await anyio.sleep_forever()
        return ""

    async with anyio.create_task_group() as group:
        alice = await Crew(crew.team, tmp_path, group).hire("alice", turn, prompt="One")
        await eventually(lambda: len(alice.told("usage")) == 1)
        group.cancel_scope.cancel()
    assert (await crew.team.agents.get("alice"))[1].usage.cost_usd == 0.25


async def test_a_heartbeat_says_nothing_about_money_before_it_knows_what_was_used(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[Presence] = []
    beat = Agents.beat

    async def seen(self: Agents, presence: Presence) -> None:
        beats.append(presence)
        await beat(self, presence)

    monkeypatch.setattr(Agents, "beat", seen)
    await crew.hire("alice")
    await eventually(lambda: beats[-1].state == "idle")
    assert (beats[0].state, beats[0].usage) == ("starting", None)
    assert beats[-1].usage is not None


async def test_what_the_user_says_is_not_framed_as_a_teammates_word(crew: Crew) -> None:
    lead = await crew.hire(LEAD, prompt="Make it fast")
    await eventually(lambda: len(lead.turns) == 1)
    assert "Your user says:\nMake it fast" in lead.turns[0]
    assert "<teammate-message" not in lead.turns[0]


async def wake_by_mail(crew: Crew, alice: Hired) -> None:
    await crew.team.mailbox.send("alice", "Wake up", sender=LEAD)


async def wake_by_approval(crew: Crew, alice: Hired) -> None:
    request = await crew.team.approvals.ask_plan("My plan", by="alice")
    await crew.team.approvals.answer(request.id, approve=True, by=LEAD)


async def wake_by_unblocking(crew: Crew, alice: Hired) -> None:
    await crew.team.tasks.claim("1", by=LEAD)
    await crew.team.tasks.done("1", by=LEAD)


async def wake_by_job(crew: Crew, alice: Hired) -> None:
    alice.desk.wake("Job 7 ended")


async def wake_by_timer(crew: Crew, alice: Hired) -> None:
    alice.desk.wake_later(0.2, "Look again")


async def wake_by_assignment(crew: Crew, alice: Hired) -> None:
    await crew.team.tasks.add("Another", by=LEAD, owner="alice")


@pytest.mark.parametrize(
    "event",
    [
        wake_by_mail,
        wake_by_approval,
        wake_by_unblocking,
        wake_by_job,
        wake_by_timer,
        wake_by_assignment,
    ],
)
async def test_every_event_wakes_an_idle_agent_once(crew: Crew, event: object) -> None:
    """R-3.6: each event type wakes an idle agent within 2 s, exactly once."""
    await crew.team.tasks.add("First", by=LEAD)
    alice = await crew.hire("alice")
    await crew.team.tasks.add("Then", by="alice", blocked_by=["1"], owner="alice")
    await anyio.sleep(0.3)
    before = len(alice.turns)
    await event(crew, alice)  # type: ignore[operator]
    await eventually(lambda: len(alice.turns) == before + 1, within_s=2)
    await anyio.sleep(0.5)
    assert len(alice.turns) == before + 1


async def test_an_agent_that_is_no_longer_in_its_team_ends(crew: Crew) -> None:
    """Also while it waits: nobody writes to a member that is gone."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        await anyio.sleep(600)
        return "never"

    idle, busy = await crew.hire("alice"), await crew.hire("bob", turn, prompt="Go")
    await eventually(lambda: len(busy.turns) == 1)
    await crew.team.roster.remove("alice", by=LEAD)
    await crew.team.roster.remove("bob", by=LEAD)
    await eventually(lambda: None not in (idle.ended, busy.ended))
    assert idle.ended == Ended("lost", "'alice' was removed from team 'alpha'.")


async def test_an_agent_that_was_started_again_elsewhere_ends(crew: Crew) -> None:
    alice = await crew.hire("alice")
    await crew.team.agents.relaunch("alice", by=LEAD, nonce="newer")
    await eventually(lambda: alice.ended is not None)
    assert alice.ended == Ended("lost", "A newer launch of 'alice' replaced this process.")


async def test_an_agent_goes_on_while_its_entry_cannot_be_read(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await crew.hire("alice")
    looks = 0
    config = crew.team.agents.config

    async def damaged() -> TeamConfig:
        nonlocal looks
        looks += 1
        whole = await config()
        rows = [{**row, "name": 7} if row["name"] == "alice" else row for row in whole.members]
        return whole.with_rows(rows)

    monkeypatch.setattr(crew.team.agents, "config", damaged)
    await eventually(lambda: looks >= 4)
    assert alice.ended is None


async def test_a_long_report_that_the_disk_does_not_take_at_first_comes_all_the_same(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        return "x" * 1_000_001

    write, refused = Path.write_text, list[str]()

    def full(self: Path, *given: Any) -> int:
        if self.name == "final.txt" and len(refused) < 2:
            refused.append(self.name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return write(self, *given)

    monkeypatch.setattr(Path, "write_text", full)
    alice = await crew.hire("alice", turn, prompt="Go")

    async def told() -> bool:
        return len(await notices(crew.team)) == 1

    await eventually(told)
    assert ((await notices(crew.team))[0].result or "").startswith("xxx")
    assert (len(alice.turns), len(refused)) == (1, 2)


async def test_a_task_that_a_hook_wants_given_back_is_so_though_the_store_refuses_at_first(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await crew.hire("alice")
    task = await crew.team.tasks.add("One", by=LEAD)
    await crew.team.tasks.claim(task.id, by="alice")
    hooks, release = alice.desk.hooks, crew.team.tasks.release
    hooks._to_give_back.append(task.id)

    async def fails(*given: Any, **named: Any) -> None:
        raise Unavailable("The store is away.", remedy="Wait until it is back.")

    monkeypatch.setattr(crew.team.tasks, "release", fails)
    with pytest.raises(Unavailable):
        await hooks.turn_over("", waiting=False)
    monkeypatch.setattr(crew.team.tasks, "release", release)
    await hooks.turn_over("", waiting=False)
    assert (await crew.team.tasks.get(task.id)).status == "pending"
    assert hooks._to_give_back == []


async def test_a_turn_starts_with_the_agents_own_todo_list_while_something_is_open(
    crew: Crew,
) -> None:
    lists = [[{"content": "Test it", "status": "pending"}], []]

    async def turn(given: TurnInput, desk: Desk) -> str:
        text, failed = await call(toolbox(desk), "TodoWrite", {"todos": lists.pop(0)}, desk)
        assert not failed, text
        return "Noted."

    alice = await crew.hire("alice", turn, prompt="Go")
    await eventually(lambda: len(alice.told("end")) == 1)
    lists.insert(0, lists[0])
    await crew.team.mailbox.send("alice", "Go on", sender=LEAD)
    await eventually(lambda: len(alice.told("end")) == 2)
    await crew.team.mailbox.send("alice", "Go on", sender=LEAD)
    await eventually(lambda: len(alice.turns) == 3)
    assert ["- Test it" in text for text in alice.turns] == [False, True, False]


async def test_the_lead_is_told_which_task_was_completed_in_the_turn(crew: Crew) -> None:
    """The notice of a turn that completed nothing names none."""
    task = await crew.team.tasks.add("Parse", by=LEAD)

    async def completes(given: TurnInput, desk: Desk) -> str:
        if "Parse it" in given.text:
            await desk.complete(task.id, report="parsed")
        return "Done."

    ann = await crew.hire("ann", completes)
    for text in ("Parse it", "Thank the parser"):
        number = len(ann.told("end"))
        await crew.team.mailbox.send("ann", text, sender=LEAD)
        await eventually(lambda number=number: len(ann.told("end")) > number)  # type: ignore[misc]

    async def idle() -> list[IdleNotification]:
        box = await crew.team.mailbox.read(LEAD)
        found = [payload_of(entry.message.text) for entry in box.entries]
        return [each for each in found if isinstance(each, IdleNotification)]

    async def both() -> bool:
        return len(await idle()) == 2

    await eventually(both)
    first, second = await idle()
    assert (first.completed_task_id, first.completed_status) == (task.id, "resolved")
    assert (second.completed_task_id, second.completed_status) == (None, None)
