"""A person at a real terminal starts a run, talks with its lead, and ends it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from bullpen.agents.system import processes
from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.testing.models import Fault, MockModels, ModelRequest, Reply
from support.doors.real_terminal import RealTerminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

ANSWERS = {
    "Count the words": "I can count them. In which file?",
    "In the manual": "The manual has forty words.",
    "And the readme?": "The readme has twelve.",
}


@pytest.fixture
def terminal() -> Iterator[RealTerminal]:
    """A terminal that ends with the test."""
    folder = Path(tempfile.mkdtemp(prefix="bp-", dir="/tmp"))
    opened = RealTerminal(folder)
    yield opened
    opened.close()
    shutil.rmtree(folder)


def answers(request: ModelRequest) -> Reply | Fault:
    """What the lead says to the person's last words."""
    return Reply(next((said for asked, said in ANSWERS.items() if asked in request.given), "So?"))


def lead_of(home: Path) -> AgentFacts:
    """What the records say of the lead."""

    async def look() -> AgentFacts:
        async with open_teams(Settings(home=home, team=None, agent=LEAD)) as teams:
            return (await teams.open("words").agents.get(LEAD))[1]

    return anyio.run(look)


def begun(terminal: RealTerminal, folder: Path, models: MockModels, *more: str) -> None:
    """Start a run of the native driver in a terminal."""
    words = ("run", "Count the words", "-t", "words", *more)
    terminal.start(*words, cwd=folder, env={"BULLPEN_HOME": str(folder / "home"), **models.env})


def test_a_person_talks_with_the_lead_and_ends_the_run(
    tmp_path: Path, terminal: RealTerminal
) -> None:
    with MockModels(answers, strict=True) as models:
        begun(terminal, tmp_path, models)
        terminal.until("In which file?")
        terminal.say("In the manual")
        terminal.until("forty words")
        terminal.say("And the readme?")
        terminal.until("has twelve")
        terminal.say("/finish I know enough")
        ended = terminal.until("ended with")
    assert "ended with 0" in ended
    assert "Done in" in ended
    assert "I know enough" in ended
    assert [request.agent for request in models.requests] == [LEAD] * 3, "nobody reminded it"
    lead = lead_of(tmp_path / "home")
    assert (lead.phase, lead.end) == ("ended", "stopped")


def test_a_wrong_key_closes_the_screen_and_names_what_to_do(
    tmp_path: Path, terminal: RealTerminal
) -> None:
    with MockModels(lambda _: Fault(401, "authentication_error", "invalid x-api-key")) as models:
        begun(terminal, tmp_path, models)
        ended = terminal.until("ended with")
    assert "ended with 1" in ended
    assert "invalid x-api-key" in ended
    assert "ANTHROPIC_API_KEY" in ended
    assert len(models.requests) == 1, "a wrong key is not tried again"


def test_a_terminated_run_stops_its_agents_and_leaves_the_terminal_as_it_was(
    tmp_path: Path, terminal: RealTerminal
) -> None:
    with MockModels(answers) as models:
        begun(terminal, tmp_path, models, "--backend", "subprocess")
        terminal.until("In which file?")
        place = lead_of(tmp_path / "home").process
        os.kill(terminal.pid, signal.SIGTERM)
        ended = terminal.until(lambda shown: "ended with" in shown and "icanon" in shown)
    assert "ended with 130" in ended
    assert "bullpen run -t words" in ended
    settings = ended.split()
    assert {"icanon", "echo", "isig"} <= set(settings), "the terminal is as it was"
    lead = lead_of(tmp_path / "home")
    assert (lead.phase, lead.end) == ("ended", "suspended")
    assert place is not None
    assert place.pid is not None
    row = processes.look(place.pid)
    assert row is None or not row.runs
