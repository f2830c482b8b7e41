"""The parts of the claude-code driver: its record, its hook, its memory, its start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.drivers.claude_code import driver as drivers
from bullpen.agents.drivers.claude_code import hook
from bullpen.agents.drivers.claude_code.driver import ClaudeCodeDriver
from bullpen.agents.drivers.claude_code.hooks import HookSocket
from bullpen.errors import Unavailable
from bullpen.testing.desks import RecordingDesk


def ask(socket: str) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-I", "-S", hook.__file__, socket]
    return subprocess.run(words, input=b"{}", capture_output=True, timeout=60, check=False)


def test_without_a_runner_a_call_is_blocked(tmp_path: Path) -> None:
    done = ask(str(tmp_path / "nobody"))
    assert done.returncode == 2
    assert b"Cannot reach the runner" in done.stderr


async def test_a_question_whose_turn_is_over_blocks_the_call() -> None:
    import anyio
    from anyio import to_thread

    heard = anyio.Event()

    async def never(asked: dict[str, Any]) -> dict[str, Any]:
        heard.set()
        await anyio.sleep_forever()
        return {}

    post = HookSocket(never)
    await post.open()
    socket = post.settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].split()[-1]
    done: list[subprocess.CompletedProcess[bytes]] = []

    async def run() -> None:
        done.append(await to_thread.run_sync(ask, socket))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await heard.wait()
        await post.hang_up()
    await post.aclose()
    assert done[0].returncode == 2
    assert not Path(socket).parent.exists()


async def test_a_program_that_does_not_prove_that_it_hears_is_not_ready(
    desk: RecordingDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-2.1g: it is ready when its hooks ask, its tools are listed and its inbox was read."""
    monkeypatch.setattr(drivers, "_READY_S", 1.0)
    driver = ClaudeCodeDriver(desk.spec, desk.env)
    with pytest.raises(Unavailable) as caught:
        await driver.start(desk)
    assert "read its inbox" in caught.value.message
    assert "run its hooks" in caught.value.message
    assert "list the team tools" in caught.value.message
    assert "Log in first" in caught.value.message
