"""Which agent programs the tests drive, at which versions, and where they are installed.

Only the standard library: `install.py` runs before anything else is there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pin:
    """A program: its packages at exact versions, and what of it is started."""

    name: str
    # For npm, or for pip if `on_pypi`.
    packages: tuple[str, ...]
    # Relative to the folder of the program.
    executable: str
    arguments: tuple[str, ...] = ()
    on_pypi: bool = False
    # Whether every run of CI tests it; the others are for the nightly leg.
    in_ci: bool = False


def _claude_code(version: str, executable: str, *, in_ci: bool = True) -> Pin:
    package = f"@anthropic-ai/claude-code@{version}"
    return Pin(f"claude-code-{version}", (package,), executable, in_ci=in_ci)


_NPM = "node_modules/.bin"
_NATIVE_CLAUDE = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"

NODE = Pin("node", ("node@22.23.3",), "node_modules/node/bin/node")
"""Under another Node, npm silently installs old versions of some programs."""

PINS: dict[str, Pin] = {
    pin.name: pin
    for pin in (
        Pin(
            "codex",
            ("@agentclientprotocol/codex-acp@2.6.0", "@openai/codex@0.166.0"),
            f"{_NPM}/codex-acp",
            in_ci=True,
        ),
        Pin(
            "claude",
            ("@agentclientprotocol/claude-agent-acp@0.99.1",),
            f"{_NPM}/claude-agent-acp",
            in_ci=True,
        ),
        Pin(
            "goose",
            ("@aaif/goose-binary-linux-x64@1.52.0",),
            "node_modules/@aaif/goose-binary-linux-x64/bin/goose",
            ("acp", "--with-builtin", "developer"),
            in_ci=True,
        ),
        _claude_code("2.1.41", f"{_NPM}/claude"),
        _claude_code("2.1.177", _NATIVE_CLAUDE, in_ci=False),
        _claude_code("2.1.325", _NATIVE_CLAUDE),
        Pin("opencode", ("opencode-ai@1.18.33",), f"{_NPM}/opencode", ("acp", "--pure")),
        # Every run of CI tests its extension; its driver is for the nightly leg.
        Pin("gemini", ("@google/gemini-cli@0.61.0",), f"{_NPM}/gemini", ("--acp",), in_ci=True),
        Pin("qwen", ("@qwen-code/qwen-code@0.24.4",), f"{_NPM}/qwen", ("--acp",)),
        Pin("copilot", ("@github/copilot@1.0.102",), f"{_NPM}/copilot", ("--acp",)),
        # No agent: the official client, which drives `bullpen acp`.
        Pin(
            "acp-client",
            ("@agentclientprotocol/sdk@2.4.0",),
            "node_modules/@agentclientprotocol/sdk/package.json",
            in_ci=True,
        ),
        Pin("vibe", ("mistral-vibe==3.0.2",), "bin/vibe-acp", on_pypi=True),
    )
}


def root() -> Path:
    """Where the programs are: `$BULLPEN_PROGRAMS`, or a folder in the user's cache."""
    chosen = os.environ.get("BULLPEN_PROGRAMS")
    return Path(chosen) if chosen else Path.home() / ".cache" / "bullpen-programs"


def folder(pin: Pin) -> Path:
    """Where one program is, or would be."""
    return root() / pin.name


def stamp(pin: Pin) -> Path:
    """The file that says what was installed; it is written last."""
    return folder(pin) / "installed"


def is_installed(pin: Pin) -> bool:
    """Whether the program is there, whole and at the pinned version."""
    try:
        return stamp(pin).read_text(encoding="utf-8").split() == list(pin.packages)
    except FileNotFoundError:
        return False


def install_command(*names: str) -> str:
    """What to type to get programs."""
    return f"python tests/programs/install.py {' '.join(names)}"
