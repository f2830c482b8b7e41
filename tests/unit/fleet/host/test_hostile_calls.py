"""Whatever an agent sends to the door of its host, it changes only what it may change.

BULLPEN_HOSTILE_CALLS=10000 sends as many calls; by default there are a few hundred.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnFiles
from bullpen.agents.supervisor.spawned_by_agent import check_asked
from bullpen.errors import BullpenError, Refused
from bullpen.fleet.host.agent_operations import AgentOperations
from bullpen.fleet.host.agent_requests import HostRequests
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord
from bullpen.protocol.team import TeamFacts
from bullpen.store.contract import Store
from bullpen.store.hosted.connection import HostConnection
from bullpen.store.hosted.server import HostServer
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.hostile.host_calls import CHILD, ME, TEAM, Calls, Seen, furnish, outside
from support.store.hosting import TOKENS

CALLS = int(os.environ.get("BULLPEN_HOSTILE_CALLS", "400"))
_PER_TEAM = 50


class _Machines:
    """What the host did for other agents than its own: whom it let in, placed and stopped."""

    def __init__(self) -> None:
        self.admitted: list[str] = []

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        self.admitted.append(agent)
        return {}

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        self.admitted.append(agent)

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        self.admitted.append(agent)

    async def who(self) -> str:
        return "here"


def door(store: Store, path: str, machines: Any, files: SpawnFiles) -> HostServer:
    async def judge(team: str, name: str, spec: AgentSpec, parent: tuple[str, AgentFacts]) -> None:
        await check_asked(spec, files, parent, team=team, name=name)

    async def place(place: ProcessRecord, nonces: object) -> None:
        if place.host != "here":
            raise Refused("not here", reason="other_place")

    async def join(team: str) -> None:
        pass

    operate = AgentOperations(store, judge=judge, place=place)
    asked = HostRequests(store, machines, join)
    return HostServer(store, path, TOKENS.get, asked=asked, operate=operate)


async def test_no_call_of_an_agent_changes_what_is_not_its_own(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    files = SpawnFiles(tmp_path, {"HOME": str(tmp_path)})
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(0, CALLS, _PER_TEAM):
        store, machines = MemoryStore(), _Machines()
        for team in (TEAM, "beta"):
            await Teams(store).create(team, facts=TeamFacts.new(agents_may=["member.spawn"]))
        await furnish(Team(store, TEAM))
        path = str(tmp_path / f"{number}" / "s")
        async with (
            door(store, path, machines, files),
            aclosing(await HostConnection.open(path, ME)) as line,
        ):
            for _ in range(min(_PER_TEAM, CALLS - number)):
                wrong += await _tried(draw, store, machines, line, counts)
    print(f"seed {seed}: {dict(counts)}")
    assert not wrong, (seed, wrong[:5], len(wrong))
    assert counts["sent"] == CALLS
    # Of calls that are all refused nothing can be learned.
    assert counts["changed"] > CALLS / 80, counts


async def _tried(
    draw: random.Random,
    store: Store,
    machines: _Machines,
    line: HostConnection,
    counts: Counter[str],
) -> list[str]:
    before = await Seen.of(store)
    machines.admitted.clear()
    mail = await store.mailbox(TEAM, "bob")
    op, args = Calls(draw, before.state, [entry.id for entry in mail.entries]).next()
    counts["sent"] += 1
    if op == "pass":
        line.hand_back("t")
    else:
        try:
            await line.call(op, args)
            counts["answered"] += 1
        except BullpenError as error:
            counts[f"{type(error).__name__}"] += 1
    after = await Seen.of(store)
    events = await store.events(TEAM, after=before.state.seq)
    counts["changed"] += bool(events)
    found = [*outside(before, after, events)]
    children = [
        m.name for m in before.state.team.roster if m.agent is not None and m.agent.parent == ME
    ]
    found += [f"{name} is let in" for name in machines.admitted if name not in children]
    return [f"{op} {args}: {each}" for each in found]


@pytest.mark.parametrize("name", ["bob", "team-lead", ME, "eve", CHILD])
async def test_an_agent_gets_the_secret_of_nobody_but_who_it_spawned(
    tmp_path: Path, name: str
) -> None:
    store, machines = MemoryStore(), _Machines()
    await Teams(store).create(TEAM, facts=TeamFacts.new(agents_may=["member.spawn"]))
    await furnish(Team(store, TEAM))
    path, files = str(tmp_path / "d" / "s"), SpawnFiles(tmp_path, {"HOME": str(tmp_path)})
    async with (
        door(store, path, machines, files),
        aclosing(await HostConnection.open(path, ME)) as line,
    ):
        call = {"what": "admit", "args": {"team": TEAM, "agent": name}}
        if name == CHILD:
            await line.call("ask", call)
        else:
            with pytest.raises(Refused):
                await line.call("ask", call)
    assert machines.admitted == ([CHILD] if name == CHILD else [])
