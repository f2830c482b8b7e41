"""The way from a command to the operations: who asks, about which team, and where to answer."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import typer

from bullpen.app.settings import Settings, settings_from
from bullpen.app.stores import open_teams_near, resolve_team
from bullpen.by_name import load
from bullpen.doors.cli.command import fit_to_keep, given
from bullpen.doors.cli.output.page import Page, is_terminal
from bullpen.doors.cli.output.text import tell
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.team.team import Team, Teams

if TYPE_CHECKING:
    from bullpen.app.config.files import Config
    from bullpen.doors.actions.identity import ActingIdentity

T = TypeVar("T")

_INPUT_BYTES_MAX = 16 * 1024 * 1024


class Session:
    """One command with its common options."""

    def __init__(
        self,
        *,
        home: str | None = None,
        team: str | None = None,
        actor: str | None = None,
        store: str | None = None,
        json: bool = False,
        jsonl: bool = False,
    ) -> None:
        self.home, self._store = home, store
        self._team, self._actor = team, actor
        self.json, self.jsonl = json or jsonl, jsonl
        self._told_guess = False

    @classmethod
    def of(cls, context: typer.Context) -> Session:
        """The session that the options of a command and of the groups above it describe."""
        json, jsonl = given(context, "common_json"), given(context, "common_jsonl")
        if json and jsonl:
            raise typer.BadParameter("pass --json or --jsonl, not both.", ctx=context)
        return cls(
            home=given(context, "home"),
            team=given(context, "common_team"),
            actor=given(context, "common_as"),
            store=given(context, "store"),
            json=bool(json),
            jsonl=bool(jsonl),
        )

    @cached_property
    def settings(self) -> Settings:
        """Where the teams live, which one is meant, who acts."""
        if self.home and "\0" in self.home:
            raise Invalid(f"{self.home!r} cannot be a directory.", remedy="Check --home.")
        return settings_from(
            os.environ, home=self.home, team=self._team, agent=self._actor, store=self._store
        )

    @cached_property
    def identity(self) -> ActingIdentity:
        """Who acts, as far as the system can tell. Ask it before anything is written."""
        # Whoever only reads need not find out whose process this is.
        made: type[ActingIdentity] = load("bullpen.doors.actions.identity:ActingIdentity")
        return made(self.settings)

    @property
    def acts_as(self) -> str | None:
        """The member that was named as the one who acts, if one was."""
        return self._actor

    def act_as(self, name: str) -> None:
        """Take another name for the one who acts."""
        self._actor = name
        for known in ("settings", "identity"):
            vars(self).pop(known, None)

    @property
    def team(self) -> str | None:
        """The team that was named, if one was."""
        return self.settings.team

    @property
    def elsewhere(self) -> str:
        """The options that a command to try next needs to reach the same teams."""
        named = {"--home": self.home, "--store": self._store}
        return "".join(f" {key} {shlex.quote(value)}" for key, value in named.items() if value)

    def with_teams(self, operation: Callable[[Teams], Awaitable[T]]) -> T:
        """What an operation on all teams answers."""

        answers: list[T] = []

        async def run() -> None:
            async with open_teams_near(self.settings) as teams:
                answers.append(await operation(teams))

        # Not the result of the task: at its end, Python 3.11 makes a text of that and drops it.
        anyio.run(run)
        return answers[0]

    def with_team(self, operation: Callable[[Team], Awaitable[T]], *, name: str | None = None) -> T:
        """What an operation on one team answers: the one named here, or the one that is meant."""

        async def run(teams: Teams) -> T:
            return await operation(teams.open(name or await self.resolved(teams)))

        return self.with_teams(run)

    async def resolved(self, teams: Teams) -> str:
        """The name of the team that is meant: named, the only one, or the latest one here."""
        try:
            here = os.getcwd()
        except FileNotFoundError:
            here = None
        return await resolve_team(teams, self.settings, here=here, guessed=self._guessed)

    def _guessed(self, team: str, folder: str) -> None:
        if not self._told_guess:
            self._told_guess = True
            text = f"Using team {team}, the latest one in {folder}. Choose another with -t NAME."
            tell(text, hang="")

    def as_actor(
        self, operation: Callable[[Team, str], Awaitable[T]], *, name: str | None = None
    ) -> T:
        """What an operation on one team answers, in the name of whoever acts here."""

        async def run(team: Team) -> T:
            return await operation(team, await self.identity.acts(team))

        return self.with_team(run, name=name)

    def config_in(self, cwd: str | None = None) -> Config:
        """Your settings for commands in a directory, by default in the current one.

        A file that does not count is reported on standard error.
        """
        made: type[Config] = load("bullpen.app.config.files:Config")
        return made(os.environ, cwd=Path(directory(cwd)), home=self.settings.home, tell=_warn)

    @cached_property
    def at_screen(self) -> bool:
        """Whether the answer goes to a person at a terminal who wants more than plain lines."""
        return not self.json and is_terminal(sys.stdout) and not self.wants_plain

    @cached_property
    def wants_plain(self) -> bool:
        """Whether the person at this terminal has configured plain lines."""
        try:
            return bool(self.setting("plain"))
        except BullpenError as error:
            # The commands that show and edit that file have to work.
            _warn(f"{error.message} {error.remedy}")
            return False

    def setting(self, name: str) -> Any:
        """Your own setting of that name, which no project sets. Raises Invalid and Unreadable."""
        made: type[Config] = load("bullpen.app.config.files:Config")
        key = load("bullpen.app.config.keys:key_named")(name)
        # Only keys of projects need a directory.
        return made(os.environ, cwd=Path("/"), home=self.settings.home).value(key).value

    @cached_property
    def page(self) -> Page:
        """Where the answer goes: JSON, plain text, or a terminal."""
        if not self.at_screen:
            return Page(json=self.json, jsonl=self.jsonl)
        # What draws on terminals is slow to import, and most commands run in scripts.
        screen: Page = load("bullpen.doors.cli.output.screen:Screen")()
        return screen

    def goes_on(self, option: str) -> None:
        """Refuse --json where there is no one object to print. Raises Refused."""
        if self.json and not self.jsonl:
            raise Refused(
                f"--json prints one object at the end, but {option} prints one per line.",
                reason="needs_jsonl",
                remedy="Pass --jsonl instead of --json.",
            )

    def confirm(self, question: str, *, yes: bool, why: str = "This cannot be undone") -> None:
        """Ask a person to confirm.

        Raises:
            Refused: the answer is not yes, or nobody can be asked and `yes` was not given.
        """
        if yes:
            return
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise Refused(
                f"{why}, and there is no terminal to confirm it.",
                reason="not_confirmed",
                remedy="Pass --yes to confirm.",
            )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Refused(
                "You did not confirm, so nothing was changed.",
                reason="not_confirmed",
                remedy="Run the same command again and answer y.",
            )


def _warn(text: str) -> None:
    tell(f"warning: {text}", hang=" " * 9)


def text_or_input(text: str) -> str:
    """`text` itself, or standard input for `-`, without its last line break."""
    if text != "-":
        return text
    data = sys.stdin.buffer.read(_INPUT_BYTES_MAX + 1) if sys.stdin is not None else b""
    if len(data) > _INPUT_BYTES_MAX:
        raise Invalid(
            f"Standard input is longer than {_INPUT_BYTES_MAX} bytes.",
            remedy="Save the text in a file and send its path.",
        )
    try:
        return fit_to_keep([data.decode("utf-8").removesuffix("\n")])[0]
    except UnicodeDecodeError as error:
        raise Invalid(
            f"Standard input is not UTF-8 text: {error.reason} at byte {error.start}.",
            remedy="Convert the text to UTF-8, or save it in a file and send its path.",
        ) from error


def directory(path: str | None) -> str:
    """The full path of a directory; of the current one if none is named."""
    try:
        full = os.path.abspath(path or ".")
        if b"\0" in os.fsencode(full):
            raise ValueError("a path has no NUL")
        return full
    except FileNotFoundError as error:
        raise Invalid(
            "The current directory was removed.", remedy="Name another directory with --cwd."
        ) from error
    except ValueError as error:
        raise Invalid(
            f"{path!r} is not the path of a directory.", remedy="Name a directory that exists."
        ) from error
