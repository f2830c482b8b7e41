"""What people and models read of work that waits to be merged, was merged, or came back."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from bullpen.agents.mail.briefing import briefing_text
from bullpen.agents.runner import duties
from bullpen.agents.runner.pace import Pace
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Merge, MergeState, Task
from bullpen.team.tasks.check_rules import CAME_BACK, said_status
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.view.news import news
from bullpen.view.notable_events import happenings
from support.crews import eventually
from support.offices import Place

from .groves import merging
from .groves import told as said

WORK = HandIn(commit="1a2b3c4d5e6f", base="0" * 12, ref="refs/bullpen/alpha/+tasks/1/1")


def task_with(state: MergeState, **fields: Any) -> Task:
    merge = Merge.new(
        state=state, order=1, commit=WORK.commit, base=WORK.base, ref=WORK.ref, by="ann",
        attempt=1, at_ms=1,
    )  # fmt: skip
    fields = {"id": "1", "subject": "Paint", "description": "", "owner": "ann", **fields}
    return Task.new(**fields).with_facts(merge=merge.raw, attempt=1)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (task_with("queued", status="completed"), "completed, waits to be merged"),
        (task_with("merged", status="completed"), "completed"),
        (task_with("returned", status="pending"), f"pending, {CAME_BACK}"),
        (task_with("returned", status="in_progress"), f"in_progress, {CAME_BACK}"),
        (Task.new(id="1", subject="", description="").with_facts(given_up="no use"), "given up"),
        (Task.new(id="1", subject="", description=""), "pending"),
    ],
)  # fmt: skip
def test_a_status_says_what_it_hides(found: Task, said: str) -> None:
    assert said_status(found) == said


async def told(place: Place) -> list[str]:
    return [line for event in await place.team.events() for line in news(event)]


async def test_a_failed_gate_says_how_its_output_ends(place: Place) -> None:
    await merging(place)
    await place.team.roster.join("bob", by="bob")
    merges, tasks = place.team.merges, place.team.tasks
    await tasks.add("Paint", by=LEAD)
    await tasks.claim("1", by="bob")
    await tasks.done("1", by="bob", work=WORK)
    detail = (
        "On main at 9f8e: The check of the gate fails (make).\nexit code 2\n\n  boom at line 7\n"
    )
    await merges.give_back("1", 1, "checks", detail)
    why = "its checks fail on the target: exit code 2; boom at line 7"
    assert (await told(place))[-1] == f"#1 came back to bob: {why}"
    assert (await tasks.get("1")).facts.released == f"came back from the merge queue: {why}"
    [notice] = happenings("shop", (await place.team.events())[-1])
    assert notice.text.endswith("checks: exit code 2; boom at line 7")


async def test_what_becomes_of_work_is_news(place: Place) -> None:
    await merging(place)
    await place.team.roster.join("ann", by="ann")
    await place.team.roster.join("bob", by="bob")
    merges, tasks = place.team.merges, place.team.tasks
    for task_id, name in (("1", "ann"), ("2", "bob")):
        await tasks.add("Paint", by=LEAD)
        await tasks.claim(task_id, by=name)
        await tasks.done(task_id, by=name, work=WORK)
    assert "ann completed task #1 Paint, to be merged" in await told(place)
    await merges.about_to_land({"1": "9f8e7d6c5b4a"}, {"1": 1}, {})
    await merges.landed({"1": 1}, [], tell=False)
    await merges.give_back("2", 1, "conflict", "both changed it", files=["a.txt"])
    lines = await told(place)
    assert lines[-2:] == ["merged #1 (ann) as 9f8e7d6", "#2 came back to bob: conflict in a.txt"]
    await tasks.give_up("2", by=LEAD, reason="nobody can")
    assert (await told(place))[-1] == "task #2 Paint is given up: nobody can"
    shown = briefing_text(await place.team.snapshot(), "bob")
    assert "#2 Paint (given up" in shown


async def test_a_lead_is_left_alone_while_work_waits_to_be_merged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reminding it would not bring the goal nearer: what waits is up to the queue."""
    monkeypatch.setattr(duties, "_BUSY_LOOK_S", 0.1)
    monkeypatch.setattr(place.app, "pace", Pace(rest_s=0.1))
    await merging(place)
    script = """
[[agents.team-lead.turns]]
when = "start"
steps = [{say = "begun"}]
"""
    await place.team.tasks.add("Paint", by=LEAD)
    await place.team.tasks.claim("1", by=LEAD)
    await place.team.tasks.done("1", by=LEAD, work=WORK)
    spec = await place.spec(script, backend="in-process", prompt="Reach it")
    spec = spec.evolve(options={**spec.options, duties.UNTIL_DONE: True})
    await place.supervisor.spawn(LEAD, spec, by=LEAD, ready_s=60)
    await eventually(lambda: "Reach it" in said(place, LEAD), within_s=30)
    await anyio.sleep(1.0)
    assert "Everyone is idle" not in said(place, LEAD)
    _, lead = await place.team.agents.get(LEAD)
    assert lead.phase == "running"
    await place.team.merges.about_to_land({"1": WORK.commit}, {"1": 1}, {})
    await place.team.merges.landed({"1": 1}, [], tell=False)
    await eventually(lambda: "Everyone is idle and no task is open" in said(place, LEAD))
