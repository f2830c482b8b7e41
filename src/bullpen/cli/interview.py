"""`bullpen init` at a terminal: what it asks, and what it takes when somebody just types Enter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from bullpen.cli.render import Page
from bullpen.errors import Invalid, Refused
from bullpen.teamfile.outfit import Outfit
from bullpen.teamfile.sizes import DOLLARS, SIZES, TURNS
from bullpen.teamfile.tables import nearest
from bullpen.teamfile.templates import TEMPLATES, Choice

T = TypeVar("T")

_NONE = "-"
_TRIES = 5


def show_outfit(page: Page, outfit: Outfit) -> None:
    """Say what is there, and what of it is missing."""
    project = outfit.project
    page.title("What is here:")
    page.fields(
        [
            ("  git", f"{outfit.git}, {_tree(outfit)}" if outfit.git else _missing("git")),
            ("  tests", project.tests or "no command found that runs them"),
            ("  tmux", outfit.tmux or "not found; only --backend tmux needs it"),
            ("  keys", _keys(outfit)),
            ("  programs", ", ".join(_programs(outfit)) or "none; see: bullpen drivers"),
        ]
    )


class Interview:
    """Asks for what no option has said."""

    def __init__(self, page: Page, outfit: Outfit) -> None:
        self._page = page
        self._outfit = outfit

    def choose(
        self,
        *,
        driver: str | None,
        tests: str | None,
        stated: Choice,
    ) -> tuple[Choice, str | None]:
        """What is wanted, and the command that runs the tests. Options are not asked for."""
        self._page.line()
        self._page.line("Enter takes what stands in [brackets]. Ctrl-C leaves, and writes nothing.")
        template = self._one_of("Which workflow?", list(TEMPLATES.items()), "review")
        choice = replace(stated, template=template, driver=driver or self._driver())
        choice.check()
        if choice.members is None:
            choice = replace(choice, members=self._members(template))
        if tests is None:
            tests = self._tests()
        return self._bounded(choice), None if tests == _NONE else tests

    def _driver(self) -> str:
        offered = [(each.name, _about(each.name, self._outfit)) for each in self._outfit.usable]
        if len(offered) == 1:
            return offered[0][0]
        return self._one_of("Who are its members?", offered, self._outfit.best)

    def _members(self, template: str) -> int:
        size = SIZES[template]
        return self._ask(
            f"How many {size.who}, {size.least} to {size.most}?",
            str(size.usual),
            lambda text: _number(text, size.least, size.most),
        )

    def _tests(self) -> str:
        found = self._outfit.project.tests or _NONE
        return self._ask(f"Which command runs the tests? {_NONE} for none.", found, _command)

    def _bounded(self, choice: Choice) -> Choice:
        if choice.driver == "scripted" or choice.usd is not None or choice.turns is not None:
            return choice
        if choice.is_priced:
            usual = f"{DOLLARS[choice.template]:g}"
            return replace(choice, usd=self._ask("Stop at how many US dollars?", usual, _dollars))
        usual = str(TURNS[choice.template])
        question = f"Stop after how many turns? ({choice.driver} does not say what it costs.)"
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
                f"{text!r} is none of them{nearest(text, names)}.",
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
            "There was no answer, so nothing was written.",
            reason="not_confirmed",
            remedy="Say it with options instead: bullpen init --help",
        )


def _tree(outfit: Outfit) -> str:
    project = outfit.project
    if project.no_repository is not None:
        return project.no_repository
    where = f"branch {project.branch}" if project.branch else "no branch checked out"
    if outfit.uncommitted is None:
        return f"{where}; whether all is committed could not be found out"
    if outfit.uncommitted == 0:
        return f"{where}, all is committed"
    return f"{where}, {outfit.uncommitted} not committed"


def _missing(program: str) -> str:
    return f"not found; teams whose members have trees of their own need {program}"


def _keys(outfit: Outfit) -> str:
    if not outfit.keys:
        return "none set (ANTHROPIC_API_KEY, OPENAI_API_KEY)"
    lacking = outfit.lacks("native")
    return f"{', '.join(outfit.keys)} set; {lacking or 'not tried'}"


def _programs(outfit: Outfit) -> list[str]:
    shown = [f"{each.name} ({each.path})" for each in outfit.usable if each.path is not None]
    return shown + [f"{each.name} ({each.missing})" for each in outfit.nearly if each.path]


def _about(name: str, outfit: Outfit) -> str:
    title = next(each.title for each in outfit.usable if each.name == name)
    if name == "native":
        return f"{title}; {', '.join(outfit.keys)} set"
    return f"{title}; no model, no cost" if name == "scripted" else title


def _number(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most):
        raise Invalid(f"{text!r} is no number from {least} to {most}.")
    return int(text)


def _dollars(text: str) -> float:
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 1_000_000:
        raise Invalid(f"{text!r} is no amount of money.", remedy="Type one, as 5 or 0.50.")
    return value


def _command(text: str) -> str:
    if not text.isprintable():
        raise Invalid("A command has one line of plain characters.")
    return text
