"""However a command that is closed in ends, nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.agents.tools.jobs import end_jobs
from bullpen.agents.tools.toolbox import call, toolbox

if TYPE_CHECKING:
    from .conftest import Closed


def _running(mark: str) -> list[int]:
    shown = subprocess.run(
        ["ps", "-eo", "pid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in shown.stdout.splitlines() if mark in line]
    return [int(pid) for pid, state, _ in rows if not state.startswith("Z")]


@pytest.fixture
def mark() -> str:
    return f"9999.{secrets.randbelow(10**9)}"


def _stubborn(mark: str) -> str:
    """Ignores what asks it to end, with a child in another session."""
    return f"trap '' TERM; setsid sleep {mark} & echo begun > begun; while true; do sleep 0.1; done"


async def _begun(closed: Closed) -> None:
    with anyio.fail_after(30):
        while not (closed.project / "begun").exists():  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def test_a_timeout_ends_all_of_it(closed: Closed, mark: str) -> None:
    text = await closed.fails(f"echo said; {_stubborn(mark)}", timeout=1500)
    assert "timed out after 1500 ms" in text
    assert "said" in text
    assert _running(mark) == []


async def test_a_command_is_asked_to_end_before_it_is_killed(closed: Closed) -> None:
    text = await closed.fails(
        "trap 'sleep 0.3; echo bye; exit 0' TERM; sleep 600 & wait", timeout=1500
    )
    assert "bye" in text


async def test_cancelling_ends_all_of_it(closed: Closed, mark: str) -> None:
    task = asyncio.create_task(closed.call(_stubborn(mark)))
    await _begun(closed)
    task.cancel()
    with pytest.raises(asyncio.CancelledError), anyio.fail_after(120):
        await task
    assert _running(mark) == []


async def test_what_a_command_leaves_behind_ends_with_it(closed: Closed, mark: str) -> None:
    assert await closed.ok(f"setsid sleep {mark} & echo done") == "done"
    with anyio.fail_after(45):
        while _running(mark):  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def test_a_background_job_is_closed_in_too(closed: Closed, mark: str) -> None:
    text = await closed.ok(
        f"cat {closed.secret}; touch {closed.outside}/new; {_stubborn(mark)}",
        run_in_background=True,
    )
    job = text.split("ID ")[1].split(".")[0]
    await _begun(closed)
    shown, _ = await call(toolbox(closed.desk), "BashOutput", {"bash_id": job}, closed.desk)
    assert "No such file" in shown
    assert not (closed.outside / "new").exists()
    assert _running(mark) != []
    await end_jobs(closed.desk)
    assert _running(mark) == []


async def test_it_ends_when_its_agent_is_killed(closed: Closed, mark: str) -> None:
    """R-3.1: kill -9 of the process that started it leaves nothing running."""
    program = Path(__file__).parent / "start_closed.py"
    words = [sys.executable, str(program), str(closed.project), _stubborn(mark)]
    agent = await anyio.open_process(words, env=dict(os.environ))
    await _begun(closed)
    assert _running(f"sleep {mark}") != []
    os.kill(agent.pid, signal.SIGKILL)
    await agent.wait()
    with anyio.fail_after(45):
        while _running(f"sleep {mark}"):  # noqa: ASYNC110
            await anyio.sleep(0.02)
    await agent.aclose()
