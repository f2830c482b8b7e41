"""The system text of a native agent: who it is, how a team works, and the project's own rules."""

from __future__ import annotations

import re
from pathlib import Path

from bullpen.agents.drivers import teamwork
from bullpen.agents.project import up_to_git_root
from bullpen.protocol.agent import AgentSpec

FILE_CHARS_MAX = 40_000
"""What is taken of one file of the project."""

ALL_CHARS_MAX = 120_000
"""What is taken of all of them."""

_NAMES = ("AGENTS.md", "CLAUDE.md")
_IMPORT = re.compile(r"(?<![\w`@])@((?:\.{0,2}/)?[\w.\-/]+\.\w+)")
_FENCE = re.compile(r"^\s*(```|~~~)")

_HERE = """\
You work in {cwd}. You have tools for files, searching, commands and the team; what a tool does, \
it does for real. Look before you change something, change no more than your task needs, and run \
what proves that it works before you call it done."""

_PLAN = """\
You start in plan mode: you can look at everything and change nothing. Find out what you need, \
then submit a plan with ExitPlanMode: what you will change, how, and what will prove it. You can \
work when it is approved; if it is rejected, revise it."""

_ONLY_LEADS = """\
You only lead: you have no tools for files or commands. Whatever is to be looked at, changed or \
run, a teammate does."""


def system_text(agent: str, team: str, is_lead: bool, spec: AgentSpec) -> str:
    """The system text, with the project's files from the git root down to the directory."""
    texts = [
        teamwork.who(agent, team, is_lead),
        _HERE.format(cwd=spec.cwd),
        teamwork.HOW_IT_WORKS,
        teamwork.part(is_lead),
        *_bounds(spec, is_lead),
        *teamwork.role(spec),
        *_project(Path(spec.cwd)),
    ]
    return "\n\n".join(texts)


def _bounds(spec: AgentSpec, is_lead: bool) -> list[str]:
    """What its mode means for it."""
    mode = spec.start_mode
    if mode == "bypassPermissions" and not spec.rights.deny and not spec.rights.ask:
        return []
    if mode == "plan":
        return [_PLAN, teamwork.BOUNDS]
    return [_ONLY_LEADS, teamwork.BOUNDS] if mode == "delegate" and is_lead else [teamwork.BOUNDS]


def _project(cwd: Path) -> list[str]:
    """The project's own rules, the general ones first."""
    texts: list[str] = []
    left = ALL_CHARS_MAX
    taken: set[Path] = set()
    for folder in reversed(up_to_git_root(cwd)):
        for name in _NAMES:
            path = folder / name
            if not path.is_file() or path.resolve() in taken:
                continue
            taken.add(path.resolve())
            text = _read(path)
            if name == "CLAUDE.md":
                text = _with_imports(text, folder)
            if len(text) > left:
                text = f"{text[:left]}\n(The rest is left out: read {path}.)"
            left = max(left - len(text), 0)
            texts.append(f"From {path}, the rules of this project:\n\n{text.strip()}")
    return texts


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(FILE_CHARS_MAX + 1)
    except OSError as error:
        return f"(This file could not be read: {error.strerror}.)"
    if len(text) > FILE_CHARS_MAX:
        return f"{text[:FILE_CHARS_MAX]}\n(The rest is left out: read {path}.)"
    return text


def _with_imports(text: str, folder: Path) -> str:
    """The text with each `@path` replaced by that file, one level deep, not inside code."""
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        lines.append(line if in_code else _IMPORT.sub(lambda found: _one(found, folder), line))
    return "\n".join(lines)


def _one(found: re.Match[str], folder: Path) -> str:
    path = folder / found.group(1)
    if not path.is_file():
        return found.group(0)
    return f"{found.group(0)}:\n{_read(path).strip()}\n"
