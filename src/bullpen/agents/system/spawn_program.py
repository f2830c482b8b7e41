"""Start another vendor's program in its own process group, and write its log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import process_owners
from bullpen.agents.system.program_sandbox import ProgramSandbox
from bullpen.agents.system.vendors.programs import found_at, is_team
from bullpen.errors import Unavailable

_LINE_BYTES_MAX = 64 * 1024


async def spawn_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    streams: tuple[int, int, int],
    remedy: str = "",
    line_bytes_max: int = _LINE_BYTES_MAX,
    sandbox: ProgramSandbox | None = None,
) -> asyncio.subprocess.Process:
    """Start a program, perhaps in a sandbox, as the leader of its own process group.

    It belongs to the launch of its agent, unless it is a team of its own. Raises Unavailable.
    """
    nonce = env.get(NONCE)
    if nonce is not None and is_team(command):
        nonce, env = process_owners.NOBODY, {key: env[key] for key in env if key != NONCE}
    path = found_at(tuple(command), env.get("PATH", ""), cwd)
    if path is None:
        missing = f"There is no program {command[0]!r} on the agent's PATH."
        raise Unavailable(missing, remedy=remedy)
    stdin, stdout, stderr = streams
    words = [path, *command[1:]]
    fds: tuple[int, ...] = ()
    try:
        if sandbox is not None:
            words, env = await sandbox.command(words, env)
            fds = sandbox.fds
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            limit=line_bytes_max,
            pass_fds=fds,
        )
    except BaseException as error:
        if sandbox is not None:
            await sandbox.aclose()
        if not isinstance(error, OSError):
            raise
        raise Unavailable(
            f"Cannot start {path}: {error.strerror}.",
            remedy="Check that the program is installed and may be run.",
        ) from error
    if nonce is not None:
        process_owners.record(process.pid, nonce)
    if sandbox is not None:
        sandbox.has_started()
    return process


def append_to_log(log: Path, text: str, *, bytes_max: int) -> None:
    """Append to a log, or start it over if it is too long. Ignores a full disk."""
    with suppress(OSError):
        too_long = log.exists() and log.stat().st_size > bytes_max
        with log.open("w" if too_long else "a", encoding="utf-8") as file:
            file.write(text)
