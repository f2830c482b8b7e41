"""The foreman, in simulated time: who is reminded, who loses a task, what is given up, and when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.pace import Pace
from bullpen.agents.supervisor.roster_view import AgentView, RosterView
from bullpen.agents.supervisor.supervisor import Stopped, Supervisor
from bullpen.agents.system.transcript import Transcript
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.protocol.task import Check, Task
from bullpen.protocol.team import Unattended
from bullpen.runs.watch.foreman import OBEY_S, Foreman
from bullpen.store.memory import MemoryStore
from bullpen.team.snapshot import Snapshot
from bullpen.team.team import Team, Teams
from support.crews import Crew, Hired, Turn, new_team, simulate, simulated_ms

STALL_S = 600.0
SLOW = Pace(beat_s=30.0, beat_ttl_s=100.0, gather_s=1.0, turn_s=40 * 3600.0)


class Present(RosterView):
    """A roll call in which everybody lives: these agents have no processes."""

    def dead(self, *_: Any, **__: Any) -> str | None:
        return ""


class Shift:
    """A team in simulated time with a foreman, and what it did."""

    def __init__(self, team: Team, crew: Crew, folder: Path) -> None:
        self.team = team
        self.crew = crew
        self.folder = folder
        self.ended: list[str] = []
        self.led = False

    def foreman(self, every_s: float = 20.0) -> Foreman:
        return Foreman(
            self.team, OnShift(self), led=self.led, clock=simulated_ms, trees=False,
            returning=lambda name, agent: self.returns(agent), every_s=every_s,
        )  # fmt: skip

    def returns(self, agent: AgentFacts) -> bool:
        return agent.end == "lost"

    async def hire(self, name: str, turn: Turn) -> Hired:
        return await self.crew.hire(name, turn, pace=SLOW, claims=True)

    async def task(self, task_id: str = "1") -> Task:
        return await self.team.tasks.get(task_id)

    async def steps(self, task_id: str = "1") -> list[tuple[str, float]]:
        """What happened to a task, and how many minutes after it was added."""
        events = [e for e in await self.team.events() if e.op.startswith("task.")]
        wanted = ("task.nudge", "task.relieve", "task.give_up", "task.release", "task.claim")
        first = _ms(events[0].time)
        return [
            (event.op.removeprefix("task."), (_ms(event.time) - first) / 60_000)
            for event in events
            if event.op in wanted and any(_is_about(change, task_id) for change in event.changes)
        ]


class OnShift(Supervisor):
    """A supervisor whose agents have no processes."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift

    async def look(self) -> tuple[Snapshot, list[AgentView]]:
        return await Present(self._shift.team, clock=simulated_ms).look()

    async def order(self, name: str, action: str, *, by: str, **how: Any) -> None:
        assert (action, by) == ("cancel", LEAD)
        order = Control.new(action=action, sender=by, timestamp=iso(simulated_ms()))
        await self._shift.team.mailbox.send(name, order.text(), sender=by)

    async def stop(self, name: str, **how: Any) -> Stopped:
        assert (how["by"], how["end"]) == (LEAD, "lost")
        self._shift.ended.append(name)
        return Stopped(name, True, "lost")

    async def transcript(self, name: str) -> Path:
        return self._shift.folder / name / "transcript.jsonl"


def _is_about(change: object, task_id: str) -> bool:
    task = getattr(change, "task", None)
    return isinstance(task, Task) and task.id == task_id


def _ms(text: str) -> int:
    from bullpen.protocol.clock import ms_of

    found = ms_of(text)
    assert found is not None
    return found


def played(folder: Path, body: Callable[[Shift], Awaitable[None]], **habits: Any) -> None:
    """Play a shift; within it hours take no time."""

    async def run() -> None:
        async with Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms) as teams:
            team = await new_team(teams)
            await team.origins.work_by(Unattended.new(stall_s=STALL_S, **habits), by=LEAD)
            async with anyio.create_task_group() as group:
                shift = Shift(team, Crew(team, folder, group, clock=simulated_ms), folder)
                await body(shift)
                group.cancel_scope.cancel()

    simulate(run)


async def watched(shift: Shift, minutes: float, foreman: Foreman | None = None) -> None:
    """Let the foreman look on for so long."""
    with anyio.move_on_after(minutes * 60):
        await (foreman or shift.foreman()).run(lambda _: None)


async def hangs(given: TurnInput, desk: Desk) -> str:
    await anyio.sleep_forever()
    return ""


async def works(given: TurnInput, desk: Desk) -> str:
    for task_id, attempt in list(desk.attempts.items()):
        await desk.team.tasks.done(task_id, by=desk.agent, attempt=attempt)
        del desk.attempts[task_id]
    return "done"


def test_who_hangs_is_reminded_then_the_task_goes_to_somebody_else(tmp_path: Path) -> None:
    async def body(shift: Shift) -> None:
        alice = await shift.hire("alice", hangs)
        await shift.team.tasks.add("One", by=LEAD)
        await anyio.sleep(5)
        await shift.hire("bob", works)
        await watched(shift, 60)
        steps = await shift.steps()
        assert [step for step, _ in steps] == ["claim", "nudge", "relieve", "claim"]
        assert 10 <= steps[1][1] <= 10.6, "not before it stalled, and soon after"
        assert 20 <= steps[2][1] <= 21.2
        task = await shift.task()
        assert (task.status, task.owner, task.facts.tried) == ("completed", "bob", ["alice"])
        box = await shift.team.mailbox.read("alice")
        told = [
            entry.message.text for entry in box.entries if "seem to be stuck" in entry.message.text
        ]
        assert len(told) == 1
        assert "no sign of progress for 10 minutes" in told[0]
        assert alice.told("end")[0]["interrupted"] == "cancel", "its turn was ended with it"

    played(tmp_path, body)


def test_who_waits_for_somebody_or_shows_signs_of_work_is_left_alone(tmp_path: Path) -> None:
    async def waits(given: TurnInput, desk: Desk) -> str:
        with desk.waiting("the model's rate limit"):
            await anyio.sleep_forever()
        return ""

    async def toils(given: TurnInput, desk: Desk) -> str:
        while True:
            desk.doing("Bash", "make")
            await anyio.sleep(STALL_S * 0.9)

    async def body(shift: Shift) -> None:
        for name, turn in (("alice", waits), ("bob", toils)):
            await shift.hire(name, turn)
            await shift.team.tasks.add(f"For {name}", by=LEAD)
            await anyio.sleep(5)
        await watched(shift, 2 * 60)
        assert [step for step, _ in await shift.steps("1")] == ["claim"]
        assert [step for step, _ in await shift.steps("2")] == ["claim"]

    played(tmp_path, body)


def test_a_task_that_waits_for_another_is_not_given_up_though_somebody_is_idle(
    tmp_path: Path,
) -> None:
    async def toils(given: TurnInput, desk: Desk) -> str:
        while True:
            desk.doing("Bash", "make")
            await anyio.sleep(STALL_S * 0.9)

    async def body(shift: Shift) -> None:
        await shift.hire("alice", toils)
        await shift.team.tasks.add("One", by=LEAD)
        await shift.team.tasks.add("Two", by=LEAD, blocked_by=["1"])
        await anyio.sleep(5)
        await shift.hire("bob", works)
        await watched(shift, 2 * 60)
        assert [step for step, _ in await shift.steps("2")] == []

    played(tmp_path, body)


def test_alone_with_a_task_it_is_given_up_with_the_reason(tmp_path: Path) -> None:
    async def body(shift: Shift) -> None:
        await shift.hire("alice", hangs)
        await shift.team.tasks.add("One", by=LEAD)
        await shift.team.tasks.add("Two", by=LEAD, blocked_by=["1"])
        await watched(shift, 60)
        assert [step for step, _ in await shift.steps()] == ["claim", "nudge", "give_up"]
        why = (await shift.task()).facts.given_up
        assert why is not None
        assert "alice made no progress" in why
        assert "nobody else can take it" in why
        assert (await shift.task("2")).facts.given_up == "it depends on #1, which was given up"

    played(tmp_path, body)


def test_without_reminders_it_is_taken_away_at_once_and_given_up_after_so_many_attempts(
    tmp_path: Path,
) -> None:
    async def body(shift: Shift) -> None:
        for name in ("alice", "bob", "carl", "dora"):
            await shift.hire(name, hangs)
        await shift.team.tasks.add("One", by=LEAD)
        await watched(shift, 60)
        steps = [step for step, _ in await shift.steps()]
        assert steps == ["claim", "relieve", "claim", "relieve", "claim", "give_up"]
        assert str((await shift.task()).facts.given_up).startswith("3 attempts failed")

    played(tmp_path, body, nudges=0, attempts=3)


def test_the_same_refusal_again_and_again_is_a_loop_long_before_it_is_a_stall(
    tmp_path: Path,
) -> None:
    check = Check.new(name="tests", kind="command", run="make test")

    async def tries(given: TurnInput, desk: Desk) -> str:
        # Every try takes a while and prints other times, but the same failure.
        for number in range(1000):
            await anyio.sleep(20)
            found = check.evolve(
                passed=False, detail=f"1 failed in {number}.{number:02}s", at_ms=number
            )
            for task_id, attempt in list(desk.attempts.items()):
                await desk.team.tasks.record_checks(
                    task_id, [found], by=desk.agent, attempt=attempt
                )
        return ""

    async def body(shift: Shift) -> None:
        await shift.hire("alice", tries)
        await shift.team.tasks.add("One", by=LEAD, checks=[check])
        await anyio.sleep(5)
        await shift.hire("bob", works)
        await watched(shift, 8)
        steps = await shift.steps()
        assert [step for step, _ in steps][:3] == ["claim", "nudge", "relieve"]
        assert steps[2][1] < 3, "five tries of 20 s, and not 20 minutes"
        reason = (await shift.task()).facts.released
        assert reason is not None
        assert "its checks failed 3 times in a row with the same output" in reason

    played(tmp_path, body)


def test_what_was_taken_away_for_the_same_refusal_waits_for_whoever_is_busy(tmp_path: Path) -> None:
    """The refusals belong to the attempt that is over, not to the next one."""
    check = Check.new(name="tests", kind="command", run="make test")

    async def tries(given: TurnInput, desk: Desk) -> str:
        for number in range(12):
            await anyio.sleep(20)
            found = check.evolve(passed=False, detail="1 failed", at_ms=number)
            for task_id, attempt in list(desk.attempts.items()):
                await desk.team.tasks.record_checks(
                    task_id, [found], by=desk.agent, attempt=attempt
                )
        return ""

    async def is_busy(given: TurnInput, desk: Desk) -> str:
        await anyio.sleep(8 * 60)
        return await works(given, desk)

    async def body(shift: Shift) -> None:
        await shift.team.tasks.add("Two", by=LEAD)
        await shift.hire("bob", is_busy)
        await anyio.sleep(5)
        await shift.hire("alice", tries)
        await shift.team.tasks.add("One", by=LEAD, checks=[check])
        await watched(shift, 12)
        steps = [step for step, _ in await shift.steps("2")]
        assert steps == ["claim", "nudge", "relieve", "claim"]
        assert (await shift.task("2")).owner == "bob"

    played(tmp_path, body)


def test_refusals_that_differ_are_progress(tmp_path: Path) -> None:
    check = Check.new(name="tests", kind="command", run="make test")

    async def tries(given: TurnInput, desk: Desk) -> str:
        for left in range(90, 0, -1):
            await anyio.sleep(60)
            found = check.evolve(passed=False, detail=f"{left} failed", at_ms=left)
            for task_id, attempt in list(desk.attempts.items()):
                await desk.team.tasks.record_checks(
                    task_id, [found], by=desk.agent, attempt=attempt
                )
        return ""

    async def body(shift: Shift) -> None:
        await shift.hire("alice", tries)
        await shift.team.tasks.add("One", by=LEAD, checks=[check])
        await watched(shift, 60)
        assert [step for step, _ in await shift.steps()] == ["claim"]

    played(tmp_path, body)


def test_the_same_call_with_the_same_result_is_a_loop(tmp_path: Path) -> None:
    async def circles(given: TurnInput, desk: Desk) -> str:
        while True:
            desk.record("tool", name="Bash", input={"command": "make"})
            desk.record("result", name="Bash", text="nothing to do", error=False)
            await anyio.sleep(5)

    async def body(shift: Shift) -> None:
        await shift.hire("alice", circles)
        await shift.team.tasks.add("One", by=LEAD)
        await watched(shift, 5)
        steps = [step for step, _ in await shift.steps()]
        assert steps == ["claim", "nudge", "give_up"]
        why = (await shift.task()).facts.given_up
        assert "it called Bash 12 times in a row with the same result" in str(why)

    played(tmp_path, body)


def test_another_foreman_goes_on_where_the_one_before_was(tmp_path: Path) -> None:
    """Whoever watches after a kill does not begin at the top of the ladder."""

    async def body(shift: Shift) -> None:
        await shift.hire("alice", hangs)
        await shift.team.tasks.add("One", by=LEAD)
        await anyio.sleep(5)
        await shift.hire("bob", works)
        await watched(shift, 12)
        assert [step for step, _ in await shift.steps()] == ["claim", "nudge"]
        await watched(shift, 12)
        steps = [step for step, _ in await shift.steps()]
        assert steps == ["claim", "nudge", "relieve", "claim"]

    played(tmp_path, body)


def test_two_foremen_remind_once(tmp_path: Path) -> None:
    async def body(shift: Shift) -> None:
        await shift.hire("alice", hangs)
        await shift.team.tasks.add("One", by=LEAD)
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(watched, shift, 11)
        assert [step for step, _ in await shift.steps()] == ["claim", "nudge"]

    played(tmp_path, body)


def test_who_does_not_end_its_turn_is_ended(tmp_path: Path) -> None:
    async def deaf(given: TurnInput, desk: Desk) -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(24 * 3600)
        return ""

    async def body(shift: Shift) -> None:
        await shift.hire("alice", deaf)
        await shift.team.tasks.add("One", by=LEAD)
        foreman = shift.foreman()
        await watched(shift, 10 + OBEY_S / 60, foreman)
        assert shift.ended == []
        await watched(shift, 30, foreman)
        assert shift.ended == ["alice"]

    played(tmp_path, body, nudges=0)


def test_tasks_of_who_has_ended_for_good_are_free_again(tmp_path: Path) -> None:
    async def body(shift: Shift) -> None:
        alice = await shift.hire("alice", works)
        await shift.hire("bob", works)
        alice.runner.stop("stopped", "enough")
        await anyio.sleep(5)
        assert alice.ended is not None
        await shift.team.tasks.add("One", by=LEAD, owner="alice")
        await watched(shift, 2)
        task = await shift.task()
        assert (task.status, task.owner) == ("completed", "bob")
        assert [step for step, _ in await shift.steps()] == ["release", "claim"]

    played(tmp_path, body)


def test_what_was_given_back_by_everybody_is_given_up(tmp_path: Path) -> None:
    """Reminders of the runner and the ladder of the foreman are one: R-7.2."""

    async def idles(given: TurnInput, desk: Desk) -> str:
        return "I rest."

    async def body(shift: Shift) -> None:
        alice = await shift.hire("alice", idles)
        bob = await shift.hire("bob", idles)
        await shift.team.tasks.add("One", by=LEAD)
        await watched(shift, 30)
        steps = [step for step, _ in await shift.steps()]
        assert steps == ["claim", "release", "claim", "release", "give_up"]
        why = str((await shift.task()).facts.given_up)
        assert "every member that can do it has tried" in why
        assert "ended its turns without finishing" in why
        assert len(alice.turns) == len(bob.turns) == 4, "a task, and three reminders"

    played(tmp_path, body)


def test_a_lead_decides_itself_what_becomes_of_tasks_that_nobody_takes(tmp_path: Path) -> None:
    async def body(shift: Shift) -> None:
        shift.led = True
        await shift.team.tasks.add("One", by=LEAD)
        await watched(shift, 60)
        assert await shift.steps() == []

    played(tmp_path, body)


def test_a_trail_is_read_on_and_tells_circles_from_work(tmp_path: Path) -> None:
    from bullpen.runs.watch.progress_signs import LOOP_CALLS, Trail

    transcript = Transcript(tmp_path)
    transcript.record("turn", text="from before one looked")
    trail = Trail(transcript.path)
    trail.follow()
    assert trail.rows == 0
    for number in range(LOOP_CALLS):
        transcript.record("tool", name="Read", input={"path": "a"})
        transcript.record("result", name="Read", text=str(number))
        trail.follow()
    assert trail.loop is None, "the same call with other results is looking, not a circle"
    for _ in range(LOOP_CALLS - 1):
        transcript.record("tool", name="Read", input={"path": "a"})
        transcript.record("result", name="Read", text="same")
    trail.follow()
    assert trail.loop is None
    with transcript.path.open("ab") as file:
        file.write(b'{"kind": "tool", "name": "Read", "inp')
    trail.follow()
    with transcript.path.open("ab") as file:
        file.write(b'ut": {"path": "a"}}\n')
    transcript.record("result", name="Read", text="same")
    trail.follow()
    assert trail.loop == f"it called Read {LOOP_CALLS} times in a row with the same result"
    transcript.record("turn", text="another")
    trail.follow()
    assert trail.loop is None
    transcript.close()


def test_a_foreman_remembers_nothing_of_deleted_tasks(tmp_path: Path) -> None:
    """A team works for months: what its foreman keeps must not grow with every task."""

    async def body(shift: Shift) -> None:
        foreman = shift.foreman()
        await shift.hire("ann", hangs)
        for _ in range(5):
            task = await shift.team.tasks.add("One", by=LEAD)
            for _ in range(3):
                await anyio.sleep(20)
                await foreman.look()
            await shift.team.tasks.delete(task.id, by=LEAD, voice="human")
        await foreman.look()
        assert not foreman._sights
        assert not foreman._free_since
        assert not foreman._courses.of

    played(tmp_path, body)
