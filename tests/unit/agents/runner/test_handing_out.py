"""Which task a runner hands to its agent, and what becomes of one that is given back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.pace import Pace
from bullpen.agents.tools.toolbox import answer, toolbox
from bullpen.protocol.names import LEAD
from support.crews import Crew, eventually, simulated_ms

from .test_quiet import in_simulation

PACE = Pace(beat_s=60.0, beat_ttl_s=150.0)


async def finishes(given: TurnInput, desk: Desk) -> str:
    for task_id, attempt in list(desk.attempts.items()):
        await desk.team.tasks.done(task_id, by=desk.agent, attempt=attempt)
        del desk.attempts[task_id]
    return "done"


async def done_by(crew: Crew) -> dict[str, str | None]:
    tasks = (await crew.team.tasks.list()).tasks
    return {task.subject: task.owner for task in tasks if task.status == "completed"}


async def lead_mail(crew: Crew) -> list[str]:
    return [entry.message.text for entry in (await crew.team.mailbox.read(LEAD)).entries]


def test_each_of_three_reviewers_is_handed_the_task_of_its_lens(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        for name in ("tests-reviewer", "perf-reviewer", "security-reviewer"):
            await crew.hire(name, finishes, claims=True, pace=PACE)
        subjects = ["Review for security", "Review for performance", "Review for tests"]
        for subject in subjects:
            await crew.team.tasks.add(subject, by=LEAD)
        await anyio.sleep(60)
        assert await done_by(crew) == {
            "Review for security": "security-reviewer",
            "Review for performance": "perf-reviewer",
            "Review for tests": "tests-reviewer",
        }

    in_simulation(tmp_path, body)


def test_a_task_whose_member_is_at_work_waits_for_it_and_the_lead_is_told_once(
    tmp_path: Path,
) -> None:
    async def slow(given: TurnInput, desk: Desk) -> str:
        await anyio.sleep(3000)
        return await finishes(given, desk)

    async def body(crew: Crew) -> None:
        await crew.hire("security", slow, claims=True, pace=PACE)
        await crew.team.tasks.add("First security task", by=LEAD)
        await anyio.sleep(1)
        tests = await crew.hire("tests", finishes, claims=True, pace=PACE)
        await crew.hire("docs", finishes, claims=True, pace=PACE)
        await crew.team.tasks.add("Second security task", by=LEAD)
        await anyio.sleep(PACE.kept_s - 60)
        assert not any("waited" in text for text in await lead_mail(crew))
        await anyio.sleep(1800)
        assert tests.turns == []
        told = [text for text in await lead_mail(crew) if "has waited for security" in text]
        assert len(told) == 2, "each idle member once"
        assert "its words match: security" in told[0]
        await anyio.sleep(2 * 3000)
        assert (await crew.team.tasks.get("2")).owner == "security"

    in_simulation(tmp_path, body)


def test_when_its_member_ends_a_task_is_for_everybody(tmp_path: Path) -> None:
    async def body(crew: Crew) -> None:
        asleep = anyio.Event()

        async def sleeps(given: TurnInput, desk: Desk) -> str:
            asleep.set()
            await anyio.sleep(3000)
            return ""

        security = await crew.hire("security", sleeps, claims=True, pace=PACE, prompt="Go")
        await asleep.wait()
        await crew.hire("tests", finishes, claims=True, pace=PACE)
        await crew.team.tasks.add("A security task", by=LEAD)
        await anyio.sleep(100)
        assert (await crew.team.tasks.get("1")).status == "pending"
        security.runner.stop("failed", "no credit")
        await anyio.sleep(30)
        assert await done_by(crew) == {"A security task": "tests"}

    in_simulation(tmp_path, body)


def test_whoever_ignores_a_task_is_reminded_at_growing_distances(tmp_path: Path) -> None:
    times: list[float] = []

    async def ignores(given: TurnInput, desk: Desk) -> str:
        times.append(simulated_ms() / 1000)
        return "I rest."

    async def body(crew: Crew) -> None:
        await crew.hire("alice", ignores, claims=True, pace=PACE)
        await crew.team.tasks.add("One", by=LEAD)
        await anyio.sleep(3600)
        gaps = [round(after - before) for before, after in pairwise(times)]
        assert gaps == [0, 10, 60]
        assert (await crew.team.tasks.get("1")).facts.gave_back == ["alice"]

    in_simulation(tmp_path, body)


def test_a_task_that_all_ignore_goes_round_once_and_slowly(tmp_path: Path) -> None:
    """No 34 turns in six seconds: each has it once, and it rests in between."""
    turns: list[tuple[str, float]] = []

    async def ignores(given: TurnInput, desk: Desk) -> str:
        turns.append((desk.agent, simulated_ms() / 1000))
        return "I rest."

    async def body(crew: Crew) -> None:
        for name in ("alice", "bob", "carol"):
            await crew.hire(name, ignores, claims=True, pace=PACE)
        await crew.team.tasks.add("One", by=LEAD)
        await anyio.sleep(3600)
        assert {name: [each for each, _ in turns].count(name) for name, _ in turns} == {
            "alice": 4,
            "bob": 4,
            "carol": 4,
        }
        firsts = sorted(dict(reversed(turns)).values())
        rests = [round(after - before) for before, after in pairwise(firsts)]
        assert rests == [70 + 15, 70 + 30]
        assert len([text for text in await lead_mail(crew) if "gave task #1 back" in text]) == 3

    in_simulation(tmp_path, body)


async def test_a_task_that_a_model_gave_back_is_not_handed_to_it_again_at_once(crew: Crew) -> None:
    async def gives_back(given: TurnInput, desk: Desk) -> str:
        for task_id in list(desk.attempts):
            call = {"taskId": task_id, "status": "pending"}
            await answer(toolbox(desk), "TaskUpdate", call, desk)
        return "not for me"

    alice = await crew.hire("alice", gives_back, claims=True)
    bob = await crew.hire("bob", finishes, claims=True, pace=PACE)
    await crew.team.tasks.add("alice: do it", by=LEAD)
    await eventually(lambda: len(alice.turns) == 1)
    await anyio.sleep(0.5)
    task = await crew.team.tasks.get("1")
    assert (task.status, task.facts.gave_back) == ("pending", ["alice"])
    assert len(alice.turns) == 1
    assert bob.turns == [], "it rests first"


async def test_a_task_that_was_given_back_and_assigned_again_is_handed_out(crew: Crew) -> None:
    alice = await crew.hire("alice", claims=True)
    await crew.team.tasks.add("One", by=LEAD)
    await eventually(lambda: len(alice.turns) == 4)

    async def is_free() -> bool:
        return (await crew.team.tasks.get("1")).owner is None

    await eventually(is_free)
    await crew.team.tasks.assign("1", "alice", by=LEAD)
    await eventually(lambda: any("claimed task" in text for text in alice.turns[4:]))
