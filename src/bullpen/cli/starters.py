"""Team files to begin with, as commands write them and say what to do next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from bullpen.cli.render import Page
from bullpen.cli.session import directory
from bullpen.errors import NotFound
from bullpen.teamfile.project import Project, look_at
from bullpen.teamfile.schema import shipped
from bullpen.teamfile.templates import IN_TREES, TEAM_FILE, TEMPLATES, Choice, files_of, write


class Starters:
    """Writes what a team can be begun with."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def list(self) -> None:
        """Show the templates."""
        if self._page.json:
            self._page.value([{"name": name, "about": text} for name, text in TEMPLATES.items()])
        else:
            self._page.table(("template", "what for"), list(TEMPLATES.items()))

    def schema(self) -> None:
        """Show the schema of team files."""
        self._page.value(json.loads(shipped()))

    def make(
        self, folder: str | None, *, template: str, driver: str, model: str | None, force: bool
    ) -> None:
        """Write the files of a template, and say what to do next."""
        choice = Choice(template, driver, model)
        choice.check()
        where = _folder(folder)
        project = look_at(where)
        written = write(where, files_of(choice, project), force=force)
        commands = _next(choice, project, written, named=folder)
        if self._page.json:
            self._page.value(
                {
                    "directory": str(where),
                    "template": template,
                    "files": written,
                    "tests": project.tests,
                    "next": commands,
                }
            )
            return
        self._page.line(f"Wrote into {where}: {', '.join(written)}")
        for line in _remarks(choice, project):
            self._page.line(line)
        self._page.line()
        self._page.line("Next:")
        for command in commands:
            self._page.line(f"  {command}")


def _folder(given: str | None) -> Path:
    if given is None:
        return Path(directory(None))
    folder = Path(given).absolute()
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise NotFound(
            f"There is no directory {folder.parent} to make {folder.name} in.",
            remedy="Make it first, or name another.",
        ) from None
    return folder


def _remarks(choice: Choice, project: Project) -> list[str]:
    lines = []
    if choice.template in IN_TREES:
        if project.no_repository is not None:
            lines.append(f"Members work in git trees, and {project.no_repository}")
        if project.tests is None:
            lines.append("No command that runs tests was found: name your gate in TEAM.toml.")
        else:
            lines.append(f"The gate is what seems to run the tests here: {project.tests}")
        if choice.driver == "scripted":
            lines.append("The script writes notes, and they are merged into the branch.")
    elif choice.driver != "scripted":
        lines.append("Say in the goal of TEAM.toml what it is about before you start it.")
    return lines


def _next(choice: Choice, project: Project, files: list[str], *, named: str | None) -> list[str]:
    """The commands to type next."""
    inside = "" if named is None else f"cd {shlex.quote(named)} && "
    if choice.template not in IN_TREES:
        first = f"{inside}${{EDITOR:-vi}} {TEAM_FILE}"
    else:
        tops = list(dict.fromkeys(name.partition("/")[0] for name in files))
        begin = "git init && " if project.no_repository is not None else ""
        words = " ".join(map(shlex.quote, tops))
        what = "." if begin else words
        first = f"{inside}{begin}git add {what} && git commit -m 'Add a team file'"
    return [first, f"bullpen up {TEAM_FILE} --dry-run", f"bullpen up {TEAM_FILE}"]
