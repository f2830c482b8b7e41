"""For whom a process speaks: the nearest launch above it, never a variable."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise

import pytest

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.permissions import speaker
from bullpen.agents.permissions.speaker import agent_here, is_of_an_agent, launches_above
from bullpen.agents.system import process_owners, process_table, processes
from bullpen.agents.system.orphans import KEPT_BELOW
from bullpen.agents.system.process_owners import NOBODY, SHARED, Owners
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord
from bullpen.protocol.team import Member, TeamConfig

OWN, SHELL, ZOE, LEAD, INIT = os.getpid(), 901, 902, 903, 1
NONCES = {"team-lead": "n-lead", "zoe": "n-zoe"}

Above = Callable[..., None]


def _place(pid: int, backend: str = "subprocess") -> ProcessRecord:
    return ProcessRecord.new(backend=backend, host="here", pid=pid, start=f"s{pid}")


def _team(name: str = "calc", **places: ProcessRecord | None) -> TeamConfig:
    """A team whose roster begins with its lead."""
    rows = []
    for member, nonce in NONCES.items():
        place = places.get(member.replace("-", "_"))
        spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/")
        facts = AgentFacts.new(
            spec=spec.raw, nonce=nonce, since_ms=1, process=None if place is None else place.raw
        )
        row = Member.new(
            agent_id=f"{member}@{name}", name=member, joined_at=1, cwd="/", bullpen=facts.raw
        )
        rows.append(row.raw)
    return TeamConfig.new(name=name, created_at=1, members=rows)


@pytest.fixture
def above(monkeypatch: pytest.MonkeyPatch) -> Above:
    """Put processes above this one, with the marks that they carry and who is recorded."""

    def put(
        *pids: int,
        marks: dict[int, str] | None = None,
        owned: dict[int, str] | None = None,
        alive: tuple[int, ...] = (),
    ) -> None:
        rows = [processes.Process(pid, pid, "S", f"s{pid}") for pid in pids]
        own = processes.Process(OWN, OWN, "S", f"s{OWN}")
        found = {(pid, f"s{pid}"): nonce for pid, nonce in (owned or {}).items()}
        monkeypatch.setattr(processes, "look", lambda _: own)
        monkeypatch.setattr(processes, "ancestors", lambda _: rows)
        monkeypatch.setattr(processes, "is_alive", lambda pid, _: pid in alive)
        monkeypatch.setattr(process_table, "mark_of", (marks or {}).get)
        monkeypatch.setattr(process_owners, "owners", lambda: Owners(found))

    return put


def test_a_persons_process_is_nobodys(above: Above) -> None:
    above(SHELL, INIT)
    assert agent_here(_team(), {}) is None
    assert not is_of_an_agent([_team()], {})


def test_a_teammate_below_its_lead_is_itself(above: Above) -> None:
    """The lead comes first in the roster and also stands above: the nearest counts."""
    above(SHELL, ZOE, LEAD, INIT, marks={SHELL: "n-zoe", ZOE: "n-zoe", LEAD: "n-lead"})
    team = _team(zoe=_place(ZOE), team_lead=_place(LEAD))
    assert agent_here(team, {NONCE: "n-zoe"}) == "zoe"
    assert launches_above([team], {}) == ["n-zoe", "n-lead"]


def test_the_leads_own_commands_stay_the_leads(above: Above) -> None:
    above(SHELL, LEAD, INIT, marks={SHELL: "n-lead", LEAD: "n-lead"})
    assert agent_here(_team(zoe=_place(ZOE), team_lead=_place(LEAD)), {}) == "team-lead"


@pytest.mark.parametrize("stolen", ["n-lead", "n-of-nobody"])
def test_a_mark_from_elsewhere_makes_nobody_another(above: Above, stolen: str) -> None:
    above(SHELL, ZOE, LEAD, marks={OWN: stolen, SHELL: stolen, ZOE: "n-zoe"})
    with pytest.raises(Refused) as caught:
        agent_here(_team(zoe=_place(ZOE), team_lead=_place(LEAD)), {NONCE: stolen})
    assert caught.value.reason == "other_identity"


def test_without_a_mark_the_place_says_who_it_is(above: Above) -> None:
    """As after `env -i` and a double fork: the runner has adopted the process."""
    above(ZOE, LEAD, INIT)
    assert agent_here(_team(zoe=_place(ZOE), team_lead=_place(LEAD)), {}) == "zoe"


def test_a_record_of_who_started_it_says_who_it_is_inside_a_shared_process(above: Above) -> None:
    above(SHELL, LEAD, owned={SHELL: "n-zoe", LEAD: SHARED})
    inside = _team(zoe=_place(LEAD, "in-process"), team_lead=_place(LEAD, "in-process"))
    assert agent_here(inside, {}) == "zoe"


@pytest.mark.parametrize("mark", [None, "n-lead"])
def test_what_nobody_recorded_below_a_shared_process_is_an_agents_but_nobodys(
    above: Above, mark: str | None
) -> None:
    above(SHELL, LEAD, marks={} if mark is None else {SHELL: mark})
    inside = _team(zoe=_place(LEAD, "in-process"), team_lead=_place(LEAD, "in-process"))
    assert launches_above([inside], {}) == [speaker.UNKNOWN]
    with pytest.raises(Refused, match="An agent started this process"):
        agent_here(inside, {})


def test_a_process_in_which_agents_run_may_be_a_persons(above: Above) -> None:
    above(SHELL, INIT, owned={OWN: SHARED})
    assert agent_here(_team(zoe=_place(OWN, "in-process")), {}) is None


def test_an_agent_of_another_team_is_no_person(above: Above) -> None:
    above(SHELL, ZOE, INIT)
    other = _team("other", zoe=_place(ZOE)).evolve(name="other")
    mine = TeamConfig.new(name="calc", created_at=1, members=[])
    with pytest.raises(Refused) as caught:
        agent_here(mine, {}, others=[other])
    assert caught.value.reason == "other_identity"


def test_a_launch_that_no_team_knows_is_no_person(above: Above) -> None:
    above(SHELL, ZOE, owned={ZOE: "n-of-another-home"})
    assert is_of_an_agent([], {})
    with pytest.raises(Refused):
        agent_here(_team(), {})


def test_a_server_that_starts_anyones_processes_ends_the_line(above: Above) -> None:
    above(SHELL, ZOE, LEAD, owned={ZOE: NOBODY, LEAD: "n-lead"})
    assert agent_here(_team(team_lead=_place(LEAD)), {}) is None


def test_a_mark_alone_counts_only_if_its_launch_does_not_run_elsewhere(above: Above) -> None:
    team = _team(zoe=_place(ZOE))
    above(SHELL, INIT, marks={SHELL: "n-zoe"})
    assert agent_here(team, {}) == "zoe"
    if not KEPT_BELOW:
        return
    above(SHELL, INIT, marks={SHELL: "n-zoe"}, alive=(ZOE,))
    with pytest.raises(Refused):
        agent_here(team, {})


def test_ancestors_are_told_from_the_nearest_on() -> None:
    rows = processes.ancestors(os.getpid())
    assert rows[0].pid == os.getppid()
    assert all(row.parent == above.pid for row, above in pairwise(rows))
    assert processes.ancestors(-1) == []
