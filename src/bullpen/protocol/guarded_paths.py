"""Guarded paths: the files of a project that other programs run or obey.

This is the one list. The permission gate asks before a tool writes such a file, the sandbox keeps
commands from writing it, and the merge queue takes a change to it only after a person approved it.

Instructions for models (CLAUDE.md, AGENTS.md), build files and tests are not in it. They are
ordinary project files: a model reads them, or a person runs them on purpose.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

Kind = Literal["git", "settings", "program", "editor", "hooks", "ci", "team", "startup", "added"]

WHY: dict[Kind, str] = {
    "git": "git obeys it",
    "settings": "Bullpen and Claude Code take rules and hooks from it",
    "program": "a coding agent takes settings, tools or commands from it",
    "editor": "an editor or a development container runs commands from it",
    "hooks": "git hooks run it",
    "ci": "CI runs it",
    "team": "`bullpen up` takes members, checks and commands from it",
    "startup": "a shell or a program runs it when it starts",
    "added": "the team file lists it in [guarded]",
}
"""Why a path of each kind is guarded."""

_FOLDERS: dict[str, Kind] = {
    ".git": "git",
    ".hg": "git",
    ".jj": "git",
    ".svn": "git",
    ".claude": "settings",
    ".bullpen": "settings",
    ".codex": "program",
    ".gemini": "program",
    ".qwen": "program",
    ".opencode": "program",
    ".goose": "program",
    ".cursor": "program",
    ".vibe": "program",
    ".copilot": "program",
    ".cline": "program",
    ".clinerules": "program",
    ".grok": "program",
    ".factory": "program",
    ".kimi": "program",
    ".kiro": "program",
    ".roo": "program",
    ".windsurf": "program",
    ".vscode": "editor",
    ".zed": "editor",
    ".fleet": "editor",
    ".idea": "editor",
    ".run": "editor",
    ".devcontainer": "editor",
    ".husky": "hooks",
    ".githooks": "hooks",
    ".lefthook": "hooks",
    ".circleci": "ci",
    ".buildkite": "ci",
    ".forgejo": "ci",
    ".gitea": "ci",
    ".woodpecker": "ci",
    ".direnv": "startup",
}
"""Folders of which every file is guarded, at any depth."""

_PLACES: dict[tuple[str, ...], Kind] = {
    (".github", "workflows"): "ci",
    (".github", "actions"): "ci",
    (".github", "copilot"): "program",
    (".github", "hooks"): "program",
    (".agents", "plugins"): "program",
    (".gitlab", "ci"): "ci",
    (".config", "bullpen"): "settings",
    (".config", "goose"): "program",
    (".config", "opencode"): "program",
    (".config", "fish"): "startup",
    (".config", "git"): "git",
    (".config", "mise"): "startup",
}
"""Folders inside of others of which every file is guarded."""

_FILES: dict[str, Kind] = {
    ".gitmodules": "git",
    ".gitattributes": "git",
    ".gitconfig": "git",
    ".mcp.json": "program",
    ".claude.json": "program",
    "opencode.json": "program",
    "opencode.jsonc": "program",
    ".devcontainer.json": "editor",
    ".lvimrc": "editor",
    ".exrc": "editor",
    ".nvimrc": "editor",
    ".nvim.lua": "editor",
    ".vimrc": "editor",
    ".dir-locals.el": "editor",
    ".pre-commit-config.yaml": "hooks",
    ".pre-commit-config.yml": "hooks",
    ".overcommit.yml": "hooks",
    ".travis.yml": "ci",
    ".drone.yml": "ci",
    ".cirrus.yml": "ci",
    ".woodpecker.yml": "ci",
    ".woodpecker.yaml": "ci",
    ".gitlab-ci.yml": "ci",
    ".gitlab-ci.yaml": "ci",
    "appveyor.yml": "ci",
    ".appveyor.yml": "ci",
    "azure-pipelines.yml": "ci",
    "azure-pipelines.yaml": "ci",
    "bitbucket-pipelines.yml": "ci",
    "buildspec.yml": "ci",
    "cloudbuild.yaml": "ci",
    "cloudbuild.yml": "ci",
    "jenkinsfile": "ci",
    "team.toml": "team",
    "mise.toml": "startup",
    ".mise.toml": "startup",
    "mise.local.toml": "startup",
    ".gdbinit": "startup",
    ".lldbinit": "startup",
    ".tmux.conf": "startup",
    ".screenrc": "startup",
    ".pdbrc": "startup",
    ".irbrc": "startup",
    ".pythonrc": "startup",
    ".pythonstartup": "startup",
}
"""Files that are guarded at any depth, by their folded names."""

_SHELLS = """
    .bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .envrc .inputrc .kshrc
    .login .logout .mkshrc .profile .tcshrc .xinitrc .xprofile .xsession .zlogin .zlogout .zprofile
    .zshenv .zshrc config.fish
"""
_FILES.update(dict.fromkeys(_SHELLS.split(), "startup"))

_PATTERNS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    # lefthook.yml, .lefthook-local.toml and their kin.
    (re.compile(r"\.?lefthook(-local)?\.(ya?ml|toml|jsonc?)"), "hooks"),
    (re.compile(r"\.?mise\.[\w-]+(\.local)?\.toml"), "startup"),
    (re.compile(r".+\.team\.toml"), "team"),
)


OBEYED: frozenset[Kind] = frozenset(["git", "settings", "program", "team"])
"""The kinds that Bullpen, or a program that it starts, obeys. No team may leave them unguarded."""


def guarded(path: str, more: Iterable[str] = (), allow: Iterable[str] = ()) -> Kind | None:
    """The kind of a guarded path, relative to its project; None if it is not guarded.

    Names are compared as the most lenient file system does, so `.Claude` is guarded too, and they
    count at any depth. `more` and `allow` are patterns of further paths, and of paths that are not
    guarded after all.
    """
    parts = folded(path)
    kind = _listed(parts)
    if kind is None:
        return "added" if matches(parts, more) else None
    return None if kind not in OBEYED and matches(parts, allow) else kind


def _listed(parts: Sequence[str]) -> Kind | None:
    """The kind of a path on the list, by its folded parts."""
    if not parts:
        return None
    for index, part in enumerate(parts):
        kind = _FOLDERS.get(part) or _PLACES.get(tuple(parts[index : index + 2]))
        if kind is not None:
            return kind
    if any(part.startswith(".goose") for part in parts[:-1]):
        return "program"
    if parts[-1].startswith("copilot") and ".github" in parts[:-1]:
        return "program"
    return _FILES.get(parts[-1]) or next(
        (kind for pattern, kind in _PATTERNS if pattern.fullmatch(parts[-1])), None
    )


def leads_to_guarded(path: str) -> bool:
    """Whether guarded files can be below a path, so that a link there would redirect them."""
    return folded(path)[-1:] != [] and folded(path)[-1] in {place[0] for place in _PLACES}


def matches(parts: Sequence[str], patterns: Iterable[str]) -> bool:
    """Whether a pattern fits a path, or a folder above it.

    `*` and `?` stand for characters of one name, `**` for any number of folders. A pattern begins
    at the top of the project.
    """
    return any(_fits(parts, folded(pattern)) for pattern in patterns)


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return True
    if wanted[0] == "**":
        return any(_fits(parts[at:], wanted[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])


def guarded_names(*kinds: Kind) -> frozenset[str]:
    """The names of guarded files and folders in lower case, of all kinds or of these."""
    named = [*_FOLDERS.items(), *_FILES.items()]
    named += [("/".join(place), kind) for place, kind in _PLACES.items()]
    return frozenset(name for name, kind in named if not kinds or kind in kinds)


def folded(path: str) -> list[str]:
    """The parts of a path as the most lenient file system compares them.

    Letter case, invisible characters, and dots or blanks at the end make no difference.
    """
    return [part for each in path.split("/") if (part := _folded(each))]


def _folded(part: str) -> str:
    if part.isascii():
        plain = part.lower()
    else:
        letters = unicodedata.normalize("NFD", part).casefold()
        plain = "".join(each for each in letters if unicodedata.category(each) != "Cf")
    return plain.rstrip(". ") or ("" if plain in ("", ".") else plain)
