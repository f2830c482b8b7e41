"""What a summary says is left for a person: a gate that holds work back, calls that were denied."""

from __future__ import annotations

import pytest

from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.agents.verdict import Verdict, judged
from bullpen.team.team import Team, Teams
from bullpen.view.summary import summed_up
from support.runs.merging_team import hand_in, team_that_merges


async def needs(team: Team) -> tuple[str, ...]:
    return summed_up(await team.snapshot(), await team.events()).needs


@pytest.mark.anyio
async def test_work_that_waits_because_the_target_fails_the_gate_is_named_with_the_reason() -> None:
    team = await team_that_merges()
    await hand_in(team, passed=False)
    (need,) = await needs(team)
    why = "main fails its gate (No module named pytest)"
    assert need == f"1 task waits to be merged: {why}: bullpen merge log -t night"
    await hand_in(team, passed=None)
    assert (await needs(team))[0].startswith("2 tasks wait to be merged: main fails its gate")


@pytest.mark.anyio
async def test_work_that_only_waits_for_its_turn_needs_nobody() -> None:
    team = await team_that_merges()
    await hand_in(team, passed=None)
    await hand_in(team, passed=True)
    assert await needs(team) == ()


@pytest.mark.anyio
async def test_calls_that_nobody_could_allow_are_counted_by_what_they_would_have_used() -> None:
    team = await team_that_merges()
    for tool, said in (
        ("Bash", {"command": "curl -sS https://example.org"}),
        ("Bash", {"command": "curl example.org"}),
        ("WebFetch", {"url": "https://example.org"}),
    ):
        asked = await team.approvals.ask_permission(tool, said, by="ann", approver="policy")
        await team.approvals.answer(asked.id, approve=False, by=LEAD, voice="policy")
    own = await team.approvals.ask_permission("Bash", {"command": "rm x"}, by="ann")
    await team.approvals.answer(own.id, approve=False, by=LEAD, voice="human")
    interrupted = await team.approvals.ask_permission("Bash", {"command": "rm y"}, by="ann")
    await team.approvals.withdraw(interrupted.id, by="ann", why="Its turn was interrupted.")
    assert await needs(team) == (
        "denied: 3 calls (curl, WebFetch): bullpen requests --all -t night",
    )


@pytest.mark.anyio
async def test_what_was_completed_without_a_change_is_shown_with_its_report() -> None:
    team = await team_that_merges()
    for report in ("The README names 3.12.\nSee there.", None):
        task = await team.tasks.add("Say it", by=LEAD)
        await team.tasks.claim(task.id, by="ann")
        await team.tasks.done(task.id, by="ann", report=report)
    why = "was completed without a change"
    assert await needs(team) == (
        f'task #1 {why} ("The README names 3.12. See there."): bullpen task show 1 -t night',
        f"task #2 {why}, and without a report: bullpen task show 2 -t night",
    )
    seen = await team.snapshot()
    ended = judged(Verdict("done"), seen.team, seen.tasks)
    assert ended == Verdict("waits", "2 tasks were completed without a change: #1, #2.")
    # A person can send it back, and can vouch for it then.
    await team.tasks.retry("1", by=LEAD)
    assert (await team.tasks.get("1")).status == "pending"
    await team.tasks.force("1", by=LEAD, voice="human", reason="It is said elsewhere.")
    assert len(await needs(team)) == 1


@pytest.mark.anyio
async def test_where_nothing_is_merged_a_task_needs_no_change() -> None:
    teams = Teams(MemoryStore())
    await teams.create("night")
    team = teams.open("night")
    await team.roster.join("ann", by=LEAD)
    await team.tasks.add("Say it", by=LEAD)
    await team.tasks.claim("1", by="ann")
    await team.tasks.done("1", by="ann")
    assert await needs(team) == ()
    seen = await team.snapshot()
    assert judged(Verdict("done"), seen.team, seen.tasks) == Verdict("done")
