"""An agent that spawns teammates is answered at once, and told by mail of a start that fails."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from bullpen.agents.config.spec import SpawnFiles
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.supervisor import colleagues as module
from bullpen.agents.supervisor.colleagues import TeamColleagues
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.errors import NotFound, Refused, Unavailable
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.crews import eventually

from .test_start_wait import PLACE, Slow

SPEC = AgentSpec.new(driver="scripted", backend="slow", cwd="/")


class Gated(Slow):
    """A backend whose starts wait until a test lets each get ready, or fail."""

    def __init__(self, team: Team) -> None:
        super().__init__(team)
        self.launches: dict[str, str] = {}
        self.fails: dict[str, str] = {}
        self.crashes: set[str] = set()

    async def start(self, launch: Launch) -> ProcessRecord:
        if launch.agent in self.crashes:
            raise RuntimeError("a bug")
        if launch.agent in self.fails:
            raise Unavailable(self.fails[launch.agent], remedy="Set ANTHROPIC_API_KEY.")
        self.launches[launch.agent] = launch.nonce
        return PLACE

    async def ready(self, name: str) -> None:
        nonce = self.launches[name]
        await self._team.agents.ready(name, nonce=nonce, place=PLACE)


class Lead:
    """A lead with its colleagues, and the group in which they get ready."""

    def __init__(self, team: Team, supervisor: Supervisor, backend: Gated) -> None:
        self.team = team
        self.supervisor = supervisor
        self.backend = backend

    def colleagues(self, starts: TaskGroup) -> TeamColleagues:
        files = SpawnFiles(Path("/"), {})
        return TeamColleagues(self.supervisor, self.team, agent=LEAD, files=files, starts=starts)

    async def phase(self, name: str) -> str:
        return (await self.team.agents.get(name))[1].phase

    async def mail(self) -> list[tuple[str, str]]:
        box = await self.team.mailbox.read(LEAD)
        return [(entry.message.sender, entry.message.text) for entry in box.entries]


@pytest.fixture
async def lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lead:
    async def resolved(wanted: Wanted, *_: object, **__: object) -> AgentSpec:
        return SPEC.evolve(prompt=wanted.prompt)

    monkeypatch.setattr(module, "teammate", resolved)
    teams = Teams(MemoryStore())
    await teams.create("crew")
    team = teams.open("crew")
    await team.agents.register(LEAD, SPEC, by=LEAD, nonce="lead-1")
    await team.agents.ready(LEAD, nonce="lead-1", place=PLACE)
    backend = Gated(team)
    supervisor = Supervisor(
        team,
        home=tmp_path,
        backends={"slow": backend},
        environ={},
        check=lambda spec, in_money: None,
    )
    return Lead(team, supervisor, backend)


def wanted(name: str) -> Wanted:
    return Wanted(name=name, prompt=f"Begin, {name}")


async def started(lead: Lead, *names: str) -> None:
    await eventually(lambda: set(names) <= lead.backend.launches.keys())


async def gone(lead: Lead, name: str) -> bool:
    return name not in [member.name for member in await lead.team.roster.list()]


async def test_spawns_of_one_message_are_answered_at_once_and_start_side_by_side(
    lead: Lead,
) -> None:
    async with anyio.create_task_group() as starts:
        office = lead.colleagues(starts)
        for name in ("ann", "bob", "cat"):
            text = await office.spawn(wanted(name))
            assert text.startswith(f"{name} is starting (scripted, slow).")
        await started(lead, "ann", "bob", "cat")
        assert [await lead.phase(name) for name in ("ann", "bob", "cat")] == ["starting"] * 3
        sent = await lead.team.mailbox.send("bob", "Ask ann.", sender=LEAD)
        # The last one is ready first.
        for name in ("cat", "bob", "ann"):
            await lead.backend.ready(name)
    assert [await lead.phase(name) for name in ("ann", "bob", "cat")] == ["running"] * 3
    assert sent.ahead == 0
    assert await lead.mail() == []


async def test_a_start_that_fails_is_told_to_the_spawner_by_mail(lead: Lead) -> None:
    lead.backend.fails["ann"] = "The API rejected the key sk-ant-api03-" + "x" * 90
    async with anyio.create_task_group() as starts:
        await lead.colleagues(starts).spawn(wanted("ann"))
        await lead.team.mailbox.send("ann", "Hello", sender=LEAD)
    assert await gone(lead, "ann")
    ((sender, text),) = await lead.mail()
    assert sender == "ann"
    assert text.startswith("ann could not be started: The API rejected the key")
    assert "xxxx" not in text, "a key in mail"
    assert text.endswith(
        "Your message is kept and delivered if ann is started again. Set ANTHROPIC_API_KEY."
    )
    assert (await lead.team.events())[-1].op == "agent.withdraw"
    # The name is free, and its mail waits.
    lead.backend.fails.clear()
    async with anyio.create_task_group() as starts:
        assert "is starting" in await lead.colleagues(starts).spawn(wanted("ann"))
        await started(lead, "ann")
        await lead.backend.ready("ann")
    texts = [entry.message.text for entry in (await lead.team.mailbox.read("ann")).entries]
    assert texts == ["Hello", "Begin, ann"]


async def test_a_bug_in_a_start_is_told_and_ends_nobody_else(lead: Lead) -> None:
    lead.backend.crashes.add("ann")
    async with anyio.create_task_group() as starts:
        office = lead.colleagues(starts)
        await office.spawn(wanted("ann"))
        await office.spawn(wanted("bob"))
        await started(lead, "bob")
        await lead.backend.ready("bob")
    assert await gone(lead, "ann")
    assert await lead.phase("bob") == "running"
    assert "a bug" in (await lead.mail())[0][1]


async def test_limits_are_judged_before_the_answer(lead: Lead) -> None:
    await lead.team.agents.limit(by=LEAD, agents=2)
    async with anyio.create_task_group() as starts:
        office = lead.colleagues(starts)
        await office.spawn(wanted("ann"))
        with pytest.raises(Refused) as refused:
            await office.spawn(wanted("bob"))
        assert refused.value.reason == "agents_limit"
        starts.cancel_scope.cancel()
    assert await gone(lead, "bob")


async def test_two_spawns_of_one_name_at_once_start_one_agent(lead: Lead) -> None:
    texts: list[str] = []

    async with anyio.create_task_group() as starts:
        office = lead.colleagues(starts)

        async def spawn() -> None:
            texts.append(await office.spawn(wanted("ann")))

        async with anyio.create_task_group() as calls:
            calls.start_soon(spawn)
            calls.start_soon(spawn)
        await started(lead, "ann")
        await lead.backend.ready("ann")
    first, second = sorted(texts, key=lambda text: "already" in text)
    assert "is starting" in first
    assert second == "ann is already in the team; it was not started again."
    ops = [event.op for event in await lead.team.events()]
    assert ops.count("agent.spawn") == 2, "the lead and ann"


@pytest.mark.parametrize(("how", "end"), [("finished", "suspended"), ("lost", "lost")])
async def test_a_start_is_cut_off_with_its_spawner_and_goes_on_with_the_team(
    lead: Lead, how: str, end: str
) -> None:
    async with anyio.create_task_group() as starts:
        office = lead.colleagues(starts)
        await office.spawn(wanted("ann"))
        await started(lead, "ann")
        office.ended(how)  # type: ignore[arg-type]
        starts.cancel_scope.cancel()
    _, agent = await lead.team.agents.get("ann")
    assert (agent.phase, agent.end) == ("ended", end)

    async with anyio.create_task_group() as group:
        lead.backend.launches.clear()
        group.start_soon(lambda: lead.supervisor.resume(by=LEAD, names=["ann"]))
        await started(lead, "ann")
        await lead.backend.ready("ann")
    texts = [entry.message.text for entry in (await lead.team.mailbox.read("ann")).entries]
    assert texts == ["Begin, ann"], "its prompt is not lost"


async def test_whoever_stops_a_starting_agent_gets_no_mail_about_it(lead: Lead) -> None:
    async with anyio.create_task_group() as starts:
        office = lead.colleagues(starts)
        await office.spawn(wanted("ann"))
        await started(lead, "ann")
        with suppress(NotFound):
            await office.stop("ann", reason="enough")
    assert await lead.mail() == []


async def test_a_team_that_is_stopped_while_an_agent_starts_starts_it_again_later(
    lead: Lead,
) -> None:
    async with anyio.create_task_group() as starts:
        await lead.colleagues(starts).spawn(wanted("ann"))
        await started(lead, "ann")
        await lead.supervisor.stop("ann", by=LEAD, end="suspended")
    _, agent = await lead.team.agents.get("ann")
    assert (agent.phase, agent.end, agent.prompt_id is None) == ("ended", "suspended", False)
    assert await lead.mail() == []


async def test_each_spawn_has_a_log_in_order(lead: Lead) -> None:
    async def placed() -> bool:
        return (await lead.team.events())[-1].op == "agent.placed"

    async with anyio.create_task_group() as starts:
        await lead.colleagues(starts).spawn(wanted("ann"))
        await eventually(placed)
        await lead.backend.ready("ann")
    ops = [event.op for event in await lead.team.events()]
    assert ops[-3:] == ["agent.spawn", "agent.placed", "agent.ready"]
