"""Find the skills of an agent: folders with a SKILL.md, in its project and in the user's home.

They are read as rules of a project are: with the agent's reading rights, and no link may lead out
of the project. A skill gives no rights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bullpen.agents.permissions.rule_language.paths import below
from bullpen.agents.system.project_files import up_to_git_root
from bullpen.agents.tools.files.front_matter import front_matter
from bullpen.agents.tools.files.prompt_files import FILE_BYTES_MAX, PromptFile, PromptFiles
from bullpen.agents.tools.outside_text.harmless import harmless, one_line
from bullpen.errors import Unreadable

LIST_CHARS_MAX = 1_500
"""The most characters that the list of skills takes in each request."""

BODY_CHARS_MAX = 40_000
"""The most characters of a skill that a model is given."""

FILE = "SKILL.md"
_PLACES = (".bullpen/skills", ".claude/skills")
_FOLDERS_MAX = 500
_DESCRIPTION_CHARS_MAX = 1_024
_SHORTEST_CHARS = 20
# Kept for the line that says how many are not shown.
_MORE_CHARS = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_NAMES = """
    name description when_to_use argument-hint allowed-tools disable-model-invocation user-invocable
    model effort context agent hooks license compatibility metadata version
""".split()  # noqa: SIM905 - one name a line would fill the page
# What a skill of Claude Code can set for its own run, and Bullpen leaves as it is.
_NOT_APPLIED = ("allowed-tools", "model", "effort", "context", "agent", "hooks", "shell", "paths")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. `folder` has further files, which the agent reads when it needs them."""

    name: str
    description: str
    folder: str
    body: str
    # Fields that have no effect here.
    not_applied: tuple[str, ...] = ()
    # Whether only people may ask for it.
    for_people: bool = False

    def told(self, arguments: str | None = None, *, folder: str | None = None) -> str:
        """The skill for a model, which may read its further files in `folder`."""
        where = folder or self.folder
        given = (arguments or "").strip()
        body = self.body.replace("${CLAUDE_SKILL_DIR}", where)
        if "$ARGUMENTS" in body:
            body = body.replace("$ARGUMENTS", given)
        elif given:
            body = f"{body}\n\nArguments: {given}"
        if len(body) > BODY_CHARS_MAX:
            body = f"{body[:BODY_CHARS_MAX]}\n(Cut here. Read {where}/{FILE} for the rest.)"
        lines = [f"Skill {self.name}. Its folder is {where}; paths in it are relative to that."]
        if self.not_applied:
            lines.append(f"These fields of it change nothing here: {', '.join(self.not_applied)}.")
        return "\n".join(lines) + f"\n\n{body}"


@dataclass(slots=True)
class Skills:
    """The skills of an agent, the nearest of each name; and what was left out, with the reason."""

    found: dict[str, Skill] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def offered(self) -> list[Skill]:
        """Those that a model may load, in the order of their names."""
        return [skill for _, skill in sorted(self.found.items()) if not skill.for_people]

    def listed(self, chars_max: int = LIST_CHARS_MAX) -> str:
        """Names and descriptions for a model, within this many characters; empty without any."""
        lines = [f"- {skill.name}: {skill.description}" for skill in self.offered]
        room = chars_max - _MORE_CHARS
        each = max(_SHORTEST_CHARS, room // max(1, len(lines)))
        # What short descriptions leave is for the long ones.
        spare = sum(max(0, each - len(line) - 1) for line in lines)
        long = sum(len(line) >= each for line in lines)
        each += spare // long if long else 0
        shown: list[str] = []
        for line in lines:
            line = line if len(line) < each else f"{line[: each - 2]}…"
            room -= len(line) + 1
            if room < 0:
                break
            shown.append(line)
        if len(shown) < len(lines):
            shown.append(f"- {len(lines) - len(shown)} more: call Skill without a name.")
        return "\n".join(shown)


def list_skills(cwd: Path, files: PromptFiles) -> Skills:
    """The skills for a directory: from it up to the git root, then the user's."""
    skills = Skills()
    for folder, of_user in skill_folders(cwd, files.user_home, files.claude_home):
        if not of_user and not below(str(folder), files.root):
            skills.left_out[str(folder)] = f"it leads out of the project {files.root}"
            continue
        for path in _in(folder, skills):
            _add(skills, path, files, of_user=of_user)
    skills.left_out = {**files.left_out, **skills.left_out}
    return skills


def skill_folders(cwd: Path, user_home: str, claude_home: str) -> Iterator[tuple[Path, bool]]:
    """The real path of each folder of skills that exists, and whether it is the user's."""
    own = [Path(user_home, ".bullpen/skills"), Path(claude_home, "skills")]
    of_user = [path.resolve() for path in own]
    of_project = [(folder / place).resolve() for folder in up_to_git_root(cwd) for place in _PLACES]
    for path in dict.fromkeys([*of_project, *of_user]):
        if os.path.isdir(path):
            yield path, path in of_user


def _in(folder: Path, skills: Skills) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name for _, entry in zip(range(_FOLDERS_MAX), entries, strict=False)
            )
    except OSError as error:
        skills.left_out[str(folder)] = error.strerror or str(error)
        return []
    return [folder / name / FILE for name in names if os.path.lexists(folder / name / FILE)]


def _add(skills: Skills, path: Path, files: PromptFiles, *, of_user: bool) -> None:
    """Add the skill in a file; a nearer one of the same name stays."""
    file = files.read(path, of_user=of_user)
    if file is None:
        return
    try:
        skill = _skill(path, file)
    except Unreadable as error:
        skills.left_out[str(path)] = error.why
        return
    known = skills.found.get(skill.name)
    if known is not None and Path(known.folder).parent == path.parent.parent:
        skills.left_out[str(path)] = f"the name {skill.name!r} is taken by {known.folder}"
        return
    skills.found.setdefault(skill.name, skill)


def _skill(path: Path, file: PromptFile) -> Skill:
    if file.size >= FILE_BYTES_MAX:
        raise Unreadable(str(path), f"it is larger than {FILE_BYTES_MAX} bytes")
    fields, body = front_matter(path, file.text, _NAMES) or ({}, file.text.strip())
    name = str(fields.get("name") or "").strip()
    if _NAME.fullmatch(name) is None:
        name = path.parent.name
    if _NAME.fullmatch(name) is None:
        raise Unreadable(str(path), "its name has other characters than letters, digits and -._:")
    words = " ".join(str(fields[key]) for key in ("description", "when_to_use") if fields.get(key))
    return Skill(
        name=name,
        description=one_line(words or _first_paragraph(body), _DESCRIPTION_CHARS_MAX),
        folder=str(path.parent),
        body=harmless(body),
        not_applied=tuple(key for key in _NOT_APPLIED if fields.get(key)),
        for_people=_is_true(fields, "disable-model-invocation"),
    )


def _is_true(fields: Mapping[str, Any], name: str) -> bool:
    return str(fields.get(name, "")).strip().lower() == "true"


def _first_paragraph(body: str) -> str:
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("#")]
    return lines[0] if lines else ""
