"""The commands that a person set to run after an edit: formatters and linters of the project.

They run as the agent's own: the gate judges each as a call of Bash, and its sandbox holds it. A
linter may run code that the agent wrote.
"""

from __future__ import annotations

import fnmatch
import os
import shlex
from collections.abc import Sequence

from anyio import to_thread

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.tools.files.file_content import find, known
from bullpen.agents.tools.files.safe_open import absolute, real_path
from bullpen.agents.tools.shell import ran
from bullpen.errors import BullpenError, Refused

COMMAND_S = 30.0
"""How long one command may take."""

_OUTPUT_CHARS_MAX = 4_000


async def after_edit(said: str, paths: Sequence[str], desk: Desk) -> str:
    """The result of an edit, with what the commands for these files said about them."""
    lines = [said]
    for named in paths if desk.spec.after_edit else ():
        path, real = absolute(named, desk.spec.cwd), real_path(named, desk.spec.cwd)
        before = await _digest(real)
        lines += [await _run(command, desk) for command in _commands(path, desk)]
        after = await _digest(real)
        if before is not None and after is not None and after != before:
            # The agent is told that the file is not what it wrote.
            known(desk)[real] = after
            lines.append(f"{named} was changed by this. Read it again before you edit it.")
    return "\n".join(lines)


def _commands(path: str, desk: Desk) -> list[str]:
    """The commands for a file, with its path in them."""
    inside = os.path.relpath(path, desk.spec.cwd)
    return [
        command.replace("{file}", shlex.quote(path))
        for pattern, commands in (desk.spec.after_edit or {}).items()
        if fnmatch.fnmatch(os.path.basename(path), pattern) or fnmatch.fnmatch(inside, pattern)
        for command in commands
    ]


async def _run(command: str, desk: Desk) -> str:
    try:
        permitted = await desk.permit(Call("Bash", {"command": command}, "run"))
        code, output = await ran(str(permitted.get("command", command)), desk, COMMAND_S)
    except Refused as error:
        return f"After the edit, `{command}` was not run: {error.message}"
    except BullpenError as error:
        return f"After the edit, `{command}` failed: {error}"
    ended = f"did not end in {COMMAND_S:g} s" if code is None else f"exit code {code}"
    if code == 0:
        ended = "passed"
    if len(output) > _OUTPUT_CHARS_MAX:
        output = f"{output[:_OUTPUT_CHARS_MAX]}\n[… cut …]"
    return f"After the edit, `{command}`: {ended}\n{output}".rstrip()


async def _digest(real: str) -> str | None:
    try:
        found = await to_thread.run_sync(find, real)
    except BullpenError:
        return None
    return None if found is None else found.digest
