"""Deadlines of requests when the clock is set, the machine sleeps or a process is stopped."""

from __future__ import annotations

import pytest

from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.store.memory import MemoryStore
from bullpen.team.requests.deadlines import RequestDeadlines
from bullpen.team.team import Team, Teams

pytestmark = pytest.mark.anyio

HOUR_S = 3600.0


class Clocks:
    """The clocks of a machine, made up."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000_000
        self.now = 50.0

    def wall_ms(self) -> int:
        return self.wall

    def now_s(self) -> float:
        return self.now

    def go(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)
        self.now += seconds

    def set(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)


async def asked(clocks: Clocks, deadline_s: float = 600.0) -> tuple[Team, Request]:
    teams = Teams(MemoryStore(clock=clocks.wall_ms), clock=clocks.wall_ms)
    await teams.create("crew")
    team = teams.open("crew")
    await team.roster.join("alice", by=LEAD)
    request = await team.approvals.ask_permission(
        "Bash", {"command": "ls"}, by="alice", deadline_s=deadline_s
    )
    return team, request


def keeper(team: Team, clocks: Clocks, by: str = "alice") -> RequestDeadlines:
    return RequestDeadlines(team.approvals, by=by, clock=clocks.wall_ms, now=clocks.now_s)


async def left_s(team: Team, request: Request, clocks: Clocks) -> float:
    found = (await team.approvals.get(request.id)).deadline_ms
    assert found is not None
    return (found - clocks.wall) / 1000


@pytest.mark.parametrize("by", ["alice", LEAD])
@pytest.mark.parametrize("set_s", [180.0, 8 * HOUR_S, HOUR_S, -HOUR_S])
async def test_a_request_can_be_answered_as_long_as_without_the_jump(set_s: float, by: str) -> None:
    clocks = Clocks()
    team, request = await asked(clocks)
    watch = keeper(team, clocks, by)
    await watch.keep()
    clocks.go(5)
    clocks.set(set_s)
    await watch.keep()
    assert await left_s(team, request, clocks) == pytest.approx(595)
    assert not await team.approvals.expire()
    for _ in range(59):
        clocks.go(10)
        await watch.keep()
    assert [each.id for each in await team.approvals.pending()] == [request.id]
    clocks.go(6)
    assert [each.id for each in await team.approvals.expire()] == [request.id]


async def test_after_a_gap_there_is_a_lease_left_to_answer() -> None:
    clocks = Clocks()
    team, request = await asked(clocks, deadline_s=60)
    watch = keeper(team, clocks)
    for _ in range(5):
        await watch.keep()
        clocks.go(2)
    clocks.go(180)
    await watch.keep()
    assert await left_s(team, request, clocks) == pytest.approx(120)
    assert (await team.approvals.answer(request.id, approve=True, by=LEAD)).state == "approved"


async def test_two_that_watch_do_not_undo_what_the_other_did() -> None:
    clocks = Clocks()
    team, request = await asked(clocks, deadline_s=60)
    ours, leads = keeper(team, clocks), keeper(team, clocks, LEAD)
    for _ in range(5):
        await ours.keep()
        await leads.keep()
        clocks.go(2)
    for _ in range(20):
        # The lead's process is stopped, the agent's is not.
        clocks.go(2)
        await ours.keep()
    await leads.keep()
    before = len(await team.events())
    for _ in range(20):
        await ours.keep()
        await leads.keep()
        clocks.go(2)
    assert len(await team.events()) == before
    assert await left_s(team, request, clocks) == pytest.approx(80)


async def test_nobody_else_moves_a_deadline_and_an_answer_stands() -> None:
    clocks = Clocks()
    team, request = await asked(clocks)
    await team.roster.join("bob", by=LEAD)
    await team.approvals.reschedule({request.id: 1}, by="bob")
    assert await left_s(team, request, clocks) == 600
    await team.approvals.answer(request.id, approve=False, by=LEAD)
    await team.approvals.reschedule({request.id: 1}, by="alice")
    assert (await team.approvals.get(request.id)).deadline_ms == request.deadline_ms
    with pytest.raises(Refused, match="already denied"):
        await team.approvals.answer(request.id, approve=True, by=LEAD)
