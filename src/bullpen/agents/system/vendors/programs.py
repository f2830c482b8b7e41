"""Other vendors' programs as drivers: their commands, variables and libraries.

Nothing here starts a program or imports its library: `spawn` uses it to refuse what is missing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from bullpen.agents.system.vendors.acp_presets import GENERIC, PRESETS, Program
from bullpen.agents.system.vendors.obeyed_files import APPROVED_FILES, unapproved_files
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec

COMMAND = "command"
"""The option of a spec with a command: for the generic driver, or to replace a driver's own."""

CLAUDE_CODE = "claude-code"

READY_S = 120.0
"""How long an agent may take to start. On a busy machine even our own takes over 30 seconds."""


_CLAUDE_CODE = Program(
    CLAUDE_CODE,
    "Claude Code, through its own team files",
    ("claude",),
    "npm install -g @anthropic-ai/claude-code",
    "claude-code 2.1.41, 2.1.177 and 2.1.325",
    (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
        # Keep the user's opt-out of telemetry.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
    ),
    "mcp",
    ("mcp",),
    unasked_tools=("TaskStop",),
)

PROGRAMS: dict[str, Program] = {
    each.name: each for each in (_CLAUDE_CODE, *PRESETS.values(), GENERIC)
}
"""Every driver that is another vendor's program, by name."""


OWN_DRIVERS = ("native", "scripted")
"""The drivers that run no other vendor's program and come with Bullpen."""


def is_foreign(driver: str) -> bool:
    """Whether the driver is another vendor's program."""
    return driver in PROGRAMS


def command_of(spec: AgentSpec) -> tuple[str, ...]:
    """The command that starts the program of a spec. Raises Invalid if it has none."""
    given = spec.options.get(COMMAND)
    if not is_foreign(spec.driver):
        raise Invalid(
            f"The driver {spec.driver!r} does not start a program, so it takes no --command.",
            remedy="Leave --command out, or choose the driver acp.",
        )
    if given is None:
        given = PROGRAMS[spec.driver].command
    if not given or isinstance(given, str) or not all(isinstance(word, str) for word in given):
        raise Invalid(
            f"The driver {spec.driver!r} needs a command.",
            remedy="Name a program that speaks ACP, for example: --command 'myagent --acp'",
        )
    return tuple(given)


def is_team(command: Sequence[str]) -> bool:
    """Whether a command is `bullpen acp`: a team of its own, behind one agent.

    To that team, the gate of the agent is the person who answers: whoever speaks in it must not
    pass for the agent.
    """
    return os.path.basename(command[0]) == "bullpen" and list(command[1:2]) == ["acp"]


def found_at(command: tuple[str, ...], path: str | None, cwd: str = "/") -> str | None:
    """The path of a command, looked up in `path` or by its own path; None if not found."""
    first = command[0] if command else ""
    if os.path.dirname(first):
        first = os.path.join(cwd, first)
    return shutil.which(first, path=path)


def refuse_unapproved(spec: AgentSpec, title: str) -> None:
    """Refuse to start a program beside a file that it would obey and nobody approved.

    An agent could have written it since it was spawned. Raises Unavailable.
    """
    found = unapproved_files(spec.driver, Path(spec.cwd), spec.options.get(APPROVED_FILES))
    if found:
        raise Unavailable(
            f"{title} would obey files that were not there when the agent was spawned:"
            f" {', '.join(map(str, found[:5]))}.",
            remedy="Read them and remove them, or run `bullpen trust` and spawn the agent again.",
        )


def check_libraries(driver: str) -> None:
    """Check that a driver's libraries are installed. Raises Unavailable."""
    program = PROGRAMS[driver]
    missing = [name for name in program.libraries if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"The driver {driver!r} needs {' and '.join(missing)}, which"
            f" {'is' if len(missing) == 1 else 'are'} not installed.",
            remedy=f"Run: pip install 'bullpen[{program.extra}]'",
        )


def check_program(spec: AgentSpec, environ: Mapping[str, str]) -> None:
    """Refuse a program that is not installed or not named. Raises Invalid or Unavailable."""
    program = PROGRAMS[spec.driver]
    command = command_of(spec)
    check_libraries(spec.driver)
    if found_at(command, environ.get("PATH"), spec.cwd) is None:
        ours = COMMAND in spec.options or not program.install
        remedy = "Check --command." if ours else f"Install it: {program.install}"
        raise Unavailable(
            f"The driver {spec.driver!r} needs the program {command[0]!r}, which is not on the"
            " agent's PATH.",
            remedy=f"{remedy} Run `bullpen drivers` to see which drivers are installed.",
        )
