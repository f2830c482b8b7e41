"""Real agent programs for tests: found where `install.py` puts them, with a home of their own."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bullpen.testing.models import MockModels

from .pins import NODE, PINS, Pin, folder, install_command, is_installed

API_KEY = "mock-key-of-these-tests"
"""Every program is given it; the mock does not look at it."""

CODEX_MODEL = "gpt-5.5"
"""One that Codex knows: it warns about others in every turn, and gives them fewer tools."""

IDLE_S = 30.0 if os.environ.get("BULLPEN_NIGHTLY") else 10.0
"""How long a program is watched between two turns."""

CLAUDE_CODE_VERSIONS = tuple(
    name.removeprefix("claude-code-")
    for name, pin in PINS.items()
    if name.startswith("claude-code-") and (pin.in_ci or os.environ.get("BULLPEN_NIGHTLY"))
)
"""The oldest and the newest; in the nightly leg also what lies between them."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is installed: what to start, and the Node it wants first on the path."""

    name: str
    argv: tuple[str, ...]
    node_dir: Path

    @property
    def path(self) -> str:
        """A PATH on which the program is found by its name, and little else."""
        return f"{Path(self.argv[0]).parent}:{self.node_dir}:/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Placed:
    """A program with a home below a folder of a test: its argv and its whole environment."""

    argv: tuple[str, ...]
    env: dict[str, str]

    @property
    def home(self) -> Path:
        """Its HOME."""
        return Path(self.env["HOME"])


def program(name: str) -> Program:
    """A program by its name in `pins.py`.

    Without it a test is skipped; on CI it fails if CI has to install the program.
    """
    pin = PINS[name]
    if not is_installed(pin) or not is_installed(NODE):
        _missing(pin)
    executable = str(folder(pin) / pin.executable)
    return Program(name, (executable, *pin.arguments), (folder(NODE) / NODE.executable).parent)


def placed(name: str, place: Path, mock: MockModels) -> Placed:
    """A program whose home is below `place` and whose model is the mock. Writes its settings.

    Called twice for one place, it is the same program with the same home: what a restart needs.
    """
    found = program(name)
    env = _environment(found, place)
    for directory in (key for key in env if key in _DIRECTORIES):
        Path(env[directory]).mkdir(parents=True, exist_ok=True)
    _SETTINGS["claude-code" if name.startswith("claude-code-") else name](env, place, mock)
    return Placed(found.argv, env)


def _missing(pin: Pin) -> NoReturn:
    reason = f"{pin.name} is not installed: {install_command(pin.name)}"
    if os.environ.get("CI") and pin.in_ci and (sys.platform, platform.machine()) == _CI_MACHINE:
        pytest.fail(reason)
    pytest.skip(reason)


_CI_MACHINE = ("linux", "x86_64")
_DIRECTORIES = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_RUNTIME_DIR": "home/.run",
}


def _environment(found: Program, place: Path) -> dict[str, str]:
    """What every program gets: nothing is inherited."""
    return {
        "PATH": found.path,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "SHELL": "/bin/bash",
        "USER": "tester",
        "NO_BROWSER": "1",
        **{key: str(place / directory) for key, directory in _DIRECTORIES.items()},
    }


def _codex(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env["MOCK_KEY"] = API_KEY
    # Its home must not lie below its TMPDIR: it then cannot make its sandbox.
    _write(
        Path(env["HOME"], ".codex", "config.toml"),
        f"""\
model = "{CODEX_MODEL}"
model_provider = "mock"
check_for_update_on_startup = false
approval_policy = "on-request"
sandbox_mode = "read-only"
web_search = "disabled"
[analytics]
enabled = false
[feedback]
enabled = false
[features]
daemon_auto_start = false
apps = false
plugins = false
[model_providers.mock]
name = "mock"
base_url = "{mock.openai_url}"
wire_api = "responses"
env_key = "MOCK_KEY"
request_max_retries = 0
stream_max_retries = 0
""",
    )


def _anthropic(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env |= {
        "ANTHROPIC_BASE_URL": mock.url,
        "ANTHROPIC_API_KEY": API_KEY,
        "CLAUDE_CONFIG_DIR": str(Path(env["HOME"], ".claude")),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_TMPDIR": env["TMPDIR"],
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        # Otherwise the team's tools are hidden behind a search.
        "ENABLE_TOOL_SEARCH": "false",
    }


def _claude_code(env: dict[str, str], place: Path, mock: MockModels) -> None:
    """As a user has it who has worked with it in `place` before: no questions at the start."""
    _anthropic(env, place, mock)
    env |= {
        "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
        "TERM": "xterm-256color",
        "TMUX_TMPDIR": env["TMPDIR"],
    }
    trusted = {
        "hasTrustDialogAccepted": True,
        "hasCompletedProjectOnboarding": True,
        "allowedTools": [],
    }
    _write(
        Path(env["CLAUDE_CONFIG_DIR"], ".claude.json"),
        {
            "hasCompletedOnboarding": True,
            "lastOnboardingVersion": "2.1.325",
            "theme": "dark",
            "numStartups": 3,
            "customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []},
            "projects": {str(place): trusted},
        },
    )


def _goose(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env |= {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "mock-model",
        "GOOSE_MODE": "approve",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "GOOSE_TELEMETRY_OFF": "1",
        "OPENAI_HOST": mock.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": API_KEY,
    }


def _opencode(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env |= {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    }
    model = {"name": "mock", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    _write(
        Path(env["XDG_CONFIG_HOME"], "opencode", "opencode.json"),
        {
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "model": "mock/mock-model",
            "small_model": "mock/mock-model",
            "enabled_providers": ["mock"],
            "provider": {
                "mock": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "mock",
                    "options": {"baseURL": mock.openai_url, "apiKey": API_KEY},
                    "models": {"mock-model": model},
                }
            },
        },
    )


def _gemini(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env |= {
        "GEMINI_API_KEY": API_KEY,
        "GOOGLE_GEMINI_BASE_URL": mock.url,
        "GEMINI_TELEMETRY_ENABLED": "false",
        # Else it starts a child that outlives a killed parent.
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    settings = _quiet_settings("gemini-api-key", "gemini-2.5-pro")
    _write(Path(env["HOME"], ".gemini", "settings.json"), settings)


def _qwen(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env |= {
        "OPENAI_API_KEY": API_KEY,
        "OPENAI_BASE_URL": mock.openai_url,
        "OPENAI_MODEL": "mock-model",
    }
    settings = _quiet_settings("openai", "mock-model")
    # It would ask its model what to remember, and what the user might say next.
    settings["memory"] = {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}
    settings["ui"]["enableFollowupSuggestions"] = False
    _write(Path(env["HOME"], ".qwen", "settings.json"), settings)


def _quiet_settings(auth: str, model: str) -> dict[str, Any]:
    return {
        "general": {
            "disableAutoUpdate": True,
            "disableUpdateNag": True,
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": auth}, "folderTrust": {"enabled": False}},
        "model": {"name": model},
        "ui": {"hideTips": True},
    }


def _vibe(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env |= {"MOCK_KEY": API_KEY, "MISTRAL_API_KEY": API_KEY}
    _write(
        Path(env["HOME"], ".vibe", "config.toml"),
        f"""\
active_model = "mock"
enable_auto_update = false
enable_update_checks = false
enable_telemetry = false
[[providers]]
name = "mock"
api_base = "{mock.openai_url}"
api_key_env_var = "MOCK_KEY"
backend = "generic"
api_style = "openai"
[[models]]
name = "mock-model"
provider = "mock"
alias = "mock"
""",
    )


def _copilot(env: dict[str, str], place: Path, mock: MockModels) -> None:
    env |= {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_BASE_URL": mock.url,
        "COPILOT_PROVIDER_API_KEY": API_KEY,
        "COPILOT_MODEL": "claude-sonnet-4.5",
    }


_SETTINGS: dict[str, Callable[[dict[str, str], Path, MockModels], None]] = {
    "codex": _codex,
    "claude": _anthropic,
    "claude-code": _claude_code,
    "goose": _goose,
    "opencode": _opencode,
    "gemini": _gemini,
    "qwen": _qwen,
    "vibe": _vibe,
    "copilot": _copilot,
}


def _write(path: Path, content: str | dict[str, Any]) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    path.write_text(text, encoding="utf-8")
