"""An agent that a person interrupted waits for words, and what its call asked for is withdrawn."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from support.agents.asking_turns import runs, the_request
from support.crews import QUICK, Crew, Hired, eventually


async def works(given: TurnInput, desk: Desk) -> str:
    await anyio.sleep(600)
    return "never"


async def interrupt(crew: Crew, agent: Hired, *, person: bool = True) -> None:
    """End the turn of an agent, and wait until it is over."""
    text = Control.new(action="cancel", sender=LEAD).text()
    voice = "human" if person else "agent"
    await crew.team.mailbox.send(agent.desk.agent, text, sender=LEAD, voice=voice)  # type: ignore[arg-type]
    await eventually(lambda: len(agent.told("end")) == 1)


@pytest.mark.parametrize("speaker", ["person", "lead"])
async def test_an_interrupted_agent_claims_nothing_until_it_is_spoken_to(
    crew: Crew, speaker: str
) -> None:
    bob = await crew.hire("bob", works, claims=True, prompt="Help")
    await eventually(lambda: len(bob.turns) == 1)
    await interrupt(crew, bob)
    await crew.team.tasks.add("Write the parser", by=LEAD)
    await anyio.sleep(0.5)
    # Not even the mail of the interrupted turn starts another one.
    assert len(bob.turns) == 1
    assert (await crew.team.tasks.get("1")).owner is None
    assert bob.desk.activity.detail == "interrupted, waits for your words"
    voice = "human" if speaker == "person" else "agent"
    await crew.team.mailbox.send("bob", "Go on", sender=LEAD, voice=voice)  # type: ignore[arg-type]
    await eventually(lambda: len(bob.turns) == 2)
    assert "Go on" in bob.turns[1]
    assert not bob.desk.waits_for_words


async def test_an_interrupted_agent_keeps_its_task_and_is_not_reminded_until_it_is_spoken_to(
    crew: Crew,
) -> None:
    await crew.team.tasks.add("Write the parser", by=LEAD)
    bob = await crew.hire("bob", works, claims=True, pace=replace(QUICK, reply_s=0.1))
    await eventually(lambda: len(bob.turns) == 1)
    await interrupt(crew, bob)
    # A person thinks about what to say: its reminders would begin another turn.
    await anyio.sleep(1.0)
    assert len(bob.turns) == 1
    assert bob.desk.activity.detail == "interrupted; still has task #1"
    assert (await crew.team.tasks.get("1")).owner == "bob"
    await crew.team.mailbox.send("bob", "Only the lexer.", sender=LEAD, voice="human")
    await eventually(lambda: len(bob.turns) == 2)
    assert "Only the lexer." in bob.turns[1]


async def test_a_teammates_word_wakes_an_interrupted_agent_but_lets_it_claim_nothing(
    crew: Crew,
) -> None:
    asked: list[str] = []

    async def first_works(given: TurnInput, desk: Desk) -> str:
        asked.append(given.text)
        return await works(given, desk) if len(asked) == 1 else "Here I am."

    bob = await crew.hire("bob", first_works, claims=True, prompt="Help")
    await eventually(lambda: len(asked) == 1)
    await interrupt(crew, bob)
    await crew.hire("ann")
    await crew.team.tasks.add("Test the parser", by=LEAD)
    await crew.team.mailbox.send("bob", "Where is the lexer?", sender="ann")
    await eventually(lambda: len(asked) == 2)
    await anyio.sleep(0.5)
    assert (await crew.team.tasks.get("1")).owner is None


async def test_what_code_interrupts_goes_on(crew: Crew) -> None:
    """The foreman of an unattended run ends turns too, and nobody is there to speak."""
    bob = await crew.hire("bob", works, claims=True, prompt="Help")
    await eventually(lambda: len(bob.turns) == 1)
    await interrupt(crew, bob, person=False)
    await crew.team.tasks.add("Write the parser", by=LEAD)
    await eventually(lambda: len(bob.turns) > 1)
    assert not bob.desk.waits_for_words


async def test_the_request_of_an_interrupted_call_is_withdrawn(crew: Crew) -> None:
    bob = await crew.hire("bob", runs("touch mark"), mode="default", prompt="Go")
    request = await the_request(crew.team)
    await interrupt(crew, bob)

    async def withdrawn() -> bool:
        return (await crew.team.approvals.get(request.id)).state == "expired"

    await eventually(withdrawn)
    answer = (await crew.team.approvals.get(request.id)).answer
    assert answer == {"feedback": "The turn that asked for it was interrupted."}


@pytest.mark.parametrize("words", ["ok", "thanks", "Got it!", "\N{THUMBS UP SIGN}"])
async def test_the_words_of_a_person_always_wake_an_idle_agent(crew: Crew, words: str) -> None:
    ann = await crew.hire("ann")
    await crew.hire("bob")
    await crew.team.mailbox.send("ann", words, sender="bob")
    await anyio.sleep(0.3)
    assert ann.turns == [], "an agent's thanks cost no turn"
    await crew.team.mailbox.send("ann", words, sender=LEAD, voice="human")
    await eventually(lambda: len(ann.turns) == 1)
