"""One step of the queue: what lands, what comes back, and what is written down of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Conflict, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check, Task
from support.git.repositories import add_remote, git, write
from support.git.yard import TEAM, Yard, add_line, check


async def test_work_that_is_green_lands_and_its_task_is_done(yard: Yard) -> None:
    task = await yard.work("ann", add_line("numbers.txt", "a=1"), "Add a")
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == [task]
    assert yard.at_target("numbers.txt").endswith("a=1")
    assert yard.log()[-1] == "Add a"
    record = await yard.record(task)
    assert (record.state, record.landed) == ("merged", yard.target)
    assert [step.what for step in record.steps] == ["queued", "rebased", "tested", "merged"]
    # The user's tree, in which the target is checked out, has moved along and is clean.
    assert (yard.project / "numbers.txt").read_text().endswith("a=1\n")
    assert git(yard.project, "status", "--porcelain") == ""
    assert await yard.queue().step() is None


async def test_what_waits_for_a_task_waits_until_its_work_is_merged(yard: Yard) -> None:
    first = await yard.work("ann", add_line("numbers.txt", "a=1"))
    second = (await yard.team.tasks.add("then", by=LEAD, blocked_by=[first])).id
    with pytest.raises(Refused) as refused:
        await yard.team.tasks.claim(second, by="bob")
    assert refused.value.reason == "blocked"
    await yard.queue().step()
    assert (await yard.team.tasks.claim(second, by="bob")).owner == "bob"


async def test_work_of_several_lands_together_in_the_order_it_was_handed_in(yard: Yard) -> None:
    for number in range(3):
        name = ("ann", "bob")[number % 2]
        await yard.work(name, {f"file{number}.txt": "new\n"}, f"number {number}")
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1", "2", "3"]
    assert yard.log()[1:] == ["number 0", "number 1", "number 2"]
    # They were tested once, together.
    tested = [step for step in (await yard.record("1")).steps if step.what == "tested"]
    assert [step.batch for step in tested] == [["1", "2", "3"]]


async def test_work_that_contradicts_the_target_comes_back_with_files_and_lines(yard: Yard) -> None:
    task = await yard.take("ann")
    yard.user_commits({"numbers.txt": "# the user's\n"})
    await yard.finish("ann", task, {"numbers.txt": "# what ann wants\n"})
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.returned == {task.id: "conflict"}
    back = await yard.team.tasks.get(task.id)
    assert (back.status, back.owner) == ("pending", "ann")
    record = await yard.record(task.id)
    assert (record.state, record.why, record.files) == ("returned", "conflict", ["numbers.txt"])
    text = (await yard.team.mailbox.read("ann")).entries[-1].message.text
    assert "numbers.txt" in text
    assert "# the user's" in text
    assert "# what ann wants" in text
    assert yard.refs()[record.ref] == record.commit


async def test_one_that_contradicts_does_not_keep_the_others(yard: Yard) -> None:
    task = await yard.take("ann")
    yard.user_commits({"numbers.txt": "# the user's\n"})
    await yard.finish("ann", task, {"numbers.txt": "# what ann wants\n"})
    other = await yard.work("bob", {"b.txt": "b\n"})
    stepped = await yard.queue().step()
    assert stepped is not None
    assert (stepped.merged, stepped.returned) == ([other], {task.id: "conflict"})


async def test_who_contradicts_only_work_that_is_red_does_not_come_back(yard: Yard) -> None:
    red = await yard.take("ann")
    good = await yard.take("bob")
    await yard.finish("ann", red, {"numbers.txt": "BROKEN\n"})
    await yard.finish("bob", good, {"numbers.txt": "good=1\n"})
    queue = yard.queue(retries=0)
    steps = await yard.drain(queue)
    assert [(step.merged, step.returned) for step in steps] == [
        ([], {red.id: "checks"}),
        ([good.id], {}),
    ]


async def test_a_red_batch_is_bisected_and_what_comes_before_the_culprit_lands(yard: Yard) -> None:
    for number in range(4):
        text = "BROKEN\n" if number == 2 else f"x{number}=1\n"
        where = "numbers.txt" if number == 2 else f"file{number}.txt"
        await yard.work(("ann", "bob")[number % 2], {where: text})
    before = yard.target
    stepped = await yard.queue(retries=0).step()
    assert stepped is not None
    assert (stepped.merged, stepped.returned) == (["1", "2"], {"3": "checks"})
    record = await yard.record("3")
    assert "BROKEN" in (record.detail or "")
    tries = [(step.what, step.batch, step.passed) for step in record.steps if step.batch]
    assert tries == [
        ("tested", ["1", "2", "3", "4"], False),
        ("bisected", ["1", "2", "3"], False),
        ("returned", ["3"], None),
    ]
    # The rest keeps its place.
    assert [task.id for task in await yard.team.merges.line()] == ["4"]
    assert [step.onto for step in record.steps if step.what == "tested"] == [before]
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["4"]


async def test_what_is_red_once_is_tried_again_and_the_tries_are_recorded(
    yard: Yard, tmp_path: Path
) -> None:
    task = await yard.work("ann", {"a.txt": "a\n"})
    flaky = check(f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; exit 1; }}")
    stepped = await yard.queue(gate=[flaky.raw], retries=1).step()
    assert stepped is not None
    assert stepped.merged == [task]
    record = await yard.record(task)
    assert record.tries == 2
    tested = [step.passed for step in record.steps if step.what == "tested"]
    assert tested == [False, True]


async def test_the_tasks_own_checks_are_run_on_the_target_too(yard: Yard) -> None:
    checks = [check("! grep -q user numbers.txt"), Check.new(name="f", kind="file", path="a.txt")]
    task = await yard.take("ann", checks=checks)
    yard.user_commits({"numbers.txt": "# user\n"})
    await yard.finish("ann", task, {"a.txt": "a\n"})
    stepped = await yard.queue(retries=0).step()
    assert stepped is not None
    assert stepped.returned == {task.id: "checks"}
    assert "of task #1 fails" in ((await yard.record(task.id)).detail or "")


async def test_nobody_gets_work_back_because_the_target_itself_is_red(yard: Yard) -> None:
    task = await yard.work("ann", {"a.txt": "a\n"})
    yard.user_commits({"numbers.txt": "BROKEN\n"})
    queue = yard.queue(retries=0)
    stepped = await queue.step()
    assert stepped is not None
    assert (stepped.merged, stepped.returned) == ([], {})
    assert "main itself fails" in (stepped.held or "")
    yard.user_commits({"numbers.txt": "ok=1\n"})
    stepped = await queue.step()
    assert stepped is not None
    assert stepped.merged == [task]


async def test_work_that_mends_a_red_target_lands(yard: Yard) -> None:
    yard.user_commits({"numbers.txt": "BROKEN\n"})
    task = await yard.work("ann", {"numbers.txt": "ok=1\n"})
    stepped = await yard.queue(retries=0).step()
    assert stepped is not None
    assert stepped.merged == [task]


async def test_changes_of_the_user_that_are_in_the_way_hold_the_queue_and_stay(yard: Yard) -> None:
    task = await yard.work("ann", {"numbers.txt": "a=1\n", "new.txt": "ann's\n"})
    write(yard.project, {"numbers.txt": "# half a thought\n", "mine.txt": "mine\n"})
    before = yard.target
    queue = yard.queue()
    stepped = await queue.step()
    assert stepped is not None
    assert stepped.merged == []
    assert "numbers.txt" in (stepped.held or "")
    assert yard.target == before
    assert (yard.project / "numbers.txt").read_text() == "# half a thought\n"
    git(yard.project, "checkout", "--", "numbers.txt")
    stepped = await queue.step()
    assert stepped is not None
    assert stepped.merged == [task]
    # What is not touched by the merge stays as it is.
    assert (yard.project / "mine.txt").read_text() == "mine\n"
    # And what was green was not tested again.
    tested = [step for step in (await yard.record(task)).steps if step.what == "tested"]
    assert len({step.commit for step in tested}) == 1


async def test_files_that_git_does_not_track_are_not_overwritten(yard: Yard) -> None:
    write(yard.project, {".gitignore": "*.log\n"})
    git(yard.project, "add", ".gitignore")
    git(yard.project, "commit", "--quiet", "-m", "ignore")

    def add_both(tree: Path) -> None:
        write(tree, {"plain.txt": "ann's\n", "deep.log": "ann's\n"})
        git(tree, "add", "--force", "deep.log")

    await yard.work("ann", add_both)
    for name in ("plain.txt", "deep.log"):
        write(yard.project, {name: "the user's\n"})
        stepped = await yard.queue().step()
        assert stepped is not None
        assert name in (stepped.held or "")
        assert (yard.project / name).read_text() == "the user's\n"
        (yard.project / name).unlink()
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1"]


async def test_a_target_that_nobody_has_checked_out_moves_too(yard: Yard) -> None:
    git(yard.project, "checkout", "--quiet", "-b", "elsewhere")
    before = git(yard.project, "rev-parse", "HEAD")
    await yard.work("ann", {"a.txt": "a\n"})
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1"]
    assert git(yard.project, "rev-parse", "HEAD") == before
    assert not (yard.project / "a.txt").exists()
    assert yard.at_target("a.txt") == "a"


async def test_a_target_that_is_being_rebased_is_left_alone(yard: Yard) -> None:
    yard.user_commits({"u.txt": "1\n"})
    yard.user_commits({"u.txt": "2\n"})
    await yard.work("ann", {"a.txt": "a\n"})
    git(yard.project, "-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "-q", "-i", "HEAD~1")
    before = yard.target
    stepped = await yard.queue().step()
    assert stepped is not None
    assert "rebased" in (stepped.held or "")
    assert yard.target == before
    git(yard.project, "rebase", "--continue")
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1"]


async def test_a_commit_of_the_user_during_the_tests_is_built_upon(yard: Yard) -> None:
    await yard.work("ann", {"a.txt": "a\n"})
    queue = yard.queue()
    once: list[str] = []
    usual = queue._run

    async def run(where: Path, task: Task | None, asked: Check) -> Check:
        if not once:
            once.append(yard.user_commits({"u.txt": "u\n"}, "the user's"))
        return await usual(where, task, asked)

    stepped = await yard.queue(run=run).step()
    assert stepped is not None
    assert stepped.merged == ["1"]
    assert yard.log()[1:] == ["the user's", "work"]


async def test_a_missing_target_is_refused_by_name(yard: Yard) -> None:
    await yard.work("ann", {"a.txt": "a\n"})
    git(yard.project, "checkout", "--quiet", "--detach")
    git(yard.project, "branch", "-D", "main")
    with pytest.raises(Refused) as refused:
        await yard.queue().step()
    assert refused.value.reason == "no_target"
    assert [task.id for task in await yard.team.merges.line()] == ["1"]


async def test_a_second_queue_is_refused_and_told_who_is_the_first(yard: Yard) -> None:
    import os

    await yard.work("ann", {"a.txt": "a\n"})
    with yard.queue().locked(), pytest.raises(Conflict, match=str(os.getpid())):
        await yard.queue().step()
    stepped = await yard.queue().step()
    assert stepped is not None


async def test_a_task_that_is_taken_out_of_the_line_meanwhile_does_not_stop_the_others(
    yard: Yard,
) -> None:
    for name in ("ann", "bob"):
        await yard.work(name, {f"{name}.txt": "x\n"})
    queue = yard.queue()
    usual = queue._run

    async def run(where: Path, task: Task | None, asked: Check) -> Check:
        if not gone:
            gone.append(await yard.team.tasks.delete("1", by=LEAD, voice="human"))
        return await usual(where, task, asked)

    gone: list[Task] = []
    stepped = await yard.queue(run=run).step()
    assert stepped is not None
    assert stepped.merged == ["2"]
    assert yard.log()[1:] == ["work"]


async def test_work_in_a_clone_is_fetched_from_where_it_was_pushed(yard: Yard) -> None:
    add_remote(yard.project, "origin", yard.project.parent / "server.git")
    await yard.join("cleo", kind="clone", remote="origin")
    task = await yard.work("cleo", {"c.txt": "c\n"})
    record = await yard.record(task)
    assert record.ref not in yard.refs()
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == [task]
    assert yard.at_target("c.txt") == "c"


async def test_work_that_is_nowhere_goes_back_and_a_server_that_is_silent_is_waited_for(
    yard: Yard,
) -> None:
    server = add_remote(yard.project, "origin", yard.project.parent / "server.git")
    await yard.join("cleo", kind="clone", remote="origin")
    task = await yard.work("cleo", {"c.txt": "c\n"})
    other = await yard.work("ann", {"a.txt": "a\n"})
    away = server.rename(server.parent / "away.git")
    stepped = await yard.queue().step()
    assert stepped is not None
    assert (stepped.merged, stepped.returned) == ([other], {})
    assert f"#{task}" in (stepped.held or "")
    away.rename(server)
    git(server, "update-ref", "-d", (await yard.record(task)).ref)
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.returned == {task: "missing"}


async def test_the_command_after_a_landing_knows_what_landed_and_never_undoes_it(
    yard: Yard, tmp_path: Path
) -> None:
    names = "BULLPEN_TEAM BULLPEN_TARGET BULLPEN_OLD BULLPEN_COMMIT BULLPEN_TASKS BULLPEN_SUBJECTS"
    shown = "; ".join(f'echo "$%s" >> {tmp_path}/told' % name for name in names.split())
    old = yard.target
    await yard.work("ann", {"a.txt": "a\n"}, "Add a")
    await yard.work("bob", {"b.txt": "b\n"}, "Add b")
    stepped = await yard.queue(after=f"{shown}; echo no; exit 3").step()
    assert stepped is not None
    assert stepped.merged == ["1", "2"]
    assert "exit code 3\nno" in (stepped.trouble or "")
    told = (tmp_path / "told").read_text().splitlines()
    assert told == [TEAM, "main", old, yard.target, "1 2", "#1 Add a", "#2 Add b"]
    record = await yard.record("2")
    assert (record.state, record.told) == ("merged", "failed")
    last = record.steps[-1]
    assert (last.what, last.passed) == ("after", False)
    assert "exit code 3" in (last.detail or "")
    assert await yard.queue(after="false").step() is None


async def test_the_command_can_push_to_a_remote(yard: Yard) -> None:
    server = add_remote(yard.project, "origin", yard.project.parent / "server.git")
    await yard.work("ann", {"a.txt": "a\n"})
    await yard.queue(after='git push --quiet origin "$BULLPEN_TARGET"').step()
    assert git(server, "rev-parse", "main") == yard.target


async def test_the_same_red_work_comes_back_again_when_it_is_handed_in_again(yard: Yard) -> None:
    queue = yard.queue()
    task = await yard.take("ann")
    await yard.finish("ann", task, {"numbers.txt": "BROKEN\n"})
    first = await queue.step()
    again, _ = await yard.retake("ann", task.id)
    await yard.finish("ann", again)
    second = await queue.step()
    for stepped in (first, second):
        assert stepped is not None
        assert (stepped.returned, stepped.held) == ({task.id: "checks"}, None)
    assert (await yard.record(task.id)).attempt == 2
