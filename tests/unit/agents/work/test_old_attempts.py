"""What an older attempt may still write, and when a team with unmerged work may finish."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check, Step
from bullpen.team.tasks.merge_rules import HandIn
from support.crews import Crew


def work(task_id: str = "1") -> HandIn:
    return HandIn("c" * 40, "b" * 40, f"refs/bullpen/{task_id}")


def refusal(error: pytest.ExceptionInfo[Refused]) -> str:
    return error.value.reason


async def use(desk: Desk, tool: str, **given: Any) -> tuple[str, bool]:
    return await call(toolbox(desk), tool, given, desk)


async def test_r_7_4_a_zombie_writes_nothing_after_a_takeover(crew: Crew) -> None:
    """R-7.4: lease with fencing token; zombie writes after takeover: refused, every one."""
    tasks = crew.team.tasks
    check = Check.new(name="tests", kind="command", run="true")
    await tasks.add("One", by=LEAD, checks=[check])
    await crew.hire("ann")
    await crew.hire("bob")
    old = (await tasks.claim("1", by="ann", lease_s=0.05)).facts.attempt
    await anyio.sleep(0.1)
    assert [task.id for task in await tasks.expire(by=LEAD)] == ["1"]
    back = await tasks.get("1")
    assert (back.status, back.owner, back.facts.released) == ("pending", None, "lease over")
    new = (await tasks.claim("1", by="bob", lease_s=60)).facts.attempt
    assert new == old + 1
    mine = await tasks.get("1")
    found = [check.evolve(passed=True)]
    zombie = [
        tasks.done("1", by="ann", attempt=old, found=found),
        tasks.done("1", by="ann", attempt=old, found=found, work=work()),
        tasks.renew("1", by="ann", attempt=old, lease_s=60),
        tasks.record_checks("1", found, by="ann", attempt=old),
        tasks.provable("1", by="ann", attempt=old),
    ]
    for write in zombie:
        with pytest.raises(Refused) as error:
            await write
        assert refusal(error) == "stale_attempt"
    # One that does not even say which attempt it was is no owner any more.
    for write in (tasks.done("1", by="ann", found=found), tasks.release("1", by="ann")):
        with pytest.raises(Refused) as error:
            await write
        assert refusal(error) == "not_owner"
    assert await tasks.get("1") == mine
    done = await tasks.done("1", by="bob", attempt=new, found=found)
    assert done.task.status == "completed"


async def test_r_7_4_the_merge_queue_takes_no_step_for_work_of_an_old_attempt(crew: Crew) -> None:
    """R-7.4: results with an old token are refused, also by what tests and lands them."""
    tasks, merges = crew.team.tasks, crew.team.merges
    await tasks.add("One", by=LEAD)
    await crew.hire("ann")
    await crew.hire("bob")
    old = (await tasks.claim("1", by="ann")).facts.attempt
    await tasks.done("1", by="ann", attempt=old, work=work())
    await merges.give_back("1", old, "conflict", "both changed a line", files=["a.py"])
    await tasks.release("1", by=LEAD)
    new = (await tasks.claim("1", by="bob")).facts.attempt
    await tasks.done("1", by="bob", attempt=new, work=work())
    mine = await tasks.get("1")
    step = Step.new(at_ms=1, what="tested", passed=True)
    late = [
        merges.note({"1": [step]}, {"1": old}),
        merges.about_to_land({"1": "d" * 40}, {"1": old}, {"1": [step]}),
        merges.give_back("1", old, "checks", "red"),
    ]
    for write in late:
        with pytest.raises(Refused) as error:
            await write
        assert refusal(error) == "not_queued"
    await merges.landed({"1": old}, [step], tell=False)
    assert await tasks.get("1") == mine
    await merges.about_to_land({"1": "d" * 40}, {"1": new}, {"1": [step]})
    await merges.landed({"1": new}, [step], tell=False)
    record = (await tasks.get("1")).facts.merge
    assert record is not None
    assert (record.state, record.landed, record.by) == ("merged", "d" * 40, "bob")


async def test_r_12_1_finish_is_refused_while_tasks_are_open_or_unmerged_without_a_reason(
    crew: Crew,
) -> None:
    """R-12.1: `finish` is refused by the store while tasks are open, unless overridden."""
    tasks, agents = crew.team.tasks, crew.team.agents
    await tasks.add("One", by=LEAD)
    await crew.hire("ann")
    lead = await crew.hire(LEAD)

    async def refused(because: str) -> None:
        text, failed = await use(lead.desk, "Finish", summary="All done")
        assert failed
        assert "open_tasks" in text
        assert because in text
        with pytest.raises(Refused) as error:
            await agents.finish(by=LEAD, summary="All done", override="  ")
        assert refusal(error) == "open_tasks"
        assert await agents.result() is None

    await refused("#1 (pending)")
    attempt = (await tasks.claim("1", by="ann")).facts.attempt
    await refused("#1 (in_progress, ann)")
    await tasks.done("1", by="ann", attempt=attempt, work=work())
    # Its owner is through with it, but it is not on the target.
    await refused("#1 (completed, ann)")
    await crew.team.merges.give_back("1", attempt, "checks", "red")
    await refused("#1 (pending, ann)")
    with pytest.raises(Refused) as error:
        await agents.finish(by="ann", summary="Done", override="I say so")
    assert refusal(error) == "not_lead"
    done = await agents.finish(by=LEAD, summary="All but one", override="it can wait")
    assert (done.override, done.summary) == ("it can wait", "All but one")


async def test_r_12_1_finish_is_free_once_all_is_merged(crew: Crew) -> None:
    """R-12.1: as soon as the work is on the target nothing is in the way."""
    tasks = crew.team.tasks
    await tasks.add("One", by=LEAD)
    await crew.hire("ann")
    attempt = (await tasks.claim("1", by="ann")).facts.attempt
    await tasks.done("1", by="ann", attempt=attempt, work=work())
    await crew.team.merges.about_to_land({"1": "d" * 40}, {"1": attempt}, {})
    await crew.team.merges.landed({"1": attempt}, [], tell=False)
    assert (await crew.team.agents.finish(by=LEAD, summary="All")).override is None
