"""The dry run: who would do what, what it may cost, what is in the way; and nothing happens."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from bullpen.doors.cli.main import app
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.runs.plan_view import show_plan
from bullpen.protocol.agent import Usage
from bullpen.protocol.task import Effort
from bullpen.runs.teamfile.backlog.backlog import read_backlog
from bullpen.runs.teamfile.dry_run.costs import of_task, together
from bullpen.runs.teamfile.dry_run.gate_trial import gate_warning
from bullpen.runs.teamfile.dry_run.plan import TeamPlan, plan
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.tables import BudgetTable, MemberTable

TEAM = '[team]\nname = "x"\n'


def cents(used: Usage) -> float:
    return used.tokens / 100


def planned(folder: Path, text: str, *, price: Any = cents) -> TeamPlan:
    path = folder / "TEAM.toml"
    path.write_text(text, encoding="utf-8")
    file = read_team_file(path)

    async def run() -> TeamPlan:
        items = [
            item
            for table in file.backlog
            for item in await read_backlog(table, folder, environ=os.environ)
        ]

        def prices(member: MemberTable, model: str | None) -> Any:
            return price

        return await plan(file, [*file.items(), *items], models={}, price=prices)

    return anyio.run(run)


def tasks(*rows: str) -> str:
    return "".join(
        f"[[task]]\nid = '{row[0]}'\nsubject = 'Do {row[0]}'\n{row[1:]}\n" for row in rows
    )


def test_the_plan_says_who_does_what_after_what(tmp_path: Path) -> None:
    members = (
        "[[member]]\nname = 'ann'\nskills = ['py']\n[[member]]\nname = 'bob'\n"
        "[[member]]\nname = 'cid'\n"
    )
    rows = tasks(
        "a\neffort = 'small'\nneeds = ['py']\nchecks = ['make test']",
        "b\nblocked_by = ['a']\nowner = 'bob'\nchecks = ['make test']",
        "c\neffort = 'large'",
    )
    made = planned(tmp_path, TEAM + members + rows)

    found = {task.subject: (task.member, task.wave) for task in made.tasks}
    assert found["Do a"] == ("ann", 1)
    assert found["Do b"] == ("bob", 2)
    assert found["Do c"][0] in ("bob", "cid")
    assert made.waves == 2
    assert sum(len(member.tasks) for member in made.members) == 3
    assert "1 [pending] Do a (ann) *" in made.graph
    assert "t1 --> t2" in made.mermaid


def test_nobody_has_two_tasks_at_once_and_none_begins_before_what_it_waits_for(
    tmp_path: Path,
) -> None:
    rows = tasks(
        *(
            f"{name}\neffort = '{effort}'\nblocked_by = {after}"
            for name, effort, after in (
                ("a", "large", []),
                ("b", "small", []),
                ("c", "small", ["a"]),
                ("d", "medium", ["b"]),
                ("e", "medium", ["c", "d"]),
                ("f", "large", []),
                ("g", "small", ["f"]),
            )
        )
    )
    made = planned(tmp_path, TEAM + "[[member]]\nname = 'm'\ncount = 3\n" + rows)
    takes = {"small": 1, "medium": 3, "large": 8}
    spans = {}
    for task in made.tasks:
        assert task.begins is not None
        assert task.effort is not None
        spans[task.id] = (task.member, task.begins, task.begins + takes[task.effort])
    for task in made.tasks:
        assert all(spans[each][2] <= spans[task.id][1] for each in task.blocked_by)
    for member in made.members:
        own = sorted((begin, end) for who, begin, end in spans.values() if who == member.name)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(own))


def test_a_task_that_nobody_can_do_is_told_with_what_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "B.md").write_text("- A (needs: rust)\n- B (after: A)\n- C\n", encoding="utf-8")
    made = planned(tmp_path, TEAM + "[[member]]\nname = 'ann'\n[[backlog]]\nmarkdown = 'B.md'\n")
    assert [(task.subject, task.member) for task in made.tasks] == [
        ("C", "ann"),
        ("A", None),
        ("B", None),
    ]
    assert "No member can do #1 'A': it needs rust." in made.warnings
    assert "No member can do #2 'B': a task before it is impossible." in made.warnings


def test_the_cost_is_a_range_by_effort_and_is_held_against_the_budget(tmp_path: Path) -> None:
    rows = tasks("a\neffort = 'small'", "b\neffort = 'large'")
    member = "[[member]]\nname = 'ann'\n"
    made = planned(tmp_path, TEAM + member + rows)
    sizes: list[Effort] = ["small", "large"]
    likely = together(of_task(effort, cents) for effort in sizes)
    assert made.cost == likely
    assert likely.usd[0] < likely.usd[1]

    for usd, words in (
        (likely.usd[0] * 0.9, "The budget is too small: usd = "),
        (likely.usd[1] * 0.9, "The budget may be too small: usd = "),
        # The estimate is rough: cents below it are no reason to doubt what `init` suggested.
        (likely.usd[1] * 0.995, None),
        (likely.usd[1] * 1.1, None),
    ):
        warned = planned(tmp_path, f"{TEAM}[budget]\nusd = {usd}\n{member}{rows}").warnings
        assert [each for each in warned if "budget" in each and words in each] if words else True
        assert words or not any("budget" in each for each in warned)
    assert any("There is no [budget]" in each for each in made.warnings)


def test_what_has_no_known_price_is_not_in_the_money(tmp_path: Path) -> None:
    rows = tasks("a", "b")
    made = planned(tmp_path, TEAM + "[[member]]\nname = 'ann'\n" + rows, price=lambda used: None)
    assert (made.cost.usd, made.cost.unpriced) == ((0.0, 0.0), 2)
    scripted = "[[member]]\nname = 'ann'\ndriver = 'scripted'\nscript = 's.toml'\n"
    made = planned(tmp_path, TEAM + scripted + rows, price=lambda used: None)
    assert made.cost.unpriced == 0, "a script costs nothing"


def test_a_merge_without_a_gate_is_warned_of(tmp_path: Path) -> None:
    text = TEAM + "[workspace]\nkind = 'worktree'\n[[member]]\nname = 'ann'\n" + tasks("a")
    assert any("no gate" in each for each in planned(tmp_path, text + "[merge]\n").warnings)
    gated = planned(tmp_path, text + "[merge]\ngate = ['make']\n").warnings
    assert not any("gate" in each for each in gated)


def test_more_members_than_a_team_may_have_are_a_problem(tmp_path: Path) -> None:
    made = planned(tmp_path, TEAM + "[[member]]\nname = 'm'\ncount = 60\n" + tasks("a"))
    (problem,) = made.problems
    assert "'m-51'" in problem


def a_team_with_tasks(folder: Path, many: int) -> str:
    """A team file for ten members, whose backlog it writes."""
    rows = "".join(
        f"- Task {n} (id: t{n}) (effort: {('small', 'medium', 'large')[n % 3]})"
        + (f" (after: t{n - 7})" if n % 4 == 0 and n > 7 else "")
        + "\n"
        for n in range(many)
    )
    (folder / f"B{many}.md").write_text(rows, encoding="utf-8")
    return TEAM + f"[[member]]\nname = 'm'\ncount = 10\n[[backlog]]\nmarkdown = 'B{many}.md'\n"


def test_a_hundred_tasks_for_ten_members_are_planned(tmp_path: Path) -> None:
    made = planned(tmp_path, a_team_with_tasks(tmp_path, 100))
    assert all(task.member for task in made.tasks)
    assert {len(member.tasks) > 3 for member in made.members} == {True}


def test_the_mark_in_the_graph_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = planned(
        tmp_path, TEAM + "[[member]]\nname = 'm'\n" + tasks("a", "b\nblocked_by = ['a']")
    )
    show_plan(Page(), made, BudgetTable())
    shown = capsys.readouterr().out
    assert "1 [pending] Do a (m) *\n" in shown
    assert "\n* marks the longest chain of tasks\n" in shown


def everything(folder: Path) -> dict[str, object]:
    """All that lies in a folder, with its time of change."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in sorted(folder.rglob("*"))
    }


def test_a_dry_run_says_all_that_is_in_the_way_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, home, user = tmp_path / "project", tmp_path / "home", tmp_path / "user"
    project.mkdir()
    user.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(user),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "BULLPEN_HOME": str(home),
    }
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "BULLPEN_TEAM", "BULLPEN_AGENT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-mx"),
    ):
        subprocess.run(["git", "-C", project, *words], env=env, check=True, timeout=60)
    text = TEAM + (
        "[workspace]\nkind = 'worktree'\ndirty = 'leave'\n"
        "[merge]\ntarget = 'nowhere'\n"
        "[[member]]\nname = 'm'\ncount = 2\n"
        "[[member]]\nname = 'g'\nworkspace = 'shared'\ndriver = 'goose'\n"
        "command = ['no-such-program']\n"
        "[[member]]\nname = 'e'\ndriver = 'scripted'\nscript = 's.toml'\nenv = ['NOT_SET']\n"
        "[[member]]\nname = 's'\nworkspace = 'shared'\ndriver = 'scripted'\nscript = 's.toml'\n"
        "[[task]]\nid = 'a'\nsubject = 'A'\nchecks = ['touch ran']\n"
        "[[backlog]]\nmarkdown = 'none.md'\n"
    )
    (project / "TEAM.toml").write_text(text, encoding="utf-8")
    before = everything(tmp_path)
    monkeypatch.chdir(project)
    done = CliRunner().invoke(app, ["up", "TEAM.toml", "--dry-run", "--json"])
    assert done.exit_code == 2, done.output
    told = json.loads(done.stdout)
    problems = "\n".join(told["problems"])
    assert "m-1, m-2: There is no API key" in problems
    assert "g: The driver 'goose' needs the program 'no-such-program'" in problems
    assert "e: Environment variables are not set: NOT_SET" in problems
    assert f"s: Cannot read {project / 's.toml'}: No such file" in problems
    assert "none.md" in problems
    assert "There is no branch 'nowhere'" in problems
    assert told["ok"] is False
    assert [task["subject"] for task in told["tasks"]] == ["A"]
    assert everything(tmp_path) == before, "nothing of the user's is touched"


def test_a_plan_of_scripts_names_no_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member = "[[member]]\nname = 'ann'\n"
    show_plan(Page(), planned(tmp_path, TEAM + member + tasks("a")), BudgetTable())
    assert "\ntokens:" in capsys.readouterr().out
    scripted = member + "driver = 'scripted'\nscript = 's.toml'\n"
    show_plan(Page(), planned(tmp_path, TEAM + scripted + tasks("a")), BudgetTable())
    assert "\ntokens:" not in capsys.readouterr().out


def gated(folder: Path, gate: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a team of scripts whose work is merged if a gate passes; it is here."""
    project = folder / "project"
    project.mkdir()
    (project / "s.toml").write_text("[agents.ann]\n", encoding="utf-8")
    text = (
        f"{TEAM}[workspace]\nkind = 'worktree'\n[merge]\ngate = ['{gate}']\n"
        "[[member]]\nname = 'ann'\ndriver = 'scripted'\nscript = 's.toml'\n" + tasks("a")
    )
    (project / "TEAM.toml").write_text(text, encoding="utf-8")
    for name, value in (
        ("GIT_CONFIG_GLOBAL", os.devnull),
        ("HOME", str(folder)),
        ("BULLPEN_HOME", str(folder / "home")),
    ):
        monkeypatch.setenv(name, value)
    said = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-qb", "main"), ("add", "."), (*said, "commit", "-qm", "Begin")):
        subprocess.run(["git", "-C", project, *words], check=True, timeout=60)
    monkeypatch.chdir(project)
    return project


def test_a_gate_that_fails_on_the_target_is_warned_of_before_anybody_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = "test -f s.toml && echo No module named pytest && exit 1"
    project = gated(tmp_path, gate, monkeypatch)
    done = CliRunner().invoke(app, ["up", "--dry-run", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["warnings"][-1] == (
        "the gate fails on main now (No module named pytest); nothing will be merged until it"
        " passes."
    )
    told = ["git", "-C", str(project), "worktree", "list"]
    left = subprocess.run(told, check=True, capture_output=True, text=True, timeout=60).stdout
    assert len(left.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project"]


def test_a_gate_that_passes_is_no_reason_for_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated(tmp_path, "test -f s.toml", monkeypatch)
    assert "gate" not in CliRunner().invoke(app, ["up", "--dry-run"]).output


def test_a_gate_that_takes_too_long_is_stopped_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated(tmp_path, "sleep 600", monkeypatch)
    monkeypatch.setattr("bullpen.runs.dry_run.gate_warning", partial(gate_warning, seconds=1))
    said = CliRunner().invoke(app, ["up", "--dry-run"]).output
    assert "the gate was stopped after 1 s" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project"]


def test_the_gate_of_a_team_that_cannot_start_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = gated(tmp_path, f"touch {tmp_path}/ran", monkeypatch)
    (project / "s.toml").unlink()
    assert CliRunner().invoke(app, ["up", "--dry-run"]).exit_code == 2
    assert not (tmp_path / "ran").exists()


def test_a_command_shows_who_would_work_on_each_task_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"{TEAM}[[member]]\nname = 'ann'\ndriver = 'codex'\ncount = 2\n"
    (tmp_path / "TEAM.toml").write_text(text + tasks("a", "b", "c\nblocked_by = ['a', 'b']"))
    done = CliRunner().invoke(app, ["up", "--dry-run", "--shape", "auto", "--json"])
    rows = {row["subject"]: row for row in json.loads(done.stdout)["tasks"]}
    assert {name: row["shape"] for name, row in rows.items()} == {
        "Do a": "team", "Do b": "team", "Do c": "solo",
    }  # fmt: skip
    assert rows["Do c"]["because"] == "nothing can be done beside it"
    assert rows["Do c"]["member"] == "ann-1"


def test_evals_that_cannot_be_read_are_a_problem_of_the_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"{TEAM}[shape]\nevals = 'nowhere'\n[[member]]\nname = 'ann'\ndriver = 'codex'\n"
    (tmp_path / "TEAM.toml").write_text(text + tasks("a"))
    done = CliRunner().invoke(app, ["up", "--dry-run", "--json"])
    assert done.exit_code == 2
    problems = json.loads(done.stdout)["problems"]
    assert any("`evals` in `[shape]` cannot be used" in each for each in problems), problems
