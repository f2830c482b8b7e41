"""The one way from a command to the operations: who asks, about which team, how to answer.

The modules of this package import nothing heavy when they are imported: `bullpen --help` would
pay for it. What is heavy (operations, store, records, anyio, rich) is imported inside functions
of this module, the one exception to the rule of imports at the top: every command goes through
here, and no help text does.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from bullpen.errors import Invalid, Refused

if TYPE_CHECKING:
    from bullpen.app import Settings
    from bullpen.cli.render import Page
    from bullpen.cli.views import Views
    from bullpen.protocol.task import Check
    from bullpen.store.base import Finding
    from bullpen.team.team import Team
    from bullpen.team.teams import Teams

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
        json: bool = False,
    ) -> None:
        self._home = home
        self._team = team
        self._actor = actor
        self.json = json

    @classmethod
    def of(cls, context: typer.Context) -> Session:
        """The session that the options of a command and of the groups above it describe.

        An option nearer to the command wins.
        """
        levels = []
        level: Any = context
        while level is not None:
            levels.append(level.params)
            level = level.parent

        def nearest(name: str) -> str | None:
            given = (params.get(name) for params in levels)
            return next((value for value in given if value is not None), None)

        return cls(
            home=nearest("home"),
            team=nearest("common_team"),
            actor=nearest("common_as"),
            json=any(params.get("common_json") for params in levels),
        )

    @cached_property
    def _settings(self) -> Settings:
        from bullpen.app import settings_from

        if self._home and "\0" in self._home:
            raise Invalid(f"{self._home!r} cannot be a directory.", remedy="Check --home.")
        return settings_from(os.environ, home=self._home, team=self._team, agent=self._actor)

    @property
    def actor(self) -> str:
        """Who acts."""
        return self._settings.agent

    @property
    def elsewhere(self) -> str:
        """What a command to try next must add to mean the same home."""
        return f" --home {shlex.quote(self._home)}" if self._home else ""

    def with_teams(self, operation: Callable[[Teams], Awaitable[T]]) -> T:
        """What an operation on all teams answers."""
        import anyio

        from bullpen.app import open_teams

        async def run() -> T:
            async with open_teams(self._settings) as teams:
                return await operation(teams)

        return anyio.run(run)

    def with_team(self, operation: Callable[[Team], Awaitable[T]], *, name: str | None = None) -> T:
        """What an operation on one team answers: the one named here, or the one that is meant."""
        from bullpen.app import resolve_team

        async def run(teams: Teams) -> T:
            return await operation(teams.open(name or await resolve_team(teams, self._settings)))

        return self.with_teams(run)

    def examine(self, *, everything: bool, fix: bool) -> list[Finding]:
        """What is damaged in the team that is meant, or anywhere in the home."""
        import anyio

        from bullpen.app import doctor, resolve_team

        team = None
        if not everything:
            team = self.with_teams(lambda teams: resolve_team(teams, self._settings))
        return anyio.run(doctor, self._settings, team, fix)

    def checks(self, *, commands: Sequence[str], files: Sequence[str], report: bool) -> list[Check]:
        """The checks that options state: NAME=COMMAND, paths of files, and whether a report."""
        from bullpen.protocol.task import Check

        checks = []
        for command in commands:
            name, _, run = command.partition("=")
            if not name.strip() or not run.strip():
                raise typer.BadParameter(f"{command!r} is not of the form NAME=COMMAND.")
            checks.append(Check.new(name=name.strip(), kind="command", run=run.strip()))
        checks += [Check.new(name=path, kind="file", path=path) for path in files]
        if report:
            checks.append(Check.new(name="report", kind="report"))
        return checks

    @cached_property
    def page(self) -> Page:
        """Where the answer goes: JSON, plain text, or a terminal."""
        from bullpen.cli.render import Page

        if self.json or not _is_terminal(sys.stdout):
            return Page(json=self.json)
        from bullpen.cli.screen import Screen

        return Screen()

    @cached_property
    def show(self) -> Views:
        """The records of a team, as the reader of this command wants them."""
        from bullpen.cli.views import Views

        return Views(self.page)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask a person before something that cannot be undone.

        Raises:
            Refused: the answer is not yes, or nobody can be asked and `yes` was not given.
        """
        if yes:
            return
        if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
            raise Refused(
                "This cannot be undone, and there is no terminal to ask at.",
                reason="not_confirmed",
                remedy="Say --yes if it is meant.",
            )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Refused("Nothing was changed.", reason="not_confirmed")


def version() -> str:
    """The version that is installed."""
    from importlib.metadata import version as installed

    return installed("bullpen")


def text_or_input(text: str) -> str:
    """`text` itself, or standard input for `-`, without its last line break."""
    if text != "-":
        return text
    data = sys.stdin.buffer.read(_INPUT_BYTES_MAX + 1) if sys.stdin is not None else b""
    if len(data) > _INPUT_BYTES_MAX:
        raise Invalid(
            f"Standard input is longer than {_INPUT_BYTES_MAX} bytes.",
            remedy="Put it into a file and send the path.",
        )
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise Invalid(
            f"Standard input is not UTF-8 text: {error.reason} at byte {error.start}.",
            remedy="Convert it, or put it into a file and send the path.",
        ) from error


def directory(path: str | None) -> str:
    """The full path of a directory; of the current one if none is named."""
    try:
        return os.path.abspath(path or ".")
    except FileNotFoundError as error:
        raise Invalid(
            "The current directory was removed.", remedy="Name another one with --cwd."
        ) from error


def _is_terminal(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and os.environ.get("TERM") != "dumb"
