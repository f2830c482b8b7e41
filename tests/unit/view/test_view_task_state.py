"""A task is in one state, and every screen, report and metric says the same word for it."""

from __future__ import annotations

from bullpen.doors.cli.runs.summary_view import markdown_of
from bullpen.doors.report.markdown import markdown_page
from bullpen.doors.report.run_facts import run_of
from bullpen.doors.telemetry.metrics import Meter
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check, Merge, MergeState, Task
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams
from bullpen.view.scene import scene_of
from bullpen.view.story import story_of
from bullpen.view.summary import summed_up
from bullpen.view.task_state import TASK_STATES, TaskState, state_word, task_states
from support.rows import each_row


def task(state: MergeState | None = None, **fields: object) -> Task:
    found = Task.new(**{"id": "1", "subject": "Paint", "description": "", **fields})
    if state is None:
        return found
    merge = Merge.new(
        state=state, order=1, commit="c", base="b", ref="r", by="ann", attempt=1, at_ms=1
    )
    return found.with_facts(merge=merge.raw, attempt=1)


CHECK = [Check.new(name="tests", kind="command", run="make").raw]


@each_row(
    ("found", "state"),
    [
        (task(), "ready"),
        (task(blocked_by=["2"]), "blocked"),
        (task(status="in_progress"), "in_progress"),
        (task(status="in_progress", blocked_by=["2"]), "in_progress"),
        (task(status="completed"), "done"),
        (task(status="completed").with_facts(checks=CHECK), "unproven"),
        (task("queued", status="completed"), "queued"),
        (task("returned", status="pending"), "ready"),
        (task("merged", status="completed"), "merged"),
        (task().with_facts(given_up="no use"), "given_up"),
        (task(blocked_by=["2"]).with_facts(given_up="no use"), "given_up"),
        (task(status="completed").with_facts(given_up="no use"), "done"),
    ],
)
def test_a_task_is_in_one_state(found: Task, state: TaskState) -> None:
    assert task_states([found]) == {"1": state}


def test_a_task_waits_until_its_blocker_is_merged() -> None:
    second = task(id="2", blocked_by=["1"])
    for before, then in (("queued", "blocked"), ("merged", "ready")):
        first = task(before, status="completed")  # type: ignore[arg-type]
        assert task_states([first, second])["2"] == then


async def made() -> Team:
    """A team with a task that is merged, one that is done and one that is ready."""
    teams = Teams(MemoryStore())
    await teams.create("crew")
    team = teams.open("crew")
    await team.roster.join("ann", by="ann")
    for subject in ("Paint", "Varnish", "Sell"):
        await team.tasks.add(subject, by=LEAD)
    work = HandIn("c1", "b1", "r1")
    for task_id, handed_in in (("1", work), ("2", None)):
        await team.tasks.claim(task_id, by="ann")
        await team.tasks.done(task_id, by="ann", work=handed_in)
    await team.merges.about_to_land({"1": "c2"}, {"1": 1}, {})
    await team.merges.landed({"1": 1}, [], tell=False)
    return team


async def test_a_merged_task_is_merged_wherever_it_is_shown() -> None:
    team = await made()
    events, snapshot = await team.events(), await team.snapshot()
    expected = {"1": "merged", "2": "done", "3": "ready"}
    scene = scene_of(story_of(events), now_ms=0)
    assert {card.id: card.state for card in scene.tasks} == expected
    assert scene.finished == 2
    summary = summed_up(snapshot, events)
    assert {card.id: card.state for card in summary.tasks} == expected
    assert {row["id"]: row["state"] for row in summary.row["tasks"]} == expected
    assert summary.row["counts"] == {"merged": 1, "done": 1, "ready": 1}
    page = "\n".join(markdown_of(summary))
    assert "1 merged, 1 done, 1 ready" in page
    assert "1 merged, 1 done, 1 ready" in markdown_page(run_of(events, now_ms=0))
    meter = Meter()
    meter.tell(events, ())
    metric = next(each for each in meter.metrics({}, now_ms=0) if each.name == "bullpen.tasks")
    counted = {dict(labels)["state"]: number for labels, number in metric.points.items()}
    assert counted == dict.fromkeys(TASK_STATES, 0) | {"merged": 1, "done": 1, "ready": 1}


def test_a_state_reads_as_words() -> None:
    assert [state_word(state) for state in ("in_progress", "given_up", "done")] == [
        "in progress",
        "given up",
        "done",
    ]
