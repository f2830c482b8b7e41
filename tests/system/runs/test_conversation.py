"""A run as a conversation: the lead waits for words until a person ends the run, or it does."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.start import Spawned
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.errors import BullpenError, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.runs.goal import Goal, resume_goal, run_goal
from bullpen.runs.start_members import MemberStarts
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.up import StartRequest, TeamStart, bring_up, start
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.team.agents.operations import Agents
from support.offices import Place

TEAM = "talk"
SCRIPT = """
[[agents.team-lead.turns]]
when = "mail"
contains = "Begin"
steps = [
  {tool = "TaskCreate", input = {subject = "Write the parser", description = "p"}},
  {say = "I made a task. Which grammar?"},
]
[[agents.team-lead.turns]]
when = "mail"
contains = "grammar B"
steps = [{say = "Then I take grammar B."}]
[[agents.team-lead.turns]]
when = "mail"
contains = "enough"
steps = [
  {tool = "Finish", input = {summary = "It is planned.", override_reason = "you said enough"}},
  {say = "Finished."},
]
[[agents.team-lead.turns]]
repeat = true
steps = [{say = "Nobody said anything."}]
"""


class Talk:
    """A run, and what a person says while it goes on."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(home=folder / "home", team=TEAM, agent=LEAD)
        script = folder / "script.toml"
        script.write_text(SCRIPT, encoding="utf-8")
        lead = SpawnRequest(
            cwd=str(folder),
            driver="scripted",
            backend="in-process",
            script=str(script),
            mode="bypassPermissions",
        )
        self.goal = Goal("Begin", lead, team=TEAM, timeout_s=60, conversation=True)
        self.news: list[str] = []

    def watch(self, progress: Progress) -> None:
        self.news += progress.news

    async def with_person(
        self,
        run: Callable[[], Awaitable[Outcome]],
        says: Callable[[PersonActions], Awaitable[None]],
    ) -> Outcome:
        """Run, while somebody talks from another connection to the store."""
        outcomes: list[Outcome] = []
        async with App(self.settings, os.environ) as app, anyio.create_task_group() as group:

            async def go() -> None:
                outcomes.append(await run())

            group.start_soon(go)
            await says(PersonActions(app, TEAM))
        return outcomes[0]

    async def turns(self) -> list[str]:
        """What the lead was given in each of its turns so far, and said."""
        async with App(self.settings, os.environ) as app:
            path = await app.supervisor(TEAM).transcript(LEAD)
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    async def until_said(self, text: str) -> None:
        with anyio.fail_after(60):
            while True:
                if any('"kind":"end"' in row and text in row for row in await self._rows()):
                    return
                await anyio.sleep(0.05)

    async def _rows(self) -> list[str]:
        try:
            return await self.turns()
        except Exception:
            # The team or its lead is not there yet.
            return []


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    """A run in a folder; nothing of it is left at the end."""
    talk = Talk(tmp_path)
    yield talk
    async with App(talk.settings, os.environ) as app:
        await Place(app, tmp_path, f"bullpen-test-{secrets.token_hex(6)}").end_everything()


async def test_the_lead_answers_again_and_again_until_the_person_ends_the_run(talk: Talk) -> None:
    async def says(person: PersonActions) -> None:
        await talk.until_said("Which grammar?")
        await person.send(LEAD, "grammar B, please")
        await talk.until_said("Then I take grammar B.")
        await person.finish()

    outcome = await talk.with_person(
        lambda: run_goal(talk.goal, settings=talk.settings, watch=talk.watch), says
    )
    assert (outcome.status, outcome.code) == ("ended", 0)
    assert outcome.summary == "", "the last words of the lead sum up nothing"
    assert outcome.cause == "1 task is open: #1."
    assert "you ended the run" in talk.news
    rows = await talk.turns()
    assert not any("Everyone is idle" in row for row in rows), "it waits, and is not reminded"
    async with App(talk.settings, os.environ) as app:
        _, lead = await app.teams.open(TEAM).agents.get(LEAD)
        assert lead.end == "stopped"


async def test_the_lead_can_end_the_conversation(talk: Talk) -> None:
    async def says(person: PersonActions) -> None:
        await talk.until_said("Which grammar?")
        await person.send(LEAD, "that is enough")

    outcome = await talk.with_person(lambda: run_goal(talk.goal, settings=talk.settings), says)
    assert (outcome.status, outcome.summary) == ("unfinished", "It is planned.")
    assert outcome.cause == "Tasks stay open: you said enough"


async def test_a_run_that_nobody_talks_in_ends_by_itself(talk: Talk) -> None:
    goal = replace(talk.goal, conversation=False, until=None)
    outcome = await run_goal(goal, settings=talk.settings)
    assert outcome.status == "unfinished"
    assert outcome.cause == "everyone was idle, with open tasks: #1"
    assert sum('"kind":"turn"' in row for row in await talk.turns()) == 3, "it was reminded twice"


async def test_a_run_that_a_person_ended_goes_on_with_a_new_goal_only(talk: Talk) -> None:
    async def ends(person: PersonActions) -> None:
        await talk.until_said("Which grammar?")
        await person.finish("Enough.")

    await talk.with_person(lambda: run_goal(talk.goal, settings=talk.settings), ends)
    again = await resume_goal(talk.settings, TEAM, talk.watch, timeout_s=60)
    assert (again.status, again.summary) == ("ended", "Enough.")

    async def says(person: PersonActions) -> None:
        await person.send(LEAD, "grammar B")
        await talk.until_said("Then I take grammar B.")
        await person.finish("Now it is.")

    goal = replace(talk.goal, text="Go on")
    more = await talk.with_person(lambda: run_goal(goal, settings=talk.settings), says)
    assert more.summary == "Now it is."


async def test_a_store_that_is_away_for_a_moment_does_not_keep_a_run_from_its_conversation(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    converse = Agents.converse
    refused: list[str] = []

    async def refuse_once(self: Agents, conversation: bool, *, by: str) -> None:
        if not refused:
            refused.append(by)
            raise Unavailable("The store is away.", remedy="Wait until it is back.")
        await converse(self, conversation, by=by)

    monkeypatch.setattr(Agents, "converse", refuse_once)

    async def says(person: PersonActions) -> None:
        await talk.until_said("Which grammar?")
        await person.finish("Enough.")

    outcome = await talk.with_person(lambda: run_goal(talk.goal, settings=talk.settings), says)
    assert (refused, outcome.summary) == ([LEAD], "Enough.")


LED = """
[team]
name = "talk"
goal = "Begin"

[[member]]
name = "team-lead"
driver = "scripted"
script = "script.toml"
backend = "subprocess"
"""


async def test_the_lead_of_a_team_that_is_left_to_itself_waits_for_nobodys_words(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(self: TeamStart, starts: MemberStarts) -> list[Spawned]:
        return []

    monkeypatch.setattr(TeamStart, "begin", nobody)
    (tmp_path / "TEAM.toml").write_text(LED, encoding="utf-8")
    request = StartRequest(read_team_file(tmp_path / "TEAM.toml"), str(tmp_path), attended=False)
    async with App(talk.settings, os.environ) as app:
        agents = app.teams.open(TEAM).agents
        await start(talk.settings, request)
        await agents.converse(True, by=LEAD)
        await start(talk.settings, request)
        assert (await agents.config()).facts.conversation is None


LEADERLESS = """
[team]
name = "talk"

[[member]]
name = "ann"
driver = "scripted"
script = "script.toml"
backend = "in-process"
mode = "bypassPermissions"

[[task]]
id = "parser"
subject = "Write the parser"
"""


HANGS_ONCE = """
[[agents.ann.turns]]
when = "task"
steps = [{hang = true}]
[[agents.ann.turns]]
steps = [
  {tool = "TaskUpdate", input = {taskId = "1", status = "completed"}},
  {say = "Done."},
]
"""


async def test_a_person_ends_a_team_without_a_lead_and_it_continues_when_it_is_brought_up(
    talk: Talk, tmp_path: Path
) -> None:
    (tmp_path / "TEAM.toml").write_text(LEADERLESS, encoding="utf-8")
    (tmp_path / "script.toml").write_text(HANGS_ONCE, encoding="utf-8")
    up = partial(bring_up, tmp_path / "TEAM.toml", timeout_s=60, settings=talk.settings)

    async def ends(person: PersonActions) -> None:
        await until_claimed(talk.settings)
        await person.finish()

    outcome = await talk.with_person(up, ends)
    assert (outcome.status, outcome.cause) == ("ended", "1 task is open: #1.")
    # That end was of the run before.
    again = await up()
    assert (again.status, again.tasks) == ("done", {"completed": 1})
    assert again.cause is None


async def until_claimed(settings: Settings) -> None:
    """Wait until somebody works on the task."""
    async with App(settings, os.environ) as app:
        with anyio.fail_after(60):
            while True:
                with suppress(BullpenError):
                    if (await app.teams.open(TEAM).tasks.get("1")).status == "in_progress":
                        return
                await anyio.sleep(0.05)
