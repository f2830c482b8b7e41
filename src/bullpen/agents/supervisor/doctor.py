"""Find agents that are dead, and processes and panes that belong to no agent."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from bullpen.agents.contracts.backend import Backend
from bullpen.agents.runner.lead_lease import holder_is_gone
from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.agents.system.process_owners import launch_of_each, owners
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.store.contract import Finding
from bullpen.team.team import Team

_GRACE_S = 2.0


async def examine_team(team: Team, *, fix: bool, by: str) -> list[Finding]:
    """Find agents whose processes are gone, and a lead lease that a dead process holds."""
    roster = RosterView(team)
    findings = []
    beats, unknown = await roster.beats()
    if unknown is not None:
        findings.append(Finding("presence_unknown", f"teams/{team.name}", unknown))
    gone = [
        (member.name, why)
        for member, agent in await team.agents.living()
        if (unknown is None or agent.process is not None)
        and (why := roster.dead(agent, beats.get(member.name)))
    ]
    given_up = await roster.tend(by=by) if fix and gone else []
    for name, why in gone:
        fixed = name in given_up
        findings.append(
            Finding(
                "lost_agent",
                f"teams/{team.name}",
                f"{name} is recorded as running, but {why}",
                fixed=fixed,
                action="its tasks are pending again" if fixed else "",
            )
        )
    return [*findings, *await _examine_lead(team, fix=fix, by=by)]


async def _examine_lead(team: Team, *, fix: bool, by: str) -> list[Finding]:
    held = await team.agents.leader()
    if held is None or not holder_is_gone(held):
        return []
    if fix:
        await team.agents.drop_lead(held.nonce, by=by)
    return [
        Finding(
            "dead_lead",
            f"teams/{team.name}",
            f"Process {held.pid} holds the lead lease, but is gone",
            fixed=fix,
            action="released the lead lease" if fix else "",
        )
    ]


async def launches(team: Team) -> dict[str, AgentFacts]:
    """Every launch that a team knows, by nonce."""
    agents = (member.agent for member in (await team.agents.config()).roster)
    return {agent.nonce: agent for agent in agents if agent is not None}


async def examine_machine(
    home: Path,
    known: Mapping[str, AgentFacts],
    backends: Iterable[Backend],
    *,
    complete: bool,
    fix: bool,
) -> list[Finding]:
    """Find processes and panes of this home whose launch has ended or is unknown to every team.

    Only those with a nonce of this home are touched. Unless `known` is `complete`, an unknown
    launch may be running and is left alone.
    """

    def is_orphan(nonce: str) -> bool:
        agent = known.get(nonce)
        if agent is None:
            return complete and nonce.startswith(f"{home_mark(home)}-")
        return agent.phase == "ended"

    findings = []
    orphans: dict[str, list[int]] = {}
    rows = [row for row in processes.table() if row.runs]
    for pid, nonce in launch_of_each(rows, owners(), carried=processes.marked()).items():
        if pid != os.getpid() and is_orphan(nonce):
            orphans.setdefault(nonce, []).append(pid)
    for nonce, pids in orphans.items():
        findings.append(await _end_orphans(nonce, pids, fix=fix))
    for backend in backends:
        try:
            places = await backend.places()
        except BullpenError as error:
            findings.append(Finding("unusable", backend.name, error.message, action=error.remedy))
            continue
        for nonce, place in places.items():
            if is_orphan(nonce):
                findings.append(await _remove(backend, nonce, place, fix=fix))
    return findings


async def _end_orphans(nonce: str, pids: list[int], *, fix: bool) -> Finding:
    what = f"Processes of an agent that has ended: {', '.join(map(str, sorted(pids)))}"
    found = Finding("orphan_process", "processes", what)
    end = partial(processes.end, None, None, None, nonce, _GRACE_S)
    return await _repaired(found, end, done="ended") if fix else found


async def _remove(backend: Backend, nonce: str, place: ProcessRecord, *, fix: bool) -> Finding:
    where = f"pane {place.pane}" if place.pane else f"process {place.pid}"
    found = Finding("orphan_place", backend.name, f"{where} belongs to an agent that has ended")
    stop = partial(backend.stop, place, nonce, grace_s=_GRACE_S)
    return await _repaired(found, stop, done="removed") if fix else found


async def _repaired(found: Finding, repair: Callable[[], Awaitable[None]], *, done: str) -> Finding:
    """A finding after its repair, or with the reason why the repair failed."""
    try:
        await repair()
    except BullpenError as error:
        return replace(found, action=error.message)
    return replace(found, fixed=True, action=done)
