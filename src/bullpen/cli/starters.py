"""Team files to begin with, as commands write them and say what to do next."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import anyio

from bullpen.app import Settings
from bullpen.cli.init import BudgetOptions
from bullpen.cli.interview import Interview, show_outfit
from bullpen.cli.render import Page
from bullpen.cli.session import Session, directory
from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.raising import Wish
from bullpen.rehearsing import rehearse
from bullpen.teamfile.outfit import Outfit, look_around, outfit_json
from bullpen.teamfile.project import Project
from bullpen.teamfile.reading import read_team_file
from bullpen.teamfile.schema import shipped
from bullpen.teamfile.templates import (
    IN_TREES,
    TEAM_FILE,
    TEMPLATES,
    Choice,
    files_of,
    taken,
    write,
)
from bullpen.view.text import Cell

_WELL_KNOWN = ("claude-code", "codex", "goose")


class Starters:
    """Writes what a team can be begun with."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def show_templates(self) -> None:
        """Show the templates."""
        if self._page.json:
            self._page.value([{"name": name, "about": text} for name, text in TEMPLATES.items()])
        else:
            self._page.table(("template", "what for"), list(TEMPLATES.items()))

    def schema(self) -> None:
        """Show the schema of team files."""
        self._page.value(json.loads(shipped()))

    def choice(
        self,
        template: str | None,
        *,
        driver: str | None,
        model: str | None,
        members: int | None,
        budget: BudgetOptions,
    ) -> Choice:
        """What options say; what they leave open is asked for, or is what the template has."""
        return Choice(
            template or "",
            driver or "native",
            model,
            members=members,
            turns=budget.budget_turns,
            usd=budget.budget_usd,
        )

    def found(self, folder: str | None) -> None:
        """Show what there is to make a team of, as JSON; nothing is written."""
        self._page.value(outfit_json(_look(_there(folder))))

    def make(self, folder: str | None, choice: Choice, *, tests: str | None, force: bool) -> None:
        """Write the files of a template, and say what to do next."""
        choice.check()
        where = _folder(folder)
        outfit = look_around(where, os.environ)
        project = _tested(outfit.project, tests)
        written = write(where, files_of(choice, project), force=force)
        commands = _next(choice, project, written, named=folder)
        if self._page.json:
            self._page.value(
                {
                    "directory": str(where),
                    "template": choice.template,
                    "files": written,
                    "tests": project.tests,
                    "next": commands,
                    "found": outfit_json(outfit),
                }
            )
            return
        self._told(choice, project, outfit, where, written)
        self._show_next(commands)

    def ask(
        self,
        session: Session,
        folder: str | None,
        choice: Choice,
        *,
        driver: str | None,
        tests: str | None,
        force: bool,
    ) -> None:
        """Ask a person what they have and want, write that, and see whether it can be started."""
        where = _there(folder)
        outfit = _look(where)
        show_outfit(self._page, outfit)
        interview = Interview(self._page, outfit)
        choice, command = interview.choose(driver=driver, tests=tests, stated=choice)
        project = replace(outfit.project, tests=command)
        files = files_of(choice, project)
        if not force and (there := taken(where, files)):
            self._page.line()
            self._page.line(f"There already in {where}: {', '.join(there)}")
            self._page.flush()
            _overwrite(session)
        written = write(where, files, force=True)
        self._page.line()
        self._told(choice, project, outfit, where, written)
        self._tried(session.settings, where)
        self._show_next(_next(choice, project, written, named=folder))

    def _told(
        self, choice: Choice, project: Project, outfit: Outfit, where: Path, written: list[str]
    ) -> None:
        self._page.line(f"Wrote into {where}: {', '.join(written)}")
        for line in [*_remarks(choice, project), *_needs(choice, outfit)]:
            self._page.line(line)

    def _show_next(self, commands: list[str]) -> None:
        self._page.line()
        self._page.line("Next:")
        for command in commands:
            self._page.line(f"  {command}")

    def _tried(self, settings: Settings, where: Path) -> None:
        """Say whether the team could be started, as `bullpen up --dry-run` does."""
        try:
            plan = anyio.run(
                rehearse, settings, Wish(read_team_file(where / TEAM_FILE), str(where))
            )
        except BullpenError as error:
            problems = [str(error)]
        else:
            problems = plan.problems
        if not problems:
            self._page.line(Cell("Checked: it can be started.", "good"))
        for problem in problems:
            self._page.line(Cell(f"Before it can be started: {problem}", "attention"))


def _overwrite(session: Session) -> None:
    try:
        session.confirm("Overwrite?", yes=False)
    except Refused:
        raise Refused(
            "Nothing was written.",
            reason="file_exists",
            remedy="Name another folder: bullpen init DIR",
        ) from None


def _there(given: str | None) -> Path:
    """The folder that was named, which need not be there yet."""
    return Path(directory(given))


def _look(where: Path) -> Outfit:
    """What there is; for a folder that is still to be made, where it will lie."""
    if where.is_dir():
        return look_around(where, os.environ)
    if not where.parent.is_dir():
        raise _no_parent(where)
    seen = look_around(where.parent, os.environ)
    return replace(seen, project=replace(seen.project, folder=where))


def _no_parent(folder: Path) -> NotFound:
    return NotFound(
        f"There is no directory {folder.parent} to make {folder.name} in.",
        remedy="Make it first, or name another.",
    )


def _folder(given: str | None) -> Path:
    folder = _there(given)
    if given is None:
        return folder
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise _no_parent(folder) from None
    return folder


def _tested(project: Project, command: str | None) -> Project:
    if command is None:
        return project
    return replace(project, tests=None if command in {"", "-"} else command)


def _needs(choice: Choice, outfit: Outfit) -> list[str]:
    """What is still to be had before real agents can work, and how to try whether it does."""
    if choice.driver == "scripted":
        return [] if outfit.best != "scripted" else _to_have(outfit)
    if (lacking := outfit.lacks(choice.driver)) is not None:
        return [
            f"The driver {choice.driver} cannot be used yet. {lacking}",
            "Without: bullpen init --driver scripted --force has a script play the members.",
        ]
    whose = "" if choice.driver == "native" else f" --driver {choice.driver}"
    what = "the key" if choice.driver == "native" else f"the account of {choice.driver}"
    trying = f"bullpen run 'Say hello, then finish.'{whose} --turns 2"
    return [f"Nobody has tried whether {what} works. One small request tells: {trying}"]


def _to_have(outfit: Outfit) -> list[str]:
    """What it takes to have agents that think, where only a script can play them."""
    if outfit.nearly:
        lines = ["A script plays the team for now. What you have can be used after one more step;"]
        names = [each.name for each in outfit.nearly]
    else:
        lines = ["Neither a key nor an agent program was found, so a script plays the team: all is"]
        lines += ["real but the thinking, and it costs nothing. For agents that think, have one of"]
        lines += ["these;"]
        names = ["native", *_WELL_KNOWN]
    lines[-1] += " then type the same with --force:"
    return [
        *lines,
        *(f"  {name}: {outfit.lacks(name)}" for name in names),
        "  others: bullpen drivers",
    ]


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
    if choice.template not in IN_TREES and choice.driver == "scripted":
        # There is nothing in it that has to be said first.
        return [f"{inside}bullpen up {TEAM_FILE}"]
    if choice.template not in IN_TREES:
        first = f"{inside}${{EDITOR:-vi}} {TEAM_FILE}"
    else:
        tops = list(dict.fromkeys(name.partition("/")[0] for name in files))
        begin = "git init && " if project.no_repository is not None else ""
        words = " ".join(map(shlex.quote, tops))
        what = "." if begin else words
        first = f"{inside}{begin}git add {what} && git commit -m 'Add a team file'"
    return [first, f"bullpen up {TEAM_FILE} --dry-run", f"bullpen up {TEAM_FILE}"]
