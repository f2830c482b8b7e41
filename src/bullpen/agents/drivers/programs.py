"""Programs of other vendors as drivers: how each is found and what it is given, before it runs.

Nothing here starts a program or imports a library for one: `spawn` refuses by it what is missing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from bullpen.agents.drivers.acp.presets import GENERIC, PRESETS
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec

COMMAND = "command"
"""The option of a spec that holds the words of a command: of the generic driver, or instead of
the one that a driver is known by."""

CLAUDE_CODE = "claude-code"

READY_S = 120.0
"""How long a program of another vendor may take to get ready: on a busy machine some do."""

OUR_READY_S = 30.0
"""The same for an agent of our own."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be a driver."""

    title: str
    command: tuple[str, ...]
    # Where to get it, for the error that it is missing.
    install: str
    observed: str
    # Names of variables that it gets of the environment, beside those that every agent gets.
    env: tuple[str, ...]
    # The extra of this package that its driver needs, and the libraries in it.
    extra: str
    libraries: tuple[str, ...]
    # Whether it says what its requests cost, so that a budget in money can be kept.
    tells_cost: bool = False


PROGRAMS: dict[str, Program] = {
    CLAUDE_CODE: Program(
        "Claude Code, by its own team files",
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
            # Whoever wants no reports sent wants none from here either.
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_TELEMETRY",
        ),
        "mcp",
        ("mcp",),
    ),
    **{
        preset.name: Program(
            preset.title,
            preset.command,
            preset.install,
            preset.observed,
            preset.env,
            "acp",
            ("acp", "mcp"),
            tells_cost=preset.tells_cost,
        )
        for preset in (*PRESETS.values(), GENERIC)
    },
}
"""Every driver that is a program of somebody else, by the name of the driver."""


def is_foreign(driver: str) -> bool:
    """Whether the turns are taken by a program that is not ours."""
    return driver in PROGRAMS


def ready_within(driver: str) -> float:
    """How many seconds an agent with this driver may take to get ready."""
    return READY_S if is_foreign(driver) else OUR_READY_S


def command_of(spec: AgentSpec) -> tuple[str, ...]:
    """The words that start the program of a spec.

    Raises:
        Invalid: there are none, or the driver starts no program.
    """
    given = spec.options.get(COMMAND)
    if not is_foreign(spec.driver):
        raise Invalid(
            f"The driver {spec.driver!r} starts no program, so it takes no command.",
            remedy="Leave --command out, or choose the driver acp.",
        )
    if given is None:
        given = PROGRAMS[spec.driver].command
    if not given or isinstance(given, str) or not all(isinstance(word, str) for word in given):
        raise Invalid(
            f"The driver {spec.driver!r} needs the command of a program.",
            remedy="Name one that speaks ACP, for example: --command 'myagent --acp'",
        )
    return tuple(given)


def found_at(command: tuple[str, ...], path: str | None, cwd: str = "/") -> str | None:
    """Where a command lies: in the directories of `path`, or by its own path; None if nowhere."""
    first = command[0] if command else ""
    if os.path.dirname(first):
        first = os.path.join(cwd, first)
    return shutil.which(first, path=path)


def check_libraries(driver: str) -> None:
    """Refuse a driver whose libraries are not installed. Raises Unavailable."""
    program = PROGRAMS[driver]
    missing = [name for name in program.libraries if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"The driver {driver!r} needs {' and '.join(missing)}, which"
            f" {'is' if len(missing) == 1 else 'are'} not installed.",
            remedy=f"Run: pip install 'bullpen[{program.extra}]'",
        )


def check_program(spec: AgentSpec, environ: Mapping[str, str]) -> None:
    """Refuse a program that is not there, before anything is registered.

    Raises:
        Invalid: no program is named.
        Unavailable: the program, or a library of ours that its driver needs, is not installed.
    """
    program = PROGRAMS[spec.driver]
    command = command_of(spec)
    check_libraries(spec.driver)
    if found_at(command, environ.get("PATH"), spec.cwd) is None:
        ours = COMMAND in spec.options or not program.install
        remedy = "Check --command." if ours else f"Install it: {program.install}"
        raise Unavailable(
            f"The driver {spec.driver!r} starts the program {command[0]!r}, which is not on the"
            " agent's PATH.",
            remedy=f"{remedy} See what is there: bullpen drivers",
        )
