"""R-6.1: who, in which state, since when, on what, at which cost, and what waits: from the store.

Nobody is asked for it: neither the agents nor the lead need live.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bullpen.app.app import open_app
from bullpen.app.settings import Settings, settings_from
from bullpen.protocol.agent import AgentSpec, ProcessRecord, Spent
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import AgentState, Presence
from bullpen.team.team import Team
from bullpen.view.follow import TeamFollower

AGENTS = 30
STATES: tuple[AgentState, ...] = ("working", "waiting", "idle")


async def _hire(team: Team, number: int, now: int) -> Presence:
    """An agent on another machine, whose heartbeat is the truth about it."""
    name, nonce = f"agent{number:02}", f"n-{number}"
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/", model="m-1")
    await team.agents.register(name, spec, by=LEAD, nonce=nonce)
    place = ProcessRecord.new(backend="subprocess", host="elsewhere", pid=number, start="1-1")
    await team.agents.ready(name, nonce=nonce, place=place)
    await team.agents.begin_turn(name, nonce=nonce)
    spent = Spent.new(requests=1, input_tokens=number, output_tokens=1, cost_usd=0.01 * number)
    await team.agents.spend(name, nonce=nonce, reports={1: spent}, task=None)
    await team.tasks.claim(str(number + 1), by=name)
    beat = Presence.new(
        agent=name,
        state=STATES[number % 3],
        since_ms=now - 1000 * number,
        beat_ms=now,
        ttl_ms=600_000,
        detail=f"detail {number}",
        host="elsewhere",
        nonce=nonce,
        actions=[f"did {step} of {number}" for step in range(3)],
        usage=(await team.agents.get(name))[1].usage.raw,
        context=number / AGENTS,
    )
    await team.agents.beat(beat)
    return beat


@dataclass(frozen=True)
class Thirty:
    """A stored team of thirty agents, of which one waits for an answer."""

    settings: Settings
    truth: list[Presence]
    asked: str


async def thirty_agents(home: Path) -> Thirty:
    settings = settings_from({}, home=str(home))
    async with open_app(settings) as app:
        await app.teams.create("alpha", cwd="/")
        team, now = app.teams.open("alpha"), now_ms()
        for number in range(AGENTS):
            await team.tasks.add(f"Task of {number}", by=LEAD)
        truth = [await _hire(team, number, now) for number in range(AGENTS)]
        asked = await team.approvals.ask_permission("Bash", {"command": "make"}, by="agent01")
    return Thirty(settings, truth, asked.id)


async def test_thirty_agents_are_shown_as_they_are_while_the_lead_is_dead(tmp_path: Path) -> None:
    thirty = await thirty_agents(tmp_path)
    # Another process, which knows nothing but the store; nobody leads, nobody runs.
    async with open_app(thirty.settings) as app:
        scene = await TeamFollower(app.teams.open("alpha")).look()

    shown = {card.name: card for card in scene.members}
    assert len(shown) == AGENTS + 1
    for number, beat in enumerate(thirty.truth):
        card = shown[beat.agent]
        waits = number == 1
        assert (card.state, card.detail) == ("waiting" if waits else beat.state, beat.detail)
        assert waits or card.since_ms == beat.since_ms
        assert card.tasks == (str(number + 1),)
        assert list(card.actions) == beat.actions
        assert card.context == beat.context
        assert (card.usage.cost_usd, card.usage.input_tokens) == (0.01 * number, number)
    assert [(ask.id, ask.sender, ask.about) for ask in scene.asks] == [
        (thirty.asked, "agent01", "Bash make")
    ]
    assert round(scene.total.cost_usd, 2) == round(sum(0.01 * n for n in range(AGENTS)), 2)
