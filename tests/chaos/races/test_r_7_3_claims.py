"""R-7.3 as worded: a model, twenty racing claimers, and what must never happen.

Everything that twenty processes do to one task list is replayed from its log against a model that
knows the graph and who can do what, and nothing else.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.changes import Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.dispatch_rules import in_order
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams
from support.store.race import TEAM, Diary, finish, open_team, start

pytestmark = pytest.mark.no_loss

CLAIMERS = 20
TASKS = 90
WITHIN_S = 60.0
SKILLS = ("python", "docs", "css", "sql")
REASONS = {
    "already_claimed", "already_resolved", "blocked", "agent_busy", "not_capable", "given_up",
    "stale_attempt", "not_owner", "not_claimed", "not_queued",
}  # fmt: skip


def skills_of(number: int) -> list[str]:
    """Somebody has each skill, some have two, some none."""
    return {0: [], 1: [SKILLS[number % 4]], 2: [SKILLS[number % 4], "docs"]}[number % 3]


def graph(chance: random.Random) -> list[Draft]:
    """Tasks without a circle, of which half need something."""
    return [
        Draft(
            subject=f"task {number}",
            blocked_by=[
                f"@{chance.randrange(max(0, number - 12), number)}"
                for _ in range(chance.choice((0, 1, 1, 2)) if number else 0)
            ],
            needs=[chance.choice(SKILLS)] if chance.random() < 0.5 else [],
            effort=chance.choice((None, "small", "large")),
        )
        for number in range(TASKS)
    ]


async def make(home: Path, drafts: list[Draft]) -> None:
    teams = Teams(FileStore(home, fsync=False))
    await teams.create(TEAM)
    team = teams.open(TEAM)
    await team.agents.limit(by=LEAD, spawns_per_minute=1000)
    for number in range(CLAIMERS):
        name = f"member-{number}"
        spec = AgentSpec.new(
            driver="none", backend="none", cwd="/", claims=True, skills=skills_of(number)
        )
        await team.agents.register(name, spec, by=LEAD, nonce=name)
    await team.tasks.add_many(drafts, by=LEAD)


async def claimer(team: Team, number: int, diary: Diary, extra: None) -> None:
    """Claim what is best, and what may not be had as well; finish, hand in, give back, relieve."""
    me, chance = f"member-{number}", random.Random(number)
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        config = await team.agents.config()
        tasks = {task.id: task for task in (await team.tasks.list()).tasks}
        if all(task.status == "completed" for task in tasks.values()):
            return
        best = [task.id for task in in_order(tasks, config, me, idle=[me])]
        wanted = [*best[:2], *chance.sample(sorted(tasks), 2)]
        for task_id in wanted:
            try:
                task = await team.tasks.claim(task_id, by=me, lease_s=60)
                await _grasp(team, me, best[-1:], diary)
                await _work(team, me, task_id, task.facts.attempt, chance)
            except Refused as refused:
                diary.note(refused=refused.reason, task=task_id)


async def _grasp(team: Team, me: str, others: list[str], diary: Diary) -> None:
    """Try to have another one as well."""
    for task_id in others:
        try:
            await team.tasks.claim(task_id, by=me)
        except Refused as refused:
            diary.note(refused=refused.reason, task=task_id)


async def _work(team: Team, me: str, task_id: str, attempt: int, chance: random.Random) -> None:
    way = chance.random()
    if way < 0.1:
        await team.tasks.release(task_id, by=me, reason="no")
    elif way < 0.15:
        await team.tasks.relieve(task_id, by=LEAD, reason="no")
    elif way < 0.5:
        work = HandIn("c" * 40, "b" * 40, f"refs/bullpen/{task_id}/{attempt}")
        await team.tasks.done(task_id, by=me, attempt=attempt, work=work)
        if chance.random() < 0.2:
            await team.merges.give_back(task_id, attempt, "conflict", "both changed a line")
        else:
            await team.merges.landed({task_id: attempt}, [], tell=False)
    else:
        await team.tasks.done(task_id, by=me, attempt=attempt)


@dataclass
class Model:
    """What the log may say: each task has one owner at most, who may have it."""

    needs: dict[str, list[str]]
    blockers: dict[str, list[str]]
    owner: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    claims: int = 0

    def replay(self, event: Event) -> None:
        for change in event.changes:
            if isinstance(change, PutTask) and event.op != "task.add":
                self._put(event, change.task.raw)

    def _put(self, event: Event, task: dict[str, Any]) -> None:
        task_id, facts = task["id"], task["metadata"]["bullpen"]
        assert task_id not in self.done, f"{event.op} of #{task_id} after it was done"
        if event.op == "task.claim":
            self._claim(event, task, facts)
        elif event.op in ("task.release", "task.relieve"):
            del self.owner[task_id]
        elif event.op == "task.done":
            assert self.owner.pop(task_id) == event.actor
            assert facts["attempt"] == self.attempts[task_id]
        if task["status"] == "completed" and (facts.get("merge") or {}).get("state") != "queued":
            self.done.add(task_id)

    def _claim(self, event: Event, task: dict[str, Any], facts: dict[str, Any]) -> None:
        task_id, who = task["id"], event.actor
        assert task_id not in self.owner, f"#{task_id} has two owners"
        assert who not in self.owner.values(), f"{who} has two tasks"
        waits = set(self.blockers[task_id]) - self.done
        assert not waits, f"#{task_id} was claimed though it waits for {waits}"
        skills = skills_of(int(who.removeprefix("member-")))
        assert set(self.needs[task_id]) <= set(skills), f"{who} cannot do #{task_id}"
        assert facts["attempt"] == self.attempts.get(task_id, 0) + 1
        self.owner[task_id], self.attempts[task_id] = who, facts["attempt"]
        self.claims += 1


def test_r_7_3_twenty_racing_claimers_never_share_a_task_nor_take_a_blocked_one(
    tmp_path: Path,
) -> None:
    """R-7.3: never two owners, never a claim of a blocked task or by somebody who lacks what it
    needs, no permanently blocked task in an acyclic graph."""
    drafts = graph(random.Random(7))
    anyio.run(make, tmp_path, drafts)
    finish(start(tmp_path, claimer, CLAIMERS))
    team = open_team(tmp_path)
    tasks = anyio.run(team.tasks.list).tasks
    model = Model(
        {task.id: list(task.facts.needs or ()) for task in tasks},
        {task.id: task.blocked_by for task in tasks},
    )
    for event in anyio.run(team.events):
        model.replay(event)
    assert model.done == {task.id for task in tasks}, "a task is blocked for good"
    assert not model.owner
    assert model.claims > TASKS, "nothing ever came back"
    refused = {note["refused"] for note in Diary.read_all(tmp_path) if "refused" in note}
    assert {"already_claimed", "blocked", "not_capable", "agent_busy"} <= refused <= REASONS
