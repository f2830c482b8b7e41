"""The desk of a member connected through MCP, whose program Bullpen does not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.config.trust import hooks_of_people
from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Colleagues, Mail
from bullpen.agents.mail.message_frame import mail_text
from bullpen.agents.mail.sorting import without_repeats
from bullpen.agents.runner.gate import surroundings
from bullpen.agents.system.secrets import Redactor
from bullpen.doors.actions.task_by_hand import TaskCommands
from bullpen.doors.actions.task_proof import proving
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.store.contract import Entry
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team

_MESSAGES_MAX = 100
_CHARS_MAX = 200_000
"""How much mail fits into one result. One message always fits, however long it is."""


class MemberDesk:
    """The desk that our tools use for a member without a runner.

    The member has only the team tools; its own program governs everything else it does. With
    `marks` off, reading mail does not mark it.
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
        # Without our tools, so that it cannot have us run a command as a check.
        self.spec = AgentSpec.new(driver="mcp", backend="none", cwd=cwd, tools=[])
        self._env = env
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
        # Messages that this client was given, so that none is given twice.
        self._taken: set[str] = set()
        # Messages in the result that is being made, and in results that were sent. The client's
        # next call proves that it read the latter.
        self._in_hand: list[str] = []
        self._handed: list[str] = []

    @property
    def team(self) -> Team:
        """The team. Raises Refused (no_team) while there is none."""
        if self._team is None:
            raise Refused(
                "You are not in a team.",
                reason="no_team",
                remedy="Create one with TeamCreate, or start this server with --team.",
            )
        return self._team

    @property
    def is_bound(self) -> bool:
        """Whether it has a team."""
        return self._team is not None

    def bind(self, team: Team | None) -> None:
        """Switch to this team, or to none."""
        self._team = team
        self.attempts.clear()
        self.new_client()

    def new_client(self) -> None:
        """Start over for another program: mail that the last one did not read is given again."""
        self._taken.clear()
        self._in_hand.clear()
        self._handed.clear()

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """Allow team tools, under the member's own name. Raises Refused for all others."""
        if call.kind == "team":
            return call.input
        raise Refused(
            f"A program connected through MCP may not use {call.tool}.",
            reason="denied",
            remedy="Use your own tools, or ask a person.",
        )

    def redacted(self, text: str) -> str:
        """The text without any secret of the environment."""
        return self._redactor.text(text)

    async def submit_plan(self, plan: str) -> str:
        """Ask the lead to approve a plan; a person approves the lead's own plans."""
        request = await self.team.approvals.ask_plan(
            self.redacted(plan), by=self.agent, approver="human" if self.is_lead else None
        )
        whom = "a person" if self.is_lead else "the lead"
        return (
            f"Your plan is waiting for approval by {whom} (request {request.id}). Do not change"
            " anything yet. The answer comes as mail: call WaitForMail."
        )

    async def begin_task(self, task: Task) -> None:
        """Note the task. Nothing to prepare: the program chooses its own directory."""
        self.attempts[task.id] = task.facts.attempt

    async def complete(self, task_id: str, *, report: str | None) -> Done:
        """Complete a task if its checks pass and no hook refuses."""
        door = await self._door()
        proof = await proving(door, task_id, cwd=None, tell=lambda _: None)
        return await proof.complete(task_id, attempt=self.attempts.get(task_id), report=report)

    async def add_task(self, draft: Draft) -> Task:
        """Add a task, unless a hook refuses it."""
        return await (await self._door()).add_draft(draft)

    async def _door(self) -> TaskCommands:
        env = {**self._env, "BULLPEN_HOME": str(self._home)}
        user_home = Path(surroundings(self._home, env).user_home)
        hooks = await to_thread.run_sync(
            lambda: hooks_of_people(Path(self.spec.cwd), user_home=user_home, home=self._home)
        )
        return TaskCommands(self.team, self.agent, "agent", self.spec.cwd, env, self._warn, hooks)

    async def unread(self) -> tuple[Entry, ...]:
        """The mail that this client has not been given yet."""
        box = await self.team.mailbox.read(self.agent)
        return tuple(entry for entry in box.unread if entry.id not in self._taken)

    async def take_mail(self) -> Mail | None:
        """New mail, as much as fits. It is marked as injected unless `marks` is off."""
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
        return mail_text(messages, config.roster)

    async def wait_mail(self) -> Mail:
        """Wait for mail and take it."""
        with self.waiting("mail"):
            async with aclosing(self.team.changes(agent=self.agent)) as changes:
                async for _ in changes:
                    if mail := await self.take_mail():
                        return mail
        raise Refused("The team was deleted.", reason="no_team", remedy="Stop waiting for mail.")

    def hand_over(self) -> None:
        """Note that the result with the taken mail is being sent."""
        self._handed += self._in_hand
        self._in_hand.clear()

    async def acknowledge(self) -> None:
        """Mark the mail of earlier results as seen, because the client made another call."""
        ids, self._handed = self._handed, []
        if self._marks:
            await self.seen(ids)

    async def seen(self, ids: Sequence[str]) -> None:
        """Record that the model has read these messages."""
        if ids:
            await self.team.mailbox.mark(self.agent, list(ids), "seen")

    @contextmanager
    def waiting(self, on: str) -> Iterator[None]:
        """Show that the member is waiting while the context lasts."""
        self.waits_on = on
        try:
            yield
        finally:
            self.waits_on = None

    def leave(self, reason: str) -> None:
        """Leave the team after this call, because the member agreed to a shutdown."""
        self.leaving = reason

    def end_turn(self) -> None:
        """Do nothing: its own program has its turns."""


def _fitting(entries: Sequence[Entry]) -> list[Entry]:
    """The first entries, as many as fit into one result."""
    fitting: list[Entry] = []
    chars = 0
    for entry in entries[:_MESSAGES_MAX]:
        chars += len(entry.message.text)
        if fitting and chars > _CHARS_MAX:
            break
        fitting.append(entry)
    return fitting
