"""Signs of progress in real trees, work that comes back the same, entries that are added once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Conflict
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig, Unattended
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.stall_rules import Course, at_rest, refusal_of
from bullpen.team.team import Teams
from support.crews import new_team
from support.runs.unattended_team import Night, git_environment


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Night:
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    found = Night(tmp_path)
    found.make_repository()
    return found


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
