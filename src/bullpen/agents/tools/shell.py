"""The tool that runs shell commands."""

from __future__ import annotations

import secrets

import anyio
from pydantic import Field

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.system.run_command import Output, shell, started
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.jobs import start_job
from bullpen.errors import BullpenError

TIMEOUT_MS = 120_000
TIMEOUT_MS_MAX = 600_000

_GRACE_S = 1.0


class CommandFailed(BullpenError):
    """A command exited with a code other than 0, or was killed at its timeout."""


class BashInput(ToolInput):
    """Input of Bash."""

    command: str = Field(description="The bash command")
    timeout: float = Field(
        TIMEOUT_MS,
        gt=0,
        le=TIMEOUT_MS_MAX,
        description=f"Milliseconds; default {TIMEOUT_MS}, at most {TIMEOUT_MS_MAX}",
    )
    description: str | None = Field(None, description="What it does, in 5 to 10 words")
    run_in_background: bool = Field(
        False, description="Return at once, without a timeout; a note tells you when it ends"
    )


async def ran(command: str, desk: Desk, seconds: float) -> tuple[int | None, str]:
    """Run a command for at most so long; its exit code, None if it was killed, and its output."""
    path = desk.folder / "output" / f"command-{secrets.token_hex(6)}.txt"
    with Output(path, desk) as output:
        code: int | None = None
        async with started(shell(command), desk, output.add) as running:
            with anyio.move_on_after(seconds):
                code = await running.finished()
            if code is None:
                await running.end(_GRACE_S)
        return code, output.text().rstrip("\n")


async def _bash(given: BashInput, desk: Desk) -> str:
    """Run a command in your working directory. Each call is a new shell: cd and variables do not
    carry over. There is no terminal and no input.
    """
    if given.run_in_background:
        return await start_job(given.command, desk)
    code, text = await ran(given.command, desk, given.timeout / 1000)
    if code is None:
        raise CommandFailed(
            f"The command timed out after {given.timeout:g} ms and was killed. "
            f"Its output until then:\n{text or '(none)'}",
            remedy="\nSet a longer timeout, or run the command in the background.",
        )
    if code != 0:
        ended = f"Exit code {code}" if code > 0 else f"Killed by signal {-code}"
        raise CommandFailed(f"{ended}\n{text}".rstrip())
    return text or "(no output)"


SHELL_TOOLS: tuple[Tool[Desk], ...] = (documented("Bash", BashInput, "run", _bash),)
