"""The desk of a member whose program is not ours: it came by itself and calls our tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.drivers.base import Colleagues, Mail
from bullpen.agents.frame import mail_text
from bullpen.agents.gate import surroundings
from bullpen.agents.policy.call import Call
from bullpen.agents.secrets import Redactor
from bullpen.agents.task_door import TaskDoor
from bullpen.agents.triage import without_repeats
from bullpen.agents.trust import hooks_of_people
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Mode
from bullpen.protocol.task import Task
from bullpen.store.base import Entry
from bullpen.team.rules import Done
from bullpen.team.team import Team

_MESSAGES_MAX = 100
_CHARS_MAX = 200_000
"""So much mail goes into one result. There is always room for one message, however long."""


class MemberDesk:
    """What the tools get of a member that no runner of ours drives.

    It has the tools of the team and no others: what its program does beside them is governed by
    that program. With `marks` off, its mail is read without a trace.
    """

    def __init__(
        self,
        agent: str,
        *,
        cwd: str,
        home: Path,
        env: Mapping[str, str],
        marks: bool,
        warn: Callable[[str], object],
    ) -> None:
        self.agent = agent
        self.is_lead = agent == LEAD
        # Without tools of ours: what it states as a check must not be a command.
        self.spec = AgentSpec.new(driver="mcp", backend="none", cwd=cwd, tools=[])
        self.folder = home / "mcp"
        self.env = env
        self.colleagues: Colleagues | None = None
        self.attempts: dict[str, int] = {}
        self.leaving: str | None = None
        self.waits_on: str | None = None
        self._home = home
        self._marks = marks
        self._warn = warn
        self._team: Team | None = None
        self._redactor = Redactor(env)
        self._taking = anyio.Lock()
        # Given to this client, so that the same is not given twice.
        self._taken: set[str] = set()
        # In a result that is being made, then in one that has gone out: the next call proves that
        # it was read.
        self._in_hand: list[str] = []
        self._handed: list[str] = []

    @property
    def team(self) -> Team:
        """The team. Raises Refused (no_team) while there is none."""
        if self._team is None:
            raise Refused(
                "You are in no team.",
                reason="no_team",
                remedy="Make one with TeamCreate, or have this server started with --team.",
            )
        return self._team

    @property
    def is_bound(self) -> bool:
        """Whether it has a team."""
        return self._team is not None

    def bind(self, team: Team | None) -> None:
        """Work in this team from now on, or in none."""
        self._team = team
        self.attempts.clear()
        self.new_client()

    def new_client(self) -> None:
        """Another program begins here: what the one before had not read is given again."""
        self._taken.clear()
        self._in_hand.clear()
        self._handed.clear()

    @property
    def mode(self) -> Mode:
        """It has no tools that a mode could forbid."""
        return "default"

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """Allow what only acts on the team, under its own name. Raises Refused for the rest."""
        if call.kind == "team":
            return call.input
        raise Refused(
            f"A program that is connected by MCP may not have {call.tool} called for it.",
            reason="denied",
            remedy="Do it with your own tools, or ask a person.",
        )

    async def called(self, call: Call, text: str, *, failed: bool) -> str:
        """Hooks for tools belong to agents that we run."""
        return text

    def hides(self, path: str) -> bool:
        """It has no tools that look at files."""
        return True

    def redacted(self, text: str) -> str:
        """The text without any secret of the environment."""
        return self._redactor.text(text)

    async def may_spend(self) -> None:
        """What it spends is not ours to know."""

    async def enter_plan_mode(self) -> None:
        """Refuse it: nobody here could keep its program from changing files."""
        raise Refused(
            "Your program is not run by Bullpen, which cannot keep it in plan mode.",
            reason="not_enforced",
            remedy="Plan in your own program, and submit the plan with ExitPlanMode.",
        )

    async def submit_plan(self, plan: str) -> str:
        """Ask the lead for approval of a plan; of the lead's own, ask a person."""
        request = await self.team.approvals.ask_plan(
            self.redacted(plan), by=self.agent, approver="human" if self.is_lead else None
        )
        whom = "a person" if self.is_lead else "the lead"
        return (
            f"Your plan waits for the approval of {whom} (request {request.id}). Change nothing"
            " yet: the answer comes as mail, so call WaitForMail."
        )

    async def begin_task(self, task: Task) -> None:
        """Where its program works is not ours to get ready."""

    async def complete(self, task_id: str, *, report: str | None) -> Done:
        """Complete a task, if its checks pass and no hook refuses."""
        door = await self._door()
        proving = await door.proving(task_id, cwd=None, tell=lambda _: None)
        return await proving.complete(task_id, attempt=self.attempts.get(task_id), report=report)

    async def created(self, task: Task) -> None:
        """Tell the hooks of a new task; it is removed again if one refuses."""
        await (await self._door()).created(task)

    async def _door(self) -> TaskDoor:
        env = {**self.env, "BULLPEN_HOME": str(self._home)}
        user_home = Path(surroundings(self._home, env).user_home)
        hooks = await to_thread.run_sync(
            lambda: hooks_of_people(Path(self.spec.cwd), user_home=user_home, home=self._home)
        )
        return TaskDoor(
            self.team, self.agent, "agent", self.spec.cwd, env, self._warn, hooks, self.spec
        )

    async def unread(self) -> tuple[Entry, ...]:
        """The mail that this client was not given yet."""
        box = await self.team.mailbox.read(self.agent)
        return tuple(entry for entry in box.unread if entry.id not in self._taken)

    async def take_mail(self) -> Mail | None:
        """The mail that came since, as much as fits; recorded as injected unless it only reads."""
        async with self._taking:
            entries = _fitting(await self.unread())
            if not entries:
                return None
            ids = tuple(entry.id for entry in entries)
            text = await self._framed(entries)
            if self._marks:
                await self.team.mailbox.mark(self.agent, ids, "injected")
            self._taken.update(ids)
            self._in_hand += ids
            return Mail(text, ids)

    async def _framed(self, entries: Sequence[Entry]) -> str:
        config = await self.team.agents.config()
        messages = [entry.message for entry in without_repeats(entries)]
        return mail_text(messages, config.roster, reader=self.agent, leads=self.is_lead)

    async def wait_mail(self) -> Mail:
        """Wait for mail, and take it."""
        with self.waiting("mail"):
            async with aclosing(self.team.changes(agent=self.agent)) as changes:
                async for _ in changes:
                    if mail := await self.take_mail():
                        return mail
        raise Refused("The team is gone.", reason="no_team", remedy="Nothing more can come.")

    def hand_over(self) -> None:
        """The result with the mail that was taken goes out now."""
        self._handed += self._in_hand
        self._in_hand.clear()

    async def acknowledge(self) -> None:
        """The client calls again: it has read what the results before held."""
        ids, self._handed = self._handed, []
        if self._marks:
            await self.seen(ids)

    async def seen(self, ids: Sequence[str]) -> None:
        """Record that the model has read these messages."""
        if ids:
            await self.team.mailbox.mark(self.agent, list(ids), "seen")

    def doing(self, tool: str | None, detail: str = "") -> None:
        """What it does between two calls is not ours to see."""

    @contextmanager
    def waiting(self, on: str) -> Iterator[None]:
        """Show that it waits, as long as the context lasts."""
        self.waits_on = on
        try:
            yield
        finally:
            self.waits_on = None

    def record(self, kind: str, **data: Any) -> None:
        """Its program keeps its own transcript. What it does to the team is in the team's log."""

    def used(self, usage: Usage, *, calls: Sequence[str] = ()) -> None:
        """It reports no usage."""

    def filled(self, tokens: int, *, window: int) -> None:
        """It reports no context."""

    def wrote(self, to: str, summary: str) -> None:
        """Nobody reminds it."""

    def wake_later(self, seconds: float, note: str) -> None:
        """Nobody here can give it a turn."""
        raise Refused("Your program takes its own turns.", reason="not_ours")

    def wake(self, note: str) -> None:
        """Nobody here can give it a turn."""
        raise Refused("Your program takes its own turns.", reason="not_ours")

    def leave(self, reason: str) -> None:
        """Leave the team when this call is over: it agreed to a shutdown."""
        self.leaving = reason


def _fitting(entries: Sequence[Entry]) -> list[Entry]:
    """The first of them, as many as go into one result."""
    fitting: list[Entry] = []
    chars = 0
    for entry in entries[:_MESSAGES_MAX]:
        chars += len(entry.message.text)
        if fitting and chars > _CHARS_MAX:
            break
        fitting.append(entry)
    return fitting
