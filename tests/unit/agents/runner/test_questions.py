"""An agent asks a person: it waits for the answer, but never without end."""

from __future__ import annotations

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.names import LEAD
from support.agents.asking_turns import Turn, asking, last_words, the_request
from support.crews import Crew, eventually

QUESTION = {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}


def asks(times: int = 1) -> Turn:
    async def turn(given: TurnInput, desk: Desk) -> str:
        told = []
        for _ in range(times):
            text, failed = await call(
                toolbox(desk), "AskUserQuestion", {"questions": [QUESTION]}, desk
            )
            told.append(f"{'failed' if failed else 'told'}: {text}")
        return "\n".join(told)

    return turn


async def test_the_agent_waits_for_the_answer_and_is_told_it(crew: Crew) -> None:
    alice = await crew.hire("alice", asks(), prompt="Go")
    request = await the_request(crew.team)
    assert (request.kind, request.sender, request.approver) == ("question", "alice", "human")
    await eventually(lambda: alice.desk.activity.state == "waiting")
    assert request.id in str(alice.desk.activity.detail)
    await crew.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human", feedback="2")
    assert await last_words(crew, alice) == "told: A person answered: Blue"


async def test_without_an_answer_by_the_deadline_it_goes_on(crew: Crew) -> None:
    policy = asking(deadline_s=0.3)
    alice = await crew.hire("alice", asks(), policy=policy, prompt="Go")
    said = await last_words(crew, alice)
    assert "told: Nobody answered in time." in said and "Decide yourself" in said
    (request,) = (await crew.team.approvals.all()).values()
    assert request.state == "expired"


async def test_who_declines_is_quoted(crew: Crew) -> None:
    alice = await crew.hire("alice", asks(), prompt="Go")
    request = await the_request(crew.team)
    await crew.team.approvals.answer(
        request.id, approve=False, by=LEAD, voice="human", feedback="Your choice."
    )
    assert "chose not to answer: Your choice." in await last_words(crew, alice)


async def test_an_answer_counts_for_the_same_question_again_as_after_a_restart(crew: Crew) -> None:
    alice = await crew.hire("alice", asks(times=2), prompt="Go")
    request = await the_request(crew.team)
    await crew.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human", feedback="1")
    assert (await last_words(crew, alice)).count("A person answered: Red") == 2
    assert len(await crew.team.approvals.all()) == 1


async def test_where_no_person_answers_nobody_is_asked_and_the_agent_is_told_at_once(
    crew: Crew,
) -> None:
    alice = await crew.hire("alice", asks(), policy=asking(approver="policy"), prompt="Go")
    said = await last_words(crew, alice)
    assert "failed: Nobody answers questions in this run." in said and "no_person" in said
    bob = await crew.hire("bob", asks(), policy=asking(approver="lead"), prompt="Go")
    assert "Ask the lead with SendMessage" in await last_words(crew, bob)
    assert await crew.team.approvals.all() == {}


async def test_who_waits_for_two_answers_waits_until_both_are_there(crew: Crew) -> None:
    alice = await crew.hire("alice")
    await eventually(lambda: alice.desk.activity.state == "idle")
    first, second = alice.desk.waiting("one"), alice.desk.waiting("two")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (alice.desk.activity.state, alice.desk.activity.detail) == ("waiting", "two")
    second.__exit__(None, None, None)
    assert (alice.desk.activity.state, alice.desk.activity.detail) == ("idle", None)
