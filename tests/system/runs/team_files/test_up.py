"""`bullpen up` and `down`: all of a team or none of it, taken up again, followed to the end."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from bullpen.agents.system import processes
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError, Conflict, Invalid, Refused, StartFailed
from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.up import StartRequest, bring_up, start
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.team.team import Team
from support.crews import eventually
from support.offices import Place

HANG = """
[[agents.ann.turns]]
when = "task"
steps = [{hang = true}]
[[agents.ann.turns]]
"""
SCRIPT = """
[[agents.team-lead.turns]]
when = "mail"
contains = "the manual is checked"
steps = [{tool = "Finish", input = {summary = "It is written."}}, {say = "Finished."}]
[[agents.team-lead.turns]]
repeat = true
steps = [{say = "I wait."}]

[[agents.ann.turns]]
when = "task"
task = "Write"
steps = [
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {say = "the manual is written"},
]
[[agents.ann.turns]]
task = "Write"
steps = [
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {say = "the manual is written"},
]
[[agents.bob.turns]]
when = "task"
task = "Check"
steps = [
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {say = "the manual is checked"},
]
"""
HANGING = SCRIPT.replace("[[agents.ann.turns]]", HANG, 1)
DYING = """
[[agents.ann.turns]]
when = "start"
steps = [{kill = 9}]
"""
TASKS = """
[[task]]
id = "check"
subject = "Check the manual"
blocked_by = ["write"]
owner = "bob"
[[task]]
id = "write"
subject = "Write the manual"
owner = "ann"
"""

Typed = Callable[..., "subprocess.CompletedProcess[str]"]


def team_text(*, backend: str = "in-process", more: str = "", tasks: str = TASKS) -> str:
    member = f'driver = "scripted"\nscript = "script.toml"\nbackend = "{backend}"\n'
    members = "".join(
        f'[[member]]\nname = "{name}"\nmode = "bypassPermissions"\n{member}{more}'
        for name in (LEAD, "ann", "bob")
    )
    return f'[team]\nname = "docs"\ngoal = "Write the manual."\n{members}{tasks}'


class Written:
    """A folder with a team file and a script, and a home for its team."""

    def __init__(self, folder: Path, text: str, script: str) -> None:
        self.folder = folder
        self.path = folder / "TEAM.toml"
        self.settings = Settings(home=folder / "home", team=None, agent=LEAD)
        self.news: list[str] = []
        self.write(text)
        (folder / "script.toml").write_text(script, encoding="utf-8")

    def write(self, text: str) -> None:
        self.path.write_text(text, encoding="utf-8")

    @property
    def request(self) -> StartRequest:
        return StartRequest(read_team_file(self.path), str(self.folder), timeout_s=60)

    def watch(self, progress: Progress) -> None:
        self.news += progress.news

    async def up(self, *, again: bool = False) -> Outcome:
        return await bring_up(
            self.path, timeout_s=60, settings=self.settings, watch=self.watch, again=again
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[App, Team]]:
        async with App(self.settings, os.environ) as app:
            yield app, app.teams.open("docs")

    async def ends(self) -> dict[str, str | None]:
        async with self.opened() as (_, team):
            config = await team.agents.config()
            return {m.name: m.agent.end for m in config.roster if m.agent is not None}


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder; nothing of a team in it runs at the end."""
    yield tmp_path
    settings = Settings(home=tmp_path / "home", team=None, agent=LEAD)
    async with App(settings, os.environ) as app:
        await Place(app, tmp_path, f"bullpen-test-{secrets.token_hex(6)}").end_everything()


async def test_a_team_of_a_file_reaches_its_goal(folder: Path) -> None:
    written = Written(folder, team_text(), SCRIPT)
    outcome = await written.up()

    assert (outcome.status, outcome.code, outcome.summary) == ("done", 0, "It is written.")
    assert outcome.tasks == {"completed": 2}
    async with written.opened() as (_, team):
        tasks = (await team.tasks.list()).tasks
        assert [(t.subject, t.owner, t.blocked_by, t.blocks) for t in tasks] == [
            ("Write the manual", "ann", [], ["2"]),
            ("Check the manual", "bob", ["1"], []),
        ]
        added = [event for event in await team.events() if event.op == "task.add"]
        assert len(added) == 1, "nobody ever saw half of the tasks"


async def test_a_finished_team_runs_again_from_its_beginning(folder: Path) -> None:
    written = Written(folder, team_text(), SCRIPT)
    await written.up()
    async with written.opened() as (_, team):
        before = [event.encode() for event in await team.events()]
    (folder / "REVIEW.md").write_text("the old result")
    # The file may have changed since: it is a new beginning.
    written.write(team_text().replace("Check the manual", "Check the manual well"))
    again = await written.up(again=True)
    assert (again.status, again.summary, again.note) == ("done", "It is written.", None)
    async with written.opened() as (_, team):
        assert (await team.events())[0].seq == 1
        assert [t.subject for t in (await team.tasks.list()).tasks][1] == "Check the manual well"
        born = (await team.agents.config()).created_at
    assert (folder / "REVIEW.md").read_text() == "the old result"
    told = next(line for line in written.news if line.startswith("the log of the last run is in "))
    kept = [p for p in (folder / "home" / "agents").glob("docs.*") if p.name != f"docs.{born:.0f}"]
    assert str(kept[0] / "events.jsonl") in told
    rows = [json.loads(line) for line in (kept[0] / "events.jsonl").read_text().splitlines()]
    assert rows == before
    assert list(kept[0].glob("ann/*")), "its transcripts are still there"


async def test_only_a_finished_team_runs_again(folder: Path) -> None:
    written = Written(folder, team_text(), HANGING)
    with anyio.move_on_after(60) as scope:

        def watch(progress: Progress) -> None:
            if any(view.state == "working" for view in progress.agents):
                scope.cancel()

        await bring_up(written.path, settings=written.settings, watch=watch)
    async with written.opened() as (_, team):
        last = await team.last_seq()
    with pytest.raises(Refused) as error:
        await written.up(again=True)
    assert error.value.reason == "not_finished"
    assert error.value.remedy is not None
    for command in (f"up {written.path}", f"team delete {written.settings.team or 'docs'}"):
        assert f"bullpen {command}" in error.value.remedy
    async with written.opened() as (_, team):
        assert await team.last_seq() == last, "nothing was changed"


async def test_another_file_does_not_touch_the_team_of_that_name(folder: Path) -> None:
    written = Written(folder, team_text(), SCRIPT)
    await written.up()
    written.write(team_text(more='model = "other"\n'))

    with pytest.raises(Conflict, match="not created from"):
        await written.up()
    with pytest.raises(Conflict, match="not created from"):
        written.write(team_text(backend="subprocess"))
        await start(written.settings, written.request)
    async with written.opened() as (_, team):
        assert len((await team.tasks.list()).tasks) == 2


async def test_one_member_that_cannot_start_means_none_is_started(folder: Path) -> None:
    """It says who failed, and neither a team nor a process is left."""
    script = SCRIPT.replace("agents.bob", "agents.somebody")
    written = Written(folder, team_text(backend="subprocess"), script)
    with pytest.raises(StartFailed) as failed:
        await written.up()

    assert failed.value.message.startswith("'bob' could not be started")
    assert "Team 'docs' was not started" in failed.value.message
    async with written.opened() as (app, _):
        assert await app.teams.names() == []
        assert Place(app, folder, "none").processes() == []


async def test_what_cannot_be_had_is_told_with_file_and_member(folder: Path) -> None:
    written = Written(folder, team_text(more='role = "nobody"\n'), SCRIPT)
    with pytest.raises(BullpenError) as refused:
        await written.up()
    assert refused.value.message.startswith(f"{written.path}: member 'team-lead': ")
    async with written.opened() as (app, _):
        assert await app.teams.names() == []


async def test_a_member_for_other_machines_is_told_where_there_are_none(folder: Path) -> None:
    text = team_text(backend="subprocess")
    written = Written(folder, text.replace('name = "bob"\n', 'name = "bob"\non = "gpu"\n'), SCRIPT)
    with pytest.raises(Refused) as refused:
        await written.up()

    assert refused.value.reason == "one_machine"
    assert refused.value.message.startswith(f"{written.path}: member 'bob': ")
    async with written.opened() as (app, _):
        assert await app.teams.names() == []
        assert Place(app, folder, "none").processes() == []


async def test_a_member_that_is_killed_is_started_again_and_the_lead_is_told(
    folder: Path,
) -> None:
    # The turn that kills is played once: a script's place survives its process. Only she can do
    # the task, or bob may be handed it before she is back.
    written = Written(folder, team_text(backend="subprocess"), DYING + SCRIPT)
    text = written.path.read_text(encoding="utf-8")
    hers = 'name = "ann"\nprompt = "Begin."\nskills = ["writing"]\n'
    text = text.replace('name = "ann"\n', hers).replace(
        'id = "write"\n', 'id = "write"\nneeds = ["writing"]\n'
    )
    written.write(text)
    outcome = await written.up()

    assert outcome.status == "done", (outcome, written.news)
    async with written.opened() as (_, team):
        _, ann = await team.agents.get("ann")
        assert ann.launch == 2
        ops = [event.op for event in await team.events()]
        assert ops.index("agent.end") < ops.index("agent.resume")
        ended = next(event for event in await team.events() if event.op == "agent.end")
        assert "ann is lost" in str(ended.changes)


async def test_an_interrupted_team_goes_on_when_it_is_brought_up_again(folder: Path) -> None:
    written = Written(folder, team_text(backend="subprocess"), HANGING)
    async with anyio.create_task_group() as group:
        group.start_soon(written.up)
        happened = ("team-lead is ready", "ann took task #1")
        await eventually(
            lambda: all(any(words in line for line in written.news) for words in happened),
            within_s=60,
        )
        group.cancel_scope.cancel()
    # One that is stopped before it could say so itself counts as lost; both are taken up again.
    assert set((await written.ends()).values()) <= {"suspended", "lost"}

    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    outcome = await written.up()
    assert (outcome.status, outcome.tasks) == ("done", {"completed": 2}), written.news


async def test_a_team_that_is_interrupted_before_it_has_a_lead_leaves_nothing(
    folder: Path,
) -> None:
    written = Written(folder, team_text(backend="subprocess"), SCRIPT)
    async with anyio.create_task_group() as group:
        group.start_soon(written.up)
        await eventually((folder / "home/teams/docs/config.json").exists, within_s=60)
        group.cancel_scope.cancel()
    async with written.opened() as (app, _):
        assert await app.teams.names() == []
        assert Place(app, folder, "none").processes() == []


async def test_agents_inside_a_process_are_not_left_to_themselves(folder: Path) -> None:
    written = Written(folder, team_text(), SCRIPT)
    with pytest.raises(Invalid, match="In-process agents end with this process"):
        await start(written.settings, written.request)


@pytest.fixture
def bullpen(folder: Path) -> Typed:
    """Type a command in the folder, without a terminal."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "BULLPEN_HOME": str(folder / "home")}
        return subprocess.run(
            [sys.executable, "-m", "bullpen", *words],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    return run


async def test_detached_up_returns_down_stops_and_up_goes_on(bullpen: Typed, folder: Path) -> None:
    Written(folder, team_text(backend="subprocess"), HANGING)
    begun = bullpen("up", "TEAM.toml", "--detach", "--json")
    assert begun.returncode == 0, begun.stderr
    started = json.loads(begun.stdout)
    assert [each["name"] for each in started["started"]] == [LEAD, "ann", "bob"]
    pids = [each["place"]["pid"] for each in started["started"]]
    assert all(processes.look(pid) is not None for pid in pids)

    ended = bullpen("down", "TEAM.toml", "--json")
    assert ended.returncode == 0, ended.stderr
    assert {each["end"] for each in json.loads(ended.stdout)["stopped"]} == {"suspended"}
    alive = [row for pid in pids if (row := processes.look(pid)) is not None and row.runs]
    assert alive == []

    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    done = bullpen("up", "TEAM.toml", "--timeout", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "It is written." in done.stdout


async def test_a_wrong_file_and_a_wrong_team_are_refused_by_the_command(
    bullpen: Typed, folder: Path
) -> None:
    Written(folder, team_text(more='modl = "x"\n'), SCRIPT)
    wrong = bullpen("up", "TEAM.toml")
    assert wrong.returncode == 2
    assert "member 1 (team-lead): there is no key 'modl'" in wrong.stderr
    Written(folder, team_text(), SCRIPT)
    assert bullpen("up", "TEAM.toml", "-t", "other").returncode == 2
    assert bullpen("up", "NONE.toml").returncode == 3
    assert not (folder / "home" / "teams").exists()


async def test_without_a_terminal_what_nobody_would_answer_is_denied(
    bullpen: Typed, folder: Path
) -> None:
    """The default approver is a person; a file that names one means it."""
    asks = team_text(backend="subprocess").replace('"bypassPermissions"', '"default"')
    named = asks.replace('name = "bob"\n', 'name = "bob"\napprover = "human"\n')
    Written(folder, named, HANGING)
    begun = bullpen("up", "TEAM.toml", "--detach")
    assert begun.returncode == 0, begun.stderr
    assert "requests of team-lead, ann are denied" in begun.stderr
    shown = {
        name: json.loads(bullpen("policy", "show", name, "--json").stdout)["approver"]
        for name in ("ann", "bob")
    }
    assert shown == {"ann": "policy", "bob": "human"}
