"""What each vendor's program keeps in the user's home, and which hosts it needs. Only data.

In a sandbox a program has a home of its own. It reads these files of the user's, so that it is
logged in and set up as for the user, and cannot write them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_ADDRESS = ("_BASE_URL", "_HOST", "_API_BASE", "_ENDPOINT")
"""How the names of variables end that hold the address of a model's API."""


@dataclass(frozen=True, slots=True)
class ConfigDirectory:
    """A directory of a program: below the home, or where a variable says. `reads` are in it."""

    below_home: str
    variable: str | None
    reads: tuple[str, ...]

    def path(self, env: Mapping[str, str]) -> str:
        """Where it is for the user."""
        moved = env.get(self.variable or "")
        return moved or os.path.join(env.get("HOME") or "/", self.below_home)


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """The directories of one program, and the hosts that it reaches in a sandbox by default."""

    directories: tuple[ConfigDirectory, ...] = ()
    hosts: tuple[str, ...] = ()
    # It makes a sandbox of its own for its commands.
    nests: bool = False

    def reads(self, env: Mapping[str, str]) -> Iterator[str]:
        """The files and directories of the user's that it reads."""
        for each in self.directories:
            for name in each.reads:
                yield os.path.join(each.path(env), name)


_CLAUDE = ProgramFiles(
    (
        ConfigDirectory(
            ".claude",
            "CLAUDE_CONFIG_DIR",
            (".credentials.json", "settings.json", "CLAUDE.md", "agents", "skills", "commands"),
        ),
    ),
    ("api.anthropic.com", "platform.claude.com", "console.anthropic.com"),
)
_OPENAI = ("api.openai.com", "chatgpt.com", "auth.openai.com")

_FILES = {
    "claude": _CLAUDE,
    # Its directory is a copy of the team, which its driver makes.
    "claude-code": ProgramFiles(hosts=_CLAUDE.hosts),
    "codex": ProgramFiles(
        (ConfigDirectory(".codex", "CODEX_HOME", ("auth.json", "config.toml", "AGENTS.md")),),
        _OPENAI,
        nests=True,
    ),
    "goose": ProgramFiles(
        (
            ConfigDirectory(
                ".config",
                "XDG_CONFIG_HOME",
                ("goose/config.yaml", "goose/secrets.yaml", "goose/permission.yaml"),
            ),
            ConfigDirectory(".local/share", "XDG_DATA_HOME", ()),
            ConfigDirectory(".local/state", "XDG_STATE_HOME", ()),
        ),
        (*_OPENAI[:1], *_CLAUDE.hosts[:1]),
    ),
    "opencode": ProgramFiles(
        (
            ConfigDirectory(
                ".config", "XDG_CONFIG_HOME", ("opencode/opencode.json", "opencode/opencode.jsonc")
            ),
            ConfigDirectory(".local/share", "XDG_DATA_HOME", ("opencode/auth.json",)),
            ConfigDirectory(".local/state", "XDG_STATE_HOME", ()),
            ConfigDirectory(".cache", "XDG_CACHE_HOME", ()),
        ),
        (*_OPENAI[:1], *_CLAUDE.hosts[:1], "models.dev", "opencode.ai"),
    ),
    "gemini": ProgramFiles(
        (
            ConfigDirectory(
                ".gemini",
                None,
                ("settings.json", "oauth_creds.json", "google_accounts.json", ".env", "GEMINI.md"),
            ),
        ),
        (
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
        ),
    ),
    "qwen": ProgramFiles(
        (ConfigDirectory(".qwen", None, ("settings.json", "oauth_creds.json", ".env", "QWEN.md")),),
        ("dashscope.aliyuncs.com", "portal.qwen.ai", "chat.qwen.ai"),
    ),
    "vibe": ProgramFiles(
        (ConfigDirectory(".vibe", "VIBE_HOME", ("config.toml", ".env")),), ("api.mistral.ai",)
    ),
}


def files_of(driver: str) -> ProgramFiles:
    """What is known about a program; nothing about one that the user names."""
    return _FILES.get(driver, ProgramFiles())


def model_addresses(env: Mapping[str, str]) -> list[str]:
    """The addresses of model APIs in an environment."""
    return [value for name, value in env.items() if name.endswith(_ADDRESS) and value]
