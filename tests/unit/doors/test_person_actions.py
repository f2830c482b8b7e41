"""What a person does to a team from a screen, besides answering: tests/unit/view has that."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from bullpen.app.app import App, open_app
from bullpen.app.settings import settings_from
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.errors import Conflict, Invalid, NotFound, Refused
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, payload_of
from bullpen.protocol.policy import Policy


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[App, None]:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key for tests")
    async with open_app(settings_from({}, home=str(tmp_path / "home"))) as app:
        await app.teams.create("alpha", cwd=str(tmp_path))
        await app.teams.open("alpha").roster.join("ann", by=LEAD)
        yield app


@pytest.fixture
def acts(app: App) -> PersonActions:
    return PersonActions(app, "alpha")


@pytest.fixture
def started(app: App, monkeypatch: pytest.MonkeyPatch) -> dict[str, AgentSpec]:
    """The agents that would be started, and what by."""
    found: dict[str, AgentSpec] = {}

    async def spawn(name: str, spec: AgentSpec, *, by: str) -> None:
        assert by == LEAD
        found[name] = spec

    monkeypatch.setattr(app.supervisor("alpha"), "spawn", spawn)
    return found


async def agent(app: App, name: str, **fields: Any) -> None:
    spec = AgentSpec.new(
        **{
            "driver": "native",
            "backend": "subprocess",
            "cwd": "/",
            "model": "anthropic:a",
            **fields,
        }
    )
    agents, nonce = app.teams.open("alpha").agents, f"n-{name}"
    await agents.register(name, spec, by=LEAD, nonce=nonce)
    await agents.ready(name, nonce=nonce, place=ProcessRecord.new(backend="tests", host="here"))


async def mail(app: App, name: str) -> list[Any]:
    box = await app.teams.open("alpha").mailbox.read(name)
    return [entry.message for entry in box.entries]


async def test_a_comment_names_the_line_and_quotes_it(app: App, acts: PersonActions) -> None:
    await acts.comment(
        "ann", path="src/lex.py", line=42, quoted="a = 1\nb = 2", text="Why twice?\n"
    )
    await acts.comment("ann", path="src/le\nx.py", line=None, quoted="", text="Too long")
    first, second = await mail(app, "ann")
    assert first.text == "Comment on src/lex.py line 42:\n> a = 1\n> b = 2\nWhy twice?"
    assert first.summary == "Comment on src/lex.py line 42"
    assert first.is_of_a_person and first.sender == LEAD
    assert second.text == "Comment on src/le x.py:\nToo long"
    with pytest.raises(Invalid):
        await acts.comment("ann", path="a", line=1, quoted="x", text=" \n")
    with pytest.raises(NotFound):
        await acts.comment("nobody", path="a", line=1, quoted="x", text="y")


async def test_an_interruption_ends_the_turn_and_not_the_agent(
    app: App, acts: PersonActions
) -> None:
    await agent(app, "bob")
    await acts.interrupt("bob")
    (message,) = await mail(app, "bob")
    order = payload_of(message.text)
    assert isinstance(order, Control) and order.action == "cancel"
    assert message.is_of_a_person
    with pytest.raises(NotFound):
        await acts.interrupt("nobody")


async def test_an_agent_that_does_not_run_is_not_told_to_be_interrupted(
    app: App, acts: PersonActions
) -> None:
    await agent(app, "bob")
    agents = app.teams.open("alpha").agents
    await agents.end("bob", "stopped", by=LEAD, nonce="n-bob", cause="enough")
    with pytest.raises(Conflict, match="it has ended"):
        await acts.interrupt("bob")
    assert await mail(app, "bob") == []


async def test_a_message_to_a_lead_that_has_ended_is_sent_with_a_warning(
    app: App, acts: PersonActions
) -> None:
    await agent(app, LEAD)
    agents = app.teams.open("alpha").agents
    await agents.end(LEAD, "finished", by=LEAD, nonce=f"n-{LEAD}")
    assert await acts.send(LEAD, "Go on") == (
        "team-lead is not running, so it does nothing with your message now."
        " Start it again: bullpen team resume alpha --agent team-lead"
    )
    assert [message.text for message in await mail(app, LEAD)] == ["Go on"]
    assert await acts.send("ann", "Hello") is None, "a person needs no start"


async def test_a_task_is_added(app: App, acts: PersonActions) -> None:
    task = await acts.add_task("Write the parser", "Both kinds of comments")
    stored = await app.teams.open("alpha").tasks.get(task.id)
    assert (stored.subject, stored.description) == ("Write the parser", "Both kinds of comments")
    with pytest.raises(Invalid):
        await acts.add_task("  ")


async def test_the_budget_of_the_team_is_set_and_removed(app: App, acts: PersonActions) -> None:
    assert (await acts.set_budget(5.0)).usd == 5.0
    assert (await acts.set_budget(None)).usd is None
    with pytest.raises(Invalid):
        await acts.set_budget(-1.0)


async def test_a_new_agent_is_like_the_lead(
    app: App, acts: PersonActions, started: dict[str, AgentSpec], tmp_path: Path
) -> None:
    policy = Policy.new(allow=["Bash(pytest:*)"]).raw
    await agent(app, LEAD, mode="acceptEdits", policy=policy, cwd=str(tmp_path))
    await acts.spawn("cal", "Write tests")
    spec = started["cal"]
    assert (spec.driver, spec.model, spec.mode) == ("native", "anthropic:a", "acceptEdits")
    assert spec.cwd == str(tmp_path)
    assert spec.policy.allow == ["Bash(pytest:*)"]
    assert spec.prompt == "Write tests"


async def test_a_new_agent_is_like_another_one_but_no_wider_than_the_lead(
    app: App, acts: PersonActions, started: dict[str, AgentSpec]
) -> None:
    await agent(app, LEAD, mode="default")
    await agent(app, "narrow", mode="dontAsk", model="anthropic:b")
    await agent(app, "wide", mode="bypassPermissions")
    await acts.spawn("cal", "Go", like="narrow")
    assert (started["cal"].mode, started["cal"].model) == ("dontAsk", "anthropic:b")
    with pytest.raises(Refused) as refused:
        await acts.spawn("dan", "Go", like="wide")
    assert refused.value.reason == "wider_than_parent"
    assert "dan" not in started
    with pytest.raises(NotFound):
        await acts.spawn("dan", "Go", like="nobody")


async def test_a_lead_in_plan_mode_does_not_keep_a_person_from_starting_a_planner(
    app: App, acts: PersonActions, started: dict[str, AgentSpec]
) -> None:
    await agent(app, LEAD, mode="plan")
    await acts.spawn("cal", "Go")
    assert started["cal"].mode == "plan"


async def test_without_an_agent_lead_the_first_agent_is_the_model(
    app: App, acts: PersonActions, started: dict[str, AgentSpec]
) -> None:
    with pytest.raises(Refused) as refused:
        await acts.spawn("cal", "Go")
    assert refused.value.reason == "no_agent"
    await agent(app, "bob", mode="acceptEdits", model="anthropic:b")
    await acts.spawn("cal", "Go")
    assert (started["cal"].mode, started["cal"].model) == ("acceptEdits", "anthropic:b")
