"""How the teams of sessions are started: what the command line or a team file says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bullpen.agents.config.settings import FileSettings
from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.app import App
from bullpen.errors import Invalid, Refused
from bullpen.protocol.policy import DEFAULT_MODE, MODES, Mode
from bullpen.runs.goal import Goal, go_on, pursue
from bullpen.runs.teamfile.read import TeamFile
from bullpen.runs.up import StartRequest, follow
from bullpen.runs.watch.outcome import Outcome, Watch
from bullpen.team.requests.mode_rules import wider_mode

Run = Callable[[Watch], Awaitable[Outcome]]

_WIDEST: Mode = "acceptEdits"
"""The widest mode that a client may choose, unless the command line states a wider one."""

_ABOUT: dict[Mode, tuple[str, str]] = {
    "default": ("Ask", "Asks before it changes anything"),
    "acceptEdits": ("Accept edits", "Edits files of the project without asking"),
    "plan": ("Plan", "Changes nothing until you approve a plan"),
    "dontAsk": ("Don't ask", "Does what rules allow; everything else is denied"),
    "bypassPermissions": ("Bypass permissions", "Never asks"),
}
"""The modes that a client can choose. Leads that only lead are a matter of the command line."""


@dataclass(frozen=True, slots=True)
class TeamStart:
    """What every session starts: a lead and how its run is limited, or a team file.

    Of `goal`, the text, the name and the directory are those of the session.
    """

    goal: Goal
    file: TeamFile | None = None

    def check(self) -> None:
        """Refuse a team file without a lead. Raises Invalid."""
        if self.file is not None and self.file.lead is None:
            raise Invalid(
                f"The team of {self.file.path} has no lead, so there is nobody to talk with.",
                remedy="Give it a goal in [team]. Your first prompt takes its place.",
            )

    @property
    def driver(self) -> str:
        """The driver of the lead."""
        file = self.file
        return self.goal.lead.driver if file is None or file.lead is None else file.lead.driver

    def stated_mode(self) -> Mode | None:
        """The mode that the command line or the file gives the lead."""
        file = self.file
        stated = self.goal.lead.mode if file is None or file.lead is None else file.lead.mode
        return next((mode for mode in MODES if mode == stated), None)

    def start(
        self,
        app: App,
        team: str,
        text: str,
        *,
        cwd: str,
        mode: str | None,
        servers: Mapping[str, Any],
    ) -> Run:
        """The run of a new team, whose goal is the first prompt."""
        if self.file is not None and self.file.lead is not None:
            file = self.file
            told = replace(
                file,
                team=file.team.model_copy(update={"name": team, "goal": text}),
                lead=self.file.lead.model_copy(update={} if mode is None else {"mode": mode}),
                mcp_servers={**file.mcp_servers, **servers},
            )
            request = StartRequest(told, cwd, conversation=True)
            return partial(follow, app, request)
        lead: SpawnRequest = replace(
            self.goal.lead, cwd=cwd, mode=mode or self.goal.lead.mode, mcp_servers=servers or None
        )
        goal = replace(self.goal, text=text, lead=lead, team=team, conversation=True)
        return partial(pursue, app, goal)


def again(app: App, team: str) -> Run:
    """The run of a team that existed before, however its run before ended."""
    return partial(go_on, app, team, conversation=True, again=True)


def first_mode(start: TeamStart, settings: FileSettings) -> Mode:
    """The mode in which the lead starts."""
    return start.stated_mode() or settings.mode or DEFAULT_MODE


def offered_modes(begin: Mode, settings: FileSettings) -> list[tuple[str, str, str]]:
    """The modes that a client may choose: id, name and what it means.

    None is wider than the one that the team starts with, or than accepting edits.
    """
    return [
        (mode, *_ABOUT[mode])
        for mode in MODES
        if mode in _ABOUT
        and not (wider_mode(mode, begin) and wider_mode(mode, _WIDEST))
        and not _forbids(settings, mode)
    ]


def _forbids(settings: FileSettings, mode: str) -> bool:
    try:
        settings.refuse_mode(mode)
    except Refused:
        return True
    return False


def check_offered(mode: str, offered: list[tuple[str, str, str]]) -> None:
    """Refuse a mode that was not offered. Raises Invalid."""
    names = [name for name, _, _ in offered]
    if mode not in names:
        raise Invalid(
            f"The mode {mode!r} is not offered here.",
            remedy=f"Choose one of: {', '.join(names)}. A person can start `bullpen acp` with"
            " a wider --mode.",
        )
