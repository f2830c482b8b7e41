"""The tool that runs shell commands."""

from __future__ import annotations

import secrets

import anyio
from pydantic import Field

from bullpen.agents.drivers.base import Desk
from bullpen.agents.tools.base import Tool, ToolInput
from bullpen.agents.tools.commands import Output, shell, started
from bullpen.agents.tools.jobs import start_job
from bullpen.errors import BullpenError

TIMEOUT_MS = 120_000
TIMEOUT_MS_MAX = 600_000

_GRACE_S = 1.0


class CommandFailed(BullpenError):
    """A command ended with another exit code than 0, or had to be ended."""


class BashInput(ToolInput):
    """Input of Bash."""

    command: str = Field(description="The command, for bash")
    timeout: float = Field(
        TIMEOUT_MS,
        gt=0,
        le=TIMEOUT_MS_MAX,
        description=f"Milliseconds after which it is ended; at most {TIMEOUT_MS_MAX}",
    )
    description: str | None = Field(None, description="What it does, in 5 to 10 words")
    run_in_background: bool = Field(
        False, description="Return at once; you are told when it has ended. It has no timeout"
    )


async def _bash(given: BashInput, desk: Desk) -> str:
    if given.run_in_background:
        return await start_job(given.command, desk)
    path = desk.folder / "output" / f"command-{secrets.token_hex(6)}.txt"
    with Output(path, desk) as output:
        code: int | None = None
        async with started(shell(given.command), desk, output.add) as running:
            with anyio.move_on_after(given.timeout / 1000):
                code = await running.finished()
            if code is None:
                await running.end(_GRACE_S)
        text = output.text().rstrip("\n")
    if code is None:
        raise CommandFailed(
            f"The command was ended: it took longer than {given.timeout:g} ms. "
            f"Its output until then:\n{text or '(none)'}",
            remedy="\nGive it a longer timeout, or run it in the background.",
        )
    if code != 0:
        raise CommandFailed(f"{_exit(code)}\n{text}".rstrip())
    return text or "(no output)"


def _exit(code: int) -> str:
    return f"Exit code {code}" if code > 0 else f"Ended by signal {-code}"


SHELL_TOOLS: tuple[Tool, ...] = (
    Tool(
        "Bash",
        "Run a shell command in your working directory and return what it prints. Each call is a "
        "new shell: a cd or a variable does not last. There is no terminal and no input. For "
        "what takes long, use run_in_background: you are told when it has ended.",
        BashInput,
        "run",
        _bash,
    ),
)
