"""Tools to talk to the team and to lead it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.contracts.desk import Wanted
from bullpen.protocol.names import LEAD

if TYPE_CHECKING:
    from bullpen.team.team import Team
    from support.agents.tools_fixtures import Bench, MakeBench


@pytest.mark.parametrize(
    "given",
    [
        {"to": "bob", "summary": "a word", "message": "hello"},
        {"to": "bob@crew", "summary": "a word", "message": "hello"},
        {"type": "message", "recipient": "bob", "content": "hello", "summary": "a word"},
    ],
)
async def test_both_forms_store_a_message_under_the_senders_name(
    ann: Bench, team: Team, given: dict[str, str]
) -> None:
    await team.mailbox.send("bob", "before", sender=LEAD)
    answer = json.loads(await ann.ok("SendMessage", **given))
    entry = (await team.mailbox.read("bob")).unread[-1]
    assert entry.message.sender == "ann"
    assert (entry.message.text, entry.message.summary) == ("hello", "a word")
    assert answer["success"] is True
    assert (answer["message_id"], answer["ahead"]) == (entry.id, 1)
    assert answer["routing"] == {
        "sender": "ann",
        "senderColor": "blue",
        "target": "@bob",
        "targetColor": "green",
        "summary": "a word",
        "content": "hello",
    }
    assert "stored" in answer["message"]
    assert "1 unread message is ahead" in answer["message"]
    for lie in ("delivered", "seen", "received"):
        assert lie not in json.dumps(answer)


@pytest.mark.parametrize("field_name", ["from", "sender", "by", "agent"])
async def test_no_input_chooses_the_sender(ann: Bench, team: Team, field_name: str) -> None:
    text = await ann.refused("SendMessage", to="bob", message="hi", **{field_name: LEAD})
    assert field_name in text
    assert not (await team.mailbox.read("bob")).entries


async def test_whom_it_wrote_to_is_reported(ann: Bench, lead: Bench) -> None:
    await ann.ok("SendMessage", to="bob", summary="a word", message="hello")
    await ann.ok("SendMessage", to="bob", message="x" * 200)
    await ann.ok("SendMessage", to=LEAD, summary="a report", message="hello")
    await lead.ok("SendMessage", to="ann", summary="an order", message="hello")
    assert ann.desk.peers == [("bob", "a word"), ("bob", "x" * 79 + "…"), (LEAD, "a report")]
    assert lead.desk.peers == [("ann", "an order")]


@pytest.mark.parametrize(
    "given", [{"type": "broadcast", "content": "all"}, {"to": "*", "message": "all"}]
)
async def test_a_broadcast_is_stored_for_everybody_else(
    ann: Bench, team: Team, given: dict[str, str]
) -> None:
    answer = json.loads(await ann.ok("SendMessage", summary="news", **given))
    assert answer["recipients"] == [LEAD, "bob"]
    assert [one["to"] for one in answer["stored"]] == [LEAD, "bob"]
    assert (answer["routing"]["target"], answer["routing"]["content"]) == ("@team", "all")
    assert "targetColor" not in answer["routing"]
    for name in (LEAD, "bob"):
        (entry,) = (await team.mailbox.read(name)).unread
        assert (entry.message.sender, entry.message.text) == ("ann", "all")
    assert not (await team.mailbox.read("ann")).entries


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"to": "bop", "message": "hi"}, "Did you mean 'bob'"),
        ({"message": "hi"}, "`to`"),
        ({"to": "bob"}, "`message`"),
        ({"to": "bob", "message": "  "}, "`message`"),
        ({"to": "bob", "recipient": LEAD, "message": "hi"}, "two receivers"),
        ({"to": "bob", "message": "hi", "content": "ho"}, "both forms"),
        ({"type": "shutdown_response", "approve": True}, "request_id"),
        ({"type": "shutdown_response", "request_id": "x"}, "approve"),
        ({"type": "plan_approval_response", "request_id": "x", "approve": True}, "no request"),
        ({"to": "*", "message": {"type": "shutdown_request"}}, "one member"),
        ({"to": "bob", "message": {"type": "gossip"}}, "shutdown_request"),
    ],
    ids=str,
)
async def test_a_message_that_cannot_be_sent_says_why(
    ann: Bench, team: Team, given: dict[str, Any], says: str
) -> None:
    assert says in await ann.refused("SendMessage", **given)
    assert not (await team.mailbox.read("bob")).entries


@pytest.mark.parametrize("form", ["old", "new"])
async def test_a_shutdown_is_asked_for_refused_and_agreed_to(
    ann: Bench, lead: Bench, team: Team, form: str
) -> None:
    ask: dict[str, Any] = (
        {"type": "shutdown_request", "recipient": "ann", "content": "We are done"}
        if form == "old"
        else {"to": "ann", "message": {"type": "shutdown_request", "reason": "We are done"}}
    )

    def answer(request_id: str, approve: bool, why: str) -> dict[str, Any]:
        said = {"type": "shutdown_response", "request_id": request_id, "approve": approve}
        if form == "old":
            return {**said, "content": why}
        return {"to": LEAD, "message": {**said, "reason": why}}

    first = json.loads(await lead.ok("SendMessage", **ask))["request_id"]
    (entry,) = (await team.mailbox.read("ann")).unread
    assert json.loads(entry.message.text)["reason"] == "We are done"
    await ann.ok("SendMessage", **answer(first, False, "I am not"))
    assert ann.desk.left == []
    assert (await team.approvals.get(first)).answer == {"feedback": "I am not"}
    assert "already_answered" in await ann.refused("SendMessage", **answer(first, True, ""))
    assert ann.desk.left == []
    second = json.loads(await lead.ok("SendMessage", **ask))["request_id"]
    text = await ann.ok("SendMessage", **answer(second, True, ""))
    assert "You stop now" in text
    (reason,) = ann.desk.left
    assert LEAD in reason
    assert (await team.approvals.get(second)).state == "approved"


async def test_nobody_agrees_to_the_shutdown_of_another(
    ann: Bench, bob: Bench, lead: Bench, team: Team
) -> None:
    request = await team.approvals.ask_shutdown("ann", by="bob")
    # The lead may answer most requests, but this answer is the agent's own word.
    for bench in (bob, lead):
        text = await bench.refused(
            "SendMessage", type="shutdown_response", request_id=request.id, approve=True
        )
        assert "not_approver" in text
        assert bench.desk.left == []
    assert (await team.approvals.get(request.id)).state == "pending"


async def test_a_plan_is_answered_and_not_with_another_type(
    ann: Bench, lead: Bench, team: Team
) -> None:
    request = await team.approvals.ask_plan("First this, then that", by="ann")
    given = {"request_id": request.id, "approve": False, "content": "Not that", "recipient": "ann"}
    wrong = await lead.refused("SendMessage", type="shutdown_response", **given)
    assert "is a plan request" in wrong
    assert "not_approver" in await ann.refused(
        "SendMessage", type="plan_approval_response", **given
    )
    await lead.ok("SendMessage", type="plan_approval_response", **given)
    answered = await team.approvals.get(request.id)
    assert (answered.state, answered.answer) == ("denied", {"feedback": "Not that"})
    assert lead.desk.left == []


@dataclass
class Office:
    """Colleagues that write down what they are asked."""

    asked: list[Any] = field(default_factory=list)
    members: bool = True

    async def spawn(self, wanted: Wanted) -> str:
        self.asked.append(wanted)
        return f"{wanted.name} is running."

    async def stop(self, name: str, *, reason: str | None) -> str:
        self.asked.append((name, reason))
        return f"{name} is stopped."

    async def set_mode(self, name: str, mode: str) -> str:
        self.asked.append((name, mode))
        return f"{name} is in mode {mode}."


async def test_teammates_are_started_and_stopped_through_the_door(make_bench: MakeBench) -> None:
    app = Office()
    lead = make_bench(LEAD, colleagues=app)
    text = await lead.ok(
        "SpawnTeammate", name="zoe", prompt="Go", agent_type="tester", model="m", mode="plan"
    )
    assert text == "zoe is running."
    assert await lead.ok("StopTeammate", name="zoe", reason="over") == "zoe is stopped."
    assert await lead.ok("SetMode", name="zoe", mode="plan") == "zoe is in mode plan."
    assert app.asked == [
        Wanted("zoe", "Go", role="tester", model="m", mode="plan"),
        ("zoe", "over"),
        ("zoe", "plan"),
    ]


async def test_task_starts_a_teammate_as_spawn_teammate_does(make_bench: MakeBench) -> None:
    app = Office()
    lead = make_bench(LEAD, colleagues=app)
    given = {"name": "zoe", "prompt": "Go", "model": "m", "mode": "plan"}
    await lead.ok("SpawnTeammate", **given, agent_type="Explore", cwd="src", skills=["x"])
    text = await lead.ok(
        "Task",
        **given,
        subagent_type="Explore",
        cwd="src",
        skills=["x"],
        description="Look around",
        team_name="crew",
        run_in_background=True,
    )
    assert text == "zoe is running."
    assert app.asked[0] == app.asked[1]


async def test_another_team_name_is_ignored_with_a_sentence(make_bench: MakeBench) -> None:
    lead = make_bench(LEAD, colleagues=Office())
    text = await lead.ok("Task", name="zoe", prompt="Go", team_name="parser-team")
    assert text == "zoe is running. Your team is 'crew'; team_name was ignored."
    for own in ("crew", "Crew"):
        assert await lead.ok("Task", name="zoe", prompt="Go", team_name=own) == "zoe is running."


async def test_task_starts_nobody_without_a_name_or_the_right(make_bench: MakeBench) -> None:
    lead = make_bench(LEAD, colleagues=Office())
    assert "no_subagents" in await lead.refused("Task", prompt="Go")
    assert "do not have the tool 'Task'" in await make_bench("ann").refused(
        "Task", name="zoe", prompt="Go"
    )


async def test_a_wrong_answer_names_the_type_that_answers(lead: Bench, team: Team) -> None:
    asked = await team.approvals.ask_plan("My plan", by="ann")
    text = await lead.refused(
        "SendMessage",
        to="ann",
        message={"type": "permission_response", "request_id": asked.id, "approve": True},
    )
    assert "Answer it with the type plan_approval_response." in text


async def test_the_state_of_the_team_is_shown(ann: Bench, team: Team) -> None:
    await team.tasks.add("One", by=LEAD)
    await ann.ok("TaskUpdate", taskId="1", status="in_progress")
    await team.mailbox.send("bob", "hi", sender="ann")
    request = await team.approvals.ask_shutdown("ann", by=LEAD)
    lines = (await ann.ok("TeamStatus")).split("\n")
    assert lines == [
        "Team 'crew', 3 members:",
        f"- {LEAD} (lead): unknown; 0 unread",
        "- ann (you): unknown; working on #1; 1 unread",
        "- bob: unknown; 1 unread",
        "Tasks: 0 pending, 1 in_progress, 0 completed",
        f"Waiting for your answer: shutdown request {request.id} from {LEAD}",
    ]


async def test_the_lead_finishes_only_when_no_task_is_open(lead: Bench, team: Team) -> None:
    """R-12.1"""
    await team.tasks.add("One", by=LEAD)
    assert "reason: open_tasks" in await lead.refused("Finish", summary="All done")
    text = await lead.ok("Finish", summary="All done", override_reason="the user said so")
    assert "although tasks are open: the user said so" in text
    result = await team.agents.result()
    assert result is not None
    assert (result.by, result.summary) == (LEAD, "All done")


async def test_a_wakeup_is_a_timer_with_a_note(ann: Bench) -> None:
    await ann.ok("ScheduleWakeup", delaySeconds=90, reason="look at CI")
    assert ann.desk.timers == [(90, "look at CI")]
    await ann.refused("ScheduleWakeup", delaySeconds=0, reason="now")
