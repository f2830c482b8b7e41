"""A review in the gate of the merge queue: each task's work is reviewed before it is merged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.agents.work.merge_checks import open_queue
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from bullpen.store.memory import MemoryStore
from bullpen.workspace.merge_queue.queue import Queue
from support.agents.reviewing import reviewer, verdict
from support.git.repositories import only_these_settings
from support.git.yard import Yard, add_line, check


@pytest.fixture
async def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    only_these_settings(monkeypatch, tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    yard = await Yard.make(tmp_path, MemoryStore())
    await yard.join("ann", "bob")
    return yard


async def queue_with(yard: Yard, review: Check, *, command: str = "true") -> Queue:
    gate = [check(command).raw, review.raw]
    settings = yard.settings.evolve(gate=gate)
    await yard.team.merges.configure(settings, by=LEAD, voice="human")
    return await open_queue(yard.team, settings, home=yard.home, environ=os.environ)


async def test_work_comes_back_with_the_comments_and_is_merged_when_it_is_approved(
    yard: Yard, tmp_path: Path
) -> None:
    script = tmp_path / "review.toml"
    comment = {"file": "numbers.txt", "line": 2, "text": "Seven is not a number here."}
    task_id = await yard.work("ann", add_line("numbers.txt", "seven"))
    queue = await queue_with(yard, reviewer(script, verdict("change", "No words", comment)))
    (stepped,) = await yard.drain(queue)
    assert stepped.returned == {task_id: "checks"}
    record = await yard.record(task_id)
    assert "numbers.txt:2: Seven is not a number here." in (record.detail or "")
    task, _ = await yard.retake("ann", task_id)
    (yard.tree("ann") / "numbers.txt").write_text("# numbers\n7\n")
    await yard.finish("ann", task)
    reviewer(script, verdict("approve"))
    (stepped,) = await yard.drain(queue)
    assert stepped.merged == [task_id]
    assert yard.at_target("numbers.txt") == "# numbers\n7"
    reviews = (await yard.team.tasks.get(task_id)).facts.reviews
    assert [each.verdict for each in reviews] == ["change", "approve"]


async def test_each_task_is_reviewed_alone_and_only_the_bad_one_comes_back(
    yard: Yard, tmp_path: Path
) -> None:
    script = tmp_path / "review.toml"
    good = await yard.work("ann", add_line("a.txt", "1"), "good")
    bad = await yard.work("bob", add_line("b.txt", "2"), "bad")
    # The prompt of a reviewer is its first message, and has the subject of the task.
    script.write_text(
        '[[agents.reviewer.turns]]\ncontains = ": bad"\nsteps = [{say = """'
        + verdict("change", "No").replace("\\", "\\\\")
        + '"""}]\n[[agents.reviewer.turns]]\ncontains = ": good"\nsteps = [{say = """'
        + verdict("approve").replace("\\", "\\\\")
        + '"""}]\n'
    )
    review = Check.new(name="review", kind="review", by="scripted", run=str(script))
    steps = await yard.drain(await queue_with(yard, review))
    assert [id_ for step in steps for id_ in step.merged] == [good]
    assert {id_ for step in steps for id_ in step.returned} == {bad}
    for task_id in (good, bad):
        assert len((await yard.team.tasks.get(task_id)).facts.reviews) == 1


async def test_a_reviewer_that_dies_merges_nothing_and_a_person_is_asked_in_the_end(
    yard: Yard, tmp_path: Path
) -> None:
    task_id = await yard.work("ann", add_line("numbers.txt", "7"))
    queue = await queue_with(yard, reviewer(tmp_path / "review.toml", ["{exit = 3}"]))
    for _ in range(2):
        with pytest.raises(Unavailable, match="could not be reviewed"):
            await queue.step()
    assert yard.log() == ["start"] or task_id not in " ".join(yard.log())
    stepped = await queue.step()
    assert stepped is not None
    assert stepped.returned == {task_id: "checks"}
    (request,) = await yard.team.approvals.pending()
    await yard.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    task, _ = await yard.retake("ann", task_id)
    await yard.finish("ann", task)
    (stepped,) = await yard.drain(queue)
    assert stepped.merged == [task_id]
    assert len((await yard.team.tasks.get(task_id)).facts.reviews) == 3


async def test_a_command_of_the_gate_that_fails_costs_no_review(yard: Yard, tmp_path: Path) -> None:
    task_id = await yard.work("ann", {"numbers.txt": "BROKEN\n"})
    review = reviewer(tmp_path / "review.toml", verdict("approve"))
    queue = await queue_with(yard, review, command="sh test.sh")
    (stepped,) = await yard.drain(queue)
    assert stepped.returned == {task_id: "checks"}
    assert not (await yard.team.tasks.get(task_id)).facts.reviews


async def test_work_of_an_agent_like_the_reviewer_goes_to_a_person(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = AgentSpec.new(driver="scripted", backend="none", cwd=".")
    rules = "bullpen.team.tasks.reviews.rules.author_of"
    monkeypatch.setattr(rules, lambda task, team: alike)
    task_id = await yard.work("ann", add_line("numbers.txt", "7"))
    queue = await queue_with(yard, reviewer(tmp_path / "review.toml", verdict("approve")))
    (stepped,) = await yard.drain(queue)
    assert stepped.returned == {task_id: "checks"}
    (request,) = await yard.team.approvals.pending()
    assert "may also have made the work" in request.subject["input"]["why"]
    assert not (await yard.team.tasks.get(task_id)).facts.reviews
