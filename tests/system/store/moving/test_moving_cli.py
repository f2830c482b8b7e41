"""`bullpen team move`, as a person types it and as a program reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner, Result

from bullpen.app.app import open_app
from bullpen.app.settings import settings_from
from bullpen.app.stores import open_teams
from bullpen.doors.cli.main import app
from bullpen.protocol.clock import now_ms
from bullpen.protocol.presence import Presence
from bullpen.store.files.store import FileStore
from bullpen.team.team import Teams

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("BULLPEN_TEAM", "BULLPEN_AGENT", "BULLPEN_DEBUG", "BULLPEN_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run() -> Run:
    """Run `bullpen team move`."""
    return lambda *words: CliRunner().invoke(app, ["team", "move", *words])


@pytest.fixture
def alpha(home: Path) -> None:
    async def make() -> None:
        async with open_teams(settings_from({}, home=home)) as teams:
            await teams.create("alpha")
            team = teams.open("alpha")
            await team.roster.join("ann", by="team-lead")
            await team.tasks.add("First", by="team-lead")
            await team.mailbox.send("ann", "Hello", sender="team-lead")

    anyio.run(make)


def names(home: Path) -> list[str]:
    async def look() -> list[str]:
        async with Teams(FileStore(home)) as teams:
            return await teams.names()

    return anyio.run(look)


def squeezed(text: str) -> str:
    """A text that was broken into lines, on one."""
    return " ".join(text.split())


@pytest.mark.usefixtures("alpha")
def test_a_person_is_told_every_stage_and_what_stays(run: Run, home: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    result = run("alpha", "--to", f"files:{there}")
    assert (result.exit_code, result.stderr) == (0, "")
    said = squeezed(result.stdout)
    assert f"Moved team alpha to files:{there}" in said
    assert "all messages: equal. Opened the team there. Removed it here." in said
    assert "its agents' transcripts stay in this home" in said
    assert (names(home), names(there)) == ([], ["alpha"])


@pytest.mark.usefixtures("alpha")
def test_a_program_reads_what_was_compared(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("alpha", "--to", "files:there", "--keep", "--json")
    told = json.loads(result.stdout)
    assert told.pop("digest")
    assert told == {
        "schema": "bullpen/team-moved/1",
        "name": "alpha",
        "to": f"files:{tmp_path / 'there'}",
        "events": 5,
        "messages": 1,
        "kept": True,
    }
    assert (names(home), names(tmp_path / "there")) == (["alpha"], ["alpha"])


@pytest.mark.usefixtures("alpha")
def test_saying_it_twice_is_fine(run: Run, home: Path, tmp_path: Path) -> None:
    words = ("alpha", "--to", f"files:{tmp_path / 'there'}", "--json")
    first, again = run(*words), run(*words)
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert json.loads(again.stdout) == json.loads(first.stdout)


@pytest.mark.usefixtures("alpha")
def test_a_team_at_work_is_refused_with_what_to_do(run: Run, home: Path, tmp_path: Path) -> None:
    async def beat() -> None:
        now = now_ms()
        beat = Presence.new(agent="ann", since_ms=now, beat_ms=now, ttl_ms=60_000)
        await FileStore(home).beat("alpha", beat)

    anyio.run(beat)
    result = run("alpha", "--to", f"files:{tmp_path / 'there'}")
    assert result.exit_code == 2
    assert "bullpen stop --all -t alpha" in squeezed(result.stderr)
    assert (names(home), names(tmp_path / "there")) == (["alpha"], [])


def test_a_team_that_is_not_there_is_not_found(run: Run, tmp_path: Path) -> None:
    assert run("beta", "--to", f"files:{tmp_path / 'there'}").exit_code == 3


@pytest.mark.usefixtures("alpha")
def test_a_closed_copy_is_shown_examined_and_deleted(run: Run, home: Path, tmp_path: Path) -> None:
    assert run("alpha", "--to", f"files:{tmp_path / 'there'}", "--keep").exit_code == 0
    for words in (["team", "show", "alpha"], ["doctor", "--all"], ["inbox", "ann", "-t", "alpha"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    refused = CliRunner().invoke(app, ["task", "add", "More", "-t", "alpha"])
    assert refused.exit_code == 2
    assert f"files:{tmp_path / 'there'}" in squeezed(refused.stderr)

    async def delete() -> bool:
        async with open_app(settings_from({}, home=home)) as bullpen_app:
            return await bullpen_app.delete_team("alpha", by="team-lead")

    assert anyio.run(delete)
    assert names(home) == []
