"""The box of a task is ticked in the commit that merges its work, and never in anybody's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.backlog.markdown_list import entries_of
from bullpen.team.tasks.check_rules import landing
from support.git.repositories import commit, git, write
from support.git.yard import Yard

LIST = "# Now\n\n- [ ] One  \n- [ ] Two (id: two)\n- [ ] Three\n- plain\n"


def source(subject: str, text: str = LIST, file: str = "BACKLOG.md") -> str:
    """Where a task is from."""
    found = {entry.subject: entry.key for entry in entries_of(text, "")}
    return f"markdown:{file}#{found[subject]}"


@pytest.fixture
def listed(yard: Yard) -> Yard:
    yard.user_commits({"BACKLOG.md": LIST}, "list")
    return yard


async def work(yard: Yard, name: str, subject: str, files: dict[str, str]) -> None:
    """The work on one entry, up to the queue."""
    task = await yard.take(name, subject, source=source(subject))
    await yard.finish(name, task, files)


async def test_the_box_is_ticked_in_the_commit_of_the_work_and_nothing_else(listed: Yard) -> None:
    await work(listed, "ann", "One", {"a.txt": "a\n"})
    await work(listed, "bob", "Two", {"b.txt": "b\n"})
    stepped = await listed.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1", "2"]
    assert listed.log()[1:] == ["list", "One", "Two"]
    now = LIST.replace("[ ] One", "[x] One").replace("[ ] Two", "[x] Two")
    assert (listed.project / "BACKLOG.md").read_bytes() == now.encode()
    assert git(listed.project, "show", "--format=", "--name-only", "main").split() == [
        "BACKLOG.md",
        "b.txt",
    ]
    assert git(listed.project, "status", "--porcelain") == ""


async def test_with_own_commits_it_is_ticked_in_the_merge_commit(listed: Yard) -> None:
    task = await listed.take("ann", "Three", source=source("Three"))
    own = commit(listed.tree("ann"), {"a.txt": "a\n"}, "mine")
    await listed.finish("ann", task)
    await listed.queue().step()
    assert git(listed.project, "rev-parse", "main^2") == own
    assert "- [x] Three" in listed.at_target("BACKLOG.md")
    assert "- [ ] Three" in git(listed.project, "show", f"{own}:BACKLOG.md")


@pytest.mark.parametrize(
    "text",
    [
        LIST.replace("One", "One and more"),
        LIST.replace("- [ ] One  \n", ""),
        LIST.replace("- [ ] One", "- [-] One"),
        LIST.replace("- [ ] One", "- One"),
        LIST.replace("- [ ] One", "```\n- [ ] One"),
    ],
)
async def test_a_line_that_changed_or_is_gone_is_left_alone(listed: Yard, text: str) -> None:
    await work(listed, "ann", "One", {"a.txt": "a\n"})
    listed.user_commits({"BACKLOG.md": text})
    stepped = await listed.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1"]
    assert (listed.project / "BACKLOG.md").read_text() == text


async def test_a_file_with_uncommitted_changes_is_left_alone(listed: Yard) -> None:
    await work(listed, "ann", "One", {"a.txt": "a\n"})
    mine = f"{LIST}- [ ] Four\n"
    write(listed.project, {"BACKLOG.md": mine})
    stepped = await listed.queue().step()
    assert stepped is not None
    assert (stepped.merged, stepped.held) == (["1"], None)
    assert (listed.project / "BACKLOG.md").read_text() == mine
    assert listed.at_target("BACKLOG.md") == LIST.strip("\n")
    # Once the changes are committed, the next run ticks it, and no other box.
    await listed.queue().tick()
    assert (listed.project / "BACKLOG.md").read_text() == mine
    listed.user_commits({"BACKLOG.md": mine}, "mine")
    for _ in range(2):
        await listed.queue().tick()
    assert (listed.project / "BACKLOG.md").read_text() == mine.replace("[ ] One", "[x] One")
    assert listed.log()[-2:] == ["mine", "Tick the boxes of finished tasks"]
    assert git(listed.project, "status", "--porcelain") == ""


async def test_a_change_during_the_tests_does_not_hold_the_queue(listed: Yard) -> None:
    await work(listed, "ann", "One", {"a.txt": "a\n"})
    mine = f"{LIST}- [ ] Four\n"
    # Git was told not to look at it, so only the merge itself finds the change.
    git(listed.project, "update-index", "--assume-unchanged", "BACKLOG.md")
    write(listed.project, {"BACKLOG.md": mine})
    stepped = await listed.queue().step()
    assert stepped is not None
    assert (stepped.merged, stepped.held) == (["1"], None)
    assert (listed.project / "BACKLOG.md").read_text() == mine


async def test_untracked_files_and_files_elsewhere_are_left_alone(
    yard: Yard, tmp_path: Path
) -> None:
    write(yard.project, {"BACKLOG.md": LIST})
    (tmp_path / "OTHER.md").write_text(LIST)
    outside = source("Two", file="../OTHER.md")
    for name, where in (("ann", source("One")), ("bob", outside)):
        task = await yard.take(name, "work", source=where)
        await yard.finish(name, task, {f"{name}.txt": "x\n"})
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1", "2"]
    assert (yard.project / "BACKLOG.md").read_text() == LIST
    assert (tmp_path / "OTHER.md").read_text() == LIST


async def test_a_tick_never_conflicts_with_work_on_the_lines_around_it(listed: Yard) -> None:
    one = await listed.take("ann", "One", source=source("One"))
    two = await listed.take("bob", "Two", source=source("Two"))
    await listed.finish("ann", one, {"a.txt": "a\n"})
    # Both sides change lines that touch: git alone would call it a conflict.
    mine = LIST.replace("[ ] Two", "[x] Two").replace("- [ ] Three", "- [ ] Three, later")
    await listed.finish("bob", two, {"BACKLOG.md": mine, "b.txt": "b\n"})
    await listed.drain(listed.queue(batch=1))
    now = mine.replace("[ ] One", "[x] One")
    assert (listed.project / "BACKLOG.md").read_text() == now
    assert listed.log()[-2:] == ["One", "Two"]


async def test_what_truly_conflicts_comes_back(listed: Yard) -> None:
    two = await listed.take("bob", "Two", source=source("Two"))
    await listed.finish("bob", two, {"BACKLOG.md": LIST.replace("Three", "3")})
    listed.user_commits({"BACKLOG.md": LIST.replace("Three", "III").replace("[ ] One", "[x] One")})
    stepped = await listed.queue().step()
    assert stepped is not None
    assert stepped.returned == {two.id: "conflict"}


async def test_a_file_in_a_folder_with_other_line_ends_keeps_every_byte(yard: Yard) -> None:
    text = "\ufeff* [ ] One\r\n\t- [ ] part\r\n* [ ] Zwei\udcff\r\n"
    data = text.encode("utf-8", "surrogateescape")
    file = yard.project / "docs" / "plans" / "list.md"
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    commit(yard.project, {}, "list")
    where = source("One", "* [ ] One\n", "docs/plans/list.md")
    task = await yard.take("ann", "One", source=where)
    await yard.finish("ann", task, {"a.txt": "a\n"})
    await yard.queue().step()
    assert file.read_bytes() == data.replace(b"* [ ] One", b"* [x] One")


async def test_what_was_completed_without_a_change_is_not_ticked(listed: Yard) -> None:
    """It was, by intent: a worker that said "done" ticked the boxes of work that nobody did."""
    one = await listed.take("ann", "One", source=source("One"))
    two = await listed.take("bob", "Two", source=source("Two"))
    assert await listed.finish("ann", one) is None
    await listed.team.tasks.force(two.id, by=LEAD, voice="human", reason="I did it by hand.")
    await listed.queue().tick()
    # Who vouches for it is believed.
    assert (listed.project / "BACKLOG.md").read_text() == LIST.replace("[ ] Two", "[x] Two")


async def test_work_that_the_target_has_already_by_others_is_not_ticked(listed: Yard) -> None:
    """Who hands in a copy of another's work has changed nothing, and has to say what it is."""
    one = await listed.take("ann", "One", source=source("One"))
    two = await listed.take("bob", "Two", source=source("Two"))
    await listed.finish("ann", one, {"a.txt": "a\n"})
    await listed.finish("bob", two, {"a.txt": "a\n"})
    steps = await listed.drain(listed.queue())
    assert [step.merged for step in steps] == [[one.id], []]
    assert steps[-1].returned == {two.id: "nothing"}
    await listed.queue().tick()
    assert (listed.project / "BACKLOG.md").read_text() == LIST.replace("[ ] One", "[x] One")
    mail = (await listed.team.mailbox.read("bob")).entries[-1].message
    assert "changes nothing on the target: all of it is there already" in mail.text
    task, _ = await listed.retake("bob", two.id)
    assert await listed.finish("bob", task) is None
    await listed.queue().tick()
    assert (listed.project / "BACKLOG.md").read_text() == LIST.replace("[ ] One", "[x] One")
    assert landing(await listed.team.tasks.get(two.id)) == "unchanged"


async def test_work_that_a_person_merged_is_ticked(listed: Yard) -> None:
    task = await listed.take("ann", "One", source=source("One"))
    handed = await listed.finish("ann", task, {"a.txt": "a\n"})
    assert handed is not None
    git(listed.project, "merge", "--quiet", "--no-ff", "--no-edit", handed.work.commit)
    assert [step.merged for step in await listed.drain(listed.queue())] == [[task.id]]
    await listed.queue().tick()
    assert "[x] One" in (listed.project / "BACKLOG.md").read_text()
