"""Templates of team files: what `bullpen init` writes into a project.

The files are in the folder `templates`. In a TEAM.toml, `{{word}}` is replaced by a value. A line
that begins with `@word ` or `@!word `, perhaps with several, is written only if the condition holds
or does not hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.contracts.installed_parts import find_part
from bullpen.agents.drivers.registry import DRIVERS, capabilities_of
from bullpen.agents.system.vendors.programs import PROGRAMS
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.runs.teamfile.dry_run.sizes import DOLLARS, SIZES, TURNS, sized
from bullpen.runs.teamfile.project import Project
from bullpen.runs.teamfile.schema import shipped
from bullpen.runs.teamfile.tables import nearest

TEAM_FILE = "TEAM.toml"
SCHEMA = ".bullpen/team-file.schema.json"
SCRIPT = "script.toml"

TEMPLATES = {
    "review": "Three agents review one change; the lead writes one review",
    "backlog": "Unattended work on a list of tasks, tested and merged",
    "specialists": "A permanent team; each task goes to the right skills",
    "debug": "Competing hypotheses about one bug, and a judge",
}
"""The templates, and what each is for."""

IN_TREES = ("backlog", "specialists")
"""The templates whose members have their own worktrees."""

WRITE_LATER = "write it into TEAM.toml later"
GOALS = {
    "review": ("What should they review?", "what this branch changes"),
    "debug": ("What is the bug: what did you do, see and expect?", WRITE_LATER),
}
"""The templates whose lead has a goal: the question for it, and what the template itself says."""

FORGE_TEMPLATE = "backlog"
"""The template whose tasks can be the issues of a forge."""

_LIST = "BACKLOG.md"

_FOLDER = Path(__file__).parent.with_name("templates")
_CONDITION = re.compile(r"@(!?)([a-z]+) ?(.*)")
_WORD = re.compile(r"\{\{([a-z]+)\}\}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_MAX = 40
# Models with known prices, so that a budget in dollars is possible.
_PRICED = ("claude", "gpt", "anthropic:", "openai:")


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """The choices for a team file."""

    template: str
    driver: str = "native"
    model: str | None = None
    # The number of members besides a lead, and the budget; None means the default.
    members: int | None = None
    turns: int | None = None
    usd: float | None = None
    # What to review, or the bug; None means what the template says.
    goal: str | None = None
    # The page of the repository whose issues become tasks, if they do.
    forge: str | None = None

    @property
    def is_priced(self) -> bool:
        """Return whether the price is known, so that a budget in dollars is possible."""
        if self.driver == "native":
            return self.model is None or self.model.startswith(_PRICED)
        return self.driver in PROGRAMS and PROGRAMS[self.driver].tells_cost

    def check(self) -> None:
        """Refuse choices that do not exist. Raises Invalid."""
        if self.template not in TEMPLATES:
            known = list(TEMPLATES)
            raise Invalid(
                f"There is no template {self.template!r}{nearest(self.template, known)}.",
                remedy="List the templates: bullpen init --list",
            )
        if self.driver == "acp" or not _is_driver(self.driver):
            known = [name for name in DRIVERS if name != "acp"]
            raise Invalid(
                f"There is no template for the driver {self.driver!r}"
                f"{nearest(self.driver, known)}.",
                remedy="List the drivers: bullpen drivers",
            )
        if self.model is not None and not self.model.isprintable():
            raise Invalid(f"{self.model!r} is not a model.", remedy="Name a model, or omit it.")
        if self.goal is not None and self.template not in GOALS:
            raise Invalid(
                f"The template {self.template} has no goal: its members work on tasks.",
                remedy="List the tasks in BACKLOG.md instead, and omit --goal.",
            )
        if self.goal is not None and not (self.goal.isprintable() and self.goal.strip()):
            raise Invalid(
                "The goal is not one line of printable characters.",
                remedy="Shorten it to a line, or write it into TEAM.toml.",
            )
        if self.forge is not None and self.template != FORGE_TEMPLATE:
            raise Invalid(
                f"The template {self.template} takes no issues.",
                remedy=f"Use the template {FORGE_TEMPLATE}, or omit --forge.",
            )
        size = SIZES[self.template]
        if self.members is not None and not size.least <= self.members <= size.most:
            raise Invalid(
                f"The template {self.template} is for {size.least} to {size.most} {size.who},"
                f" not for {self.members}.",
                remedy="Choose a number in that range, or add members in TEAM.toml.",
            )
        if self.usd is not None and not self.is_priced:
            raise Invalid(
                f"The price of {self.driver} is unknown, so a budget in dollars is not possible.",
                remedy="Limit its turns instead: --budget-turns N",
            )


def files_of(choice: TemplateChoice, project: Project) -> dict[str, str]:
    """Return the files of a template for a project, by path. Raises Invalid."""
    choice.check()
    top = _FOLDER / choice.template
    values, holds = _known(choice, project)
    files = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_dir() or (name == SCRIPT and choice.driver != "scripted"):
            continue
        if name == _LIST and choice.forge is not None:
            continue
        text = path.read_text(encoding="utf-8")
        files[name] = filled(text, values, holds) if name in (TEAM_FILE, SCRIPT) else text
    # Without the roles of members that are left out.
    return {
        **{
            name: text
            for name, text in files.items()
            if not name.startswith("roles/") or f'"{name}"' in files[TEAM_FILE]
        },
        SCHEMA: shipped(),
    }


def write(folder: Path, files: Mapping[str, str], *, force: bool) -> list[str]:
    """Write files into a folder, all of them or none. Returns their paths.

    Raises:
        Refused: some exist already (file_exists), unless `force`.
    """
    there = taken(folder, files)
    if there and not force:
        raise Refused(
            f"{folder} already has {', '.join(there)}. Nothing was written.",
            reason="file_exists",
            remedy="Move them away, choose another folder, or overwrite them with --force.",
        )
    _put(folder, files)
    return list(files)


def taken(folder: Path, files: Iterable[str]) -> list[str]:
    """Return the files that already exist."""
    # The schema is always the same.
    return [name for name in files if name != SCHEMA and os.path.lexists(folder / name)]


def filled(text: str, values: Mapping[str, str], holds: Mapping[str, bool]) -> str:
    """Return the text of a template with its values filled in."""
    return "\n".join(_lines(text, values, holds))


def _lines(text: str, values: Mapping[str, str], holds: Mapping[str, bool]) -> Iterator[str]:
    for line in text.split("\n"):
        shown = line
        while condition := _CONDITION.match(shown):
            if holds[condition[2]] == bool(condition[1]):
                break
            shown = condition[3]
        else:
            yield _WORD.sub(lambda found: values[found[1]], shown)


def _change(base: str | None) -> str:
    """Return what a review is about, unless the user says it."""
    if base is None:
        return "the last commit (git show HEAD)"
    return (
        f"what this branch changes compared to {base}\n"
        f"(git diff {base}...HEAD; if that is empty, the last commit)"
    )


def _known(choice: TemplateChoice, project: Project) -> tuple[dict[str, str], dict[str, bool]]:
    scripted = choice.driver == "scripted"
    gate = project.tests
    driver = [f'driver = "{choice.driver}"']
    if scripted:
        driver.append(f'script = "{SCRIPT}"')
    elif choice.model is not None:
        driver.append(f"model = {_quoted(choice.model)}")
    size, large = sized(choice.template, choice.members)
    values = {
        **size,
        "turns": str(choice.turns or TURNS[choice.template]),
        "usd": str(float(choice.usd or DOLLARS[choice.template])),
        "team": _team(project.folder),
        "branch": _inside(project.branch or "main"),
        "change": _inside(_change(project.base)),
        "gate": _inside(gate or ""),
        "goal": _inside(choice.goal or ""),
        "forge": _inside(choice.forge or ""),
        "driver": "\n".join(driver),
    }
    return values, {
        "gate": gate is not None,
        "goal": choice.goal is not None,
        "forge": choice.forge is not None,
        "scripted": scripted,
        **large,
        "money": choice.is_priced,
        "plan": not scripted and _has_plans(choice.driver),
    }


def _is_driver(name: str) -> bool:
    return name in DRIVERS or find_part("driver", name, DRIVERS) is not None


def _has_plans(driver: str) -> bool:
    try:
        return capabilities_of(driver).plan_mode
    except BullpenError:
        return False


def _team(folder: Path) -> str:
    """Return a name for a team, from its folder."""
    name = _NOT_IN_NAMES.sub("-", folder.resolve().name).strip("-_")[:_NAME_MAX]
    return name or "project"


def _quoted(text: str) -> str:
    return f'"{_inside(text)}"'


def _inside(text: str) -> str:
    """Return a text for use between two quotes in TOML."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _put(folder: Path, files: Mapping[str, str]) -> None:
    """Write files; an interruption leaves no new files behind.

    A link is replaced itself, not its target.
    """
    made: list[Path] = []
    try:
        staged = [
            (_staged(folder / name, text, made), folder / name) for name, text in files.items()
        ]
        for beside, path in staged:
            if not os.path.lexists(path):
                made.append(path)
            os.replace(beside, path)
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise


def _staged(path: Path, text: str, made: list[Path]) -> Path:
    """Write a file beside its place. It and its new folders are added to `made`."""
    for above in reversed(path.parents):
        if not above.exists():
            made.append(above)
            above.mkdir()
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    made.append(beside)
    with open(beside, "x", encoding="utf-8") as file:
        file.write(text)
    return beside
