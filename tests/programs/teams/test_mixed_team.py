"""The mixed team of the examples: real programs of several vendors reach one goal together."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.protocol.changes import Deliver, Event, PutMember, PutRequest
from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.read import TeamFile, read_team_file
from bullpen.runs.teamfile.tables import MemberTable
from bullpen.runs.up import bring_up
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.team.team import Team
from bullpen.testing.models import MockModels
from programs.mixed_brains import (
    DENIAL,
    FEEDBACK,
    FIRST_PLAN,
    FORBIDDEN,
    REVISED_PLAN,
    MixedBrains,
    stated_file,
)
from programs.real_programs import placed
from support.crews import eventually
from support.offices import Place
from support.runs.story import story_of

EXAMPLE = Path(__file__).parents[3] / "examples/mixed-team/TEAM.toml"
PROGRAMS = {"claude-code": "claude-code-2.1.325", "codex": "codex", "goose": "goose"}
LONGEST_S = 600.0


def at_the_mock(file: TeamFile, env: dict[str, dict[str, str]]) -> TeamFile:
    """The same team, whose programs get the variables that lead them to the mock."""

    def given(member: MemberTable) -> MemberTable:
        return member.model_copy(update={"env": sorted(env[member.driver])})

    return replace(file, teammates=tuple(given(member) for member in file.teammates))


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Run:
    """One run of the team, with what was seen of it."""

    def __init__(self, folder: Path, brains: MixedBrains, file: TeamFile) -> None:
        self.brains = brains
        self.file = file
        self.project = folder / "project"
        self.settings = Settings(home=folder / "bullpen", team=None, agent=LEAD)
        self.news: list[str] = []
        self.outcome: Outcome | None = None

    def watch(self, progress: Progress) -> None:
        self.news += progress.news

    async def up(self) -> None:
        self.outcome = await bring_up(
            self.file,
            cwd=str(self.project),
            timeout_s=LONGEST_S,
            settings=self.settings,
            watch=self.watch,
        )

    @asynccontextmanager
    async def explained(self, app: App) -> AsyncIterator[None]:
        """What fails in this block is reported with everything that is known about the run."""
        try:
            yield
        except Exception as error:
            told = [f"outcome: {self.outcome}", "news:", *self.news]
            error.add_note("\n".join([*told, *await story_of(app, self.file.team.name)]))
            raise

    async def kill_in_mid_task(self, app: App, name: str, together: set[str]) -> int:
        """kill -9 the process of a member when it and the others are at their tasks."""
        team = app.teams.open(self.file.team.name)

        async def all_at_work() -> bool:
            if not self.brains.in_mid_task.is_set():
                return self.outcome is not None
            tasks = (await team.tasks.list()).tasks
            return together <= {task.subject for task in tasks if task.status == "in_progress"}

        await eventually(all_at_work, within_s=LONGEST_S)
        assert self.outcome is None, "the run ended before the kill"
        _, agent = await team.agents.get(name)
        assert agent.process is not None
        assert agent.process.pid is not None
        os.kill(agent.process.pid, signal.SIGKILL)
        return agent.process.pid


async def test_a_mixed_team_finishes_ten_tasks_in_spite_of_a_kill(tmp_path: Path) -> None:
    """A native lead, Claude Code, Codex and Goose; a denial, a rejected plan, a kill -9."""
    example = read_team_file(EXAMPLE)
    assert {member.driver for member in example.teammates} == set(PROGRAMS)
    (tmp_path / "project").mkdir()
    brains = MixedBrains(
        example,
        tmp_path / "project",
        killed=("goose", "chars"),
        denied=("codex", "words"),
        held=("lines", "words"),
    )
    with MockModels(brains) as mock:
        places = {driver: placed(name, tmp_path, mock) for driver, name in PROGRAMS.items()}
        env = {driver: place.env for driver, place in places.items()}
        path = ":".join(values["PATH"] for values in env.values())
        merged = {key: value for values in env.values() for key, value in values.items()}
        run = Run(tmp_path, brains, at_the_mock(example, env))
        with environment({**merged, "PATH": path}):
            async with App(run.settings, os.environ) as app, run.explained(app):
                try:
                    async with anyio.create_task_group() as group:
                        group.start_soon(run.up)
                        pid = await run.kill_in_mid_task(
                            app, "goose", {"Count lines", "Count words", "Count characters"}
                        )
                    left = Place(app, tmp_path, "none").processes()
                finally:
                    await Place(app, tmp_path, "none").end_everything()
                assert left == [], "a program was left behind"
                await all_is_done(run, app.teams.open("mixed"), killed=pid)


async def all_is_done(run: Run, team: Team, *, killed: int) -> None:
    """Every task is done once, by its owner; the killed program was started again."""
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.tasks) == ("done", {"completed": 10})
    tasks = (await team.tasks.list()).tasks
    stated = run.file.tasks
    assert [task.subject for task in tasks] == [task.subject for task in stated]
    files = {task.id: run.project / stated_file(task) for task in stated}
    written = {id_: path.read_text(encoding="utf-8") for id_, path in files.items()}
    owners = {each.id: task.owner for each, task in zip(stated, tasks, strict=True)}
    assert written == {id_: f"{id_} by {owner}\n" for id_, owner in owners.items()}
    assert not (run.project / FORBIDDEN).exists(), "what was denied was not done"
    _, goose = await team.agents.get("goose")
    assert goose.launch == 2
    assert goose.process is not None
    assert goose.process.pid != killed
    the_log_tells_of_all(await team.events(), run)


def the_log_tells_of_all(events: list[Event], run: Run) -> None:
    """Every one of the things that happened is an event, in its order."""
    asked = requests_in(events)
    (denied,) = [each for each in asked if each["kind"] == "permission"]
    assert (denied["from"], denied["state"], denied["answeredBy"]) == ("codex", "denied", LEAD)
    assert FORBIDDEN in json.dumps(denied["subject"])
    assert DENIAL in json.dumps(denied["answer"])
    plans = [each for each in asked if each["kind"] == "plan"]
    assert [(each["from"], each["state"]) for each in plans] == [
        ("claude", "denied"),
        ("claude", "approved"),
    ]
    assert [FIRST_PLAN in str(plans[0]), FEEDBACK in str(plans[0])] == [True, True]
    assert REVISED_PLAN in str(plans[1])
    about_goose = [event.op for event in events if concerns(event, "goose")]
    for before, after in (("agent.turn", "agent.end"), ("agent.end", "agent.resume")):
        assert about_goose.index(before) < about_goose.index(after)
    assert "goose is lost" in str(next(event for event in events if event.op == "agent.end"))
    done = [event for event in events if event.op == "task.done"]
    assert len(done) == 10
    assert {event.actor for event in done} == {"claude", "codex", "goose"}
    sent = {
        (change.message.sender, change.to, change.message.text)
        for event in events
        for change in event.changes
        if isinstance(change, Deliver)
    }
    for word, peer in run.brains.words.items():
        sender = word.partition("of")[2]
        assert any(s == sender and to == peer and word in text for s, to, text in sent), word
    # Nobody is told anything twice; who ended before a message came never read it.
    heard = {
        word: run.brains.conversations[peer].count(word) for word, peer in run.brains.words.items()
    }
    assert set(heard.values()) <= {0, 1}, heard
    assert sum(heard.values()) >= 6, heard


def requests_in(events: list[Event]) -> list[dict[str, Any]]:
    """Every request as it was last, in the order in which they were made."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        for change in event.changes:
            if isinstance(change, PutRequest):
                found[change.request.id] = change.request.raw
    return list(found.values())


def concerns(event: Event, name: str) -> bool:
    return any(
        isinstance(change, PutMember) and change.member.name == name for change in event.changes
    )
