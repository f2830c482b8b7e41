"""What changed: an agent that keeps its conversation is told its team whole once, then the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed, TurnInput
from bullpen.agents.runner.loop import Runner
from bullpen.errors import Unavailable
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Mark
from bullpen.team.mail.operations import Mailboxes
from support.crews import Crew, Hired, Told, Turn, eventually, nothing

WHOLE = "\nMembers:\n"


@pytest.fixture(autouse=True)
def keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drivers of these tests keep their conversations."""
    monkeypatch.setattr(Told, "capabilities", replace(Told.capabilities, keeps_briefing=True))


async def alice_with(crew: Crew, turn: Turn = nothing) -> Hired:
    await crew.hire("bob")
    alice = await crew.hire("alice", turn)
    await crew.team.tasks.add("Write the parser", by=LEAD)
    return alice


async def say(crew: Crew, alice: Hired, text: str) -> str:
    """Send a message, and wait for the end of the turn that it starts; returns its text."""
    before = len(alice.told("end"))
    await crew.team.mailbox.send("alice", text, sender="bob")
    await eventually(lambda: len(alice.told("end")) > before)
    return next(turn for turn in reversed(alice.turns) if text in turn)


async def test_the_first_turn_tells_all_and_the_next_one_what_changed(crew: Crew) -> None:
    alice = await alice_with(crew)
    assert WHOLE in await say(crew, alice, "One?")
    await crew.team.tasks.claim("1", by="bob")
    second = await say(crew, alice, "Two?")
    assert WHOLE not in second and "You are alice, a teammate in team alpha." in second
    assert "- #1 Write the parser (in progress; bob)" in second
    third = await say(crew, alice, "Three?")
    assert "Write the parser" not in third and WHOLE not in third
    assert [given.whole for given in alice.driver.given] == [True, False, False]
    assert [row["text"] for row in alice.told("turn")] == alice.turns, "as it was told"


async def test_a_driver_that_does_not_keep_its_conversation_is_always_told_all(crew: Crew) -> None:
    alice = await alice_with(crew)
    await say(crew, alice, "One?")
    fresh = Told(nothing)
    fresh.capabilities = replace(Told.capabilities, keeps_briefing=False)
    alice.runner._driver = fresh
    await crew.team.mailbox.send("alice", "Two?", sender="bob")
    await eventually(lambda: len(fresh.given) == 1)
    assert WHOLE in fresh.given[0].text and fresh.given[0].whole


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_after_a_turn_that_came_to_nothing_all_is_told_again(crew: Crew, how: str) -> None:
    wrong = False

    async def turn(given: TurnInput, desk: Desk) -> str:
        nonlocal wrong
        if wrong and how == "cancelled":
            await anyio.sleep_forever()
        if wrong:
            wrong = False
            raise TurnFailed("The model is overloaded.")
        return ""

    alice = await alice_with(crew, turn)
    await say(crew, alice, "One?")
    wrong = True
    await crew.team.mailbox.send("alice", "Two?", sender="bob")
    await eventually(lambda: len(alice.turns) >= 2)
    if how == "cancelled":
        wrong = False
        alice.desk.control.interrupt("cancel")
    await eventually(lambda: len(alice.turns) >= 3)
    assert [given.whole for given in alice.driver.given][:3] == [True, False, True]


async def test_a_conversation_that_was_lost_in_a_turn_is_told_all_by_its_driver(
    crew: Crew,
) -> None:
    """What it is told then counts as told, even if all is as before that in the next turn."""
    asked: list[str] = []

    async def turn(given: TurnInput, desk: Desk) -> str:
        if "Two?" in given.text:
            await crew.team.tasks.edit("1", by=LEAD, subject="Write the lexer")
            asked.append(await desk.briefing())
            await crew.team.tasks.edit("1", by=LEAD, subject="Write the parser")
        return ""

    alice = await alice_with(crew, turn)
    await say(crew, alice, "One?")
    await say(crew, alice, "Two?")
    assert WHOLE in asked[0] and "Write the lexer" in asked[0]
    third = await say(crew, alice, "Three?")
    assert WHOLE not in third and "- #1 Write the parser (pending)" in third
    assert any("Write the lexer" in note["text"] for note in alice.told("note"))


async def test_a_turn_that_could_not_begin_does_not_count_as_told(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await alice_with(crew)
    await say(crew, alice, "One?")
    begun, troubles = Runner._begun, [Unavailable("The store is away.")]

    async def once(runner: Runner) -> object:
        if troubles:
            await crew.team.tasks.claim("1", by="bob")
            raise troubles.pop()
        return await begun(runner)

    monkeypatch.setattr(Runner, "_begun", once)
    assert "- #1 Write the parser (in progress; bob)" in await say(crew, alice, "Two?")


async def test_a_context_that_was_replaced_in_a_turn_is_told_its_whole_team(crew: Crew) -> None:
    """R-1.1: also if its driver keeps conversations."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        if "Stay" in given.text:
            await anyio.sleep_forever()
        return ""

    await crew.hire("bob")
    lead = await crew.hire(LEAD, turn)
    await crew.team.tasks.add("Write the parser", by=LEAD, owner="bob")
    await crew.team.mailbox.send(LEAD, "Hello?", sender="bob")
    await eventually(lambda: len(lead.told("end")) >= 1)
    await crew.team.mailbox.send(LEAD, "Stay", sender="bob")
    await eventually(lambda: "Stay" in lead.turns[-1])
    fresh = Told(nothing)
    lead.runner._driver = fresh
    lead.desk.control.interrupt("cancel")
    await eventually(lambda: len(fresh.given) == 1)
    told = fresh.given[0].text
    assert "You are the lead of team alpha" in told and WHOLE in told
    assert "- #1 Write the parser (pending; bob)" in told


async def test_what_a_model_is_told_is_booked_by_kind_with_the_request_that_told_it(
    crew: Crew,
) -> None:
    """R-5.4: of a program that Bullpen drives, what its tools cost is not known."""
    lost: list[str] = []

    async def turn(given: TurnInput, desk: Desk) -> str:
        desk.used(Usage.new(requests=1))
        lost.append(await desk.briefing())
        await crew.team.mailbox.send("alice", "And more", sender="bob")
        await desk.take_mail()
        desk.used(Usage.new(requests=1))
        return ""

    alice = await alice_with(crew, turn)
    await say(crew, alice, "One?")
    first, second = alice.told("usage")
    text = alice.turns[0]
    digest, _, rest = text.partition("</team-digest>\n\n")
    assert first["digestTokens"] == -(-len(digest + "</team-digest>") // 4)
    assert first["mailTokens"] == -(-len(rest) // 4)
    assert first["reminderTokens"] == 0 and "toolTokens" not in first
    assert second["digestTokens"] == -(-len(lost[0]) // 4)
    assert second["mailTokens"] == -(-len(alice.told("mail")[1]["text"]) // 4)
    _, agent = await crew.team.agents.get("alice")

    def counted() -> bool:
        total = alice.desk.spending.total
        return total is not None and total.digest_tokens is not None

    await eventually(counted)
    assert agent.usage.tool_tokens is None


async def test_mail_is_marked_twice_in_a_turn_as_injected_and_as_seen(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that reports at once what was seen costs the store nothing at the end."""
    marks: list[tuple[str, int]] = []
    mark = Mailboxes.mark

    async def counting(box: Mailboxes, name: str, ids: Sequence[str], state: Mark) -> int:
        marks.append((state, len(ids)))
        return await mark(box, name, ids, state)

    monkeypatch.setattr(Mailboxes, "mark", counting)

    async def turn(given: TurnInput, desk: Desk) -> str:
        await desk.seen(given.ids)
        return ""

    alice = await alice_with(crew, turn)
    await say(crew, alice, "One?")
    await say(crew, alice, "Two?")
    assert marks == [("injected", 1), ("seen", 1)] * 2


async def test_what_no_request_took_along_is_not_booked(crew: Crew) -> None:
    uses = False

    async def turn(given: TurnInput, desk: Desk) -> str:
        if uses:
            desk.used(Usage.new(requests=1))
        return ""

    alice = await alice_with(crew, turn)
    await say(crew, alice, "One?")
    uses = True
    text = await say(crew, alice, "Two?")
    (only,) = alice.told("usage")
    assert only["digestTokens"] + only["mailTokens"] <= len(text) // 4 + 2
