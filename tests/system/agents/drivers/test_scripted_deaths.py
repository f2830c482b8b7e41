"""Scripted agents that die in their turns, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams

# One process of ann: a turn with the mail that nobody has seen, as a runner would give it.
PROCESS = """
import sys, anyio
from pathlib import Path
from bullpen.agents.drivers.scripted.driver import Scripted
from bullpen.protocol.agent import AgentSpec
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team
from bullpen.testing.desks import RecordingDesk

async def main(home):
    store = FileStore(home)
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd=str(home), script="s.toml")
    desk = RecordingDesk(Team(store, "alpha"), "ann", home / "ann", spec)
    driver = Scripted(spec)
    await driver.start(desk)
    result = await driver.turn(await desk.begin(), desk)
    print(result.text)
    await store.aclose()

anyio.run(main, Path(sys.argv[1]))
"""


def run(home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROCESS, str(home)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.fixture
async def team(tmp_path: Path) -> Team:
    teams = Teams(FileStore(tmp_path))
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    return team


async def states(team: Team) -> list[str]:
    return [entry.state for entry in (await team.mailbox.read("ann", history=True)).entries]


def script(home: Path, *turns: str) -> None:
    text = "\n".join(f"[[agents.ann.turns]]\nsteps = [{steps}]" for steps in turns)
    (home / "s.toml").write_text(text, encoding="utf-8")


async def test_one_killed_between_injected_and_seen_is_given_the_message_again(
    team: Team, tmp_path: Path
) -> None:
    """R-2.1b."""
    script(tmp_path, "{kill = 9}", '{say = "I know."}')
    await team.mailbox.send("ann", "The key is under the mat.", sender=LEAD)
    assert run(tmp_path).returncode == -signal.SIGKILL
    assert await states(team) == ["injected"]
    again = run(tmp_path)
    assert (again.returncode, again.stdout) == (0, "I know.\n"), again.stderr
    assert await states(team) == ["seen"]


async def test_one_killed_after_it_answered_has_seen_the_message(
    team: Team, tmp_path: Path
) -> None:
    script(tmp_path, '{say = "I know."}, {kill = 15}')
    await team.mailbox.send("ann", "The key is under the mat.", sender=LEAD)
    assert run(tmp_path).returncode == -signal.SIGTERM
    assert await states(team) == ["seen"]


async def test_one_that_exits_has_the_code_of_the_script(team: Team, tmp_path: Path) -> None:
    script(tmp_path, "{exit = 3}", '{say = "on"}')
    assert run(tmp_path).returncode == 3
    assert run(tmp_path).stdout == "on\n"
