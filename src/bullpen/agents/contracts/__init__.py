"""Public: what an author of a driver, backend, tool or machine needs.

- A driver takes an agent's turns: `Driver` declares its `Capabilities` (`EVERYTHING` is all of
  them), gets a `TurnInput`, and returns a `TurnResult` or raises `TurnFailed`. It also gets a
  `Desk`, whose parts are `Identity`, `Mailroom`, `TaskWork`, `Permissions`, `Reporting` and
  `Runtime`. `Mail` is what it reads, `Call` is a tool call that needs permission, and `Colleagues`
  starts teammates.
- A backend runs agents somewhere: `Backend` starts a `Launch`, marked by `NONCE`.
- A tool is something a model can call: `Tool` with a `ToolInput`. It names the part of the desk
  that it needs; every member has a `TeamDesk`. It returns text, or a `ToolResult` with an
  `Attachment` for models that can see.
- Machines: `Hosts` starts and stops agents on other machines; `OneMachine` has none.

`bullpen.testing` has the suites that drivers, backends and tools must pass. Bullpen finds those of
other packages by entry points: `DriverFactory` is what one of `bullpen.drivers` names.
"""

from __future__ import annotations

from bullpen.by_name import load

# As in `bullpen`: whoever needs one of these names does not import what the others need.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bullpen.agents.contracts.backend import NONCE, Backend, Launch
    from bullpen.agents.contracts.call import Call
    from bullpen.agents.contracts.desk import (
        Colleagues,
        Desk,
        Identity,
        Mail,
        Mailroom,
        Permissions,
        Reporting,
        Runtime,
        TaskWork,
        TeamDesk,
        Wanted,
    )
    from bullpen.agents.contracts.driver import (
        EVERYTHING,
        Capabilities,
        Driver,
        DriverFactory,
        TurnFailed,
        TurnInput,
        TurnResult,
    )
    from bullpen.agents.contracts.machines import Hosts, OneMachine
    from bullpen.agents.contracts.tool import Attachment, Tool, ToolInput, ToolResult

__all__ = [
    "EVERYTHING",
    "NONCE",
    "Attachment",
    "Backend",
    "Call",
    "Capabilities",
    "Colleagues",
    "Desk",
    "Driver",
    "DriverFactory",
    "Hosts",
    "Identity",
    "Launch",
    "Mail",
    "Mailroom",
    "OneMachine",
    "Permissions",
    "Reporting",
    "Runtime",
    "TaskWork",
    "TeamDesk",
    "Tool",
    "ToolInput",
    "ToolResult",
    "TurnFailed",
    "TurnInput",
    "TurnResult",
    "Wanted",
]

_OWNERS = {
    "bullpen.agents.contracts.backend": ("Backend", "Launch", "NONCE"),
    "bullpen.agents.contracts.call": ("Call",),
    "bullpen.agents.contracts.desk": (
        "Colleagues",
        "Desk",
        "Identity",
        "Mail",
        "Mailroom",
        "Permissions",
        "Reporting",
        "Runtime",
        "TaskWork",
        "TeamDesk",
        "Wanted",
    ),
    "bullpen.agents.contracts.driver": (
        "Capabilities",
        "Driver",
        "DriverFactory",
        "EVERYTHING",
        "TurnFailed",
        "TurnInput",
        "TurnResult",
    ),
    "bullpen.agents.contracts.machines": ("Hosts", "OneMachine"),
    "bullpen.agents.contracts.tool": ("Attachment", "Tool", "ToolInput", "ToolResult"),
}
_OWNER = {name: module for module, names in _OWNERS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _OWNER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = load(f"{_OWNER[name]}:{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
