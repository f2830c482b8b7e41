"""`bullpen mcp install --plugin` and `uninstall --plugin`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from bullpen.app.settings import settings_from
from bullpen.doors.cli.output.text import say
from bullpen.doors.cli.session import Session
from bullpen.doors.mcp.install.install import this_program
from bullpen.doors.mcp.plugins.installation import (
    PluginSteps,
    claude_code_installing,
    claude_code_removing,
    claude_command,
    gemini_installing,
    gemini_removing,
    install,
    remove,
    run_command,
)
from bullpen.errors import Refused

_SCHEMA = "mcp-plugin/1"


def install_plugin(session: Session, program: str, *, yes: bool, dry_run: bool) -> None:
    """Show the steps, ask, and carry them out."""
    home, words = _home(session), _program(session)
    if _is_claude_code(program):
        claude = claude_command(os.environ.get("PATH"))
        steps = claude_code_installing(words, home=home, claude=claude, run=run_command)
    else:
        steps = gemini_installing(words, env=os.environ)
    if _agreed(session, steps, steps.told, f"Install the plugin of {steps.title}?", yes, dry_run):
        install(steps, run_command)
        told = steps.told if yes else []
        session.page.result(
            _SCHEMA,
            _value(steps, written=True),
            *told,
            f"Installed the plugin of {steps.title} in {steps.folder}.",
            *steps.use,
        )


def uninstall_plugin(session: Session, program: str, *, yes: bool, dry_run: bool) -> None:
    """Show the steps, ask, and carry them out."""
    if _is_claude_code(program):
        claude = claude_command(os.environ.get("PATH"))
        steps = claude_code_removing(home=_home(session), claude=claude, run=run_command)
    else:
        steps = gemini_removing(env=os.environ)
    shown = [*steps.told, f"remove {steps.folder}"]
    if _agreed(session, steps, shown, f"Remove the plugin of {steps.title}?", yes, dry_run):
        left = remove(steps, run_command)
        session.page.result(
            _SCHEMA,
            {**_value(steps, written=True), "left": left},
            *(shown if yes else []),
            f"Removed the plugin of {steps.title}.",
            *(f"Left in place, because Bullpen did not write it: {path}" for path in left),
        )


def _agreed(
    session: Session, steps: PluginSteps, shown: list[str], question: str, yes: bool, dry_run: bool
) -> bool:
    if dry_run:
        session.page.result(_SCHEMA, _value(steps, written=False), *shown, "Nothing was done.")
        return False
    if not yes:
        # With the question, so that both reach whoever answers it.
        for line in shown:
            say(line)
    session.confirm(question, yes=yes, why="This changes the configuration of another program")
    return True


def _is_claude_code(program: str) -> bool:
    if program not in {"claude", "gemini"}:
        raise Refused(
            f"There is no plugin for {program}.",
            reason="no_plugin",
            remedy=f"Leave out --plugin: bullpen mcp install {program} --team TEAM --as NAME",
        )
    return program == "claude"


def _home(session: Session) -> Path:
    return Path(os.path.abspath(session.settings.home))


def _program(session: Session) -> tuple[str, ...]:
    """What the plugin starts: this installation, with its home if that is not the usual one."""
    words, home = this_program(sys.argv[0]), _home(session)
    usual = settings_from({"HOME": os.environ.get("HOME", "")}).home
    return words if home == Path(os.path.abspath(usual)) else (*words, "--home", str(home))


def _value(steps: PluginSteps, *, written: bool) -> dict[str, Any]:
    return {
        "path": str(steps.folder),
        "files": [*steps.files],
        "commands": [[*words] for words in (*steps.first, *steps.then)],
        "written": written,
        "left": [],
    }
