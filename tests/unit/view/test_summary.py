"""The account of a night equals what was done: against a truth that the test keeps itself."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from bullpen.doors.cli.runs.summary_view import markdown_of
from bullpen.protocol.agent import AgentSpec, End, ProcessRecord, Spent
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from bullpen.store.memory import MemoryStore
from bullpen.team.budget import account_rules
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.tasks.stall_rules import blocked_for_good
from bullpen.team.team import Team, Teams
from bullpen.view.summary import Summary, WorktreeLine, summed_up
from support.rows import each_row

PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="s")


@dataclass
class Truth:
    """What was done, as whoever did it counts it."""

    states: dict[str, str] = field(default_factory=dict)
    landed: list[tuple[str, str, str]] = field(default_factory=list)
    returned: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    turns: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    tokens_for: Counter[str] = field(default_factory=Counter)
    usd: float = 0.0
    working_ms: Counter[str] = field(default_factory=Counter)
    alive_ms: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)


class Story:
    """A night that is made up by chance, lived through by the real operations."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 1_900_000_000_000
        self.teams = Teams(MemoryStore(clock=self.clock), clock=self.clock)
        self.truth = Truth()
        self.agents: dict[str, str | None] = {"ann": None, "bob": None, "carl": None}
        self.reports: Counter[str] = Counter()
        self.born: dict[str, int] = {}
        self.has: dict[str, str] = {}
        self.handed: dict[str, tuple[str, str]] = {}
        self.merged = 0

    def clock(self) -> int:
        return self.now

    @property
    def team(self) -> Team:
        return self.teams.open("night")

    def later(self) -> None:
        self.now += self.chance.randrange(1, 100_000)

    async def live(self, steps: int) -> None:
        await self.teams.create("night", description="Do it all.")
        for number in range(self.chance.randrange(1, 12)):
            await self.team.tasks.add(f"Task {number}", by=LEAD)
            self.truth.states[str(number + 1)] = "ready"
        for name in self.agents:
            await self.start(name)
        acts = (self.turn, self.take, self.hand_in, self.land, self.come_back, self.lose, self.drop)
        for _ in range(steps):
            self.later()
            await self.chance.choice(acts)()

    async def start(self, name: str) -> None:
        spec = AgentSpec.new(driver="scripted", backend="in-process", cwd="/")
        if name not in self.born:
            nonce = f"{name}-{self.now}"
            await self.team.agents.register(name, spec, by=LEAD, nonce=nonce)
        else:
            nonce = f"{name}-{self.now}-again"
            await self.team.agents.relaunch(name, by=LEAD, nonce=nonce)
            self.truth.restarts[name] += 1
        await self.team.agents.ready(name, nonce=nonce, place=PLACE)
        self.agents[name] = nonce
        self.born[name] = self.now

    def pick(self) -> tuple[str, str] | None:
        living = [(name, nonce) for name, nonce in self.agents.items() if nonce is not None]
        return self.chance.choice(living) if living else None

    async def turn(self) -> None:
        found = self.pick()
        if found is None:
            return
        name, nonce = found
        task = self.has.get(name)
        await self.team.agents.begin_turn(name, nonce=nonce, task=task)
        began = self.now
        self.later()
        used = self.chance.randrange(1, 5_000)
        self.reports[name] += 1
        report = Spent.new(
            task=task or "-", model="m", requests=1, input_tokens=used, cost_usd=used / 1000
        )
        await self.team.agents.end_turn(
            name, nonce=nonce, reports={self.reports[name]: report}, idle=None
        )
        truth = self.truth
        truth.turns[name] += 1
        truth.tokens[name] += used
        truth.tokens_for[task or "-"] += used
        truth.usd += used / 1000
        truth.working_ms[name] += self.now - began

    async def take(self) -> None:
        found = self.pick()
        free = [t for t, state in self.truth.states.items() if state == "ready"]
        if found is None or found[0] in self.has or not free:
            return
        task_id = self.chance.choice(free)
        task = await self.team.tasks.get(task_id)
        if task.owner not in (None, found[0]):
            return
        await self.team.tasks.claim(task_id, by=found[0])
        self.has[found[0]] = task_id
        self.truth.states[task_id] = "in_progress"
        self.truth.attempts[task_id] += 1

    async def hand_in(self) -> None:
        if not self.has:
            return
        name = self.chance.choice(list(self.has))
        task_id = self.has.pop(name)
        commit = f"{self.now:x}"
        work = HandIn(commit, "base", "ref") if self.chance.random() < 0.8 else None
        await self.team.tasks.done(task_id, by=name, work=work)
        self.truth.states[task_id] = "queued" if work else "done"
        if work:
            self.handed[task_id] = (name, commit)

    async def land(self) -> None:
        if not self.handed:
            return
        task_id = self.chance.choice(list(self.handed))
        name, _ = self.handed.pop(task_id)
        attempt = self.truth.attempts[task_id]
        self.merged += 1
        commit = f"landed-{self.merged}"
        await self.team.merges.about_to_land({task_id: commit}, {task_id: attempt}, {})
        await self.team.merges.landed({task_id: attempt}, [], tell=False)
        self.truth.states[task_id] = "merged"
        self.truth.landed.append((task_id, name, commit))

    async def come_back(self) -> None:
        if not self.handed:
            return
        task_id = self.chance.choice(list(self.handed))
        del self.handed[task_id]
        await self.team.merges.give_back(
            task_id, self.truth.attempts[task_id], "conflict", "<<<<", files=["a.py"]
        )
        self.truth.states[task_id] = "ready"
        self.truth.returned[task_id] += 1

    async def lose(self) -> None:
        found = self.pick()
        if found is None or self.chance.random() < 0.5:
            return
        name, nonce = found
        await self.team.agents.end(name, "lost", by=LEAD, nonce=nonce, cause="killed")
        self.truth.alive_ms[name] += self.now - self.born[name]
        if name in self.has:
            self.truth.states[self.has.pop(name)] = "ready"
        self.later()
        await self.start(name)

    async def drop(self) -> None:
        free = [t for t, state in self.truth.states.items() if state == "ready"]
        if not free or self.chance.random() < 0.7:
            return
        task_id = self.chance.choice(free)
        await self.team.tasks.give_up(task_id, by=LEAD, reason="it is too hard")
        self.truth.states[task_id] = "given_up"

    async def summary(self) -> Summary:
        snapshot = await self.team.snapshot()
        return summed_up(snapshot, await self.team.events())


async def test_a_task_that_is_no_longer_listed_is_not_said_to_have_used_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account_rules, "TASKS_KEPT", 1)
    teams = Teams(MemoryStore())
    await teams.create("night")
    team = teams.open("night")
    spec = AgentSpec.new(driver="told", backend="in-process", cwd="/")
    await team.agents.register("ann", spec, by=LEAD, nonce="n")
    for number in range(1, 5):
        task = await team.tasks.add("Do it", by=LEAD)
        await team.tasks.claim(task.id, by="ann")
        await team.agents.begin_turn("ann", nonce="n", task=task.id)
        row = Spent.new(task=task.id, input_tokens=10)
        await team.agents.spend("ann", nonce="n", reports={number: row}, task=task.id)
        await team.tasks.done(task.id, by="ann")
    await team.agents.begin_turn("ann", nonce="n")
    await team.tasks.add("Not begun", by=LEAD)
    summary = summed_up(await team.snapshot(), await team.events())
    used = {line.id: None if line.usage is None else line.usage.tokens for line in summary.tasks}
    assert used == {"1": None, "2": None, "3": None, "4": 10, "5": 0}
    assert summary.used.tokens == 40
    assert summary.row["tasks"][0]["used"] is None
    assert "Do it" in "\n".join(markdown_of(summary))


@each_row("seed", range(10))
async def test_the_account_equals_what_was_done(seed: int) -> None:
    story = Story(seed)
    await story.live(120)
    summary, truth = await story.summary(), story.truth
    assert {line.id: line.state for line in summary.tasks} == truth.states
    assert summary.counts == Counter(truth.states.values())
    assert [(m.task, m.by, m.commit) for m in summary.merges] == truth.landed
    for line in summary.tasks:
        assert line.returned == truth.returned[line.id]
        assert line.attempt == truth.attempts[line.id]
        assert line.usage is not None
        assert line.usage.tokens == truth.tokens_for[line.id]
        assert (line.why == "it is too hard") == (line.state == "given_up")
    for member in summary.members:
        assert member.usage.turns == truth.turns[member.name]
        assert member.usage.tokens == truth.tokens[member.name]
        assert member.restarts == truth.restarts[member.name]
        assert member.working_s == pytest.approx(truth.working_ms[member.name] / 1000)
        alive = truth.alive_ms[member.name] + story.now - story.born[member.name]
        assert member.working_s + member.waiting_s == pytest.approx(alive / 1000)
        done = [t for t, who, _ in truth.landed if who == member.name]
        assert set(done) <= set(member.completed)
    assert summary.used.tokens == sum(truth.tokens.values())
    assert summary.used.turns == sum(truth.turns.values())
    assert summary.used.cost_usd == pytest.approx(truth.usd)
    given_up = [t for t, state in truth.states.items() if state == "given_up"]
    assert sum("was given up" in need for need in summary.needs) == len(given_up)


async def test_a_task_called_completed_without_its_checks_is_for_a_person_to_see() -> None:
    story = Story(0)
    await story.teams.create("night")
    check = Check.new(name="tests", kind="command", run="make")
    task = await story.team.tasks.add("One", by=LEAD, checks=[check])
    snapshot = await story.team.snapshot()
    foreign = task.evolve(status="completed")
    lying = type(snapshot)(
        snapshot.team, snapshot.members, (foreign,), (), snapshot.seq, snapshot.taken_ms
    )
    summary = summed_up(lying, await story.team.events())
    assert summary.tasks[0].state == "unproven"
    assert summary.status == "unfinished"
    assert "without its checks" in summary.needs[0]


async def test_what_agents_write_is_no_markup_in_the_page() -> None:
    story = Story(0)
    await story.teams.create("night", description="<script>alert(1)</script> | **x**")
    await story.team.tasks.add("a | b\n# `c` <img src=x> [d](e)", by=LEAD)
    page = list(markdown_of(await story.summary()))
    row = next(line for line in page if line.startswith(r"| \#1"))
    assert r"a \| b \# \`c\` \<img src=x\> \[d\](e)" in row
    columns = row.replace(r"\|", "")
    assert columns.count("|") == 8, "it is one row of seven columns"
    assert not any(line.startswith("<") or "<script>" in line for line in page)


async def test_worktrees_that_are_left_are_listed_with_the_command_that_removes_them() -> None:
    story = Story(0)
    await story.teams.create("night")
    left = WorktreeLine("ann", "/work/shop.bullpen/night/ann", "bullpen/night/ann")
    summary = summed_up(await story.team.snapshot(), [], worktrees=[left])
    page = list(markdown_of(summary))
    assert "| ann | bullpen/night/ann | /work/shop.bullpen/night/ann |" in page
    assert page[-1].endswith("`bullpen workspace remove --all -t night`")
    assert summary.row["worktrees"][0]["path"] == left.path
    bare = summed_up(await story.team.snapshot(), [])
    assert "Worktrees" not in "\n".join(markdown_of(bare))


@pytest.mark.parametrize(("how", "status"), [("suspended", "unfinished"), ("stopped", "done")])
async def test_a_team_without_tasks_is_not_done_if_it_was_interrupted(
    how: End, status: str
) -> None:
    story = Story(0)
    await story.teams.create("night")
    spec = AgentSpec.new(driver="told", backend="in-process", cwd="/")
    place = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")
    await story.team.agents.register("ann", spec, by=LEAD, nonce="n")
    await story.team.agents.ready("ann", nonce="n", place=place)
    await story.team.agents.end("ann", how, by=LEAD, nonce="n", cause="the time is up")
    assert summed_up(await story.team.snapshot(), await story.team.events()).status == status


async def test_what_was_given_up_because_of_a_task_needs_no_command_of_its_own() -> None:
    story = Story(0)
    await story.teams.create("night")
    tasks = story.team.tasks
    for number, after in enumerate(([], ["1"], ["2"]), 1):
        await tasks.add(f"Task {number}", by=LEAD, blocked_by=after)
    for number, why in enumerate(("too hard", blocked_for_good("1"), blocked_for_good("2")), 1):
        await tasks.give_up(str(number), by=LEAD, reason=why)
    summary = await story.summary()
    assert summary.needs == (
        "task #1 was given up (too hard), and with it #2, #3: bullpen task retry 1 -t night",
    )
