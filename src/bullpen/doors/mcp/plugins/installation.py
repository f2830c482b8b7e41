"""Install the plugin of Claude Code and the extension of Gemini CLI, and remove them again.

Claude Code is told with its own commands; it copies the plugin into its own folder. Gemini CLI
reads the folder of extensions itself.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.doors.mcp.plugins import own_folder
from bullpen.doors.mcp.plugins.plugin_files import (
    MARKETPLACE,
    NAME,
    claude_code_files,
    gemini_files,
)
from bullpen.errors import Invalid, Refused, Unavailable

Run = Callable[[Sequence[str]], str]
"""Runs a command of another program; what it printed. Raises Unavailable."""

PLUGIN = f"{NAME}@{MARKETPLACE}"

_COMMAND_S = 180.0
_OUTPUT_CHARS_MAX = 2000

_USE = (
    "It offers /bullpen:team, /bullpen:review and /bullpen:status, a skill, and the team's tools.",
    "To continue a team: BULLPEN_TEAM=NAME {command}",
    "To join one as a teammate: BULLPEN_TEAM=NAME BULLPEN_AGENT=carol {command}",
)


@dataclass(frozen=True, slots=True)
class PluginSteps:
    """What an installation or a removal does, in this order: commands, files, commands."""

    title: str
    folder: Path
    files: Mapping[str, str]
    first: tuple[tuple[str, ...], ...] = ()
    then: tuple[tuple[str, ...], ...] = ()
    use: tuple[str, ...] = ()

    @property
    def told(self) -> list[str]:
        """The steps, line by line."""
        return [
            *(f"run   {shlex.join(words)}" for words in self.first),
            *(f"write {self.folder / name}" for name in self.files),
            *(f"run   {shlex.join(words)}" for words in self.then),
        ]


def claude_code_installing(
    program: Sequence[str], *, home: Path, claude: str | None, run: Run
) -> PluginSteps:
    """The steps to install the plugin. `claude` is the program that is told of it.

    Raises:
        Refused: the plugin of another marketplace is installed (other_plugin), or our folder holds
            something else (not_ours).
        Unavailable: there is no Claude Code, or it does not answer.
    """
    if claude is None:
        raise Unavailable(
            "Cannot find the program `claude`.",
            remedy="Install Claude Code, or add its folder to PATH, then run the command again.",
        )
    folder = _claude_code_folder(home)
    own_folder.written(folder)
    installed = _installed(claude, run)
    others = [each for each in installed if each != PLUGIN]
    if others:
        raise Refused(
            f"Claude Code already has the plugin {others[0]}.",
            reason="other_plugin",
            remedy=f"Remove it first: claude plugin uninstall {others[0]}",
        )
    # A plugin of the same version would be left as it is.
    again = ((claude, "plugin", "uninstall", PLUGIN),) if PLUGIN in installed else ()
    return PluginSteps(
        "Claude Code",
        folder,
        claude_code_files(program),
        first=again,
        then=(
            (claude, "plugin", "marketplace", "add", str(folder)),
            (claude, "plugin", "install", PLUGIN),
        ),
        use=(
            "Start claude, or type /reload-plugins in a running session.",
            *(line.format(command="claude") for line in _USE),
        ),
    )


def claude_code_removing(*, home: Path, claude: str | None, run: Run) -> PluginSteps:
    """The commands to remove the plugin. Its files go last. Without `claude` only they go."""
    if claude is None:
        return PluginSteps("Claude Code", _claude_code_folder(home), {})
    installed = PLUGIN in _installed(claude, run)
    plugin = ((claude, "plugin", "uninstall", PLUGIN),) if installed else ()
    known = MARKETPLACE in run((claude, "plugin", "marketplace", "list")).split()
    place = ((claude, "plugin", "marketplace", "remove", MARKETPLACE),) if known else ()
    return PluginSteps("Claude Code", _claude_code_folder(home), {}, first=(*plugin, *place))


def gemini_installing(program: Sequence[str], *, env: Mapping[str, str]) -> PluginSteps:
    """The steps to install the extension.

    Raises:
        Refused: there is another extension of this name (not_ours).
        Invalid: the user's home is unknown.
    """
    folder = _gemini_folder(env)
    own_folder.written(folder)
    return PluginSteps(
        "Gemini CLI",
        folder,
        gemini_files(program),
        use=(
            "Start gemini in a directory that it trusts.",
            *(line.format(command="gemini") for line in _USE),
        ),
    )


def gemini_removing(*, env: Mapping[str, str]) -> PluginSteps:
    """The folder of the extension, to be removed. Raises Invalid."""
    return PluginSteps("Gemini CLI", _gemini_folder(env), {})


def install(steps: PluginSteps, run: Run) -> None:
    """Carry out the steps of an installation.

    Raises:
        Refused, Unavailable: as the steps do; what was done before stays.
    """
    for words in steps.first:
        run(words)
    own_folder.write(steps.folder, steps.files)
    for words in steps.then:
        run(words)


def remove(steps: PluginSteps, run: Run) -> list[str]:
    """Carry out the steps of a removal. Returns the files of others that are left.

    Raises:
        NotFound: nothing is installed.
        Refused, Unavailable: as `install`.
    """
    for words in steps.first:
        run(words)
    return own_folder.remove(steps.folder)


def claude_command(path: str | None) -> str | None:
    """The `claude` that a person would start; None without one.

    What a PATH finds relative to the current directory is the project's and not the user's.
    """
    found = shutil.which("claude", path=path)
    return found if found is not None and os.path.isabs(found) else None


def run_command(words: Sequence[str]) -> str:
    """Run a command of another program to its end.

    Raises:
        Unavailable: it failed, or took too long.
    """
    try:
        done = subprocess.run(  # noqa: S603 (words that a person was shown)
            [*words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(
            f"Cannot run {shlex.join(words)}: {error}.",
            remedy="Run it by hand to see why, then run the command again.",
        ) from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-_OUTPUT_CHARS_MAX:]
        raise Unavailable(
            f"{shlex.join(words)} failed with exit code {done.returncode}: {said}",
            remedy="Fix that, then run the command again.",
        )
    return done.stdout


def _installed(claude: str, run: Run) -> list[str]:
    """The plugins of our name that Claude Code has, each with its marketplace."""
    told = run((claude, "plugin", "list", "--json"))
    try:
        rows = json.loads(told)
        if not isinstance(rows, list):
            raise TypeError("not a list")
        ids = [str(row["id"]) for row in rows]
    except (ValueError, TypeError, KeyError):
        raise Unavailable(
            "Cannot read the answer of `claude plugin list --json`.",
            remedy="Update Claude Code to 2.1.41 or newer.",
        ) from None
    return [each for each in ids if each.partition("@")[0] == NAME]


def _claude_code_folder(home: Path) -> Path:
    return Path(os.path.abspath(home), "plugins", "claude-code")


def _gemini_folder(env: Mapping[str, str]) -> Path:
    above = env.get("GEMINI_CLI_HOME") or env.get("HOME")
    if not above:
        raise Invalid(
            "Cannot find your home directory: HOME is not set.",
            remedy="Set HOME and try again.",
        )
    return Path(os.path.abspath(above), ".gemini", "extensions", NAME)
