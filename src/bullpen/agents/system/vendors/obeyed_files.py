"""The files of a repository that other vendors' programs obey: they run commands or allow calls.

Files that the forced settings of a program switch off are not in the table. The others need the
user's trust at spawn, and the program is started only with the files that were there then.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from bullpen.agents.system.project_files import file_digest, up_to_git_root
from bullpen.errors import Unreadable

APPROVED_FILES = "approved_files"
"""The option of a spec with the digests of the files that were there at spawn."""

OBEYED: dict[str, tuple[str, ...]] = {
    "claude-code": (".claude/settings.json", ".claude/settings.local.json"),
    "codex": (".codex/config.toml", ".codex/hooks.json", ".codex/hooks/**", ".codex/rules/**"),
    "copilot": (
        ".github/hooks/**",
        ".github/copilot/**",
        ".github/mcp.json",
        ".copilot/**",
        ".mcp.json",
        ".vscode/mcp.json",
    ),
    "gemini": (".gemini/settings.json", ".gemini/.env", ".gemini/extensions/**"),
    "goose": (".agents/plugins/**", ".goose/plugins/**"),
    "qwen": (".qwen/settings.json", ".qwen/.env", ".qwen/extensions/**", ".mcp.json"),
    "vibe": (".vibe/config.toml",),
}
"""For each driver, patterns below every folder from the working directory to the git root."""


def obeyed_files(driver: str, cwd: Path) -> list[tuple[Path, Path, str]]:
    """The files that the program of this driver would obey.

    Each is given with the folder it is for and the digest of its content.
    """
    patterns = OBEYED.get(driver, ())
    return [
        (path, folder, _digest(path))
        for folder in (up_to_git_root(cwd) if patterns else ())
        for pattern in patterns
        for path in _matches(folder, pattern)
    ]


def unapproved_files(driver: str, cwd: Path, approved: object) -> list[Path]:
    """The obeyed files that were not there at spawn with this content."""
    known = set(approved) if isinstance(approved, list) else set()
    return [path for path, _, digest in obeyed_files(driver, cwd) if digest not in known]


def _matches(folder: Path, pattern: str) -> list[Path]:
    above = pattern.removesuffix("/**")
    # A link counts as a file: what it points at is obeyed.
    if above == pattern:
        path = folder / pattern
        return [path] if path.is_file() or path.is_symlink() else []
    place = folder / above
    if place.is_symlink():
        return [place]
    return sorted(path for path in place.rglob("*") if path.is_file() or path.is_symlink())


def _digest(path: Path) -> str:
    """The digest of a file's content. What cannot be read has a digest that nothing else has."""
    try:
        return file_digest(path)
    except Unreadable as error:
        return hashlib.sha256(f"unreadable {path} {error}".encode()).hexdigest()
