"""The driver contract: which program takes an agent's turns, and what the runner gives it.

A driver takes one turn at a time. During it, it looks for mail between two tool calls if it can,
says which mail was in a model request that succeeded, and records what it does and what it used.
It decides nothing about the team. `bullpen.testing.driver_contract` is what every one must pass.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bullpen.agents.policy.call import Call
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.policy import Mode
from bullpen.protocol.task import Task
from bullpen.protocol.workspace import WorkspaceKind
from bullpen.team.rules import Done
from bullpen.team.team import Team


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can do. A request that it cannot honour is an error at spawn.

    The contract suite checks what is declared, and that what is not declared is not so.
    """

    # Mail that comes in a turn reaches the model in that turn.
    mid_turn: bool = False
    # It asks `desk.permit` before every call that changes something.
    permissions: bool = False
    # It asks before calls that only look, too: rules about reading hold.
    asks_to_read: bool = False
    # It calls a tool as the answer has changed it. Without it, a changed call is not made.
    edits: bool = False
    # After a refusal the model is told why, and goes on in the same turn.
    goes_on: bool = False
    plan_mode: bool = False
    resume: bool = False
    # It reports what it used, at the latest when a turn ends.
    usage: bool = False
    # It asks `desk.may_spend` before every model request, not only before a turn.
    brakes: bool = False


EVERYTHING = Capabilities(
    mid_turn=True,
    permissions=True,
    asks_to_read=True,
    edits=True,
    goes_on=True,
    plan_mode=True,
    resume=True,
    usage=True,
    brakes=True,
)
"""What a driver declares that lacks nothing."""


@dataclass(frozen=True, slots=True)
class Mail:
    """Messages as the model gets them: framed and escaped. `ids` are theirs."""

    text: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What a turn begins with: the state of the team, mail, and why there is a turn at all."""

    text: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended: the last thing the model said, whole."""

    text: str


class TurnFailed(BullpenError):
    """A turn that broke off. `partial` is what was said before; mail it held may be unseen.

    With `for_good`, no other turn could succeed, and the agent fails with it.
    """

    def __init__(
        self, message: str, *, remedy: str = "", partial: str = "", for_good: bool = False
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.partial = partial
        self.for_good = for_good


@dataclass(frozen=True, slots=True)
class Wanted:
    """A teammate that an agent asks for. What is None is as the agent's own."""

    name: str
    prompt: str
    role: str | None = None
    model: str | None = None
    driver: str | None = None
    backend: str | None = None
    cwd: str | None = None
    mode: str | None = None
    # The labels of the machine that is to run it; without them it is the agent's own.
    on: str | None = None
    # The kind of tree that it works in, and what it can do for tasks that need it.
    workspace: WorkspaceKind | None = None
    skills: tuple[str, ...] = ()


class Colleagues(Protocol):
    """What an agent may do about other agents, if it may: the supervisor behind a narrow door."""

    async def spawn(self, wanted: Wanted) -> str:
        """Start a teammate and say so in a sentence. The name is the key: asking twice is once."""

    async def stop(self, name: str, *, reason: str | None) -> str:
        """Stop a teammate that the asker leads, and say so in a sentence."""


class Desk(Protocol):
    """What the runner gives a driver: who it is, its mail, and where to report."""

    @property
    def agent(self) -> str:
        """The name it speaks under. There is no way to speak under another."""

    @property
    def is_lead(self) -> bool:
        """Whether it leads the team."""

    @property
    def team(self) -> Team:
        """The team; every operation on it is called with `by=desk.agent`."""

    @property
    def spec(self) -> AgentSpec:
        """What was asked for at spawn."""

    @property
    def mode(self) -> Mode:
        """The permission mode it is in now."""

    @property
    def folder(self) -> Path:
        """A directory of its own that outlives the process: history, output of commands."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment for whatever it starts."""

    @property
    def attempts(self) -> MutableMapping[str, int]:
        """The attempt of every task that this runner claimed: what proves that it still owns it."""

    @property
    def colleagues(self) -> Colleagues | None:
        """How to spawn and stop teammates, if it may."""

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """Return the input with which a tool may be called, when it may be called.

        The same for every driver. Hooks and the agent's policy decide; where somebody has to be
        asked, it waits for the answer, which may change the input.

        Raises:
            Refused: it may not; the text says why and by whose word.
        """

    async def called(self, call: Call, text: str, *, failed: bool) -> str:
        """Tell what came of a call. Returns the text for the model: hooks may add to it."""

    def hides(self, path: str) -> bool:
        """Whether the agent may not know what is in this file: a rule denies reading it."""

    def redacted(self, text: str) -> str:
        """The text without any secret of this agent's environment."""

    async def may_spend(self) -> None:
        """Call it before each model request: what was used so far is recorded.

        Raises:
            Refused: a budget is used up; the turn is over.
        """

    async def enter_plan_mode(self) -> None:
        """From now on it may only look, until a plan is approved."""

    async def submit_plan(self, plan: str) -> str:
        """Ask for approval of a plan; returns what to tell the model."""

    async def begin_task(self, task: Task) -> str | None:
        """Get its tree ready for a task that it has just claimed; returns what to tell it of that.

        Raises:
            Refused, Unavailable: it could not be done, and the task was given back.
        """

    async def complete(self, task_id: str, *, report: str | None) -> Done:
        """Complete a task of this agent's, if its checks pass and no hook refuses.

        Raises:
            Refused: checks_failed or hook_refused, with the output; and whatever `tasks.done` does.
        """

    async def created(self, task: Task) -> None:
        """Tell the hooks of a task that this agent adds; it is removed if one refuses.

        Raises:
            Refused: hook_refused, with the feedback.
        """

    async def take_mail(self) -> Mail | None:
        """The mail that came since, recorded as injected: put it into the next model request.

        Call it right before each model request of a turn but the first. None if there is none.
        """

    async def wait_mail(self) -> Mail:
        """Wait for mail in the middle of a turn, and take it as `take_mail` does."""

    async def seen(self, ids: Sequence[str]) -> None:
        """Record that a model request which held these messages succeeded. Call it at once."""

    def doing(self, tool: str | None, detail: str = "") -> None:
        """Report what it does now: a tool with a few words on what with, or None for thinking."""

    def waiting(self, on: str) -> AbstractContextManager[None]:
        """Report that it waits for somebody, as long as the context lasts."""

    def record(self, kind: str, **data: Any) -> None:
        """Add a line to the transcript; durable soon, never lost by a later crash of the model."""

    def used(self, usage: Usage, *, calls: Sequence[str] = ()) -> None:
        """Report what one model request used, and which tools its answer calls.

        They tell work on a task from coordination. Report a request before the next `may_spend`.
        """

    def filled(self, tokens: int, *, window: int) -> None:
        """Report how many tokens of its model's context window the last request took."""

    def wrote(self, to: str, summary: str) -> None:
        """Report that it wrote to somebody, for whose answer it may wait.

        What it wrote to colleagues the lead reads in the idle notice.
        """

    def wake_later(self, seconds: float, note: str) -> None:
        """Give this agent another turn in so many seconds, which begins with the note."""

    def wake(self, note: str) -> None:
        """Give this agent another turn soon, which begins with the note: a job has ended."""

    def leave(self, reason: str) -> None:
        """End this agent for good when its turn is over: it agreed to a shutdown."""


class Driver(Protocol):
    """A program that takes turns for one agent, from `start` to `aclose`."""

    @property
    def name(self) -> str:
        """What people call it: native, scripted."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    async def start(self, desk: Desk) -> None:
        """Get ready to take turns: load the history, check model and credentials.

        Raises:
            Unavailable: it cannot work; the text says what is missing.
        """

    def remembers(self, message_id: str) -> bool:
        """Whether a message is in the history of this driver already, from before a restart."""

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        """Take one turn. Cancelling it ends at once whatever it started, and keeps the history.

        Raises:
            TurnFailed: the model or its API failed for good; the cause is in the text.
        """

    async def aclose(self) -> None:
        """Let go of everything."""
