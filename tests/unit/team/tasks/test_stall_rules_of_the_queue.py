"""What comes back from the merge queue: how often it may, and that nobody is ended too early."""

from __future__ import annotations

from typing import Any

from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.changes import DeleteTask, Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Merge, Task
from bullpen.protocol.team import TeamConfig, Unattended
from bullpen.runs.watch.ending import QueueState, at_a_standstill
from bullpen.team.tasks.stall_rules import (
    CONFLICT_FACTOR,
    Advice,
    Courses,
    Work,
    at_rest,
    in_progress,
)

HABITS = Unattended.new(attempts=4)
TEAM = TeamConfig.parse({"name": "crew", "members": []})


def came_back(why: str, times: int) -> tuple[Task, Courses]:
    """A task whose work came back so often, and how it went so far."""
    merge = Merge.new(
        state="returned", order=1, commit="c" * 40, base="b" * 40, ref="refs/x", by="ann",
        attempt=1, at_ms=1, why=why,
    )  # fmt: skip
    task = Task.new(id="1", subject="s", description="").with_facts(
        merge=merge.raw, released="came back"
    )
    courses = Courses()
    events = [Event(n, "", LEAD, "merge.return", (PutTask(task),)) for n in range(1, times + 1)]
    courses.follow(events)
    return task, courses


def resting(task: Task, courses: Courses) -> Advice | None:
    course = courses.of["1"]
    works = course.returned
    return at_rest(task, course, {"1": task}, TEAM, HABITS, working=["ann"], led=True, works=works)


def test_work_that_others_were_faster_than_may_come_back_more_often_than_what_is_red() -> None:
    for times in range(1, 4 * CONFLICT_FACTOR):
        assert resting(*came_back("conflict", times)) is None
    advice = resting(*came_back("conflict", 4 * CONFLICT_FACTOR))
    assert advice is not None
    assert (advice.step, "12 times" in advice.why) == ("give_up", True)
    advice = resting(*came_back("checks", 3))
    assert advice is not None
    assert "the same work" in advice.why


def test_a_task_that_was_taken_up_again_at_once_is_given_up_all_the_same() -> None:
    task, courses = came_back("checks", 4)
    work = Work(task.evolve(status="in_progress", owner="ann"), "ann", None)
    advice = in_progress(work, courses.of["1"], HABITS, others=["bob"])
    assert advice is not None
    assert advice.step == "give_up"
    task, courses = came_back("checks", 3)
    work = Work(task.evolve(status="in_progress", owner="ann"), "ann", None)
    assert in_progress(work, courses.of["1"], HABITS, others=["bob"]) is None


def test_a_team_without_anybody_left_ends_when_what_was_handed_in_is_merged() -> None:
    spec = AgentSpec.new(driver="none", backend="none", cwd="/")
    ended: dict[str, Any] = {"phase": "ended", "end": "stopped", "at_limit": "team:tokens"}
    agents = {"ann": AgentFacts.new(spec=spec.raw, nonce="n", since_ms=1, cause="enough", **ended)}
    merge = Merge.new(
        state="queued", order=1, commit="c" * 40, base="b" * 40, ref="refs/x", by="ann",
        attempt=1, at_ms=1,
    )  # fmt: skip
    queued = Task.new(id="1", subject="s", description="", status="completed", owner="ann")
    queued = queued.with_facts(merge=merge.raw)
    left = Task.new(id="2", subject="s", description="")

    def verdict(tasks: list[Task], trouble: str | None = None) -> object:
        return at_a_standstill(tasks, agents, {"ann": "never"}, QueueState(trouble), 0.0)

    assert verdict([queued, left]) is None
    assert verdict([queued, left], "no room") is not None
    assert verdict([left]) is not None


def test_nothing_is_remembered_of_a_deleted_task() -> None:
    task, courses = came_back("checks", 3)
    courses.follow([Event(4, "", LEAD, "task.delete", (DeleteTask(task.id),))])
    assert not courses.of
