"""Write a team file from a template, and say what to do next."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import anyio

from bullpen.agents.config.allowed_tests import allow_tests
from bullpen.app.settings import Settings
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.runs.interview import Interview, show_prerequisites
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.runs.dry_run import dry_run
from bullpen.runs.forge.remote import remote_page
from bullpen.runs.teamfile.prerequisites import Prerequisites, look_around, prerequisites_json
from bullpen.runs.teamfile.project import Project
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.team_records import digest_of
from bullpen.runs.teamfile.templates import (
    GOALS,
    IN_TREES,
    TEAM_FILE,
    TEMPLATES,
    WRITE_LATER,
    TemplateChoice,
    files_of,
    taken,
    write,
)
from bullpen.runs.up import StartRequest
from bullpen.team.team import Teams
from bullpen.view.text import Cell, within_sentence

_WELL_KNOWN = ("claude-code", "codex", "goose")


class Starters:
    """Writes what a team can be begun with."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def show_templates(self) -> None:
        """Show the templates."""
        if self._page.json:
            rows = [{"name": name, "about": text} for name, text in TEMPLATES.items()]
            self._page.value("templates/1", {"templates": rows})
        else:
            self._page.table(("template", "purpose"), list(TEMPLATES.items()))

    def found(self, folder: str | None) -> None:
        """Show what there is to make a team of, as JSON; nothing is written."""
        self._page.value("prerequisites/1", prerequisites_json(_look(_there(folder))))

    def make(
        self,
        session: Session,
        folder: str | None,
        choice: TemplateChoice,
        *,
        tests: str | None,
        force: bool,
    ) -> None:
        """Write the files of a template, and say what to do next."""
        choice.check()
        where = _folder(folder)
        found = look_around(where, os.environ)
        project = _tested(found.project, tests)
        written = write(where, files_of(choice, project), force=force)
        rule = allow_tests(session.settings.home, where, project.tests)
        commands = _next(choice, project, written, named=folder)
        commands = _with_deletion(session, where, commands)
        if self._page.json:
            self._page.value(
                "init/1",
                {
                    "directory": str(where),
                    "template": choice.template,
                    "files": written,
                    "tests": project.tests,
                    "next": commands,
                    "found": prerequisites_json(found),
                },
            )
            return
        self._told(choice, project, found, where, written)
        self._show_allowed(rule)
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
        self._told(choice, project, found, where, written, simulated=driver is None)
        self._show_allowed(allow_tests(session.settings.home, where, project.tests))
        self._tried(session.settings, where)
        commands = _next(choice, project, written, named=folder)
        self._show_next(_with_deletion(session, where, commands))

    def _told(
        self,
        choice: TemplateChoice,
        project: Project,
        found: Prerequisites,
        where: Path,
        written: list[str],
        *,
        simulated: bool = False,
    ) -> None:
        self._page.line(f"Wrote to {where}: {', '.join(written)}")
        for line in [*_remarks(choice, project), *_needs(choice, found, simulated=simulated)]:
            self._page.line(line)

    def _show_allowed(self, rule: str | None) -> None:
        if rule is not None:
            self._page.line(f"Agents in this directory may run the tests without asking: {rule}")

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
            problems, warnings = [str(error)], []
        else:
            # What a person leaves to decide is no concern of a file that was just written.
            problems = plan.problems
            warnings = [each for each in plan.warnings if each.startswith("the gate ")]
        if not problems:
            self._page.line(Cell("Checked: the team can start.", "good"))
        for warning in warnings:
            self._page.line(Cell(f"warning: {warning}", "attention"))
        for problem in problems:
            self._page.line(Cell(f"Fix before starting: {problem}", "attention"))


def _with_deletion(session: Session, where: Path, commands: list[str]) -> list[str]:
    """Return the commands to type next, the deletion of a former team of this name among them.

    It was created from another file, so `bullpen up` would refuse to start the new one.
    """
    file = read_team_file(where / TEAM_FILE)

    async def look(teams: Teams) -> bool:
        try:
            found = await teams.open(file.team.name).origins.get()
        except NotFound:
            return False
        return found is None or found.digest != digest_of(file)

    try:
        is_another = session.with_teams(look)
    except BullpenError:
        # `bullpen up` will say what is wrong with it.
        return commands
    if not is_another:
        return commands
    delete = f"bullpen team delete {file.team.name}{session.elsewhere}"
    at = next(n for n, command in enumerate(commands) if "bullpen up" in command)
    return [*commands[:at], delete, *commands[at:]]


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


def _needs(choice: TemplateChoice, found: Prerequisites, *, simulated: bool) -> list[str]:
    """What is still to be had before real agents can work, and how to try whether it does."""
    if choice.driver == "scripted":
        # Somebody who named it does not ask for real agents.
        return _to_have(found) if simulated and found.best == "scripted" else []
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
        lines = ["No API key and no agent program was found, so a script simulates the members."]
        lines += ["It costs nothing. For real agents, set up one of these;"]
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
            why = within_sentence(project.no_repository)
            lines.append(f"Members work in git worktrees, but {why}")
        if project.tests is None:
            lines.append("No test command was found: set the gate in TEAM.toml.")
        else:
            lines.append(f"The merge gate is the detected test command: {project.tests}")
        if choice.driver == "scripted":
            lines.append("The script writes notes, which are merged into the branch.")
    elif _lacks_goal(choice):
        lines.append("Describe the bug in TEAM.toml, where it says SYMPTOM.")
    return lines


def _next(
    choice: TemplateChoice, project: Project, files: list[str], *, named: str | None
) -> list[str]:
    """The commands to type next."""
    inside = "" if named is None else f"cd {shlex.quote(named)} && "
    if choice.template not in IN_TREES and choice.driver == "scripted":
        # There is nothing in it that has to be said first.
        return [f"{inside}bullpen up {TEAM_FILE}"]
    rest = [f"bullpen up {TEAM_FILE} --dry-run", f"bullpen up {TEAM_FILE}"]
    if choice.forge is not None:
        rest = ["bullpen forge login", f"bullpen forge check --file {TEAM_FILE}", *rest]
    if choice.template in IN_TREES:
        tops = list(dict.fromkeys(name.partition("/")[0] for name in files))
        begin = "" if project.in_git else "git init -b main && "
        # Without a commit there is nothing to make worktrees of, so everything is committed.
        what = " ".join(map(shlex.quote, tops)) if project.no_repository is None else "."
        return [f"{inside}{begin}git add {what} && git commit -m 'Add a team file'", *rest]
    if _lacks_goal(choice):
        return [f"{inside}${{EDITOR:-vi}} {TEAM_FILE}", *rest]
    return [f"{inside}{rest[0]}", *rest[1:]]


def forge_page(given: str | None) -> str:
    """Return the page of the repository that a clone came from. Raises Refused."""
    found = remote_page(_there(given))
    if found is None:
        raise Refused(
            "There is no remote on a forge here.",
            reason="no_remote",
            remedy="Run it in a clone, or add one: git remote add origin"
            " https://github.com/OWNER/REPOSITORY",
        )
    return found


def _lacks_goal(choice: TemplateChoice) -> bool:
    """Whether a person has to say first what the goal is."""
    asked = choice.template in GOALS and GOALS[choice.template][1] == WRITE_LATER
    return asked and choice.goal is None and choice.driver != "scripted"
