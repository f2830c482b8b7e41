"""Team files to begin with: what `bullpen init` writes into a project.

The files are in the folder `templates` of the package. In a TEAM.toml, `{{word}}` stands for what
is known of the project, and a line that begins with `@word ` or `@!word ` is there only if that
holds or does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.drivers.choice import DRIVERS, capabilities_of
from bullpen.agents.drivers.programs import PROGRAMS
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.teamfile.project import Project
from bullpen.teamfile.schema import shipped
from bullpen.teamfile.tables import nearest

TEAM_FILE = "TEAM.toml"
SCHEMA = ".bullpen/team-file.schema.json"
SCRIPT = "script.toml"

TEMPLATES = {
    "review": "A review panel: three readers of one change, and one review of what they find.",
    "backlog": "A backlog, worked off over night: trees, a merge queue, a gate, a budget.",
    "specialists": "Standing specialists: named roles and skills; tasks find who can do them.",
    "debug": "Rival hypotheses about one bug, and a judge.",
}
"""The templates there are, and what each is for."""

IN_TREES = ("backlog", "specialists")
"""Those whose members work in git trees of their own."""

_FOLDER = Path(__file__).parent.with_name("templates")
_CONDITION = re.compile(r"@(!?)([a-z]+) ?(.*)")
_WORD = re.compile(r"\{\{([a-z]+)\}\}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_MAX = 40
# Models whose price is known, so that a budget in money can be kept.
_PRICED = ("claude", "gpt", "anthropic:", "openai:")


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody wants a team file for."""

    template: str
    driver: str = "native"
    model: str | None = None

    def check(self) -> None:
        """Refuse what there is not. Raises Invalid."""
        if self.template not in TEMPLATES:
            known = list(TEMPLATES)
            raise Invalid(
                f"There is no template {self.template!r}{nearest(self.template, known)}.",
                remedy="See them: bullpen init --list",
            )
        if self.driver not in DRIVERS or self.driver == "acp":
            known = [name for name in DRIVERS if name != "acp"]
            raise Invalid(
                f"A template cannot be made for the driver {self.driver!r}"
                f"{nearest(self.driver, known)}.",
                remedy="See what is there: bullpen drivers",
            )
        if self.model is not None and not self.model.isprintable():
            raise Invalid(f"{self.model!r} is no model.", remedy="Name one, or leave it out.")


def files_of(choice: Choice, project: Project) -> dict[str, str]:
    """The files of a template for a project, by their paths in it.

    Raises:
        Invalid: there is no such template, or none for that driver.
    """
    choice.check()
    top = _FOLDER / choice.template
    values, holds = _known(choice, project)
    files = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_dir() or (name == SCRIPT and choice.driver != "scripted"):
            continue
        text = path.read_text(encoding="utf-8")
        files[name] = filled(text, values, holds) if name == TEAM_FILE else text
    return {**files, SCHEMA: shipped()}


def write(folder: Path, files: Mapping[str, str], *, force: bool) -> list[str]:
    """Write files into a folder, all of them or none; their paths.

    Raises:
        Refused: some are there already (file_exists), unless `force`.
    """
    taken = [name for name in files if os.path.lexists(folder / name)]
    # The schema is ours, and says the same wherever it is.
    taken = [name for name in taken if name != SCHEMA]
    if taken and not force:
        raise Refused(
            f"These files are there already in {folder}: {', '.join(taken)}. Nothing was written.",
            reason="file_exists",
            remedy="Take them away, choose another folder, or overwrite them with --force.",
        )
    for name, text in files.items():
        _put(folder / name, text)
    return list(files)


def filled(text: str, values: Mapping[str, str], holds: Mapping[str, bool]) -> str:
    """The text of a template with all that is known filled in."""
    return "\n".join(_lines(text, values, holds))


def _lines(text: str, values: Mapping[str, str], holds: Mapping[str, bool]) -> Iterator[str]:
    for line in text.split("\n"):
        shown = line
        if condition := _CONDITION.match(line):
            if holds[condition[2]] == bool(condition[1]):
                continue
            shown = condition[3]
        yield _WORD.sub(lambda found: values[found[1]], shown)


def _known(choice: Choice, project: Project) -> tuple[dict[str, str], dict[str, bool]]:
    scripted = choice.driver == "scripted"
    gate = project.tests
    driver = [f'driver = "{choice.driver}"']
    if scripted:
        driver.append(f'script = "{SCRIPT}"')
    elif choice.model is not None:
        driver.append(f"model = {_quoted(choice.model)}")
    values = {
        "team": _team(project.folder),
        "branch": _inside(project.branch or "main"),
        "gate": _inside(gate or ""),
        "driver": "\n".join(driver),
    }
    return values, {
        "gate": gate is not None,
        "scripted": scripted,
        "money": _is_priced(choice),
        "plan": not scripted and _has_plans(choice.driver),
    }


def _is_priced(choice: Choice) -> bool:
    if choice.driver == "native":
        return choice.model is None or choice.model.startswith(_PRICED)
    return choice.driver in PROGRAMS and PROGRAMS[choice.driver].tells_cost


def _has_plans(driver: str) -> bool:
    try:
        return capabilities_of(driver).plan_mode
    except BullpenError:
        return False


def _team(folder: Path) -> str:
    """A name for a team, after its folder."""
    name = _NOT_IN_NAMES.sub("-", folder.resolve().name).strip("-_")[:_NAME_MAX]
    return name or "project"


def _quoted(text: str) -> str:
    return f'"{_inside(text)}"'


def _inside(text: str) -> str:
    """A text as it stands between two quotes of TOML."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _put(path: Path, text: str) -> None:
    """Write a file in one go. What is a link is replaced, not what it leads to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(beside, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
