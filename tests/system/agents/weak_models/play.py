"""Plays a scenario: real runners and the native driver in this process, a weak model behind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.runner.duties import UNTIL_DONE
from bullpen.agents.runner.pace import Pace
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.protocol.changes import Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from bullpen.protocol.task import Task
from bullpen.runs.goal import only_leading
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from bullpen.testing.models import MockModels
from support.crews import eventually

from .weak_model import Scenario, WeakModel

PACE = Pace(
    beat_s=0.5,
    gather_s=0.2,
    retry_s=0.05,
    reply_s=0.6,
    plan_look_s=0.1,
    remind_s=0.05,
    again_s=0.2,
    rest_s=1.5,
    # A busy machine spawns slowly.
    form_s=60.0,
)
DEADLINE_S = 120.0
TEAM = "alpha"


@dataclass(frozen=True)
class Played:
    """How a scenario ended."""

    tasks: list[Task]
    # The turns of each member, and what each told the lead in the end.
    turns: Mapping[str, int]
    reports: Mapping[str, list[str]]
    # Who was handed each task, in order, by subject.
    handed: Mapping[str, list[str]]
    mail: list[str]
    events: list[Event]


async def play(scenario: Scenario, seed: int, folder: Path) -> Played:
    """Play a scenario to its end: the lead has finished, or has nothing left to do."""
    user, project = folder / "user", folder / "project"
    for each in (user, project):
        each.mkdir(parents=True, exist_ok=True)
    (project / "notes.md").write_text("Nothing here.\n", "utf-8")
    with MockModels(WeakModel(scenario, seed)) as mock:
        env = {**os.environ, "HOME": str(user), **mock.env}
        settings = settings_from({"HOME": str(user)}, home=folder / "home", team=TEAM)
        async with App(settings, env, pace=PACE, store=MemoryStore()) as app:
            await app.teams.create(TEAM, cwd=str(project))
            spec = await app.resolve(
                SpawnRequest(
                    cwd=str(project),
                    backend="in-process",
                    model="anthropic:claude-mock-1",
                    mode="bypassPermissions",
                    prompt=f"Goal: {scenario.name}",
                    claims=False,
                )
            )
            if scenario.delegate:
                spec = only_leading(spec)
            options = {**spec.options, UNTIL_DONE: True}
            lead = spec.evolve(options=options, hooks=dict(scenario.hooks) or None)
            supervisor = app.supervisor(TEAM)
            await supervisor.spawn(LEAD, lead, by=LEAD)
            team = app.teams.open(TEAM)

            async def over() -> bool:
                return (await team.agents.get(LEAD))[1].phase == "ended"

            await eventually(over, within_s=DEADLINE_S, every_s=0.05)
            played = await _seen(team)
            with anyio.fail_after(DEADLINE_S):
                await supervisor.stop_all(by=LEAD, reason="the test is over")
            return played


async def _seen(team: Team) -> Played:
    config = await team.agents.config()
    members = {each.name: each.agent for each in config.roster if each.name != LEAD}
    box = await team.mailbox.read(LEAD)
    reports: dict[str, list[str]] = {name: [] for name in members}
    mail: list[str] = []
    for entry in box.entries:
        payload = payload_of(entry.message.text)
        if isinstance(payload, IdleNotification):
            reports[entry.message.sender] += [payload.result] if payload.result else []
        else:
            mail.append(entry.message.text)
    events = await team.events()
    handed: dict[str, list[str]] = {}
    for event in events:
        for change in event.changes:
            if event.op == "task.claim" and isinstance(change, PutTask):
                handed.setdefault(change.task.subject, []).append(event.actor)
    return Played(
        tasks=(await team.tasks.list()).tasks,
        turns={name: agent.usage.turns for name, agent in members.items() if agent is not None},
        reports=reports,
        handed=handed,
        mail=mail,
        events=events,
    )
