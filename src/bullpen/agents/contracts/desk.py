"""The desk: what an agent's driver and tools get from its runner, in parts.

A tool names the part that it needs. An MCP member has the parts of `TeamDesk`; an agent that
Bullpen runs has all of `Desk`.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bullpen.agents.contracts.call import Call
from bullpen.protocol.agent import AgentSpec, Usage, WorkspaceKind
from bullpen.protocol.policy import Mode
from bullpen.protocol.task import Task
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team


@dataclass(frozen=True, slots=True)
class Mail:
    """Framed messages for the model, and their ids."""

    text: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A teammate that an agent asks for. None means: like the agent's own."""

    name: str
    prompt: str
    role: str | None = None
    model: str | None = None
    driver: str | None = None
    backend: str | None = None
    cwd: str | None = None
    mode: str | None = None
    # Labels of the machine to run it; by default the agent's own machine.
    on: str | None = None
    # Its kind of workspace, and its skills.
    workspace: WorkspaceKind | None = None
    skills: tuple[str, ...] = ()


class Colleagues(Protocol):
    """Starts and stops teammates for an agent that may do so, and knows its subagents' types."""

    @property
    def members(self) -> bool:
        """Whether the agent may start and stop members; if not, only subagents that read."""

    async def spawn(self, wanted: Wanted) -> str:
        """Start a teammate; returns a sentence about it. Asking twice for a name starts one."""

    async def subagent(self, wanted: Wanted) -> AgentSpec:
        """The spec of a subagent, which is no member; it may never do more than the agent."""

    async def stop(self, name: str, *, reason: str | None) -> str:
        """Stop a teammate that the agent leads or spawned; returns a sentence about it."""

    async def set_mode(self, name: str, mode: str) -> str:
        """Change the mode of a teammate that the agent leads; returns a sentence about it."""


class Identity(Protocol):
    """Who an agent is in its team, and how it leaves."""

    @property
    def agent(self) -> str:
        """Its name. It can act in no other name."""

    @property
    def is_lead(self) -> bool:
        """Whether it is the lead of the team."""

    @property
    def team(self) -> Team:
        """The team. Call every operation on it with `by=desk.agent`."""

    @property
    def spec(self) -> AgentSpec:
        """Its spec: everything that was set at spawn."""

    @property
    def colleagues(self) -> Colleagues | None:
        """Spawns and stops teammates, and has subagents; None if it may do neither."""

    def leave(self, reason: str) -> None:
        """End this agent after its turn: it agreed to shut down."""

    @property
    def leaving(self) -> str | None:
        """Why it ends after its turn, if it does; a driver then ends the turn at once."""

    def end_turn(self) -> None:
        """End this turn after the current call: there is nothing left to do."""


class Mailroom(Protocol):
    """The mail of an agent."""

    async def take_mail(self) -> Mail | None:
        """New mail, now marked as injected: add it to the next model request.

        Call it right before each model request of a turn except the first. None if there is none.
        """

    async def wait_mail(self) -> Mail:
        """Wait for mail during a turn, and take it as `take_mail` does."""

    async def seen(self, ids: Sequence[str]) -> None:
        """Record that a model request with these messages succeeded. Call it at once."""


class TaskWork(Protocol):
    """The tasks of an agent: started, completed and added."""

    @property
    def attempts(self) -> MutableMapping[str, int]:
        """The attempt of each task that this runner claimed, which proves that it owns it."""

    async def begin_task(self, task: Task) -> str | None:
        """Prepare its worktree for a task that it just claimed; returns what to tell the agent.

        Raises:
            Refused, Unavailable: it failed, and the task was given back.
        """

    async def complete(self, task_id: str, *, report: str | None) -> Done:
        """Complete one of its tasks if all checks pass and no hook refuses.

        Raises:
            Refused: checks_failed or hook_refused, with the output; or as `tasks.done` does.
        """

    async def add_task(self, draft: Draft) -> Task:
        """Add a task, unless a hook refuses it.

        Raises:
            Refused: hook_refused, with the feedback; or as `tasks.add` does.
        """


class Permissions(Protocol):
    """What an agent may do. Every tool call goes through it first."""

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """The input with which a tool may be called. The same for every driver.

        Hooks and the agent's policy decide. If someone has to be asked, it waits for the answer,
        which may change the input.

        Raises:
            Refused: the call is not allowed; the text says why and who decided.
        """

    def redacted(self, text: str) -> str:
        """The text without any secret of this agent's environment."""

    async def submit_plan(self, plan: str) -> str:
        """Request approval of a plan; returns what to tell the model."""


class Reporting(Protocol):
    """Where a driver reports what its agent does."""

    def doing(self, tool: str | None, detail: str = "") -> None:
        """Report the current tool with a short detail, or None for thinking."""

    def waiting(self, on: str) -> AbstractContextManager[None]:
        """Report that it waits for someone while the context lasts."""

    async def called(self, call: Call, text: str, *, failed: bool) -> str:
        """Report the result of a call. Returns the text for the model; hooks may add to it."""

    def note_repeats(self, call: Call, text: str, *, failed: bool) -> str:
        """Report every call that the model made, also a refused one, with what it is to read.

        Returns that text; a model that repeats itself is told so in it. If it does not stop, the
        turn ends.
        """

    def record(self, kind: str, **data: Any) -> None:
        """Add a line to the transcript. A later crash does not lose it."""

    def used(self, usage: Usage, *, calls: Sequence[str] = (), model: str | None = None) -> None:
        """Report the usage of one model request, and which tools its answer calls.

        The tools tell work on a task from coordination. `model` is the model that answered, if it
        is not the agent's own. Report before the next `may_spend`.
        """

    def filled(self, tokens: int, *, window: int, model: str | None = None) -> None:
        """Report how many tokens of the model's context window the last request took.

        `model` is the name with which the API answered, if it is not the one that was asked for.
        """

    def wrote(self, to: str, summary: str) -> None:
        """Report that it wrote to a member whose answer it may wait for.

        The lead sees messages to teammates in the idle notice.
        """


class Runtime(Protocol):
    """What only an agent has that Bullpen runs."""

    @property
    def mode(self) -> Mode:
        """Its current permission mode."""

    @property
    def folder(self) -> Path:
        """Its own folder, which outlives the process: history, output of commands."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment for everything that it starts."""

    def hides(self, path: str) -> bool:
        """Whether a rule denies reading this file."""

    @property
    def turn_is_over(self) -> bool:
        """Whether a driver must end the turn at once: the agent leaves, or called `end_turn`."""

    def next_request(self) -> None:
        """Call it before each new request of a turn, to count it and the calls of the last answer.

        A driver that cannot tell the requests of a turn apart does not call it.

        Raises:
            TurnFailed: the model repeats itself, or has made too many requests.
        """

    async def may_spend(self) -> None:
        """Call it before each model request: records the usage so far.

        Raises:
            Refused: a budget is used up; the turn is over.
        """

    async def briefing(self) -> str:
        """The whole state of the team, to be added to the next model request.

        Call it when the conversation lost what the model was told: compacted, or started anew.
        """

    async def enter_plan_mode(self) -> None:
        """Only allow reading until a plan is approved."""

    async def ask_person(self, questions: Sequence[Mapping[str, Any]]) -> str:
        """Ask a person and wait until the deadline for answers; returns what to tell the model.

        Raises:
            Refused: no_person, if nobody answers questions of this agent.
        """

    def wake_later(self, seconds: float, note: str) -> None:
        """Give this agent another turn in this many seconds, starting with the note."""

    def wake(self, note: str) -> None:
        """Give this agent another turn soon, starting with the note: a job has ended."""


class TeamDesk(Identity, Mailroom, TaskWork, Permissions, Protocol):
    """What every member has that calls the team's tools, whatever drives it."""


class Desk(TeamDesk, Reporting, Runtime, Protocol):
    """What a runner gives a driver: all parts."""
