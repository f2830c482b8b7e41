"""The driver contract: which program takes an agent's turns, and what the runner gives it.

A driver takes one turn at a time. It checks for mail between two tool calls if it can, reports
which mail a successful model request contained, and records what it does and uses. It decides
nothing about the team. Every driver must pass `bullpen.testing.driver_contract`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bullpen.agents.contracts.desk import Desk
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec, Failure


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can do. A spawn that needs more is refused.

    The contract suite checks every capability, declared or not.
    """

    # Mail that arrives during a turn reaches the model in that turn.
    mid_turn: bool = False
    # It asks `desk.permit` before every call that changes something.
    permissions: bool = False
    # It also asks before calls that only read, so rules about reading apply.
    asks_to_read: bool = False
    # It also asks before commands that only read, so rules about such commands apply.
    asks_to_run: bool = False
    # It makes a call as the answer changed it. Without this, a changed call is not made.
    edits: bool = False
    # After a refusal the model is told why and continues in the same turn.
    goes_on: bool = False
    plan_mode: bool = False
    resume: bool = False
    # It reports its usage, at the latest when a turn ends.
    usage: bool = False
    # It calls `desk.may_spend` before every model request, not only before a turn.
    brakes: bool = False
    # It keeps its conversation from turn to turn, and tells its model `desk.briefing` when that was
    # lost. Without this, every turn starts with the whole briefing.
    keeps_briefing: bool = False


EVERYTHING = Capabilities(
    mid_turn=True,
    permissions=True,
    asks_to_read=True,
    asks_to_run=True,
    edits=True,
    goes_on=True,
    plan_mode=True,
    resume=True,
    usage=True,
    brakes=True,
    keeps_briefing=True,
)
"""All capabilities."""


@dataclass(frozen=True, slots=True)
class TurnInput:
    """The input of a turn: the briefing, mail, and why there is a turn.

    If the briefing is not `whole`, it tells only what changed since the last turn.
    """

    text: str
    ids: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended: the complete last words of the model."""

    text: str


class TurnFailed(BullpenError):
    """A failed turn. `partial` is the text before the failure; its mail may be unseen.

    With `for_good`, no other turn could succeed, and the agent fails. `failure` says why, if the
    model's API is the cause: it decides whether the agent is started again.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        partial: str = "",
        for_good: bool = False,
        failure: Failure | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.partial = partial
        self.for_good = for_good
        self.failure = failure


class Driver(Protocol):
    """A program that takes turns for one agent, from `start` to `aclose`."""

    @property
    def name(self) -> str:
        """The name that people use: native, scripted."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    async def start(self, desk: Desk) -> None:
        """Get ready to take turns: load the history, check model and credentials.

        Raises:
            Unavailable: it cannot work; the text says what is missing.
        """

    def remembers(self, message_id: str) -> bool:
        """Whether the driver's history already contains a message, from before a restart."""

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        """Take one turn. Cancelling it stops everything it started, and keeps the history.

        Raises:
            TurnFailed: the model or its API failed; the text says why.
        """

    async def aclose(self) -> None:
        """Release everything."""


class DriverFactory(Protocol):
    """What an entry point of `bullpen.drivers` names: usually the driver's class.

    The first line of its docstring is what `bullpen drivers` shows.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What its drivers can do, known before there is one."""

    def __call__(self, spec: AgentSpec, env: Mapping[str, str]) -> Driver:
        """Make the driver of an agent, in the agent's process. `env` is the agent's environment."""
