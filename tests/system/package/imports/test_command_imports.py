"""Commands that people and agents type all day load only what they use, and end at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NEVER = (
    # Screens, servers, models and other formats.
    *("rich", "textual", "httpx", "mcp", "nats", "yaml", "tomllib", "pydantic_ai", "starlette"),
    # What converts unusual words of a command line, and what finds out a version.
    *("pydantic", "pydantic_core", "typer._adapters", "importlib.metadata", "email"),
    # What runs agents, and what they work with.
    *("bullpen.app.app", "bullpen.app.remote_stores", "bullpen.store.nats", "bullpen.store.hosted"),
    *("bullpen.agents.backends", "bullpen.agents.drivers", "bullpen.agents.runner"),
    *("bullpen.agents.tools.toolbox", "bullpen.agents.permissions.decide"),
    *("bullpen.agents.hooks.commands", "bullpen.agents.system.run_command", "bullpen.sandbox"),
    *("bullpen.runs", "bullpen.fleet", "bullpen.workspace"),
)
NOT_FOR_HELP = ("asyncio", "anyio", "bullpen.store", "bullpen.team")

OURS_MAX = 175
ALL_MAX = 440
ALL_OF_HELP_MAX = 190

COMMANDS = (
    "send team-lead hello",
    "inbox",
    "task add thing",
    "task list",
    "task show 1",
    "task claim 1",
    "task done 1",
    "",
    "ps",
    "team show",
    "team list",
    "events",
    "requests",
    "cost",
)

_PROGRAM = """
import atexit, os, sys
sys.argv[0] = "bullpen"

def note():
    with open(os.environ["MODULES"], "w") as file:
        print(*sys.modules, file=file)

atexit.register(note)
from bullpen.__main__ import main
main()
"""


def loaded(home: Path, words: str, **env: str) -> set[str]:
    """The modules that a process had loaded when it ended after a command."""
    told = home.parent / "modules"
    told.unlink(missing_ok=True)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")},
        "HOME": str(home.parent),
        "BULLPEN_HOME": str(home),
        "MODULES": str(told),
        **env,
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words.split()],
        env=environ,
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(told.read_text("utf-8").split())


def among(modules: set[str], names: tuple[str, ...]) -> list[str]:
    """The modules that have one of these names, or are below one."""
    return sorted(
        each
        for each in modules
        if any(each == name or each.startswith(f"{name}.") for name in names)
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a team and a task."""
    home = tmp_path_factory.mktemp("diet") / "home"
    loaded(home, "team create alpha")
    loaded(home, "task add first")
    return home


@pytest.mark.parametrize("words", COMMANDS)
def test_a_common_command_loads_only_what_it_uses(home: Path, words: str) -> None:
    modules = loaded(home, words)
    assert among(modules, NEVER) == []
    assert len(among(modules, ("bullpen",))) <= OURS_MAX
    assert len(modules) <= ALL_MAX


@pytest.mark.parametrize("words", ["--help", "--help --all", "task --help"])
def test_a_help_page_needs_no_store_and_no_event_loop(home: Path, words: str) -> None:
    modules = loaded(home, words)
    assert among(modules, (*NEVER, *NOT_FOR_HELP)) == []
    assert len(modules) <= ALL_OF_HELP_MAX


def test_a_shell_completes_a_command_without_a_store_or_an_event_loop(home: Path) -> None:
    modules = loaded(
        home, "", _BULLPEN_COMPLETE="complete_bash", COMP_WORDS="bullpen ta", COMP_CWORD="1"
    )
    assert among(modules, (*NEVER, *NOT_FOR_HELP)) == []


def test_a_setting_of_claude_code_costs_only_the_rules_that_it_is_written_in(home: Path) -> None:
    file = home.parent / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"permissions": {"allow": ["Bash(git status)"]}}', "utf-8")
    try:
        modules = loaded(home, "task add thing")
    finally:
        file.unlink()
    assert "bullpen.agents.config.claude_settings" in modules
    assert among(modules, ("bullpen.agents.tools.toolbox", "bullpen.agents.hooks.commands")) == []


def test_the_end_of_a_command_waits_for_threads_and_runs_what_was_registered(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, threading, time\n"
        "sys.argv = ['bullpen', '--version']\n"
        "def late():\n"
        "    time.sleep(1.5)\n"
        "    print('late', flush=True)\n"
        "threading.Thread(target=late).start()\n"
        "from bullpen.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("bullpen ")
    assert done.stdout.endswith("late\n")
