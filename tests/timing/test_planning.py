"""Long lists are planned and put in order so soon that nobody waits for it."""

from __future__ import annotations

from pathlib import Path

from bullpen.runs.teamfile.backlog import entries
from bullpen.runs.teamfile.backlog.backlog import new_drafts
from bullpen.team.tasks.dispatch_rules import in_order
from support.pace import counting_s, cpu_s
from system.runs.team_files.test_dry_run import a_team_with_tasks, planned
from unit.runs.teamfile.test_backlog import a_chain, kept
from unit.team.tasks.test_dispatch_rules import a_long_list, order
from unit.team.tasks.test_meant_for import much_to_compare


def test_a_list_of_5000_is_put_in_order_at_once() -> None:
    """About as long as counting to a million; what takes the square of that takes minutes."""
    tasks, team = a_long_list(5000)
    order(tasks, team, "m3", ["m3", "m4"])
    assert cpu_s(lambda: order(tasks, team, "m3", ["m3", "m4"])) < 20 * counting_s()


def test_500_tasks_are_compared_with_50_members_at_once() -> None:
    """A few times as long as counting to a million, the first time too."""
    tasks, team = much_to_compare(500)
    assert cpu_s(lambda: in_order(tasks, team, "parser-0", idle=[])) < 20 * counting_s()


def test_the_longest_chain_of_a_backlog_is_read_soon() -> None:
    items = a_chain(entries.ENTRIES_MAX)
    assert cpu_s(lambda: new_drafts(items, kept(items[:1]))) < 250 * counting_s()


def test_a_hundred_tasks_for_ten_members_are_planned_in_no_time(tmp_path: Path) -> None:
    text = a_team_with_tasks(tmp_path, 100)
    assert cpu_s(lambda: planned(tmp_path, text), tries=1) < 250 * counting_s()
