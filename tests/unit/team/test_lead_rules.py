"""Who may manage a team: the lead, a parent, an owner, and what a team opens to its agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, PermissionResponse
from bullpen.protocol.team import (
    AGENTS_MAY,
    LeadLease,
    Limits,
    MergeSettings,
    TeamFacts,
    Unattended,
)
from bullpen.store.memory import MemoryStore
from bullpen.team.agents.rules import may_spawn
from bullpen.team.lead_rules import is_open
from bullpen.team.promises.rules import PromiseDraft
from bullpen.team.team import Team, Teams, operations
from support.identity.expected import OPERATIONS as EXPECTED
from support.open_acts import open_to_agents
from support.rows import each_row

SPEC = AgentSpec.new(driver="told", backend="in-process", cwd="/")
PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")
STOP = Control.new(action="stop", sender="zoe").text()
FORGE = ForgeSettings.new(repository="https://forge.test/o/r", kind="gitea")
MINE = PromiseDraft("Mine", "path", "a.py")
LATER = PromiseDraft("Later", "path", "c.py")
GATE = MergeSettings.new(repository="/project", target="main")

Act: TypeAlias = Callable[[Team, str], Awaitable[Any]]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def teams(store: MemoryStore) -> Teams:
    return Teams(store)


@pytest.fixture
async def team(store: MemoryStore) -> Team:
    return await made(store)


async def made(store: MemoryStore, *agents_may: str) -> Team:
    """A team of the lead, its agents bob and zoe, zoe's agent kid, and pat, who is no agent.

    Bob works on task 1 and has task 2 assigned. Task 3 is free, and task 4 was given up. Task 1
    relies on a promise of task 3, and both promise to edit a file alone.
    """
    teams = Teams(store)
    await teams.create("crew", facts=TeamFacts.new(agents_may=["member.spawn"]))
    team = teams.open("crew")
    for name, by in (("bob", LEAD), ("zoe", LEAD), ("kid", "zoe")):
        await team.agents.register(name, SPEC, by=by, nonce=f"n-{name}")
        await team.agents.ready(name, nonce=f"n-{name}", place=PLACE)
    await open_to_agents(teams.open("crew"), *agents_may)
    await team.roster.join("pat", by=LEAD)
    for subject in ("started", "assigned", "free", "given up"):
        await team.tasks.add(subject, by=LEAD)
    await team.tasks.claim("1", by="bob")
    await team.tasks.assign("2", "bob", by=LEAD)
    await team.tasks.give_up("4", by=LEAD, reason="too hard")
    await team.promises.make("1", MINE, by="bob")
    await team.promises.make("3", PromiseDraft("Mine", "path", "b.py"), by=LEAD)
    await team.promises.rely("3.1", "1", by="bob")
    return team


LEAD_ONLY: dict[str, Act] = {
    "roster.join": lambda team, by: team.roster.join("eve", by=by),
    "tasks.nudge": lambda team, by: team.tasks.nudge(
        "1", by=by, attempt=1, times=0, why="slow", text="Go on"
    ),
    "tasks.relieve": lambda team, by: team.tasks.relieve("1", by=by, reason="mine now"),
    "tasks.retry": lambda team, by: team.tasks.retry("4", by=by),
    "tasks.assign": lambda team, by: team.tasks.assign("4", "zoe", by=by),
    "agents.register": lambda team, by: team.agents.register("eve", SPEC, by=by, nonce="n"),
    "agents.register the lead": lambda team, by: team.agents.register(LEAD, SPEC, by=by, nonce="n"),
    "agents.register in place": lambda team, by: team.agents.register(
        "pat", SPEC, by=by, nonce="n", in_place=True
    ),
    "agents.limit": lambda team, by: team.agents.limit(by=by, turns=10_000),
    "agents.grant": lambda team, by: team.agents.grant(by=by, turns=10_000),
    "agents.rebudget": lambda team, by: team.agents.rebudget("zoe", by=by, usd=100.0),
    "modes.change": lambda team, by: team.modes.change("zoe", "plan", by=by),
    "agents.take_lead": lambda team, by: team.agents.take_lead(
        LeadLease.new(nonce="n", until_ms=1), by=by
    ),
    "agents.drop_lead": lambda team, by: team.agents.drop_lead("n", by=by),
    "agents.finish": lambda team, by: team.agents.finish(by=by, summary="Done", override="Bored"),
    "agents.unfinish": lambda team, by: team.agents.unfinish(by=by),
    "agents.converse": lambda team, by: team.agents.converse(True, by=by),
    "agents.begin_run": lambda team, by: team.agents.begin_run(by=by),
    "agents.end_run": lambda team, by: team.agents.end_run("done", None, by=by),
    "merges.configure": lambda team, by: team.merges.configure(GATE, by=by, voice="human"),
    "forge.configure": lambda team, by: team.forge.configure(FORGE, by=by, voice="human"),
    "origins.complete": lambda team, by: team.origins.complete(by=by),
    "origins.rebudget": lambda team, by: team.origins.rebudget(Limits.new(), by=by),
    "origins.work_by": lambda team, by: team.origins.work_by(Unattended.new(nudges=9), by=by),
    "origins.hush": lambda team, by: team.origins.hush(1, by=by),
}
"""What a teammate may never do to its team."""

MANAGES: dict[str, Act] = {
    "roster.remove": lambda team, by: team.roster.remove("kid", by=by),
    "agents.relaunch": lambda team, by: team.agents.relaunch("kid", by=by, nonce="n"),
    "agents.withdraw": lambda team, by: team.agents.withdraw(
        "kid", by=by, nonce="n-kid", cause="x"
    ),
    "agents.take_back": lambda team, by: team.agents.take_back(
        "kid", by=by, nonce="n-kid", instead="x"
    ),
    "agents.ending": lambda team, by: team.agents.ending(
        "kid", "stopped", by=by, nonce="n-kid", cause="x"
    ),
    "agents.end": lambda team, by: team.agents.end("kid", "stopped", by=by, nonce="n-kid"),
    "mailbox.send": lambda team, by: team.mailbox.send("kid", STOP, sender=by),
}
"""What is done to an agent: its parent and the lead may, and so may the agent itself."""

OWNS: dict[str, Act] = {
    "tasks.delete": lambda team, by: team.tasks.delete("1", by=by),
    "tasks.release": lambda team, by: team.tasks.release("1", by=by),
    "tasks.give_up": lambda team, by: team.tasks.give_up("1", by=by, reason="no"),
    "tasks.done": lambda team, by: team.tasks.done("1", by=by),
    "tasks.assign": lambda team, by: team.tasks.assign("2", by, by=by),
    "tasks.renew": lambda team, by: team.tasks.renew("1", by=by, attempt=1, lease_s=9),
    "promises.make": lambda team, by: team.promises.make("1", LATER, by=by),
    "promises.change": lambda team, by: team.promises.change("1.1", LATER, by=by),
    "promises.withdraw": lambda team, by: team.promises.withdraw("1.1", by=by, reason=""),
    "promises.rely": lambda team, by: team.promises.rely("3.1", "1", by=by),
    "promises.drop": lambda team, by: team.promises.drop("3.1", "1", by=by),
    "promises.judge": lambda team, by: team.promises.judge("1", {"1.1": "gone"}, by=by),
}
"""What is done to a task: its owner and the lead may."""


async def refusal(act: Awaitable[Any]) -> str:
    with pytest.raises(Refused) as error:
        await act
    assert error.value.remedy
    return error.value.reason


def test_every_right_of_the_lead_that_names_who_acts_is_tried_here() -> None:
    tried = {name.split()[0] for name in (*LEAD_ONLY, *MANAGES, *OWNS)}
    teams = {name for name in operations() if name.startswith("teams.")}
    # Their own tests try these: the person's word counts there, whoever is named.
    elsewhere = {"tasks.force", "tasks.rebudget", "tasks.restate", "tasks.provable"}
    elsewhere |= {
        "forge.resume",
        "nights.resume",
        "reviews.record",
        "tasks.record_checks",
        "approvals.answer",
        "approvals.reschedule",
    }
    limited = {
        name
        for name, right in EXPECTED.items()
        if right in ("lead", "parent", "spawner", "owner", "person")
        if name in operations() and operations()[name].actor is not None
    }
    assert limited - tried - teams == elsewhere


@each_row("name", LEAD_ONLY)
@each_row("by", ["zoe", "pat", "stranger"])
async def test_only_the_lead_does_what_is_the_leads(name: str, by: str) -> None:
    team = await made(MemoryStore())
    before = await team.agents.config()
    assert await refusal(LEAD_ONLY[name](team, by)) == "not_lead"
    assert await team.agents.config() == before


@each_row("name", LEAD_ONLY)
async def test_the_lead_does_what_is_the_leads(name: str) -> None:
    await LEAD_ONLY[name](await made(MemoryStore()), LEAD)


@each_row("name", MANAGES)
async def test_a_stranger_does_nothing_to_an_agent(name: str) -> None:
    team = await made(MemoryStore())
    before = await team.agents.config()
    assert await refusal(MANAGES[name](team, "bob")) == "not_lead"
    assert await team.agents.config() == before
    assert (await team.mailbox.read("kid")).entries == ()


@each_row("name", MANAGES)
@each_row("by", ["zoe", LEAD, "kid"])
async def test_a_parent_the_lead_and_an_agent_itself_may_end_it(name: str, by: str) -> None:
    await MANAGES[name](await made(MemoryStore()), by)


@each_row("name", OWNS)
async def test_a_task_of_another_is_left_alone(name: str) -> None:
    team = await made(MemoryStore())
    before = (await team.tasks.list()).tasks
    assert await refusal(OWNS[name](team, "zoe")) == "not_owner"
    assert (await team.tasks.list()).tasks == before


@each_row("name", OWNS)
@each_row("by", ["bob", LEAD])
async def test_its_owner_and_the_lead_may_do_it(name: str, by: str) -> None:
    await OWNS[name](await made(MemoryStore()), by)


async def test_a_task_of_nobody_can_be_deleted_and_assigned_by_everybody(team: Team) -> None:
    await team.tasks.assign("3", "zoe", by="bob")
    await team.tasks.release("3", by="zoe")
    await team.tasks.delete("3", by="bob")


async def test_a_person_may_delete_the_task_of_anybody(team: Team) -> None:
    await team.tasks.delete("1", by="zoe", voice="human")


async def test_a_member_joins_and_leaves_by_itself(team: Team) -> None:
    await team.roster.join("eve", by="eve")
    await team.roster.remove("eve", by="eve")


async def test_an_order_is_refused_to_everybody_if_one_may_not_be_ordered(team: Team) -> None:
    assert await refusal(team.mailbox.broadcast(STOP, sender="zoe")) == "not_lead"
    assert (await team.mailbox.read("kid")).entries == ()
    await team.mailbox.broadcast(STOP, sender=LEAD)


async def test_an_answer_and_any_other_text_is_not_an_order(team: Team) -> None:
    answer = PermissionResponse.new(request_id="r", subtype="success").text()
    for text in (answer, '{"type": "bullpen_control"', "stop", '{"action": "stop"}'):
        await team.mailbox.send("kid", text, sender="bob")


@pytest.mark.parametrize("by", ["zoe", "stranger", ""])
async def test_a_teammate_neither_creates_nor_deletes_nor_moves_a_team(
    teams: Teams, team: Team, by: str
) -> None:
    await teams.create("other")
    assert await refusal(teams.create("mine", by=by)) == "not_lead"
    target = MemoryStore()
    for name in ("crew", "other"):
        assert await refusal(teams.delete(name, by=by, force=True)) == "not_lead"
        assert await refusal(teams.move(name, target, to="memory://", by=by)) == "not_lead"
    assert await teams.names() == ["crew", "other"]
    assert await teams.delete("other", by=LEAD)


OPENS: dict[str, tuple[Act, ...]] = {
    "member.add": (LEAD_ONLY["roster.join"],),
    "member.remove": (MANAGES["roster.remove"],),
    "member.spawn": (LEAD_ONLY["agents.register"],),
    "member.stop": tuple(act for name, act in MANAGES.items() if name != "roster.remove"),
    "task.delete": (OWNS["tasks.delete"],),
    "task.release": (OWNS["tasks.release"], OWNS["tasks.assign"], LEAD_ONLY["tasks.relieve"]),
    "task.retry": (LEAD_ONLY["tasks.retry"], LEAD_ONLY["tasks.assign"]),
}


def test_every_act_that_can_be_opened_is_tried_here() -> None:
    assert set(OPENS) == set(AGENTS_MAY)


@pytest.mark.parametrize("act", AGENTS_MAY)
async def test_a_team_opens_one_act_to_its_agents_and_no_other(act: str) -> None:
    for tried, ways in OPENS.items():
        for way in ways:
            team = await made(MemoryStore(), act)
            if tried == act:
                await way(team, "bob" if way in MANAGES.values() else "zoe")
            else:
                reason = await refusal(way(team, "bob" if way in MANAGES.values() else "zoe"))
                assert reason in ("not_lead", "not_owner")


async def test_who_may_spawn_is_known_before_it_is_tried(teams: Teams, team: Team) -> None:
    """The tools of those who may not are not shown to their models."""
    config = await team.agents.config()
    assert [may_spawn(config, name) for name in (LEAD, "zoe", "kid", "pat")] == [True] + [False] * 3
    with pytest.raises(Refused) as error:
        await team.agents.register("eve", SPEC, by="zoe", nonce="n")
    assert 'agents_may = ["member.spawn"]' in error.value.remedy
    await open_to_agents(teams.open("crew"), "member.spawn")
    config = await team.agents.config()
    # The limit of two levels stays.
    assert [may_spawn(config, name) for name in ("zoe", "kid")] == [True, False]


@pytest.mark.parametrize("agents_may", [["team.delete"], ["member.stop", "all"], "member.stop", 7])
async def test_a_damaged_or_unknown_list_opens_nothing(teams: Teams, agents_may: Any) -> None:
    facts = TeamFacts.parse({"agentsMay": agents_may, "limits": {"turns": 7}})
    await teams.create("crew", facts=facts)
    config = await teams.open("crew").agents.config()
    assert not any(is_open(config, act) for act in (*AGENTS_MAY, "team.delete", "all"))
    assert config.facts.limits.turns == 7
