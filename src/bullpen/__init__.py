"""Bullpen: teams of coding agents that do not lose messages, tasks or work."""

from __future__ import annotations

from importlib import import_module

# Type checkers know this name; importing it from `typing` would cost more than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bullpen.app import Settings, open_teams, settings_from
    from bullpen.errors import (
        BullpenError,
        Conflict,
        Invalid,
        NotFound,
        Refused,
        Unavailable,
        Unreadable,
    )
    from bullpen.office import open_office
    from bullpen.protocol.changes import Event
    from bullpen.protocol.message import Message
    from bullpen.protocol.request import Request
    from bullpen.protocol.roster import Member, TeamConfig
    from bullpen.protocol.task import Check, Task
    from bullpen.store.base import Store
    from bullpen.store.files.store import FileStore
    from bullpen.store.memory import MemoryStore
    from bullpen.team.drafts import Draft
    from bullpen.team.snapshot import Snapshot
    from bullpen.team.team import Team
    from bullpen.team.teams import Teams

__all__ = [
    "BullpenError",
    "Check",
    "Conflict",
    "Draft",
    "Event",
    "FileStore",
    "Invalid",
    "Member",
    "MemoryStore",
    "Message",
    "NotFound",
    "Refused",
    "Request",
    "Settings",
    "Snapshot",
    "Store",
    "Task",
    "Team",
    "TeamConfig",
    "Teams",
    "Unavailable",
    "Unreadable",
    "open_office",
    "open_teams",
    "settings_from",
]

# Each name is imported from the module that owns it when it is first asked for, so that importing
# the package costs nothing.
_OWNERS = {
    "bullpen.app": ("Settings", "open_teams", "settings_from"),
    "bullpen.errors": (
        "BullpenError",
        "Conflict",
        "Invalid",
        "NotFound",
        "Refused",
        "Unavailable",
        "Unreadable",
    ),
    "bullpen.office": ("open_office",),
    "bullpen.protocol.changes": ("Event",),
    "bullpen.protocol.message": ("Message",),
    "bullpen.protocol.request": ("Request",),
    "bullpen.protocol.roster": ("Member", "TeamConfig"),
    "bullpen.protocol.task": ("Check", "Task"),
    "bullpen.store.base": ("Store",),
    "bullpen.store.files.store": ("FileStore",),
    "bullpen.store.memory": ("MemoryStore",),
    "bullpen.team.drafts": ("Draft",),
    "bullpen.team.snapshot": ("Snapshot",),
    "bullpen.team.team": ("Team",),
    "bullpen.team.teams": ("Teams",),
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
