"""Signs of progress in real trees, work that comes back the same, entries that are added once."""

from __future__ import annotations

from pathlib import Path

import pytest
from crews import new_team
from nights import Night, git_environment

from bullpen.errors import Conflict
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.unattended import Unattended
from bullpen.store.memory import MemoryStore
from bullpen.team.drafts import Draft
from bullpen.team.stall_rules import Course, at_rest, refusal_of
from bullpen.team.teams import Teams
from bullpen.unattended.signs import tree_sign, work_sign


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Night:
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    found = Night(tmp_path)
    found.make_repository()
    return found


def test_whatever_git_would_see_in_a_tree_is_a_sign(night: Night) -> None:
    tree = night.project
    signs = [tree_sign(tree)]
    assert signs[0] is not None
    assert tree_sign(tree) == signs[0], "looking is no sign"

    def changed(act: str) -> None:
        now = tree_sign(tree)
        assert now not in signs, act
        signs.append(now)

    (tree / "new file\n.txt").write_text("a", "utf-8")
    changed("a new file")
    (tree / "new file\n.txt").write_text("ab", "utf-8")
    changed("more in it")
    (tree / "README").write_text("other", "utf-8")
    changed("a changed file")
    night.git("add", ".")
    changed("staged")
    night.git("commit", "--quiet", "--message=x")
    changed("committed")
    (tree / "README").unlink()
    changed("removed")
    assert tree_sign(tree / "nowhere") is None, "what cannot be looked at is not unchanged"


def test_the_same_work_is_known_again_on_another_base(night: Night) -> None:
    """Commit ids and what lies below differ; what was changed does not."""
    signs = []
    for number, text in enumerate(("a\n", "a\n", "b\n")):
        base = night.git("rev-parse", "main").strip()
        night.git("checkout", "--quiet", "-b", f"work-{number}")
        (night.project / "work.txt").write_text(text, "utf-8")
        night.git("add", ".")
        night.git("commit", "--quiet", f"--message=try {number}")
        commit = night.git("rev-parse", "HEAD").strip()
        night.git("checkout", "--quiet", "main")
        (night.project / f"other-{number}.txt").write_text("x", "utf-8")
        night.git("add", ".")
        night.git("commit", "--quiet", "--message=meanwhile")
        signs.append(work_sign(night.project, base, commit))
    assert None not in signs
    assert signs[0] == signs[1]
    assert signs[1] != signs[2]
    assert work_sign(night.project, "nothing", "nowhere") is None


@pytest.mark.parametrize(
    ("works", "given_up"),
    [(["x", "x"], False), (["x", "x", "x"], True), (["x", "x", "y", "x", "x"], False)],
)
def test_the_same_work_that_comes_back_three_times_is_given_up(
    works: list[str], given_up: bool
) -> None:
    task = Task.new(id="1", subject="s", description="", owner="ann")
    team = TeamConfig.new(name="night", members=[{"name": LEAD}, {"name": "ann"}])
    advice = at_rest(
        task, Course(), {"1": task}, team, Unattended.new(), working=["ann"], led=False, works=works
    )
    assert (advice is not None) is given_up
    if advice is not None:
        assert advice.step == "give_up"
        assert "the same work came back from the merge queue 3 times" in advice.why


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2 failed in 0.12s", "2 failed in 3.40s", True),
        ("2 failed in 0.12s", "1 failed in 0.12s", False),
        ("at 0x7f01 line 3", "at 0x7f99 line 3", True),
        ("at line 3", "at line 4", False),
        ("12:01:33 error in /tmp/x1/a.py", "12:09:07 error in /tmp/x2/a.py", True),
    ],
)
def test_times_and_addresses_do_not_make_a_refusal_another(
    one: str, other: str, same: bool
) -> None:
    def refused(detail: str) -> str | None:
        task = Task.new(id="1", subject="s", description="", status="in_progress")
        check = {"name": "t", "kind": "command", "run": "x", "passed": False, "attempt": 1}
        return refusal_of(task.with_facts(attempt=1, checks=[{**check, "detail": detail}]))

    assert refused(one) is not None
    assert (refused(one) == refused(other)) is same


async def test_an_entry_of_a_backlog_is_added_once_whoever_reads_it() -> None:
    async with Teams(MemoryStore()) as teams:
        team = await new_team(teams)
        first, second = Draft("One", source="list:1"), Draft("Two", source="list:2")
        await team.tasks.add_many([first], by=LEAD)
        with pytest.raises(Conflict, match="list:1"):
            await team.tasks.add_many([second, first], by=LEAD)
        assert [task.subject for task in (await team.tasks.list()).tasks] == ["One"]
