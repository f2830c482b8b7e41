"""Teams and their members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from bullpen.errors import (
    BullpenError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    Unavailable,
    Unreadable,
)
from bullpen.protocol import names
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import AgentState, Presence
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Problem, TeamState
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team, Teams

if TYPE_CHECKING:
    from .conftest import Ticker


async def test_a_new_team_has_the_known_shape(teams: Teams) -> None:
    config = await teams.create("crew", description="Builds it", cwd="/project")
    assert config.dump().decode() == (
        '{\n  "name": "crew",\n  "description": "Builds it",\n  "createdAt": 1794696431000,\n'
        '  "leadAgentId": "team-lead@crew",\n  "leadSessionId": "id-00000001",\n  "members": [\n'
        '    {\n      "agentId": "team-lead@crew",\n      "name": "team-lead",\n'
        '      "agentType": "team-lead",\n      "joinedAt": 1794696431000,\n'
        '      "tmuxPaneId": "",\n      "cwd": "/project",\n      "subscriptions": []\n'
        "    }\n  ]\n}"
    )
    assert [member.name for member in await teams.open("crew").roster.list()] == [LEAD]


async def test_a_team_is_created_once_and_has_a_good_name(teams: Teams) -> None:
    await teams.create("crew")
    with pytest.raises(Conflict):
        await teams.create("crew")
    with pytest.raises(Invalid):
        await teams.create("../crew")
    assert await teams.names() == ["crew"]


async def test_a_list_counts_members_and_tasks(team: Team, teams: Teams) -> None:
    await teams.create("alone")
    await team.tasks.add_many([Draft("a"), Draft("b"), Draft("c")], by=LEAD)
    await team.tasks.claim("1", by="alice")
    await team.tasks.done("2", by=LEAD)
    alone, crew = await teams.list()
    assert (alone.name, alone.members, alone.problem) == ("alone", 1, None)
    assert (crew.name, crew.members, crew.created_at) == ("crew", 3, 1794696431000)
    assert crew.tasks == {"pending": 1, "in_progress": 1, "completed": 1}


class DamagedStore(MemoryStore):
    """A store in which reading some teams goes wrong."""

    async def teams(self) -> list[str]:
        return ["broken", "crew", "gone"]

    async def read(self, team: str) -> TeamState:
        if team == "broken":
            raise Unreadable("teams/broken/config.json", "it is empty")
        state = await super().read(team)
        bad = (Problem("tasks/crew/7.json", "not JSON"), Problem("tasks/crew/8.json", "empty"))
        return TeamState(state.team, state.tasks, state.requests, state.seq, bad)


async def test_a_team_that_cannot_be_read_is_listed_with_its_problem() -> None:
    teams = Teams(DamagedStore())
    await teams.create("crew")
    broken, crew = await teams.list()
    assert broken.name == "broken"
    assert broken.problem is not None
    assert broken.problem.startswith("Cannot read teams/broken/config.json: it is empty.")
    assert (crew.members, crew.problem) == (1, "tasks/crew/7.json: not JSON (and 1 more)")


@pytest.mark.parametrize("state", ["working", "stopped", "failed"])
async def test_a_team_with_members_at_work_is_deleted_by_force_only(
    team: Team, teams: Teams, store: MemoryStore, ticker: Ticker, state: AgentState
) -> None:
    for agent in ("alice", LEAD):
        beat = Presence.new(agent=agent, state=state, since_ms=ticker.ms, beat_ms=ticker.ms)
        await store.beat("crew", beat)
    if state == "working":
        with pytest.raises(Refused, match=r"at work: alice\.") as error:
            await teams.delete("crew", by=LEAD)
        assert error.value.reason == "members_alive"
        assert await teams.delete("crew", by=LEAD, force=True)
    else:
        assert await teams.delete("crew", by=LEAD)
    assert await teams.names() == []


async def test_a_team_whose_members_fell_silent_can_be_deleted(
    team: Team, teams: Teams, store: MemoryStore, ticker: Ticker
) -> None:
    beat = Presence.new(agent="alice", state="working", since_ms=ticker.ms, beat_ms=ticker.ms)
    await store.beat("crew", beat)
    ticker.ms += 10_001
    assert await teams.delete("crew", by=LEAD)


async def test_deleting_twice_is_fine(team: Team, teams: Teams) -> None:
    assert await teams.delete("crew", by=LEAD)
    assert not await teams.delete("crew", by=LEAD)
    assert not await teams.delete("crew", by=LEAD, force=True)


async def test_teams_close_their_store() -> None:
    closed: list[bool] = []

    class Closing(MemoryStore):
        async def aclose(self) -> None:
            closed.append(True)

    async with Teams(Closing()):
        assert closed == []
    assert closed == [True]


# --- members


async def test_a_new_member_has_the_known_shape(team: Team) -> None:
    member = await team.roster.join(
        "carol",
        by=LEAD,
        model="m",
        prompt="Go.",
        cwd="/project",
        plan_mode_required=True,
        backend_type="tmux",
    )
    assert list(member.raw.items()) == [
        ("agentId", "carol@crew"),
        ("name", "carol"),
        ("agentType", "general-purpose"),
        ("model", "m"),
        ("prompt", "Go."),
        ("color", "yellow"),
        ("planModeRequired", True),
        ("joinedAt", 1794696431000),
        ("tmuxPaneId", ""),
        ("cwd", "/project"),
        ("subscriptions", []),
        ("backendType", "tmux"),
    ]
    assert isinstance(member.raw["joinedAt"], int)
    assert await team.roster.get("carol") == member
    event = (await team.events())[-1]
    assert (event.actor, event.op) == (LEAD, "member.join")


async def test_members_who_join_at_once_are_all_stored_with_colours_in_cycle(
    teams: Teams,
) -> None:
    await teams.create("crowd")
    roster = teams.open("crowd").roster
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(lambda name: roster.join(name, by=LEAD), f"m{number}")
    members = (await roster.list())[1:]
    assert len({member.name for member in members}) == 20
    assert [member.color for member in members] == [names.color_for(n) for n in range(20)]


@pytest.mark.parametrize("name", ["alice", "ALICE", LEAD])
async def test_a_taken_name_is_a_conflict(team: Team, name: str) -> None:
    with pytest.raises(Conflict, match=f"{name.lower()!r}.*Choose another name"):
        await team.roster.join(name, by=LEAD)


@pytest.mark.parametrize("name", ["", "../x", "system", "a b"])
async def test_a_name_that_cannot_be_one_is_refused(team: Team, name: str) -> None:
    with pytest.raises(Invalid):
        await team.roster.join(name, by=LEAD)


class ForeignRows(MemoryStore):
    """A store whose team has rows that other programs wrote."""

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        await super().create(team, config, actor=actor)
        held = self._teams[team]
        held.state.members["bad"] = b'{"name":"broken","joinedAt":"yesterday"}'
        held.state.members["odd"] = b'{"name":"QA Lead!"}'
        held.state.members["worse"] = b'{"name":"a/b"}'
        held.state.members["none"] = b'"row"'


@pytest.mark.parametrize("name", ["broken", "QA-Lead-"])
async def test_a_row_of_another_program_keeps_its_name_and_its_mailbox(name: str) -> None:
    teams = Teams(ForeignRows())
    await teams.create("crew")
    roster = teams.open("crew").roster
    with pytest.raises(Conflict):
        await roster.join(name, by=LEAD)
    # Four rows that are not the lead's: two are members, two cannot be read.
    assert (await roster.join("a-b", by=LEAD)).color == names.color_for(4)


async def test_the_lead_cannot_be_removed(team: Team) -> None:
    with pytest.raises(Refused) as error:
        await team.roster.remove(LEAD, by=LEAD)
    assert error.value.reason == "is_lead"


async def test_an_unknown_member_is_not_found_and_the_error_names_the_others(team: Team) -> None:
    with pytest.raises(NotFound, match=r"Did you mean 'bob'.*team-lead, alice, bob"):
        await team.roster.remove("bobby", by=LEAD)
    with pytest.raises(NotFound):
        await team.roster.get("nobody")


# --- snapshots


async def test_a_snapshot_shows_who_does_what(
    team: Team, store: MemoryStore, ticker: Ticker
) -> None:
    await team.tasks.add("a", by=LEAD)
    await team.tasks.claim("1", by="alice")
    await team.mailbox.send("bob", "hello", sender="alice")
    request = await team.approvals.ask_plan("Do it.", by="alice")
    late = await team.approvals.ask_plan("Do it soon.", by="alice", deadline_s=1)
    ticker.ms += 1_000
    since = ticker.ms - 500
    await store.beat(
        "crew",
        Presence.new(
            agent="alice", state="working", since_ms=since, beat_ms=ticker.ms, detail="Bash"
        ),
    )
    shot = await team.snapshot()
    lead, alice, bob = shot.members
    assert (lead.state, lead.since_ms, lead.unread) == ("unknown", None, 2)
    assert (alice.state, alice.since_ms, alice.detail) == ("working", since, "Bash")
    assert (alice.tasks, alice.unread) == (("1",), 0)
    assert (bob.tasks, bob.unread) == ((), 1)
    assert [task.id for task in shot.tasks] == ["1"]
    assert shot.pending == (request,)
    assert late.id != request.id
    assert (shot.team.name, shot.taken_ms, shot.problems) == ("crew", ticker.ms, ())
    assert shot.seq == (await team.events())[-1].seq


@pytest.mark.parametrize(
    ("state", "silent_ms", "shown"),
    [
        ("working", 10_000, "working"),
        ("working", 10_001, "lost"),
        ("idle", 60_000, "lost"),
        ("stopped", 60_000, "stopped"),
        ("failed", 60_000, "failed"),
        ("lost", 0, "lost"),
    ],
)
async def test_silence_means_lost_unless_it_was_announced(
    team: Team,
    store: MemoryStore,
    ticker: Ticker,
    state: AgentState,
    silent_ms: int,
    shown: str,
) -> None:
    beat = Presence.new(agent="alice", state=state, since_ms=1, beat_ms=ticker.ms)
    await store.beat("crew", beat)
    ticker.ms += silent_ms
    alice = (await team.snapshot()).members[1]
    assert alice.state == shown
    assert alice.since_ms == (beat.beat_ms if shown == "lost" != state else 1)


class BlindStore(MemoryStore):
    """A store in which one mailbox cannot be read."""

    async def unread(self, team: str, agents: Sequence[str]) -> Mapping[str, int | BullpenError]:
        found = await super().unread(team, agents)
        return {**found, LEAD: Unavailable("The disk is on fire.")}

    async def presence(self, team: str) -> Mapping[str, Presence]:
        return {}


async def test_a_mailbox_that_cannot_be_read_is_a_problem_and_not_empty() -> None:
    teams = Teams(BlindStore())
    await teams.create("crew")
    team = teams.open("crew")
    await team.roster.join("alice", by=LEAD)
    shot = await team.snapshot()
    assert [view.unread for view in shot.members] == [None, 0]
    assert shot.problems == (Problem("the mailbox of 'team-lead'", "The disk is on fire."),)
    with pytest.raises(Unavailable, match="on fire"):
        await team.mailbox.unread()


async def test_snapshots_follow_every_change_until_the_team_is_deleted(
    team: Team, teams: Teams
) -> None:
    with anyio.fail_after(5):
        shots = team.snapshots()
        assert (await anext(shots)).tasks == ()
        await team.tasks.add("a", by=LEAD)
        assert [task.id for task in (await anext(shots)).tasks] == ["1"]
        await team.mailbox.send("bob", "x", sender="alice")
        assert (await anext(shots)).members[2].unread == 1
        await teams.delete("crew", by=LEAD)
        with pytest.raises(NotFound):
            await anext(shots)


class Waker:
    """A watch that wakes at once, whether anything changed or not."""

    def __init__(self) -> None:
        self.woken = 0

    def __aiter__(self) -> Waker:
        return self

    async def aclose(self) -> None:
        self.woken = 0

    async def __anext__(self) -> int:
        self.woken += 1
        return self.woken


async def test_snapshots_that_show_the_same_are_not_repeated(
    team: Team, store: MemoryStore, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waker = Waker()
    monkeypatch.setattr(store, "watch", lambda name, every_s: waker)
    beat = Presence.new(agent="alice", state="idle", since_ms=1, beat_ms=ticker.ms)
    await store.beat("crew", beat)
    shots = team.snapshots()
    first = await anext(shots)
    ticker.ms += 1

    async def add_later() -> None:
        while waker.woken < 4:
            await anyio.lowlevel.checkpoint()
        await team.tasks.add("a", by=LEAD)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(add_later)
            second = await anext(shots)
    assert waker.woken >= 4
    assert (first.tasks, [task.id for task in second.tasks]) == ((), ["1"])
    await shots.aclose()


async def test_leaving_the_snapshots_ends_the_watch(
    team: Team, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    async def watch(name: str, *, every_s: float | None) -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append(name)

    monkeypatch.setattr(store, "watch", watch)
    shots = team.snapshots()
    await anext(shots)
    assert ended == []
    await shots.aclose()
    assert ended == ["crew"]


async def test_followed_events_come_once_each(team: Team) -> None:
    batches = team.follow_events(after=1)
    with anyio.fail_after(5):
        seqs = [event.seq for event in await anext(batches)]
        await team.tasks.add("a", by=LEAD)
        seqs += [event.seq for event in await anext(batches)]
    assert seqs == list(range(2, seqs[-1] + 1))
    await batches.aclose()


async def test_events_can_be_read_from_a_point(team: Team) -> None:
    assert [event.seq for event in await team.events(after=1, limit=1)] == [2]
