"""Teams that commands pursue to their end while somebody watches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from bullpen.goal import Goal, pursues_goal, resume_goal, run_goal
from bullpen.unattended.saved_work import saved_work
from bullpen.unattended.summary import Summary, summed_up
from bullpen.unattended.until import Until, read_until

if TYPE_CHECKING:
    from bullpen.cli.session import Session
    from bullpen.cli.watch_run import Start
    from bullpen.office import Office
    from bullpen.unattended.outcome import Outcome


class Watched(Protocol):
    """Does what takes long while somebody watches."""

    def __call__(self, about: str, start: Start, *, elsewhere: str | None) -> Outcome:
        """How it ended. `elsewhere` is what commands to try next must add; None: there are none."""


class Runs:
    """Goals and tasks of teams, pursued to their end."""

    def __init__(self, session: Session, watched: Watched) -> None:
        self._session = session
        self._watched = watched

    def run(self, make: Callable[[type[Goal]], Goal]) -> Outcome:
        """Pursue a goal to its end while showing how it goes; how it ended."""
        goal = make(Goal)
        return self._watched(
            goal.text,
            lambda watch: run_goal(self._session.settings, goal, watch),
            elsewhere=self._session.elsewhere,
        )

    def until(self, text: str | None) -> Until | None:
        """When a person says that a team may rest; None if nothing is said."""
        return None if text is None else read_until(text, now=datetime.now().astimezone())

    def goal_of(self, name: str | None) -> tuple[str, str | None]:
        """The team that is meant, and what it was made to reach, if it was."""

        async def look(office: Office, team: str) -> tuple[str, str | None]:
            if not await pursues_goal(office, team):
                return team, None
            config = await office.teams.open(team).agents.config()
            return team, config.description or ""

        return self._session.with_office(look, name=name)

    def go_on(
        self, name: str | None, *, until: str | None = None, timeout_s: float | None = None
    ) -> Outcome:
        """Let a team go on with what it has to do, and pursue that to its end."""
        end = self.until(until)
        team, goal = self.goal_of(name)
        return self._watched(
            goal or f"The tasks of team {team}",
            lambda watch: resume_goal(
                self._session.settings, team, watch, until=end, timeout_s=timeout_s
            ),
            elsewhere=self._session.elsewhere,
        )

    async def summary(self, office: Office, team_name: str) -> Summary:
        """What a team did so far."""
        team = office.teams.open(team_name)
        events, snapshot = await team.events(), await team.snapshot()
        return summed_up(snapshot, events, needs=await saved_work(team))

    def demo(self, *, backend: str | None, keep: bool) -> Outcome:
        """Show a team at work in a folder of its own; how it ended."""
        from bullpen.cli import demo

        return demo.play(
            self._session.settings,
            self._session.page,
            lambda about, start: self._watched(about, start, elsewhere=None),
            backend=backend,
            keep=keep,
        )
