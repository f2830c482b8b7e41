"""The questions of `bullpen init`, with their default answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from bullpen.doors.cli.output.page import Page
from bullpen.errors import Invalid, Refused
from bullpen.runs.teamfile.dry_run.sizes import DOLLARS, SIZES, TURNS
from bullpen.runs.teamfile.prerequisites import Prerequisites
from bullpen.runs.teamfile.tables import nearest
from bullpen.runs.teamfile.templates import GOALS, TEMPLATES, TemplateChoice
from bullpen.view.text import within_sentence

T = TypeVar("T")

_NONE = "-"
_TRIES = 5


def show_prerequisites(page: Page, found: Prerequisites) -> None:
    """Show what was found on this machine and in the project, and what is missing."""
    project = found.project
    page.title("Found:")
    page.fields(
        [
            ("  git", f"{found.git}, {_tree(found)}" if found.git else _missing("git")),
            ("  tests", project.tests or "no test command found"),
            ("  tmux", found.tmux or "not found (only needed for --backend tmux)"),
            ("  keys", _keys(found)),
            ("  programs", ", ".join(_programs(found)) or "none; see: bullpen drivers"),
        ]
    )


class Interview:
    """Asks for what no option has said."""

    def __init__(self, page: Page, found: Prerequisites) -> None:
        self._page = page
        self._found = found

    def choose(
        self,
        *,
        driver: str | None,
        tests: str | None,
        stated: TemplateChoice,
    ) -> tuple[TemplateChoice, str | None]:
        """What is wanted, and the command that runs the tests. Options are not asked for."""
        self._page.line()
        self._page.line(
            "Press Enter to accept the value in [brackets]. Ctrl-C quits and writes nothing."
        )
        template = self._one_of("Which workflow?", list(TEMPLATES.items()), "review")
        choice = replace(stated, template=template, driver=driver or self._driver())
        choice.check()
        if choice.goal is None and template in GOALS and choice.driver != "scripted":
            choice = replace(choice, goal=self._goal(template))
        if choice.members is None:
            choice = replace(choice, members=self._members(template))
        if tests is None:
            tests = self._tests()
        return self._bounded(choice), None if tests == _NONE else tests

    def _driver(self) -> str:
        offered = [(each.name, _about(each.name, self._found)) for each in self._found.usable]
        if len(offered) == 1:
            return offered[0][0]
        return self._one_of("Which agent program?", offered, self._found.best)

    def _goal(self, template: str) -> str | None:
        """What the lead is told; None is what the template says."""
        question, usual = GOALS[template]
        said = self._ask(question, usual, _printable)
        return None if said == usual else said

    def _members(self, template: str) -> int:
        size = SIZES[template]
        return self._ask(
            f"How many {size.who}, {size.least} to {size.most}?",
            str(size.usual),
            lambda text: _number(text, size.least, size.most),
        )

    def _tests(self) -> str:
        found = self._found.project.tests or _NONE
        return self._ask(f"Which command runs the tests? Type {_NONE} for none.", found, _printable)

    def _bounded(self, choice: TemplateChoice) -> TemplateChoice:
        if choice.driver == "scripted" or choice.usd is not None or choice.turns is not None:
            return choice
        if choice.is_priced:
            usual = f"{DOLLARS[choice.template]:g}"
            return replace(choice, usd=self._ask("Stop at how many US dollars?", usual, _dollars))
        usual = str(TURNS[choice.template])
        question = f"Stop after how many turns? ({choice.driver} does not report its cost.)"
        return replace(
            choice, turns=self._ask(question, usual, lambda text: _number(text, 1, 100_000))
        )

    def _one_of(self, question: str, offered: Sequence[tuple[str, str]], usual: str) -> str:
        names = [name for name, _ in offered]
        width = max(map(len, names))
        self._page.line()
        self._page.title(question)
        for number, (name, about) in enumerate(offered, 1):
            self._page.line(f"  {number}  {name:<{width}}  {about}")

        def named(text: str) -> str:
            if text.isdecimal() and 1 <= int(text) <= len(names):
                return names[int(text) - 1]
            if text in names:
                return text
            raise Invalid(
                f"{text!r} is not one of them{nearest(text, names)}.",
                remedy=f"Type a name, or a number from 1 to {len(names)}.",
            )

        return self._ask(None, usual, named)

    def _ask(self, question: str | None, usual: str, read: Callable[[str], T]) -> T:
        """The answer to a question, which is asked again while it makes no sense."""
        if question is not None:
            self._page.line()
            self._page.title(question)
        for _ in range(_TRIES):
            self._page.flush()
            print(f"[{usual}] > ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:
                print(file=sys.stderr)
                break
            try:
                return read(line.strip() or usual)
            except Invalid as error:
                print(f"  {error.message} {error.remedy or ''}".rstrip(), file=sys.stderr)
        raise Refused(
            "No answer was given, so nothing was written.",
            reason="not_confirmed",
            remedy="Use options instead: bullpen init --help",
        )


def _tree(found: Prerequisites) -> str:
    project = found.project
    if project.no_repository is not None:
        return within_sentence(project.no_repository)
    where = f"branch {project.branch}" if project.branch else "no branch checked out"
    if found.uncommitted is None:
        return f"{where}; could not check for uncommitted changes"
    if found.uncommitted == 0:
        return f"{where}, everything is committed"
    return f"{where}, {found.uncommitted} uncommitted changes"


def _missing(program: str) -> str:
    return f"not found; teams with worktrees need {program}"


def _keys(found: Prerequisites) -> str:
    if not found.keys:
        # Models of other providers have to be named.
        named = [f"; or name a model: {prefix}:MODEL" for prefix in found.others[:1]]
        return f"none set (ANTHROPIC_API_KEY, OPENAI_API_KEY){''.join(named)}"
    lacking = found.lacks("native")
    return f"{', '.join(found.keys)} set; {lacking or 'not tried'}"


def _programs(found: Prerequisites) -> list[str]:
    shown = [f"{each.name} ({each.path})" for each in found.usable if each.path is not None]
    return shown + [f"{each.name} ({each.missing})" for each in found.nearly if each.path]


def _about(name: str, found: Prerequisites) -> str:
    title = next(each.title for each in found.usable if each.name == name)
    if name == "native":
        return f"{title}; {', '.join(found.keys)} set"
    return f"{title}; no model, no cost" if name == "scripted" else title


def _number(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most):
        raise Invalid(
            f"{text!r} is not a number from {least} to {most}.", remedy="Type such a number."
        )
    return int(text)


def _dollars(text: str) -> float:
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 1_000_000:
        raise Invalid(
            f"{text!r} is not an amount of money.", remedy="Type an amount such as 5 or 0.50."
        )
    return value


def _printable(text: str) -> str:
    if not text.isprintable():
        raise Invalid(
            "The text has characters that cannot be printed.",
            remedy="Type one line of printable characters.",
        )
    return text
