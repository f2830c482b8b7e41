"""Permission of tool calls: asked durably, answered once, used once, by whoever may."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from support.agents.asking_turns import asking, last_words, runs, the_request
from support.crews import Crew, eventually
from support.offices import Place, in_state
from support.open_acts import open_to_agents


async def test_a_call_that_must_be_asked_for_is_a_durable_record(
    crew: Crew, tmp_path: Path
) -> None:
    """R-4.1: requester, exact action, deadline; it is not made before the answer."""
    mark = tmp_path / "agents" / "mark"
    alice = await crew.hire(
        "alice", runs("touch mark"), mode="default", policy=asking(), prompt="Go"
    )
    request = await the_request(crew.team)
    assert (request.sender, request.kind, request.approver) == ("alice", "permission", "human")
    assert request.subject["toolName"] == "Bash"
    assert request.subject["input"] == {"command": "touch mark"}
    assert request.deadline_ms is not None
    assert request.deadline_ms - request.created_ms == 600_000
    assert not mark.exists()
    await crew.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    assert await last_words(crew, alice) == "done: (no output)"
    assert mark.exists()
    assert (await crew.team.approvals.get(request.id)).used_ms is not None


async def test_a_yes_is_good_for_one_call_only(crew: Crew) -> None:
    await crew.hire("alice", runs("true", "true"), mode="default", prompt="Go")
    first = await the_request(crew.team)
    await crew.team.approvals.answer(first.id, approve=True, by=LEAD, voice="human")

    async def asks_again() -> bool:
        pending = await crew.team.approvals.pending()
        return [each.id for each in pending] not in ([], [first.id])

    await eventually(asks_again)
    second = await the_request(crew.team)
    assert (second.digest, second.id != first.id) == (first.digest, True)
    for other in ("alice", "bob"):
        with pytest.raises(Refused):
            await crew.team.approvals.redeem(first.id, by=other, digest=first.digest)


async def test_always_adds_a_rule_and_nobody_is_asked_again(crew: Crew) -> None:
    alice = await crew.hire(
        "alice", runs("git status", "git status --short"), mode="default", prompt="Go"
    )
    request = await the_request(crew.team)
    await crew.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human", always=True)
    await last_words(crew, alice)
    _, facts = await crew.team.agents.get("alice")
    assert facts.standing.allow == ["Bash(git status:*)"]
    assert len(await crew.team.approvals.all()) == 1


async def test_an_answer_can_change_the_input(crew: Crew, tmp_path: Path) -> None:
    alice = await crew.hire("alice", runs("touch mark"), mode="default", prompt="Go")
    request = await the_request(crew.team)
    await crew.team.approvals.answer(
        request.id, approve=True, by=LEAD, voice="human", updated_input={"command": "touch other"}
    )
    assert "done" in await last_words(crew, alice)
    assert sorted(path.name for path in (tmp_path / "agents").iterdir()) == ["alice", "other"]


async def test_a_lead_that_is_a_model_is_asked_and_answers(crew: Crew, tmp_path: Path) -> None:
    async def leads(given: TurnInput, desk: Desk) -> str:
        for request in await desk.team.approvals.pending():
            message = {"type": "permission_response", "request_id": request.id, "approve": True}
            await call(
                toolbox(desk), "SendMessage", {"to": request.sender, "message": message}, desk
            )
        return ""

    lead = await crew.hire(LEAD, leads)
    await crew.hire(
        "alice", runs("touch mark"), mode="default", policy=asking(approver="lead"), prompt="Go"
    )
    await eventually(lambda: (tmp_path / "agents" / "mark").exists())
    assert any("I need permission to use Bash" in turn for turn in lead.turns)


async def test_headless_resolves_by_policy_at_any_depth(crew: Crew, tmp_path: Path) -> None:
    """R-4.1: a nested depth-2 request in headless mode resolves by policy; nobody is waited for."""
    answers = tmp_path / "policy.toml"
    answers.write_text('[answers]\nallow = ["Bash(touch allowed)"]\n', "utf-8")
    policy = asking(approver="policy", answers=str(answers))
    await open_to_agents(crew.team, "member.spawn")
    await crew.hire("alice", mode="default", policy=policy)
    bob = await crew.hire(
        "bob",
        runs("touch allowed", "touch other"),
        mode="default",
        policy=policy,
        by="alice",
        prompt="Go",
    )
    with anyio.fail_after(45):
        said = await last_words(crew, bob)
    _, facts = await crew.team.agents.get("bob")
    assert facts.depth == 2
    first, second = said.splitlines()
    assert first == "done: (no output)"
    assert second.startswith("failed") and "nobody is there to give it" in second
    states = [each.state for each in (await crew.team.approvals.all()).values()]
    voices = {each.voice for each in (await crew.team.approvals.all()).values()}
    assert (sorted(states), voices) == (["approved", "denied"], {"policy"})


@pytest.mark.parametrize("variant", ["subtype", "decision"])
@pytest.mark.parametrize("approve", [True, False])
async def test_a_lead_of_another_vendor_answers_by_message(
    crew: Crew, tmp_path: Path, variant: str, approve: bool
) -> None:
    """Both known variants of a permission_response, for who is asked through the inbox alone."""
    policy = asking(approver="inbox")
    alice = await crew.hire("alice", runs("touch mark"), mode="default", policy=policy, prompt="Go")
    request = await the_request(crew.team)
    inbox = (await crew.team.mailbox.read(LEAD)).entries
    assert any(request.id in entry.message.text for entry in inbox)
    answer: dict[str, object] = {"type": "permission_response", "request_id": request.id}
    if variant == "subtype":
        answer |= {"subtype": "success" if approve else "error"}
        answer |= {"response": {"updated_input": request.subject["input"]}} if approve else {}
    else:
        answer |= {"decision": "approved" if approve else "rejected", "resolvedBy": "leader"}
    await crew.team.mailbox.send("alice", json.dumps(answer), sender=LEAD)
    said = await last_words(crew, alice)
    assert said.startswith("done" if approve else "failed")
    assert (tmp_path / "agents" / "mark").exists() is approve


ASKS = """
[[agents.alice.turns]]
when = "start"
steps = [{ tool = "Bash", input = {command = "touch mark"}, may_fail = true }]

[[agents.alice.turns]]
when = "any"
repeat = true
steps = [{ tool = "Bash", input = {command = "touch mark"}, may_fail = true }]
"""


async def test_an_answer_survives_the_death_of_who_asked(place: Place) -> None:
    """R-4.1: answers survive restart. Given while nobody runs, it is used by the next launch."""
    await place.spawn("alice", ASKS, mode="default", prompt="Go")
    request = await the_request(place.team)
    _, facts = await place.team.agents.get("alice")
    assert facts.process is not None and facts.process.pid is not None
    os.kill(facts.process.pid, signal.SIGKILL)
    await in_state(place, "alice", "lost")
    await place.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    assert not (place.project / "mark").exists()
    await place.supervisor.resume(by=LEAD)
    await eventually((place.project / "mark").exists)
    assert len(await place.team.approvals.all()) == 1
