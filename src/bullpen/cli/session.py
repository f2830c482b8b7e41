"""The one way from a command to the operations: who asks, about which team, how to answer.

What is heavy (operations, store, records, anyio, rich) is imported inside functions here, the
one exception to imports at the top: every command comes here, and `bullpen --help` does not.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from bullpen.cli.text import fit_to_keep
from bullpen.errors import Invalid, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from bullpen.agents.task_door import TaskDoor
    from bullpen.app import Settings
    from bullpen.cli.agents_view import AgentViews
    from bullpen.cli.cost_view import CostViews
    from bullpen.cli.guests import Guests
    from bullpen.cli.merge_view import MergeDesk
    from bullpen.cli.policy_options import PolicyOptions
    from bullpen.cli.policy_view import PolicyViews
    from bullpen.cli.pursuing import Runs
    from bullpen.cli.render import Page
    from bullpen.cli.request_view import RequestViews
    from bullpen.cli.screen import Screen
    from bullpen.cli.starters import Starters
    from bullpen.cli.summary_view import SummaryViews
    from bullpen.cli.team_files import TeamFiles
    from bullpen.cli.transcript_view import TranscriptViews
    from bullpen.cli.views import Views
    from bullpen.cli.watch_run import Start
    from bullpen.cli.workspace_view import Workspaces
    from bullpen.office import Office
    from bullpen.protocol.agent import AgentFacts, AgentSpec
    from bullpen.protocol.policy import Policy
    from bullpen.protocol.request import Request, Voice
    from bullpen.protocol.task import Check
    from bullpen.store.base import Finding
    from bullpen.team.team import Team
    from bullpen.team.teams import Teams
    from bullpen.unattended.outcome import Outcome
    from bullpen.view.acts import Answered
    from bullpen.view.identity import Identity
    from bullpen.view.request_lookup import Search
    from bullpen.view.transcript import Tail

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
    ) -> None:
        self._home, self._store = home, store
        self._team, self._actor = team, actor
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
            store=nearest("store"),
            json=any(params.get("common_json") for params in levels),
        )

    @cached_property
    def settings(self) -> Settings:
        """Where the teams live, which one is meant, who acts."""
        from bullpen.app import settings_from

        if self._home and "\0" in self._home:
            raise Invalid(f"{self._home!r} cannot be a directory.", remedy="Check --home.")
        return settings_from(
            os.environ, home=self._home, team=self._team, agent=self._actor, store=self._store
        )

    @property
    def actor(self) -> str:
        """Who acts."""
        return self.settings.agent

    @property
    def team(self) -> str | None:
        """The team that was named, if one was."""
        return self.settings.team

    @property
    def elsewhere(self) -> str:
        """What a command to try next must add to mean the same teams."""
        named = {"--home": self._home, "--store": self._store}
        return "".join(f" {key} {shlex.quote(value)}" for key, value in named.items() if value)

    def with_teams(self, operation: Callable[[Teams], Awaitable[T]]) -> T:
        """What an operation on all teams answers."""
        import anyio

        from bullpen.app import open_teams

        async def run() -> T:
            async with open_teams(self.settings) as teams:
                return await operation(teams)

        return anyio.run(run)

    def with_team(self, operation: Callable[[Team], Awaitable[T]], *, name: str | None = None) -> T:
        """What an operation on one team answers: the one named here, or the one that is meant."""
        from bullpen.app import resolve_team

        async def run(teams: Teams) -> T:
            return await operation(teams.open(name or await resolve_team(teams, self.settings)))

        return self.with_teams(run)

    def with_office(
        self, operation: Callable[[Office, str], Awaitable[T]], *, name: str | None = None
    ) -> T:
        """What an operation on the agents of a team answers; it gets the team's name."""
        from bullpen.app import resolve_team

        async def run(office: Office) -> T:
            return await operation(office, name or await resolve_team(office.teams, self.settings))

        return self.with_home(run)

    def with_home(self, operation: Callable[[Office], Awaitable[T]]) -> T:
        """What an operation on the whole home answers."""
        import anyio

        from bullpen.office import open_office

        async def run() -> T:
            async with open_office(self.settings) as office:
                return await operation(office)

        return anyio.run(run)

    def be_agent(self) -> int:
        """Be the agent that this process was started for; the exit code of the process."""
        import anyio

        from bullpen.agents.secrets import redact_output
        from bullpen.office import run_agent

        redact_output(os.environ)
        # What TERM says is of the terminal that it was spawned from: a bare one does as well.
        if sys.stdout is None or not sys.stdout.isatty():
            return anyio.run(run_agent, self.settings)
        from bullpen.cli.agent_shown import run_shown

        return anyio.run(run_shown, self.settings, self.show_transcript)

    @property
    def runs(self) -> Runs:
        """Teams that are pursued to their end while somebody watches."""
        from bullpen.cli.pursuing import Runs

        return Runs(self, self._watched)

    @cached_property
    def team_files(self) -> TeamFiles:
        """Teams that files describe."""
        from bullpen.cli.team_files import TeamFiles

        return TeamFiles(
            self.settings,
            self.page,
            lambda about, start: self._watched(about, start, elsewhere=self.elsewhere),
        )

    @property
    def starters(self) -> Starters:
        """Team files to begin with."""
        from bullpen.cli.starters import Starters

        return Starters(self.page)

    @property
    def guests(self) -> Guests:
        """Agents of ours in the teams of Claude Code, and the home that these have."""
        from bullpen.cli.guests import Guests

        return Guests(self, home=self._home)

    def workspaces(self, repository: str | None) -> Workspaces:
        """The trees of the team's agents, or of all that have some in a repository."""
        from bullpen.cli.workspace_view import Workspaces

        return Workspaces(self, repository)

    @cached_property
    def merges(self) -> MergeDesk:
        """The merge queue of the team that is meant."""
        from bullpen.cli.merge_view import MergeDesk

        return MergeDesk(self)

    def _watched(self, about: str, start: Start, *, elsewhere: str | None) -> Outcome:
        """Do what takes long while somebody watches.

        `elsewhere` is what the commands to try next must add; None if there are none.
        """
        from bullpen.cli.watch_run import Watcher, watch

        if not self._at_screen:
            watcher = Watcher(self.page, about, elsewhere=elsewhere or "")
            return watch(watcher, start, elsewhere=elsewhere)
        from bullpen.cli.live import LiveWatcher

        live = LiveWatcher(
            self._screen, about, kept=elsewhere is not None, elsewhere=elsewhere or ""
        )
        return watch(live, start, elsewhere=elsewhere)

    def examine(self, *, everything: bool, fix: bool) -> list[Finding]:
        """What is damaged in the team that is meant, or anywhere in the home."""
        import anyio

        from bullpen.app import resolve_team
        from bullpen.office import doctor

        team = None
        if not everything:
            team = self.with_teams(lambda teams: resolve_team(teams, self.settings))
        return anyio.run(doctor, self.settings, team, fix)

    def checks(
        self, *, commands: Sequence[str], files: Sequence[str], commits: Sequence[str], report: bool
    ) -> list[Check]:
        """The checks that options state: NAME=COMMAND, files, branches, and whether a report."""
        from bullpen.protocol.task import Check

        checks = []
        for command in commands:
            name, _, run = command.partition("=")
            if not name.strip() or not run.strip():
                raise typer.BadParameter(f"{command!r} is not of the form NAME=COMMAND.")
            checks.append(Check.new(name=name.strip(), kind="command", run=run.strip()))
        checks += [Check.new(name=path, kind="file", path=path) for path in files]
        checks += [Check.new(name=ref, kind="commit", ref=ref) for ref in commits]
        if report:
            checks.append(Check.new(name="report", kind="report"))
        return checks

    async def task_door(self, team: Team) -> TaskDoor:
        """What this command does about tasks, as a person or as the agent that it belongs to."""
        import anyio

        from bullpen.agents.task_door import task_door

        by, voice = await self.speaks(team)
        agent = (await team.agents.get(by))[1] if voice == "agent" else None
        return await anyio.to_thread.run_sync(
            lambda: task_door(
                team,
                by=by,
                cwd=directory(None),
                env=os.environ,
                home=self.settings.home,
                warn=self.page.warn,
                agent=agent,
            )
        )

    @cached_property
    def page(self) -> Page:
        """Where the answer goes: JSON, plain text, or a terminal."""
        from bullpen.cli.render import Page

        return self._screen if self._at_screen else Page(json=self.json)

    @cached_property
    def _at_screen(self) -> bool:
        return not self.json and is_terminal(sys.stdout)

    @cached_property
    def _screen(self) -> Screen:
        from bullpen.cli.screen import Screen

        return Screen()

    @cached_property
    def show(self) -> Views:
        """The records of a team, as the reader of this command wants them."""
        from bullpen.cli.views import Views

        return Views(self.page)

    @cached_property
    def show_agents(self) -> AgentViews:
        """The agents of a team, as the reader of this command wants them."""
        from bullpen.cli.agents_view import AgentViews

        if not self._at_screen:
            return AgentViews(self.page, reader=self.actor, elsewhere=self.elsewhere)
        from bullpen.cli.live import ScreenAgentViews

        return ScreenAgentViews(self._screen, reader=self.actor, elsewhere=self.elsewhere)

    def tail(self, path: Path) -> Tail:
        """A transcript, to be read as it grows."""
        from bullpen.view.transcript import Tail

        return Tail(path)

    async def pause(self, seconds: float) -> None:
        """Wait before looking again."""
        import anyio

        await anyio.sleep(seconds)

    @cached_property
    def show_transcript(self) -> TranscriptViews:
        """Rows of transcripts, as the reader of this command wants them."""
        from bullpen.cli.transcript_view import TranscriptViews

        return TranscriptViews(self.page)

    async def requests(self, teams: Teams) -> Search:
        """The requests of the team that was named, else of all teams."""
        from bullpen.view.request_lookup import search

        return await search(teams, self.team)

    @cached_property
    def show_requests(self) -> RequestViews:
        """Requests, as the reader of this command wants them."""
        from bullpen.cli.request_view import RequestViews

        return RequestViews(self.page, elsewhere=self.elsewhere)

    @cached_property
    def show_policy(self) -> PolicyViews:
        """What agents may do, as the reader of this command wants it."""
        from bullpen.cli.policy_view import PolicyViews

        return PolicyViews(self.page)

    @cached_property
    def show_cost(self) -> CostViews:
        """What was used, as the reader of this command wants it."""
        from bullpen.cli.cost_view import CostViews

        return CostViews(self.page, elsewhere=self.elsewhere)

    @cached_property
    def show_summary(self) -> SummaryViews:
        """What a team did, as the reader of this command wants it."""
        from bullpen.cli.summary_view import SummaryViews

        return SummaryViews(self.page)

    @cached_property
    def _identity(self) -> Identity:
        from bullpen.view.identity import Identity

        return Identity(self.settings)

    async def speaks(self, team: Team) -> tuple[str, Voice]:
        """Who speaks in a team, and whether it is a person. An agent never speaks as one."""
        return await self._identity.speaks(team)

    async def spawns(self, team: Team) -> tuple[str, tuple[str, AgentFacts] | None]:
        """Who spawns, and which agent that is: what it starts can do no more than it may itself."""
        return await self._identity.spawns(team)

    def refuse_agents(self, what: str) -> None:
        """Refuse what only people may do."""
        import anyio

        anyio.run(self._identity.refuse_agents, what)

    def attended(self, spec: AgentSpec, options: PolicyOptions, *, where: str) -> AgentSpec:
        """The spec as it is started from here: where no person is, nobody is waited for."""
        from bullpen.office import unattended

        if options.attended:
            return spec
        if (warning := options.warning(where=where)) and not spec.rights.allow:
            self.page.warn(warning)
        return unattended(spec, plans=options.plan_approver is None)

    def policy(self, stated: dict[str, Any]) -> Policy | None:
        """The policy that options state; None if they state nothing."""
        from bullpen.protocol.policy import Policy

        return Policy.parse(stated) if stated else None

    def new_input(self, request: Request, text: str) -> dict[str, Any] | None:
        """The input that a person wrote in the place of the one asked for; None if the same."""
        from bullpen.view.acts import new_input

        return new_input(request, text)

    async def give_answer(self, team: Team, request: Request, **answer: Any) -> Answered:
        """Answer a request as it was seen."""
        from bullpen.view.acts import give_answer

        return await give_answer(team, request, **answer)

    def edited(self, text: str, *, suffix: str) -> str:
        """A text as a person leaves it in an editor."""
        from bullpen.cli.editor import edited

        return edited(text, suffix=suffix)

    def confirm(self, question: str, *, yes: bool, why: str = "This cannot be undone") -> None:
        """Ask a person before something that cannot be undone, or that is theirs to decide.

        Raises:
            Refused: the answer is not yes, or nobody can be asked and `yes` was not given.
        """
        if yes:
            return
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise Refused(
                f"{why}, and there is no terminal to ask at.",
                reason="not_confirmed",
                remedy="Say --yes if it is meant.",
            )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Refused("Nothing was changed.", reason="not_confirmed")


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
        return fit_to_keep([data.decode("utf-8").removesuffix("\n")])[0]
    except UnicodeDecodeError as error:
        raise Invalid(
            f"Standard input is not UTF-8 text: {error.reason} at byte {error.start}.",
            remedy="Convert it, or put it into a file and send the path.",
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
            "The current directory was removed.", remedy="Name another one with --cwd."
        ) from error
    except ValueError as error:
        raise Invalid(
            f"{path!r} is no path of a directory.", remedy="Name one that exists."
        ) from error


def is_terminal(stream: object) -> bool:
    """Whether somebody looks at a stream who can be shown more than plain text."""
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and os.environ.get("TERM") != "dumb"
