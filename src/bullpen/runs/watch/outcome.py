"""The progress of a run, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.protocol.agent import Usage
from bullpen.protocol.team import RunStatus
from bullpen.team.snapshot import Snapshot
from bullpen.view.notable_events import Happening
from bullpen.view.summary import Summary


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a team; `news` and `happenings` are what happened since the last look.

    `told` are the news that only the run knows: no record of the team has them. `held` is why
    finished work is not merged, as long as that holds.
    """

    team: str
    snapshot: Snapshot
    agents: list[AgentView]
    news: list[str] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    held: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `code` is the exit code of the command."""

    code: int
    status: RunStatus
    summary: str
    team: str
    usage: Usage
    tasks: dict[str, int]
    cause: str | None = None
    # The full summary; None if the run was interrupted before there was one.
    account: Summary | None = None
    # What to say before everything else.
    note: str | None = None


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Show nothing."""
