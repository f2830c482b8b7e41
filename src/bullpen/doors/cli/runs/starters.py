"""Write a team file from a template, and say what to do next."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import anyio

from bullpen.app.settings import Settings
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.runs.interview import Interview, show_prerequisites
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.runs.dry_run import dry_run
from bullpen.runs.teamfile.prerequisites import Prerequisites, look_around, prerequisites_json
from bullpen.runs.teamfile.project import Project
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.schema import shipped
from bullpen.runs.teamfile.templates import (
    IN_TREES,
    TEAM_FILE,
    TEMPLATES,
    TemplateChoice,
    files_of,
    taken,
    write,
)
from bullpen.runs.up import StartRequest
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
            self._page.table(("template", "purpose"), list(TEMPLATES.items()))

    def schema(self) -> None:
        """Show the schema of team files."""
        self._page.value(json.loads(shipped()))

    def found(self, folder: str | None) -> None:
        """Show what there is to make a team of, as JSON; nothing is written."""
        self._page.value(prerequisites_json(_look(_there(folder))))

    def make(
        self, folder: str | None, choice: TemplateChoice, *, tests: str | None, force: bool
    ) -> None:
        """Write the files of a template, and say what to do next."""
        choice.check()
        where = _folder(folder)
        found = look_around(where, os.environ)
        project = _tested(found.project, tests)
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
                    "found": prerequisites_json(found),
                }
            )
            return
        self._told(choice, project, found, where, written)
        self._show_next(commands)

    def ask(
        self,
        session: Session,
        folder: str | None,
        choice: TemplateChoice,
        *,
        driver: str | None,
        tests: str | None,
        force: bool,
    ) -> None:
        """Ask a person what they have and want, write that, and see whether it can be started."""
        where = _there(folder)
        found = _look(where)
        show_prerequisites(self._page, found)
        interview = Interview(self._page, found)
        choice, command = interview.choose(driver=driver, tests=tests, stated=choice)
        project = replace(found.project, tests=command)
        files = files_of(choice, project)
        if not force and (there := taken(where, files)):
            self._page.line()
            self._page.line(f"Already in {where}: {', '.join(there)}")
            self._page.flush()
            _overwrite(session)
        written = write(where, files, force=True)
        self._page.line()
        self._told(choice, project, found, where, written)
        self._tried(session.settings, where)
        self._show_next(_next(choice, project, written, named=folder))

    def _told(
        self,
        choice: TemplateChoice,
        project: Project,
        found: Prerequisites,
        where: Path,
        written: list[str],
    ) -> None:
        self._page.line(f"Wrote to {where}: {', '.join(written)}")
        for line in [*_remarks(choice, project), *_needs(choice, found)]:
            self._page.line(line)

    def _show_next(self, commands: list[str]) -> None:
        self._page.line()
        self._page.line("Next:")
        for command in commands:
            self._page.line(f"  {command}")

    def _tried(self, settings: Settings, where: Path) -> None:
        """Say whether the team could be started, as `bullpen up --dry-run` does."""
        try:
            request = StartRequest(read_team_file(where / TEAM_FILE), str(where))
            plan = anyio.run(dry_run, settings, request)
        except BullpenError as error:
            problems = [str(error)]
        else:
            problems = plan.problems
        if not problems:
            self._page.line(Cell("Checked: the team can start.", "good"))
        for problem in problems:
            self._page.line(Cell(f"Fix before starting: {problem}", "attention"))


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


def _look(where: Path) -> Prerequisites:
    """What there is; for a folder that is still to be made, where it will lie."""
    if where.is_dir():
        return look_around(where, os.environ)
    if not where.parent.is_dir():
        raise _no_parent(where)
    seen = look_around(where.parent, os.environ)
    return replace(seen, project=replace(seen.project, folder=where))


def _no_parent(folder: Path) -> NotFound:
    return NotFound(
        f"There is no directory {folder.parent} to create {folder.name} in.",
        remedy="Create it first, or name another directory.",
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


def _needs(choice: TemplateChoice, found: Prerequisites) -> list[str]:
    """What is still to be had before real agents can work, and how to try whether it does."""
    if choice.driver == "scripted":
        return [] if found.best != "scripted" else _to_have(found)
    if (lacking := found.lacks(choice.driver)) is not None:
        return [
            f"The driver {choice.driver} is not ready. {lacking}",
            "To simulate the members instead: bullpen init --driver scripted --force",
        ]
    whose = "" if choice.driver == "native" else f" --driver {choice.driver}"
    what = "the key" if choice.driver == "native" else f"the account of {choice.driver}"
    trying = f"bullpen run 'Say hello, then finish.'{whose} --turns 2"
    return [f"Not tested yet: {what}. Test it with one small request: {trying}"]


def _to_have(found: Prerequisites) -> list[str]:
    """What it takes to have agents that think, where only a script can play them."""
    if found.nearly:
        lines = ["The members are simulated for now. One more step makes an agent program usable;"]
        names = [each.name for each in found.nearly]
    else:
        lines = ["No API key and no agent program was found, so the members are simulated by a"]
        lines += ["script, at no cost. For real agents, set up one of"]
        lines += ["these;"]
        names = ["native", *_WELL_KNOWN]
    lines[-1] += " then run the same command with --force:"
    return [
        *lines,
        *(f"  {name}: {found.lacks(name)}" for name in names),
        "  others: bullpen drivers",
    ]


def _remarks(choice: TemplateChoice, project: Project) -> list[str]:
    lines = []
    if choice.template in IN_TREES:
        if project.no_repository is not None:
            lines.append(f"Members work in git worktrees, but {project.no_repository}")
        if project.tests is None:
            lines.append("No test command was found: set the gate in TEAM.toml.")
        else:
            lines.append(f"The merge gate is the detected test command: {project.tests}")
        if choice.driver == "scripted":
            lines.append("The script writes notes, which are merged into the branch.")
    elif choice.driver != "scripted":
        lines.append("Set the goal in TEAM.toml before you start the team.")
    return lines


def _next(
    choice: TemplateChoice, project: Project, files: list[str], *, named: str | None
) -> list[str]:
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
