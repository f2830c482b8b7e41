"""Teams that commands pursue to their end while somebody watches."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime

from bullpen.app.app import App
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.runs import demo
from bullpen.doors.cli.runs.watched import opens_screen, watched
from bullpen.doors.cli.session import Session
from bullpen.errors import BullpenError, Invalid
from bullpen.runs.goal import Goal, pursues_goal, resume_goal, run_goal
from bullpen.runs.watch.outcome import Outcome
from bullpen.runs.watch.saved_work import changed, left_worktrees, saved_work
from bullpen.runs.watch.until import Until, read_until
from bullpen.view.summary import Summary, summed_up


class RunCommands:
    """Goals and tasks of teams, pursued to their end."""

    def __init__(self, session: Session, *, plain: bool = False) -> None:
        """With `plain`, no screen opens: what happens is told in lines."""
        self._session = session
        self._plain = plain

    def run(self, goal: Goal) -> Outcome:
        """Pursue a goal to its end while showing how it goes; how it ended."""
        goal = replace(goal, conversation=self._is_conversation(goal.until))
        return watched(
            self._session,
            goal.text,
            lambda watch: run_goal(goal, settings=self._session.settings, watch=watch),
            elsewhere=self._session.elsewhere,
            plain=self._plain,
        )

    def _is_conversation(self, until: Until | None) -> bool:
        """Whether a person is at the screen and did not say when the run ends by itself."""
        return until is None and opens_screen(self._session, plain=self._plain)

    def until(self, text: str | None) -> Until | None:
        """When a person says that a team may rest; None if nothing is said."""
        return None if text is None else read_until(text, now=datetime.now().astimezone())

    def no_goal(self) -> Invalid:
        """What to say where no goal was given, and no team was named that has one."""
        try:
            team = self._session.with_teams(self._session.resolved)
        except BullpenError:
            go_on = ""
        else:
            which = f"{shlex.quote(team)}{self._session.elsewhere}"
            go_on = f" Or continue {team}: bullpen run -t {which}"
        return Invalid("There is no goal.", remedy=f"Give one: bullpen run 'GOAL'.{go_on}")

    def goal_of(self, name: str | None) -> tuple[str, str | None]:
        """The team that is meant, and what it was made to reach, if it was."""

        async def look(app: App, team: str) -> tuple[str, str | None]:
            if not await pursues_goal(app, team):
                return team, None
            config = await app.teams.open(team).agents.config()
            return team, config.description or ""

        return with_app(self._session, look, name=name)

    def go_on(
        self, name: str | None, *, until: str | None = None, timeout_s: float | None = None
    ) -> Outcome:
        """Let a team go on with what it has to do, and pursue that to its end."""
        end = self.until(until)
        team, goal = self.goal_of(name)
        return watched(
            self._session,
            goal or f"The tasks of team {team}",
            lambda watch: resume_goal(
                self._session.settings,
                team,
                watch,
                until=end,
                timeout_s=timeout_s,
                conversation=self._is_conversation(end),
            ),
            elsewhere=self._session.elsewhere,
            plain=self._plain,
            team=team,
        )

    async def summary(self, app: App, team_name: str) -> Summary:
        """What a team did so far."""
        team = app.teams.open(team_name)
        events, snapshot = await team.recent_events(), await team.snapshot()
        needs, left = await saved_work(team), await left_worktrees(team)
        files = await changed(team)
        return summed_up(snapshot, events, needs=needs, worktrees=left, changed=files)

    def demo(self, *, backend: str | None, keep: bool) -> Outcome:
        """Show a team at work in a folder of its own; how it ended."""

        return demo.play(
            self._session.settings,
            self._session.page,
            lambda settings, about, start: watched(
                self._session, about, start, elsewhere=None, plain=self._plain, settings=settings
            ),
            backend=backend,
            keep=keep,
        )
