"""Bullpen: teams of coding agents that do not lose messages, tasks or work.

Public: these names. So are the modules `bullpen.store.contract`, `bullpen.agents.contracts` and
`bullpen.testing`, for authors of stores, drivers, backends and tools. Everything else may change.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers know this name; importing it from `typing` would cost more than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bullpen.agents.config.spec import SpawnRequest
    from bullpen.app.app import open_app
    from bullpen.app.stores import open_teams
    from bullpen.errors import (
        BullpenError,
        Conflict,
        Invalid,
        NotFound,
        Refused,
        Unavailable,
        Unreadable,
    )
    from bullpen.protocol.changes import Event
    from bullpen.protocol.message import Message
    from bullpen.protocol.request import Request
    from bullpen.protocol.task import Check, Task
    from bullpen.protocol.team import Member, TeamConfig
    from bullpen.runs.goal import Goal, run_goal
    from bullpen.runs.up import bring_up
    from bullpen.runs.watch.outcome import Outcome
    from bullpen.team.snapshot import Snapshot
    from bullpen.team.tasks.drafts import Draft
    from bullpen.team.team import Team, Teams

__all__ = [
    "BullpenError",
    "Check",
    "Conflict",
    "Draft",
    "Event",
    "Goal",
    "Invalid",
    "Member",
    "Message",
    "NotFound",
    "Outcome",
    "Refused",
    "Request",
    "Snapshot",
    "SpawnRequest",
    "Task",
    "Team",
    "TeamConfig",
    "Teams",
    "Unavailable",
    "Unreadable",
    "bring_up",
    "open_app",
    "open_teams",
    "run_goal",
]

# Each name is imported from the module that owns it when it is first used, so that importing the
# package costs nothing.
_OWNERS = {
    "bullpen.agents.config.spec": ("SpawnRequest",),
    "bullpen.app.app": ("open_app",),
    "bullpen.app.stores": ("open_teams",),
    "bullpen.errors": (
        "BullpenError",
        "Conflict",
        "Invalid",
        "NotFound",
        "Refused",
        "Unavailable",
        "Unreadable",
    ),
    "bullpen.protocol.changes": ("Event",),
    "bullpen.protocol.message": ("Message",),
    "bullpen.protocol.request": ("Request",),
    "bullpen.protocol.task": (
        "Check",
        "Task",
    ),
    "bullpen.protocol.team": (
        "Member",
        "TeamConfig",
    ),
    "bullpen.runs.goal": (
        "Goal",
        "run_goal",
    ),
    "bullpen.runs.up": ("bring_up",),
    "bullpen.runs.watch.outcome": ("Outcome",),
    "bullpen.team.snapshot": ("Snapshot",),
    "bullpen.team.tasks.drafts": ("Draft",),
    "bullpen.team.team": ("Team", "Teams"),
}
_OWNER = {name: module for module, names in _OWNERS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _OWNER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_OWNER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
