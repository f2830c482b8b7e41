"""A person who leads is `you` on every screen; a program that leads keeps its name."""

from __future__ import annotations

from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Member
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.view.news import addressed
from bullpen.view.story import Story, story_of
from support.rows import each_row


async def told(*, agent_leads: bool = False) -> Story:
    """The story of a team in which the lead wrote and got a message."""
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await team.roster.join("ann", by=LEAD)
        if agent_leads:
            spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/")
            await team.agents.register(LEAD, spec, by=LEAD, nonce="n")
        await team.mailbox.send("ann", "Start, team-lead waits.", sender=LEAD)
        await team.mailbox.send(LEAD, "Done.", sender="ann")
        return story_of(await team.events())


async def test_a_person_who_leads_is_you() -> None:
    story = await told()
    assert [story.shown_name(name) for name in (LEAD, "ann")] == ["you", "ann"]
    assert [story.shown_route(said) for said in story.said] == ["you to ann", "ann to you"]
    assert [story.shown_news(item) for item in story.told][-2:] == [
        "you to ann: Start, team-lead waits.",
        "ann to you: Done.",
    ]


async def test_an_agent_or_another_program_that_leads_keeps_its_name() -> None:
    story = await told(agent_leads=True)
    assert story.shown_name(LEAD) == LEAD
    assert story.shown_route(story.said[-1]) == "ann to team-lead"
    assert story.shown_news(story.told[-1]) == "ann to team-lead: Done."
    story = await told()
    story.members[LEAD] = Member.new(name=LEAD, agent_id="team-lead@alpha", model="opus")
    assert story.shown_name(LEAD) == LEAD


@each_row(
    ("line", "shown"),
    [
        ("team-lead added task #1 Ask team-lead", "you added task #1 Ask team-lead"),
        ("team-lead has finished", "you have finished"),
        ("team-lead asks ann to end", "you ask ann to end"),
        ("team-lead orders ann to pause", "you order ann to pause"),
        ("ann asks team-lead to end", "ann asks you to end"),
        ("ann gave task #7 to team-lead", "ann gave task #7 to you"),
        ("#3 came back to team-lead: conflict", "#3 came back to you: conflict"),
        ("team-leader to ann: hello", "team-leader to ann: hello"),
        (
            "ann completed task #2 Send it to team-lead",
            "ann completed task #2 Send it to team-lead",
        ),
    ],
)
def test_only_who_acts_and_who_is_acted_on_becomes_you(line: str, shown: str) -> None:
    assert addressed(line) == shown
